//! Arguments that are typed one by one: `path=README.md count=3 filter:='{"a": 1}'`.

use serde_json::{Number, Value};
use toolcell_spec::Input;

use super::exit::BadRequest;

const DEPTH_MAX: usize = 8;

pub(super) struct NamedArguments(Vec<Argument>);

struct Argument {
    name: String,
    values: Vec<String>,
    is_json: bool,
}

impl NamedArguments {
    /// `false` for all arguments as JSON, a file, or standard input.
    pub(super) fn is_one(word: &str) -> bool {
        !word.trim_start().starts_with(['{', '[', '"', '@']) && word.contains('=')
    }

    /// Reads `NAME=VALUE` and `NAME:=JSON`. Fails on other words, invalid JSON, and an argument that is given as JSON
    /// and once more.
    pub(super) fn read(words: &[String]) -> Result<Self, BadRequest> {
        let mut arguments: Vec<Argument> = Vec::new();
        for word in words {
            let split = word.split_once('=').filter(|_| Self::is_one(word));
            let Some((name, value)) = split.filter(|(name, _)| !matches!(*name, "" | ":")) else {
                let problem = format!(
                    "cannot read the argument {word:?}: pass NAME=VALUE or NAME:=JSON for each argument, or all of them \
                     as one JSON object"
                );
                return Err(BadRequest(problem));
            };
            let (name, is_json) = name
                .strip_suffix(':')
                .map_or((name, false), |name| (name, true));
            if is_json && let Err(error) = serde_json::from_str::<Value>(value) {
                let problem = format!(
                    "cannot read the argument {word:?} as JSON: {error}; {name}=VALUE takes text without quotes"
                );
                return Err(BadRequest(problem));
            }
            match arguments.iter_mut().find(|known| known.name == name) {
                None => arguments.push(Argument {
                    name: name.to_owned(),
                    values: vec![value.to_owned()],
                    is_json,
                }),
                Some(known) if known.is_json || is_json => {
                    return Err(BadRequest(format!(
                        "the argument {name:?} is given twice: give its whole value once"
                    )));
                }
                Some(known) => known.values.push(value.to_owned()),
            }
        }
        Ok(Self(arguments))
    }

    pub(super) fn input(&self, schema: Option<&Value>) -> Input {
        let written = |argument: &Argument| {
            let described = schema.and_then(|schema| schema.get("properties")?.get(&argument.name));
            format!(
                "{}:{}",
                Value::from(argument.name.as_str()),
                argument.written(described)
            )
        };
        let fields: Vec<String> = self.0.iter().map(written).collect();
        Input::from_text(format!("{{{}}}", fields.join(",")))
    }
}

impl Argument {
    fn written(&self, schema: Option<&Value>) -> String {
        match self.values.as_slice() {
            [one] if self.is_json => one.clone(),
            [one] => fitted(schema, one, 0),
            several => {
                let items = schema.and_then(|schema| items(schema, 0));
                let items: Vec<String> = several
                    .iter()
                    .map(|value| fitted(items, value, 0))
                    .collect();
                format!("[{}]", items.join(","))
            }
        }
    }
}

/// A text that fits no accepted type stays a text, which the host then refuses with the type that it expects.
fn fitted(schema: Option<&Value>, text: &str, depth: usize) -> String {
    let quoted = || Value::from(text).to_string();
    let Some(schema) = schema.filter(|schema| !accepts(schema, "string", 0)) else {
        return quoted();
    };
    let is = |kind: &str| accepts(schema, kind, 0);
    let begins =
        |c: char| text.trim_start().starts_with(c) && serde_json::from_str::<Value>(text).is_ok();
    match text {
        "true" | "false" if is("boolean") => text.to_owned(),
        "null" if is("null") => text.to_owned(),
        _ if (is("integer") || is("number")) && serde_json::from_str::<Number>(text).is_ok() => {
            text.trim().to_owned()
        }
        _ if (is("array") && begins('[')) || (is("object") && begins('{')) => text.to_owned(),
        _ if is("array") && depth == 0 => {
            format!("[{}]", fitted(items(schema, 0), text, depth + 1))
        }
        _ => quoted(),
    }
}

fn items(schema: &Value, depth: usize) -> Option<&Value> {
    let branches = || {
        ["anyOf", "oneOf", "allOf"]
            .iter()
            .filter_map(|word| schema.get(word)?.as_array())
            .flatten()
    };
    let of_branches = || branches().find_map(|branch| items(branch, depth + 1));
    schema.get("items").or_else(|| {
        if depth < DEPTH_MAX {
            of_branches()
        } else {
            None
        }
    })
}

fn accepts(schema: &Value, kind: &str, depth: usize) -> bool {
    let Value::Object(words) = schema else {
        return schema != &Value::Bool(false);
    };
    if depth > DEPTH_MAX {
        return true;
    }
    let list = |word: &str| words.get(word).and_then(Value::as_array);
    let of_type = words.get("type").is_none_or(|named| match named {
        Value::Array(kinds) => kinds.iter().any(|named| named == kind),
        named => named == kind,
    });
    let any = |word: &str| {
        list(word).is_none_or(|all| all.iter().any(|inner| accepts(inner, kind, depth + 1)))
    };
    let all = |word: &str| {
        list(word).is_none_or(|all| all.iter().all(|inner| accepts(inner, kind, depth + 1)))
    };
    of_type
        && words.get("const").is_none_or(|value| is_of(value, kind))
        && list("enum").is_none_or(|values| values.iter().any(|value| is_of(value, kind)))
        && any("anyOf")
        && any("oneOf")
        && all("allOf")
}

fn is_of(value: &Value, kind: &str) -> bool {
    match value {
        Value::Null => kind == "null",
        Value::Bool(_) => kind == "boolean",
        Value::Number(_) => kind == "number" || kind == "integer",
        Value::String(_) => kind == "string",
        Value::Array(_) => kind == "array",
        Value::Object(_) => kind == "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(words: &[&str]) -> Result<String, String> {
        let schema = json!({ "properties": {
            "path": { "type": "string" },
            "count": { "anyOf": [{ "type": "integer" }, { "type": "null" }] },
            "all": { "type": ["boolean", "null"] },
            "names": { "type": "array", "items": { "type": "string" } },
            "sizes": { "anyOf": [{ "type": "array", "items": { "type": "number" } }, { "type": "null" }] },
            "level": { "enum": [1, 2] },
            "inner": { "type": "object" },
            "either": { "type": ["string", "integer"] },
        } });
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let named = NamedArguments::read(&words).map_err(|problem| problem.0)?;
        Ok(named.input(Some(&schema)).text().to_owned())
    }

    #[test]
    fn the_schema_says_the_types() {
        for (words, text) in [
            (
                &["path=1", "count=12345678901234567890123", "all=true"][..],
                r#"{"path":"1","count":12345678901234567890123,"all":true}"#,
            ),
            (&["names=a"], r#"{"names":["a"]}"#),
            (
                &["names=a", "names=[b", "count=null"],
                r#"{"names":["a","[b"],"count":null}"#,
            ),
            (
                &["names=[\"a\", \"b\"]", "sizes=1", "level=2"],
                r#"{"names":["a", "b"],"sizes":[1],"level":2}"#,
            ),
            (&["sizes=1.50", "sizes=2"], r#"{"sizes":[1.50,2]}"#),
            (
                &["inner={\"a\": 1}", "either=7", "path==x=y"],
                r#"{"inner":{"a": 1},"either":"7","path":"=x=y"}"#,
            ),
            (&["path:=7", "other=8"], r#"{"path":7,"other":"8"}"#),
            (&["count=many"], r#"{"count":"many"}"#),
        ] {
            assert_eq!(read(words).as_deref(), Ok(text));
        }
    }

    #[test]
    fn what_is_no_argument_says_how_to_write_one() {
        for (words, problem) in [
            (&["path=a", "b"][..], "\"b\": pass NAME=VALUE"),
            (&["=a", "b=c"], "NAME=VALUE"),
            (&[":=a", "b=c"], "NAME=VALUE"),
            (&["{}", "b=c"], "\"{}\""),
            (&["path:=a"], "path=VALUE takes text without quotes"),
            (&["path=a", "path:=1"], "given twice"),
        ] {
            let refused = read(words).unwrap_err();
            assert!(refused.contains(problem), "{refused}");
        }
    }
}
