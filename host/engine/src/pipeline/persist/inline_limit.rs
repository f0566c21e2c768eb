//! How much of a result a caller gets inline, and how large a result is.

use serde_json::{Value, json};
use toolcell_spec::{
    Content, ErrorClass, OutputRetention, ResultId, Strategy, json_bytes, json_chars,
};

use crate::catalog::Tool;

use super::super::call_state::CallState;
use super::super::map_result::MappedResult;
use super::PREVIEW_CHARS_MAX;

pub(super) fn source(journey: &CallState<'_>, limit: InlineLimit) -> Value {
    json!({
        "relation": "output_of",
        "invocation_id": journey.invocation.invocation_id,
        "result_id": limit.result_id,
    })
}

#[derive(Clone, Copy)]
pub(super) struct InlineLimit {
    pub(super) result_id: ResultId,
    pub(super) bytes_max: u64,
    pub(super) chars_max: Option<u64>,
    /// Of the operator, tool and hooks.
    pub(super) keeping: OutputRetention,
    /// None of the tool's data stays.
    pub(super) secret: bool,
    /// No preview may have the tool's text.
    pub(super) silent: bool,
    pub(super) stopped: bool,
    /// The output may repeat one that must not be stored.
    pub(super) repeats: bool,
}

impl InlineLimit {
    /// The lower of the host's and the tool's limits.
    pub(super) fn from_call(journey: &CallState<'_>, result_id: ResultId, stopped: bool) -> Self {
        let tool = journey.tool.as_deref();
        let services = journey.services;
        let by_hook = if stopped {
            OutputRetention::by(Strategy::NeverPersist)
        } else {
            OutputRetention::default()
        };
        Self {
            result_id,
            bytes_max: tool
                .and_then(Tool::max_inline_bytes)
                .unwrap_or(u64::MAX)
                .min(services.inline_bytes_max),
            chars_max: tool.and_then(Tool::max_inline_chars),
            keeping: journey.keeping().and(by_hook),
            secret: tool.is_some_and(|tool| tool.permission_profile().is_secret()),
            silent: journey.redaction.whole,
            stopped,
            repeats: !journey.narrowed.journal,
        }
    }

    pub(super) fn holds(self, mapped: &MappedResult) -> bool {
        if !self.keeping.inline {
            return mapped.structured_content.is_none()
                && mapped.content.iter().all(Content::is_reference);
        }
        size(mapped) <= self.bytes_max && self.chars_max.is_none_or(|max| chars(mapped) <= max)
    }

    pub(super) fn holds_content(self, mapped: &MappedResult) -> bool {
        let bytes = mapped.content.iter().map(block_length).sum::<usize>() as u64;
        bytes <= self.bytes_max && self.chars_max.is_none_or(|max| block_chars(mapped) <= max)
    }

    pub(super) fn threshold(self) -> Value {
        let bytes_max = if self.keeping.inline {
            self.bytes_max
        } else {
            0
        };
        match self.chars_max {
            Some(chars_max) => {
                json!({ "inline_bytes_max": bytes_max, "inline_chars_max": chars_max })
            }
            None => json!({ "inline_bytes_max": bytes_max }),
        }
    }

    /// An eighth of what may stay inline, at most [`PREVIEW_CHARS_MAX`].
    pub(super) fn preview_chars(self) -> u64 {
        if !self.keeping.inline {
            return 0;
        }
        PREVIEW_CHARS_MAX.min(self.bytes_max.min(self.chars_max.unwrap_or(u64::MAX)) / 8)
    }

    /// None of sensitive data, of which only the reference stays (AT-STRAT-03).
    pub(super) fn shown_chars(self) -> usize {
        if self.silent {
            return 0;
        }
        usize::try_from(self.preview_chars()).unwrap_or(usize::MAX)
    }

    pub(super) fn verdict(self) -> &'static str {
        match (self.keeping.inline, self.secret) {
            (true, _) => "too large to return",
            (false, true) => "secret, and so is not returned",
            (false, false) => "to be kept by reference",
        }
    }

    pub(super) fn class(self) -> ErrorClass {
        if self.keeping.inline {
            ErrorClass::ResultTooLarge
        } else {
            ErrorClass::ResultRedacted
        }
    }

    pub(super) fn reason(self, strategy: Strategy) -> &'static str {
        match strategy {
            Strategy::Inline => "small enough to stay in the result",
            Strategy::NeverPersist if self.stopped => "a hook keeps it from being stored",
            Strategy::NeverPersist if self.repeats => {
                "it may repeat the output of another call, which may be on no disk"
            }
            Strategy::NeverPersist => "the operator or the tool keeps it from being stored",
            Strategy::Redact if !self.keeping.output => {
                "the operator or the tool lets no output out"
            }
            Strategy::Redact => "a hook redacted it; small enough to stay in the result",
            Strategy::RefOnly if self.secret => "the tool's data is secret: no result holds it",
            Strategy::RefOnly if !self.keeping.inline => {
                "the operator or the tool wants a reference only"
            }
            Strategy::PreviewAndPersist => "larger than a result may be",
            Strategy::RefOnly => "larger than a result may be, and sensitive",
            Strategy::DropWithReason if self.secret => "secret, and not stored",
            Strategy::DropWithReason => "too large, and not stored",
        }
    }
}

/// Non-text counts as JSON.
pub(super) fn chars(mapped: &MappedResult) -> u64 {
    block_chars(mapped) + mapped.structured_content.as_ref().map_or(0, json_chars) as u64
}

pub(super) fn block_chars(mapped: &MappedResult) -> u64 {
    let of_field = |value: &Value| match value {
        Value::String(text) => text.chars().count() as u64,
        value => json_chars(value) as u64,
    };
    mapped
        .content
        .iter()
        .flat_map(|block| block.fields.values())
        .map(of_field)
        .sum()
}

pub(super) fn exact_size(mapped: &MappedResult) -> u64 {
    let blocks = mapped.content.iter().map(json_bytes).sum::<usize>();
    (blocks + mapped.structured_content.as_ref().map_or(0, json_bytes)) as u64
}

/// Size of an output as JSON text, in bytes, without the names of its fields.
pub(crate) fn size(mapped: &MappedResult) -> u64 {
    let blocks = mapped.content.iter().map(block_length).sum::<usize>();
    (blocks + mapped.structured_content.as_ref().map_or(0, json_bytes)) as u64
}

pub(super) fn block_length(block: &Content) -> usize {
    block.fields.values().map(json_bytes).sum()
}

/// Size of the context modifiers of a call as JSON text, in bytes. They are bounded by themselves, and count in
/// no inline limit.
pub(crate) fn modifiers_size(mapped: &MappedResult) -> u64 {
    mapped
        .context_modifiers
        .iter()
        .map(|modifier| modifier.key.len() + json_bytes(&modifier.value))
        .sum::<usize>() as u64
}

pub(crate) fn names_size(mapped: &MappedResult) -> u64 {
    let touched = mapped
        .usage
        .iter()
        .filter_map(|usage| usage.touched.as_ref());
    touched
        .flat_map(|touched| &touched.listed)
        .map(|thing| thing.what.len())
        .sum::<usize>() as u64
}
