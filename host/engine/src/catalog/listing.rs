//! The model's part of a contract: a schema without internal-only fields, wherever it names them (AT-N-10).

use std::borrow::Cow;
use std::collections::BTreeSet;

use anyhow::ensure;
use serde_json::{Map, Value};

use super::fields;
use super::words::{PointerStep, SubschemaKind, below, pointer, subschemas};
use toolcell_spec::{TypedFields, children, pointer_steps};

const PLACE_CHARS_MAX: usize = 300;

/// Replaces the name of an internal-only field in a text.
const INTERNAL: &str = "[internal]";

#[derive(Clone, Debug, Default)]
pub(super) struct HiddenNames(Vec<String>);

impl HiddenNames {
    pub(super) fn hidden_in<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut shown = Cow::Borrowed(text);
        for name in &self.0 {
            if let Some(replaced) = replaced(&shown, name) {
                shown = Cow::Owned(replaced);
            }
        }
        shown
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
        self.0.sort();
        self.0.dedup();
    }
}

/// Removes the fields `internal` and returns names to hide in texts. Fails if the schema needs a name.
pub(super) fn list(schema: &mut Value, internal: &[String]) -> anyhow::Result<HiddenNames> {
    let mut names = Vec::new();
    for field in internal {
        let steps: Vec<String> = field
            .strip_prefix('/')
            .map(pointer_steps)
            .unwrap_or_default();
        let (what, name) = match steps.last() {
            None => (SchemaField::Anywhere(field), Some(field)),
            Some(_) => (
                SchemaField::At(&steps),
                steps.iter().rev().find(|step| !is_item(step)),
            ),
        };
        let referred = take(schema, what);
        let Some(name) = name else { continue };
        let shown = shows(schema, name);
        ensure!(
            !(referred && shown),
            "internal_only_fields: {field:?} may lie behind a $ref, which a pointer does not follow; name the field \
             without a pointer, or write the schema out in its place"
        );
        // A field of the same name at another place is not internal, so texts may mention it.
        if !shown {
            names.push(name.clone());
        }
    }
    if internal.is_empty() {
        return Ok(HiddenNames::default());
    }
    prune(schema);
    let names = HiddenNames(names);
    hide_texts(schema, &names);
    let elsewhere = refers_for_names(schema);
    for name in &names.0 {
        // A reference in `propertyNames` can lead anywhere, so any text that contains the name counts.
        let left = remains(schema, name).or_else(|| {
            if elsewhere {
                spoken(schema, name)
            } else {
                None
            }
        });
        ensure!(
            left.is_none(),
            "internal_only_fields: the schema still names {name:?}, at {}; call that otherwise",
            left.map(place).unwrap_or_default()
        );
    }
    Ok(names)
}

#[derive(Clone, Copy)]
pub(super) enum SchemaField<'a> {
    Anywhere(&'a str),
    At(&'a [String]),
}

impl<'a> SchemaField<'a> {
    pub(super) fn here(self) -> Option<&'a str> {
        match self {
            Self::Anywhere(name) => Some(name),
            Self::At([step]) => Some(step),
            Self::At(_) => None,
        }
    }

    pub(super) fn below(self, leads: impl Fn(&str) -> bool) -> Option<Self> {
        match self {
            Self::Anywhere(_) => Some(self),
            Self::At([step, rest @ ..]) if !rest.is_empty() && leads(step) => Some(Self::At(rest)),
            Self::At(_) => None,
        }
    }

    fn remove_from(self, value: &mut Value) {
        match self {
            Self::Anywhere(name) => _ = fields::remove_name(value, name),
            Self::At(steps) => fields::remove_pointer(value, steps),
        }
    }
}

pub(super) fn is_item(step: &str) -> bool {
    step == "*" || step.parse::<usize>().is_ok()
}

/// Returns whether the rest of the pointer may lie behind a reference.
fn take(schema: &mut Value, field: SchemaField<'_>) -> bool {
    let Value::Object(words) = schema else {
        return false;
    };
    let mut referred = false;
    for (word, value) in words.iter_mut() {
        match (word.as_str(), &mut *value) {
            ("properties", Value::Object(properties)) => forget(properties, field),
            ("patternProperties", Value::Object(patterns)) => patterns.retain(|pattern, _| {
                field
                    .here()
                    .is_none_or(|name| replaced(pattern, name).is_none())
            }),
            ("required", Value::Array(names)) => forget_name(names, field),
            (
                "dependentRequired" | "dependentSchemas" | "dependencies",
                Value::Object(dependent),
            ) => {
                forget(dependent, field);
                for names in dependent.values_mut().filter_map(Value::as_array_mut) {
                    forget_name(names, field);
                }
            }
            ("propertyNames", Value::Object(names)) => {
                if let Some(Value::Array(names)) = names.get_mut("enum") {
                    forget_name(names, field);
                }
            }
            ("default" | "const", value) => field.remove_from(value),
            ("enum" | "examples", Value::Array(values)) => {
                values.iter_mut().for_each(|value| field.remove_from(value));
            }
            ("$ref" | "$dynamicRef", _) => referred |= matches!(field, SchemaField::At(_)),
            _ => {}
        }
        each_towards(word, value, field, &mut |inner, field| {
            referred |= take(inner, field)
        });
    }
    referred
}

/// Calls `see` with every schema directly under `word` in another schema that `field` may lie in, and with the field as seen
/// from there.
pub(super) fn each_towards<'f>(
    word: &str,
    value: &mut Value,
    field: SchemaField<'f>,
    see: &mut dyn FnMut(&mut Value, SchemaField<'f>),
) {
    let field = match (word, &mut *value) {
        ("properties", Value::Object(properties)) => {
            for (name, inner) in properties.iter_mut() {
                if let Some(field) = field.below(|step| step == name) {
                    see(inner, field);
                }
            }
            return;
        }
        ("patternProperties" | "additionalProperties" | "unevaluatedProperties", _) => {
            field.below(|_| true)
        }
        ("items" | "prefixItems" | "contains" | "additionalItems" | "unevaluatedItems", _) => {
            field.below(is_item)
        }
        ("$defs" | "definitions", _) if matches!(field, SchemaField::At(_)) => None,
        ("propertyNames", _) => None,
        _ => Some(field),
    };
    if let Some(field) = field {
        each_below(word, value, &mut |inner| see(inner, field));
    }
}

fn forget(named: &mut Map<String, Value>, field: SchemaField<'_>) {
    if let Some(name) = field.here() {
        named.shift_remove(name);
    }
}

pub(super) fn forget_name(names: &mut Vec<Value>, field: SchemaField<'_>) {
    names.retain(|known| field.here().is_none_or(|name| known != name));
}

/// Calls `see` with every schema directly under `word`; returns whether `word` holds schemas.
fn each_below(word: &str, value: &mut Value, see: &mut dyn FnMut(&mut Value)) -> bool {
    let below = below(word, value);
    match (&below, value) {
        (SubschemaKind::Named, Value::Object(named)) => named.values_mut().for_each(see),
        (SubschemaKind::Listed, Value::Array(all)) => all.iter_mut().for_each(see),
        (SubschemaKind::One, inner) => see(inner),
        _ => {}
    }
    below != SubschemaKind::Other
}

fn shows(schema: &mut Value, name: &str) -> bool {
    let Value::Object(words) = schema else {
        return false;
    };
    let mut found = words
        .fields("properties")
        .is_some_and(|named| named.contains_key(name));
    for (word, value) in words.iter_mut() {
        each_below(word, value, &mut |inner| found |= shows(inner, name));
    }
    found
}

/// Removes `names` from annotations, and drops examples that mention them. Keywords compared with input stay.
fn hide_texts(schema: &mut Value, names: &HiddenNames) {
    const COMPARED: [&str; 27] = [
        "type",
        "format",
        "pattern",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minContains",
        "maxContains",
        "minProperties",
        "maxProperties",
        "enum",
        "const",
        "default",
        "$ref",
        "$dynamicRef",
        "$anchor",
        "$dynamicAnchor",
        "$id",
        "$schema",
        "required",
    ];
    let Value::Object(words) = schema else { return };
    for (word, value) in words.iter_mut() {
        match (word.as_str(), &mut *value) {
            ("examples", Value::Array(examples)) => {
                examples.retain(|example| !speaks(example, names))
            }
            (word, _) if COMPARED.contains(&word) => {}
            (word, value) => {
                if !each_below(word, value, &mut |inner| hide_texts(inner, names)) {
                    hide_in(value, names);
                }
            }
        }
    }
}

fn hide_in(said: &mut Value, names: &HiddenNames) {
    match said {
        Value::String(text) => {
            if let Cow::Owned(hidden) = names.hidden_in(text) {
                *text = hidden;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| hide_in(item, names)),
        Value::Object(fields) => {
            fields.retain(|key, _| !names.0.iter().any(|name| name == key));
            fields.values_mut().for_each(|field| hide_in(field, names));
        }
        _ => {}
    }
}

fn speaks(value: &Value, names: &HiddenNames) -> bool {
    let text = value.as_str().map(|text| names.hidden_in(text));
    matches!(text, Some(Cow::Owned(_))) || children(value).any(|inner| speaks(inner, names))
}

/// Drops unreferenced definitions, because they describe removed fields.
fn prune(schema: &mut Value) {
    for word in ["$defs", "definitions"] {
        let Some(Value::Object(mut named)) = schema
            .as_object_mut()
            .and_then(|words| words.shift_remove(word))
        else {
            continue;
        };
        let mut open = BTreeSet::new();
        let mut plain = references(schema, word, &mut open);
        let mut kept = BTreeSet::new();
        while let Some(name) = open.pop_first() {
            if let Some(inner) = named.get(&name).filter(|_| kept.insert(name.clone())) {
                let mut more = BTreeSet::new();
                plain &= references(inner, word, &mut more);
                open.extend(more.into_iter().filter(|name| !kept.contains(name)));
            }
        }
        // An anchor, an `$id` or an unusual reference can lead to any definition, so all of them stay.
        plain &= named
            .values()
            .all(|inner| references(inner, word, &mut BTreeSet::new()));
        if plain {
            named.retain(|name, _| kept.contains(name));
        }
        if let (false, Some(words)) = (named.is_empty(), schema.as_object_mut()) {
            words.insert(word.to_owned(), Value::Object(named));
        }
    }
}

/// Collects referenced definitions. `false` for an anchor, an `$id`, or a reference that is not a plain local JSON
/// Pointer.
fn references(value: &Value, word: &str, found: &mut BTreeSet<String>) -> bool {
    match value {
        Value::Array(items) => items
            .iter()
            .fold(true, |plain, item| references(item, word, found) & plain),
        Value::Object(fields) => fields.iter().fold(true, |plain, (key, field)| {
            let here = match (key.as_str(), field) {
                ("$ref" | "$dynamicRef", Value::String(target)) => refers(target, word, found),
                ("$id" | "$anchor" | "$dynamicAnchor", Value::String(_)) => false,
                (_, field) => references(field, word, found),
            };
            here & plain
        }),
        _ => true,
    }
}

fn refers(target: &str, word: &str, found: &mut BTreeSet<String>) -> bool {
    let Some(pointer) = target
        .strip_prefix('#')
        .filter(|rest| rest.is_empty() || rest.starts_with('/'))
    else {
        return false;
    };
    let steps = pointer_steps(pointer);
    if let [first, name, ..] = steps.as_slice()
        && first == word
    {
        found.insert(name.clone());
    }
    !pointer.contains('%')
}

/// Steps from a place up to the top, collected only once it is found, because a name may take megabytes and lie above
/// everything else.
type PointerSteps<'s> = Vec<PointerStep<'s>>;

fn below_step<'s>(mut steps: PointerSteps<'s>, step: PointerStep<'s>) -> PointerSteps<'s> {
    steps.push(step);
    steps
}

/// Cut to [`PLACE_CHARS_MAX`] characters.
fn place(mut steps: PointerSteps<'_>) -> String {
    steps.reverse();
    pointer(&steps).chars().take(PLACE_CHARS_MAX).collect()
}

fn remains<'s>(schema: &'s Value, name: &str) -> Option<PointerSteps<'s>> {
    let words = schema.as_object()?;
    let referring = words.iter().find_map(|(word, value)| {
        let is_named = word.starts_with('$') && replaced(value.as_str()?, name).is_some();
        is_named.then(|| vec![PointerStep::Name(word)])
    });
    referring.or_else(|| {
        subschemas(words).find_map(|(word, step, inner)| {
            let found = match step {
                _ if word == "propertyNames" => spoken(inner, name),
                Some(PointerStep::Name(key)) if key == name => Some(PointerSteps::new()),
                _ => remains(inner, name),
            };
            let mut steps = found?;
            steps.extend(step);
            Some(below_step(steps, PointerStep::Name(word)))
        })
    })
}

fn spoken<'s>(value: &'s Value, name: &str) -> Option<PointerSteps<'s>> {
    match value {
        Value::String(text) => replaced(text, name).map(|_| PointerSteps::new()),
        Value::Array(items) => items.iter().enumerate().find_map(|(at, item)| {
            spoken(item, name).map(|steps| below_step(steps, PointerStep::At(at)))
        }),
        Value::Object(fields) => fields.iter().find_map(|(key, field)| {
            spoken(field, name).map(|steps| below_step(steps, PointerStep::Name(key)))
        }),
        _ => None,
    }
}

fn refers_for_names(schema: &Value) -> bool {
    schema.as_object().is_some_and(|words| {
        subschemas(words).any(|(word, _, inner)| match word {
            "propertyNames" => holds_reference(inner),
            _ => refers_for_names(inner),
        })
    })
}

fn holds_reference(value: &Value) -> bool {
    let refers = |word| value.get(word).is_some();
    refers("$ref") || refers("$dynamicRef") || children(value).any(holds_reference)
}

/// `None` if `name` is not a word of `text`.
fn replaced(text: &str, name: &str) -> Option<String> {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut shown = String::new();
    let mut from = 0;
    let mut done = 0;
    while let Some(at) = text
        .get(from..)
        .filter(|_| !name.is_empty())
        .and_then(|rest| rest.find(name))
    {
        let start = from + at;
        let end = from + at + name.len();
        let before = text
            .get(..start)
            .and_then(|before| before.chars().next_back());
        let after = text.get(end..).and_then(|after| after.chars().next());
        if !before.is_some_and(part_of_word) && !after.is_some_and(part_of_word) {
            shown.push_str(text.get(done..start).unwrap_or_default());
            shown.push_str(INTERNAL);
            done = end;
        }
        from = end;
    }
    if done == 0 {
        return None;
    }
    shown.push_str(text.get(done..).unwrap_or_default());
    Some(shown)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::list;

    fn listed(mut schema: Value, internal: &[&str]) -> Result<Value, String> {
        let internal: Vec<String> = internal.iter().map(|&name| name.to_owned()).collect();
        list(&mut schema, &internal)
            .map(|_| schema)
            .map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn no_keyword_names_an_internal_field() {
        let schema = json!({
            "type": "object",
            "title": "With zz_top",
            "description": "Hooks set zz_top, not zz_topping.",
            "properties": { "a": { "description": "`zz_top` of a", "x-note": { "zz_top": 1, "b": ["zz_top"] } },
                "zz_top": { "$ref": "#/$defs/Kind" } },
            "required": ["a", "zz_top"],
            "default": { "a": 1, "zz_top": 2 },
            "examples": [{ "a": 1, "zz_top": 2 }, { "a": "zz_top: 2" }],
            "enum": [{ "a": 1, "zz_top": 2 }],
            "dependentRequired": { "zz_top": ["a"], "a": ["zz_top"] },
            "dependentSchemas": { "zz_top": {}, "a": { "required": ["zz_top"] } },
            "patternProperties": { "^zz_top$": {} },
            "propertyNames": { "enum": ["a", "zz_top"] },
            "if": { "properties": { "zz_top": { "const": 1 } }, "required": ["zz_top"] },
            "allOf": [{ "not": { "required": ["zz_top"] } }],
            "$defs": { "Kind": { "properties": { "inner_secret": { "$ref": "#/$defs/Deep" } } }, "Deep": {} },
        });
        let shown = listed(schema, &["zz_top"]).unwrap();
        let text = shown.to_string();
        assert!(
            !text.replace("zz_topping", "").contains("zz_top") && !text.contains("inner_secret"),
            "{text}"
        );
        assert_eq!(
            shown["description"],
            "Hooks set [internal], not zz_topping."
        );
        assert_eq!(shown["examples"], json!([{ "a": 1 }]));
        assert!(shown.get("$defs").is_none(), "{text}");
    }

    #[test]
    fn a_pointer_takes_out_its_own_place_and_no_other() {
        let item = |rest: &str| json!({ "properties": { "id": {}, rest: {} }, "required": ["id"], "default": { "id": 1 } });
        let schema = json!({ "description": "the id", "properties": {
            "list": { "items": item("a") }, "one": item("b"),
        }, "default": { "list": [{ "id": 1 }], "one": { "id": 1 } } });
        let shown = listed(schema, &["/list/*/id"]).unwrap();
        let list = &shown["properties"]["list"]["items"];
        assert_eq!(
            list,
            &json!({ "properties": { "a": {} }, "required": [], "default": {} })
        );
        assert_eq!(shown["properties"]["one"], item("b"));
        assert_eq!(
            shown["default"],
            json!({ "list": [{}], "one": { "id": 1 } })
        );
        assert_eq!(
            shown["description"], "the id",
            "there is one that is not internal"
        );
    }

    #[test]
    fn a_field_may_be_named_like_a_word_of_schemas() {
        let schema = json!({ "title": "A", "type": "object", "properties": { "title": {}, "type": {}, "a": { "type": "null" } } });
        let shown = listed(schema, &["title", "type"]).unwrap();
        assert_eq!(
            shown,
            json!({ "title": "A", "type": "object", "properties": { "a": { "type": "null" } } })
        );
    }

    #[test]
    fn what_is_said_of_names_does_not_say_that_of_an_internal_field() {
        for (names, place) in [
            (
                json!({ "pattern": "^(a|zz_top)$" }),
                "/propertyNames/pattern",
            ),
            (
                json!({ "anyOf": [{ "const": "a" }, { "const": "zz_top" }] }),
                "/propertyNames/anyOf/1/const",
            ),
            (
                json!({ "not": { "enum": ["zz_top"] } }),
                "/propertyNames/not/enum/0",
            ),
            (json!({ "$ref": "#/$defs/names" }), "/$defs/names/enum/1"),
        ] {
            let schema = json!({
                "properties": { "a": { "propertyNames": names }, "zz_top": {} },
                "$defs": { "names": { "enum": ["a", "zz_top"] }, "more": { "$ref": "#/$defs/names" } },
            });
            let refused = listed(schema, &["zz_top"]).unwrap_err();
            assert!(refused.contains(place), "{refused}");
        }
        let other =
            json!({ "properties": { "zz_top": {} }, "propertyNames": { "pattern": "^[a-z_]*$" } });
        listed(other, &["zz_top"]).unwrap();
    }

    #[test]
    fn a_long_name_above_many_others_is_not_copied_for_each() {
        let many: serde_json::Map<String, Value> =
            (0..20_000).map(|n| (format!("p{n}"), json!({}))).collect();
        let schema =
            json!({ "properties": { "a".repeat(2 << 20): { "properties": many }, "zz_top": {} } });
        let began = std::time::Instant::now();
        listed(schema, &["zz_top"]).unwrap();
        assert!(
            began.elapsed() < std::time::Duration::from_secs(4),
            "{:?}",
            began.elapsed()
        );
    }

    #[test]
    fn what_cannot_be_taken_out_is_refused_with_its_place() {
        let behind = json!({ "properties": { "a": { "$ref": "#/$defs/A" } }, "$defs": { "A": { "properties": { "zz": {} } } } });
        assert!(
            listed(behind, &["/a/zz"])
                .unwrap_err()
                .contains("behind a $ref")
        );
        let named = json!({ "properties": { "a": { "$ref": "#/$defs/zz" } }, "$defs": { "zz": { "type": "string" } } });
        let refused = listed(named, &["zz"]).unwrap_err();
        assert!(refused.contains("/properties/a/$ref"), "{refused}");
    }
}
