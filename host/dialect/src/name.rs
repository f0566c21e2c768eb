use std::collections::HashSet;

use toolcell_spec::{ToolDeclaration, digest};

/// In characters. Clients put the name of the server in front: `mcp__toolcell__` and this are within the 64 characters of
/// the APIs of models, and `toolcell:` and this within Cursor's 60, which leaves out tools with longer names
/// (<https://github.com/microsoft/vscode/issues/243602>, <https://github.com/awslabs/mcp/issues/1283>).
pub const NAME_CHARS_MAX: usize = 49;

/// Unique names in one server: `namespace_name`, or the bare name of a tool called as its namespace. They stay the same
/// when tools are added, unless the same name or a `reserved` one came first: then six hexadecimal digits are appended.
/// Names are looked up, never parsed.
pub fn exported(tools: &[&ToolDeclaration], reserved: &[&str]) -> Vec<String> {
    let mut taken: HashSet<String> = reserved.iter().map(|name| (*name).to_owned()).collect();
    let mut name = |tool: &&ToolDeclaration| {
        let whole = match tool.namespace.replace('.', "_") {
            namespace if namespace.is_empty() || namespace == tool.name => tool.name.clone(),
            namespace => format!("{namespace}_{}", tool.name),
        };
        let name = free(&whole, &tool.qualified_name(), |name| !taken.contains(name));
        taken.insert(name.clone());
        name
    };
    tools.iter().map(&mut name).collect()
}

/// `name`, or, if too long or taken, one with six hexadecimal digits of the digest of `identity`. Six are few: a tool's
/// own name could end in another's digits. Then a number is added to the identity.
pub(super) fn free(name: &str, identity: &str, is_free: impl Fn(&str) -> bool) -> String {
    if name.chars().count() <= NAME_CHARS_MAX && is_free(name) {
        return name.to_owned();
    }
    let mut found = distinct(name, identity);
    let mut number = 1;
    while !is_free(&found) {
        number += 1;
        found = distinct(name, &format!("{identity}\n{number}"));
    }
    found
}

pub(super) fn is_made_of(found: &str, name: &str) -> bool {
    let start: String = name.chars().take(NAME_CHARS_MAX - 7).collect();
    let mark = found
        .strip_prefix(start.as_str())
        .and_then(|rest| rest.strip_prefix('_'));
    let is_mark = |mark: &str| mark.len() == 6 && mark.bytes().all(|byte| byte.is_ascii_hexdigit());
    found == name || mark.is_some_and(is_mark)
}

fn distinct(name: &str, identity: &str) -> String {
    let digest = digest(identity.as_bytes());
    let mark: String = digest.chars().skip("sha256:".len()).take(6).collect();
    let start: String = name.chars().take(NAME_CHARS_MAX - 7).collect();
    format!("{start}_{mark}")
}

#[cfg(test)]
mod tests {
    use super::{distinct, exported};
    use toolcell_spec::ToolDeclaration;

    fn declared(namespace: &str, name: &str) -> ToolDeclaration {
        serde_json::from_value(serde_json::json!({
            "schema_version": "0.2.0", "namespace": namespace, "name": name, "description": "d",
            "lifecycle": "available", "tool_kind": "function",
        }))
        .unwrap()
    }

    fn names(tools: &[(&str, &str)]) -> Vec<String> {
        let tools: Vec<ToolDeclaration> = tools
            .iter()
            .map(|(namespace, name)| declared(namespace, name))
            .collect();
        exported(&tools.iter().collect::<Vec<_>>(), &["search_tools"])
    }

    #[test]
    fn a_name_has_its_namespace_whatever_else_is_there() {
        assert_eq!(names(&[("a", "read")]), ["a_read"]);
        assert_eq!(
            names(&[("a", "read"), ("b.c", "read"), ("jq", "jq")]),
            ["a_read", "b_c_read", "jq"]
        );
    }

    #[test]
    fn no_tool_takes_a_reserved_name() {
        let names = names(&[
            ("search", "tools"),
            ("search_tools", "search_tools"),
            ("a", "search_tools"),
        ]);
        assert!(
            names[0].starts_with("search_tools_") && names[1].starts_with("search_tools_"),
            "{names:?}"
        );
        assert!(
            names[0] != names[1] && names[2] == "a_search_tools",
            "{names:?}"
        );
    }

    #[test]
    fn a_tool_cannot_take_the_name_that_the_digest_gives_to_another() {
        let foreseen = distinct("a_b_c", "a_b.c");
        let names = names(&[
            ("a", "b_c"),
            ("x", "y"),
            (&foreseen, &foreseen),
            ("a_b", "c"),
        ]);
        assert_eq!((names[0].as_str(), &names[2]), ("a_b_c", &foreseen));
        assert!(
            names[3].starts_with("a_b_c_") && names[3] != foreseen,
            "{names:?}"
        );
    }

    #[test]
    fn no_two_tools_share_a_name_and_none_is_too_long() {
        let long = "n".repeat(60);
        let names = names(&[
            ("a", "b_c"),
            ("a.b", "c"),
            ("first", &long),
            ("second", &long),
            ("first", &format!("{long}m")),
        ]);
        assert_eq!(names[0], "a_b_c");
        assert!(
            names[1].starts_with("a_b_c_") && names.iter().all(|name| name.len() <= 49),
            "{names:?}"
        );
        let distinct: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
    }
}
