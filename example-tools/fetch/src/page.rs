//! Converts the main part of a page to Markdown, without navigation, scripts and forms.

use std::rc::Rc;

use htmd::HtmlToMarkdown;
use markup5ever_rcdom::{Handle, NodeData};
use toolcell_guest::ToolError;
use url::Url;

use crate::content::Content;

/// Elements that are not part of the page's text.
const SKIPPED: [&str; 17] = [
    "head", "script", "style", "noscript", "template", "iframe", "object", "svg", "canvas", "nav",
    "footer", "aside", "dialog", "button", "input", "select", "textarea",
];
/// Maximum nesting depth of elements. A deeper page is made to exhaust its parser.
const DEPTH_MAX: usize = 200;
const TITLE_CHARS_MAX: usize = 300;

/// Returns the Markdown of a page that came from `url`, with absolute links.
pub(crate) fn to_markdown(html: &str, url: &Url) -> Result<Content, ToolError> {
    let converter = HtmlToMarkdown::builder()
        .skip_tags(SKIPPED.to_vec())
        .scripting_enabled(false)
        .build();
    let failed =
        |error: std::io::Error| ToolError::execution_failed("unreadable_page", error.to_string());
    let tree = converter.html_to_tree(html).map_err(failed)?;
    let found = look(&tree, url)?;
    let text = converter.tree_to_markdown(found.main.as_ref().unwrap_or(&tree));
    Ok(Content {
        title: found.title,
        text,
    })
}

#[derive(Default)]
struct Found {
    title: Option<String>,
    /// The first `main` element.
    main: Option<Handle>,
}

/// Walks the tree once, without recursion: finds the title and the main part, and makes links absolute.
fn look(tree: &Handle, url: &Url) -> Result<Found, ToolError> {
    let mut found = Found::default();
    let mut base = url.clone();
    let mut based = false;
    let mut waiting = vec![(Rc::clone(tree), 0)];
    while let Some((node, depth)) = waiting.pop() {
        if depth > DEPTH_MAX {
            let message = format!("the page has more than {DEPTH_MAX} elements inside each other");
            return Err(ToolError::capability_gap("too_deep", message));
        }
        if let NodeData::Element { name, attrs, .. } = &node.data {
            for attribute in attrs.borrow_mut().iter_mut() {
                let is_link = matches!(&*attribute.name.local, "href" | "src");
                match base.join(attribute.value.trim()) {
                    Ok(absolute) if is_link && &*name.local == "base" && !based => {
                        (base, based) = (absolute, true)
                    }
                    Ok(absolute) if is_link => attribute.value = absolute.as_str().into(),
                    _ => {}
                }
            }
            match &*name.local {
                "title" if found.title.is_none() => found.title = text_of(&node),
                "main" if found.main.is_none() => found.main = Some(Rc::clone(&node)),
                _ => {}
            }
        }
        waiting.extend(
            node.children
                .borrow()
                .iter()
                .rev()
                .map(|child| (Rc::clone(child), depth + 1)),
        );
    }
    Ok(found)
}

/// The text directly in `node`, on one line.
fn text_of(node: &Handle) -> Option<String> {
    let children = node.children.borrow();
    let texts = children.iter().filter_map(|child| match &child.data {
        NodeData::Text { contents } => Some(contents.borrow().to_string()),
        _ => None,
    });
    let line = texts
        .collect::<String>()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let title: String = line.chars().take(TITLE_CHARS_MAX).collect();
    (!title.is_empty()).then_some(title)
}
