//! A segment's line: `CHAIN KIND ID PAYLOAD`, where CHAIN is a keyed hash of the chain of the line before and the hash
//! of the rest of this line, in 64 hexadecimal digits, and PAYLOAD is JSON without line breaks.

use blake3::Hash;
use serde::Serialize;

use super::Key;

const CHAIN_BYTES: usize = 65;
/// The record of most calls fits.
const PAYLOAD_BYTES: usize = 8 << 10;
pub(super) const NO_CALL: &str = "-";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Opened = b'o',
    Started = b's',
    /// The call waits for an answer, in the store of suspended calls: no process has to end it.
    Suspended = b'w',
    /// Events of a running call, or of none.
    Noted = b'n',
    Ended = b'e',
    /// An end from a removed segment: its caller was within its share of the log.
    Carried = b'c',
    /// A call ended without a kept record.
    Dropped = b'x',
    /// An incomplete line before was removed.
    Repaired = b'r',
    /// Segments were removed: the log was too large, or they were too old.
    Pruned = b'p',
}

impl Kind {
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
        all.into_iter().find(|kind| *kind as u8 == letter)
    }
}

pub(super) fn beginning(key: &Key, number: u64) -> Hash {
    blake3::keyed_hash(key, format!("segment {number}").as_bytes())
}

fn link(key: &Key, before: &Hash, content: &Hash) -> Hash {
    let mut both = [0; 2 * blake3::OUT_LEN];
    let (first, second) = both.split_at_mut(blake3::OUT_LEN);
    first.copy_from_slice(before.as_bytes());
    second.copy_from_slice(content.as_bytes());
    blake3::keyed_hash(key, &both)
}

/// Does not know yet which line it follows.
pub(super) struct NewLine {
    pub(super) kind: Kind,
    line: Vec<u8>,
    /// Hash of what follows the chain. Made early, because all calls of a process wait for each other from there on,
    /// and a line can have megabytes.
    content: Hash,
}

impl NewLine {
    /// `payload` is JSON without line breaks.
    pub(super) fn from_text(kind: Kind, id: &str, payload: &str) -> Self {
        let mut line = begin(payload.len(), kind, id);
        line.extend_from_slice(payload.as_bytes());
        Self::new(kind, line)
    }

    pub(super) fn from_payload(
        kind: Kind,
        id: &str,
        payload: &impl Serialize,
    ) -> serde_json::Result<Self> {
        let mut line = begin(PAYLOAD_BYTES, kind, id);
        serde_json::to_writer(&mut line, payload)?;
        Ok(Self::new(kind, line))
    }

    fn new(kind: Kind, line: Vec<u8>) -> Self {
        let content = blake3::hash(line.get(CHAIN_BYTES..).unwrap_or_default());
        Self {
            kind,
            line,
            content,
        }
    }

    pub(super) fn after(self, before: &Hash, key: &Key) -> (Vec<u8>, Hash) {
        let mut line = self.line;
        let chain = link(key, before, &self.content);
        if let Some(place) = line.get_mut(..CHAIN_BYTES - 1) {
            place.copy_from_slice(chain.to_hex().as_bytes());
        }
        line.push(b'\n');
        (line, chain)
    }
}

fn begin(payload_bytes: usize, kind: Kind, id: &str) -> Vec<u8> {
    let mut line = Vec::with_capacity(CHAIN_BYTES + 4 + id.len() + payload_bytes);
    line.resize(CHAIN_BYTES, b' ');
    line.extend_from_slice(&[kind as u8, b' ']);
    line.extend_from_slice(id.as_bytes());
    line.push(b' ');
    line
}

#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) chain: Hash,
    pub(super) kind: Kind,
    pub(super) id: &'a str,
    pub(super) payload: &'a str,
    content: &'a [u8],
}

impl<'a> Line<'a> {
    /// `None` if damaged; the chain is not checked.
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

    /// `true` if unchanged, and behind `before`.
    pub(super) fn follows(&self, key: &Key, before: &Hash) -> bool {
        link(key, before, &blake3::hash(self.content)) == self.chain
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use toolcell_policy::secret::private_file::KEY_BYTES;

    #[test]
    fn a_line_is_read_as_it_was_written_and_follows_one_line_only() {
        let key = Key::new([7; KEY_BYTES]);
        let id = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
        let payload = json!({ "a": "b\n c" });
        let first = beginning(&key, 1);
        let (bytes, chain) = NewLine::from_payload(Kind::Ended, id, &payload)
            .unwrap()
            .after(&first, &key);
        let (same, _) =
            NewLine::from_text(Kind::Ended, id, &payload.to_string()).after(&first, &key);
        assert_eq!(bytes, same);
        let line = Line::read(bytes.strip_suffix(b"\n").unwrap()).unwrap();
        assert_eq!(
            (line.kind, line.id, line.payload),
            (Kind::Ended, id, payload.to_string().as_str())
        );
        assert!(line.chain == chain && line.follows(&key, &first) && !line.follows(&key, &chain));
    }
}
