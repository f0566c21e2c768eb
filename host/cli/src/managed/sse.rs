//! Server-sent events, as they arrive.

use anyhow::ensure;

/// Of one event, in bytes: a tool's input and more.
const EVENT_BYTES_MAX: usize = 16 << 20;

#[derive(Debug, Default)]
pub(super) struct SseReader {
    line: Vec<u8>,
    name: String,
    data: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct SseEvent {
    /// Can be empty.
    pub(super) name: String,
    pub(super) data: Vec<u8>,
}

impl SseReader {
    /// Returns the events that `bytes` complete.
    ///
    /// # Errors
    ///
    /// An event without an end.
    pub(super) fn read(&mut self, bytes: &[u8]) -> anyhow::Result<Vec<SseEvent>> {
        let mut events = Vec::new();
        let mut parts = bytes.split(|byte| *byte == b'\n');
        let first = parts.next().unwrap_or_default();
        self.line.extend_from_slice(first);
        for part in parts {
            let line = std::mem::replace(&mut self.line, part.to_vec());
            events.extend(self.end_line(&line));
        }
        let held = self.line.len() + self.data.len();
        ensure!(held <= EVENT_BYTES_MAX, "an event has more than 16 MiB");
        Ok(events)
    }

    fn end_line(&mut self, line: &[u8]) -> Option<SseEvent> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            let name = std::mem::take(&mut self.name);
            let data = std::mem::take(&mut self.data);
            return (!data.is_empty()).then_some(SseEvent { name, data });
        }
        let at = line.iter().position(|byte| *byte == b':');
        let (field, value) = line.split_at(at.unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            b"data" => {
                if !self.data.is_empty() {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{EVENT_BYTES_MAX, SseEvent, SseReader};

    #[test]
    fn events_are_the_same_however_they_are_cut() {
        let text = ": hello\r\nevent: message\r\ndata: {\"a\":\r\ndata:1}\r\n\r\nevent: ping\n\ndata: b\nid: 7\n\ndata: half";
        let event = |name: &str, data: &str| SseEvent {
            name: name.to_owned(),
            data: data.into(),
        };
        let expected = [event("message", "{\"a\":\n1}"), event("", "b")];
        for size in 1..=text.len() {
            let mut reader = SseReader::default();
            let read = text.as_bytes().chunks(size);
            let read: Vec<_> = read.flat_map(|part| reader.read(part).unwrap()).collect();
            assert_eq!(read, expected, "{size}");
        }
    }

    #[test]
    fn an_event_has_an_end() {
        let mut reader = SseReader::default();
        let part = vec![b'x'; 1 << 20];
        let read = (0..=EVENT_BYTES_MAX >> 20).map(|_| reader.read(&part));
        assert!(read.last().unwrap().is_err());
    }
}
