//! A module's or a component's name, in the custom section that its toolchain writes.

use std::path::Path;

use toolcell_spec::dialect::sections::{component_name, module_name, own_module_name};

use crate::adapt;

/// Appended by cargo to the name of a program.
const HASH_CHARS: usize = 16;
const DIGEST_CHARS: usize = 64;

pub(in crate::world) fn from_bytes(bytes: &[u8]) -> Option<String> {
    let named = if adapt::is_module(bytes) {
        own_module_name(bytes)
    } else {
        component_name(bytes).or_else(|| module_name(bytes))
    };
    named.and_then(short)
}

/// `None` for a file named by a digest, as in a store.
pub(in crate::world) fn of_file(file: &Path) -> Option<String> {
    let name = file.file_name()?.to_str()?;
    let stem = name.strip_suffix(".wasm").unwrap_or(name);
    let is_digest = stem.len() == DIGEST_CHARS && stem.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_digest { None } else { short(name) }
}

/// Most linkers write a file name, such as `target/wc-0123456789abcdef.wasm`.
fn short(name: &str) -> Option<String> {
    let file = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let stem = file.strip_suffix(".wasm").unwrap_or(file);
    let hash =
        |end: &str| end.len() == HASH_CHARS && end.bytes().all(|byte| byte.is_ascii_hexdigit());
    let stem = match stem.rsplit_once('-') {
        Some((start, end)) if hash(end) => start,
        _ => stem,
    };
    stem.chars()
        .any(|c| c.is_ascii_alphanumeric())
        .then(|| stem.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{from_bytes, of_file};

    fn of_text(text: &str) -> Option<String> {
        from_bytes(&wat::parse_str(text).unwrap())
    }

    #[test]
    fn a_module_and_a_component_say_their_name() {
        assert_eq!(of_text("(module $wc (memory 1))").as_deref(), Some("wc"));
        assert_eq!(
            of_text("(component $wc (core module $inner))").as_deref(),
            Some("wc")
        );
        assert_eq!(
            of_text("(module (func $f))"),
            None,
            "only a function has a name"
        );
        assert_eq!(
            of_text("(component (core module $inner))").as_deref(),
            Some("inner"),
            "its program has a name"
        );
        assert_eq!(of_text("(component (core module))"), None);
    }

    #[test]
    fn a_name_is_that_of_the_program() {
        for (name, short) in [
            ("resvg.wasm", "resvg"),
            ("/build/target/wc-0123456789abcdef.wasm", "wc"),
            ("a-b", "a-b"),
            ("wc-0123", "wc-0123"),
        ] {
            assert_eq!(
                of_text(&format!("(module (@name {name:?}))")).as_deref(),
                Some(short),
                "{name}"
            );
        }
        assert_eq!(of_text(r#"(module (@name "../.wasm"))"#), None);
    }

    #[test]
    fn a_file_names_its_program_and_a_digest_names_none() {
        let of = |file: &str| of_file(file.as_ref());
        assert_eq!(of("/tools/wc-0123456789abcdef.wasm").as_deref(), Some("wc"));
        assert_eq!(of("wc").as_deref(), Some("wc"));
        for none in [
            "..",
            "/",
            ".wasm",
            &format!("/store/{}.wasm", "0a".repeat(32)),
        ] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    #[test]
    fn a_damaged_section_gives_no_name() {
        let whole = wat::parse_str("(module $wc (memory 1))").unwrap();
        for length in 0..whole.len() {
            assert!(
                matches!(from_bytes(&whole[..length]).as_deref(), None | Some("wc")),
                "{length}"
            );
        }
    }
}
