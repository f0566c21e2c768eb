//! Tells text from other content.

use encoding_rs::{Encoding, UTF_8};

/// A `Content-Type` header.
pub(crate) struct ContentType {
    /// Type and subtype, in lower case; empty if the server sent none.
    pub(crate) essence: String,
    encoding: Option<&'static Encoding>,
}

impl ContentType {
    pub(crate) fn parse(header: &str) -> Self {
        let mut parts = header.split(';').map(str::trim);
        let essence = parts.next().unwrap_or_default().to_ascii_lowercase();
        let encoding = parts.find_map(|part| {
            let (name, value) = part.split_once('=')?;
            let label = value.trim_matches('"');
            name.eq_ignore_ascii_case("charset")
                .then(|| Encoding::for_label(label.as_bytes()))?
        });
        Self { essence, encoding }
    }

    /// `true` if the type is one of text; `None` if the content has to decide.
    fn is_text(&self) -> Option<bool> {
        let (kind, subtype) = self.essence.split_once('/')?;
        let named = [
            "ecmascript",
            "graphql",
            "javascript",
            "json",
            "ndjson",
            "sql",
            "toml",
            "x-ndjson",
            "x-sh",
            "x-www-form-urlencoded",
            "x-yaml",
            "xml",
            "yaml",
        ];
        let is_text = kind == "text"
            || self.encoding.is_some()
            || subtype.ends_with("+json")
            || subtype.ends_with("+xml")
            || kind == "application" && named.contains(&subtype);
        match self.essence.as_str() {
            "application/octet-stream" | "binary/octet-stream" => None,
            _ => Some(is_text),
        }
    }

    /// The text of a body; `None` if it is not text. A character that is cut off at the end is left out.
    pub(crate) fn decode(&self, body: &[u8], is_cut: bool) -> Option<String> {
        let whole = match std::str::from_utf8(body) {
            Err(error) if is_cut && error.error_len().is_none() => &body[..error.valid_up_to()],
            _ => body,
        };
        let is_text = match self.is_text() {
            Some(is_text) => is_text,
            None => std::str::from_utf8(whole).is_ok(),
        };
        let (text, _, _) = self.encoding.unwrap_or(UTF_8).decode(whole);
        (is_text && !text.contains('\0')).then(|| text.into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::ContentType;

    #[test]
    fn text_is_told_from_bytes() {
        for (header, body, text) in [
            ("text/plain", &b"a"[..], Some("a")),
            ("application/problem+json; charset=UTF-8", b"{}", Some("{}")),
            ("text/html; charset=\"iso-8859-1\"", b"\xe9", Some("\u{e9}")),
            ("text/plain; charset=nonsense", b"a", Some("a")),
            ("", b"plain", Some("plain")),
            ("", b"\xff\xfe\xfd", None),
            ("nonsense", b"a", Some("a")),
            ("application/octet-stream", b"\x89PNG\0", None),
            ("image/png", b"text", None),
            ("text/plain", b"a\0b", None),
            ("application/pdf", b"%PDF", None),
        ] {
            let decoded = ContentType::parse(header).decode(body, false);
            assert_eq!(decoded.as_deref(), text, "{header}");
        }
    }

    #[test]
    fn a_character_that_is_cut_off_is_left_out() {
        let decoded = ContentType::parse("").decode(b"caf\xc3", true);
        assert_eq!(decoded.as_deref(), Some("caf"));
    }
}
