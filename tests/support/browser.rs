//! A browser's requests, as raw HTTP, and its one cookie.

use std::io::{Read, Write};
use std::net::TcpStream;

/// Talks to one page.
pub(crate) struct Browser {
    pub(crate) address: String,
    pub(crate) cookie: String,
}

pub(crate) struct BrowserAnswer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl BrowserAnswer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut values = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
        values.next().map(|(_, value)| value)
    }

    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}\n{}", self.head, self.text());
        self
    }
}

impl Browser {
    pub(crate) fn at(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            cookie: String::new(),
        }
    }

    pub(crate) fn keep_cookie(&mut self, answer: &BrowserAnswer) {
        let cookie = answer.header("set-cookie").unwrap();
        self.cookie = cookie.split(';').next().unwrap().to_owned();
    }

    pub(crate) fn send(&self, request: &str) -> BrowserAnswer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let request = request.replacen("\r\n\r\n", "\r\nconnection: close\r\n\r\n", 1);
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let at = answer
            .windows(4)
            .position(|end| end == b"\r\n\r\n")
            .unwrap();
        let head = String::from_utf8(answer[..at].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        BrowserAnswer {
            status,
            head,
            body: answer[at + 4..].to_vec(),
        }
    }

    /// The stream of an answer that does not end.
    pub(crate) fn open(&self, path: &str) -> TcpStream {
        let Self { address, cookie } = self;
        let mut stream = TcpStream::connect(address).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\ncookie: {cookie}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    pub(crate) fn get(&self, path: &str) -> BrowserAnswer {
        self.get_with(path, "")
    }

    pub(crate) fn get_with(&self, path: &str, headers: &str) -> BrowserAnswer {
        let Self {
            address, cookie, ..
        } = self;
        self.send(&format!(
            "GET {path} HTTP/1.1\r\nhost: {address}\r\ncookie: {cookie}\r\n{headers}\r\n"
        ))
    }

    pub(crate) fn post(&self, path: &str, form: &str) -> BrowserAnswer {
        let origin = format!("origin: http://{}\r\n", self.address);
        self.post_with(path, form, &origin)
    }

    /// Sends a file with the form of `path`.
    pub(crate) fn upload(&self, path: &str, name: &str, text: &str) -> BrowserAnswer {
        let disposition = format!("form-data; name=\"file\"; filename=\"{name}\"");
        let body = format!("--x\r\ncontent-disposition: {disposition}\r\n\r\n{text}\r\n--x--\r\n");
        let origin = format!("origin: http://{}\r\n", self.address);
        let kind = "content-type: multipart/form-data; boundary=x\r\n";
        self.post_as(path, &body, &format!("{origin}{kind}"))
    }

    pub(crate) fn post_with(&self, path: &str, form: &str, headers: &str) -> BrowserAnswer {
        let kind = "application/x-www-form-urlencoded";
        self.post_as(path, form, &format!("{headers}content-type: {kind}\r\n"))
    }

    pub(crate) fn post_as(&self, path: &str, body: &str, headers: &str) -> BrowserAnswer {
        let Self {
            address, cookie, ..
        } = self;
        let length = body.len();
        self.send(&format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\ncookie: {cookie}\r\n{headers}content-length: {length}\r\n\r\n{body}"
        ))
    }
}

/// A part of a form.
pub(crate) fn encoded(text: &str) -> String {
    let bytes = text.bytes();
    bytes
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
