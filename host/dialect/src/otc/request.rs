use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use toolcell_policy::secret::SecretValue;
use toolcell_spec::{ErrorCode, JSON_VALUES_MAX, Refusal, read_unique_json};

use super::OtcMode;

const VIOLATIONS_MAX: usize = 10;
/// In bytes; a call with a shorter secret is refused.
const SECRET_BYTES_MIN: usize = 8;
/// In bytes: records and answers repeat names and ids.
const NAME_BYTES_MAX: usize = 1_024;
/// In bytes of JSON: the call's record has it.
const USER_INFO_BYTES_MAX: usize = 4_096;

/// The tool that a request names (OTC-Q-04).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolReference {
    pub toolkit: String,
    pub name: String,
    /// `None` for any version, which only Arcade allows.
    pub version: Option<String>,
}

/// A request (requirements 1.35), not serializable, because it has secrets.
#[derive(Clone, Debug)]
pub struct OtcRequest {
    /// Only Arcade leaves this and `execution_id` out.
    pub run_id: Option<String>,
    pub execution_id: Option<String>,
    pub tool: ToolReference,
    /// A JSON object, as sent.
    pub inputs: String,
    /// `context.authorization.token`.
    pub token: Option<SecretValue>,
    /// `context.secrets`, also undeclared ones.
    pub secrets: Vec<(String, SecretValue)>,
    pub user_id: Option<String>,
    /// From the authorization server, for the record only: no tool can declare it.
    pub user_info: Option<Value>,
}

impl OtcRequest {
    /// Ignores unknown fields (OTC-R-11), accepts missing `created_at` or `context`, and secrets in any format's shape.
    /// Fails with `invalid_arguments`/`protocol_error`, naming wrong fields but no value: it could be a secret.
    pub fn read(text: &str, mode: OtcMode) -> Result<Self, Refusal> {
        let whole = read_unique_json(text, JSON_VALUES_MAX);
        // What serde says of a text quotes it.
        let whole = whole.map_err(|_| {
            refusal("it is not JSON of one object without duplicate keys, or is too large")
        })?;
        let Value::Object(fields) = &whole else {
            return Err(refusal("it is not a JSON object"));
        };
        let mut reader = RequestReader {
            mode,
            wrong: Vec::new(),
        };
        let run_id = reader.id(fields, "run_id");
        let execution_id = reader.id(fields, "execution_id");
        let tool = reader.tool(fields);
        reader.object(fields, "", "inputs", mode != OtcMode::Arcade);
        let context = reader.object(fields, "", "context", false);
        let token = reader.token(context);
        let secrets = reader.secrets(context);
        let user_id =
            context.and_then(|context| reader.text(context, "/context", "user_id", false));
        let user_info = context.and_then(user_info).cloned();
        let is_secret = |text: &str| {
            repeats(
                text,
                token.iter().chain(secrets.iter().map(|(_, value)| value)),
            )
        };
        for (place, name, id) in [
            ("", "run_id", &run_id),
            ("", "execution_id", &execution_id),
            ("/context", "user_id", &user_id),
        ] {
            // Ids go on record.
            if id.as_deref().is_some_and(is_secret) {
                reader.wrong(place, name, "repeats a secret of the request");
            }
        }
        // So does this.
        if let Some(info) = &user_info {
            if info.to_string().len() > USER_INFO_BYTES_MAX {
                reader.wrong(
                    "/context",
                    "user_info",
                    &format!("is longer than {USER_INFO_BYTES_MAX} bytes"),
                );
            } else if any_text(info, &is_secret) {
                reader.wrong("/context", "user_info", "repeats a secret of the request");
            }
        }
        let (Some(tool), true) = (tool, reader.wrong.is_empty()) else {
            return Err(reader.refusal());
        };
        let inputs = inputs_of(text)?;
        Ok(Self {
            run_id,
            execution_id,
            tool,
            inputs,
            token,
            secrets,
            user_id,
            user_info,
        })
    }
}

fn any_text(value: &Value, is_meant: &impl Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => is_meant(text),
        Value::Array(items) => items.iter().any(|item| any_text(item, is_meant)),
        Value::Object(fields) => fields
            .iter()
            .any(|(name, item)| is_meant(name) || any_text(item, is_meant)),
        // A number can be a secret, too.
        other => is_meant(&other.to_string()),
    }
}

/// Returns whether an id contains a value long enough for a secret.
fn repeats<'v>(id: &str, mut values: impl Iterator<Item = &'v SecretValue>) -> bool {
    values.any(|value| value.expose().len() >= SECRET_BYTES_MIN && id.contains(value.expose()))
        && guard!("otc_ids")
}

/// As sent, for a record.
fn inputs_of(text: &str) -> Result<String, Refusal> {
    #[derive(Deserialize)]
    struct Inputs<'a> {
        #[serde(borrow, default)]
        inputs: Option<&'a RawValue>,
    }
    let sent: Inputs<'_> =
        serde_json::from_str(text).map_err(|_| refusal("/inputs cannot be read"))?;
    Ok(sent.inputs.map_or("{}", RawValue::get).to_owned())
}

fn user_info(context: &Map<String, Value>) -> Option<&Value> {
    let within = || context.get("authorization")?.get("user_info");
    context
        .get("user_info")
        .or_else(within)
        .filter(|info| info.is_object())
}

fn refusal(why: &str) -> Refusal {
    Refusal::new(
        ErrorCode::ProtocolError,
        format!("cannot read the request: {why}"),
    )
}

struct RequestReader {
    mode: OtcMode,
    wrong: Vec<String>,
}

impl RequestReader {
    fn refusal(&self) -> Refusal {
        let shown: Vec<&str> = self
            .wrong
            .iter()
            .map(String::as_str)
            .take(VIOLATIONS_MAX)
            .collect();
        refusal(&shown.join("; "))
    }

    fn wrong(&mut self, place: &str, name: &str, why: &str) {
        self.wrong.push(format!("{place}/{name} {why}"));
    }

    /// A `null` counts as left out.
    fn field<'a>(
        &mut self,
        fields: &'a Map<String, Value>,
        (place, name): (&str, &str),
        required: bool,
    ) -> Option<&'a Value> {
        let found = fields.get(name).filter(|value| !value.is_null());
        if found.is_none() && required {
            self.wrong(place, name, "is missing");
        }
        found
    }

    fn object<'a>(
        &mut self,
        fields: &'a Map<String, Value>,
        place: &str,
        name: &str,
        required: bool,
    ) -> Option<&'a Map<String, Value>> {
        let found = self.field(fields, (place, name), required)?;
        if !found.is_object() {
            self.wrong(place, name, "is not an object");
        }
        found.as_object()
    }

    fn text(
        &mut self,
        fields: &Map<String, Value>,
        place: &str,
        name: &str,
        required: bool,
    ) -> Option<String> {
        let found = self.field(fields, (place, name), required)?;
        match found.as_str() {
            Some(text) if text.len() <= NAME_BYTES_MAX => return Some(text.to_owned()),
            Some(_) => self.wrong(
                place,
                name,
                &format!("is longer than {NAME_BYTES_MAX} bytes"),
            ),
            None => self.wrong(place, name, "is not a text"),
        }
        None
    }

    /// An empty id identifies nothing.
    fn id(&mut self, fields: &Map<String, Value>, name: &str) -> Option<String> {
        let required = self.mode != OtcMode::Arcade;
        let id = self.text(fields, "", name, required)?;
        if id.is_empty() && required {
            self.wrong("", name, "is empty");
        }
        Some(id).filter(|id| !id.is_empty())
    }

    fn tool(&mut self, fields: &Map<String, Value>) -> Option<ToolReference> {
        let tool = self.object(fields, "", "tool", true)?;
        let toolkit = self.text(tool, "/tool", "toolkit", true);
        let name = self.text(tool, "/tool", "name", true);
        let version = self.text(tool, "/tool", "version", self.mode != OtcMode::Arcade);
        Some(ToolReference {
            toolkit: toolkit?,
            name: name?,
            version,
        })
    }

    /// The object is open, although the published schema means to close it (O-08).
    fn token(&mut self, context: Option<&Map<String, Value>>) -> Option<SecretValue> {
        let authorization = self.object(context?, "/context", "authorization", false)?;
        let token = self.field(authorization, ("/context/authorization", "token"), false)?;
        if !token.is_string() {
            self.wrong("/context/authorization", "token", "is not a text");
        }
        token
            .as_str()
            .map(|token| SecretValue::new(token.to_owned()))
    }

    /// An object of texts or a list of `{key, value}`, in each format.
    fn secrets(&mut self, context: Option<&Map<String, Value>>) -> Vec<(String, SecretValue)> {
        let found = context.and_then(|context| self.field(context, ("/context", "secrets"), false));
        let secret = |name: &str, value: &Value| {
            Some((
                name.to_owned(),
                SecretValue::new(value.as_str()?.to_owned()),
            ))
        };
        let secrets: Option<Vec<_>> = match found {
            None => Some(Vec::new()),
            Some(Value::Object(fields)) => fields
                .iter()
                .map(|(name, value)| secret(name, value))
                .collect(),
            Some(Value::Array(items)) => items
                .iter()
                .map(|item| secret(item.get("key")?.as_str()?, item.get("value")?))
                .collect(),
            Some(_) => None,
        };
        let shape = match self.mode {
            OtcMode::Otc | OtcMode::OtcSeed => "is not an object of texts",
            OtcMode::Arcade => "is not a list of {key, value}",
        };
        let Some(secrets) = secrets else {
            self.wrong("/context", "secrets", shape);
            return Vec::new();
        };
        let is_again = |(at, (name, _)): (usize, &(String, SecretValue))| {
            secrets.iter().take(at).any(|(known, _)| known == name)
        };
        // One of the values would be lost.
        if secrets.len() > SECRETS_MAX || secrets.iter().enumerate().any(is_again) {
            self.wrong("/context", "secrets", "has one name twice, or too many");
        }
        secrets
    }
}

const SECRETS_MAX: usize = 100;

#[cfg(test)]
mod tests {

    use serde_json::{Value, json};
    use toolcell_spec::ErrorCode;

    use super::OtcRequest;
    use crate::otc::OtcMode;

    fn whole() -> Value {
        json!({
            "$schema": "https://example.com/request.json",
            "run_id": "run-1", "execution_id": "exec-1", "created_at": "2026-01-01T00:00:00Z",
            "tool": { "name": "read", "toolkit": "files", "version": "sha256:00" },
            "inputs": { "path": "a" },
            "context": {
                "authorization": { "token": "the-token", "more": 1 }, "secrets": { "KEY": "the-secret" },
                "user_id": "anna", "user_info": { "name": "Anna" }, "more": 1,
            },
        })
    }

    fn changed(change: impl FnOnce(&mut Value)) -> String {
        let mut request = whole();
        change(&mut request);
        request.to_string()
    }

    fn without(pointer: &str, field: &str) -> String {
        changed(|request| {
            _ = request
                .pointer_mut(pointer)
                .unwrap()
                .as_object_mut()
                .unwrap()
                .remove(field)
        })
    }

    #[test]
    fn an_id_that_repeats_a_secret_is_refused() {
        for (pointer, field) in [
            ("", "run_id"),
            ("", "execution_id"),
            ("/context", "user_id"),
        ] {
            for value in ["a the-token", "the-secret"] {
                let text =
                    changed(|request| request.pointer_mut(pointer).unwrap()[field] = value.into());
                let refusal = OtcRequest::read(&text, OtcMode::OtcSeed).unwrap_err();
                assert!(refusal.message.ends_with(&format!(
                    "{pointer}/{field} repeats a secret of the request"
                )));
                assert!(!refusal.message.contains("the-"), "{}", refusal.message);
            }
        }
    }

    #[test]
    fn what_is_said_of_the_user_is_bounded_and_repeats_no_secret() {
        for (info, why) in [
            (
                json!({ "name": ["a the-token"] }),
                "user_info repeats a secret",
            ),
            (json!({ "the-secret": 1 }), "user_info repeats a secret"),
            (
                json!({ "name": "x".repeat(4_096) }),
                "user_info is longer than 4096 bytes",
            ),
        ] {
            let text = changed(|request| request["context"]["user_info"] = info);
            let refusal = OtcRequest::read(&text, OtcMode::OtcSeed).unwrap_err();
            assert!(
                refusal.message.contains(why) && !refusal.message.contains("the-"),
                "{}",
                refusal.message
            );
        }
    }

    #[test]
    fn a_whole_request_is_read_in_every_format() {
        for mode in OtcMode::ALL {
            let mut sent = whole();
            if mode == OtcMode::Arcade {
                sent["context"]["secrets"] = json!([{ "key": "KEY", "value": "the-secret" }]);
            }
            let read = OtcRequest::read(&sent.to_string(), mode).unwrap();
            assert_eq!(
                (read.run_id.as_deref(), read.execution_id.as_deref()),
                (Some("run-1"), Some("exec-1"))
            );
            let tool = &read.tool;
            assert_eq!(
                (tool.toolkit.as_str(), tool.name.as_str()),
                ("files", "read")
            );
            assert_eq!(
                (tool.version.as_deref(), read.inputs.as_str()),
                (Some("sha256:00"), r#"{"path":"a"}"#)
            );
            assert_eq!(read.token.as_ref().unwrap().expose(), "the-token");
            assert_eq!(
                (read.secrets[0].0.as_str(), read.secrets[0].1.expose()),
                ("KEY", "the-secret")
            );
            assert_eq!(
                (read.user_id.as_deref(), &read.user_info),
                (Some("anna"), &Some(json!({ "name": "Anna" })))
            );
            let printed = format!("{read:?}");
            assert!(
                !printed.contains("the-token") && !printed.contains("the-secret"),
                "{printed}"
            );
        }
    }

    #[test]
    fn arguments_are_kept_as_they_were_sent() {
        let text = whole()
            .to_string()
            .replace(r#"{"path":"a"}"#, r#"{ "n": 1.0e2,"a" : "\u0061" }"#);
        let read = OtcRequest::read(&text, OtcMode::Otc).unwrap();
        assert_eq!(read.inputs, r#"{ "n": 1.0e2,"a" : "\u0061" }"#);
    }

    #[test]
    fn each_format_demands_its_fields() {
        let accepts = |text: &str, mode| OtcRequest::read(text, mode).is_ok();
        // For each text: Otc, OtcSeed, Arcade.
        for (what, text, expected) in [
            (
                "no created_at",
                without("", "created_at"),
                [true, true, true],
            ),
            ("no run_id", without("", "run_id"), [false, false, true]),
            (
                "no execution_id",
                without("", "execution_id"),
                [false, false, true],
            ),
            ("no inputs", without("", "inputs"), [false, false, true]),
            ("no context", without("", "context"), [true, true, true]),
            ("no tool", without("", "tool"), [false; 3]),
            ("no name", without("/tool", "name"), [false; 3]),
            ("no toolkit", without("/tool", "toolkit"), [false; 3]),
            (
                "no version",
                without("/tool", "version"),
                [false, false, true],
            ),
            (
                "an unknown field",
                changed(|sent| sent["colour"] = json!(1)),
                [true, true, true],
            ),
            (
                "an unknown field of tool",
                changed(|sent| sent["tool"]["id"] = json!(1)),
                [true, true, true],
            ),
            (
                "a null",
                changed(|sent| sent["context"] = Value::Null),
                [true, true, true],
            ),
            (
                "inputs that are no object",
                changed(|sent| sent["inputs"] = json!([1])),
                [false; 3],
            ),
            (
                "an empty id",
                changed(|sent| sent["execution_id"] = json!("")),
                [false, false, true],
            ),
            (
                "a local time",
                changed(|sent| sent["created_at"] = json!("yesterday")),
                [true, true, true],
            ),
            (
                "a token that is no text",
                changed(|sent| sent["context"]["authorization"] = json!({ "token": 1 })),
                [false; 3],
            ),
            (
                "a secret that is no text",
                changed(|sent| sent["context"]["secrets"] = json!({ "K": 1 })),
                [false; 3],
            ),
        ] {
            // Arcade's own shape of secrets is tested above.
            let arcade = text.replace(r#""secrets":{"KEY":"the-secret"},"#, "");
            let found = [
                accepts(&text, OtcMode::Otc),
                accepts(&text, OtcMode::OtcSeed),
                accepts(&arcade, OtcMode::Arcade),
            ];
            assert_eq!(found, expected, "{what}");
        }
        let listed =
            changed(|sent| sent["context"]["secrets"] = json!([{ "key": "K", "value": "v" }]));
        assert!(accepts(&listed, OtcMode::Otc));
        assert!(accepts(&whole().to_string(), OtcMode::Arcade));
    }

    #[test]
    fn a_refusal_names_the_fields_and_no_value() {
        let text = changed(|sent| {
            sent["context"]["secrets"] = json!(["hunter2"]);
            sent["tool"]["version"] = json!(7);
        });
        let refusal = OtcRequest::read(&text, OtcMode::Otc).unwrap_err();
        assert_eq!(refusal.code, ErrorCode::ProtocolError);
        assert!(
            refusal.message.contains("/context/secrets")
                && refusal.message.contains("/tool/version")
        );
        assert!(!refusal.message.contains("hunter2"), "{}", refusal.message);
        for text in [
            "",
            "[]",
            r#"{"run_id":"a","run_id":"hunter2"}"#,
            r#"{"hunter2""#,
        ] {
            let refusal = OtcRequest::read(text, OtcMode::Arcade).unwrap_err();
            assert!(!refusal.message.contains("hunter2"), "{}", refusal.message);
        }
        let twice = json!([{ "key": "K", "value": "hunter2" }, { "key": "K", "value": "b" }]);
        let text = changed(|sent| sent["context"]["secrets"] = twice);
        let refusal = OtcRequest::read(&text, OtcMode::Arcade).unwrap_err();
        assert!(
            refusal.message.contains("twice") && !refusal.message.contains("hunter2"),
            "{}",
            refusal.message
        );
    }
}
