//! The `policy.yaml` that Wassette keeps beside a component, as the most that its tools may ask for. It grants nothing.
//! Anything that this host cannot keep to is refused, because the tools would get more than it means.

use serde_json::{Map, Value};

use super::wrapping::Ceiling;

/// In bytes.
pub const POLICY_BYTES_MAX: usize = 64 << 10;
const PATTERNS_MAX: usize = 64;
const SHOWN_CHARS_MAX: usize = 64;
const HOST_BYTES_MAX: usize = 255;

type PolicyFields = Map<String, Value>;

/// Reads a policy as JSON. Fails on an unknown word, a value of another type, or a demand that this host cannot keep
/// to; the error begins with the place.
///
/// ```
/// use serde_json::json;
/// use toolcell_spec::dialect::wassette::ceiling;
///
/// let storage = json!({ "allow": [{ "uri": "fs://data/**", "access": ["read"] }] });
/// let read = ceiling(&json!({ "version": "1.0", "permissions": { "storage": storage } }))?;
/// assert!(read.file_read && !read.file_write && read.network.is_empty());
/// # Ok::<(), String>(())
/// ```
pub fn ceiling(policy: &Value) -> Result<Ceiling, String> {
    let policy = fields(
        "the policy",
        policy,
        &["$schema", "version", "description", "permissions"],
    )?;
    let version = text("", policy, "version")?;
    if version.split('.').next() != Some("1") {
        return Err(format!(
            "version: {:?} is not 1.0, which this host reads",
            shown(version)
        ));
    }
    let mut ceiling = Ceiling::default();
    let Some(permissions) = given(policy, "permissions") else {
        return Ok(ceiling);
    };
    let known = [
        "storage",
        "network",
        "environment",
        "runtime",
        "resources",
        "ipc",
    ];
    let permissions = fields("permissions", permissions, &known)?;
    for (place, entry) in allowed(permissions, "storage")? {
        storage(&place, entry, &mut ceiling)?;
    }
    for (place, entry) in allowed(permissions, "network")? {
        requests(&place, entry, &mut ceiling.network)?;
        if ceiling.network.len() > PATTERNS_MAX {
            return Err(format!(
                "permissions.network.allow: there are more than {PATTERNS_MAX} hosts and schemes"
            ));
        }
    }
    // No call has an environment or a channel of its host's, so that nothing is left to narrow.
    for (name, word) in [("environment", "key"), ("ipc", "uri")] {
        for (place, entry) in allowed(permissions, name)? {
            text(&place, fields(&place, entry, &[word])?, word)?;
        }
    }
    runtime(permissions)?;
    match given(permissions, "resources") {
        Some(limits) if limits.as_object().is_none_or(|limits| !limits.is_empty()) => {
            Err("permissions.resources: a component does not set its limits here; remove it, and set those of its calls, such \
                 as --memory"
                .to_owned())
        }
        _ => Ok(ceiling),
    }
}

/// Permissions of containers of other hosts, which have no effect here.
fn runtime(permissions: &PolicyFields) -> Result<(), String> {
    let mut place = "permissions.runtime".to_owned();
    let Some(mut value) = given(permissions, "runtime") else {
        return Ok(());
    };
    let levels: [(&[&str], &str); 4] = [
        (&["docker", "hyperlight"], "docker"),
        (&["security"], "security"),
        (
            &["privileged", "no_new_privileges", "capabilities"],
            "capabilities",
        ),
        (&["drop", "add"], ""),
    ];
    for (known, next) in levels {
        let Some(inner) = given(fields(&place, value, known)?, next) else {
            break;
        };
        place = join(&place, next);
        value = inner;
    }
    Ok(())
}

fn storage(place: &str, entry: &Value, ceiling: &mut Ceiling) -> Result<(), String> {
    let entry = fields(place, entry, &["uri", "access"])?;
    let uri = text(place, entry, "uri")?;
    if !uri.starts_with("fs://") {
        return Err(format!(
            "{place}.uri: {:?} does not begin with fs://",
            shown(uri)
        ));
    }
    let access = list(place, entry, "access")?;
    if access.is_empty() {
        return Err(format!("{place}.access: it names neither read nor write"));
    }
    for word in access {
        match word.as_str() {
            Some("read") => ceiling.file_read = true,
            Some("write") => ceiling.file_write = true,
            _ => {
                return Err(format!(
                    "{place}.access: it has another word than read and write"
                ));
            }
        }
    }
    Ok(())
}

/// A host without a scheme has both, at every port.
fn requests(place: &str, entry: &Value, patterns: &mut Vec<String>) -> Result<(), String> {
    if entry.get("cidr").is_some() {
        return Err(format!(
            "{place}.cidr: ranges of addresses cannot be named here; name the hosts"
        ));
    }
    let entry = fields(place, entry, &["host"])?;
    let host = text(place, entry, "host")?;
    if host == "*" {
        patterns.push("any".to_owned());
        return Ok(());
    }
    let (scheme, bare) = match host.split_once("://") {
        Some((scheme @ ("https" | "http"), rest)) => (Some(scheme), rest),
        _ => (None, host),
    };
    let (name, port) = match bare.rsplit_once(':') {
        Some((name, port)) if !bare.ends_with(']') => (name, Some(port)),
        _ => (bare, None),
    };
    let is_port =
        |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    if !is_host(name) || port.is_some_and(|port| !is_port(port)) {
        return Err(format!("{place}.host: {:?} is not a host", shown(host)));
    }
    match (scheme, port) {
        (Some(scheme), None) => patterns.push(format!("{scheme}://{name}")),
        (Some(scheme), Some(port)) => patterns.push(format!("{scheme}://{name}:{port}")),
        (None, port) => {
            let port = port.unwrap_or("*");
            patterns.extend(["https", "http"].map(|scheme| format!("{scheme}://{name}:{port}")));
        }
    }
    Ok(())
}

/// Accepts a name, a wildcard (`*.`) name, or an address.
fn is_host(text: &str) -> bool {
    let address = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let name = text.strip_prefix("*.").unwrap_or(text);
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    match address {
        _ if text.len() > HOST_BYTES_MAX => false,
        Some(address) => {
            !address.is_empty()
                && address
                    .chars()
                    .all(|c| c.is_ascii_hexdigit() || c == ':' || c == '.')
        }
        None => !name.is_empty() && name.chars().all(is_name),
    }
}

fn allowed<'a>(
    permissions: &'a PolicyFields,
    name: &str,
) -> Result<Vec<(String, &'a Value)>, String> {
    let Some(permission) = given(permissions, name) else {
        return Ok(Vec::new());
    };
    let place = format!("permissions.{name}");
    let lists = fields(&place, permission, &["allow", "deny"])?;
    if !list(&place, lists, "deny")?.is_empty() {
        return Err(format!(
            "{place}.deny: a ceiling has no exceptions; remove them, and deny them with rules of your own"
        ));
    }
    let entries = list(&place, lists, "allow")?.iter().enumerate();
    Ok(entries
        .map(|(at, entry)| (format!("{place}.allow[{at}]"), entry))
        .collect())
}

fn fields<'a>(place: &str, value: &'a Value, known: &[&str]) -> Result<&'a PolicyFields, String> {
    let fields = value
        .as_object()
        .ok_or_else(|| format!("{place}: it is not a map"))?;
    match fields.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => {
            let place = if place.starts_with("permissions") {
                join(place, &shown(key))
            } else {
                shown(key)
            };
            Err(format!(
                "{place}: this host does not know the word, which could narrow what the tools get"
            ))
        }
        None => Ok(fields),
    }
}

/// Treats null as absent.
fn given<'a>(fields: &'a PolicyFields, name: &str) -> Option<&'a Value> {
    fields.get(name).filter(|value| !value.is_null())
}

fn list<'a>(place: &str, fields: &'a PolicyFields, name: &str) -> Result<&'a [Value], String> {
    let Some(value) = given(fields, name) else {
        return Ok(&[]);
    };
    value
        .as_array()
        .map(Vec::as_slice)
        .ok_or_else(|| format!("{}: it is not a list", join(place, name)))
}

fn text<'a>(place: &str, fields: &'a PolicyFields, name: &str) -> Result<&'a str, String> {
    let text = given(fields, name)
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty());
    text.ok_or_else(|| format!("{}: it is missing, or not a text", join(place, name)))
}

fn join(place: &str, name: &str) -> String {
    if place.is_empty() {
        name.to_owned()
    } else {
        format!("{place}.{name}")
    }
}

fn shown(text: &str) -> String {
    text.chars()
        .take(SHOWN_CHARS_MAX)
        .filter(|c| !c.is_control())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Ceiling, ceiling};

    fn read_policy(permissions: &Value) -> Result<Ceiling, String> {
        ceiling(
            &json!({ "$schema": "x", "version": "1.0", "description": "d", "permissions": permissions }),
        )
    }

    #[test]
    fn the_most_that_a_policy_allows_is_read() {
        let read = read_policy(&json!({
            "storage": { "allow": [
                { "uri": "fs://data/**", "access": ["read"] }, { "uri": "fs:///tmp", "access": ["write", "read"] },
            ], "deny": [] },
            "network": { "allow": [
                { "host": "*.example.com" }, { "host": "https://api.test" }, { "host": "http://api.test:81" },
                { "host": "[::1]:8080" },
            ], "deny": null },
            "environment": { "allow": [{ "key": "API_KEY" }] },
            "ipc": { "allow": [{ "uri": "x" }] },
            "runtime": {
                "docker": { "security": { "privileged": false, "capabilities": { "drop": ["ALL"] } } },
                "hyperlight": { "anything": 1 },
            },
            "resources": {},
        }));
        let network = [
            "https://*.example.com:*",
            "http://*.example.com:*",
            "https://api.test",
            "http://api.test:81",
            "https://[::1]:8080",
            "http://[::1]:8080",
        ];
        let network = network.map(str::to_owned).to_vec();
        assert_eq!(
            read.unwrap(),
            Ceiling {
                file_read: true,
                file_write: true,
                network
            }
        );
        let any = read_policy(&json!({ "network": { "allow": [{ "host": "*" }] } })).unwrap();
        assert_eq!(
            any,
            Ceiling {
                network: vec!["any".to_owned()],
                ..Ceiling::default()
            }
        );
        for nothing in [
            json!({}),
            Value::Null,
            json!({ "network": {} }),
            json!({ "storage": { "allow": [] } }),
        ] {
            assert_eq!(read_policy(&nothing).unwrap(), Ceiling::default());
        }
    }

    #[test]
    fn what_cannot_be_kept_to_is_refused_at_its_place() {
        let host =
            |host: &str| json!({ "network": { "allow": [{ "host": "a" }, { "host": host }] } });
        let many: Vec<Value> = (0..33)
            .map(|at| json!({ "host": format!("h{at}") }))
            .collect();
        for (permissions, why) in [
            (json!([]), "permissions: it is not a map"),
            (json!({ "sotrage": {} }), "permissions.sotrage: "),
            (
                json!({ "network": { "alow": [] } }),
                "permissions.network.alow: ",
            ),
            (
                json!({ "network": { "allow": {} } }),
                "permissions.network.allow: it is not a list",
            ),
            (
                json!({ "network": { "allow": ["a"] } }),
                "permissions.network.allow[0]: it is not a map",
            ),
            (
                json!({ "network": { "allow": [{ "defaults": true }] } }),
                "permissions.network.allow[0].defaults: ",
            ),
            (
                json!({ "network": { "allow": [{ "cidr": "10.0.0.0/8" }] } }),
                "permissions.network.allow[0].cidr: ",
            ),
            (
                json!({ "network": { "allow": [{}] } }),
                "permissions.network.allow[0].host: it is missing",
            ),
            (
                json!({ "network": { "allow": many } }),
                "permissions.network.allow: there are more than 64",
            ),
            (
                json!({ "network": { "deny": [{ "host": "a" }] } }),
                "permissions.network.deny: ",
            ),
            (
                json!({ "storage": { "deny": [{}] } }),
                "permissions.storage.deny: ",
            ),
            (
                json!({ "storage": { "allow": [{ "uri": "/a", "access": ["read"] }] } }),
                "permissions.storage.allow[0].uri",
            ),
            (
                json!({ "storage": { "allow": [{ "uri": "fs://a" }] } }),
                "permissions.storage.allow[0].access",
            ),
            (
                json!({ "storage": { "allow": [{ "uri": "fs://a", "access": ["execute"] }] } }),
                "permissions.storage.allow[0].access",
            ),
            (
                json!({ "environment": { "allow": [{ "key": "A", "value": "b" }] } }),
                "permissions.environment.allow[0].value",
            ),
            (
                json!({ "runtime": { "docker": { "network": "host" } } }),
                "permissions.runtime.docker.network: ",
            ),
            (
                json!({ "resources": { "limits": { "memory": "1Mi" } } }),
                "permissions.resources: ",
            ),
            (host("a,any"), "permissions.network.allow[1].host: "),
            (host("a/b"), "permissions.network.allow[1].host: "),
            (host("a:b"), "permissions.network.allow[1].host: "),
            (host("a*"), "permissions.network.allow[1].host: "),
            (host("::1"), "permissions.network.allow[1].host: "),
            (host("ftp://a"), "permissions.network.allow[1].host: "),
            (host("argument\n"), "permissions.network.allow[1].host: "),
        ] {
            let refusal = read_policy(&permissions).unwrap_err();
            assert!(refusal.starts_with(why), "{why}: {refusal}");
        }
        for (policy, why) in [
            (json!([]), "the policy: it is not a map"),
            (json!({}), "version: it is missing"),
            (json!({ "version": "2.0" }), "version: \"2.0\" is not 1.0"),
            (
                json!({ "version": "1.0", "permission": {} }),
                "permission: ",
            ),
        ] {
            let refusal = ceiling(&policy).unwrap_err();
            assert!(refusal.starts_with(why), "{why}: {refusal}");
        }
    }
}
