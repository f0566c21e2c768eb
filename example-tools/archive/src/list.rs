use std::ops::ControlFlow;

use toolcell_guest::{Output, ToolError, data, tool};

use crate::{
    entry::{Archive, Kind},
    entry_name,
    format::Format,
    meter::Meter,
    names,
};

/// Maximum number of bytes that are unpacked to list a compressed tar archive.
const UNPACKED_BYTES_MAX: u64 = 4 << 30;
/// Maximum size of all names in one answer, in bytes.
const NAME_BYTES_MAX: usize = 256 << 10;

#[data]
pub(crate) struct List {
    /// The archive: zip, tar or tar.gz. Its content decides, not its name.
    path: String,
    /// Entries to skip: the `next_offset` of an earlier answer.
    #[serde(default)]
    offset: u32,
    /// At most so many entries.
    #[serde(default = "entries_max")]
    #[schemars(range(min = 1, max = 1_000))]
    max: u32,
}

fn entries_max() -> u32 {
    200
}

#[data]
pub(crate) struct Listing {
    format: Format,
    entries: Vec<Listed>,
    /// `true` if the archive has entries after these.
    more: bool,
    /// The `offset` of the next call, if there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next_offset: Option<u32>,
}

#[data]
pub(crate) struct Listed {
    /// As the archive has it, shortened if it is long.
    name: String,
    kind: Kind,
    /// The unpacked size, as the archive declares it.
    bytes: u64,
    /// Why `extract` refuses the archive because of this entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

/// Lists what a zip, tar or tar.gz archive contains: names, kinds and sizes, and which entries make `extract` refuse it.
#[tool(
    kind = "file_operation",
    search_hint = "list content of zip tar tar.gz archive",
    access = ["file_read"],
    paths = ["path"],
    content = ["text"],
    read_only,
    concurrency_safe
)]
pub(crate) fn list(input: List) -> Result<Output<Listing>, ToolError> {
    let archive = Archive::open(&input.path)?;
    let meter = Meter::new(archive.file_bytes, UNPACKED_BYTES_MAX);
    let mut entries: Vec<Listed> = Vec::new();
    let mut name_bytes = 0;
    let mut seen = 0;
    let mut more = false;
    archive.walk(&meter, &mut |entry, _| {
        seen += 1;
        if seen <= input.offset {
            return Ok(ControlFlow::Continue(()));
        }
        if entries.len() >= input.max as usize || name_bytes > NAME_BYTES_MAX {
            more = true;
            return Ok(ControlFlow::Break(()));
        }
        let name = entry_name::shown(&entry.name);
        name_bytes += name.len();
        entries.push(Listed {
            name,
            kind: entry.kind,
            bytes: entry.bytes,
            refused: names::problem(entry),
        });
        Ok(ControlFlow::Continue(()))
    })?;
    let next_offset = more.then(|| seen - 1);
    let listing = Listing {
        format: archive.format,
        entries,
        more,
        next_offset,
    };
    Ok(Output::new().text(render(&listing)).structured(listing))
}

fn render(listing: &Listing) -> String {
    let mut lines: Vec<String> = listing.entries.iter().map(line).collect();
    match listing.next_offset {
        Some(offset) => lines.push(format!("(more from offset {offset})")),
        None if lines.is_empty() => lines.push("The archive has no entries.".to_owned()),
        None => {}
    }
    lines.join("\n")
}

fn line(entry: &Listed) -> String {
    let size = match entry.kind {
        Kind::File => entry.bytes.to_string(),
        Kind::Folder => "folder".to_owned(),
        Kind::Link => "link".to_owned(),
        Kind::Special => "special".to_owned(),
    };
    let refused = entry
        .refused
        .as_ref()
        .map(|why| format!("  (refused: {why})"));
    format!("{size:>12}  {}{}", entry.name, refused.unwrap_or_default())
}
