use std::{fmt::Write, fs, path::Path};

use regex::bytes::{Regex, RegexBuilder};
use toolcell_guest::{
    Output, ToolError, cancellation, data,
    progress::{self, Update},
    tool,
};

use crate::{
    here,
    walk::{Entry, Glob, walk},
};

/// Maximum size of a searched file, in bytes: larger ones are seldom written by people, and would fill memory.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// A file is binary if its first bytes, this many, contain a NUL.
const SNIFFED_BYTES: usize = 8 * 1024;
/// Maximum length of a matching line in the answer, in characters.
const LINE_CHARS_MAX: usize = 300;
/// Files between two progress reports.
const FILES_PER_REPORT: u32 = 100;

#[data]
pub(crate) struct Query {
    /// A regular expression, matched against each line.
    pattern: String,
    /// The folder whose tree is searched, or one file.
    #[serde(default = "here")]
    path: String,
    /// Searches only files that this glob matches, such as `*.rs` or `src/**/*.ts`.
    #[serde(default)]
    glob: Option<String>,
    /// At most so many matching lines.
    #[serde(default = "matches_max")]
    #[schemars(range(min = 1, max = 5000))]
    max_matches: u32,
    /// Ignore case.
    #[serde(default)]
    ignore_case: bool,
    /// Look into `.git`, `node_modules` and `target` too.
    #[serde(default)]
    include_generated: bool,
}

fn matches_max() -> u32 {
    200
}

#[data]
pub(crate) struct Found {
    matches: Vec<Match>,
    /// Whether there are more matches.
    truncated: bool,
    files_searched: u32,
    /// Binary files and very large ones.
    files_skipped: u32,
    /// Files and folders that could not be read.
    unreadable: u32,
}

#[data]
struct Match {
    /// As the other tools take it.
    path: String,
    /// The first line is 1.
    line: u64,
    /// Where in the line the match begins, in characters; the first is 1.
    column: u64,
    /// The line, up to 300 characters of it.
    text: String,
}

/// Searches text files for lines that match a regular expression.
///
/// Binary files and files over 16 MiB are skipped, and so are `.git`, `node_modules` and `target`. Matches come in the
/// order of paths and lines. The expression has the syntax of Rust's regex crate: no look-around, no back-references.
#[tool(
    kind = "file_operation",
    search_hint = "search grep files regular expression",
    access = ["file_read"],
    paths = ["path"],
    content = ["text"],
    read_only,
    concurrency_safe
)]
pub(crate) fn search(input: Query) -> Result<Output<Found>, ToolError> {
    let mut search = Search::new(&input)?;
    let root = Path::new(&input.path);
    let metadata = fs::metadata(root).map_err(|error| ToolError::at_path(root, &error))?;
    if metadata.is_file() {
        search.file(root);
    } else {
        let closed = walk(root, input.include_generated, &mut |entry| {
            search.entry(&entry)
        })?;
        search.found.unreadable += closed;
    }
    let text = render(&search.found);
    Ok(Output::new().text(text).structured(search.found))
}

struct Search {
    /// Matches one line.
    expression: Regex,
    /// Matches anywhere in a whole file, which is much faster than matching line by line.
    anywhere: Option<Regex>,
    glob: Option<Glob>,
    matches_max: usize,
    bytes_read: u64,
    found: Found,
}

impl Search {
    fn new(input: &Query) -> Result<Self, ToolError> {
        let build = |multi_line| {
            RegexBuilder::new(&input.pattern)
                .case_insensitive(input.ignore_case)
                .multi_line(multi_line)
                .crlf(true)
                .build()
                .map_err(|error| ToolError::invalid_arguments("pattern_invalid", error.to_string()))
        };
        // In a whole file, `\A` and `\z` do not match at line ends, and inline flags can redefine `^` and `$`.
        let same_on_whole = ["\\A", "\\z", "(?"]
            .iter()
            .all(|part| !input.pattern.contains(part));
        Ok(Self {
            expression: build(false)?,
            anywhere: same_on_whole.then(|| build(true)).transpose()?,
            glob: input.glob.as_deref().map(Glob::new).transpose()?,
            matches_max: input.max_matches as usize,
            bytes_read: 0,
            found: Found {
                matches: Vec::new(),
                truncated: false,
                files_searched: 0,
                files_skipped: 0,
                unreadable: 0,
            },
        })
    }

    /// Returns whether to go on.
    fn entry(&mut self, entry: &Entry) -> Result<bool, ToolError> {
        if entry.kind.is_file()
            && self
                .glob
                .as_ref()
                .is_none_or(|glob| glob.matches(&entry.relative))
        {
            self.file(&entry.path);
            self.report()?;
        }
        Ok(!self.found.truncated)
    }

    fn file(&mut self, path: &Path) {
        match fs::metadata(path) {
            Ok(metadata) if metadata.len() > FILE_BYTES_MAX => {
                return self.found.files_skipped += 1;
            }
            Ok(_) => {}
            Err(_) => return self.found.unreadable += 1,
        }
        let Ok(bytes) = fs::read(path) else {
            return self.found.unreadable += 1;
        };
        self.bytes_read += bytes.len() as u64;
        if bytes.iter().take(SNIFFED_BYTES).any(|byte| *byte == 0) {
            return self.found.files_skipped += 1;
        }
        self.found.files_searched += 1;
        if self
            .anywhere
            .as_ref()
            .is_some_and(|anywhere| !anywhere.is_match(&bytes))
        {
            return;
        }
        for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let Some(hit) = self.expression.find(line) else {
                continue;
            };
            if self.found.matches.len() == self.matches_max {
                return self.found.truncated = true;
            }
            self.found.matches.push(Match {
                path: path.display().to_string(),
                line: number,
                column: String::from_utf8_lossy(&line[..hit.start()])
                    .chars()
                    .count() as u64
                    + 1,
                text: String::from_utf8_lossy(line)
                    .chars()
                    .take(LINE_CHARS_MAX)
                    .collect(),
            });
        }
    }

    /// Reports progress; fails if the call is canceled.
    fn report(&self) -> Result<(), ToolError> {
        let files = self.found.files_searched + self.found.files_skipped;
        if !files.is_multiple_of(FILES_PER_REPORT) {
            return Ok(());
        }
        let message = format!("{files} files, {} matches", self.found.matches.len());
        progress::report(Update::new().message(message).bytes_read(self.bytes_read));
        if let Err(stop) = cancellation::check() {
            cancellation::acknowledge();
            return Err(stop.into());
        }
        Ok(())
    }
}

fn render(found: &Found) -> String {
    let mut text = String::new();
    for hit in &found.matches {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}:{}: {}", hit.path, hit.line, hit.text);
    }
    if found.matches.is_empty() {
        let _ = writeln!(text, "no match in {} files", found.files_searched);
    }
    if found.truncated {
        let _ = writeln!(
            text,
            "(cut after {} matches; there are more)",
            found.matches.len()
        );
    }
    if found.unreadable > 0 {
        let _ = writeln!(
            text,
            "({} files or folders could not be read)",
            found.unreadable
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use toolcell_guest::{
        Outcome,
        cancellation::AbortReason,
        serde_json::{Value, json},
        testing,
    };

    use crate::{Toolkit, folder::Folder};

    fn search(input: Value) -> (String, Value) {
        match testing::invoke::<Toolkit>("search", input) {
            Outcome::Success(output) => (
                output.content[0]
                    .get("text")
                    .unwrap()
                    .as_str()
                    .unwrap()
                    .to_owned(),
                output.structured.unwrap(),
            ),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn matches_have_path_line_and_column_in_order() {
        let folder = Folder::new(&[("b.txt", "Needle\n"), ("a/z.txt", "hay\r\nhäy needle\r\n")]);
        let (text, found) =
            search(json!({"pattern": "needle$", "path": folder.text(""), "ignore_case": true}));
        let deep = folder.text("a/z.txt");
        let flat = folder.text("b.txt");
        assert_eq!(text, format!("{deep}:2: häy needle\n{flat}:1: Needle\n"));
        assert_eq!(
            found["matches"][0],
            json!({"path": deep, "line": 2, "column": 5, "text": "häy needle"})
        );
        assert_eq!(
            (&found["files_searched"], &found["truncated"]),
            (&json!(2), &json!(false))
        );
    }

    #[test]
    fn the_ends_of_a_line_are_where_a_person_sees_them() {
        let folder = Folder::new(&[
            ("unix", "a\nbc\n"),
            ("windows", "a\r\nbc\r\n"),
            ("open", "a\nbc"),
        ]);
        for pattern in ["^bc$", "\\Abc\\z", "(?-m)^bc$", "^b"] {
            let (_, found) = search(json!({"pattern": pattern, "path": folder.text("")}));
            assert_eq!(found["matches"].as_array().unwrap().len(), 3, "{pattern}");
        }
        let (_, found) = search(json!({"pattern": "a\\s+b", "path": folder.text("")}));
        assert_eq!(found["matches"], json!([]));
    }

    #[test]
    fn binary_and_generated_files_are_left_out() {
        let folder = Folder::new(&[
            ("a.rs", "x"),
            ("a.md", "x"),
            (".git/a.rs", "x"),
            ("node_modules/a.rs", "x"),
        ]);
        folder.write("b.rs", b"x\x00");
        let (_, found) = search(json!({"pattern": "x", "path": folder.text(""), "glob": "*.rs"}));
        assert_eq!(found["matches"].as_array().unwrap().len(), 1);
        assert_eq!(
            (&found["files_searched"], &found["files_skipped"]),
            (&json!(1), &json!(1))
        );
        let (_, found) =
            search(json!({"pattern": "x", "path": folder.text(""), "include_generated": true}));
        assert_eq!(found["matches"].as_array().unwrap().len(), 4);
    }

    #[test]
    fn more_matches_than_wanted_are_cut_and_said_so() {
        let folder = Folder::new(&[("a", "x\nx\nx\n")]);
        let (text, found) =
            search(json!({"pattern": "x", "path": folder.text("a"), "max_matches": 2}));
        assert_eq!(
            (
                found["matches"].as_array().unwrap().len(),
                &found["truncated"]
            ),
            (2, &json!(true))
        );
        assert!(text.ends_with("(cut after 2 matches; there are more)\n"));
        let (text, found) =
            search(json!({"pattern": "x", "path": folder.text("a"), "max_matches": 3}));
        assert_eq!(found["truncated"], false);
        assert!(!text.contains("cut"));
    }

    #[test]
    fn a_pattern_that_is_none_is_refused() {
        let Outcome::Failure(error) = testing::invoke::<Toolkit>("search", json!({"pattern": "("}))
        else {
            panic!()
        };
        assert_eq!(error.code, "pattern_invalid");
    }

    #[test]
    fn a_long_search_reports_and_can_be_cancelled() {
        testing::reset();
        let names: Vec<String> = (0..150).map(|number| format!("{number:03}")).collect();
        let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x")).collect();
        let folder = Folder::new(&files);
        search(json!({"pattern": "x", "path": folder.text("")}));
        assert_eq!(
            testing::progress()[0].message.as_deref(),
            Some("100 files, 100 matches")
        );
        testing::cancel(AbortReason::UserInterruption);
        let outcome =
            testing::invoke::<Toolkit>("search", json!({"pattern": "x", "path": folder.text("")}));
        assert!(matches!(outcome, Outcome::Failure(_)) && testing::acknowledged());
    }
}
