//! The codec between JSON and the values of a function. What `schema.rs` accepts can be read, and every value that is
//! written can be read again without loss. Recursion is as deep as the type, whose depth is bounded.

use std::fmt;

use data_encoding::BASE64;
use serde_json::{Map, Number, Value};
use toolcell_core::record::JSON_VALUES_MAX;
use wasmtime::component::Val;

use super::shape::{Int, Shape};

/// The floats that JSON has no numbers for.
pub(super) const UNORDERED: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// Maximum number of values in the arguments of one call. Each byte of a `list<u8>` is one, and takes 40 bytes of the host's
/// memory.
pub(super) const ARGUMENT_VALUES_MAX: usize = 1 << 18;

/// The greatest integer up to which a double holds all integers: 2^53.
const EXACT_MAX: i128 = 1 << 53;

/// Why a value cannot be read or written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// It is not of the type.
    Mismatch {
        /// JSON Pointer.
        place: String,
        expected: &'static str,
    },
    /// It holds more than this number of values.
    TooMany(usize),
}

impl Unfit {
    fn expected(expected: &'static str) -> Self {
        Self::Mismatch {
            place: String::new(),
            expected,
        }
    }

    /// The same, in a value that holds the other at `step`.
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

impl fmt::Display for Unfit {
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

/// Reads `value`, which must be of the type `shape`.
pub(super) fn read(shape: &Shape, value: Value) -> Result<Val, Unfit> {
    Codec::new(ARGUMENT_VALUES_MAX).read(shape, value)
}

/// Writes `value`, which is of the type `shape`.
pub(super) fn write(shape: &Shape, value: Val) -> Result<Value, Unfit> {
    Codec::new(JSON_VALUES_MAX).write(shape, value)
}

/// Counts the values that it reads or writes.
struct Codec {
    limit: usize,
    left: usize,
}

impl Codec {
    fn new(limit: usize) -> Self {
        Self { limit, left: limit }
    }

    fn take(&mut self, values: usize) -> Result<(), Unfit> {
        match self.left.checked_sub(values) {
            Some(left) => self.left = left,
            None if guard!("wit_values") => return Err(Unfit::TooMany(self.limit)),
            None => {}
        }
        Ok(())
    }

    fn read(&mut self, shape: &Shape, value: Value) -> Result<Val, Unfit> {
        self.take(1)?;
        match (shape, value) {
            (Shape::Bool, Value::Bool(value)) => Ok(Val::Bool(value)),
            (Shape::Int(int), value) => {
                read_int(*int, &value).ok_or(Unfit::expected("an integer of its type"))
            }
            (Shape::Float32 | Shape::Float64, value) => {
                read_float(shape, &value).ok_or(Unfit::expected("a number"))
            }
            (Shape::Char, Value::String(text)) => one_char(&text).map(Val::Char),
            (Shape::String, Value::String(text)) => Ok(Val::String(text)),
            (Shape::Bytes, Value::String(text)) => self.read_bytes(&text),
            (Shape::List(item), Value::Array(items)) => {
                self.read_each(|_| Some(&**item), items).map(Val::List)
            }
            (Shape::Fixed(item, length), Value::Array(items))
                if u32::try_from(items.len()) == Ok(*length) =>
            {
                self.read_each(|_| Some(&**item), items)
                    .map(Val::FixedLengthList)
            }
            (Shape::Tuple(shapes), Value::Array(items)) if items.len() == shapes.len() => {
                self.read_each(|at| shapes.get(at), items).map(Val::Tuple)
            }
            (Shape::Record(fields), Value::Object(object)) => {
                self.read_record(fields, object).map(Val::Record)
            }
            (Shape::Variant(cases), value) => self.read_case(cases, value),
            (Shape::Enum(names), Value::String(name)) if names.contains(&name) => {
                Ok(Val::Enum(name))
            }
            (Shape::Flags(names), Value::Array(items)) => read_flags(names, items).map(Val::Flags),
            (Shape::Option(_), Value::Null) => Ok(Val::Option(None)),
            (Shape::Option(inner), value) => {
                let value = if matches!(**inner, Shape::Option(_)) {
                    only(value, "some")?
                } else {
                    value
                };
                self.read(inner, value)
                    .map(|inner| Val::Option(Some(Box::new(inner))))
            }
            (Shape::Result(ok, err), Value::Object(object)) => {
                self.read_result(ok.as_deref(), err.as_deref(), object)
            }
            (Shape::Map(key, value), Value::Object(object)) if **key == Shape::String => {
                let entries = object.into_iter().map(|(name, entry)| {
                    let entry = self
                        .read(value, entry)
                        .map_err(|unfit| unfit.within(&name))?;
                    Ok((Val::String(name), entry))
                });
                entries.collect::<Result<_, Unfit>>().map(Val::Map)
            }
            (Shape::Map(key, value), Value::Array(pairs)) if **key != Shape::String => {
                self.read_pairs(key, value, pairs).map(Val::Map)
            }
            _ => Err(Unfit::expected(named(shape))),
        }
    }

    fn read_each<'s>(
        &mut self,
        shape: impl Fn(usize) -> Option<&'s Shape>,
        items: Vec<Value>,
    ) -> Result<Vec<Val>, Unfit> {
        let item = |(at, item): (usize, Value)| {
            let shape = shape(at).ok_or(Unfit::expected("so long"))?;
            self.read(shape, item).map_err(|unfit| unfit.within(at))
        };
        items.into_iter().enumerate().map(item).collect()
    }

    fn read_bytes(&mut self, text: &str) -> Result<Val, Unfit> {
        self.take(text.len() / 4 * 3)?;
        let bytes = BASE64
            .decode(text.as_bytes())
            .map_err(|_| Unfit::expected("base64, with its padding"))?;
        Ok(Val::List(bytes.into_iter().map(Val::U8).collect()))
    }

    fn read_record(
        &mut self,
        fields: &[(String, Shape)],
        mut object: Map<String, Value>,
    ) -> Result<Vec<(String, Val)>, Unfit> {
        let mut values = Vec::with_capacity(fields.len());
        for (name, shape) in fields {
            let value = match object.swap_remove(name) {
                Some(value) => self
                    .read(shape, value)
                    .map_err(|unfit| unfit.within(name))?,
                None if matches!(shape, Shape::Option(_)) => Val::Option(None),
                None => return Err(Unfit::expected("there").within(name)),
            };
            values.push((name.clone(), value));
        }
        match object.keys().next() {
            Some(unknown) => Err(Unfit::expected("a field of the record").within(unknown)),
            None => Ok(values),
        }
    }

    fn read_case(&mut self, cases: &[(String, Option<Shape>)], value: Value) -> Result<Val, Unfit> {
        let (name, payload) = match value {
            Value::String(name) => (name, None),
            Value::Object(object) if object.len() == 1 => match object.into_iter().next() {
                Some((name, payload)) => (name, Some(payload)),
                None => return Err(Unfit::expected("a case of the variant")),
            },
            _ => return Err(Unfit::expected("a case of the variant")),
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
            _ => Err(Unfit::expected("a case of the variant")),
        }
    }

    fn read_result(
        &mut self,
        ok: Option<&Shape>,
        err: Option<&Shape>,
        object: Map<String, Value>,
    ) -> Result<Val, Unfit> {
        let mut entries = object.into_iter();
        let (Some((name, payload)), None) = (entries.next(), entries.next()) else {
            return Err(Unfit::expected(r#"{"ok": ..} or {"err": ..}"#));
        };
        let read = |shape: Option<&Shape>| match (shape, payload) {
            (None, Value::Null) => Ok(None),
            (None, _) => Err(Unfit::expected("null").within(&name)),
            (Some(shape), payload) => self
                .read(shape, payload)
                .map(|value| Some(Box::new(value)))
                .map_err(|unfit| unfit.within(&name)),
        };
        match name.as_str() {
            "ok" => read(ok).map(|payload| Val::Result(Ok(payload))),
            "err" => read(err).map(|payload| Val::Result(Err(payload))),
            _ => Err(Unfit::expected(r#"{"ok": ..} or {"err": ..}"#)),
        }
    }

    fn read_pairs(
        &mut self,
        key: &Shape,
        value: &Shape,
        pairs: Vec<Value>,
    ) -> Result<Vec<(Val, Val)>, Unfit> {
        let pair = |(at, pair): (usize, Value)| {
            let Value::Array(pair) = pair else {
                return Err(Unfit::expected("a pair").within(at));
            };
            let shape = |of: usize| if of == 0 { Some(key) } else { Some(value) };
            let mut read = self
                .read_each(shape, pair)
                .map_err(|unfit| unfit.within(at))?
                .into_iter();
            match (read.next(), read.next(), read.next()) {
                (Some(key), Some(value), None) => Ok((key, value)),
                _ => Err(Unfit::expected("a pair").within(at)),
            }
        };
        pairs.into_iter().enumerate().map(pair).collect()
    }

    fn write(&mut self, shape: &Shape, value: Val) -> Result<Value, Unfit> {
        self.take(1)?;
        Ok(match (shape, value) {
            (Shape::Bool, Val::Bool(value)) => value.into(),
            (Shape::Int(int), value) => {
                written_int(*int, &value).ok_or(Unfit::expected("an integer"))?
            }
            (Shape::Float32, Val::Float32(value)) => written_float(double(value)),
            (Shape::Float64, Val::Float64(value)) => written_float(value),
            (Shape::Char, Val::Char(value)) => String::from(value).into(),
            (Shape::String, Val::String(text)) | (Shape::Enum(_), Val::Enum(text)) => text.into(),
            (Shape::Bytes, Val::List(bytes)) => written_bytes(&bytes)?,
            (Shape::List(item), Val::List(items))
            | (Shape::Fixed(item, _), Val::FixedLengthList(items)) => {
                self.write_each(|_| Some(&**item), items)?
            }
            (Shape::Tuple(shapes), Val::Tuple(items)) => {
                self.write_each(|at| shapes.get(at), items)?
            }
            (Shape::Record(fields), Val::Record(values)) => {
                let entry = |((name, shape), (_, value)): (&(String, Shape), (String, Val))| {
                    Ok((name.clone(), self.write(shape, value)?))
                };
                Value::Object(
                    fields
                        .iter()
                        .zip(values)
                        .map(entry)
                        .collect::<Result<_, Unfit>>()?,
                )
            }
            (Shape::Variant(cases), Val::Variant(name, payload)) => {
                let shape = cases
                    .iter()
                    .find(|(known, _)| *known == name)
                    .and_then(|(_, shape)| shape.as_ref());
                match (shape, payload) {
                    (Some(shape), Some(payload)) => tagged(name, self.write(shape, *payload)?),
                    _ => name.into(),
                }
            }
            (Shape::Flags(_), Val::Flags(names)) => {
                self.take(names.len())?;
                names.into()
            }
            (Shape::Option(_), Val::Option(None)) => Value::Null,
            (Shape::Option(inner), Val::Option(Some(value))) => {
                let written = self.write(inner, *value)?;
                if matches!(**inner, Shape::Option(_)) {
                    tagged("some".to_owned(), written)
                } else {
                    written
                }
            }
            (Shape::Result(ok, err), Val::Result(value)) => {
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
            (Shape::Map(key, value), Val::Map(entries)) => self.write_map(key, value, entries)?,
            _ => return Err(Unfit::expected(named(shape))),
        })
    }

    fn write_each<'s>(
        &mut self,
        shape: impl Fn(usize) -> Option<&'s Shape>,
        items: Vec<Val>,
    ) -> Result<Value, Unfit> {
        let item = |(at, item)| self.write(shape(at).ok_or(Unfit::expected("so long"))?, item);
        items
            .into_iter()
            .enumerate()
            .map(item)
            .collect::<Result<Vec<_>, _>>()
            .map(Value::Array)
    }

    /// The last of several entries with one key counts, as the component model has it.
    fn write_map(
        &mut self,
        key: &Shape,
        value: &Shape,
        entries: Vec<(Val, Val)>,
    ) -> Result<Value, Unfit> {
        if *key != Shape::String {
            let pair = |(k, v)| {
                Ok(Value::Array(vec![
                    self.write(key, k)?,
                    self.write(value, v)?,
                ]))
            };
            return entries
                .into_iter()
                .map(pair)
                .collect::<Result<Vec<_>, Unfit>>()
                .map(Value::Array);
        }
        let mut object = Map::new();
        for (name, entry) in entries {
            let Val::String(name) = name else {
                return Err(Unfit::expected("a text"));
            };
            let entry = self.write(value, entry)?;
            object.insert(name, entry);
        }
        Ok(Value::Object(object))
    }
}

/// The type's name in a message.
fn named(shape: &Shape) -> &'static str {
    match shape {
        Shape::Bool => "true or false",
        Shape::Int(_) | Shape::Float32 | Shape::Float64 => "a number",
        Shape::Char => "one character",
        Shape::String => "a text",
        Shape::Bytes => "base64 text",
        Shape::List(_) | Shape::Fixed(..) | Shape::Tuple(_) | Shape::Flags(_) => {
            "a list of the right length"
        }
        Shape::Record(_) | Shape::Result(..) => "an object",
        Shape::Variant(_) => "a case of the variant",
        Shape::Enum(_) => "one of its words",
        Shape::Option(_) => "null or a value",
        Shape::Map(..) => "a map",
    }
}

fn read_int(int: Int, value: &Value) -> Option<Val> {
    let number = match value {
        Value::Number(number) => whole(number)?,
        Value::String(text) if int.is_wide() => text
            .parse::<i128>()
            .ok()
            .filter(|number| number.to_string() == *text)?,
        _ => return None,
    };
    Some(match int {
        Int::U8 => Val::U8(number.try_into().ok()?),
        Int::U16 => Val::U16(number.try_into().ok()?),
        Int::U32 => Val::U32(number.try_into().ok()?),
        Int::U64 => Val::U64(number.try_into().ok()?),
        Int::S8 => Val::S8(number.try_into().ok()?),
        Int::S16 => Val::S16(number.try_into().ok()?),
        Int::S32 => Val::S32(number.try_into().ok()?),
        Int::S64 => Val::S64(number.try_into().ok()?),
    })
}

/// An integer, also one that is written with a fraction of zero, or with an exponent.
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

fn read_float(shape: &Shape, value: &Value) -> Option<Val> {
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
    if *shape == Shape::Float64 {
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

fn one_char(text: &str) -> Result<char, Unfit> {
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(one), None) => Ok(one),
        _ => Err(Unfit::expected("one character")),
    }
}

fn read_flags(names: &[String], items: Vec<Value>) -> Result<Vec<String>, Unfit> {
    if items.len() > names.len() {
        return Err(Unfit::expected("a list of different flags"));
    }
    let mut flags = Vec::with_capacity(items.len());
    for (at, item) in items.into_iter().enumerate() {
        match item {
            Value::String(name) if names.contains(&name) && !flags.contains(&name) => {
                flags.push(name)
            }
            _ => return Err(Unfit::expected("another flag of the type").within(at)),
        }
    }
    Ok(flags)
}

/// The value of an object whose one field is `name`.
fn only(value: Value, name: &'static str) -> Result<Value, Unfit> {
    match value {
        Value::Object(mut object) if object.len() == 1 => object.swap_remove(name),
        _ => None,
    }
    .ok_or(Unfit::expected(r#"null or {"some": ..}"#))
}

fn tagged(tag: String, value: Value) -> Value {
    Value::Object([(tag, value)].into_iter().collect())
}

/// A number, or, if readers of JSON could take it for another one, its digits.
fn written_int(int: Int, value: &Val) -> Option<Value> {
    let number: i128 = match (int, value) {
        (Int::U8, Val::U8(value)) => (*value).into(),
        (Int::U16, Val::U16(value)) => (*value).into(),
        (Int::U32, Val::U32(value)) => (*value).into(),
        (Int::U64, Val::U64(value)) => (*value).into(),
        (Int::S8, Val::S8(value)) => (*value).into(),
        (Int::S16, Val::S16(value)) => (*value).into(),
        (Int::S32, Val::S32(value)) => (*value).into(),
        (Int::S64, Val::S64(value)) => (*value).into(),
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

/// The double with the shortest digits that are read as `value`.
fn double(value: f32) -> f64 {
    let short = value.to_string().parse::<f64>().unwrap_or(value.into());
    #[allow(clippy::cast_possible_truncation, reason = "compared with what it was")]
    let same = (short as f32).to_bits() == value.to_bits() && short.abs() <= f64::from(f32::MAX);
    if same { short } else { value.into() }
}

fn written_bytes(items: &[Val]) -> Result<Value, Unfit> {
    let byte = |item: &Val| match item {
        Val::U8(byte) => Ok(*byte),
        _ => Err(Unfit::expected("a byte")),
    };
    let bytes: Vec<u8> = items.iter().map(byte).collect::<Result<_, _>>()?;
    Ok(BASE64.encode(&bytes).into())
}

#[cfg(test)]
mod tests;
