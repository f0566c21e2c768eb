//! The book: each page is in its summary, each link has a target, and the reference is made from the program.

mod claims;
mod reference;
mod settings;

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::support::root;

/// The address of the files of the repository, for links that leave the book.
const REPOSITORY: &str = "https://github.com/toolcell/toolcell/";
/// The file that lists the pages of the book.
const SUMMARY: &str = "docs/SUMMARY.md";

/// The README and all pages of the book, with their paths.
pub(crate) fn pages() -> Vec<(String, String)> {
    let mut folders = vec![PathBuf::from("docs")];
    let mut files = vec![PathBuf::from("README.md")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root().join(&folder)).unwrap() {
            let path = folder.join(entry.unwrap().file_name());
            if root().join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                files.push(path);
            }
        }
    }
    let mut pages: Vec<(String, String)> = reference::MADE
        .iter()
        .map(|(path, text)| ((*path).to_owned(), text.clone()))
        .collect();
    let is_made = |path: &Path| pages.iter().any(|(made, _)| Path::new(made) == path);
    // A book that was built here has left its pages.
    files.retain(|path| !is_made(path));
    pages.extend(files.into_iter().map(|path| {
        let text = std::fs::read_to_string(root().join(&path)).unwrap();
        (path.to_str().unwrap().to_owned(), text)
    }));
    pages.sort();
    pages
}

/// The targets of the links in a text, without those in its blocks of code.
fn links(text: &str) -> Vec<&str> {
    let prose = text.split("\n```").step_by(2);
    let targets = prose
        .flat_map(|part| part.split("](").skip(1))
        .filter_map(|rest| rest.split(')').next());
    targets.collect()
}

/// `path` without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                assert!(plain.pop(), "{} leaves the repository", path.display())
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// The anchors of the headings of a page.
fn anchors(text: &str) -> BTreeSet<String> {
    let prose = text.split("\n```").step_by(2).flat_map(str::lines);
    let headings = prose
        .filter(|line| line.starts_with('#'))
        .map(|line| line.trim_start_matches('#').trim());
    let is_kept = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_');
    let anchor = |heading: &str| {
        heading
            .to_lowercase()
            .replace(' ', "-")
            .chars()
            .filter(is_kept)
            .collect::<String>()
    };
    headings.map(anchor).collect()
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut wrong = Vec::new();
    let others = ["ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"];
    let others = others.map(|path| {
        (
            path.to_owned(),
            std::fs::read_to_string(root().join(path)).unwrap(),
        )
    });
    let mut count = 0;
    let pages: Vec<(String, String)> = pages().into_iter().chain(others).collect();
    for (path, text) in &pages {
        for link in links(text) {
            count += 1;
            let (link, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target: PathBuf = match link.strip_prefix(REPOSITORY) {
                Some(rest) => {
                    let inside = rest
                        .strip_prefix("blob/main/")
                        .or_else(|| rest.strip_prefix("tree/main/"));
                    inside.unwrap_or_default().into()
                }
                None if link.contains("://") => continue,
                None if link.is_empty() => path.clone().into(),
                None => plain(&Path::new(path).parent().unwrap().join(link)),
            };
            let is_page = path.starts_with("docs/") && !link.starts_with(REPOSITORY);
            let made = reference::MADE
                .iter()
                .find(|(made, _)| target == Path::new(made));
            // A page that is made with the book is not in the repository.
            let is_there = match made {
                Some(_) => is_page,
                None => root().join(&target).exists(),
            };
            if !is_there || (is_page && !target.starts_with("docs")) {
                wrong.push(format!("{path}: {link}"));
                continue;
            }
            let has_anchor = |text: &str| anchors(text).contains(anchor);
            if !anchor.is_empty()
                && !match made {
                    Some((_, text)) => has_anchor(text),
                    None => has_anchor(&std::fs::read_to_string(root().join(&target)).unwrap()),
                }
            {
                wrong.push(format!("{path}: {link}#{anchor}"));
            }
        }
    }
    assert!(count > 100, "only {count} links were found");
    assert!(
        wrong.is_empty(),
        "links that lead nowhere, or out of the book: {wrong:#?}"
    );
}

#[test]
fn the_summary_has_every_page_once() {
    let summary = std::fs::read_to_string(root().join(SUMMARY)).unwrap();
    let mut listed: Vec<String> = links(&summary)
        .into_iter()
        .map(|link| format!("docs/{link}"))
        .collect();
    listed.sort();
    let is_page = |path: &String| path.starts_with("docs/") && path != SUMMARY;
    let pages: Vec<String> = pages()
        .into_iter()
        .map(|(path, _)| path)
        .filter(is_page)
        .collect();
    assert_eq!(listed, pages);
}

#[test]
fn every_page_begins_with_its_title() {
    for (path, text) in pages() {
        let titles = text
            .split("\n```")
            .step_by(2)
            .flat_map(str::lines)
            .filter(|line| line.starts_with("# "))
            .count();
        // The summary has the titles of its parts.
        assert!(
            text.starts_with("# ") && (titles == 1 || path == SUMMARY),
            "{path}"
        );
    }
}

#[test]
fn the_figures_beside_others_are_those_of_the_benchmarks() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let beside = read("docs/comparison.md");
    let measured = read("docs/benchmarks.md");
    for title in [
        "cold start",
        "first start",
        "warm call",
        "a short call",
        "memory after",
    ] {
        let start = format!("| {title}");
        let row = beside
            .lines()
            .find(|line| line.starts_with(&start))
            .unwrap_or_else(|| panic!("no row {title}"));
        for cell in row.split('|').skip(2).take(2) {
            let figure = cell.trim().split(' ').next().unwrap();
            assert!(measured.contains(&format!("| {figure} |")), "{row}");
        }
    }
}
