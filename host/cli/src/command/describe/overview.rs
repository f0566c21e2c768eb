//! A tool in words, in rows that fit a terminal.

use std::fmt::Write;

use serde::Serialize;
use serde_json::Value;
use toolcell_engine::catalog::{ArgumentForms, Tool};
use toolcell_spec::{AccessKind, Lifecycle, RiskLevel, WriteEffect};

use super::super::show::{self, word};
use super::example::{self, not_grantable};
use super::schema::{Reader, bounds, cut, properties, written};

/// Longer rows are hard to read.
const COLUMNS_MIN: usize = 40;
const COLUMNS_MAX: usize = 100;
const FIELDS_MAX: usize = 200;
const DEPTH_MAX: usize = 3;
/// In characters.
const SAID_CHARS_MAX: usize = 1_000;

pub(super) fn render(tool: &Tool, called: &str, columns: usize, is_enabled: bool) -> String {
    let mut rows = Rows {
        text: String::new(),
        columns: columns.clamp(COLUMNS_MIN, COLUMNS_MAX),
    };
    let declaration = tool.declaration();
    let note = match declaration.lifecycle {
        Lifecycle::Available if is_enabled => "",
        Lifecycle::Available if tool.feature().is_some() => " (behind a feature gate)",
        Lifecycle::Available => " (disabled)",
        Lifecycle::Draft => " (a draft)",
        Lifecycle::Disabled => " (disabled)",
        Lifecycle::RequiresSetup => " (has to be set up)",
        Lifecycle::Deferred => " (deferred)",
        Lifecycle::Deprecated => " (deprecated)",
        Lifecycle::Retired => " (retired)",
    };
    rows.line(0, &format!("{}{note}", declaration.qualified_name()));
    for line in tool.contract().shown(&declaration.description).lines() {
        rows.wrapped(2, 2, line);
    }
    takes(tool, &mut rows);
    returns(tool, &mut rows);
    asks(tool, &mut rows);
    limits(tool, &mut rows);
    if tool.is_configurable() {
        rows.wrapped(
            2,
            4,
            "settings: taken, from `config` of its [[tool]] in toolcell.toml",
        );
    }
    if !tool.notes().is_empty() {
        rows.line(2, "notes:");
        for note in tool.notes() {
            rows.line(4, &note.to_string());
        }
    }
    if let Some(command) = example::command(tool, called).filter(|_| is_enabled) {
        rows.line(2, "to call it:");
        // In one row, so that it can be copied.
        rows.line(4, &command);
    }
    rows.text
}

fn takes(tool: &Tool, rows: &mut Rows) {
    let schema = tool.contract().listed_schema();
    let defaults = tool
        .declaration()
        .input_contract
        .as_ref()
        .map(|contract| &contract.defaults);
    let default = |name: &str| defaults.and_then(|defaults| defaults.get(name));
    let mut fields = Fields::new(schema, rows);
    if !fields.section("takes:", schema, &default, true) {
        let words = if tool.contract().listed().is_possible() {
            "takes: no named arguments"
        } else {
            "takes: nothing that a call could send, because its schema accepts no object"
        };
        fields.rows.line(2, words);
    }
    if let Some(forms) = tool.contract().listed().forms() {
        takes_one_of(forms, rows);
    }
}

/// A call has one of `forms`.
fn takes_one_of(forms: &ArgumentForms, rows: &mut Rows) {
    let heading = match &forms.tag {
        Some(tag) => format!("by {} (in brackets: optional):", cut(tag)),
        None => "in one of these forms (in brackets: optional):".to_owned(),
    };
    if !forms.forms.is_empty() {
        rows.wrapped(4, 6, &heading);
    }
    for form in forms.forms.iter().take(FIELDS_MAX) {
        let said = in_short(form.said.as_deref().unwrap_or_default());
        let named = if form.values.is_empty() {
            String::new()
        } else {
            format!("{}: ", form.named())
        };
        rows.wrapped(
            6,
            8,
            format!("{named}{}  {said}", form.arguments()).trim_end(),
        );
    }
    if forms.forms.len() > FIELDS_MAX {
        rows.line(6, "..: `toolcell describe --json` prints the rest");
    }
    if forms.is_lossy {
        rows.wrapped(
            4,
            6,
            "further conditions apply; an error names the one that is not satisfied",
        );
    }
}

fn returns(tool: &Tool, rows: &mut Rows) {
    let contract = tool.declaration().output_contract.as_ref();
    let types = contract.map_or(&[][..], |contract| contract.content_types.as_slice());
    let content = if types.is_empty() {
        "content of any type".to_owned()
    } else {
        types.join(", ")
    };
    let Some(schema) = tool.contract().output_schema() else {
        return rows.wrapped(2, 4, &format!("returns: {content}"));
    };
    let mut fields = Fields::new(schema, rows);
    if !fields.section(
        &format!("returns: {content}; structured:"),
        schema,
        &|_| None,
        false,
    ) {
        let kind = fields.reader.kind(schema);
        fields
            .rows
            .wrapped(2, 4, &format!("returns: {content}; structured: {kind}"));
    }
}

fn asks(tool: &Tool, rows: &mut Rows) {
    let profile = tool.permission_profile();
    let kind = |kind: &AccessKind| match kind {
        AccessKind::FileWrite if profile.wants_drafts() && !profile.wants_file_write() => {
            "file_write (drafts alone, which are removed with the call)".to_owned()
        }
        kind => word(kind),
    };
    let kinds: Vec<String> = profile.access_kinds.iter().map(kind).collect();
    let kinds = if kinds.is_empty() {
        "nothing".to_owned()
    } else {
        kinds.join(", ")
    };
    rows.wrapped(2, 4, &format!("asks for: {kinds}"));
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            rows.wrapped(2, 4, &format!("{name}: {}", one_line(value)));
        }
    };
    let files = if tool.takes_granted_files() {
        "those that a command grants to its component alone"
    } else {
        ""
    };
    line("files", files);
    line("cannot be granted", &words(not_grantable(profile)));
    let network = profile.network_scope.as_deref();
    line("network", network.unwrap_or_default());
    line("secrets", &profile.credential_refs.join(", "));
    line("reads, if granted", &profile.environment.join(", "));
    line("calls, if granted", &profile.tool_calls.join(", "));
    if profile.user_info == Some(true) {
        line("gets", "what the caller's client says of its user");
    }
    line("risk", &word(&profile.risk_level));
    let effects = profile.write_effects.iter();
    let effects = effects.filter(|effect| **effect != WriteEffect::None);
    line("effects", &words(effects));
    let why = if profile.has_effect(&WriteEffect::Irreversible) {
        "needed for each call: it cannot be undone"
    } else if profile.approval_required == Some(true) {
        profile
            .approval_reason
            .as_deref()
            .unwrap_or("needed for each call")
    } else if profile.risk_level >= RiskLevel::High {
        "needed for each call, unless a rule allows it: its risk is high"
    } else {
        ""
    };
    line("approval", why);
}

fn limits(tool: &Tool, rows: &mut Rows) {
    let bytes = tool.max_inline_bytes();
    let chars = tool.max_inline_chars();
    let limits = [
        tool.timeout_ms()
            .map(|limit| format!("{limit} ms for a call")),
        bytes.map(|limit| show::counted(limit, "byte") + " of output"),
        chars.map(|limit| show::counted(limit, "character") + " of output"),
    ];
    let limits: Vec<String> = limits.into_iter().flatten().collect();
    if !limits.is_empty() {
        rows.wrapped(2, 4, &format!("limits: {}", limits.join(", ")));
    }
}

fn words<'a, T: Serialize + 'a>(values: impl IntoIterator<Item = &'a T>) -> String {
    values.into_iter().map(word).collect::<Vec<_>>().join(", ")
}

struct Fields<'a, 'r> {
    reader: Reader<'a>,
    left: usize,
    cut: bool,
    rows: &'r mut Rows,
}

type DefaultOf<'d> = &'d dyn Fn(&str) -> Option<&'d Value>;

impl<'a, 'r> Fields<'a, 'r> {
    fn new(schema: &'a Value, rows: &'r mut Rows) -> Self {
        Self {
            reader: Reader::new(schema),
            left: FIELDS_MAX,
            cut: false,
            rows,
        }
    }

    /// Returns `false` if `schema` has no fields.
    fn section(
        &mut self,
        heading: &str,
        schema: &'a Value,
        default: DefaultOf<'_>,
        optional: bool,
    ) -> bool {
        let Some(object) = self
            .reader
            .object(schema)
            .filter(|object| properties(object).next().is_some())
        else {
            return false;
        };
        self.rows.wrapped(2, 4, heading);
        self.fields(object, 0, default, optional);
        true
    }

    fn fields(&mut self, object: &'a Value, depth: usize, default: DefaultOf<'_>, optional: bool) {
        let indent = 4 + 2 * depth;
        for (name, schema, required) in properties(object) {
            if self.left == 0 || !self.reader.step() {
                if !self.cut {
                    self.rows
                        .line(indent, "..: `toolcell describe --json` prints the rest");
                }
                self.cut = true;
                return;
            }
            self.left -= 1;
            let line = self.line(name, schema, default(name), optional.then_some(required));
            self.rows.wrapped(indent, indent + 4, &line);
            let inner = self.reader.object(schema).filter(|_| depth < DEPTH_MAX);
            if let Some(inner) = inner {
                self.fields(inner, depth + 1, &|_| None, optional);
            }
        }
    }

    fn line(
        &mut self,
        name: &str,
        schema: &'a Value,
        default: Option<&Value>,
        required: Option<bool>,
    ) -> String {
        let target = self.reader.resolved(schema);
        let default = default
            .or_else(|| schema.get("default"))
            .or_else(|| target.get("default"));
        let default = default.filter(|value| !value.is_null());
        let mut said = vec![self.reader.kind(schema)];
        match (required, default) {
            (Some(true), _) => said.push("required".to_owned()),
            (Some(false), None) => said.push("optional".to_owned()),
            (Some(false), Some(value)) => said.push(format!("default {}", written(value))),
            (None, _) => {}
        }
        said.extend(bounds(target));
        let what = schema.get("description").or(target.get("description"));
        let what = in_short(what.and_then(Value::as_str).unwrap_or_default());
        format!("{} ({}) {what}", cut(name), said.join(", "))
    }
}

fn in_short(text: &str) -> String {
    one_line(text).chars().take(SAID_CHARS_MAX).collect()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

struct Rows {
    text: String,
    columns: usize,
}

impl Rows {
    fn line(&mut self, indent: usize, words: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{}", format!("{:indent$}{words}", "").trim_end());
    }

    /// A row that fits stays as it is; a word longer than a row stays whole.
    fn wrapped(&mut self, first: usize, rest: usize, words: &str) {
        // Before the rows are measured, because an escape is longer than what it stands for.
        let words = show::printable(words.trim_end(), true);
        if words.chars().count().saturating_add(first) <= self.columns {
            return self.line(first, &words);
        }
        let mut row = String::new();
        let mut width = 0;
        let mut indent = first;
        for word in words.split_whitespace() {
            let length = word.chars().count();
            if width > 0 && indent + width + 1 + length > self.columns {
                self.line(indent, &row);
                (row, width, indent) = (String::new(), 0, rest);
            }
            if width > 0 {
                row.push(' ');
                width += 1;
            }
            row.push_str(word);
            width += length;
        }
        self.line(indent, &row);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(schema: &Value) -> String {
        let mut rows = Rows {
            text: String::new(),
            columns: 40,
        };
        let mut fields = Fields {
            reader: Reader::new(schema),
            left: FIELDS_MAX,
            cut: false,
            rows: &mut rows,
        };
        fields.section("takes:", schema, &|_| None, true);
        rows.text
    }

    #[test]
    fn fields_stand_in_rows_that_fit() {
        let schema = json!({
            "required": ["target"],
            "properties": {
                "target": {"type": "object", "required": ["path"], "properties": {"path": {"type": "string"}}},
                "count": {
                    "type": "integer", "minimum": 1, "default": 3,
                    "description": "How many there are,\nat the most, of all that are found.",
                },
            },
        });
        let expected = "  takes:\n    target (object, required)\n      path (string, required)\n    \
                        count (integer, default 3, at least\n        1) How many there are, at the\n        \
                        most, of all that are found.\n";
        assert_eq!(shown(&schema), expected);
        assert_eq!(shown(&json!({"type": "object"})), "");
    }

    #[test]
    fn a_schema_of_many_fields_or_of_itself_ends() {
        let many: serde_json::Map<String, Value> = (0..1_000)
            .map(|at| (format!("f{at}"), json!({"$ref": "#"})))
            .collect();
        let text = shown(&json!({"properties": many}));
        assert!(
            text.lines().count() <= FIELDS_MAX + DEPTH_MAX + 2,
            "{} rows",
            text.lines().count()
        );
        assert!(text.contains("--json"), "{text}");
    }
}
