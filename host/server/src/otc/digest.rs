use blake3::Hasher;
use serde_json::{Value, json};
use toolcell_dialect::otc::{OtcMode, OtcRequest};
use toolcell_spec::{JSON_VALUES_MAX, read_json};

use crate::executions::RequestDigests;

impl RequestDigests {
    /// Neither digest has `created_at`: it changes nothing.
    pub(super) fn from_request(request: &OtcRequest, mode: OtcMode, workspace: &[u8]) -> Self {
        let inputs = read_json::<Value>(&request.inputs, JSON_VALUES_MAX);
        let inputs = inputs.unwrap_or_else(|_| request.inputs.as_str().into());
        let tool = &request.tool;
        let mut said = json!([
            format!("{mode:?}"),
            tool.toolkit,
            tool.name,
            tool.version,
            request.user_id,
            inputs,
            request.user_info,
        ]);
        // The fields of an object have no order.
        said.sort_all_objects();
        let mut hasher = Hasher::new();
        // Each by its own digest, so that no two sequences of texts have one.
        for text in [said.to_string().as_bytes(), workspace] {
            hasher.update(blake3::hash(text).as_bytes());
        }
        let without_credentials = hasher.finalize();
        hasher.update(&[u8::from(request.token.is_some())]);
        let token = request.token.iter().map(|token| token.expose());
        let secrets = request.secrets.iter();
        let secrets = secrets.flat_map(|(name, secret)| [name.as_str(), secret.expose()]);
        for text in token.chain(secrets) {
            hasher.update(blake3::hash(text.as_bytes()).as_bytes());
        }
        Self {
            whole: hasher.finalize(),
            without_credentials,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolcell_dialect::otc::{OtcMode, OtcRequest};

    use super::RequestDigests;

    fn body(inputs: &str, context: &Value, created_at: &str) -> RequestDigests {
        let text = format!(
            r#"{{"run_id":"r","execution_id":"e","created_at":"{created_at}","inputs":{inputs},"context":{context},
            "tool":{{"name":"n","toolkit":"t","version":"v"}}}}"#
        );
        RequestDigests::from_request(
            &OtcRequest::read(&text, OtcMode::Otc).unwrap(),
            OtcMode::Otc,
            b"",
        )
    }

    #[test]
    fn the_same_request_has_the_same_digest_however_it_is_written() {
        let first = body(
            r#"{"a":1,"b":[true,null]}"#,
            &json!({}),
            "2026-01-01T00:00:00Z",
        );
        assert_eq!(
            first,
            body(
                r#"{ "b": [true, null], "a": 1 }"#,
                &json!({}),
                "2026-01-01T00:00:09Z"
            )
        );
        for other in [
            r#"{"a":1,"b":[true]}"#,
            r#"{"a":"1","b":[true,null]}"#,
            r#"{"a":{"b":[true,null]}}"#,
        ] {
            assert_ne!(
                first.without_credentials,
                body(other, &json!({}), "2026-01-01T00:00:00Z").without_credentials
            );
        }
        let user = body(
            r#"{"a":1,"b":[true,null]}"#,
            &json!({ "user_id": "anna" }),
            "2026-01-01T00:00:00Z",
        );
        assert_ne!(first.without_credentials, user.without_credentials);
        for context in [
            json!({ "authorization": { "token": "t" } }),
            json!({ "secrets": { "K": "v" } }),
        ] {
            let with = body(
                r#"{"a":1,"b":[true,null]}"#,
                &context,
                "2026-01-01T00:00:00Z",
            );
            assert_eq!(first.without_credentials, with.without_credentials);
            assert_ne!(first.whole, with.whole);
        }
    }
}
