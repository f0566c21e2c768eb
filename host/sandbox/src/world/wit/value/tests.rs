use std::collections::HashSet;

use serde_json::{Value, json};
use toolcell_engine::catalog::{BoundedSchema, SCHEMA_STACK_BYTES};
use wasmtime::component::Val;

use super::{ARGUMENT_VALUES_MAX, ValueCodec, ValueMismatch, read, write};
use crate::world::wit::schema::schema;
use crate::world::wit::shape::{IntegerType, JsonShape};

const INTS: [IntegerType; 8] = [
    IntegerType::U8,
    IntegerType::U16,
    IntegerType::U32,
    IntegerType::U64,
    IntegerType::S8,
    IntegerType::S16,
    IntegerType::S32,
    IntegerType::S64,
];

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    fn names(&mut self) -> Vec<String> {
        (0..=self.below(4))
            .map(|at| {
                self.one(&["a", "b-c", "some", "ok", "r\u{e9}sum\u{e9}"])
                    .to_owned()
                    + &at.to_string()
            })
            .collect()
    }

    fn shape(&mut self, depth: usize) -> JsonShape {
        let simple = if depth == 0 { 9 } else { 18 };
        let inner = |random: &mut Self| random.shape(depth - 1);
        match self.below(simple) {
            0 => JsonShape::Bool,
            1 | 2 => JsonShape::Int(self.one(&INTS)),
            3 => JsonShape::Float32,
            4 => JsonShape::Float64,
            5 => JsonShape::Char,
            6 => JsonShape::String,
            7 => self.one(&[
                JsonShape::Bytes,
                JsonShape::Enum(vec!["x".to_owned(), "y-z".to_owned()]),
            ]),
            8 => JsonShape::Flags(self.names()),
            9 => JsonShape::List(inner(self).into()),
            10 => JsonShape::Fixed(inner(self).into(), self.below(4) as u32),
            11 => JsonShape::Tuple((0..self.below(4)).map(|_| inner(self)).collect()),
            12 => JsonShape::Record(
                self.names()
                    .into_iter()
                    .map(|name| (name, inner(self)))
                    .collect(),
            ),
            13 => {
                let case =
                    |random: &mut Self| (random.below(3) > 0).then(|| random.shape(depth - 1));
                JsonShape::Variant(
                    self.names()
                        .into_iter()
                        .map(|name| (name, case(self)))
                        .collect(),
                )
            }
            14 | 15 => JsonShape::Option(inner(self).into()),
            16 => {
                let payload = |random: &mut Self| {
                    (random.below(3) > 0).then(|| random.shape(depth - 1).into())
                };
                JsonShape::Result(payload(self), payload(self))
            }
            _ => {
                let key = self.one(&[
                    JsonShape::String,
                    JsonShape::Bool,
                    JsonShape::Int(IntegerType::U64),
                    JsonShape::Char,
                ]);
                JsonShape::Map(key.into(), inner(self).into())
            }
        }
    }

    fn int(&mut self, int: IntegerType) -> Val {
        let (least, greatest) = int.range();
        let random = i128::from(self.next());
        let number = self.one(&[
            least,
            greatest,
            0,
            1,
            1 << 53,
            (1 << 53) + 1,
            random,
            -random,
            random >> 40,
        ]);
        let number = number.clamp(least, greatest);
        match int {
            IntegerType::U8 => Val::U8(number.try_into().unwrap()),
            IntegerType::U16 => Val::U16(number.try_into().unwrap()),
            IntegerType::U32 => Val::U32(number.try_into().unwrap()),
            IntegerType::U64 => Val::U64(number.try_into().unwrap()),
            IntegerType::S8 => Val::S8(number.try_into().unwrap()),
            IntegerType::S16 => Val::S16(number.try_into().unwrap()),
            IntegerType::S32 => Val::S32(number.try_into().unwrap()),
            IntegerType::S64 => Val::S64(number.try_into().unwrap()),
        }
    }

    fn boxed(&mut self, shape: &Option<Box<JsonShape>>) -> Option<Box<Val>> {
        shape.as_ref().map(|shape| self.val(shape).into())
    }

    fn val(&mut self, shape: &JsonShape) -> Val {
        let some = self.below(4);
        match shape {
            JsonShape::Bool => Val::Bool(some > 1),
            JsonShape::Int(int) => self.int(*int),
            JsonShape::Float32 => {
                let random = f32::from_bits(self.next() as u32);
                Val::Float32(self.one(&[
                    random,
                    0.1,
                    -0.0,
                    f32::NAN,
                    f32::INFINITY,
                    f32::MAX,
                    f32::MIN_POSITIVE,
                ]))
            }
            JsonShape::Float64 => {
                let random = f64::from_bits(self.next());
                Val::Float64(self.one(&[
                    random,
                    0.1,
                    -0.0,
                    f64::NAN,
                    f64::NEG_INFINITY,
                    f64::MAX,
                    1e-320,
                ]))
            }
            JsonShape::Char => Val::Char(self.one(&['a', '"', '\\', '\0', '\u{10ffff}'])),
            JsonShape::String => Val::String(
                self.one(&["", "NaN", "\u{7f}\n\"", "gr\u{f6}\u{df}e", "{}"])
                    .to_owned(),
            ),
            JsonShape::Bytes => Val::List(
                (0..self.below(7))
                    .map(|_| Val::U8(self.next() as u8))
                    .collect(),
            ),
            JsonShape::List(item) => Val::List((0..some).map(|_| self.val(item)).collect()),
            JsonShape::Fixed(item, length) => {
                Val::FixedLengthList((0..*length).map(|_| self.val(item)).collect())
            }
            JsonShape::Tuple(items) => {
                Val::Tuple(items.iter().map(|item| self.val(item)).collect())
            }
            JsonShape::Record(fields) => Val::Record(
                fields
                    .iter()
                    .map(|(name, shape)| (name.clone(), self.val(shape)))
                    .collect(),
            ),
            JsonShape::Variant(cases) => {
                let (name, shape) = self.one(cases);
                Val::Variant(name, shape.map(|shape| self.val(&shape).into()))
            }
            JsonShape::Enum(names) => Val::Enum(self.one(names)),
            JsonShape::Flags(names) => Val::Flags(
                names
                    .iter()
                    .filter(|_| self.below(2) == 0)
                    .cloned()
                    .collect(),
            ),
            JsonShape::Option(_) if some == 0 => Val::Option(None),
            JsonShape::Option(inner) => Val::Option(Some(self.val(inner).into())),
            JsonShape::Result(ok, _) if some > 1 => Val::Result(Ok(self.boxed(ok))),
            JsonShape::Result(_, err) => Val::Result(Err(self.boxed(err))),
            JsonShape::Map(key, value) => {
                let mut known = HashSet::new();
                let entries = (0..some)
                    .map(|_| (self.val(key), self.val(value)))
                    .collect::<Vec<_>>();
                Val::Map(
                    entries
                        .into_iter()
                        .filter(|(key, _)| known.insert(format!("{key:?}")))
                        .collect(),
                )
            }
        }
    }

    fn change(&mut self, value: &mut Value) {
        match value {
            Value::Array(items) if !items.is_empty() && self.below(4) > 0 => {
                let at = self.below(items.len());
                match self.below(6) {
                    0 => drop(items.remove(at)),
                    1 => items.push(items[at].clone()),
                    _ => self.change(&mut items[at]),
                }
            }
            Value::Object(fields) if !fields.is_empty() && self.below(4) > 0 => {
                let name = fields.keys().nth(self.below(fields.len())).unwrap().clone();
                match self.below(6) {
                    0 => drop(fields.remove(&name)),
                    1 => drop(fields.insert("unknown".to_owned(), Value::Null)),
                    _ => self.change(fields.get_mut(&name).unwrap()),
                }
            }
            other => *other = self.any(),
        }
    }

    fn any(&mut self) -> Value {
        self.one(&[
            json!(null),
            json!(true),
            json!(0),
            json!(-1),
            json!(1.5),
            json!(2.0),
            json!(300),
            json!(-70_000),
            json!(5_000_000_000_u64),
            json!(1e19),
            json!(1e300),
            json!(u64::MAX),
            json!(i64::MIN),
            json!(""),
            json!("x"),
            json!("NaN"),
            json!("-7"),
            json!("007"),
            json!("18446744073709551615"),
            json!("18446744073709551616"),
            json!([]),
            json!([true, 1]),
            json!({}),
            json!({ "ok": null }),
            json!({ "err": 1 }),
            json!({ "some": null }),
        ])
    }
}

/// The thread has the stack for checks of schemas.
fn aside(test: fn()) {
    std::thread::Builder::new()
        .stack_size(SCHEMA_STACK_BYTES)
        .spawn(test)
        .unwrap()
        .join()
        .unwrap();
}

#[test]
fn what_is_written_is_read_again_without_loss_and_satisfies_the_schema() {
    aside(|| {
        let mut random = Random(0x5eed);
        for _ in 0..400 {
            let shape = random.shape(3);
            let schema = BoundedSchema::compile(&schema(&shape)).unwrap();
            for _ in 0..10 {
                let value = random.val(&shape);
                let written = write(&shape, value.clone()).unwrap();
                let text = written.to_string();
                schema
                    .check(&written)
                    .unwrap_or_else(|error| panic!("{shape:?}: {text}: {error}"));
                let parsed: Value = serde_json::from_str(&text).unwrap();
                assert_eq!(read(&shape, parsed), Ok(value), "{shape:?}: {text}");
            }
        }
    });
}

#[test]
fn the_schema_accepts_what_the_codec_reads_and_nothing_else() {
    aside(|| {
        let mut random = Random(0xfeed);
        let mut accepted = 0;
        let mut refused = 0;
        for _ in 0..400 {
            let shape = random.shape(3);
            let schema = BoundedSchema::compile(&schema(&shape)).unwrap();
            for _ in 0..20 {
                let value = random.val(&shape);
                let mut changed = write(&shape, value).unwrap();
                random.change(&mut changed);
                let text = changed.to_string();
                let read = read(&shape, changed.clone());
                // No schema checks the text of bytes.
                if matches!(&read, Err(ValueMismatch::Mismatch { expected, .. }) if expected.starts_with("base64, "))
                {
                    continue;
                }
                let satisfied = schema.check(&changed);
                assert_eq!(
                    read.is_ok(),
                    satisfied.is_ok(),
                    "{shape:?}: {text}: {read:?}, {satisfied:?}"
                );
                if read.is_ok() {
                    accepted += 1
                } else {
                    refused += 1
                }
            }
        }
        assert!(
            accepted > 200 && refused > 200,
            "{accepted} accepted, {refused} refused"
        );
    });
}

#[test]
fn integers_beyond_a_double_are_texts() {
    let int = |value| write(&JsonShape::Int(IntegerType::U64), Val::U64(value)).unwrap();
    assert_eq!(
        (int(1 << 53), int((1 << 53) + 1)),
        (json!(9_007_199_254_740_992_u64), json!("9007199254740993"))
    );
    assert_eq!(
        write(&JsonShape::Int(IntegerType::S64), Val::S64(i64::MIN)),
        Ok(json!("-9223372036854775808"))
    );
    for value in [json!(u64::MAX), json!("18446744073709551615")] {
        assert_eq!(
            read(&JsonShape::Int(IntegerType::U64), value),
            Ok(Val::U64(u64::MAX))
        );
    }
}

#[test]
fn a_short_float_stays_short() {
    let float = |value| {
        write(&JsonShape::Float32, Val::Float32(value))
            .unwrap()
            .to_string()
    };
    assert_eq!(
        (float(0.1), float(16_777_216.0), float(f32::NAN)),
        ("0.1".into(), "16777216.0".into(), "\"NaN\"".into())
    );
    assert_eq!(float(f32::MAX), "3.4028234663852886e+38");
}

#[test]
fn bytes_are_base64() {
    let bytes = Val::List(vec![Val::U8(0xff), Val::U8(0)]);
    assert_eq!(write(&JsonShape::Bytes, bytes.clone()), Ok(json!("/wA=")));
    assert_eq!(read(&JsonShape::Bytes, json!("/wA=")), Ok(bytes));
    for wrong in ["/wA", "/w A=", "_wA=", "/wB="] {
        assert!(read(&JsonShape::Bytes, json!(wrong)).is_err(), "{wrong}");
    }
}

#[test]
fn a_mismatch_names_its_place() {
    let field = |name: &str, shape| (name.to_owned(), shape);
    let shape = JsonShape::Record(vec![field(
        "a",
        JsonShape::List(JsonShape::Tuple(vec![JsonShape::Bool, JsonShape::Char]).into()),
    )]);
    let why = |value| read(&shape, value).unwrap_err().to_string();
    assert_eq!(
        why(json!({ "a": [[true, "x"], [true, "xy"]] })),
        "/a/1/1: not one character"
    );
    assert_eq!(why(json!({})), "/a: not there");
    assert_eq!(
        why(json!({ "a": [], "b/c": 1 })),
        "/b~1c: not a field of the record"
    );
    assert_eq!(why(json!(7)), "not an object");
}

#[test]
fn the_last_of_two_entries_with_one_key_counts() {
    let shape = JsonShape::Map(JsonShape::String.into(), JsonShape::Bool.into());
    let entry = |value| (Val::String("a".to_owned()), Val::Bool(value));
    assert_eq!(
        write(&shape, Val::Map(vec![entry(true), entry(false)])),
        Ok(json!({ "a": false }))
    );
}

#[test]
fn the_number_of_values_is_limited_both_ways() {
    let list = JsonShape::List(JsonShape::Bool.into());
    let fits = ValueCodec::new(3).read(&list, json!([true, true]));
    assert!(fits.is_ok());
    assert_eq!(
        ValueCodec::new(3).read(&list, json!([true, true, true])),
        Err(ValueMismatch::TooMany(3))
    );
    assert_eq!(
        ValueCodec::new(3).write(&list, Val::List(vec![Val::Bool(true); 3])),
        Err(ValueMismatch::TooMany(3))
    );
    let bytes = "A".repeat(ARGUMENT_VALUES_MAX / 3 * 4 + 8);
    assert_eq!(
        read(&JsonShape::Bytes, json!(bytes)),
        Err(ValueMismatch::TooMany(ARGUMENT_VALUES_MAX))
    );
}
