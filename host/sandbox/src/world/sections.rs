//! Sections of a component's bytes that its type does not show. The compiler accepted the bytes before; nothing here relies on
//! that.

/// Bytes of the header of a component or a module.
const HEADER_BYTES: usize = 8;
/// Ids of sections.
const CUSTOM: u8 = 0;
const CORE_MODULE: u8 = 1;
/// Id of the part of a module's custom section `name` that holds the name of the module itself.
const MODULE_NAME: u8 = 0;

/// Returns the content of each custom section `name` of a component, in their order.
pub(super) fn custom<'a>(bytes: &'a [u8], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    sections(bytes).filter_map(move |(id, content)| named(id, content, name))
}

/// Returns the name of the first module in a component, which tools that make components of modules put first.
pub(super) fn first_module(bytes: &[u8]) -> Option<&str> {
    let (_, module) = sections(bytes).find(|(id, _)| *id == CORE_MODULE)?;
    let mut parts = Parts(sections(module).find_map(|(id, content)| named(id, content, "name"))?);
    let (_, name) = parts.find(|(id, _)| *id == MODULE_NAME)?;
    let (name, rest) = text(name)?;
    rest.is_empty().then_some(name)
}

fn named<'a>(id: u8, content: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let (found, rest) = text(content).filter(|_| id == CUSTOM)?;
    (found == name).then_some(rest)
}

fn sections(bytes: &[u8]) -> Parts<'_> {
    Parts(bytes.get(HEADER_BYTES..).unwrap_or_default())
}

/// Parts of the form id, size, content. Ends at the first that is not complete.
struct Parts<'a>(&'a [u8]);

impl<'a> Iterator for Parts<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (id, rest) = self.0.split_first()?;
        let (size, rest) = number(rest)?;
        let (content, rest) = rest.split_at_checked(size)?;
        self.0 = rest;
        Some((*id, content))
    }
}

/// Splits off a text, which is written after its length.
fn text(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = number(bytes)?;
    let (text, rest) = rest.split_at_checked(length)?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

/// Splits off a number in LEB128, of at most 32 bits.
fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0_u64;
    for (at, byte) in bytes.iter().enumerate().take(5) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((usize::try_from(u32::try_from(value).ok()?).ok()?, bytes.get(at + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(id: u8, content: &[u8]) -> Vec<u8> {
        let mut section = vec![id];
        let mut size = content.len();
        while size >= 0x80 {
            section.push(u8::try_from(size & 0x7f).unwrap() | 0x80);
            size >>= 7;
        }
        section.push(u8::try_from(size).unwrap());
        [section.as_slice(), content].concat()
    }

    fn text(text: &str) -> Vec<u8> {
        section(0, text.as_bytes())[1..].to_vec()
    }

    fn with_header(sections: &[Vec<u8>]) -> Vec<u8> {
        [b"\0asm\x0d\0\x01\0".to_vec(), sections.concat()].concat()
    }

    #[test]
    fn custom_sections_are_found_by_their_names() {
        let long = "x".repeat(300);
        let of = |name: &str, content: &str| section(0, &[text(name), content.as_bytes().to_vec()].concat());
        let sections = [of("a", "1"), section(7, b"\x01ab"), of("b", &long), of("a", ""), of("ab", "2")];
        let bytes = with_header(&sections);
        let found = |name| custom(&bytes, name).map(|content| String::from_utf8(content.to_vec()).unwrap());
        assert_eq!(found("a").collect::<Vec<_>>(), ["1", ""]);
        assert_eq!(found("b").collect::<Vec<_>>(), [long]);
        assert_eq!(found("c").count(), 0);
    }

    #[test]
    fn the_name_of_a_module_is_read_where_there_is_one() {
        let name = |name: &str| section(0, &[text("name"), section(1, b"\0"), section(0, &text(name))].concat());
        let of =
            |module: &[Vec<u8>]| with_header(&[section(3, b""), section(1, &with_header(module)), section(1, b"")]);
        assert_eq!(first_module(&of(&[section(1, b"\0"), name("tool.wasm")])), Some("tool.wasm"));
        assert_eq!(first_module(&of(&[])), None);
        assert_eq!(first_module(&with_header(&[])), None);
    }

    #[test]
    fn broken_bytes_have_no_sections() {
        let whole = with_header(&[section(0, &[text("a"), b"content".to_vec()].concat())]);
        for end in 0..whole.len() {
            assert_eq!(custom(&whole[..end], "a").count(), 0, "{end}");
        }
        for bytes in [&b"\0asm\x0d\0\x01\0\0\xff\xff\xff\xff\xff\xff"[..], b"\0asm\x0d\0\x01\0\0\xff\xff\xff\xff\x0f"] {
            assert_eq!(custom(bytes, "a").count(), 0);
            assert_eq!(first_module(bytes), None);
        }
    }
}
