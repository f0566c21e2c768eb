//! Fields that a contract names: a JSON Pointer (`/a/b`, `*` for every item), or a property name at any depth. What
//! must be hidden is found in every spelling of its name.

use serde_json::Value;

use toolcell_spec::plain_name;

/// Returns whether `value` contains `field`.
pub(super) fn contains(value: &Value, field: &str) -> bool {
    match field.strip_prefix('/') {
        Some(pointer) => contains_pointer(value, &steps(pointer)),
        None => contains_name(value, field),
    }
}

/// Removes `field` from `value`.
pub(super) fn remove(value: &mut Value, field: &str) {
    match field.strip_prefix('/') {
        Some(pointer) => remove_pointer(value, &steps(pointer)),
        None => remove_name(value, field),
    }
}

/// Calls `seen` with every value that `field` names, and with its JSON Pointer. The empty field names all of `value`. A
/// value inside a visited one is not visited again.
pub(super) fn visit(value: &mut Value, field: &str, seen: &mut dyn FnMut(&str, &mut Value)) {
    let mut at = String::new();
    match field.strip_prefix('/') {
        Some(pointer) => visit_pointer(value, &steps(pointer), &mut at, seen),
        None if field.is_empty() => seen("", value),
        None => visit_name(value, field, &mut at, seen),
    }
}

fn visit_pointer(
    value: &mut Value,
    steps: &[String],
    at: &mut String,
    seen: &mut dyn FnMut(&str, &mut Value),
) {
    let Some((step, rest)) = steps.split_first() else {
        return seen(at, value);
    };
    match value {
        Value::Object(fields) => {
            if let Some(inner) = fields.get_mut(step) {
                below(at, step, |at| visit_pointer(inner, rest, at, seen));
            }
        }
        Value::Array(items) => {
            let wanted: Option<usize> = step.parse().ok();
            for (index, item) in items.iter_mut().enumerate() {
                if step == "*" || wanted == Some(index) {
                    below(at, &index.to_string(), |at| {
                        visit_pointer(item, rest, at, seen)
                    });
                }
            }
        }
        _ => {}
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

/// Returns whether both are spellings of one name, such as `apiKey`, `api_key` and `API-Key`.
pub(super) fn same_name(one: &str, other: &str) -> bool {
    one == other || plain_name(one).eq(plain_name(other)) && plain_name(one).next().is_some()
}

/// Visits one step down. The whole path shares one string: a new one for each step would cost the square of its length.
pub(super) fn below(at: &mut String, step: &str, visit: impl FnOnce(&mut String)) {
    let length = at.len();
    at.push('/');
    at.push_str(&step.replace('~', "~0").replace('/', "~1"));
    visit(at);
    at.truncate(length);
}

/// The name of the field that `field` leads to; `None` if it is no name, but a number or all of a value.
pub(super) fn last_name(field: &str) -> Option<String> {
    let name = match field.strip_prefix('/') {
        Some(pointer) => steps(pointer).pop()?,
        None => field.to_owned(),
    };
    let is_name = !name.is_empty() && name != "*" && name.parse::<usize>().is_err();
    is_name.then_some(name)
}

pub(super) fn steps(pointer: &str) -> Vec<String> {
    pointer
        .split('/')
        .map(|step| step.replace("~1", "/").replace("~0", "~"))
        .collect()
}

fn contains_name(value: &Value, name: &str) -> bool {
    match value {
        Value::Object(fields) => {
            fields.contains_key(name) || fields.values().any(|inner| contains_name(inner, name))
        }
        Value::Array(items) => items.iter().any(|item| contains_name(item, name)),
        _ => false,
    }
}

fn contains_pointer(value: &Value, steps: &[String]) -> bool {
    let Some((step, rest)) = steps.split_first() else {
        return true;
    };
    match value {
        Value::Object(fields) => fields
            .get(step)
            .is_some_and(|inner| contains_pointer(inner, rest)),
        Value::Array(items) if step == "*" => items.iter().any(|item| contains_pointer(item, rest)),
        Value::Array(items) => step
            .parse()
            .ok()
            .and_then(|at: usize| items.get(at))
            .is_some_and(|item| contains_pointer(item, rest)),
        _ => false,
    }
}

pub(super) fn remove_name(value: &mut Value, name: &str) {
    match value {
        Value::Object(fields) => {
            fields.shift_remove(name);
            fields
                .values_mut()
                .for_each(|inner| remove_name(inner, name));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| remove_name(item, name)),
        _ => {}
    }
}

pub(super) fn remove_pointer(value: &mut Value, steps: &[String]) {
    let Some((step, rest)) = steps.split_first() else {
        return;
    };
    match value {
        Value::Object(fields) if rest.is_empty() => {
            fields.shift_remove(step);
        }
        Value::Object(fields) => {
            if let Some(inner) = fields.get_mut(step) {
                remove_pointer(inner, rest);
            }
        }
        Value::Array(items) if step == "*" => {
            items.iter_mut().for_each(|item| remove_pointer(item, rest))
        }
        Value::Array(items) => {
            if let Some(inner) = step.parse().ok().and_then(|at: usize| items.get_mut(at)) {
                remove_pointer(inner, rest);
            }
        }
        _ => {}
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
