//! Custom sections of a component's file, which no code reads at run time.

/// In bytes, read or written.
pub const SECTION_BYTES_MAX: usize = 1 << 20;

const HEADER_BYTES: usize = 8;
const MAGIC: &[u8] = b"\0asm";
const CUSTOM: u8 = 0;
const COMPONENT_NAME: &str = "component-name";
const OWN_NAME: u8 = 0;
/// Id of a module in a component, and the section with its name in the same subsection.
const CORE_MODULE: u8 = 1;
const NAMES: &str = "name";

const NOT_READABLE: &str = "cannot read the sections of the component: its file is damaged";

struct FileSection<'a> {
    id: u8,
    whole: &'a [u8],
    content: &'a [u8],
    custom: Option<NamedContent<'a>>,
}

/// `None` if the component has no such section. Fails on a damaged file, two such sections, or one larger than
/// [`SECTION_BYTES_MAX`].
///
/// ```
/// use toolcell_spec::dialect::sections::{custom, with_custom};
///
/// let component = with_custom(b"\0asm\x0d\0\x01\0", "note", b"made today")?;
/// assert_eq!(custom(&component, "note")?, Some(&b"made today"[..]));
/// assert_eq!(custom(&component, "other")?, None);
/// # Ok::<(), String>(())
/// ```
pub fn custom<'a>(component: &'a [u8], name: &str) -> Result<Option<&'a [u8]>, String> {
    let mut found = None;
    for section in sections(component)? {
        let Some((_, content)) = section?
            .custom
            .filter(|(known, _)| *known == name.as_bytes())
        else {
            continue;
        };
        if found.replace(content).is_some() {
            return Err(format!(
                "the component has two custom sections `{name}`, which may contradict each other"
            ));
        }
    }
    bounded(name, found.map_or(0, <[u8]>::len)).map(|()| found)
}

/// A name, and what the section of that name has.
pub type NamedContent<'a> = (&'a [u8], &'a [u8]);

/// The custom sections whose names begin with `start`, of any size, in their order: the rest of each name, and the content.
/// Fails on a damaged file, and on more than `count_max` of them.
///
/// ```
/// use toolcell_spec::dialect::sections::{customs, with_large_custom};
///
/// let component = with_large_custom(b"\0asm\x0d\0\x01\0", "note:a", b"made today")?;
/// assert_eq!(customs(&component, "note:", 1)?, [(&b"a"[..], &b"made today"[..])]);
/// assert!(customs(&component, "note:", 0).is_err());
/// # Ok::<(), String>(())
/// ```
pub fn customs<'a>(
    component: &'a [u8],
    start: &str,
    count_max: usize,
) -> Result<Vec<NamedContent<'a>>, String> {
    let mut found = Vec::new();
    for section in sections(component)? {
        let Some((name, content)) = section?.custom else {
            continue;
        };
        if let Some(rest) = name.strip_prefix(start.as_bytes()) {
            if found.len() >= count_max {
                return Err(format!(
                    "the component has more than {count_max} custom sections `{start}..`"
                ));
            }
            found.push((rest, content));
        }
    }
    Ok(found)
}

/// Makes `content` the only custom section `name` of a copy. Fails on a damaged file, or a section larger than
/// [`SECTION_BYTES_MAX`].
pub fn with_custom(component: &[u8], name: &str, content: &[u8]) -> Result<Vec<u8>, String> {
    bounded(name, content.len())?;
    with_large_custom(component, name, content)
}

/// Does what [`with_custom`] does with a section of any size.
pub fn with_large_custom(component: &[u8], name: &str, content: &[u8]) -> Result<Vec<u8>, String> {
    let mut copy = Vec::with_capacity(component.len() + content.len() + name.len() + 16);
    copy.extend_from_slice(component.get(..HEADER_BYTES).ok_or(NOT_READABLE)?);
    for section in sections(component)? {
        let section = section?;
        if section
            .custom
            .is_none_or(|(known, _)| known != name.as_bytes())
        {
            copy.extend_from_slice(section.whole);
        }
    }
    let mut payload = Vec::with_capacity(content.len() + name.len() + 5);
    push_number(&mut payload, name.len());
    payload.extend_from_slice(name.as_bytes());
    payload.extend_from_slice(content);
    copy.push(CUSTOM);
    push_number(&mut copy, payload.len());
    copy.extend_from_slice(&payload);
    Ok(copy)
}

pub fn component_name(component: &[u8]) -> Option<&str> {
    own_name(custom(component, COMPONENT_NAME).ok()??)
}

/// Tools that make a component of a module put it first.
pub fn module_name(component: &[u8]) -> Option<&str> {
    let module = sections(component)
        .ok()?
        .map_while(Result::ok)
        .find(|section| section.id == CORE_MODULE)?;
    own_name(custom(module.content, NAMES).ok()??)
}

fn own_name(mut rest: &[u8]) -> Option<&str> {
    while let Some((id, after)) = rest.split_first() {
        let (size, after) = number(after)?;
        let content = after.get(..size)?;
        if *id == OWN_NAME {
            let (length, text) = number(content)?;
            return std::str::from_utf8(text.get(..length)?).ok();
        }
        rest = after.get(size..)?;
    }
    None
}

/// For a module in no component.
pub fn own_module_name(module: &[u8]) -> Option<&str> {
    own_name(custom(module, NAMES).ok()??)
}

fn bounded(name: &str, bytes: usize) -> Result<(), String> {
    if bytes > SECTION_BYTES_MAX {
        return Err(format!(
            "the custom section `{name}` has {bytes} bytes, more than {SECTION_BYTES_MAX}"
        ));
    }
    Ok(())
}

/// Excludes sections inside of modules and components.
fn sections(component: &[u8]) -> Result<FileSections<'_>, &'static str> {
    let rest = component
        .get(HEADER_BYTES..)
        .filter(|_| component.starts_with(MAGIC))
        .ok_or(NOT_READABLE)?;
    Ok(FileSections { rest })
}

/// Read one by one, because a small file can have millions, and a list of them is much larger than the file.
struct FileSections<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for FileSections<'a> {
    type Item = Result<FileSection<'a>, &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let Some((section, rest)) = section(self.rest) else {
            self.rest = &[];
            return Some(Err(NOT_READABLE));
        };
        self.rest = rest;
        Some(Ok(section))
    }
}

fn section(bytes: &[u8]) -> Option<(FileSection<'_>, &[u8])> {
    let (id, after) = bytes.split_first()?;
    let (size, after) = number(after)?;
    let content = after.get(..size)?;
    let rest = after.get(size..)?;
    let custom = match *id {
        CUSTOM => {
            let (length, named) = number(content)?;
            Some((named.get(..length)?, named.get(length..)?))
        }
        _ => None,
    };
    Some((
        FileSection {
            id: *id,
            whole: bytes.get(..bytes.len() - rest.len())?,
            content,
            custom,
        },
        rest,
    ))
}

/// Reads LEB128 of at most 32 bits, and returns what follows it.
fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0_u64;
    for (at, byte) in bytes.iter().enumerate().take(5) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            let value = u32::try_from(value).ok()?;
            return Some((usize::try_from(value).ok()?, bytes.get(at + 1..)?));
        }
    }
    None
}

fn push_number(bytes: &mut Vec<u8>, mut value: usize) {
    loop {
        let low = u8::try_from(value & 0x7f).unwrap_or_default();
        value >>= 7;
        if value == 0 {
            return bytes.push(low);
        }
        bytes.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::{
        NOT_READABLE, SECTION_BYTES_MAX, component_name, custom, customs, module_name,
        own_module_name, with_custom, with_large_custom,
    };

    const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

    #[test]
    fn a_section_replaces_the_one_of_its_name_and_no_other() {
        let long = vec![7; 300];
        let one = with_custom(EMPTY, "a", b"first").unwrap();
        let two = with_custom(&one, "b", &long).unwrap();
        let three = with_custom(&two, "a", b"").unwrap();
        assert_eq!(
            (custom(&three, "a"), custom(&three, "b")),
            (Ok(Some(&b""[..])), Ok(Some(&long[..])))
        );
        assert_eq!(custom(&three, "c"), Ok(None));
        assert!(three.len() < two.len() + 4, "the first was kept");
    }

    #[test]
    fn a_damaged_file_is_refused() {
        let whole = with_custom(EMPTY, "a", b"first").unwrap();
        for damaged in [
            &b""[..],
            b"\0asm",
            b"MZ______",
            &whole[..whole.len() - 1],
            &[EMPTY, &[0xff; 9]].concat(),
        ] {
            assert_eq!(custom(damaged, "a").unwrap_err(), NOT_READABLE);
            assert_eq!(with_custom(damaged, "a", b"").unwrap_err(), NOT_READABLE);
        }
        let mut long_name = EMPTY.to_vec();
        long_name.extend([0, 2, 100, b'x']);
        assert_eq!(custom(&long_name, "x").unwrap_err(), NOT_READABLE);
    }

    #[test]
    fn two_sections_of_one_name_and_a_large_one_are_refused() {
        let one = with_custom(EMPTY, "a", b"1").unwrap();
        let two = [&one[..], &one[8..]].concat();
        assert!(
            custom(&two, "a")
                .unwrap_err()
                .contains("two custom sections `a`")
        );
        let large = vec![0; SECTION_BYTES_MAX + 1];
        assert!(
            with_custom(EMPTY, "a", &large)
                .unwrap_err()
                .contains("1048577 bytes")
        );
        // The same section, written by others: id, size, length of the name, name, content.
        let mut foreign = EMPTY.to_vec();
        foreign.extend([0, 0x83, 0x80, 0x40, 1, b'a']);
        foreign.extend(&large);
        assert!(custom(&foreign, "a").unwrap_err().contains("1048577 bytes"));
    }

    #[test]
    fn sections_of_one_kind_are_found_whatever_their_size_and_only_outside_of_modules() {
        let large = vec![7; SECTION_BYTES_MAX + 1];
        let inner = with_custom(b"\0asm\x01\0\0\0", "files:in", b"").unwrap();
        let module = [&[1, u8::try_from(inner.len()).unwrap()], &inner[..]].concat();
        let one = with_large_custom(&[EMPTY, &module].concat(), "files:b", &large).unwrap();
        let two = with_large_custom(&one, "other", b"").unwrap();
        let three = with_large_custom(&two, "files:a", b"small").unwrap();
        let found = customs(&three, "files:", 2).unwrap();
        assert_eq!(found, [(&b"b"[..], &large[..]), (&b"a"[..], &b"small"[..])]);
        let refused = customs(&three, "files:", 1).unwrap_err();
        assert!(refused.contains("more than 1 custom sections"), "{refused}");
        assert_eq!(
            customs(&three[..20], "files:", 2).unwrap_err(),
            NOT_READABLE
        );
    }

    #[test]
    fn a_component_is_named_by_its_own_section() {
        let named = |content: &[u8]| with_custom(EMPTY, "component-name", content).unwrap();
        assert_eq!(
            component_name(&named(b"\x01\x01x\x00\x04\x03abc")),
            Some("abc")
        );
        for nameless in [
            &b""[..],
            b"\x00\x04\x09abc",
            b"\x00",
            b"\x00\x03\x02\xff\xff",
            b"\x01\x01x",
        ] {
            assert_eq!(component_name(&named(nameless)), None);
        }
        assert_eq!(component_name(EMPTY), None);
    }

    #[test]
    fn a_module_is_named_by_its_own_section() {
        let module = with_custom(b"\0asm\x01\0\0\0", "name", b"\x00\x04\x03abc").unwrap();
        let holding =
            |module: &[u8]| [EMPTY, &[1, u8::try_from(module.len()).unwrap()], module].concat();
        assert_eq!(module_name(&holding(&module)), Some("abc"));
        assert_eq!(
            (own_module_name(&module), own_module_name(EMPTY)),
            (Some("abc"), None)
        );
        assert_eq!(module_name(&holding(b"\0asm\x01\0\0\0")), None);
        assert_eq!(
            module_name(&with_custom(EMPTY, "name", b"\x00\x04\x03abc").unwrap()),
            None
        );
    }
}
