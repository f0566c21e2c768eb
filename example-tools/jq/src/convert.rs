use jaq_json::{Num, Val};
use toolcell_guest::serde_json::{Map, Number, Value};

/// Converts a jq value to JSON. Values that JSON cannot express become what jq prints: infinite numbers become the
/// largest finite number, NaN becomes null, and keys that are not strings become their text.
pub(crate) fn to_json(value: &Val) -> Value {
    match value {
        Val::Null => Value::Null,
        Val::Bool(yes) => Value::Bool(*yes),
        Val::Num(number) => self::number(number),
        Val::TStr(bytes) | Val::BStr(bytes) => {
            Value::String(String::from_utf8_lossy(bytes).into_owned())
        }
        Val::Arr(items) => Value::Array(items.iter().map(to_json).collect()),
        Val::Obj(fields) => Value::Object(
            fields
                .iter()
                .map(|(key, value)| (self::key(key), to_json(value)))
                .collect(),
        ),
    }
}

fn number(number: &Num) -> Value {
    if let Num::Float(float) = number {
        return if float.is_nan() {
            Value::Null
        } else {
            Number::from_f64(float.clamp(f64::MIN, f64::MAX)).map_or(Value::Null, Value::Number)
        };
    }
    let text = number.to_string();
    let exact = text.parse().map(Value::Number);
    exact.unwrap_or_else(|_| {
        text.parse()
            .ok()
            .and_then(Number::from_f64)
            .map_or(Value::Null, Value::Number)
    })
}

fn key(key: &Val) -> String {
    match to_json(key) {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// Converts JSON to a jq value. Numbers keep their digits.
pub(crate) fn from_json(value: &Value) -> Val {
    match value {
        Value::Null => Val::Null,
        Value::Bool(yes) => Val::Bool(*yes),
        Value::Number(number) => Val::Num(from_number(number)),
        Value::String(text) => Val::utf8_str(text.clone()),
        Value::Array(items) => Val::Arr(items.iter().map(from_json).collect::<Vec<_>>().into()),
        Value::Object(fields) => from_object(fields),
    }
}

fn from_number(number: &Number) -> Num {
    match (number.as_i64(), number.as_u64(), number.as_f64()) {
        (Some(whole), ..) => Num::from_integral(whole),
        (_, Some(whole), _) => Num::from_integral(whole),
        (.., float) => Num::Float(float.unwrap_or(f64::NAN)),
    }
}

fn from_object(fields: &Map<String, Value>) -> Val {
    Val::obj(
        fields
            .iter()
            .map(|(key, value)| (Val::utf8_str(key.clone()), from_json(value)))
            .collect(),
    )
}
