//! Checks the content of each block type (AT-CONT-01..13), before any other program reads it.

use serde_json::{Map, Value};

use super::{Content, TypedFields};

/// In bytes: a longer one carries its content, which belongs in `data`.
const URI_BYTES_MAX: usize = 8 << 10;
const NAME_BYTES_MAX: usize = 4 << 10;
const MEDIA_TYPE_BYTES_MAX: usize = 255;
const AGENT_BYTES_MAX: usize = 256;

type BlockFields = Map<String, Value>;
type BlockCheck = Result<(), &'static str>;

impl Content {
    /// Problem of a tool's block; `None` also for a type that tools may not write.
    ///
    /// ```
    /// use serde_json::json;
    /// use toolcell_spec::Content;
    ///
    /// let image = Content::new("image", json!({ "data": "not base64!", "media_type": "image/png" }));
    /// assert_eq!(image.problem(), Some("`data` is not base64"));
    /// assert_eq!(Content::text("fine").problem(), None);
    /// ```
    pub fn problem(&self) -> Option<&'static str> {
        let fields = &self.fields;
        let checked = match self.kind.as_str() {
            // Most results are one text.
            "text" => {
                return fields.text("text").is_none().then_some("it has no `text`");
            }
            "log" => fields.text("text").map(|_| ()).ok_or("it has no `text`"),
            "diff" => diff(fields),
            "image" | "audio" => media(fields, true),
            "video" | "file" => media(fields, false),
            "resource_link" => link(fields),
            "embedded_resource" => embedded(fields),
            "handoff_ref" => handoff(fields),
            _ => Ok(()),
        };
        checked.and_then(|()| names(fields)).err()
    }

    pub fn media_type(&self) -> Option<&str> {
        media_type(&self.fields)
    }
}

/// Knows every spelling.
pub fn media_type(fields: &Map<String, Value>) -> Option<&str> {
    ["media_type", "mimeType", "mime_type"]
        .into_iter()
        .find_map(|name| fields.text(name))
}

/// Requires padding (RFC 4648).
pub fn is_base64(data: &str) -> bool {
    let body = data.trim_end_matches('=');
    data.len().is_multiple_of(4)
        && data.len() - body.len() <= 2
        && body
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/')
}

/// Clients that parse URIs would refuse the whole result.
pub fn is_uri(uri: &str) -> bool {
    let Some((scheme, rest)) = uri.split_once(':') else {
        return false;
    };
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
        && !rest.is_empty()
        && rest
            .bytes()
            .all(|b| b.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&b))
}

pub fn is_media_type(text: &str) -> bool {
    let token = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
    };
    let (essence, parameters) = text.split_once(';').unwrap_or((text, ""));
    text.len() <= MEDIA_TYPE_BYTES_MAX
        && essence
            .trim_end_matches(' ')
            .split_once('/')
            .is_some_and(|(main, sub)| token(main) && token(sub))
        && parameters
            .bytes()
            .all(|b| b == b' ' || b.is_ascii_graphic())
}

fn diff(fields: &BlockFields) -> BlockCheck {
    fields
        .text("diff")
        .or(fields.text("text"))
        .map(|_| ())
        .ok_or("it has no `diff`")
}

fn media(fields: &BlockFields, typed: bool) -> BlockCheck {
    match fields.get("data") {
        None if fields.contains_key("uri") => uri(fields)?,
        None => return Err("it has neither `data` nor `uri`"),
        Some(Value::String(data)) if is_base64(data) => {
            if typed && media_type(fields).is_none() {
                return Err("it has no `media_type`");
            }
            if fields.contains_key("uri") {
                uri(fields)?;
            }
        }
        Some(_) => return Err("`data` is not base64"),
    }
    typed_well(fields)
}

fn link(fields: &BlockFields) -> BlockCheck {
    uri(fields).and_then(|()| typed_well(fields))
}

/// The fields may be in `resource`.
fn embedded(fields: &BlockFields) -> BlockCheck {
    let fields = fields.fields("resource").unwrap_or(fields);
    uri(fields)?;
    match (
        fields.get("text"),
        fields.get("data").or(fields.get("blob")),
    ) {
        (Some(Value::String(_)), _) => typed_well(fields),
        (None, Some(Value::String(data))) if is_base64(data) => typed_well(fields),
        (None, None) => Err("it has neither `text` nor `data`"),
        (Some(_), _) => Err("`text` is not a text"),
        (None, Some(_)) => Err("`data` is not base64"),
    }
}

/// A proposal on which the host never acts.
fn handoff(fields: &BlockFields) -> BlockCheck {
    let agent = fields.text("to_agent").ok_or("it has no `to_agent`")?;
    if agent.trim().is_empty()
        || agent.len() > AGENT_BYTES_MAX
        || agent.chars().any(char::is_control)
    {
        return Err("`to_agent` is not a name of 1 to 256 bytes without control characters");
    }
    match fields.get("message") {
        None | Some(Value::String(_)) => Ok(()),
        Some(_) => Err("`message` is not a text"),
    }
}

fn uri(fields: &BlockFields) -> BlockCheck {
    let uri = fields.text("uri").ok_or("it has no `uri`")?;
    if uri.len() > URI_BYTES_MAX {
        return Err("`uri` is longer than 8192 bytes");
    }
    if is_uri(uri) {
        Ok(())
    } else {
        Err("`uri` is not a URI with a scheme")
    }
}

fn typed_well(fields: &BlockFields) -> BlockCheck {
    match media_type(fields) {
        Some(text) if !is_media_type(text) => {
            Err("`media_type` is not a media type such as image/png")
        }
        _ => Ok(()),
    }
}

fn names(fields: &BlockFields) -> BlockCheck {
    let long = |name: &&str| {
        fields
            .text(name)
            .is_some_and(|text| text.len() > NAME_BYTES_MAX)
    };
    match ["name", "title", "path"].into_iter().find(long) {
        Some(_) => Err("its `name`, `title` or `path` is longer than 4096 bytes"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{Content, GUEST_BLOCKS};

    fn problem(block: Value) -> Option<&'static str> {
        serde_json::from_value::<Content>(block).unwrap().problem()
    }

    #[test]
    fn a_block_of_every_type_with_what_it_must_hold_is_valid() {
        let valid = [
            json!({ "type": "text", "text": "" }),
            json!({ "type": "image", "data": "AAAA", "media_type": "image/png" }),
            json!({ "type": "audio", "uri": "https://example.com/a.wav" }),
            json!({ "type": "video", "data": "AAAA" }),
            json!({ "type": "file", "data": "AA==", "mime_type": "text/plain; charset=utf-8", "name": "a" }),
            json!({ "type": "resource_link", "uri": "memo:1" }),
            json!({ "type": "embedded_resource", "resource": { "uri": "memo:1", "text": "t" } }),
            json!({ "type": "log", "text": "l" }),
            json!({ "type": "diff", "diff": "-a" }),
            json!({ "type": "artifact_ref", "reference": "toolcell:artifact/1" }),
            json!({ "type": "handoff_ref", "to_agent": "billing", "message": "m" }),
        ];
        assert_eq!(valid.len(), GUEST_BLOCKS.len());
        for (block, kind) in valid.into_iter().zip(GUEST_BLOCKS) {
            assert_eq!(
                (block["type"].as_str(), problem(block.clone())),
                (Some(kind), None)
            );
        }
    }

    #[test]
    fn what_a_block_lacks_or_holds_wrongly_is_named() {
        let long = "x".repeat(9_000);
        for (block, member) in [
            (json!({ "type": "text" }), "`text`"),
            (json!({ "type": "text", "text": 7 }), "`text`"),
            (json!({ "type": "log" }), "`text`"),
            (json!({ "type": "diff", "path": "a" }), "`diff`"),
            (json!({ "type": "image", "data": "AAAA" }), "`media_type`"),
            (
                json!({ "type": "image", "data": "AAA", "media_type": "image/png" }),
                "`data`",
            ),
            (
                json!({ "type": "image", "data": "AAAA", "media_type": "image" }),
                "`media_type`",
            ),
            (
                json!({ "type": "audio", "data": "AAAA", "media_type": format!("a/{long}") }),
                "`media_type`",
            ),
            (json!({ "type": "video" }), "`uri`"),
            (json!({ "type": "file", "data": 7 }), "`data`"),
            (
                json!({ "type": "file", "data": "AAAA", "uri": "no address" }),
                "`uri`",
            ),
            (
                json!({ "type": "file", "data": "AAAA", "name": long }),
                "`name`",
            ),
            (json!({ "type": "resource_link", "name": "a" }), "`uri`"),
            (
                json!({ "type": "resource_link", "uri": format!("memo:{long}") }),
                "`uri`",
            ),
            (
                json!({ "type": "embedded_resource", "uri": "memo:1" }),
                "`text`",
            ),
            (
                json!({ "type": "embedded_resource", "uri": "memo:1", "text": 7 }),
                "`text`",
            ),
            (
                json!({ "type": "embedded_resource", "uri": "memo:1", "blob": "?" }),
                "`data`",
            ),
            (json!({ "type": "handoff_ref" }), "`to_agent`"),
            (
                json!({ "type": "handoff_ref", "to_agent": "a\nb" }),
                "`to_agent`",
            ),
            (
                json!({ "type": "handoff_ref", "to_agent": "a", "message": [] }),
                "`message`",
            ),
        ] {
            let found = problem(block.clone());
            assert!(
                found.is_some_and(|found| found.contains(member)),
                "{block}: {found:?}"
            );
        }
    }
}
