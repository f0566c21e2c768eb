//! Checks the name of an entry.

/// Maximum length of a name, in bytes; that of a path on Linux.
const NAME_BYTES_MAX: usize = 4_096;
/// Maximum length of a file's name, in bytes, on the usual file systems.
const PART_BYTES_MAX: usize = 255;
const DEPTH_MAX: usize = 100;

/// The path of an entry, relative to the folder that it is extracted to. It is empty for the folder itself (`./`). Fails
/// with a reason that completes a sentence about the entry.
pub(crate) fn check(name: &[u8]) -> Result<String, String> {
    if name.len() > NAME_BYTES_MAX {
        return Err(format!("its name is longer than {NAME_BYTES_MAX} bytes"));
    }
    let name = std::str::from_utf8(name).map_err(|_| "its name is not UTF-8".to_owned())?;
    // A backslash separates folders on Windows, and a control character can hide a name in a terminal.
    if name.contains('\\') || name.contains(char::is_control) {
        return Err("its name has a backslash or a control character".to_owned());
    }
    if name.starts_with('/') || name.as_bytes().get(1) == Some(&b':') {
        return Err("its name is an absolute path".to_owned());
    }
    if name.split('/').any(|part| part == "..") {
        return Err("its name has `..`, which leads out of the folder".to_owned());
    }
    // `tar -C folder .` writes all names with `./`.
    let parts: Vec<&str> = name
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    if parts.is_empty() && !name.starts_with('.') {
        return Err("it has no name".to_owned());
    }
    if parts.len() > DEPTH_MAX {
        return Err(format!("it is more than {DEPTH_MAX} folders deep"));
    }
    if parts.iter().any(|part| part.len() > PART_BYTES_MAX) {
        return Err(format!(
            "a part of its name is longer than {PART_BYTES_MAX} bytes"
        ));
    }
    Ok(parts.join("/"))
}

/// A name for messages and lists: short, and without characters that change how text is shown.
pub(crate) fn shown(name: &[u8]) -> String {
    const SHOWN_CHARS: usize = 300;
    let text = String::from_utf8_lossy(name);
    let mut shown: String = text
        .chars()
        .take(SHOWN_CHARS)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    if text.chars().nth(SHOWN_CHARS).is_some() {
        shown.push('\u{2026}');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_lead_out_or_deceive_are_refused() {
        let long = "x/".repeat(3_000);
        let deep = "x/".repeat(101);
        let wide = "x".repeat(256);
        for name in [
            "../x",
            "a/../../x",
            "a/..",
            "..",
            "/etc/passwd",
            "//x",
            "C:/x",
            "c:x",
            "a\\..\\x",
            "a\0b",
            "a\nb",
            "a\u{9b}b",
            "",
            &long,
            &deep,
            &wide,
        ] {
            assert!(check(name.as_bytes()).is_err(), "{name:?}");
        }
        assert!(check(b"a\xff").unwrap_err().contains("UTF-8"));
    }

    #[test]
    fn usual_names_are_paths() {
        for (name, path) in [
            ("a", "a"),
            ("./a/b.txt", "a/b.txt"),
            ("a//b/", "a/b"),
            ("./", ""),
            (".", ""),
            ("..a/b..", "..a/b.."),
            (".hidden", ".hidden"),
            ("\u{fc}/\u{65e5}", "\u{fc}/\u{65e5}"),
        ] {
            assert_eq!(check(name.as_bytes()).as_deref(), Ok(path), "{name:?}");
        }
    }

    #[test]
    fn a_shown_name_is_short_and_plain() {
        assert_eq!(shown(b"a\x1b[2Jb\xff"), "a\u{fffd}[2Jb\u{fffd}");
        assert_eq!(shown(&[b'x'; 5_000]).chars().count(), 301);
    }
}
