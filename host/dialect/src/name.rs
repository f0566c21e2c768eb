use std::collections::{HashMap, HashSet};

use toolcell_core::record::{ToolDeclaration, digest};

/// Maximum length of a name, in characters, that clients and the models behind them accept.
const NAME_CHARS_MAX: usize = 64;

/// Returns the names of `tools` in one server, in their order: the bare name if it is unique, else `namespace__name`.
/// No name occurs twice, and none is one of `reserved`. A name that comes back is looked up; it is never parsed.
pub fn exported(tools: &[&ToolDeclaration], reserved: &[&str]) -> Vec<String> {
    let mut bearers: HashMap<&str, usize> = reserved.iter().map(|name| (*name, 1)).collect();
    for tool in tools {
        *bearers.entry(&tool.name).or_default() += 1;
    }
    let is_single = |tool: &ToolDeclaration| bearers.get(tool.name.as_str()) == Some(&1);
    // Bare names come first, so that a tool cannot lose its own to another tool's qualified name.
    let mut taken: HashSet<String> =
        tools.iter().filter(|tool| is_single(tool)).map(|tool| tool.name.clone()).collect();
    taken.extend(reserved.iter().map(|name| (*name).to_owned()));
    let mut name = |tool: &&ToolDeclaration| {
        if is_single(tool) {
            return tool.name.clone();
        }
        let qualified = format!("{}__{}", tool.namespace.replace('.', "__"), tool.name);
        let name = free(&qualified, &tool.qualified_name(), |name| !taken.contains(name));
        taken.insert(name.clone());
        name
    };
    tools.iter().map(&mut name).collect()
}

/// Returns `name`, or, if it is too long or taken, the first name after it that `is_free`, which ends in six hexadecimal
/// digits of the digest of `identity`. Six digits are few: a tool can be made whose own name ends in those of another one,
/// and then the digest is that of the identity with a number.
pub(super) fn free(name: &str, identity: &str, is_free: impl Fn(&str) -> bool) -> String {
    if name.chars().count() <= NAME_CHARS_MAX && is_free(name) {
        return name.to_owned();
    }
    let mut found = distinct(name, identity);
    let mut number = 1;
    while !is_free(&found) && guard!("free_names") {
        number += 1;
        found = distinct(name, &format!("{identity}\n{number}"));
    }
    found
}

/// Whether `found` is `name`, or has the form of what [`free`] makes of it.
pub(super) fn is_made_of(found: &str, name: &str) -> bool {
    let start: String = name.chars().take(NAME_CHARS_MAX - 7).collect();
    let mark = found.strip_prefix(start.as_str()).and_then(|rest| rest.strip_prefix('_'));
    let is_mark = |mark: &str| mark.len() == 6 && mark.bytes().all(|byte| byte.is_ascii_hexdigit());
    found == name || mark.is_some_and(is_mark)
}

/// Returns `name`, cut if it is too long, with a part of the digest of `identity`.
fn distinct(name: &str, identity: &str) -> String {
    let digest = digest(identity.as_bytes());
    let mark: String = digest.chars().skip("sha256:".len()).take(6).collect();
    let start: String = name.chars().take(NAME_CHARS_MAX - 7).collect();
    format!("{start}_{mark}")
}

#[cfg(test)]
mod tests {
    use super::{distinct, exported};
    use toolcell_core::record::ToolDeclaration;

    fn declared(namespace: &str, name: &str) -> ToolDeclaration {
        serde_json::from_value(serde_json::json!({
            "schema_version": "0.2.0", "namespace": namespace, "name": name, "description": "d",
            "lifecycle": "available", "tool_kind": "function",
        }))
        .unwrap()
    }

    fn names(tools: &[(&str, &str)]) -> Vec<String> {
        let tools: Vec<ToolDeclaration> = tools.iter().map(|(namespace, name)| declared(namespace, name)).collect();
        exported(&tools.iter().collect::<Vec<_>>(), &["search_tools"])
    }

    #[test]
    fn a_name_is_qualified_only_where_it_collides() {
        assert_eq!(names(&[("a", "read"), ("b.c", "write"), ("b.c", "read")]), ["a__read", "write", "b__c__read"]);
    }

    #[test]
    fn no_tool_takes_a_reserved_name() {
        assert_eq!(names(&[("a", "search_tools"), ("a", "read")]), ["a__search_tools", "read"]);
    }

    #[test]
    fn a_tool_cannot_take_the_name_that_the_digest_gives_to_another() {
        let foreseen = distinct("a__b", "a.b");
        let names = names(&[("a", "b"), ("c", "b"), ("x", "a__b"), ("y", &foreseen)]);
        assert_eq!((names[2].as_str(), &names[3]), ("a__b", &foreseen), "both keep their bare names");
        assert!(names[0].starts_with("a__b_") && names[0] != foreseen, "{names:?}");
    }

    #[test]
    fn no_two_tools_share_a_name_and_none_is_too_long() {
        let long = "n".repeat(60);
        let names = names(&[("a", "b"), ("c", "b"), ("x", "a__b"), ("first", &long), ("second", &long)]);
        assert_eq!(names[2], "a__b");
        assert!(names[0].starts_with("a__b_") && names.iter().all(|name| name.len() <= 64), "{names:?}");
        let distinct: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
    }
}
