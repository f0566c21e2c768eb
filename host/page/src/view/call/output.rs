//! The output of a call, by the type of its content.

use data_encoding::BASE64;
use maud::{Markup, html};
use serde_json::Value;

use super::super::{list, text};
use crate::diff::unified;
use crate::json_tree::{tree, whole};
use crate::text::{block, in_url, line};

const BLOCKS_MAX: usize = 200;

pub(super) fn show(invocation: &Value, result: &Value) -> Markup {
    let id = text(invocation, "invocation_id");
    let blocks = list(result, "content");
    let structured = result
        .get("structured_content")
        .filter(|value| !value.is_null());
    html! {
        section aria-labelledby="output" {
            h2 id="output" { "Output" }
            @if result.is_null() { p class="empty" { "The call has not ended." } }
            (error(result))
            @for (at, shown) in blocks.iter().take(BLOCKS_MAX).enumerate() { (of_block(id, at, shown)) }
            @if blocks.len() > BLOCKS_MAX {
                p class="cut" {
                    ".. and " (blocks.len() - BLOCKS_MAX) " more. "
                    a href=(whole(id, "record")) { "Show the whole record" }
                }
            }
            @if let Some(structured) = structured {
                h3 { "Structured" }
                (tree(structured, Some(&whole(id, "structured"))))
            }
            (artifacts(id, result))
        }
    }
}

fn error(result: &Value) -> Markup {
    let Some(error) = result.get("error").filter(|error| error.is_object()) else {
        return html! {};
    };
    let code = text(error, "error_code");
    html! {
        p class="problem" {
            strong { (line(text(error, "error_class"))) } " " span class="code" { (line(code)) }
            br;
            span class="said" { (line(text(error, "message"))) }
        }
        p class="note" { code { "toolcell explain " (line(code)) } " says more." }
    }
}

fn of_block(id: &str, at: usize, shown: &Value) -> Markup {
    let part = whole(id, &format!("content-{at}"));
    let name = ["name", "title", "path", "uri"]
        .iter()
        .find_map(|field| shown.get(*field)?.as_str());
    let kind = text(shown, "type");
    let text_of = |field: &str| shown.get(field).and_then(Value::as_str);
    html! {
        @if kind != "text" || name.is_some() {
            h3 { (line(&kind.replace('_', " "))) @if let Some(name) = name { " " span class="said" { (line(name)) } } }
        }
        @match kind {
            "diff" => (unified(text_of("diff").or(text_of("text")).unwrap_or_default())),
            "image" | "audio" => (of_media(id, at, kind, shown)),
            _ => @match text_of("text") {
                Some(said) => (of_text(said, &part)),
                None => (tree(shown, Some(&part))),
            },
        }
    }
}

/// A text that is JSON, as a tree.
fn of_text(said: &str, part: &str) -> Markup {
    let trimmed = said.trim_start();
    let parsed: Option<Value> = if trimmed.starts_with(['{', '[']) && said.len() <= 1 << 20 {
        serde_json::from_str(said).ok()
    } else {
        None
    };
    html! {
        @match parsed {
            Some(value) => { (tree(&value, None)) details { summary { "As text" } (block(said, part)) } }
            None => (block(said, part)),
        }
    }
}

fn of_media(id: &str, at: usize, kind: &str, shown: &Value) -> Markup {
    let source = format!("/calls/{}/media/{at}", in_url(id));
    let found = bytes(shown).and_then(|bytes| self::kind(&bytes).map(|found| (found, bytes.len())));
    html! {
        @match (kind, found) {
            ("image", Some((found, size))) if found.starts_with("image/") => {
                p { img src=(source) alt={ "Image of " (size) " bytes that the tool returned" } class="shown"; }
            }
            ("audio", Some((found, _))) if found.starts_with("audio/") => {
                audio controls src=(source) preload="none" {}
            }
            _ => p class="note" { "Its type is not one that the page shows: " (line(text(shown, "media_type"))) "." },
        }
    }
}

/// Those of the block itself.
pub(super) fn bytes(block: &Value) -> Option<Vec<u8>> {
    BASE64.decode(block.get("data")?.as_str()?.as_bytes()).ok()
}

/// By its first bytes: a tool says of its own output what it likes.
pub(crate) fn kind(bytes: &[u8]) -> Option<&'static str> {
    let form = bytes.get(8..12);
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', ..] if form == Some(b"WEBP") => Some("image/webp"),
        [b'R', b'I', b'F', b'F', ..] if form == Some(b"WAVE") => Some("audio/wav"),
        [b'I', b'D', b'3', ..] | [0xff, 0xfb | 0xf3 | 0xf2, ..] => Some("audio/mpeg"),
        [b'O', b'g', b'g', b'S', ..] => Some("audio/ogg"),
        [b'f', b'L', b'a', b'C', ..] => Some("audio/flac"),
        _ => None,
    }
}

fn artifacts(id: &str, result: &Value) -> Markup {
    let stored = list(result, "artifact_refs").iter();
    let stored: Vec<&Value> = stored.chain(list(result, "resource_refs")).collect();
    html! {
        @if !stored.is_empty() {
            h3 { "Artifacts" }
            ul class="files" {
                @for reference in stored {
                    @let digest = text(reference, "digest");
                    @let name = reference.get("name").and_then(Value::as_str).unwrap_or("stored result");
                    li {
                        a download href={ "/calls/" (in_url(id)) "/artifacts/" (in_url(digest)) } { (line(name)) }
                        " " (line(text(reference, "media_type")))
                        @if let Some(size) = reference.get("size_bytes").and_then(Value::as_u64) { ", " (size) " bytes" }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::kind;

    #[test]
    fn only_bytes_of_known_types_are_shown() {
        assert_eq!(kind(b"\x89PNG\r\n\x1a\nrest"), Some("image/png"));
        assert_eq!(kind(b"RIFF....WAVEfmt "), Some("audio/wav"));
        for other in [&b"<svg xmlns=''>"[..], b"<html>", b"", b"RIFF", b"\x89PNG"] {
            assert_eq!(kind(other), None);
        }
    }
}
