//! CBOR (RFC 8949) of ACT's arguments and results, as JSON: bytes are `{"$bytes": BASE64}`, and another key that begins
//! with `$` gets one more.

use std::cell::Cell;
use std::fmt;

use ciborium::de;
use data_encoding::BASE64;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error as _, IgnoredAny, MapAccess,
    SeqAccess, VariantAccess, Visitor,
};
use serde::ser::{Error as _, Serialize, SerializeMap, Serializer};
use serde_json::{Map, Number, Value};
use toolcell_spec::JSON_VALUES_MAX;

const BYTES: &str = "$bytes";
const DEPTH_MAX: usize = 120;

/// Deterministic: keys in the order of their encodings, numbers in their shortest form.
///
/// # Errors
///
/// An object `{"$bytes": ..}` without base64, and two keys that are the same once unescaped.
pub(super) fn from_json(value: &Value) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    ciborium::into_writer(&CborEncoder(value), &mut bytes).map_err(|error| match error {
        ciborium::ser::Error::Value(why) => why,
        ciborium::ser::Error::Io(error) => error.to_string(),
    })?;
    Ok(bytes)
}

/// Decodes one value, without tags.
///
/// # Errors
///
/// `bytes` that are not one value, nest too deeply, hold too many values, or hold what JSON cannot.
pub(super) fn to_json(bytes: &[u8]) -> Result<Value, String> {
    let mut rest = bytes;
    let decoded: Result<DecodedValue, de::Error<_>> =
        de::from_reader_with_recursion_limit(&mut rest, DEPTH_MAX);
    match decoded {
        Ok(DecodedValue(value)) if rest.is_empty() => Ok(value),
        Ok(_) => Err("more bytes follow the value".to_owned()),
        Err(de::Error::Semantic(_, why)) => Err(why),
        Err(de::Error::RecursionLimitExceeded) => {
            Err(format!("it is nested more than {DEPTH_MAX} levels deep"))
        }
        Err(de::Error::Io(_) | de::Error::Syntax(_)) => Err("it is not valid CBOR".to_owned()),
    }
}

struct CborEncoder<'v>(&'v Value);

impl Serialize for CborEncoder<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(flag) => serializer.serialize_bool(*flag),
            Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(number), _, _) => serializer.serialize_u64(number),
                (_, Some(number), _) => serializer.serialize_i64(number),
                (_, _, Some(number)) => serializer.serialize_f64(number),
                _ => Err(S::Error::custom(format!(
                    "cannot encode the number {number}"
                ))),
            },
            Value::String(text) => serializer.serialize_str(text),
            Value::Array(items) => serializer.collect_seq(items.iter().map(CborEncoder)),
            Value::Object(members) => object(members, serializer),
        }
    }
}

fn object<S: Serializer>(members: &Map<String, Value>, serializer: S) -> Result<S::Ok, S::Error> {
    if let (1, Some(held)) = (members.len(), members.get(BYTES)) {
        let bytes = held
            .as_str()
            .and_then(|text| BASE64.decode(text.as_bytes()).ok());
        let bytes = bytes
            .ok_or_else(|| S::Error::custom(format!("cannot read `{BYTES}`: it is not base64")))?;
        return serializer.serialize_bytes(&bytes);
    }
    let mut members: Vec<(&str, &Value)> = members
        .iter()
        .map(|(key, value)| (unescaped(key), value))
        .collect();
    // The order of the encodings, which begin with the length.
    members.sort_by(|(one, _), (other, _)| (one.len(), *one).cmp(&(other.len(), *other)));
    if let Some((key, _)) = members
        .iter()
        .zip(members.iter().skip(1))
        .find(|(one, next)| one.0 == next.0)
        .map(|of| of.0)
    {
        return Err(S::Error::custom(format!(
            "cannot encode two keys `{key}` of one object"
        )));
    }
    let mut map = serializer.serialize_map(Some(members.len()))?;
    for (key, value) in members {
        map.serialize_entry(key, &CborEncoder(value))?;
    }
    map.end()
}

/// `$$` at the start is an escaped `$`.
fn unescaped(key: &str) -> &str {
    key.strip_prefix('$')
        .filter(|rest| rest.starts_with('$'))
        .unwrap_or(key)
}

struct DecodedValue(Value);

impl<'de> Deserialize<'de> for DecodedValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let left = Cell::new(JSON_VALUES_MAX);
        ValueDecoder { left: &left }
            .deserialize(deserializer)
            .map(Self)
    }
}

/// `left` values may come: without a limit, 8 MiB of empty arrays become half a gigabyte.
#[derive(Clone, Copy)]
struct ValueDecoder<'b> {
    left: &'b Cell<usize>,
}

impl<'de> DeserializeSeed<'de> for ValueDecoder<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self.left.get().checked_sub(1) {
            Some(left) => self.left.set(left),
            None => {
                return Err(D::Error::custom(format!(
                    "it holds more than {JSON_VALUES_MAX} values"
                )));
            }
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueDecoder<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON can hold")
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: serde::de::Error>(self, flag: bool) -> Result<Value, E> {
        Ok(flag.into())
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_i128<E: serde::de::Error>(self, number: i128) -> Result<Value, E> {
        i64::try_from(number)
            .map(Value::from)
            .map_err(|_| too_large(number))
    }

    fn visit_u128<E: serde::de::Error>(self, number: u128) -> Result<Value, E> {
        u64::try_from(number)
            .map(Value::from)
            .map_err(|_| too_large(number))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Value, E> {
        Number::from_f64(number)
            .map(Value::Number)
            .ok_or_else(|| E::custom(format!("JSON has no number {number}")))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Value, E> {
        Ok(Value::Object(Map::from_iter([(
            BYTES.to_owned(),
            BASE64.encode(bytes).into(),
        )])))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            array.push(item);
        }
        Ok(array.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            let key = if key.starts_with('$') {
                format!("${key}")
            } else {
                key
            };
            if object.contains_key(&key) {
                return Err(A::Error::custom(format!("the key `{key}` comes twice")));
            }
            object.insert(key, members.next_value_seed(self)?);
        }
        Ok(object.into())
    }

    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<Value, A::Error> {
        let (_, access): (IgnoredAny, _) = tagged.variant()?;
        access.newtype_variant_seed(self)
    }
}

fn too_large<E: serde::de::Error>(number: impl fmt::Display) -> E {
    E::custom(format!("the number {number} does not fit into 64 bits"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolcell_spec::JSON_VALUES_MAX;

    use super::{from_json, to_json};

    #[track_caller]
    fn both_ways(value: &Value, bytes: &[u8]) {
        assert_eq!(from_json(value).unwrap(), bytes, "{value}");
        assert_eq!(to_json(bytes).unwrap(), *value);
    }

    #[test]
    fn values_are_encoded_as_the_rfc_shows() {
        for (value, bytes) in [
            (json!(0), &b"\x00"[..]),
            (json!(1000), b"\x19\x03\xe8"),
            (json!(u64::MAX), b"\x1b\xff\xff\xff\xff\xff\xff\xff\xff"),
            (json!(i64::MIN), b"\x3b\x7f\xff\xff\xff\xff\xff\xff\xff"),
            (json!(1.5), b"\xf9\x3e\x00"),
            (json!(1.1), b"\xfb\x3f\xf1\x99\x99\x99\x99\x99\x9a"),
            (json!([false, null, "\u{fc}"]), b"\x83\xf4\xf6\x62\xc3\xbc"),
            (json!({ "$bytes": "AQIDBA==" }), b"\x44\x01\x02\x03\x04"),
            (
                json!({ "$$bytes": "AQIDBA==" }),
                b"\xa1\x66$bytes\x68AQIDBA==",
            ),
        ] {
            both_ways(&value, bytes);
        }
    }

    #[test]
    fn keys_are_sorted_by_their_encoding() {
        assert_eq!(
            from_json(&json!({ "aa": 1, "b": 2, "a": 3 })).unwrap(),
            b"\xa3\x61a\x03\x61b\x02\x62aa\x01"
        );
    }

    #[test]
    fn arguments_that_cannot_be_encoded_are_refused() {
        for (value, why) in [
            (json!({ "x": { "$bytes": 7 } }), "not base64"),
            (json!({ "$bytes": "?" }), "not base64"),
            (json!({ "$a": 1, "$$a": 2 }), "two keys `$a`"),
        ] {
            let refused = from_json(&value).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
        // Beside another key, it is a key like others.
        assert!(from_json(&json!({ "$bytes": 7, "x": 1 })).is_ok());
    }

    #[test]
    fn what_json_has_in_another_form_is_decoded() {
        // A tag, an indefinite array, an indefinite text and `undefined`.
        assert_eq!(
            to_json(b"\xc1\x1a\x51\x4b\x67\xb0").unwrap(),
            json!(1_363_896_240)
        );
        assert_eq!(
            to_json(b"\x9f\x01\x7f\x61a\x61b\xff\xf7\xff").unwrap(),
            json!([1, "ab", null])
        );
        // A byte string that is longer than the decoder's buffer.
        let long = [&b"\x59\x20\x00"[..], &[0; 0x2000]].concat();
        assert_eq!(
            to_json(&long).unwrap()["$bytes"].as_str().unwrap().len(),
            0x2000_usize.div_ceil(3) * 4
        );
    }

    #[test]
    fn what_is_no_value_of_json_is_refused() {
        for (bytes, why) in [
            (&b""[..], "not valid CBOR"),
            (b"\x83\x01", "not valid CBOR"),
            (b"\x61\xff", "not valid CBOR"),
            (b"\xff", ""),
            (b"\x01\x01", "more bytes follow"),
            (b"\xf9\x7e\x00", "no number NaN"),
            (
                b"\xc2\x50\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
                "64 bits",
            ),
            (b"\xa1\x01\x02", ""),
            (b"\xa2\x61a\x01\x61a\x02", "`a` comes twice"),
            // An array that claims more items than there are bytes in the world.
            (b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff", "not valid CBOR"),
            (
                b"\x5b\x7f\xff\xff\xff\xff\xff\xff\xff\x00",
                "not valid CBOR",
            ),
        ] {
            let refused = to_json(bytes).unwrap_err();
            assert!(refused.contains(why), "{bytes:?}: {refused}");
        }
    }

    #[test]
    fn depth_and_number_of_values_are_bounded() {
        let nested = |depth: usize| [vec![0x81; depth], vec![0x00]].concat();
        assert!(to_json(&nested(100)).is_ok());
        assert!(
            to_json(&nested(100_000))
                .unwrap_err()
                .contains("levels deep")
        );
        let many = |count: u32| {
            [
                &[0x9a][..],
                &count.to_be_bytes(),
                &vec![0x80; count as usize],
            ]
            .concat()
        };
        let most = u32::try_from(JSON_VALUES_MAX).unwrap() - 1;
        assert!(to_json(&many(most)).is_ok());
        assert!(
            to_json(&many(most + 1))
                .unwrap_err()
                .contains("more than 100000 values")
        );
    }
}
