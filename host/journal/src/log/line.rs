//! One line of a segment: `CHAIN KIND ID PAYLOAD`, where CHAIN is a keyed hash of the chain of the line before it and of the
//! hash of the rest of this line, in 64 hexadecimal digits, and PAYLOAD is JSON without line breaks.

use blake3::Hash;
use serde::Serialize;
use zeroize::Zeroizing;

use toolcell_policy::secret::private_file::KEY_BYTES;

/// Length of CHAIN with the space after it.
const CHAIN_BYTES: usize = 65;
/// Space that a new line has for its payload, in bytes: the record of most calls fits.
const PAYLOAD_BYTES: usize = 8 << 10;
/// The ID of a line that is about no call.
pub(super) const NO_CALL: &str = "-";

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The first line of a segment.
    Opened,
    Started,
    /// A call that started waits for an answer, and is in the store of suspended calls: no process has to end it.
    Suspended,
    /// Events of a call that runs, or of no call.
    Noted,
    Ended,
    /// The end of a call from a segment that was removed: its caller had no more than its share of the log.
    Carried,
    /// A call ended, and its record is not kept.
    Dropped,
    /// The line before this one was incomplete, and was removed.
    Repaired,
    /// Segments were removed, because the log was too large or they were too old.
    Pruned,
}

impl Kind {
    fn letter(self) -> char {
        match self {
            Self::Opened => 'o',
            Self::Started => 's',
            Self::Suspended => 'w',
            Self::Noted => 'n',
            Self::Ended => 'e',
            Self::Carried => 'c',
            Self::Dropped => 'x',
            Self::Repaired => 'r',
            Self::Pruned => 'p',
        }
    }

    fn from_letter(letter: u8) -> Option<Self> {
        let all = [
            Self::Opened,
            Self::Started,
            Self::Suspended,
            Self::Noted,
            Self::Ended,
            Self::Carried,
            Self::Dropped,
            Self::Repaired,
            Self::Pruned,
        ];
        all.into_iter()
            .find(|kind| kind.letter() == char::from(letter))
    }
}

/// The chain before the first line of the segment `number`.
pub(super) fn beginning(key: &Zeroizing<[u8; KEY_BYTES]>, number: u64) -> Hash {
    blake3::keyed_hash(key, format!("segment {number}").as_bytes())
}

fn link(key: &Zeroizing<[u8; KEY_BYTES]>, before: &Hash, content: &Hash) -> Hash {
    let mut both = [0; 2 * blake3::OUT_LEN];
    let (first, second) = both.split_at_mut(blake3::OUT_LEN);
    first.copy_from_slice(before.as_bytes());
    second.copy_from_slice(content.as_bytes());
    blake3::keyed_hash(key, &both)
}

/// A line that does not know yet which line it follows.
pub(super) struct UnlinkedLine {
    pub(super) kind: Kind,
    /// The line, with room for its chain.
    line: Vec<u8>,
}

impl UnlinkedLine {
    /// A line with `payload`, which is JSON without line breaks.
    pub(super) fn from_text(kind: Kind, id: &str, payload: &str) -> Self {
        let mut line = begin(
            Vec::with_capacity(CHAIN_BYTES + 4 + id.len() + payload.len()),
            kind,
            id,
        );
        line.extend_from_slice(payload.as_bytes());
        Self { kind, line }
    }

    /// A line with `payload` as JSON.
    pub(super) fn from_payload(
        kind: Kind,
        id: &str,
        payload: &impl Serialize,
    ) -> serde_json::Result<Self> {
        let mut line = begin(Vec::with_capacity(PAYLOAD_BYTES), kind, id);
        serde_json::to_writer(&mut line, payload)?;
        Ok(Self { kind, line })
    }

    /// Hashes the content: before it is known which line it follows, because all calls of a process wait for each other
    /// from there on, and a line can have megabytes.
    pub(super) fn hashed(self) -> HashedLine {
        let content = blake3::hash(self.line.get(CHAIN_BYTES..).unwrap_or_default());
        HashedLine {
            kind: self.kind,
            line: self.line,
            content,
        }
    }
}

fn begin(mut line: Vec<u8>, kind: Kind, id: &str) -> Vec<u8> {
    line.resize(CHAIN_BYTES, b' ');
    line.push(kind.letter() as u8);
    line.push(b' ');
    line.extend_from_slice(id.as_bytes());
    line.push(b' ');
    line
}

/// A line without its chain.
pub(super) struct HashedLine {
    pub(super) kind: Kind,
    line: Vec<u8>,
    /// The hash of what follows the chain.
    content: Hash,
}

impl HashedLine {
    /// Returns the line that follows `before`, with its line break, and its chain.
    pub(super) fn after(self, before: &Hash, key: &Zeroizing<[u8; KEY_BYTES]>) -> (Vec<u8>, Hash) {
        let mut line = self.line;
        let chain = link(key, before, &self.content);
        if let Some(place) = line.get_mut(..CHAIN_BYTES - 1) {
            place.copy_from_slice(chain.to_hex().as_bytes());
        }
        line.push(b'\n');
        (line, chain)
    }
}

/// A line that was read.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) chain: Hash,
    pub(super) kind: Kind,
    pub(super) id: &'a str,
    pub(super) payload: &'a str,
    content: &'a [u8],
}

impl<'a> Line<'a> {
    /// Reads a line without its line break; `None` if it is damaged. Its chain is not checked.
    pub(super) fn read(line: &'a [u8]) -> Option<Self> {
        let (chain, content) = line.split_at_checked(CHAIN_BYTES)?;
        let chain = Hash::from_hex(chain.strip_suffix(b" ")?).ok()?;
        let text = str::from_utf8(content).ok()?;
        let (kind, rest) = text.split_at_checked(1)?;
        let (id, payload) = rest.strip_prefix(' ')?.split_once(' ')?;
        let kind = Kind::from_letter(*kind.as_bytes().first()?)?;
        Some(Self {
            chain,
            kind,
            id,
            payload,
            content,
        })
    }

    /// `true` if it is unchanged, and follows `before`.
    pub(super) fn follows(&self, key: &Zeroizing<[u8; KEY_BYTES]>, before: &Hash) -> bool {
        link(key, before, &blake3::hash(self.content)) == self.chain
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written_and_follows_one_line_only() {
        let key = Zeroizing::new([7; KEY_BYTES]);
        let id = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
        let payload = json!({ "a": "b\n c" });
        let first = beginning(&key, 1);
        let (bytes, chain) = UnlinkedLine::from_payload(Kind::Ended, id, &payload)
            .unwrap()
            .hashed()
            .after(&first, &key);
        let (same, _) = UnlinkedLine::from_text(Kind::Ended, id, &payload.to_string())
            .hashed()
            .after(&first, &key);
        assert_eq!(bytes, same);
        let line = Line::read(bytes.strip_suffix(b"\n").unwrap()).unwrap();
        assert_eq!(
            (line.kind, line.id, line.payload),
            (Kind::Ended, id, payload.to_string().as_str())
        );
        assert!(line.chain == chain && line.follows(&key, &first) && !line.follows(&key, &chain));
    }
}
