//! Forms of a value: as it is, and in common encodings.

use data_encoding::{BASE64_NOPAD, BASE64URL_NOPAD, HEXLOWER};

/// Characters that percent-encoding keeps: by RFC 3986, `encodeURIComponent`, Python's `quote`, HTML forms, and never.
const UNRESERVED: [&[u8]; 5] = [b"-._~", b"-._~!'()*", b"-._~/", b"-._*", b""];

/// Characters that some JSON writers escape, although not required.
const JSON_ESCAPED: [&str; 5] = ["", "/", "<>&", "<>&'", "/<>&'"];

/// Distinct forms. The search ignores ASCII case, so upper-case hex and escapes need no own form. Hex and base64 are in
/// [`folded`].
pub(super) fn forms(value: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = vec![value.to_vec(), value.iter().rev().copied().collect()];
    for kept in UNRESERVED {
        forms.push(percent(value, kept, false));
        forms.push(percent(value, kept, true));
    }
    // Every byte escaped, letters and digits too.
    forms.push(each(value, "%"));
    forms.push(each(value, "\\x"));
    if let Ok(text) = std::str::from_utf8(value) {
        for escaped in JSON_ESCAPED {
            forms.push(json(text, escaped, false));
            forms.push(json(text, escaped, true));
        }
        forms.push(
            text.encode_utf16()
                .flat_map(|unit| format!("\\u{unit:04x}").into_bytes())
                .collect(),
        );
        // As UTF-16 bytes. A text that lost every other byte contains the value itself.
        forms.push(text.encode_utf16().flat_map(u16::to_le_bytes).collect());
        forms.push(text.encode_utf16().flat_map(u16::to_be_bytes).collect());
    }
    forms.sort_unstable();
    forms.dedup();
    forms
}

/// Hex and base64, without line breaks, spaces, colons and dashes, which mean nothing there.
pub(super) fn folded(value: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = vec![HEXLOWER.encode(value).into_bytes()];
    for encoding in [&BASE64_NOPAD, &BASE64URL_NOPAD] {
        forms.extend((0..3).map(|before| aligned(value, before, |bytes| encoding.encode(bytes))));
    }
    // A dash is a digit of URL-safe base64, and is left out like every other dash.
    forms
        .iter_mut()
        .for_each(|form| form.retain(|byte| *byte != b'-'));
    forms.retain(|form| !form.is_empty());
    forms.sort_unstable();
    forms.dedup();
    forms
}

fn each(value: &[u8], prefix: &str) -> Vec<u8> {
    value
        .iter()
        .flat_map(|byte| format!("{prefix}{byte:02x}").into_bytes())
        .collect()
}

/// Base64 after `before` other bytes, without characters shared with neighbours.
fn aligned(value: &[u8], before: usize, encode: impl Fn(&[u8]) -> String) -> Vec<u8> {
    let padded: Vec<u8> = std::iter::repeat_n(0, before)
        .chain(value.iter().copied())
        .collect();
    let mut text = encode(&padded).into_bytes();
    if !padded.len().is_multiple_of(3) {
        text.pop();
    }
    let shared = if before > 0 { before + 1 } else { 0 };
    text.split_off(shared.min(text.len()))
}

fn percent(value: &[u8], kept: &[u8], plus: bool) -> Vec<u8> {
    let mut text = Vec::with_capacity(value.len() * 3);
    for byte in value {
        match byte {
            b' ' if plus => text.push(b'+'),
            byte if byte.is_ascii_alphanumeric() || kept.contains(byte) => text.push(*byte),
            byte => text.extend(format!("%{byte:02x}").into_bytes()),
        }
    }
    text
}

fn json(value: &str, escaped: &str, ascii: bool) -> Vec<u8> {
    let mut text = String::with_capacity(value.len() * 2);
    for c in value.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '/' if escaped.contains('/') => text.push_str("\\/"),
            c if c.is_control() || escaped.contains(c) || (ascii && !c.is_ascii()) => {
                let mut units = [0; 2];
                c.encode_utf16(&mut units)
                    .iter()
                    .for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
            }
            c => text.push(c),
        }
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::{folded, forms};

    fn holds(text: &str, value: &str) -> bool {
        let text = text.to_ascii_lowercase();
        let bare: String = text.chars().filter(|c| !" \t\r\n:-".contains(*c)).collect();
        let within = |text: &str, form: &Vec<u8>| {
            text.contains(&String::from_utf8_lossy(form).to_ascii_lowercase())
        };
        forms(value.as_bytes())
            .iter()
            .any(|form| within(&text, form))
            || folded(value.as_bytes())
                .iter()
                .any(|form| within(&bare, form))
    }

    #[test]
    fn base64_is_found_wherever_the_value_stands_in_it() {
        for value in [
            "12345678",
            "123456789",
            "s3cr3t/+?><-value",
            "caf\u{e9}-\u{1f600}-secret",
        ] {
            for before in ["", "a", "ab", "user:", "abcd"] {
                for after in ["", "z", "zy", "zyx"] {
                    let plain = format!("{before}{value}{after}");
                    for encoded in [
                        data_encoding::BASE64.encode(plain.as_bytes()),
                        data_encoding::BASE64URL.encode(plain.as_bytes()),
                        data_encoding::HEXUPPER.encode(plain.as_bytes()),
                    ] {
                        assert!(holds(&encoded, value), "{plain}: {encoded}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_programs_put_between_the_digits_says_nothing() {
        let value = "s3cr3t/+?><-value-that-is-wrapped-in-any-line";
        let hex: Vec<String> = value.bytes().map(|byte| format!("{byte:02X}")).collect();
        let base64 = data_encoding::BASE64.encode(format!("user:{value}:and-more").as_bytes());
        let lines = |width: usize, end: &str| {
            base64
                .as_bytes()
                .chunks(width)
                .map(|line| std::str::from_utf8(line).unwrap())
                .collect::<Vec<_>>()
                .join(end)
        };
        for written in [
            hex.join(" "),
            hex.join(":"),
            hex.join("-"),
            lines(64, "\n"),
            lines(76, "\r\n"),
            lines(10, "\n    "),
            value
                .chars()
                .map(|c| format!("\\u{:04x}", u32::from(c)))
                .collect(),
            value.bytes().map(|byte| format!("\\x{byte:02x}")).collect(),
            value.chars().flat_map(|c| [c, '\0']).collect(),
            value.chars().flat_map(|c| ['\0', c]).collect(),
        ] {
            assert!(holds(&written, value), "{written}");
        }
    }

    #[test]
    fn percent_and_json_escapes_are_found_as_programs_write_them() {
        let value = "a b/c\"d~e*f'<\u{e9}";
        for written in [
            "a%20b%2Fc%22d~e%2Af%27%3C%C3%A9",
            "a%20b%2Fc%22d~e*f'%3C%C3%A9",
            "a%20b/c%22d~e%2Af%27%3C%C3%A9",
            "a+b%2Fc%22d%7Ee*f%27%3C%C3%A9",
            "%61%20%62%2f%63%22%64%7e%65%2a%66%27%3c%c3%a9",
            "a b/c\\\"d~e*f'<\u{e9}",
            "a b\\/c\\\"d~e*f'<\u{e9}",
            "a b/c\\\"d~e*f\\u0027\\u003c\\u00e9",
        ] {
            assert!(holds(written, value), "{written}");
        }
        assert!(!holds("something else entirely", value));
    }
}
