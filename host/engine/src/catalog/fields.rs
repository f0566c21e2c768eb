//! Fields that a contract names: a JSON Pointer (`/a/b`, `*` for every item), or a property name at any depth.
//! Hidden fields are found in every spelling of their name.

use serde_json::Value;

use toolcell_spec::{escaped_step, plain_name, pointed, pointed_mut, pointer_steps};

pub(super) fn contains(value: &Value, field: &str) -> bool {
    match field.strip_prefix('/') {
        Some(pointer) => !pointed(value, &pointer_steps(pointer)).is_empty(),
        None => remove_name(&mut value.clone(), field),
    }
}

pub(super) fn remove(value: &mut Value, field: &str) {
    match field.strip_prefix('/') {
        Some(pointer) => remove_pointer(value, &pointer_steps(pointer)),
        None => _ = remove_name(value, field),
    }
}

/// Calls `seen` with every value that `field` names (all of `value` if empty), and its JSON Pointer. A value inside a
/// visited one is skipped.
pub(super) fn visit(value: &mut Value, field: &str, seen: &mut dyn FnMut(&str, &mut Value)) {
    match field.strip_prefix('/') {
        Some(pointer) => {
            let found = pointed_mut(value, &pointer_steps(pointer));
            found.into_iter().for_each(|(at, inner)| seen(&at, inner));
        }
        None if field.is_empty() => seen("", value),
        None => visit_name(value, field, &mut String::new(), seen),
    }
}

fn visit_name(
    value: &mut Value,
    name: &str,
    at: &mut String,
    seen: &mut dyn FnMut(&str, &mut Value),
) {
    match value {
        Value::Object(fields) => {
            for (key, inner) in fields {
                below(at, key, |at| {
                    if same_name(key, name) {
                        seen(at, inner)
                    } else {
                        visit_name(inner, name, at, seen)
                    }
                });
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                below(at, &index.to_string(), |at| {
                    visit_name(item, name, at, seen)
                });
            }
        }
        _ => {}
    }
}

/// Spellings of one name are `apiKey`, `api_key` and `API-Key`.
pub(super) fn same_name(one: &str, other: &str) -> bool {
    one == other || plain_name(one).eq(plain_name(other)) && plain_name(one).next().is_some()
}

/// One shared path string: a new one for each step would cost the square of its length.
pub(super) fn below(at: &mut String, step: &str, visit: impl FnOnce(&mut String)) {
    let length = at.len();
    at.push('/');
    at.push_str(&escaped_step(step));
    visit(at);
    at.truncate(length);
}

/// `None` if `field` leads to an item or all of a value.
pub(super) fn last_name(field: &str) -> Option<String> {
    let name = match field.strip_prefix('/') {
        Some(pointer) => pointer_steps(pointer).pop()?,
        None => field.to_owned(),
    };
    let is_name = !name.is_empty() && name != "*" && name.parse::<usize>().is_err();
    is_name.then_some(name)
}

/// Returns whether there was one.
pub(super) fn remove_name(value: &mut Value, name: &str) -> bool {
    match value {
        Value::Object(fields) => {
            let removed = fields.shift_remove(name).is_some();
            let inner = fields.values_mut();
            inner.fold(removed, |removed, inner| remove_name(inner, name) | removed)
        }
        Value::Array(items) => items
            .iter_mut()
            .fold(false, |removed, item| remove_name(item, name) | removed),
        _ => false,
    }
}

pub(super) fn remove_pointer(value: &mut Value, steps: &[String]) {
    let Some((last, outer)) = steps.split_last() else {
        return;
    };
    for (_, inner) in pointed_mut(value, outer) {
        if let Value::Object(fields) = inner {
            fields.shift_remove(last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{contains, remove, visit};
    use serde_json::json;

    #[test]
    fn a_name_is_found_at_any_depth_and_a_pointer_at_its_place() {
        let value = json!({"a": [{"secret": 1}], "b": {"c": 2}});
        assert!(
            contains(&value, "secret")
                && contains(&value, "/a/*/secret")
                && contains(&value, "/b/c")
        );
        assert!(!contains(&value, "/c") && !contains(&value, "d"));
    }

    #[test]
    fn removing_leaves_everything_else() {
        let mut value = json!({"a": [{"x": 1, "y": 2}], "b": {"x": 3}});
        remove(&mut value, "/a/*/x");
        assert_eq!(value, json!({"a": [{"y": 2}], "b": {"x": 3}}));
        remove(&mut value, "x");
        assert_eq!(value, json!({"a": [{"y": 2}], "b": {}}));
    }

    #[test]
    fn visiting_shows_each_value_once_with_its_place() {
        let value = json!({"a": [{"b": {"b": 1}}, {"b": 2}], "c/d": {"b": 3}, "e": 4});
        let places = |field: &str| {
            let mut places = Vec::new();
            visit(&mut value.clone(), field, &mut |at, _| {
                places.push(at.to_owned())
            });
            places
        };
        assert_eq!(places("b"), ["/a/0/b", "/a/1/b", "/c~1d/b"]);
        assert_eq!(places("/a/*/b"), ["/a/0/b", "/a/1/b"]);
        assert_eq!(places("/a/1/b"), ["/a/1/b"]);
        assert_eq!(places("/c~1d"), ["/c~1d"]);
        assert_eq!(places(""), [""]);
        assert!(places("/b").is_empty() && places("/a/2").is_empty());
    }
}
