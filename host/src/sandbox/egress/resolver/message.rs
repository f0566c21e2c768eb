//! DNS messages, as far as a stub resolver needs them: a question for addresses, and the addresses of an answer (RFC 1035).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What UDP carries without an extension, in bytes; a longer answer is cut, says so, and is asked for again over TCP.
pub(super) const UDP_BYTES_MAX: usize = 512;
/// Addresses of one answer that are read. Few are ever tried.
const ADDRESSES_MAX: usize = 32;

const HEADER_BYTES: usize = 12;
const CLASS_IN: u16 = 1;
const LABEL_BYTES_MAX: usize = 63;
const NAME_BYTES_MAX: usize = 253;
/// Two bits that say of a length that it is a pointer to where the name goes on.
const POINTER: u8 = 0xc0;

/// Which kind of address is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    V4 = 1,
    V6 = 28,
}

/// What a message says that answers a question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Addresses(Vec<IpAddr>),
    /// There is no such name.
    NoName,
    /// The answer did not fit.
    Cut,
    /// The server cannot, or will not, answer.
    Failed,
}

/// The question for the addresses of `name`. `None` for what is no name.
pub(super) fn question(id: u16, name: &str, kind: Kind) -> Option<Vec<u8>> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return None;
    }
    let mut message = Vec::with_capacity(HEADER_BYTES + name.len() + 6);
    message.extend(id.to_be_bytes());
    // A standard question; recursion is desired; one question, and nothing else.
    message.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        let length = u8::try_from(label.len()).ok().filter(|_| (1..=LABEL_BYTES_MAX).contains(&label.len()))?;
        message.push(length);
        message.extend(label.as_bytes());
    }
    message.push(0);
    message.extend((kind as u16).to_be_bytes());
    message.extend(CLASS_IN.to_be_bytes());
    Some(message)
}

/// What `message` answers to `question`; `None` where it is not an answer to it.
pub(super) fn answer(question: &[u8], message: &[u8], kind: Kind) -> Option<Answer> {
    let flags = number(message, 2)?;
    let is_answer = flags & 0x8000 != 0 && message.get(..2) == question.get(..2) && number(message, 4) == Some(1);
    // Names may come back in other letters, and nothing else of the question may differ.
    let asked = message.get(HEADER_BYTES..question.len())?;
    if !is_answer || !asked.eq_ignore_ascii_case(question.get(HEADER_BYTES..)?) {
        return None;
    }
    match flags & 0xf {
        0 => {}
        3 => return Some(Answer::NoName),
        _ => return Some(Answer::Failed),
    }
    if flags & 0x0200 != 0 {
        return Some(Answer::Cut);
    }
    Some(addresses(message, question.len(), kind).map_or(Answer::Failed, Answer::Addresses))
}

/// The addresses among the records that begin at `at`. An alias stands beside what it leads to: the server has followed it.
fn addresses(message: &[u8], at: usize, kind: Kind) -> Option<Vec<IpAddr>> {
    let mut found = Vec::new();
    let mut at = at;
    for _ in 0..number(message, 6)? {
        at = after_name(message, at)?;
        let (of, class, length) = (number(message, at)?, number(message, at + 2)?, number(message, at + 8)?);
        let data = message.get(at + 10..at + 10 + usize::from(length))?;
        at += 10 + usize::from(length);
        if of != kind as u16 || class != CLASS_IN || found.len() >= ADDRESSES_MAX {
            continue;
        }
        found.push(match kind {
            Kind::V4 => IpAddr::from(Ipv4Addr::from(<[u8; 4]>::try_from(data).ok()?)),
            Kind::V6 => IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(data).ok()?)),
        });
    }
    Some(found)
}

/// Where a name ends that begins at `at`. Pointers are not followed: what they lead to does not matter here.
fn after_name(message: &[u8], at: usize) -> Option<usize> {
    let mut at = at;
    loop {
        let length = *message.get(at)?;
        match length {
            0 => return Some(at + 1),
            _ if length & POINTER == POINTER => return Some(at + 2),
            _ if length & POINTER != 0 => return None,
            _ => at += 1 + usize::from(length),
        }
    }
}

fn number(message: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(message.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer to `question` with an alias and two addresses.
    fn answered(question: &[u8]) -> Vec<u8> {
        let mut message = question.to_vec();
        message[2..4].copy_from_slice(&[0x81, 0x80]);
        message[6..8].copy_from_slice(&[0, 3]);
        message.extend([0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 9, 0, 4, 1, b'x', 0xc0, 12]);
        for last in [1, 2] {
            message.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, last]);
        }
        message
    }

    #[test]
    fn an_answer_is_read_and_one_to_another_question_is_not() {
        let asked = question(7, "api.example.com", Kind::V4).unwrap();
        let good = answered(&asked);
        let expected = ["192.0.2.1", "192.0.2.2"].map(|address| address.parse().unwrap()).to_vec();
        assert_eq!(answer(&asked, &good, Kind::V4), Some(Answer::Addresses(expected)));
        let other = question(8, "api.example.com", Kind::V4).unwrap();
        assert_eq!(answer(&other, &good, Kind::V4), None, "another id");
        let other = question(7, "api.example.org", Kind::V4).unwrap();
        assert_eq!(answer(&other, &good, Kind::V4), None, "another name");
        assert_eq!(answer(&asked, &asked, Kind::V4), None, "a question");
        let (mut no_name, mut cut) = (good.clone(), good.clone());
        (no_name[3], cut[2]) = (0x83, 0x83);
        assert_eq!(answer(&asked, &no_name, Kind::V4), Some(Answer::NoName));
        assert_eq!(answer(&asked, &cut, Kind::V4), Some(Answer::Cut));
    }

    #[test]
    fn no_bytes_of_a_server_make_the_reader_fail() {
        let asked = question(7, "api.example.com", Kind::V4).unwrap();
        let good = answered(&asked);
        for length in 0..good.len() {
            let _ = answer(&asked, &good[..length], Kind::V4);
        }
        for at in 0..good.len() {
            for byte in 0..=u8::MAX {
                let mut bad = good.clone();
                bad[at] = byte;
                let _ = answer(&asked, &bad, Kind::V4);
                let _ = answer(&asked, &bad, Kind::V6);
            }
        }
    }

    #[test]
    fn what_is_no_name_is_not_asked_for() {
        let long = "a".repeat(64);
        for name in ["", ".", "a..b", long.as_str(), &vec!["abcdefg"; 40].join(".")] {
            assert_eq!(question(1, name, Kind::V4), None, "{name}");
        }
    }
}
