//! A hook that removes the names of home folders from tool output: `/home/ada/notes` becomes `~/notes`.

use toolcell_guest::Content;
use toolcell_guest::hook::{Call, Output, hook};
use toolcell_guest::serde_json::Value;

/// The folders that contain home folders.
const HOMES: [&str; 2] = ["/home/", "/Users/"];

#[hook(post_tool_use, post_tool_use_failure)]
fn redact_paths(call: Call) -> Option<Output> {
    let mut content = call.result["content"].clone();
    let mut structured = call.result.get("structured_content").cloned();
    let mut found = redact(&mut content);
    found += structured.as_mut().map_or(0, redact);
    (found > 0).then(|| Output::UpdatedOutput(blocks(&content), structured))
}

/// The content blocks in a JSON array.
fn blocks(content: &Value) -> Vec<Content> {
    let objects = content
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_object);
    objects
        .map(|fields| {
            let kind = fields.get("type").and_then(Value::as_str).unwrap_or("text");
            fields
                .iter()
                .fold(Content::new(kind), |block, (name, value)| {
                    block.field(name, value.clone())
                })
        })
        .collect()
}

/// Shortens every path in `value` that leads through a home folder. Returns how many it shortened.
fn redact(value: &mut Value) -> usize {
    match value {
        Value::String(text) => {
            let (shorter, found) = shorten(text);
            *text = shorter;
            found
        }
        Value::Array(items) => items.iter_mut().map(redact).sum(),
        Value::Object(fields) => fields.values_mut().map(redact).sum(),
        _ => 0,
    }
}

fn shorten(text: &str) -> (String, usize) {
    let mut shorter = String::new();
    let mut rest = text;
    let mut found = 0;
    while let Some((start, home)) = HOMES
        .iter()
        .filter_map(|home| Some((rest.find(home)?, home)))
        .min_by_key(|(start, _)| *start)
    {
        let before = &rest[..start];
        let after = &rest[start + home.len()..];
        let end = after
            .find(|c: char| !c.is_alphanumeric() && !matches!(c, '.' | '-' | '_'))
            .unwrap_or(after.len());
        shorter.push_str(before);
        shorter.push_str(if end == 0 { home } else { "~" });
        found += usize::from(end > 0);
        rest = &after[end..];
    }
    (shorter + rest, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_folders_lose_their_names() {
        for (text, shorter, found) in [
            ("/home/ada/notes and /Users/b.c", "~/notes and ~", 2),
            ("/home/ and /srv/home", "/home/ and /srv/home", 0),
            ("nothing", "nothing", 0),
        ] {
            assert_eq!(shorten(text), (shorter.to_owned(), found));
        }
    }

    #[test]
    fn every_text_of_a_value_is_looked_at() {
        let mut value =
            toolcell_guest::serde_json::json!({"a": ["/home/ada/x", 7], "b": {"c": "/home/ada"}});
        assert_eq!(redact(&mut value), 2);
        assert_eq!(
            value,
            toolcell_guest::serde_json::json!({"a": ["~/x", 7], "b": {"c": "~"}})
        );
    }
}
