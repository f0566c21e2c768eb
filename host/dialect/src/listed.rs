use serde_json::{Map, Value};
use toolcell_core::record::{AccessKind, PermissionProfile, ToolDeclaration, ToolInterface, WriteEffect};

use crate::visible;

/// Length of a description that a note leaves room for, in characters.
const DESCRIPTION_CHARS_MIN: usize = 200;

/// The parts of the description of a tool. The schemas are those that a model may see.
#[derive(Clone, Copy, Debug)]
pub struct Listed<'a> {
    /// The name in this server.
    pub name: &'a str,
    /// Title and description, as a model may see them.
    pub title: Option<&'a str>,
    pub description: &'a str,
    pub declaration: &'a ToolDeclaration,
    pub interface: Option<&'a ToolInterface>,
    pub permission: &'a PermissionProfile,
    /// What a model has to know beside the schema of the arguments; empty if there is nothing.
    pub note: &'a str,
    /// One object without references, whatever the real schema is.
    pub input_schema: &'a Value,
    pub output_schema: Option<&'a Value>,
    /// `sha256:<hex>` of the component.
    pub component: &'a str,
}

/// What a tool can do, as far as the host knows: what the sandbox prevents is certain, and the claims of a tool can
/// only make it look more dangerous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effects {
    pub is_read_only: bool,
    pub is_destructive: bool,
    pub is_open_world: bool,
}

impl Listed<'_> {
    /// The schema of the arguments, with `type: object`, which every API demands; the host accepts only objects anyway.
    pub fn parameters(&self) -> Map<String, Value> {
        let mut schema = self.input_schema.as_object().cloned().unwrap_or_default();
        if schema.get("type").is_none_or(|kind| kind != "object") {
            schema.insert("type".to_owned(), "object".into());
        }
        schema
    }

    /// The description and the note, as a model reads them.
    pub fn said(&self) -> String {
        self.said_within(usize::MAX)
    }

    /// [`Self::said`] in at most `chars_max` characters. The note stays whole, if it leaves room for the description.
    pub fn said_within(&self, chars_max: usize) -> String {
        let (description, note) = (visible(self.description), visible(self.note));
        if note.is_empty() {
            return cut(description, chars_max);
        }
        let left = chars_max.saturating_sub(note.chars().count() + 2);
        let description = match left >= DESCRIPTION_CHARS_MIN {
            true => cut(description, left),
            false => cut(description, DESCRIPTION_CHARS_MIN),
        };
        cut(format!("{description}\n\n{note}").trim_start().to_owned(), chars_max)
    }

    /// What the tool can do, as far as the host knows.
    pub fn effects(&self) -> Effects {
        let claim = |fact: fn(&ToolInterface) -> Option<&Value>| self.interface.and_then(fact).and_then(Value::as_bool);
        let is_destructive = changes(self.permission) || claim(|i| i.is_destructive.as_ref()) == Some(true);
        Effects {
            is_read_only: !is_destructive && claim(|i| i.is_read_only.as_ref()) != Some(false),
            is_destructive,
            is_open_world: self.permission.reaches_out() || claim(|i| i.is_open_world.as_ref()) == Some(true),
        }
    }
}

fn cut(text: String, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text,
        Some(_) => text.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// Whether a call may leave a trace, here or elsewhere: a request can change its target, unless the profile excludes
/// remote mutation.
fn changes(profile: &PermissionProfile) -> bool {
    let harmless = profile.write_effects.iter().all(|effect| *effect == WriteEffect::None);
    let only_reads_out = harmless && !profile.write_effects.is_empty();
    let acts = [AccessKind::ExternalSend, AccessKind::Payment, AccessKind::CodeExecution];
    profile.wants_file_write()
        || acts.iter().any(|kind| profile.wants(kind))
        || (profile.reaches_out() && !only_reads_out)
}
