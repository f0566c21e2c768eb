use serde_json::{Value, json};
use toolcell_core::record::{ErrorClass, JSON_VALUES_MAX, Refusal, read_unique_json};
use toolcell_dialect::otc::{Mode, Named, Names, ToolReference};

use super::Answer;

/// Digits of a digest.
const DIGEST_CHARS: usize = 64;

/// What a registration asks for (OTC-D-15).
#[derive(Debug)]
pub enum Registration {
    /// The tool is offered already.
    Known(Answer),
    /// The component with this digest is to be installed, and to have the tool. A definition brings no code.
    Install(Named),
    /// The answer to a client that may not register it, or to a definition that cannot be read.
    Refused(Answer),
}

impl Registration {
    /// The acknowledgment of a tool that was installed.
    pub fn installed(named: &Named, mode: Mode) -> Answer {
        acknowledged(201, named, mode)
    }
}

fn acknowledged(status: u16, named: &Named, mode: Mode) -> Answer {
    Answer::new(status, &json!({ "id": named.fully_qualified(mode), "status": "registered" }))
}

/// Reads a definition. A registered tool is known by the digest of its component, so a definition changes nothing: not what
/// the tool does, and not what it may do.
pub(super) fn read(text: &str, mode: Mode, may_install: bool, names: &Names) -> Registration {
    let bad = |why: &str| {
        let message = format!("cannot register the tool: {why}");
        let refusal = Refusal::new(ErrorClass::InvalidArguments, "protocol_error", message);
        Registration::Refused(Answer::problem(422, &refusal))
    };
    if !may_install && guard!("otc_install") {
        let message = "cannot register the tool: this client may not install tools; the operator adds their components";
        let refusal = Refusal::new(ErrorClass::PermissionDenied, "may_not_install", message);
        return Registration::Refused(Answer::problem(403, &refusal));
    }
    let Ok(definition) = read_unique_json(text, JSON_VALUES_MAX) else {
        return bad("the definition is not JSON without duplicate keys, or is too large");
    };
    let said = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let (Some(name), Some(toolkit)) = (said("/name"), said("/toolkit/name")) else {
        return bad("`name` or `toolkit.name` is missing, or is not a text");
    };
    let Some(version) = said("/toolkit/version").filter(|version| is_digest(version)) else {
        return bad("`toolkit.version` is not the digest of a component, sha256: and 64 digits");
    };
    let named = Named { toolkit, name, version };
    let is_consistent = |claimed: Option<String>| {
        claimed.is_none_or(|claimed| Mode::ALL.iter().any(|mode| named.fully_qualified(*mode) == claimed))
    };
    if !is_consistent(said("/fully_qualified_name")) || !is_consistent(said("/id")) {
        return bad("`fully_qualified_name` or `id` is not Toolkit.Tool@version");
    }
    let reference = ToolReference {
        toolkit: named.toolkit.clone(),
        name: named.name.clone(),
        version: Some(named.version.clone()),
    };
    match names.resolve(&reference) {
        Ok(_) => Registration::Known(acknowledged(200, &named, mode)),
        Err(_) => Registration::Install(named),
    }
}

fn is_digest(version: &str) -> bool {
    let digits = version.strip_prefix("sha256:").unwrap_or_default();
    digits.len() == DIGEST_CHARS && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolcell_dialect::otc::{Mode, Named, Names};

    use super::super::samples::check;
    use super::{Registration, read};

    fn named(digit: &str) -> Named {
        let version = format!("sha256:{}", digit.repeat(64));
        Named { toolkit: "issues".to_owned(), name: "find".to_owned(), version }
    }

    fn definition(named: &Named) -> Value {
        json!({
            "name": named.name, "fully_qualified_name": named.fully_qualified(Mode::Otc),
            "toolkit": { "name": named.toolkit, "version": named.version },
            "input": { "parameters": [] }, "output": { "available_modes": ["value"] },
        })
    }

    fn status(registration: &Registration) -> u16 {
        match registration {
            Registration::Known(answer) | Registration::Refused(answer) => answer.status,
            Registration::Install(_) => 0,
        }
    }

    #[test]
    fn a_component_is_registered_by_its_digest_and_by_who_may_install() {
        let names = Names::new(vec![named("a")]);
        let register = |definition: &Value, may| read(&definition.to_string(), Mode::Otc, may, &names);
        assert_eq!(status(&register(&definition(&named("a")), true)), 200);
        assert_eq!(status(&register(&definition(&named("a")), false)), 403);
        assert_eq!(status(&register(&definition(&named("b")), false)), 403);
        let Registration::Install(wanted) = register(&definition(&named("b")), true) else { panic!("it is not new") };
        assert_eq!(wanted, named("b"));
        let answer = Registration::installed(&wanted, Mode::Otc);
        let body: Value = serde_json::from_str(&answer.body).unwrap();
        check("registration", Mode::Otc, &body);
        assert_eq!((answer.status, &body["id"]), (201, &json!(wanted.fully_qualified(Mode::Otc))));
        for (pointer, wrong) in [
            ("/toolkit/version", json!("1.0.0")),
            ("/toolkit/version", json!(format!("sha256:{}", "A".repeat(64)))),
            ("/toolkit/name", json!(1)),
            ("/name", Value::Null),
            ("/fully_qualified_name", json!("other.find")),
        ] {
            let mut definition = definition(&named("b"));
            *definition.pointer_mut(pointer).unwrap() = wrong;
            assert_eq!(status(&register(&definition, true)), 422, "{pointer}");
        }
        assert_eq!(status(&read("{", Mode::Otc, true, &names)), 422);
    }
}
