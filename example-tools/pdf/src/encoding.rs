//! The codes of fonts with one byte for each character.

use lopdf::{Dictionary, Object};

use crate::document::Pdf;

/// Maximum unpacked size of a font program that is looked at, in bytes.
const PROGRAM_BYTES_MAX: usize = 1 << 20;

/// The character of each code.
pub(crate) type Table = [Option<char>; 256];

/// The table of a font that is not composite.
pub(crate) fn table(pdf: &Pdf, font: &Dictionary) -> Box<Table> {
    let encoding = pdf.get(font, b"Encoding");
    let base = match encoding {
        Some(Object::Name(name)) => Some(name.as_slice()),
        Some(Object::Dictionary(dictionary)) => pdf
            .get(dictionary, b"BaseEncoding")
            .and_then(|name| name.as_name().ok()),
        _ => None,
    };
    let named = base.filter(|name| NAMED.contains(name));
    let mut table = Box::new([None; 256]);
    let base = Object::Name(named.unwrap_or_else(|| usual(pdf, font)).to_vec());
    for (code, place) in (0..=u8::MAX).zip(table.iter_mut()) {
        *place = decode(pdf, &base, code);
    }
    if named.is_none() {
        for (code, name) in built_in(pdf, font) {
            let place = &mut table[usize::from(code)];
            *place = character(pdf, &name).or(*place);
        }
    }
    let differences = match encoding {
        Some(Object::Dictionary(dictionary)) => pdf.get(dictionary, b"Differences"),
        _ => None,
    };
    let mut code = 0;
    let items = differences.and_then(|list| list.as_array().ok());
    for item in items.into_iter().flatten() {
        match item {
            Object::Integer(first) => code = usize::try_from(*first).unwrap_or(usize::MAX),
            Object::Name(name) => {
                if let Some(place) = table.get_mut(code) {
                    *place = character(pdf, name).or(*place);
                }
                code = code.saturating_add(1);
            }
            _ => {}
        }
    }
    table
}

/// The encodings that have names.
const NAMED: [&[u8]; 4] = [
    b"WinAnsiEncoding",
    b"MacRomanEncoding",
    b"MacExpertEncoding",
    b"StandardEncoding",
];

/// The encoding of most fonts that name none.
fn usual(pdf: &Pdf, font: &Dictionary) -> &'static [u8] {
    let subtype = pdf
        .get(font, b"Subtype")
        .and_then(|name| name.as_name().ok());
    match subtype {
        Some(b"TrueType") => b"WinAnsiEncoding",
        _ => b"StandardEncoding",
    }
}

/// The codes and names in the program of a Type 1 font, which begins with lines such as `dup 12 /fi put`. Those that TeX
/// embeds have ligatures and signs at codes of their own.
fn built_in(pdf: &Pdf, font: &Dictionary) -> Vec<(u8, Vec<u8>)> {
    let program = pdf
        .get(font, b"FontDescriptor")
        .and_then(|descriptor| pdf.get(descriptor.as_dict().ok()?, b"FontFile"))
        .and_then(|program| program.as_stream().ok())
        .and_then(|program| program.get_plain_content_with_limit(PROGRAM_BYTES_MAX).ok());
    let program = program.unwrap_or_default();
    // What follows `eexec` is encrypted.
    let end = program.windows(5).position(|part| part == b"eexec");
    let clear = &program[..end.unwrap_or(program.len())];
    let words: Vec<&[u8]> = clear
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .collect();
    let entry = |words: &[&[u8]]| {
        let [b"dup", code, name, b"put"] = words else {
            return None;
        };
        let code = std::str::from_utf8(code).ok()?.parse().ok()?;
        Some((code, name.strip_prefix(b"/")?.to_vec()))
    };
    words.windows(4).filter_map(entry).take(256).collect()
}

/// The character of a code in `encoding`. The crate shows its tables only through a font.
fn decode(pdf: &Pdf, encoding: &Object, code: u8) -> Option<char> {
    let mut font = Dictionary::new();
    font.set("Type", "Font");
    font.set("Encoding", encoding.clone());
    let encoding = font.get_font_encoding_with_limit(&pdf.document, 0).ok()?;
    encoding.bytes_to_string(&[code]).ok()?.chars().next()
}

/// The character of a glyph by its name: one of Adobe's list, `uni20AC` or `u20AC`, with or without a variant (`a.sc`).
fn character(pdf: &Pdf, name: &[u8]) -> Option<char> {
    let name = name.split(|byte| *byte == b'.').next().unwrap_or(name);
    let mut encoding = Dictionary::new();
    // A code that the base encoding, which counts if the name is not known, does not have.
    encoding.set(
        "Differences",
        vec![Object::Integer(0), Object::Name(name.to_vec())],
    );
    if let Some(c) = decode(pdf, &Object::Dictionary(encoding), 0) {
        return Some(c);
    }
    let name = std::str::from_utf8(name).ok()?;
    let digits = name
        .strip_prefix("uni")
        .or_else(|| name.strip_prefix('u'))?;
    let is_number =
        (4..=6).contains(&digits.len()) && digits.bytes().all(|c| c.is_ascii_hexdigit());
    let number = is_number.then(|| u32::from_str_radix(digits, 16).ok())??;
    char::from_u32(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_glyphs_are_characters() {
        let pdf = Pdf {
            document: lopdf::Document::new(),
            is_encrypted: false,
            needs_password: false,
        };
        for (name, found) in [
            ("A", Some('A')),
            ("eacute", Some('\u{e9}')),
            ("fi", Some('\u{fb01}')),
            ("uni20AC", Some('\u{20ac}')),
            ("u1F600", Some('\u{1f600}')),
            ("a.sc", Some('a')),
            ("uniD800", None),
            ("g17", None),
            (".notdef", None),
            ("", None),
        ] {
            assert_eq!(character(&pdf, name.as_bytes()), found, "{name}");
        }
    }
}
