//! Compares what a component says of itself twice: as JSON values, because a hash map has its keys in another order
//! each time.

use serde_json::Value;

const PLACE_CHARS_MAX: usize = 200;

/// Fails with the JSON Pointer of the first difference, or because the texts differ.
pub(super) fn agreed(first: String, second: &str) -> Result<String, String> {
    if first == second {
        return Ok(first);
    }
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    let (Some(mut one), Some(other)) = (read(&first), read(second)) else {
        return Err("its text differs".to_owned());
    };
    if let Some(place) = difference(&one, &other) {
        let place: String = place
            .chars()
            .take(PLACE_CHARS_MAX)
            .flat_map(char::escape_debug)
            .collect();
        return Err(format!("{place} differs"));
    }
    one.sort_all_objects();
    Ok(one.to_string())
}

fn difference(one: &Value, other: &Value) -> Option<String> {
    let below = |name: &str, inner: String| {
        format!("/{}{inner}", name.replace('~', "~0").replace('/', "~1"))
    };
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let missing = other
                .keys()
                .find(|name| !one.contains_key(*name))
                .map(|name| below(name, String::new()));
            let differs = |(name, value): (&String, &Value)| match other.get(name) {
                Some(there) => difference(value, there).map(|inner| below(name, inner)),
                None => Some(below(name, String::new())),
            };
            one.iter().find_map(differs).or(missing)
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let mut pairs = one.iter().zip(other).enumerate();
            pairs.find_map(|(at, (one, other))| {
                difference(one, other).map(|inner| below(&at.to_string(), inner))
            })
        }
        (one, other) => (one != other).then(String::new),
    }
}

#[cfg(test)]
mod tests {
    use super::agreed;

    #[test]
    fn the_order_of_keys_says_nothing_and_every_other_difference_has_a_place() {
        let one = r#"{"b": [{"y": 1, "x": null}], "a": "t"}"#;
        let same = agreed(one.to_owned(), r#"{"a":"t","b":[{"x":null,"y":1}]}"#);
        assert_eq!(same.as_deref(), Ok(r#"{"a":"t","b":[{"x":null,"y":1}]}"#));
        assert_eq!(
            agreed("as it is".to_owned(), "as it is").as_deref(),
            Ok("as it is")
        );
        for (other, place) in [
            (r#"{"a": "u", "b": [{"x": null, "y": 1}]}"#, "/a differs"),
            (
                r#"{"a": "t", "b": [{"x": null, "y": 2}]}"#,
                "/b/0/y differs",
            ),
            (r#"{"a": "t", "b": [{"x": null}]}"#, "/b/0/y differs"),
            (r#"{"a": "t", "b": []}"#, "/b differs"),
            (
                r#"{"a": "t", "b": [{"x": null, "y": 1}], "c/~d": 0}"#,
                "/c~1~0d differs",
            ),
            ("not JSON", "its text differs"),
        ] {
            assert_eq!(
                agreed(one.to_owned(), other),
                Err(place.to_owned()),
                "{other}"
            );
        }
    }
}
