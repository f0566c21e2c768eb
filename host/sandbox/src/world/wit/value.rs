//! The codec between JSON and the values of a function. What `schema.rs` accepts can be read, and what is written can
//! be read again without loss. Recursion is as deep as the type, which is bounded.

use std::fmt;

use data_encoding::BASE64;
use serde_json::{Map, Number, Value};
use toolcell_spec::JSON_VALUES_MAX;
use wasmtime::component::Val;

use super::shape::{IntegerType, JsonShape};

/// JSON has no numbers for these floats.
pub(super) const UNORDERED: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// Each byte of a `list<u8>` is one, and takes 40 bytes of the host's memory.
pub(super) const ARGUMENT_VALUES_MAX: usize = 1 << 18;

/// A double holds all integers up to 2^53.
const EXACT_MAX: i128 = 1 << 53;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ValueMismatch {
    Mismatch {
        place: String,
        expected: &'static str,
    },
    TooMany(usize),
}

impl ValueMismatch {
    fn expected(expected: &'static str) -> Self {
        Self::Mismatch {
            place: String::new(),
            expected,
        }
    }

    fn within(self, step: impl fmt::Display) -> Self {
        match self {
            Self::Mismatch { place, expected } => {
                let step = step.to_string().replace('~', "~0").replace('/', "~1");
                Self::Mismatch {
                    place: format!("/{step}{place}"),
                    expected,
                }
            }
            other => other,
        }
    }
}

impl fmt::Display for ValueMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mismatch { place, expected } if place.is_empty() => write!(f, "not {expected}"),
            Self::Mismatch { place, expected } => write!(f, "{place}: not {expected}"),
            Self::TooMany(limit) => write!(
                f,
                "more than {limit} values, where each byte of a list of bytes counts"
            ),
        }
    }
}

pub(super) fn read(shape: &JsonShape, value: Value) -> Result<Val, ValueMismatch> {
    ValueCodec::new(ARGUMENT_VALUES_MAX).read(shape, value)
}

pub(super) fn write(shape: &JsonShape, value: Val) -> Result<Value, ValueMismatch> {
    ValueCodec::new(JSON_VALUES_MAX).write(shape, value)
}

struct ValueCodec {
    limit: usize,
    left: usize,
}

impl ValueCodec {
    fn new(limit: usize) -> Self {
        Self { limit, left: limit }
    }

    fn take(&mut self, values: usize) -> Result<(), ValueMismatch> {
        match self.left.checked_sub(values) {
            Some(left) => self.left = left,
            None => return Err(ValueMismatch::TooMany(self.limit)),
        }
        Ok(())
    }

    fn read(&mut self, shape: &JsonShape, value: Value) -> Result<Val, ValueMismatch> {
        self.take(1)?;
        match (shape, value) {
            (JsonShape::Bool, Value::Bool(value)) => Ok(Val::Bool(value)),
            (JsonShape::Int(int), value) => {
                read_int(*int, &value).ok_or(ValueMismatch::expected("an integer of its type"))
            }
            (JsonShape::Float32 | JsonShape::Float64, value) => {
                read_float(shape, &value).ok_or(ValueMismatch::expected("a number"))
            }
            (JsonShape::Char, Value::String(text)) => one_char(&text).map(Val::Char),
            (JsonShape::String, Value::String(text)) => Ok(Val::String(text)),
            (JsonShape::Bytes, Value::String(text)) => self.read_bytes(&text),
            (JsonShape::List(item), Value::Array(items)) => {
                self.read_each(|_| Some(&**item), items).map(Val::List)
            }
            (JsonShape::Fixed(item, length), Value::Array(items))
                if u32::try_from(items.len()) == Ok(*length) =>
            {
                self.read_each(|_| Some(&**item), items)
                    .map(Val::FixedLengthList)
            }
            (JsonShape::Tuple(shapes), Value::Array(items)) if items.len() == shapes.len() => {
                self.read_each(|at| shapes.get(at), items).map(Val::Tuple)
            }
            (JsonShape::Record(fields), Value::Object(object)) => {
                self.read_record(fields, object).map(Val::Record)
            }
            (JsonShape::Variant(cases), value) => self.read_case(cases, value),
            (JsonShape::Enum(names), Value::String(name)) if names.contains(&name) => {
                Ok(Val::Enum(name))
            }
            (JsonShape::Flags(names), Value::Array(items)) => {
                read_flags(names, items).map(Val::Flags)
            }
            (JsonShape::Option(_), Value::Null) => Ok(Val::Option(None)),
            (JsonShape::Option(inner), value) => {
                let value = if matches!(**inner, JsonShape::Option(_)) {
                    only(value, "some")?
                } else {
                    value
                };
                self.read(inner, value)
                    .map(|inner| Val::Option(Some(Box::new(inner))))
            }
            (JsonShape::Result(ok, err), Value::Object(object)) => {
                self.read_result(ok.as_deref(), err.as_deref(), object)
            }
            (JsonShape::Map(key, value), Value::Object(object)) if **key == JsonShape::String => {
                let entries = object.into_iter().map(|(name, entry)| {
                    let entry = self
                        .read(value, entry)
                        .map_err(|unfit| unfit.within(&name))?;
                    Ok((Val::String(name), entry))
                });
                entries.collect::<Result<_, ValueMismatch>>().map(Val::Map)
            }
            (JsonShape::Map(key, value), Value::Array(pairs)) if **key != JsonShape::String => {
                self.read_pairs(key, value, pairs).map(Val::Map)
            }
            _ => Err(ValueMismatch::expected(named(shape))),
        }
    }

    fn read_each<'s>(
        &mut self,
        shape: impl Fn(usize) -> Option<&'s JsonShape>,
        items: Vec<Value>,
    ) -> Result<Vec<Val>, ValueMismatch> {
        let item = |(at, item): (usize, Value)| {
            let shape = shape(at).ok_or(ValueMismatch::expected("so long"))?;
            self.read(shape, item).map_err(|unfit| unfit.within(at))
        };
        items.into_iter().enumerate().map(item).collect()
    }

    fn read_bytes(&mut self, text: &str) -> Result<Val, ValueMismatch> {
        self.take(text.len() / 4 * 3)?;
        let bytes = BASE64
            .decode(text.as_bytes())
            .map_err(|_| ValueMismatch::expected("base64, with its padding"))?;
        Ok(Val::List(bytes.into_iter().map(Val::U8).collect()))
    }

    fn read_record(
        &mut self,
        fields: &[(String, JsonShape)],
        mut object: Map<String, Value>,
    ) -> Result<Vec<(String, Val)>, ValueMismatch> {
        let mut values = Vec::with_capacity(fields.len());
        for (name, shape) in fields {
            let value = match object.swap_remove(name) {
                Some(value) => self
                    .read(shape, value)
                    .map_err(|unfit| unfit.within(name))?,
                None if matches!(shape, JsonShape::Option(_)) => Val::Option(None),
                None => return Err(ValueMismatch::expected("there").within(name)),
            };
            values.push((name.clone(), value));
        }
        match object.keys().next() {
            Some(unknown) => Err(ValueMismatch::expected("a field of the record").within(unknown)),
            None => Ok(values),
        }
    }

    fn read_case(
        &mut self,
        cases: &[(String, Option<JsonShape>)],
        value: Value,
    ) -> Result<Val, ValueMismatch> {
        let (name, payload) = match value {
            Value::String(name) => (name, None),
            Value::Object(object) if object.len() == 1 => match object.into_iter().next() {
                Some((name, payload)) => (name, Some(payload)),
                None => return Err(ValueMismatch::expected("a case of the variant")),
            },
            _ => return Err(ValueMismatch::expected("a case of the variant")),
        };
        let case = cases
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, shape)| shape);
        match (case, payload) {
            (Some(None), None) => Ok(Val::Variant(name, None)),
            (Some(Some(shape)), Some(payload)) => {
                let payload = self
                    .read(shape, payload)
                    .map_err(|unfit| unfit.within(&name))?;
                Ok(Val::Variant(name, Some(Box::new(payload))))
            }
            _ => Err(ValueMismatch::expected("a case of the variant")),
        }
    }

    fn read_result(
        &mut self,
        ok: Option<&JsonShape>,
        err: Option<&JsonShape>,
        object: Map<String, Value>,
    ) -> Result<Val, ValueMismatch> {
        let mut entries = object.into_iter();
        let (Some((name, payload)), None) = (entries.next(), entries.next()) else {
            return Err(ValueMismatch::expected(r#"{"ok": ..} or {"err": ..}"#));
        };
        let read = |shape: Option<&JsonShape>| match (shape, payload) {
            (None, Value::Null) => Ok(None),
            (None, _) => Err(ValueMismatch::expected("null").within(&name)),
            (Some(shape), payload) => self
                .read(shape, payload)
                .map(|value| Some(Box::new(value)))
                .map_err(|unfit| unfit.within(&name)),
        };
        match name.as_str() {
            "ok" => read(ok).map(|payload| Val::Result(Ok(payload))),
            "err" => read(err).map(|payload| Val::Result(Err(payload))),
            _ => Err(ValueMismatch::expected(r#"{"ok": ..} or {"err": ..}"#)),
        }
    }

    fn read_pairs(
        &mut self,
        key: &JsonShape,
        value: &JsonShape,
        pairs: Vec<Value>,
    ) -> Result<Vec<(Val, Val)>, ValueMismatch> {
        let pair = |(at, pair): (usize, Value)| {
            let Value::Array(pair) = pair else {
                return Err(ValueMismatch::expected("a pair").within(at));
            };
            let shape = |of: usize| if of == 0 { Some(key) } else { Some(value) };
            let mut read = self
                .read_each(shape, pair)
                .map_err(|unfit| unfit.within(at))?
                .into_iter();
            match (read.next(), read.next(), read.next()) {
                (Some(key), Some(value), None) => Ok((key, value)),
                _ => Err(ValueMismatch::expected("a pair").within(at)),
            }
        };
        pairs.into_iter().enumerate().map(pair).collect()
    }

    fn write(&mut self, shape: &JsonShape, value: Val) -> Result<Value, ValueMismatch> {
        self.take(1)?;
        Ok(match (shape, value) {
            (JsonShape::Bool, Val::Bool(value)) => value.into(),
            (JsonShape::Int(int), value) => {
                written_int(*int, &value).ok_or(ValueMismatch::expected("an integer"))?
            }
            (JsonShape::Float32, Val::Float32(value)) => written_float(double(value)),
            (JsonShape::Float64, Val::Float64(value)) => written_float(value),
            (JsonShape::Char, Val::Char(value)) => String::from(value).into(),
            (JsonShape::String, Val::String(text)) | (JsonShape::Enum(_), Val::Enum(text)) => {
                text.into()
            }
            (JsonShape::Bytes, Val::List(bytes)) => written_bytes(&bytes)?,
            (JsonShape::List(item), Val::List(items))
            | (JsonShape::Fixed(item, _), Val::FixedLengthList(items)) => {
                self.write_each(|_| Some(&**item), items)?
            }
            (JsonShape::Tuple(shapes), Val::Tuple(items)) => {
                self.write_each(|at| shapes.get(at), items)?
            }
            (JsonShape::Record(fields), Val::Record(values)) => {
                let entry = |((name, shape), (_, value)): (&(String, JsonShape), (String, Val))| {
                    Ok((name.clone(), self.write(shape, value)?))
                };
                Value::Object(
                    fields
                        .iter()
                        .zip(values)
                        .map(entry)
                        .collect::<Result<_, ValueMismatch>>()?,
                )
            }
            (JsonShape::Variant(cases), Val::Variant(name, payload)) => {
                let shape = cases
                    .iter()
                    .find(|(known, _)| *known == name)
                    .and_then(|(_, shape)| shape.as_ref());
                match (shape, payload) {
                    (Some(shape), Some(payload)) => tagged(name, self.write(shape, *payload)?),
                    _ => name.into(),
                }
            }
            (JsonShape::Flags(_), Val::Flags(names)) => {
                self.take(names.len())?;
                names.into()
            }
            (JsonShape::Option(_), Val::Option(None)) => Value::Null,
            (JsonShape::Option(inner), Val::Option(Some(value))) => {
                let written = self.write(inner, *value)?;
                if matches!(**inner, JsonShape::Option(_)) {
                    tagged("some".to_owned(), written)
                } else {
                    written
                }
            }
            (JsonShape::Result(ok, err), Val::Result(value)) => {
                let (tag, shape, payload) = match value {
                    Ok(payload) => ("ok", ok, payload),
                    Err(payload) => ("err", err, payload),
                };
                let written = match (shape, payload) {
                    (Some(shape), Some(payload)) => self.write(shape, *payload)?,
                    _ => Value::Null,
                };
                tagged(tag.to_owned(), written)
            }
            (JsonShape::Map(key, value), Val::Map(entries)) => {
                self.write_map(key, value, entries)?
            }
            _ => return Err(ValueMismatch::expected(named(shape))),
        })
    }

    fn write_each<'s>(
        &mut self,
        shape: impl Fn(usize) -> Option<&'s JsonShape>,
        items: Vec<Val>,
    ) -> Result<Value, ValueMismatch> {
        let item =
            |(at, item)| self.write(shape(at).ok_or(ValueMismatch::expected("so long"))?, item);
        items
            .into_iter()
            .enumerate()
            .map(item)
            .collect::<Result<Vec<_>, _>>()
            .map(Value::Array)
    }

    /// The last entry of a key counts, as the component model has it.
    fn write_map(
        &mut self,
        key: &JsonShape,
        value: &JsonShape,
        entries: Vec<(Val, Val)>,
    ) -> Result<Value, ValueMismatch> {
        if *key != JsonShape::String {
            let pair = |(k, v)| {
                Ok(Value::Array(vec![
                    self.write(key, k)?,
                    self.write(value, v)?,
                ]))
            };
            return entries
                .into_iter()
                .map(pair)
                .collect::<Result<Vec<_>, ValueMismatch>>()
                .map(Value::Array);
        }
        let mut object = Map::new();
        for (name, entry) in entries {
            let Val::String(name) = name else {
                return Err(ValueMismatch::expected("a text"));
            };
            let entry = self.write(value, entry)?;
            object.insert(name, entry);
        }
        Ok(Value::Object(object))
    }
}

fn named(shape: &JsonShape) -> &'static str {
    match shape {
        JsonShape::Bool => "true or false",
        JsonShape::Int(_) | JsonShape::Float32 | JsonShape::Float64 => "a number",
        JsonShape::Char => "one character",
        JsonShape::String => "a text",
        JsonShape::Bytes => "base64 text",
        JsonShape::List(_) | JsonShape::Fixed(..) | JsonShape::Tuple(_) | JsonShape::Flags(_) => {
            "a list of the right length"
        }
        JsonShape::Record(_) | JsonShape::Result(..) => "an object",
        JsonShape::Variant(_) => "a case of the variant",
        JsonShape::Enum(_) => "one of its words",
        JsonShape::Option(_) => "null or a value",
        JsonShape::Map(..) => "a map",
    }
}

fn read_int(int: IntegerType, value: &Value) -> Option<Val> {
    let number = match value {
        Value::Number(number) => whole(number)?,
        Value::String(text) if int.is_wide() => text
            .parse::<i128>()
            .ok()
            .filter(|number| number.to_string() == *text)?,
        _ => return None,
    };
    Some(match int {
        IntegerType::U8 => Val::U8(number.try_into().ok()?),
        IntegerType::U16 => Val::U16(number.try_into().ok()?),
        IntegerType::U32 => Val::U32(number.try_into().ok()?),
        IntegerType::U64 => Val::U64(number.try_into().ok()?),
        IntegerType::S8 => Val::S8(number.try_into().ok()?),
        IntegerType::S16 => Val::S16(number.try_into().ok()?),
        IntegerType::S32 => Val::S32(number.try_into().ok()?),
        IntegerType::S64 => Val::S64(number.try_into().ok()?),
    })
}

/// A fraction of zero, and an exponent, are allowed.
fn whole(number: &Number) -> Option<i128> {
    if let Some(number) = number.as_i64() {
        return Some(number.into());
    }
    if let Some(number) = number.as_u64() {
        return Some(number.into());
    }
    let number = number
        .as_f64()
        .filter(|number| number.fract() == 0.0 && number.abs() < 1e30)?;
    #[allow(
        clippy::cast_possible_truncation,
        reason = "an integer below 2^100, which the type holds"
    )]
    let number = number as i128;
    Some(number)
}

fn read_float(shape: &JsonShape, value: &Value) -> Option<Val> {
    let number = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => match text.as_str() {
            "NaN" => f64::NAN,
            "Infinity" => f64::INFINITY,
            "-Infinity" => f64::NEG_INFINITY,
            _ => return None,
        },
        _ => return None,
    };
    if *shape == JsonShape::Float64 {
        return Some(Val::Float64(number));
    }
    let fits = !number.is_finite() || number.abs() <= f64::from(f32::MAX);
    #[allow(
        clippy::cast_possible_truncation,
        reason = "rounds to the nearest value of the type"
    )]
    let single = number as f32;
    fits.then_some(Val::Float32(single))
}

fn one_char(text: &str) -> Result<char, ValueMismatch> {
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(one), None) => Ok(one),
        _ => Err(ValueMismatch::expected("one character")),
    }
}

fn read_flags(names: &[String], items: Vec<Value>) -> Result<Vec<String>, ValueMismatch> {
    if items.len() > names.len() {
        return Err(ValueMismatch::expected("a list of different flags"));
    }
    let mut flags = Vec::with_capacity(items.len());
    for (at, item) in items.into_iter().enumerate() {
        match item {
            Value::String(name) if names.contains(&name) && !flags.contains(&name) => {
                flags.push(name)
            }
            _ => return Err(ValueMismatch::expected("another flag of the type").within(at)),
        }
    }
    Ok(flags)
}

/// The object's one field must be `name`.
fn only(value: Value, name: &'static str) -> Result<Value, ValueMismatch> {
    match value {
        Value::Object(mut object) if object.len() == 1 => object.swap_remove(name),
        _ => None,
    }
    .ok_or(ValueMismatch::expected(r#"null or {"some": ..}"#))
}

fn tagged(tag: String, value: Value) -> Value {
    Value::Object([(tag, value)].into_iter().collect())
}

/// Digits as a text if readers of JSON could take the number for another one.
fn written_int(int: IntegerType, value: &Val) -> Option<Value> {
    let number: i128 = match (int, value) {
        (IntegerType::U8, Val::U8(value)) => (*value).into(),
        (IntegerType::U16, Val::U16(value)) => (*value).into(),
        (IntegerType::U32, Val::U32(value)) => (*value).into(),
        (IntegerType::U64, Val::U64(value)) => (*value).into(),
        (IntegerType::S8, Val::S8(value)) => (*value).into(),
        (IntegerType::S16, Val::S16(value)) => (*value).into(),
        (IntegerType::S32, Val::S32(value)) => (*value).into(),
        (IntegerType::S64, Val::S64(value)) => (*value).into(),
        _ => return None,
    };
    let exact = i64::try_from(number)
        .ok()
        .filter(|_| number.abs() <= EXACT_MAX);
    Some(exact.map_or_else(|| number.to_string().into(), Value::from))
}

fn written_float(value: f64) -> Value {
    let word = || match value {
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ => "NaN",
    };
    Number::from_f64(value).map_or_else(|| word().into(), Value::Number)
}

fn double(value: f32) -> f64 {
    let short = value.to_string().parse::<f64>().unwrap_or(value.into());
    #[allow(clippy::cast_possible_truncation, reason = "compared with what it was")]
    let same = (short as f32).to_bits() == value.to_bits() && short.abs() <= f64::from(f32::MAX);
    if same { short } else { value.into() }
}

fn written_bytes(items: &[Val]) -> Result<Value, ValueMismatch> {
    let byte = |item: &Val| match item {
        Val::U8(byte) => Ok(*byte),
        _ => Err(ValueMismatch::expected("a byte")),
    };
    let bytes: Vec<u8> = items.iter().map(byte).collect::<Result<_, _>>()?;
    Ok(BASE64.encode(&bytes).into())
}

#[cfg(test)]
mod tests;
