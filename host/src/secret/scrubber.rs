use std::collections::VecDeque;
use std::sync::Arc;

use aho_corasick::Anchored;
use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::contiguous::NFA;
use anyhow::Context;

use super::{Secrets, encodings};

/// A piece of a value is taken out too, if it has this many bytes and half of the value: so a value that was split
/// into two messages is gone from at least one of them, mostly from both.
const PIECE_BYTES_MIN: usize = 8;
/// Of values longer than this no pieces are looked for: the automaton grows with the square of it.
const PIECES_OF_BYTES_MAX: usize = 512;

/// Long texts are looked for in chunks of this many bytes, and in no other form.
const CHUNK_BYTES: usize = 256;

/// Finds values in every form of them, and puts labels in their place.
pub struct Scrubber {
    automaton: NFA,
    start: StateID,
    /// By pattern: an index of `labels`.
    label_of: Vec<usize>,
    labels: Vec<Arc<str>>,
    longest: usize,
}

/// What a scrubber looks for.
pub(super) struct Needle<'a> {
    pub(super) value: &'a [u8],
    pub(super) label: &'a str,
    pub(super) look: Look,
}

/// How a scrubber looks for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// In every encoding, and for pieces of it.
    Forms,
    /// As it is, chunk by chunk: the automaton has one state for each byte.
    Chunks,
}

impl Scrubber {
    /// An error only where there is more to look for than an automaton can hold.
    pub(super) fn new<'a>(needles: impl IntoIterator<Item = Needle<'a>>) -> anyhow::Result<Self> {
        let (mut patterns, mut label_of, mut labels) = (Vec::new(), Vec::new(), Vec::<Arc<str>>::new());
        for Needle { value, label, look } in needles {
            let at = labels.iter().position(|known| **known == *label).unwrap_or_else(|| {
                labels.push(label.into());
                labels.len() - 1
            });
            let found = match look {
                Look::Forms => all_forms(value),
                Look::Chunks => chunks(value),
            };
            label_of.resize(label_of.len() + found.len(), at);
            patterns.extend(found);
        }
        let longest = patterns.iter().map(Vec::len).max().unwrap_or(1);
        let automaton = NFA::builder().ascii_case_insensitive(true).build(&patterns).context("build an automaton")?;
        let start = automaton.start_state(Anchored::No).context("start an automaton")?;
        Ok(Self { automaton, start, label_of, labels, longest })
    }

    /// A scrubber of all values of `secrets`.
    pub fn of_secrets(secrets: &Secrets) -> anyhow::Result<Self> {
        let labels: Vec<String> = secrets.iter().map(|(name, _)| label(name)).collect();
        Self::new(secrets.iter().zip(&labels).map(|((_, value), label)| Needle {
            value: value.expose().as_bytes(),
            label,
            look: Look::Forms,
        }))
    }

    /// `bytes` with labels for what was found; `None` where nothing was.
    pub fn scrub(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        if !self.finds(bytes) {
            return None;
        }
        let mut scrubbed = Vec::with_capacity(bytes.len());
        let mut stream = Pending::new(self);
        stream.push(self, bytes, &mut scrubbed);
        stream.finish(self, &mut scrubbed);
        Some(scrubbed)
    }

    fn finds(&self, bytes: &[u8]) -> bool {
        let mut state = self.start;
        bytes.iter().any(|byte| {
            state = self.automaton.next_state(Anchored::No, state, *byte);
            self.automaton.is_match(state)
        })
    }

    /// The longest pattern that ends in `state`, and its label.
    fn ended(&self, state: StateID) -> Option<(usize, usize)> {
        if !self.automaton.is_match(state) {
            return None;
        }
        let patterns = (0..self.automaton.match_len(state)).map(|at| self.automaton.match_pattern(state, at));
        let longest = patterns.max_by_key(|pattern| self.automaton.pattern_len(*pattern))?;
        Some((self.automaton.pattern_len(longest), *self.label_of.get(longest.as_usize())?))
    }
}

/// Scrubs bytes that come in chunks: a value that is split between two of them is found all the same.
pub struct ScrubStream {
    scrubber: Arc<Scrubber>,
    pending: Pending,
}

impl ScrubStream {
    pub fn new(scrubber: Arc<Scrubber>) -> Self {
        let pending = Pending::new(&scrubber);
        Self { scrubber, pending }
    }

    /// What of `chunk`, and of what was held back before, can be no part of a value anymore.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(chunk.len());
        self.pending.push(&self.scrubber, chunk, &mut out);
        out
    }

    /// What is still held back.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.pending.finish(&self.scrubber, &mut out);
        out
    }

    /// Whether anything was taken out so far.
    pub fn found(&self) -> bool {
        self.pending.found
    }
}

/// Bytes that may still turn out to belong to a value.
struct Pending {
    state: StateID,
    /// Each byte with the label that covers it, if one does.
    window: VecDeque<(u8, Option<usize>)>,
    /// The label that was written last, while bytes that it covers go by.
    open: Option<usize>,
    found: bool,
}

impl Pending {
    fn new(scrubber: &Scrubber) -> Self {
        Self { state: scrubber.start, window: VecDeque::new(), open: None, found: false }
    }

    fn push(&mut self, scrubber: &Scrubber, bytes: &[u8], out: &mut Vec<u8>) {
        for byte in bytes {
            self.window.push_back((*byte, None));
            self.state = scrubber.automaton.next_state(Anchored::No, self.state, *byte);
            if let Some((length, label)) = scrubber.ended(self.state) {
                self.found = true;
                let from = self.window.len().saturating_sub(length);
                self.window.range_mut(from..).for_each(|(_, covered)| *covered = covered.or(Some(label)));
            }
            // In the start state nothing has begun: all that was held back is decided.
            let kept = if self.state == scrubber.start { 0 } else { scrubber.longest - 1 };
            while self.window.len() > kept {
                self.pop(scrubber, out);
            }
        }
    }

    fn finish(&mut self, scrubber: &Scrubber, out: &mut Vec<u8>) {
        while !self.window.is_empty() {
            self.pop(scrubber, out);
        }
        (self.state, self.open) = (scrubber.start, None);
    }

    fn pop(&mut self, scrubber: &Scrubber, out: &mut Vec<u8>) {
        let Some((byte, covered)) = self.window.pop_front() else { return };
        match covered {
            None => out.push(byte),
            Some(label) if self.open == Some(label) => {}
            Some(label) => {
                let label = scrubber.labels.get(label);
                out.extend_from_slice(label.map_or(&[][..], |label| label.as_bytes()));
            }
        }
        self.open = covered;
    }
}

/// What stands for the value of the secret `name`.
pub(super) fn label(name: &str) -> String {
    format!("[secret {name}]")
}

fn all_forms(value: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = encodings::forms(value);
    let piece = (value.len() / 2).max(PIECE_BYTES_MIN);
    if value.len() <= PIECES_OF_BYTES_MAX {
        forms.extend(value.windows(piece).map(<[u8]>::to_vec));
    }
    forms
}

/// The last chunk overlaps the one before it, so that no end is left.
fn chunks(value: &[u8]) -> Vec<Vec<u8>> {
    let last = value.len().saturating_sub(CHUNK_BYTES);
    let chunks = value.chunks_exact(CHUNK_BYTES).chain(value.get(last..));
    chunks.map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::{Look, Needle, ScrubStream, Scrubber};
    use std::sync::Arc;

    const VALUE: &str = "sk-live-4f9/aB+cD~eF0123";

    fn scrubber() -> Scrubber {
        let needle = |value: &'static str, label| Needle { value: value.as_bytes(), label, look: Look::Forms };
        Scrubber::new([needle(VALUE, "[secret KEY]"), needle("another-value-0", "[secret OTHER]")]).unwrap()
    }

    fn scrubbed(text: &str) -> String {
        let scrubbed = scrubber().scrub(text.as_bytes()).unwrap_or_else(|| text.as_bytes().to_vec());
        String::from_utf8(scrubbed).unwrap()
    }

    #[test]
    fn a_value_gives_way_to_its_label_and_all_else_stays() {
        assert_eq!(scrubbed(&format!("a {VALUE}, b")), "a [secret KEY], b");
        assert_eq!(scrubbed(&format!("{VALUE}{VALUE}another-value-0")), "[secret KEY][secret OTHER]");
        assert_eq!(scrubbed(&format!("{}|", VALUE.to_ascii_uppercase())), "[secret KEY]|");
        assert_eq!(scrubbed("sk-live-"), "sk-live-");
        assert!(scrubber().scrub(b"nothing of it").is_none());
    }

    #[test]
    fn half_of_a_value_gives_way_too() {
        let (first, second) = VALUE.split_at(12);
        assert_eq!(scrubbed(&format!("one {first}.")), "one [secret KEY].");
        assert_eq!(scrubbed(&format!("two {second}.")), "two [secret KEY].");
        assert_eq!(scrubbed(&format!("most {}.", &VALUE[3..])), "most [secret KEY].");
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
            assert_eq!(String::from_utf8(out).unwrap(), whole, "in chunks of {size}");
            assert!(stream.found());
        }
    }

    #[test]
    fn a_long_text_is_found_in_chunks_also_where_only_some_of_it_is_there() {
        let text: String = (0..10_000).map(|n| format!("{n} ")).collect();
        let needle = Needle { value: text.as_bytes(), label: "[redacted]", look: Look::Chunks };
        let scrubber = Scrubber::new([needle]).unwrap();
        let scrubbed = |text: &str| String::from_utf8(scrubber.scrub(text.as_bytes()).unwrap()).unwrap();
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
