//! The words after a command that is a tool, as its input.

use toolcell_guest::serde_json::{Map, Value};

/// The input that `words` mean: one JSON object, or a list of `NAME=VALUE` and `NAME:=JSON`.
pub(crate) fn input(words: &[String]) -> Result<Map<String, Value>, String> {
    if let [word] = words
        && word.trim_start().starts_with('{')
    {
        return toolcell_guest::serde_json::from_str(word)
            .map_err(|error| format!("the argument is not a JSON object: {error}"));
    }
    let mut input = Map::new();
    for word in words {
        let (name, value) = pair(word)?;
        match input.get_mut(name) {
            None => drop(input.insert(name.to_owned(), value)),
            Some(Value::Array(list)) => list.push(value),
            // A repeated name is a list.
            Some(known) => *known = Value::Array(vec![known.take(), value]),
        }
    }
    Ok(input)
}

fn pair(word: &str) -> Result<(&str, Value), String> {
    let (name, text) = word.split_once('=').ok_or_else(|| {
        format!("`{word}` is not NAME=VALUE: give NAME=VALUE, NAME:=JSON, or one JSON object")
    })?;
    if let Some(name) = name.strip_suffix(':') {
        let value = toolcell_guest::serde_json::from_str(text)
            .map_err(|error| format!("the value of `{name}` is not JSON: {error}"))?;
        return Ok((name, value));
    }
    // Without the tool's schema, which a caller does not see, the text itself says its type.
    let value = toolcell_guest::serde_json::from_str(text)
        .unwrap_or_else(|_| Value::String(text.to_owned()));
    Ok((name, value))
}

/// Standard input as a value: JSON if it is one, or else its text.
pub(crate) fn value_of(stdin: &[u8]) -> Value {
    toolcell_guest::serde_json::from_slice(stdin).unwrap_or_else(|_| text_of(stdin))
}

pub(crate) fn text_of(stdin: &[u8]) -> Value {
    Value::String(String::from_utf8_lossy(stdin).into_owned())
}

#[cfg(test)]
mod tests {
    use toolcell_guest::serde_json::json;

    use super::*;

    fn of(words: &[&str]) -> Result<Value, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        input(&words).map(Value::Object)
    }

    #[test]
    fn words_are_typed_by_json_where_they_are_json() {
        let found = of(&[
            "a=1", "b=true", "c=[1]", "d=x=y", "e=\"1\"", "f=", "g=007", "h:=null",
        ]);
        let expected = json!({"a": 1, "b": true, "c": [1], "d": "x=y", "e": "1", "f": "", "g": "007", "h": null});
        assert_eq!(found, Ok(expected));
    }

    #[test]
    fn one_word_can_be_the_whole_object() {
        assert_eq!(of(&[" {\"a\": {\"b\": 1}}"]), Ok(json!({"a": {"b": 1}})));
        assert_eq!(of(&[]), Ok(json!({})));
        assert!(of(&["{\"a\": "]).unwrap_err().contains("not a JSON object"));
    }

    #[test]
    fn a_repeated_name_is_a_list() {
        assert_eq!(of(&["a=1", "a=2", "a=3"]), Ok(json!({"a": [1, 2, 3]})));
    }

    #[test]
    fn what_is_no_pair_is_refused() {
        assert!(
            of(&["--pattern"])
                .unwrap_err()
                .starts_with("`--pattern` is not NAME=VALUE")
        );
        assert!(
            of(&["a:=x"])
                .unwrap_err()
                .starts_with("the value of `a` is not JSON")
        );
    }
}
