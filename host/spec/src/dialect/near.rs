//! The manifest of an IronClaw extension in a custom section of a component, as far as this host reads it. All of it is
//! a claim, and grants nothing.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{AccessKind, CredentialUse, JSON_VALUES_MAX, SafetyFacts, WriteEffect, read_json};

pub const SECTION: &str = "near:manifest";
pub const SCHEMA_VERSION: &str = "reborn.extension_manifest.v3";
/// With its schemas, in bytes.
pub const MANIFEST_BYTES_MAX: usize = 1 << 20;
const TOOLS_MAX: usize = 256;
const ID_CHARS_MAX: usize = 200;

/// ```
/// use toolcell_spec::dialect::near::Manifest;
///
/// let tool = r#"{"id": "github.get_issue", "description": "", "effects": ["network"], "default_permission": "ask",
///     "input_schema": {"type": "object"}}"#;
/// let manifest = Manifest::read(&format!(r#"{{"id": "github", "tools": [{tool}]}}"#))?;
/// assert_eq!(manifest.bare_name(&manifest.tools[0]), "get_issue");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// An id such as `github`.
    pub id: String,
    pub tools: Vec<Tool>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// An id such as `github.get_issue`.
    pub id: String,
    pub description: String,
    pub effects: Vec<Effect>,
    pub default_permission: DefaultPermission,
    pub input_schema: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<Credential>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    ReadFilesystem,
    WriteFilesystem,
    DeleteFilesystem,
    Network,
    UseSecret,
    ExternalWrite,
    DispatchCapability,
    ExecuteCode,
    SpawnProcess,
    Financial,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DefaultPermission {
    Allow,
    Ask,
    Deny,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    pub handle: String,
    pub audience: Audience,
    pub injection: Injection,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Audience {
    pub scheme: String,
    pub host: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Injection {
    Header {
        name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prefix: Option<String>,
    },
    QueryParam {
        name: String,
    },
}

impl Manifest {
    /// Fails if the text is too large, is no such manifest, or has tools that cannot be told apart. The error names the
    /// place.
    pub fn read(text: &str) -> Result<Self, String> {
        if text.len() > MANIFEST_BYTES_MAX {
            return Err(format!(
                "the manifest has {} bytes, of at most {MANIFEST_BYTES_MAX}",
                text.len()
            ));
        }
        let manifest: Self = read_json(text, JSON_VALUES_MAX)?;
        manifest.check()?;
        Ok(manifest)
    }

    /// Checks what the types do not.
    pub fn check(&self) -> Result<(), String> {
        if self.tools.is_empty() || self.tools.len() > TOOLS_MAX {
            return Err(format!(
                "tools: there are {}, of 1 to {TOOLS_MAX}",
                self.tools.len()
            ));
        }
        named("id", &self.id)?;
        for (at, tool) in self.tools.iter().enumerate() {
            let place = format!("tools[{at}]");
            named(&format!("{place}.id"), &tool.id)?;
            if self.tools.iter().take(at).any(|other| other.id == tool.id) {
                return Err(format!(
                    "{place}.id: {:?} is the id of another tool",
                    tool.id
                ));
            }
            for (name, schema) in [
                ("input_schema", Some(&tool.input_schema)),
                ("output_schema", tool.output_schema.as_ref()),
            ] {
                if schema.is_some_and(|schema| !schema.is_object()) {
                    return Err(format!("{place}.{name}: it is not a JSON object"));
                }
            }
            for (at, credential) in tool.credentials.iter().enumerate() {
                credential
                    .check()
                    .map_err(|why| format!("{place}.credentials[{at}].{why}"))?;
            }
            if !tool.credentials.is_empty() && !tool.has(Effect::UseSecret) {
                return Err(format!("{place}.effects: credentials need use_secret"));
            }
        }
        Ok(())
    }

    pub fn bare_name<'a>(&self, tool: &'a Tool) -> &'a str {
        let rest = tool
            .id
            .strip_prefix(self.id.as_str())
            .and_then(|rest| rest.strip_prefix('.'));
        rest.filter(|rest| !rest.is_empty()).unwrap_or(&tool.id)
    }
}

fn named(place: &str, id: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\\');
    if !id.is_empty() && id.chars().count() <= ID_CHARS_MAX && id.chars().all(fits) {
        Ok(())
    } else {
        Err(format!(
            "{place}: an id has 1 to {ID_CHARS_MAX} visible ASCII characters, without \" and \\"
        ))
    }
}

impl Tool {
    fn has(&self, effect: Effect) -> bool {
        self.effects.contains(&effect)
    }

    /// Includes kinds that no grant exists for, so that the call is refused.
    pub fn access(&self) -> Vec<AccessKind> {
        let kinds = [
            (Effect::ReadFilesystem, AccessKind::FileRead),
            (Effect::WriteFilesystem, AccessKind::FileWrite),
            (Effect::DeleteFilesystem, AccessKind::FileWrite),
            (Effect::Network, AccessKind::Network),
            (Effect::UseSecret, AccessKind::Credential),
            (Effect::ExecuteCode, AccessKind::CodeExecution),
            (Effect::SpawnProcess, AccessKind::CodeExecution),
            (Effect::Financial, AccessKind::Payment),
        ];
        let mut access = Vec::new();
        for (effect, kind) in kinds {
            if self.has(effect) && !access.contains(&kind) {
                access.push(kind);
            }
        }
        access
    }

    pub fn write_effects(&self) -> Vec<WriteEffect> {
        let mut effects = Vec::new();
        if self.has(Effect::WriteFilesystem) || self.has(Effect::DeleteFilesystem) {
            effects.push(WriteEffect::LocalPersistent);
        }
        if self.has(Effect::ExternalWrite) || self.has(Effect::Financial) {
            effects.push(WriteEffect::RemoteMutation);
        }
        if effects.is_empty() {
            vec![WriteEffect::None]
        } else {
            effects
        }
    }

    /// Facts that hold for every input. A tool that calls others implies nothing about their changes.
    pub fn facts(&self) -> SafetyFacts {
        let calls = self.has(Effect::DispatchCapability);
        let changes = self.write_effects() != [WriteEffect::None];
        let reaches_out = [Effect::Network, Effect::ExternalWrite, Effect::Financial]
            .iter()
            .any(|effect| self.has(*effect));
        SafetyFacts {
            is_read_only: if changes {
                Some(false)
            } else {
                (!calls).then_some(true)
            },
            is_destructive: self.has(Effect::DeleteFilesystem).then_some(true),
            is_open_world: (reaches_out || calls).then_some(true),
            ..SafetyFacts::default()
        }
    }

    pub fn calls_tools(&self) -> bool {
        self.has(Effect::DispatchCapability)
    }

    pub fn asks(&self) -> bool {
        self.default_permission == DefaultPermission::Ask
    }

    pub fn is_denied(&self) -> bool {
        self.default_permission == DefaultPermission::Deny
    }

    pub fn network_scope(&self) -> Option<String> {
        let mut origins: Vec<String> = Vec::new();
        for origin in self
            .credentials
            .iter()
            .map(|credential| credential.audience.origin())
        {
            if !origins.contains(&origin) {
                origins.push(origin);
            }
        }
        (!origins.is_empty()).then(|| origins.join(", "))
    }
}

impl Credential {
    fn check(&self) -> Result<(), String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
        if !matches!(self.audience.scheme.as_str(), "https" | "http") {
            return Err("audience.scheme: it is neither https nor http".to_owned());
        }
        if self.audience.host.is_empty() || !self.audience.host.chars().all(plain) {
            return Err("audience.host: it is not the name of one host".to_owned());
        }
        named("handle", &self.handle)
    }

    pub fn to_use(&self) -> CredentialUse {
        let credential_ref = self.handle.clone();
        match self.injection.clone() {
            Injection::Header { name, prefix } => CredentialUse {
                credential_ref,
                header: Some(name),
                prefix: Some(prefix.unwrap_or_default()),
                ..CredentialUse::default()
            },
            Injection::QueryParam { name } => CredentialUse {
                credential_ref,
                query: Some(name),
                ..CredentialUse::default()
            },
        }
    }
}

impl Audience {
    fn origin(&self) -> String {
        let Self { scheme, host, port } = self;
        match port {
            Some(port) => format!("{scheme}://{host}:{port}"),
            None => format!("{scheme}://{host}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(change: impl FnOnce(&mut Value)) -> Value {
        let mut tool = json!({
            "id": "github.get_issue",
            "description": "Fetches an issue.",
            "effects": ["network", "use_secret"],
            "default_permission": "allow",
            "input_schema": {"type": "object"},
            "credentials": [{
                "handle": "github_token",
                "audience": {"scheme": "https", "host": "api.github.com"},
                "injection": {"type": "header", "name": "authorization", "prefix": "token "},
            }],
        });
        change(&mut tool);
        tool
    }

    fn read(tools: &[Value]) -> Result<Manifest, String> {
        Manifest::read(&json!({"id": "github", "tools": tools}).to_string())
    }

    #[test]
    fn the_effects_of_a_tool_say_what_it_asks_for() {
        let manifest = read(&[tool(|_| {})]).unwrap();
        let reads = &manifest.tools[0];
        assert_eq!(manifest.bare_name(reads), "get_issue");
        assert_eq!(
            reads.access(),
            [AccessKind::Network, AccessKind::Credential]
        );
        assert_eq!(reads.write_effects(), [WriteEffect::None]);
        assert_eq!(
            (reads.facts().is_read_only, reads.facts().is_open_world),
            (Some(true), Some(true))
        );
        assert_eq!(
            reads.network_scope().as_deref(),
            Some("https://api.github.com")
        );
        let used = reads.credentials[0].to_use();
        assert_eq!(
            (used.header_name(), used.header_prefix()),
            ("authorization", "token ")
        );
        assert!(!reads.asks() && !reads.is_denied() && !reads.calls_tools());

        let all = [
            "write_filesystem",
            "delete_filesystem",
            "external_write",
            "financial",
            "spawn_process",
            "dispatch_capability",
        ];
        let writes = read(&[tool(|tool| {
            tool["id"] = json!("other");
            tool["effects"] = json!(all);
            tool["default_permission"] = json!("ask");
            tool["credentials"] = json!([]);
        })]);
        let manifest = writes.unwrap();
        let writes = &manifest.tools[0];
        assert_eq!(manifest.bare_name(writes), "other");
        assert_eq!(
            writes.access(),
            [
                AccessKind::FileWrite,
                AccessKind::CodeExecution,
                AccessKind::Payment
            ]
        );
        assert_eq!(
            writes.write_effects(),
            [WriteEffect::LocalPersistent, WriteEffect::RemoteMutation]
        );
        assert_eq!(
            (writes.facts().is_read_only, writes.facts().is_destructive),
            (Some(false), Some(true))
        );
        assert!(writes.asks() && writes.calls_tools() && writes.network_scope().is_none());
        let calls = read(&[tool(|tool| {
            tool["effects"] = json!(["dispatch_capability"]);
            tool["credentials"] = json!([]);
        })]);
        assert_eq!(calls.unwrap().tools[0].facts().is_read_only, None);
    }

    #[test]
    fn a_manifest_is_written_as_it_is_read() {
        let manifest = read(&[tool(|tool| tool["output_schema"] = json!({}))]).unwrap();
        let text = serde_json::to_string(&manifest).unwrap();
        assert_eq!(Manifest::read(&text).unwrap(), manifest);
    }

    #[test]
    fn a_manifest_that_cannot_be_used_is_refused_at_its_place() {
        let long = "x".repeat(MANIFEST_BYTES_MAX);
        let change = |place: &str, value: Value| {
            read(&[tool(|tool| *tool.pointer_mut(place).unwrap() = value)])
        };
        for (refused, why) in [
            (read(&[]), "tools: there are 0"),
            (read(&vec![tool(|_| {}); 257]), "tools: there are 257"),
            (read(&[tool(|_| {}), tool(|_| {})]), "tools[1].id"),
            (change("/id", json!("")), "tools[0].id"),
            (change("/id", json!("a\u{1b}")), "tools[0].id"),
            (change("/effects/0", json!("networking")), "networking"),
            (change("/effects", json!(["network"])), "tools[0].effects"),
            (change("/default_permission", json!("never")), "never"),
            (change("/input_schema", json!([])), "tools[0].input_schema"),
            (
                change("/credentials/0/audience/scheme", json!("ftp")),
                "tools[0].credentials[0].audience.scheme",
            ),
            (
                change("/credentials/0/audience/host", json!("a/b")),
                "tools[0].credentials[0].audience.host",
            ),
            (
                change("/credentials/0/audience/host", json!("*.a")),
                "tools[0].credentials[0].audience.host",
            ),
            (
                change("/credentials/0/injection/type", json!("cookie")),
                "cookie",
            ),
            (change("/description", json!(long)), "bytes"),
            (
                read(&[tool(|tool| tool["visibility"] = json!("model"))]),
                "visibility",
            ),
            (Manifest::read("[]"), ""),
        ] {
            let error = refused.unwrap_err();
            assert!(error.contains(why), "{why}: {error}");
        }
    }
}
