use lopdf::{Dictionary, Object, decode_text_string};
use toolcell_guest::{Output, ToolError, data, tool};

use crate::document::Pdf;

/// Maximum length of a value in the answer, in characters.
const CHARS_MAX: usize = 1_000;

#[data]
pub(crate) struct Path {
    /// The PDF file.
    path: String,
}

#[data]
#[derive(Default)]
pub(crate) struct Info {
    /// The version of the format, such as `1.7`.
    version: String,
    encrypted: bool,
    /// `true` if a password is needed to read the file. Then nothing else is known.
    needs_password: bool,
    /// How many pages the file has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pages: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keywords: Option<String>,
    /// The program that wrote the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    creator: Option<String>,
    /// The program that made the PDF file.
    #[serde(skip_serializing_if = "Option::is_none")]
    producer: Option<String>,
    /// As in ISO 8601, such as `2024-05-01T12:00:00+02:00`, as far as the file says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified: Option<String>,
}

/// Tells what a PDF file says about itself: pages, title, author, dates, programs, and whether it is encrypted.
#[tool(
    kind = "file_operation",
    search_hint = "PDF metadata title author page count encrypted",
    access = ["file_read"],
    paths = ["path"],
    content = ["text"],
    read_only,
    concurrency_safe
)]
pub(crate) fn info(input: Path) -> Result<Output<Info>, ToolError> {
    let pdf = Pdf::open(&input.path)?;
    let mut info = Info {
        version: limited(pdf.document.version.clone()),
        encrypted: pdf.is_encrypted,
        needs_password: pdf.needs_password,
        ..Info::default()
    };
    if !pdf.needs_password {
        info.pages = Some(pdf.pages(&input.path)?.len());
        let dictionary = pdf.get(&pdf.document.trailer, b"Info");
        if let Some(dictionary) = dictionary.and_then(|object| object.as_dict().ok()) {
            info.add(&pdf, dictionary);
        }
    }
    Ok(Output::new().text(info.render()).structured(info))
}

impl Info {
    fn add(&mut self, pdf: &Pdf, dictionary: &Dictionary) {
        let text = |key: &[u8]| {
            let text = decode_text_string(pdf.get(dictionary, key)?).ok()?;
            let text = limited(text.trim().to_owned());
            (!text.is_empty()).then_some(text)
        };
        let date = |key: &[u8]| match pdf.get(dictionary, key)? {
            Object::String(bytes, _) => iso_date(bytes),
            _ => None,
        };
        self.title = text(b"Title");
        self.author = text(b"Author");
        self.subject = text(b"Subject");
        self.keywords = text(b"Keywords");
        self.creator = text(b"Creator");
        self.producer = text(b"Producer");
        self.created = date(b"CreationDate");
        self.modified = date(b"ModDate");
    }

    fn render(&self) -> String {
        let pages = self.pages.map(|pages| pages.to_string());
        let encrypted = match (self.encrypted, self.needs_password) {
            (_, true) => Some("yes, a password is needed".to_owned()),
            (true, _) => Some("yes, it can be read without a password".to_owned()),
            _ => None,
        };
        [
            ("pages", &pages),
            ("title", &self.title),
            ("author", &self.author),
            ("subject", &self.subject),
            ("keywords", &self.keywords),
            ("creator", &self.creator),
            ("producer", &self.producer),
            ("created", &self.created),
            ("modified", &self.modified),
            ("encrypted", &encrypted),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name}: {}", value.as_ref()?)))
        .chain([format!("version: {}", self.version)])
        .collect::<Vec<_>>()
        .join("\n")
    }
}

fn limited(text: String) -> String {
    let text = text.chars().filter(|c| !c.is_control() || *c == '\n');
    text.take(CHARS_MAX).collect()
}

/// `D:20240501120000+02'00'` as ISO 8601. Parts at the end may be missing; `None` if there is no year.
fn iso_date(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?.trim();
    let text = text.strip_prefix("D:").unwrap_or(text);
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, zone) = text.split_at(digits);
    let mut date = number.get(..4)?.to_owned();
    let parts = [
        ("-", 1..=12),
        ("-", 1..=31),
        ("T", 0..=23),
        (":", 0..=59),
        (":", 0..=60),
    ];
    for (at, (separator, range)) in parts.into_iter().enumerate() {
        let start = 4 + 2 * at;
        let Some(part) = number.get(start..start + 2) else {
            break;
        };
        if !range.contains(&part.parse::<u32>().ok()?) {
            return None;
        }
        date.push_str(separator);
        date.push_str(part);
    }
    // A time without minutes is none in ISO 8601.
    if date.len() == 13 {
        date.push_str(":00");
    }
    if date.len() > 10 {
        date.push_str(&iso_zone(zone));
    }
    Some(date)
}

/// `+02'00'` as `+02:00`; empty if it cannot be read.
fn iso_zone(zone: &str) -> String {
    let digits: String = zone.chars().filter(char::is_ascii_digit).collect();
    match zone.chars().next() {
        Some('Z') => "Z".to_owned(),
        Some(sign @ ('+' | '-')) if digits.len() >= 2 => {
            let minutes = digits.get(2..4).unwrap_or("00");
            format!("{sign}{}:{minutes}", &digits[..2])
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::iso_date;

    #[test]
    fn dates_become_iso() {
        for (date, iso) in [
            ("D:20240501120000+02'00'", Some("2024-05-01T12:00:00+02:00")),
            ("D:20240501120000Z", Some("2024-05-01T12:00:00Z")),
            ("20240501120000-0530", Some("2024-05-01T12:00:00-05:30")),
            ("D:202405", Some("2024-05")),
            ("D:2024050112", Some("2024-05-01T12:00")),
            ("D:20241301", None),
            ("yesterday", None),
            ("", None),
        ] {
            assert_eq!(iso_date(date.as_bytes()).as_deref(), iso, "{date}");
        }
    }
}
