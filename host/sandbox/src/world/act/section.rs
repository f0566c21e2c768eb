//! The custom section `act:component`: the name of a component, and the most that it may ask for.

use serde_json::{Map, Value};
use toolcell_spec::AccessKind;

use super::cbor;

pub(super) const NAME: &str = "act:component";

/// Classes of capabilities that have a grant here; others stay closed.
const FILES: &str = "wasi:filesystem";
const HTTP: &str = "wasi:http";

/// A profile may have as many.
const PATTERNS_MAX: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ActSection {
    pub(super) name: Option<String>,
    pub(super) access: Vec<AccessKind>,
    pub(super) network_scope: Option<String>,
}

impl ActSection {
    /// An unknown constraint is an error, because it narrows.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let said = cbor::to_json(bytes).and_then(|value| match value.get("std") {
            None | Some(Value::Null) => Ok(Self::default()),
            Some(Value::Object(known)) => Self::from_map(known),
            Some(_) => Err("`std` is not a map".to_owned()),
        });
        said.map_err(|why| format!("cannot read the custom section `{NAME}`: {why}"))
    }

    fn from_map(known: &Map<String, Value>) -> Result<Self, String> {
        let name = known
            .get("name")
            .and_then(Value::as_str)
            .filter(|name| !name.is_empty())
            .map(str::to_owned);
        let mut section = Self {
            name,
            ..Self::default()
        };
        let capabilities = match known.get("capabilities") {
            None | Some(Value::Null) => return Ok(section),
            Some(Value::Object(capabilities)) => capabilities,
            Some(_) => return Err("`capabilities` is not a map".to_owned()),
        };
        for constraint in constraints(capabilities, FILES)? {
            section.file(constraint)?;
        }
        let mut patterns = Vec::new();
        for constraint in constraints(capabilities, HTTP)? {
            requests(constraint, &mut patterns)?;
            if patterns.len() > PATTERNS_MAX {
                return Err(format!(
                    "{HTTP} names more than {PATTERNS_MAX} hosts, schemes and ports"
                ));
            }
        }
        if !patterns.is_empty() {
            section.access.push(AccessKind::Network);
            let any = patterns.iter().any(|pattern| pattern == "any");
            section.network_scope = (!any).then(|| patterns.join(","));
        }
        Ok(section)
    }

    fn file(&mut self, constraint: &Map<String, Value>) -> Result<(), String> {
        only(constraint, &["path", "mode"])?;
        let kinds: &[AccessKind] = match constraint.get("mode").and_then(Value::as_str) {
            Some("ro") => &[AccessKind::FileRead],
            Some("rw") => &[AccessKind::FileRead, AccessKind::FileWrite],
            _ => return Err(format!("the mode of {FILES} is neither `ro` nor `rw`")),
        };
        for kind in kinds {
            if !self.access.contains(kind) {
                self.access.push(*kind);
            }
        }
        Ok(())
    }
}

/// `allow` is another name for constraints; a class without any asks for nothing.
fn constraints<'a>(
    capabilities: &'a Map<String, Value>,
    class: &str,
) -> Result<Vec<&'a Map<String, Value>>, String> {
    let declared = match capabilities.get(class) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(declared) => declared
            .as_object()
            .ok_or_else(|| format!("{class} is not a map"))?,
    };
    only(declared, &["description", "params", "constraints", "allow"])?;
    let listed = match (declared.get("constraints"), declared.get("allow")) {
        (Some(_), Some(_)) => {
            return Err(format!(
                "{class} has both `constraints` and `allow`, which are the same"
            ));
        }
        (Some(listed), None) | (None, Some(listed)) => listed,
        (None, None) => return Ok(Vec::new()),
    };
    let maps = listed.as_array().map(|listed| {
        listed
            .iter()
            .map(Value::as_object)
            .collect::<Option<Vec<_>>>()
    });
    maps.flatten()
        .ok_or_else(|| format!("the constraints of {class} are not a list of maps"))
}

fn requests(constraint: &Map<String, Value>, patterns: &mut Vec<String>) -> Result<(), String> {
    only(constraint, &["host", "scheme", "methods", "ports"])?;
    let host = constraint
        .get("host")
        .and_then(Value::as_str)
        .ok_or_else(|| format!("{HTTP} names no host"))?;
    if host == "*" && constraint.len() == 1 {
        patterns.push("any".to_owned());
        return Ok(());
    }
    let fits =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '*' | ':' | '[' | ']');
    if host.is_empty() || host.len() > 255 || !host.chars().all(fits) {
        return Err(format!(
            "{HTTP} names {:?}, which is not a host",
            host.chars().take(64).collect::<String>()
        ));
    }
    let host = if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]")
    } else {
        host.to_owned()
    };
    let schemes = match constraint.get("scheme") {
        None | Some(Value::Null) => vec!["https", "http"],
        Some(Value::String(scheme)) if scheme == "https" || scheme == "http" => {
            vec![scheme.as_str()]
        }
        Some(_) => {
            return Err(format!(
                "the scheme of {HTTP} is neither `https` nor `http`"
            ));
        }
    };
    let ports = texts(constraint, "ports", |port| {
        let port = port
            .as_u64()
            .and_then(|port| u16::try_from(port).ok())
            .filter(|port| *port > 0)?;
        Some(port.to_string())
    })?;
    let methods = texts(constraint, "methods", |method| {
        let method = method.as_str()?.to_ascii_uppercase();
        (!method.is_empty() && method.len() <= 16 && method.bytes().all(|b| b.is_ascii_uppercase()))
            .then_some(method)
    })?;
    let methods = methods.map_or(String::new(), |methods| format!("{}@", methods.join("+")));
    for scheme in schemes {
        for port in ports.as_deref().unwrap_or(&["*".to_owned()]) {
            patterns.push(format!("{methods}{scheme}://{host}:{port}"));
        }
    }
    Ok(())
}

/// An empty list is an error, because it could mean everything or nothing.
fn texts(
    constraint: &Map<String, Value>,
    field: &str,
    text: impl Fn(&Value) -> Option<String>,
) -> Result<Option<Vec<String>>, String> {
    let list = match constraint.get(field) {
        None | Some(Value::Null) => return Ok(None),
        Some(list) => list
            .as_array()
            .filter(|list| !list.is_empty() && list.len() <= PATTERNS_MAX),
    };
    let items = list.and_then(|list| list.iter().map(text).collect::<Option<Vec<_>>>());
    items
        .map(Some)
        .ok_or_else(|| format!("cannot read `{field}` of {HTTP}"))
}

fn only(constraint: &Map<String, Value>, known: &[&str]) -> Result<(), String> {
    match constraint.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => {
            let key: String = key.chars().take(64).collect();
            Err(format!(
                "this host does not know the constraint {key:?}, which would narrow what the component gets"
            ))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolcell_spec::AccessKind;

    use super::super::cbor;
    use super::ActSection;

    fn read(capabilities: &Value) -> Result<ActSection, String> {
        let section = json!({ "std": { "name": "db", "version": "1", "capabilities": capabilities }, "acme": 7 });
        ActSection::read(&cbor::from_json(&section).unwrap())
    }

    #[test]
    fn the_most_that_a_component_asks_for_is_read() {
        let section = read(&json!({
            "wasi:filesystem": { "description": "?", "params": { "mount-root": "/x" },
                "constraints": [{ "path": "/data/**", "mode": "ro" }, { "path": "/out", "mode": "rw" }] },
            "wasi:http": { "allow": [
                { "host": "*.example.com", "methods": ["get", "POST"], "ports": [443, 8443], "scheme": "https" },
                { "host": "::1" },
            ] },
            "db:drop": {},
        }));
        let section = section.unwrap();
        assert_eq!(section.name.as_deref(), Some("db"));
        assert_eq!(
            section.access,
            [
                AccessKind::FileRead,
                AccessKind::FileWrite,
                AccessKind::Network
            ]
        );
        assert_eq!(
            section.network_scope.as_deref(),
            Some(
                "GET+POST@https://*.example.com:443,GET+POST@https://*.example.com:8443,https://[::1]:*,http://[::1]:*"
            )
        );
    }

    #[test]
    fn any_host_needs_no_scope_and_a_class_without_constraints_asks_for_nothing() {
        let any =
            read(&json!({ "wasi:http": { "constraints": [{ "host": "a" }, { "host": "*" }] } }))
                .unwrap();
        assert_eq!(
            (any.access, any.network_scope),
            (vec![AccessKind::Network], None)
        );
        let none =
            read(&json!({ "wasi:http": {}, "wasi:filesystem": { "constraints": [] } })).unwrap();
        assert!(none.access.is_empty());
        assert_eq!(ActSection::read(b"\xa0").unwrap(), ActSection::default());
    }

    #[test]
    fn what_cannot_be_kept_to_is_refused() {
        let many: Vec<Value> = (0..33)
            .map(|host| json!({ "host": format!("h{host}") }))
            .collect();
        for (capabilities, why) in [
            (json!([]), "not a map"),
            (json!({ "wasi:http": [] }), "wasi:http is not a map"),
            (
                json!({ "wasi:http": { "constraints": "all" } }),
                "not a list of maps",
            ),
            (
                json!({ "wasi:http": { "constraints": [], "allow": [{ "host": "a" }] } }),
                "both `constraints` and `allow`",
            ),
            (
                json!({ "wasi:http": { "constraints": [{ "host": "a" }], "deny": [{ "host": "b" }] } }),
                "constraint \"deny\"",
            ),
            (
                json!({ "wasi:filesystem": { "alow": [] } }),
                "constraint \"alow\"",
            ),
            (json!({ "wasi:http": { "constraints": [{}] } }), "no host"),
            (
                json!({ "wasi:http": { "constraints": [{ "host": "a,any" }] } }),
                "not a host",
            ),
            (
                json!({ "wasi:http": { "constraints": [{ "host": "a", "path": "/b" }] } }),
                "constraint \"path\"",
            ),
            (
                json!({ "wasi:http": { "constraints": [{ "host": "a", "ports": [] }] } }),
                "`ports`",
            ),
            (
                json!({ "wasi:http": { "constraints": [{ "host": "a", "methods": ["G@T"] }] } }),
                "`methods`",
            ),
            (
                json!({ "wasi:http": { "constraints": [{ "host": "a", "scheme": "ftp" }] } }),
                "neither `https`",
            ),
            (
                json!({ "wasi:http": { "constraints": many } }),
                "more than 64",
            ),
            (
                json!({ "wasi:filesystem": { "constraints": [{ "path": "/" }] } }),
                "neither `ro` nor `rw`",
            ),
        ] {
            let refused = read(&capabilities).unwrap_err();
            let start = "cannot read the custom section `act:component`: ";
            assert!(
                refused.starts_with(start) && refused.contains(why),
                "{refused}"
            );
        }
        assert!(
            ActSection::read(b"\x83")
                .unwrap_err()
                .contains("not valid CBOR")
        );
        assert!(
            ActSection::read(&cbor::from_json(&json!({ "std": 7 })).unwrap())
                .unwrap_err()
                .contains("not a map")
        );
    }
}
