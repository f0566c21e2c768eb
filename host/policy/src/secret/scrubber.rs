use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};

use aho_corasick::Anchored;
use aho_corasick::automaton::{Automaton as _, StateID};
use aho_corasick::nfa::contiguous::NFA;
use anyhow::Context;

use super::{Secrets, encodings};

/// A piece must also be half of the value, so a value split into two messages is gone from at least one.
const PIECE_BYTES_MIN: usize = 8;
/// Every half of these is searched for: the automaton grows with the square.
const HALVES_OF_BYTES_MAX: usize = 64;
/// Pieces of these are searched for.
const PIECES_OF_BYTES_MAX: usize = 512;

/// Long texts are searched for in chunks of the largest size that fits, and in no other form. Sizes are few, because
/// patterns that end in each other cost memory with the square of their lengths.
const CHUNK_BYTES: [usize; 6] = [256, 128, 64, 32, 16, 8];

/// Programs put these between the digits of an encoded value.
const SEPARATORS: &[u8] = b" \t\r\n:-";
/// Consecutive separators within a value.
const SEPARATORS_MAX: usize = 8;

/// Replaces all forms of values with labels, in one pass.
pub struct Scrubber {
    /// Finds values, and forms without separators.
    plain: Automaton,
    /// Skips separators, which have no meaning in these forms.
    folded: Option<Automaton>,
    labels: Vec<Arc<str>>,
}

pub(super) struct SearchedValue<'a> {
    pub(super) value: &'a [u8],
    pub(super) label: &'a str,
    pub(super) look: SearchMode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SearchMode {
    Forms,
    /// The automaton has one state for each byte.
    Chunks,
}

struct Automaton {
    nfa: NFA,
    start: StateID,
    label_of: Vec<usize>,
    longest: usize,
}

impl Automaton {
    fn new(patterns: &[Vec<u8>], label_of: Vec<usize>) -> anyhow::Result<Self> {
        let longest = patterns.iter().map(Vec::len).max().unwrap_or(1);
        let nfa = NFA::builder()
            .ascii_case_insensitive(true)
            .build(patterns)
            .context("cannot build an automaton")?;
        let start = nfa
            .start_state(Anchored::No)
            .context("cannot start an automaton")?;
        Ok(Self {
            nfa,
            start,
            label_of,
            longest,
        })
    }

    fn next(&self, state: StateID, byte: u8) -> StateID {
        self.nfa.next_state(Anchored::No, state, byte)
    }

    /// Length and label of the longest pattern, which the automaton lists first.
    fn ended(&self, state: StateID) -> Option<(usize, usize)> {
        if !self.nfa.is_match(state) {
            return None;
        }
        let longest = self.nfa.match_pattern(state, 0);
        Some((
            self.nfa.pattern_len(longest),
            *self.label_of.get(longest.as_usize())?,
        ))
    }
}

impl Scrubber {
    /// Fails only if an automaton cannot hold everything.
    pub(super) fn new<'a>(
        needles: impl IntoIterator<Item = SearchedValue<'a>>,
    ) -> anyhow::Result<Self> {
        let mut labels = Vec::<Arc<str>>::new();
        let mut known = HashMap::new();
        let mut plain = (Vec::new(), Vec::new());
        let mut folded = (Vec::new(), Vec::new());
        for SearchedValue { value, label, look } in needles {
            let at = *known.entry(label).or_insert_with(|| {
                labels.push(label.into());
                labels.len() - 1
            });
            let add = |(patterns, label_of): &mut (Vec<_>, Vec<_>), found: Vec<Vec<u8>>| {
                label_of.resize(label_of.len() + found.len(), at);
                patterns.extend(found);
            };
            match look {
                SearchMode::Forms => {
                    add(&mut plain, all_forms(value));
                    add(&mut folded, encodings::folded(value));
                }
                SearchMode::Chunks => add(&mut plain, chunks(value)),
            }
        }
        let automaton =
            |(patterns, label_of): (Vec<Vec<u8>>, Vec<usize>)| Automaton::new(&patterns, label_of);
        let folded = (!folded.0.is_empty())
            .then(|| automaton(folded))
            .transpose()?;
        Ok(Self {
            plain: automaton(plain)?,
            folded,
            labels,
        })
    }

    /// Built once, in time proportional to the bytes.
    pub fn of_secrets(secrets: &Secrets) -> anyhow::Result<Arc<Self>> {
        let kept = secrets.scrubber();
        if let Some(known) = kept.and_then(OnceLock::get) {
            return Ok(Arc::clone(known));
        }
        let labels: Vec<String> = secrets.iter().map(|(name, _)| label(name)).collect();
        let built =
            Self::new(
                secrets
                    .iter()
                    .zip(&labels)
                    .map(|((_, value), label)| SearchedValue {
                        value: value.expose().as_bytes(),
                        label,
                        look: SearchMode::Forms,
                    }),
            );
        let built = Arc::new(built?);
        Ok(kept.map_or_else(
            || Arc::clone(&built),
            |kept| Arc::clone(kept.get_or_init(|| Arc::clone(&built))),
        ))
    }

    /// `None` if no value was found.
    pub fn scrub(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.scrub_noting(bytes, |_| ())
    }

    /// `label` gets each label that was put.
    pub(super) fn scrub_noting(
        &self,
        bytes: &[u8],
        mut label: impl FnMut(&str),
    ) -> Option<Vec<u8>> {
        if !self.finds(bytes) {
            return None;
        }
        let mut scrubbed = Vec::with_capacity(bytes.len());
        let mut stream = PendingBytes::new(self);
        stream.push(self, bytes, &mut scrubbed);
        stream.finish(self, &mut scrubbed);
        let put = stream.put.iter().filter_map(|at| self.labels.get(*at));
        put.for_each(|put| label(put));
        Some(scrubbed)
    }

    fn finds(&self, bytes: &[u8]) -> bool {
        let mut state = self.plain.start;
        let plain = bytes.iter().any(|byte| {
            state = self.plain.next(state, *byte);
            self.plain.nfa.is_match(state)
        });
        plain
            || self.folded.as_ref().is_some_and(|folded| {
                let mut fold = FoldedSearch::new(folded);
                bytes
                    .iter()
                    .enumerate()
                    .any(|(at, byte)| fold.push(folded, at as u64, *byte).is_some())
            })
    }
}

/// Finds values that are split between chunks.
pub struct ScrubStream {
    scrubber: Arc<Scrubber>,
    pending: PendingBytes,
}

impl ScrubStream {
    pub fn new(scrubber: Arc<Scrubber>) -> Self {
        let pending = PendingBytes::new(&scrubber);
        Self { scrubber, pending }
    }

    /// Returns what can no longer be part of a value.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(chunk.len());
        self.pending.push(&self.scrubber, chunk, &mut out);
        out
    }

    pub fn finish(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.pending.finish(&self.scrubber, &mut out);
        out
    }

    pub fn found(&self) -> bool {
        self.pending.found
    }
}

struct FoldedSearch {
    state: StateID,
    /// Positions of non-separators, as many as the longest pattern has.
    places: VecDeque<u64>,
    separators: usize,
}

impl FoldedSearch {
    fn new(automaton: &Automaton) -> Self {
        Self {
            state: automaton.start,
            places: VecDeque::new(),
            separators: 0,
        }
    }

    /// Start and label of the longest form that ends at `at`.
    fn push(&mut self, automaton: &Automaton, at: u64, byte: u8) -> Option<(u64, usize)> {
        if SEPARATORS.contains(&byte) && self.state != automaton.start {
            self.separators += 1;
            if self.separators <= SEPARATORS_MAX {
                return None;
            }
            self.state = automaton.start;
        }
        self.separators = 0;
        self.state = automaton.next(self.state, byte);
        if self.state == automaton.start {
            self.places.clear();
            return None;
        }
        self.places.push_back(at);
        if self.places.len() > automaton.longest {
            self.places.pop_front();
        }
        let (length, label) = automaton.ended(self.state)?;
        let from = self
            .places
            .len()
            .checked_sub(length)
            .and_then(|first| self.places.get(first))?;
        Some((*from, label))
    }

    fn is_idle(&self, automaton: &Automaton) -> bool {
        self.state == automaton.start
    }
}

struct ReplacedRange {
    from: u64,
    to: u64,
    label: usize,
}

/// Bytes that may still be part of a value.
struct PendingBytes {
    state: StateID,
    fold: Option<FoldedSearch>,
    window: VecDeque<u8>,
    /// Position of the window's first byte.
    first: u64,
    /// Sorted and disjoint.
    covered: VecDeque<ReplacedRange>,
    /// Label of the bytes that pass now.
    open: Option<usize>,
    /// Labels so far, each once.
    put: Vec<usize>,
    found: bool,
}

impl PendingBytes {
    fn new(scrubber: &Scrubber) -> Self {
        Self {
            state: scrubber.plain.start,
            fold: scrubber.folded.as_ref().map(FoldedSearch::new),
            window: VecDeque::new(),
            first: 0,
            covered: VecDeque::new(),
            open: None,
            put: Vec::new(),
            found: false,
        }
    }

    fn push(&mut self, scrubber: &Scrubber, bytes: &[u8], out: &mut Vec<u8>) {
        for byte in bytes {
            let at = self.first + self.window.len() as u64;
            self.window.push_back(*byte);
            self.state = scrubber.plain.next(self.state, *byte);
            if let Some((length, label)) = scrubber.plain.ended(self.state) {
                self.cover((at + 1).saturating_sub(length as u64), at + 1, label);
            }
            let mut kept = if self.state == scrubber.plain.start {
                0
            } else {
                scrubber.plain.longest - 1
            };
            if let (Some(fold), Some(folded)) = (&mut self.fold, &scrubber.folded) {
                let found = fold.push(folded, at, *byte);
                // In the start state no form has begun, so that nothing is held back.
                let begun = fold
                    .places
                    .front()
                    .filter(|_| !fold.is_idle(folded))
                    .map_or(0, |begun| at + 1 - begun);
                kept = kept.max(usize::try_from(begun).unwrap_or(usize::MAX));
                if let Some((from, label)) = found {
                    self.cover(from, at + 1, label);
                }
            }
            while self.window.len() > kept {
                self.pop(scrubber, out);
            }
        }
    }

    /// No other range ends later. Ranges within are merged, so that each is added and removed once.
    fn cover(&mut self, from: u64, to: u64, label: usize) {
        self.found = true;
        let mut from = from.max(self.first);
        while self.covered.back().is_some_and(|last| last.from >= from) {
            self.covered.pop_back();
        }
        if let Some(last) = self.covered.back_mut().filter(|last| last.to > from) {
            if last.label == label {
                last.to = last.to.max(to);
                return;
            }
            from = last.to;
        }
        if from < to {
            self.covered.push_back(ReplacedRange { from, to, label });
        }
    }

    fn finish(&mut self, scrubber: &Scrubber, out: &mut Vec<u8>) {
        while !self.window.is_empty() {
            self.pop(scrubber, out);
        }
        *self = Self {
            first: self.first,
            found: self.found,
            put: std::mem::take(&mut self.put),
            ..Self::new(scrubber)
        };
    }

    fn pop(&mut self, scrubber: &Scrubber, out: &mut Vec<u8>) {
        let Some(byte) = self.window.pop_front() else {
            return;
        };
        let at = self.first;
        self.first += 1;
        while self.covered.front().is_some_and(|covered| covered.to <= at) {
            self.covered.pop_front();
        }
        let label = self
            .covered
            .front()
            .filter(|covered| covered.from <= at)
            .map(|covered| covered.label);
        match label {
            None => out.push(byte),
            Some(label) if self.open == Some(label) => {}
            Some(label) => {
                if !self.put.contains(&label) {
                    self.put.push(label);
                }
                let label = scrubber.labels.get(label);
                out.extend_from_slice(label.map_or(&[][..], |label| label.as_bytes()));
            }
        }
        self.open = label;
    }
}

pub(super) fn label(name: &str) -> String {
    format!("[secret {name}]")
}

fn all_forms(value: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = encodings::forms(value);
    if value.len() <= PIECES_OF_BYTES_MAX {
        forms.extend(pieces(value).map(<[u8]>::to_vec));
    }
    forms
}

/// Every half of a short value, or a quarter from each eighth on of a longer one: any half has a piece, and all pieces
/// together have less than twice the bytes.
fn pieces(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (piece, step) = if value.len() <= HALVES_OF_BYTES_MAX {
        ((value.len() / 2).max(PIECE_BYTES_MIN), 1)
    } else {
        (value.len() / 4, value.len() / 8)
    };
    value.windows(piece).step_by(step)
}

/// The last chunk overlaps, so that no end is left.
fn chunks(value: &[u8]) -> Vec<Vec<u8>> {
    let size = CHUNK_BYTES
        .into_iter()
        .find(|size| *size <= value.len())
        .unwrap_or(value.len().max(1));
    let last = value.len().saturating_sub(size);
    let chunks = value.chunks_exact(size).chain(value.get(last..));
    chunks.map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::{PIECES_OF_BYTES_MAX, ScrubStream, Scrubber, SearchMode, SearchedValue, pieces};
    use std::sync::Arc;

    const VALUE: &str = "sk-live-4f9/aB+cD~eF0123";

    fn scrubber() -> Scrubber {
        let needle = |value: &'static str, label| SearchedValue {
            value: value.as_bytes(),
            label,
            look: SearchMode::Forms,
        };
        Scrubber::new([
            needle(VALUE, "[secret KEY]"),
            needle("another-value-0", "[secret OTHER]"),
        ])
        .unwrap()
    }

    fn scrubbed(text: &str) -> String {
        let scrubbed = scrubber()
            .scrub(text.as_bytes())
            .unwrap_or_else(|| text.as_bytes().to_vec());
        String::from_utf8(scrubbed).unwrap()
    }

    #[test]
    fn a_value_gives_way_to_its_label_and_all_else_stays() {
        assert_eq!(scrubbed(&format!("a {VALUE}, b")), "a [secret KEY], b");
        assert_eq!(
            scrubbed(&format!("{VALUE}{VALUE}another-value-0")),
            "[secret KEY][secret OTHER]"
        );
        assert_eq!(
            scrubbed(&format!("{}|", VALUE.to_ascii_uppercase())),
            "[secret KEY]|"
        );
        assert_eq!(scrubbed("sk-live-"), "sk-live-");
        assert!(scrubber().scrub(b"nothing of it").is_none());
    }

    #[test]
    fn half_of_a_value_gives_way_too() {
        let (first, second) = VALUE.split_at(12);
        assert_eq!(scrubbed(&format!("one {first}.")), "one [secret KEY].");
        assert_eq!(scrubbed(&format!("two {second}.")), "two [secret KEY].");
        assert_eq!(
            scrubbed(&format!("most {}.", &VALUE[3..])),
            "most [secret KEY]."
        );
    }

    #[test]
    fn of_any_half_of_a_long_value_little_is_left() {
        for length in [65, 100, 255, PIECES_OF_BYTES_MAX] {
            let numbers: String = (0..length as u64)
                .map(|n| format!("{:x},", n * 0x9e37_79b9))
                .collect();
            let value = &numbers[..length];
            let scrubber = Scrubber::new([SearchedValue {
                value: value.as_bytes(),
                label: "",
                look: SearchMode::Forms,
            }])
            .unwrap();
            for from in 0..=length / 2 {
                let half = &value.as_bytes()[from..from + length / 2];
                let left = scrubber.scrub(half).unwrap_or_else(|| half.to_vec());
                assert!(
                    left.len() <= 2 * (length / 8),
                    "{length} bytes, {} are left",
                    left.len()
                );
            }
        }
    }

    #[test]
    fn the_pieces_of_a_value_grow_with_its_bytes() {
        for length in [0, 7, 8, 64, 65, PIECES_OF_BYTES_MAX] {
            let bytes: usize = pieces(&vec![0; length]).map(<[u8]>::len).sum();
            assert!(bytes <= 20 * length, "{bytes} of {length}");
        }
    }

    #[test]
    fn a_value_that_is_split_between_chunks_is_found_wherever_it_is_split() {
        let encoded = data_encoding::BASE64.encode(format!("user:{VALUE}").as_bytes());
        let text = format!("before {VALUE} between {encoded} after");
        let whole = scrubbed(&text);
        assert!(!whole.contains("sk-live"));
        for size in 1..text.len() {
            let mut stream = ScrubStream::new(Arc::new(scrubber()));
            let mut out = Vec::new();
            for chunk in text.as_bytes().chunks(size) {
                out.extend(stream.push(chunk));
            }
            out.extend(stream.finish());
            assert_eq!(
                String::from_utf8(out).unwrap(),
                whole,
                "in chunks of {size}"
            );
            assert!(stream.found());
        }
    }

    #[test]
    fn a_value_with_separators_between_its_digits_is_found_wherever_it_is_split() {
        let hex: Vec<String> = VALUE.bytes().map(|byte| format!("{byte:02x}")).collect();
        let encoded = data_encoding::BASE64.encode(VALUE.as_bytes());
        let (first, second) = encoded.split_at(13);
        let text = format!("a {} b {first}\r\n  {second} c {VALUE}", hex.join(":"));
        let whole = scrubbed(&text);
        assert!(
            whole.starts_with("a [secret KEY] b [secret KEY]")
                && whole.ends_with(" c [secret KEY]"),
            "{whole}"
        );
        for size in 1..text.len() {
            let mut stream = ScrubStream::new(Arc::new(scrubber()));
            let mut out: Vec<u8> = text
                .as_bytes()
                .chunks(size)
                .flat_map(|chunk| stream.push(chunk))
                .collect();
            out.extend(stream.finish());
            assert_eq!(
                String::from_utf8(out).unwrap(),
                whole,
                "in chunks of {size}"
            );
        }
    }

    #[test]
    fn a_value_that_overlaps_itself_everywhere_takes_linear_time() {
        let value = "a".repeat(8 << 10);
        let needle = SearchedValue {
            value: value.as_bytes(),
            label: "[secret KEY]",
            look: SearchMode::Forms,
        };
        let scrubber = Scrubber::new([needle]).unwrap();
        let began = std::time::Instant::now();
        assert_eq!(
            scrubber.scrub("a".repeat(4 << 20).as_bytes()).unwrap(),
            b"[secret KEY]"
        );
        assert!(
            began.elapsed() < std::time::Duration::from_secs(20),
            "{:?}",
            began.elapsed()
        );
    }

    #[test]
    fn a_long_text_is_found_in_chunks_also_where_only_some_of_it_is_there() {
        let text: String = (0..10_000).map(|n| format!("{n} ")).collect();
        let needle = SearchedValue {
            value: text.as_bytes(),
            label: "[redacted]",
            look: SearchMode::Chunks,
        };
        let scrubber = Scrubber::new([needle]).unwrap();
        let scrubbed =
            |text: &str| String::from_utf8(scrubber.scrub(text.as_bytes()).unwrap()).unwrap();
        assert_eq!(scrubbed(&format!("a {text}b")), "a [redacted]b");
        assert!(scrubbed(&text[5_000..9_000]).len() < 2 * 256 + 10);
    }

    #[test]
    fn what_can_be_no_part_of_a_value_is_not_held_back() {
        let mut stream = ScrubStream::new(Arc::new(scrubber()));
        assert_eq!(stream.push(b"plain text."), b"plain text.");
        assert_eq!(stream.push(b"sk-li"), b"", "it may be the beginning");
        assert_eq!(stream.push(b"ke this."), b"sk-like this.");
        assert!(!stream.found());
    }
}
