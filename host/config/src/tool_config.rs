use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Number, Value};

/// `config` of a `[[tool]]`: what a tool gets as a JSON object.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "toml::Table")]
pub struct ToolConfig(String);

impl ToolConfig {
    /// JSON text of an object; its keys are sorted, so that the same settings are the same text.
    pub fn json(&self) -> &str {
        &self.0
    }
}

impl TryFrom<toml::Table> for ToolConfig {
    type Error = &'static str;

    fn try_from(table: toml::Table) -> Result<Self, Self::Error> {
        Ok(Self(value(toml::Value::Table(table))?.to_string()))
    }
}

fn value(written: toml::Value) -> Result<Value, &'static str> {
    Ok(match written {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => Number::from_f64(number)
            .ok_or("cannot use `config`: JSON has no number `inf` or `nan`")?
            .into(),
        toml::Value::Boolean(flag) => flag.into(),
        toml::Value::Datetime(_) => {
            return Err("cannot use `config`: JSON has no dates; write the date as a text");
        }
        toml::Value::Array(items) => {
            Value::Array(items.into_iter().map(value).collect::<Result<_, _>>()?)
        }
        toml::Value::Table(fields) => {
            let sorted: BTreeMap<String, toml::Value> = fields.into_iter().collect();
            let field = |(name, written)| value(written).map(|value| (name, value));
            Value::Object(sorted.into_iter().map(field).collect::<Result<_, _>>()?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::ToolConfig;

    fn read(text: &str) -> Result<String, String> {
        let table: toml::Table = toml::from_str(text).unwrap();
        ToolConfig::try_from(table)
            .map(|config| config.json().to_owned())
            .map_err(str::to_owned)
    }

    #[test]
    fn a_table_is_an_object_with_sorted_keys() {
        let text = "b = [1, 2.5, true]\na = { y = 'text', x = {} }\n";
        assert_eq!(
            read(text).unwrap(),
            r#"{"a":{"x":{},"y":"text"},"b":[1,2.5,true]}"#
        );
        assert_eq!(read("").unwrap(), "{}");
    }

    #[test]
    fn what_json_does_not_have_is_refused() {
        for (text, why) in [
            ("a = [2026-11-22]", "dates"),
            ("a = inf", "`inf`"),
            ("a = { b = nan }", "`nan`"),
        ] {
            let error = read(text).unwrap_err();
            assert!(
                error.starts_with("cannot use `config`") && error.contains(why),
                "{text}: {error}"
            );
        }
    }
}
