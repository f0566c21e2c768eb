use serde_json::{Value, json};
use toolcell_dialect::otc::{OtcMode, OtcToolName, OtcToolNames, ToolReference};
use toolcell_spec::{ErrorCode, JSON_VALUES_MAX, read_unique_json};

use crate::http::Problem;

const DIGEST_CHARS: usize = 64;

/// Acknowledges a tool of the operator's components (OTC-D-15). A component's digest identifies its tools, so a
/// definition brings no code, and changes neither behavior nor permissions.
pub(super) fn register(text: &str, mode: OtcMode, names: &OtcToolNames) -> Result<Value, Problem> {
    let bad = |why: &str| {
        let message = format!("cannot register the tool: {why}");
        Err(Problem::new(ErrorCode::ProtocolError, message))
    };
    let Ok(definition) = read_unique_json(text, JSON_VALUES_MAX) else {
        return bad("the definition is not JSON without duplicate keys, or is too large");
    };
    let said = |pointer: &str| {
        definition
            .pointer(pointer)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let (Some(name), Some(toolkit)) = (said("/name"), said("/toolkit/name")) else {
        return bad("`name` or `toolkit.name` is missing, or is not a text");
    };
    let Some(version) = said("/toolkit/version").filter(|version| is_digest(version)) else {
        return bad("`toolkit.version` is not the digest of a component, sha256: and 64 digits");
    };
    let named = OtcToolName {
        toolkit,
        name,
        version,
    };
    let is_consistent = |claimed: Option<String>| {
        claimed.is_none_or(|claimed| {
            OtcMode::ALL
                .iter()
                .any(|mode| named.fully_qualified(*mode) == claimed)
        })
    };
    if !is_consistent(said("/fully_qualified_name")) || !is_consistent(said("/id")) {
        return bad("`fully_qualified_name` or `id` is not Toolkit.Tool@version");
    }
    let reference = ToolReference {
        toolkit: named.toolkit.clone(),
        name: named.name.clone(),
        version: Some(named.version.clone()),
    };
    if names.resolve(&reference).is_err() {
        let message = "cannot register the tool: this server does not have its component, which only the operator adds";
        return Err(Problem::new(ErrorCode::MayNotInstall, message));
    }
    Ok(json!({ "id": named.fully_qualified(mode), "status": "registered" }))
}

fn is_digest(version: &str) -> bool {
    let digits = version.strip_prefix("sha256:").unwrap_or_default();
    digits.len() == DIGEST_CHARS
        && digits
            .bytes()
            .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolcell_dialect::otc::{OtcMode, OtcToolName, OtcToolNames};

    use super::super::samples::check;
    use super::register;

    fn named(digit: &str) -> OtcToolName {
        let version = format!("sha256:{}", digit.repeat(64));
        OtcToolName {
            toolkit: "issues".to_owned(),
            name: "find".to_owned(),
            version,
        }
    }

    fn definition(named: &OtcToolName) -> Value {
        json!({
            "name": named.name, "fully_qualified_name": named.fully_qualified(OtcMode::Otc),
            "toolkit": { "name": named.toolkit, "version": named.version },
            "input": { "parameters": [] }, "output": { "available_modes": ["value"] },
        })
    }

    #[test]
    fn a_component_is_registered_by_its_digest_if_the_server_has_it() {
        let names = OtcToolNames::new(vec![named("a")]);
        let register = |definition: &Value| register(&definition.to_string(), OtcMode::Otc, &names);
        let body = register(&definition(&named("a"))).unwrap();
        check("registration", OtcMode::Otc, &body);
        assert_eq!(body["id"], json!(named("a").fully_qualified(OtcMode::Otc)));
        let status = |definition: &Value| register(definition).unwrap_err().status;
        assert_eq!(status(&definition(&named("b"))), 403);
        for (pointer, wrong) in [
            ("/toolkit/version", json!("1.0.0")),
            (
                "/toolkit/version",
                json!(format!("sha256:{}", "A".repeat(64))),
            ),
            ("/toolkit/name", json!(1)),
            ("/name", Value::Null),
            ("/fully_qualified_name", json!("other.find")),
        ] {
            let mut definition = definition(&named("a"));
            *definition.pointer_mut(pointer).unwrap() = wrong;
            assert_eq!(status(&definition), 422, "{pointer}");
        }
        assert_eq!(status(&json!([])), 422);
    }
}
