//! The JSON Schema (2020-12) of a type. It accepts exactly what `value.rs` reads, but for the text of bytes: a pattern
//! for base64 would cost too much.

use serde_json::{Map, Value, json};

use super::shape::{IntegerType, JsonShape};
use super::value::UNORDERED;

pub(super) fn schema(shape: &JsonShape) -> Value {
    match shape {
        JsonShape::Bool => json!({ "type": "boolean" }),
        JsonShape::Int(int) => integer(*int),
        JsonShape::Float32 => float(Some(f32::MAX.into())),
        JsonShape::Float64 => float(None),
        JsonShape::Char => json!({ "type": "string", "minLength": 1, "maxLength": 1 }),
        JsonShape::String => json!({ "type": "string" }),
        JsonShape::Bytes => json!({ "type": "string", "contentEncoding": "base64" }),
        JsonShape::List(item) => json!({ "type": "array", "items": schema(item) }),
        JsonShape::Fixed(item, length) => {
            json!({ "type": "array", "items": schema(item), "minItems": length, "maxItems": length })
        }
        JsonShape::Tuple(items) => tuple(items.iter().map(schema).collect()),
        JsonShape::Record(fields) => record(fields),
        JsonShape::Variant(cases) => variant(cases),
        JsonShape::Enum(names) => json!({ "type": "string", "enum": names }),
        JsonShape::Flags(names) => {
            json!({ "type": "array", "items": { "type": "string", "enum": names }, "uniqueItems": true })
        }
        JsonShape::Option(inner) if matches!(**inner, JsonShape::Option(_)) => {
            json!({ "anyOf": [tagged("some", schema(inner)), { "type": "null" }] })
        }
        JsonShape::Option(inner) => nullable(schema(inner)),
        JsonShape::Result(ok, err) => {
            let payload = |shape: &Option<Box<JsonShape>>| match shape {
                Some(shape) => schema(shape),
                None => json!({ "type": "null" }),
            };
            json!({ "oneOf": [tagged("ok", payload(ok)), tagged("err", payload(err))] })
        }
        JsonShape::Map(key, value) if **key == JsonShape::String => {
            json!({ "type": "object", "additionalProperties": schema(value) })
        }
        JsonShape::Map(key, value) => {
            json!({ "type": "array", "items": tuple(vec![schema(key), schema(value)]) })
        }
    }
}

fn integer(int: IntegerType) -> Value {
    let (least, greatest) = int.range();
    let number = |bound: i128| match (u64::try_from(bound), i64::try_from(bound)) {
        (Ok(bound), _) => Value::from(bound),
        (_, Ok(bound)) => Value::from(bound),
        _ => Value::Null,
    };
    let bounded =
        json!({ "type": "integer", "minimum": number(least), "maximum": number(greatest) });
    if int.is_wide() {
        json!({ "anyOf": [bounded, { "type": "string", "pattern": decimal(least, greatest) }] })
    } else {
        bounded
    }
}

fn decimal(least: i128, greatest: i128) -> String {
    let positive = positive_up_to(&greatest.to_string());
    match least {
        0 => format!("^(?:0|{positive})$"),
        _ => format!("^(?:0|-?(?:{positive})|{least})$"),
    }
}

fn positive_up_to(digits: &str) -> String {
    let shorter = digits.len().saturating_sub(2);
    format!(
        "[1-9][0-9]{{0,{shorter}}}|{}",
        same_length(digits.as_bytes(), b'1')
    )
}

fn same_length(digits: &[u8], first: u8) -> String {
    let Some((digit, rest)) = digits.split_first() else {
        return String::new();
    };
    let range = |last: u8| format!("[{}-{}]", char::from(first), char::from(last));
    if rest.is_empty() {
        return range(*digit);
    }
    let less = match digit.checked_sub(1).filter(|below| *below >= first) {
        Some(below) => format!("{}[0-9]{{{}}}|", range(below), rest.len()),
        None => String::new(),
    };
    format!(
        "{less}{}(?:{})",
        char::from(*digit),
        same_length(rest, b'0')
    )
}

fn float(bound: Option<f64>) -> Value {
    let number = match bound {
        Some(bound) => json!({ "type": "number", "minimum": -bound, "maximum": bound }),
        None => json!({ "type": "number" }),
    };
    json!({ "anyOf": [number, { "type": "string", "enum": UNORDERED }] })
}

fn tuple(items: Vec<Value>) -> Value {
    let length = items.len();
    let mut tuple = json!({ "type": "array", "minItems": length, "maxItems": length });
    // An empty list of items is not a valid keyword.
    if let Some(fields) = tuple.as_object_mut().filter(|_| length > 0) {
        fields.insert("prefixItems".to_owned(), items.into());
        fields.insert("items".to_owned(), false.into());
    }
    tuple
}

fn record(fields: &[(String, JsonShape)]) -> Value {
    let properties: Map<String, Value> = fields
        .iter()
        .map(|(name, shape)| (name.clone(), schema(shape)))
        .collect();
    let required: Vec<&str> = fields
        .iter()
        .filter(|(_, shape)| !matches!(shape, JsonShape::Option(_)))
        .map(|(name, _)| name.as_str())
        .collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn variant(cases: &[(String, Option<JsonShape>)]) -> Value {
    let names: Vec<&str> = cases
        .iter()
        .filter(|(_, shape)| shape.is_none())
        .map(|(name, _)| name.as_str())
        .collect();
    let mut branches = Vec::new();
    if !names.is_empty() {
        branches.push(json!({ "type": "string", "enum": names }));
    }
    let payloads = cases
        .iter()
        .filter_map(|(name, shape)| Some(tagged(name, schema(shape.as_ref()?))));
    branches.extend(payloads);
    json!({ "oneOf": branches })
}

fn tagged(name: &str, value: Value) -> Value {
    let properties: Map<String, Value> = [(name.to_owned(), value)].into_iter().collect();
    json!({ "type": "object", "properties": properties, "required": [name], "additionalProperties": false })
}

fn nullable(mut schema: Value) -> Value {
    if let Some(fields) = schema.as_object_mut()
        && !fields.contains_key("enum")
        && let Some(Value::String(kind)) = fields.get("type")
    {
        let kinds = json!([kind, "null"]);
        fields.insert("type".to_owned(), kinds);
        return schema;
    }
    json!({ "anyOf": [schema, { "type": "null" }] })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolcell_engine::catalog::BoundedSchema;

    use super::schema;
    use crate::world::wit::shape::{IntegerType, JsonShape};

    fn accepts(shape: JsonShape) -> impl Fn(Value) -> bool {
        let schema = BoundedSchema::compile(&schema(&shape)).unwrap();
        move |value| schema.check(&value).is_ok()
    }

    fn option(shape: JsonShape) -> JsonShape {
        JsonShape::Option(Box::new(shape))
    }

    #[test]
    fn integers_have_their_bounds() {
        let byte = accepts(JsonShape::Int(IntegerType::S8));
        assert!(byte(json!(-128)) && byte(json!(127)) && byte(json!(1.0)));
        assert!(!byte(json!(-129)) && !byte(json!(128)) && !byte(json!(0.5)) && !byte(json!("1")));
    }

    #[test]
    fn wide_integers_may_be_texts_within_their_bounds() {
        let unsigned = accepts(JsonShape::Int(IntegerType::U64));
        let signed = accepts(JsonShape::Int(IntegerType::S64));
        for text in [
            "0",
            "7",
            "9999999999999999999",
            "10000000000000000000",
            "18446744073709551615",
        ] {
            assert!(unsigned(json!(text)), "{text}");
        }
        for text in [
            "",
            "00",
            "01",
            "+1",
            "-0",
            "-1",
            "1.0",
            "18446744073709551616",
            "99999999999999999999",
            " 1",
        ] {
            assert!(!unsigned(json!(text)), "{text}");
        }
        for text in [
            "0",
            "-7",
            "9223372036854775807",
            "-9223372036854775808",
            "-1000000000000000000",
        ] {
            assert!(signed(json!(text)), "{text}");
        }
        for text in [
            "-0",
            "9223372036854775808",
            "-9223372036854775809",
            "--1",
            "18446744073709551615",
            "0x1",
        ] {
            assert!(!signed(json!(text)), "{text}");
        }
        // Every length, and one more or less in each digit.
        for at in 0..19_u32 {
            let step = 10_u64.pow(at);
            assert!(
                unsigned(json!((u64::MAX - step).to_string())) && unsigned(json!(step.to_string()))
            );
            assert!(!unsigned(json!(
                (u128::from(u64::MAX) + u128::from(step)).to_string()
            )));
        }
    }

    #[test]
    fn floats_that_are_no_numbers_are_words() {
        let float = accepts(JsonShape::Float32);
        assert!(
            float(json!("NaN"))
                && float(json!("-Infinity"))
                && float(json!(3.4e38))
                && float(json!(-1))
        );
        assert!(!float(json!("nan")) && !float(json!(3.5e38)) && !float(json!(null)));
        assert!(accepts(JsonShape::Float64)(json!(3.5e38)));
    }

    #[test]
    fn an_option_may_be_absent_and_a_nested_one_is_tagged() {
        let field = |shape| JsonShape::Record(vec![("a-b".to_owned(), shape)]);
        let plain = accepts(field(option(JsonShape::String)));
        assert!(plain(json!({})) && plain(json!({ "a-b": null })) && plain(json!({ "a-b": "x" })));
        assert!(!plain(json!({ "a-b": 1 })) && !plain(json!({ "other": null })));
        let nested = accepts(field(option(option(JsonShape::Bool))));
        assert!(
            nested(json!({ "a-b": { "some": null } }))
                && nested(json!({ "a-b": { "some": true } }))
        );
        assert!(!nested(json!({ "a-b": true })) && !nested(json!({ "a-b": {} })));
        assert!(!accepts(field(JsonShape::String))(json!({})));
        let choice = accepts(option(JsonShape::Enum(vec!["x".to_owned()])));
        assert!(choice(json!("x")) && choice(json!(null)) && !choice(json!("y")));
    }

    #[test]
    fn cases_are_texts_or_objects_with_one_property() {
        let cases = vec![
            ("none".to_owned(), None),
            ("some".to_owned(), Some(JsonShape::Char)),
        ];
        let variant = accepts(JsonShape::Variant(cases));
        assert!(variant(json!("none")) && variant(json!({ "some": "\u{1f600}" })));
        for wrong in [
            json!("some"),
            json!({ "none": null }),
            json!({ "some": "xy" }),
            json!({ "some": "x", "none": 1 }),
        ] {
            assert!(!variant(wrong.clone()), "{wrong}");
        }
        let result = accepts(JsonShape::Result(None, Some(Box::new(JsonShape::Bool))));
        assert!(result(json!({ "ok": null })) && result(json!({ "err": true })));
        assert!(
            !result(json!({ "ok": 1 }))
                && !result(json!({ "ok": null, "err": true }))
                && !result(json!({}))
        );
    }

    #[test]
    fn lists_and_maps_have_their_lengths_and_keys() {
        let pair = accepts(JsonShape::Tuple(vec![JsonShape::Bool, JsonShape::String]));
        assert!(pair(json!([true, ""])) && !pair(json!([true])) && !pair(json!([true, "", 1])));
        let three = accepts(JsonShape::Fixed(Box::new(JsonShape::Bool), 3));
        assert!(three(json!([true, true, false])) && !three(json!([true])));
        let flags = accepts(JsonShape::Flags(vec!["a".to_owned(), "b".to_owned()]));
        assert!(
            flags(json!([]))
                && flags(json!(["b", "a"]))
                && !flags(json!(["a", "a"]))
                && !flags(json!(["c"]))
        );
        let map = |key| accepts(JsonShape::Map(Box::new(key), Box::new(JsonShape::Bool)));
        assert!(
            map(JsonShape::String)(json!({ "any": true }))
                && !map(JsonShape::String)(json!({ "any": 1 }))
        );
        assert!(
            map(JsonShape::Bool)(json!([[true, false]]))
                && !map(JsonShape::Bool)(json!({ "true": false }))
        );
    }
}
