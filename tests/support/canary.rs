use std::path::Path;

use data_encoding::{BASE64_NOPAD, BASE64URL_NOPAD, HEXLOWER};

/// A value that may be found only where it belongs.
pub(crate) struct Canary(&'static str);

impl Canary {
    pub(crate) const fn new(value: &'static str) -> Self {
        Self(value)
    }

    pub(crate) fn value(&self) -> &'static str {
        self.0
    }

    /// The value in every encoding that programs use, in lower case. Written independently of the product's own search.
    fn forms(&self) -> Vec<String> {
        let bytes = self.0.as_bytes();
        let percent = |all: bool| -> String {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() && !all;
            bytes
                .iter()
                .map(|b| {
                    if plain(*b) {
                        (*b as char).to_string()
                    } else {
                        format!("%{b:02X}")
                    }
                })
                .collect()
        };
        let json = serde_json::to_string(self.0)
            .unwrap()
            .trim_matches('"')
            .to_owned();
        let mut forms = vec![
            self.0.to_owned(),
            HEXLOWER.encode(bytes),
            percent(false),
            percent(true),
            json,
        ];
        forms.push(self.0.chars().rev().collect());
        // The part of the base64 that does not depend on the text before and after.
        for shift in 0..3 {
            let padded = [&b"\0\0"[..shift], bytes].concat();
            for encoding in [&BASE64_NOPAD, &BASE64URL_NOPAD] {
                let text = encoding.encode(&padded);
                forms.push(text[4..text.len() - 2].to_owned());
            }
        }
        let (first, second) = self.0.split_at(self.0.len() / 2);
        forms.extend([first.to_owned(), second.to_owned()]);
        forms.iter().map(|form| form.to_ascii_lowercase()).collect()
    }

    /// Asserts that `text` holds the value in no form.
    #[track_caller]
    pub(crate) fn is_not_in(&self, what: &str, text: &str) {
        let text = text.to_ascii_lowercase();
        let found: Vec<String> = self
            .forms()
            .into_iter()
            .filter(|form| text.contains(form))
            .collect();
        assert!(found.is_empty(), "{what} holds {found:?}: {text}");
    }

    /// Asserts that no file below `folder` holds the value, in its content or its name. Returns the number of files.
    #[track_caller]
    pub(crate) fn is_nowhere_below(&self, folder: &Path) -> usize {
        let mut looked_at = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            self.is_not_in("a path", &path.display().to_string());
            let kind = path.symlink_metadata().unwrap().file_type();
            if kind.is_dir() {
                looked_at += self.is_nowhere_below(&path);
            } else if kind.is_file() {
                looked_at += 1;
                let bytes = std::fs::read(&path).unwrap();
                self.is_not_in(
                    &path.display().to_string(),
                    &String::from_utf8_lossy(&bytes),
                );
            }
        }
        looked_at
    }
}
