use toolcell_guest::{Output, ToolError, data, progress, tool};

use crate::{document::Pdf, interpreter::Interpreter};

#[data]
pub(crate) struct Text {
    /// The PDF file.
    path: String,
    /// The first page to read, from 1 on.
    #[serde(default = "first")]
    #[schemars(range(min = 1))]
    first: u32,
    /// The last page to read. Default: the last one of the file.
    #[serde(default)]
    #[schemars(range(min = 1))]
    last: Option<u32>,
    /// Maximum number of characters of all pages together. Default: 50,000.
    #[serde(default = "chars_max")]
    #[schemars(range(min = 1, max = 1_000_000))]
    max_chars: u32,
}

fn first() -> u32 {
    1
}

fn chars_max() -> u32 {
    50_000
}

#[data]
pub(crate) struct Texts {
    pages: Vec<Page>,
    /// How many pages the file has.
    page_count: usize,
    /// The page to continue with, if `max_chars` was reached before the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next_page: Option<u32>,
}

#[data]
pub(crate) struct Page {
    /// Its number in the file, from 1 on.
    page: u32,
    /// Empty if the page is an image, such as a scan.
    text: String,
    /// `true` if the text is longer than `max_chars`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

/// Reads the text of a PDF file, page by page.
///
/// Lines and words come from where the text stands on the page, in the order in which the file draws it. There is no
/// recognition of text in images: a scanned page is empty.
#[tool(
    kind = "file_operation",
    search_hint = "read PDF text pages extract",
    access = ["file_read"],
    paths = ["path"],
    content = ["text"],
    read_only,
    concurrency_safe
)]
pub(crate) fn text(input: Text) -> Result<Output<Texts>, ToolError> {
    let pdf = Pdf::open(&input.path)?;
    if pdf.needs_password {
        let message = format!("{} can be read only with a password", input.path);
        return Err(ToolError::capability_gap("password_needed", message));
    }
    let ids = pdf.pages(&input.path)?;
    let last = input.last.map_or(ids.len(), |last| last as usize);
    let last = last.min(ids.len());
    let first = input.first as usize;
    if first > last {
        let message = format!(
            "there are no pages from {first} to {last}: {} has {} pages",
            input.path,
            ids.len()
        );
        return Err(ToolError::invalid_arguments("no_such_page", message));
    }
    let mut interpreter = Interpreter::new(&pdf, &input.path);
    let mut pages: Vec<Page> = Vec::new();
    let mut rest = input.max_chars as usize;
    let mut next_page = None;
    for (number, id) in (input.first..).zip(&ids[first - 1..last]) {
        let found = interpreter.page(*id, rest)?;
        // A page that does not fit comes with the next call, unless it is the first one.
        if found.is_cut && !pages.is_empty() {
            next_page = Some(number);
            break;
        }
        rest -= found.text.chars().count().min(rest);
        pages.push(Page {
            page: number,
            text: found.text,
            truncated: found.is_cut,
        });
        if found.is_cut {
            next_page = (number as usize).lt(&last).then_some(number + 1);
            break;
        }
        progress::percent((pages.len() * 100) as f64 / (last + 1 - first) as f64);
    }
    let texts = Texts {
        pages,
        page_count: ids.len(),
        next_page,
    };
    Ok(Output::new().text(render(&texts)).structured(texts))
}

fn render(texts: &Texts) -> String {
    let mut text = String::new();
    for page in &texts.pages {
        let end = match (&page.truncated, page.text.is_empty()) {
            (true, _) => "\n(cut off at `max_chars`)",
            (_, true) => "(no text)",
            _ => "",
        };
        text.push_str(&format!(
            "--- page {} of {} ---\n{}{end}\n\n",
            page.page, texts.page_count, page.text
        ));
    }
    if let Some(next) = texts.next_page {
        text.push_str(&format!("(more from page {next})"));
    }
    text.trim_end().to_owned()
}
