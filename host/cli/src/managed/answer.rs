//! The answer to a tool use, from the record of its call.

use serde_json::{Value, json};
use toolcell_dialect::{ResultPart, parts};
use toolcell_spec::CallRecord;

use super::wire::Answer;

/// Of all images of an answer, in bytes of base64: the API takes no larger one.
const IMAGES_MAX: usize = 5 << 20;

/// How a result is told; with the maximum length of its text, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerForm {
    Text(usize),
    /// A part of a file, which says where the rest begins.
    Part(usize),
    /// An exit code other than 0 is an error.
    Bash(usize),
}

impl AnswerForm {
    fn text_max(self) -> usize {
        match self {
            Self::Text(most) | Self::Part(most) | Self::Bash(most) => most,
        }
    }

    fn is_bash(self) -> bool {
        matches!(self, Self::Bash(_))
    }
}

pub(super) fn answer(record: &CallRecord, form: AnswerForm) -> Answer {
    let result = &record.result;
    let fields = result.structured_content.as_ref();
    let number = |name: &str| fields.and_then(|fields| fields.get(name)?.as_i64());
    let failed = form.is_bash() && number("exit_code").is_some_and(|code| code != 0);
    let mut content = blocks(parts(result), form.text_max());
    if let (AnswerForm::Part(_), Some(line)) = (form, number("next_offset")) {
        let more = format!("[the file goes on at line {line}: read it with view_range]");
        content.push(text_block(&more));
    }
    Answer {
        content,
        is_error: result.is_error || failed,
    }
}

fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// None is empty, because [`parts`] has none that is.
fn blocks(parts: Vec<ResultPart>, text_max: usize) -> Vec<Value> {
    let (mut text_left, mut images_left) = (text_max, IMAGES_MAX);
    let mut blocks = Vec::new();
    for part in parts {
        match part {
            ResultPart::Text(text) if text.len() <= text_left => {
                text_left -= text.len();
                blocks.push(text_block(&text));
            }
            ResultPart::Text(text) => {
                let kept = text.get(..text.floor_char_boundary(text_left));
                let kept = kept.unwrap_or_default();
                blocks.push(text_block(&format!(
                    "{kept}\n[output truncated at {text_max} bytes]"
                )));
                text_left = 0;
            }
            ResultPart::Image { media_type, data } if data.len() <= images_left => {
                images_left -= data.len();
                let source = json!({ "type": "base64", "media_type": media_type, "data": data });
                blocks.push(json!({ "type": "image", "source": source }));
            }
            ResultPart::Image { media_type, .. } => {
                blocks.push(text_block(&format!(
                    "[an image ({media_type}) that is too large]"
                )));
            }
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolcell_dialect::ResultPart;

    use super::blocks;

    #[test]
    fn long_texts_are_cut_between_characters_and_large_images_left_out() {
        let text = |text: &str| ResultPart::Text(text.to_owned());
        let cut = blocks(vec![text("abc"), text("ééé"), text("more")], 6);
        assert_eq!(
            cut,
            [
                json!({ "type": "text", "text": "abc" }),
                json!({ "type": "text", "text": "é\n[output truncated at 6 bytes]" }),
                json!({ "type": "text", "text": "\n[output truncated at 6 bytes]" }),
            ]
        );
        let image = |bytes| ResultPart::Image {
            media_type: "image/png",
            data: "A".repeat(bytes),
        };
        let images = blocks(vec![image(3 << 20), image(3 << 20)], 6);
        assert_eq!(images[0]["source"]["type"], "base64");
        assert_eq!(images[1]["type"], "text");
    }
}
