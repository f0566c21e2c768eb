//! Decodes the strings that a page shows.

use encoding_rs::Encoding;
use hayro_cmap::{BfString, CMap};
use lopdf::{Dictionary, Object};

use crate::{
    document::Pdf,
    encoding::{self, Table},
    widths::Widths,
};

/// Maximum unpacked size of a table that maps codes to text, in bytes.
const CMAP_BYTES_MAX: usize = 2 << 20;
/// Maximum length of the text of one code.
const CODE_CHARS_MAX: usize = 16;

pub(crate) struct Font {
    codes: Codes,
    to_unicode: Option<CMap>,
    widths: Widths,
}

enum Codes {
    /// One byte for each character.
    One(Box<Table>),
    /// Two bytes for each glyph, whose text only a table of the file says.
    Two,
    /// Text in an encoding that is known.
    Encoded(&'static Encoding),
}

/// A string as text.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    pub(crate) text: String,
    /// In thousandths of the font's size.
    pub(crate) width: f32,
    pub(crate) codes: u32,
    /// Codes of one byte that are a space, which `Tw` widens.
    pub(crate) spaces: u32,
}

impl Font {
    pub(crate) fn read(pdf: &Pdf, font: &Dictionary) -> Self {
        let subtype = pdf
            .get(font, b"Subtype")
            .and_then(|name| name.as_name().ok());
        let to_unicode = to_unicode(pdf, font);
        if subtype != Some(b"Type0") {
            return Self {
                codes: Codes::One(encoding::table(pdf, font)),
                to_unicode,
                widths: Widths::simple(pdf, font),
            };
        }
        let descendant = pdf
            .get(font, b"DescendantFonts")
            .and_then(|list| pdf.resolve(list.as_array().ok()?.first()?))
            .and_then(|font| font.as_dict().ok());
        let encoding = pdf
            .get(font, b"Encoding")
            .and_then(|name| name.as_name().ok());
        let codes = match encoding.and_then(encoding_of) {
            // A table of the file is more exact.
            Some(encoding) if to_unicode.is_none() => Codes::Encoded(encoding),
            _ => Codes::Two,
        };
        let none = Dictionary::new();
        Self {
            codes,
            to_unicode,
            widths: Widths::composite(pdf, descendant.unwrap_or(&none)),
        }
    }

    pub(crate) fn show(&self, bytes: &[u8]) -> Shown {
        let mut shown = Shown::default();
        match &self.codes {
            Codes::One(table) => {
                for byte in bytes {
                    let code = u32::from(*byte);
                    let known = self.add_mapped(code, &mut shown.text);
                    if !known {
                        add(
                            table[usize::from(*byte)].unwrap_or('\u{fffd}'),
                            &mut shown.text,
                        );
                    }
                    shown.width += self.widths.of(code);
                    shown.codes += 1;
                    shown.spaces += u32::from(code == 32);
                }
            }
            Codes::Two => {
                for pair in bytes.chunks_exact(2) {
                    let code = u32::from(u16::from_be_bytes([pair[0], pair[1]]));
                    if !self.add_mapped(code, &mut shown.text) {
                        add('\u{fffd}', &mut shown.text);
                    }
                    shown.width += self.widths.of(code);
                    shown.codes += 1;
                }
            }
            Codes::Encoded(encoding) => {
                let (text, _) = encoding.decode_without_bom_handling(bytes);
                for c in text.chars() {
                    add(c, &mut shown.text);
                    // The glyph is not known. Latin letters are half as wide as the others.
                    shown.width += if c.is_ascii() { 500.0 } else { 1_000.0 };
                    shown.codes += 1;
                }
            }
        }
        shown
    }

    /// Adds what the table of the file has for a code; `false` if it has nothing.
    fn add_mapped(&self, code: u32, text: &mut String) -> bool {
        let found = self
            .to_unicode
            .as_ref()
            .and_then(|table| table.lookup_bf_string(code));
        match found {
            None | Some(BfString::Char('\0')) => return false,
            Some(BfString::Char(c)) => add(c, text),
            Some(BfString::String(string)) => {
                string
                    .chars()
                    .take(CODE_CHARS_MAX)
                    .for_each(|c| add(c, text));
            }
        }
        true
    }
}

fn to_unicode(pdf: &Pdf, font: &Dictionary) -> Option<CMap> {
    let Some(Object::Stream(stream)) = pdf.get(font, b"ToUnicode") else {
        return None;
    };
    let bytes = stream.get_plain_content_with_limit(CMAP_BYTES_MAX).ok()?;
    CMap::parse(&bytes, |_| None)
}

/// The encoding that a predefined table of codes is made for.
fn encoding_of(name: &[u8]) -> Option<&'static Encoding> {
    let name = std::str::from_utf8(name).ok()?;
    let has = |part: &str| name.contains(part);
    match () {
        () if has("UCS2") || has("UTF16") => Some(encoding_rs::UTF_16BE),
        () if has("RKSJ") => Some(encoding_rs::SHIFT_JIS),
        () if has("GBK") || name.starts_with("GB") => Some(encoding_rs::GB18030),
        () if has("B5") => Some(encoding_rs::BIG5),
        () if has("KSC") => Some(encoding_rs::EUC_KR),
        () if name == "EUC-H" || name == "EUC-V" => Some(encoding_rs::EUC_JP),
        () => None,
    }
}

/// Adds a character; ligatures as their letters, so that a search finds them.
fn add(c: char, text: &mut String) {
    match c {
        '\u{fb00}' => text.push_str("ff"),
        '\u{fb01}' => text.push_str("fi"),
        '\u{fb02}' => text.push_str("fl"),
        '\u{fb03}' => text.push_str("ffi"),
        '\u{fb04}' => text.push_str("ffl"),
        '\t' | '\u{a0}' => text.push(' '),
        c if c.is_control() => {}
        c => text.push(c),
    }
}
