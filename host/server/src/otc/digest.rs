use blake3::{Hash, Hasher};
use serde_json::Value;
use toolcell_dialect::otc::{OtcMode, OtcRequest};
use toolcell_spec::{JSON_VALUES_MAX, read_json};

/// The digests of a request: with and without its credentials, because a request that waits for an authorization is
/// repeated with a token. Neither has `created_at`: it changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestDigests {
    pub(super) whole: Hash,
    pub(super) without_credentials: Hash,
}

impl RequestDigests {
    pub(super) fn from_request(request: &OtcRequest, mode: OtcMode) -> Self {
        let mut hasher = Hasher::new();
        text(&mut hasher, &format!("{mode:?}"));
        text(&mut hasher, &request.tool.toolkit);
        text(&mut hasher, &request.tool.name);
        maybe(&mut hasher, request.tool.version.as_deref());
        maybe(&mut hasher, request.user_id.as_deref());
        match read_json::<Value>(&request.inputs, JSON_VALUES_MAX) {
            Ok(inputs) => value(&mut hasher, &inputs),
            Err(_) => text(&mut hasher, &request.inputs),
        }
        value(
            &mut hasher,
            request.user_info.as_ref().unwrap_or(&Value::Null),
        );
        let without_credentials = hasher.finalize();
        maybe(
            &mut hasher,
            request.token.as_ref().map(|token| token.expose()),
        );
        for (name, secret) in &request.secrets {
            text(&mut hasher, name);
            text(&mut hasher, secret.expose());
        }
        Self {
            whole: hasher.finalize(),
            without_credentials,
        }
    }
}

/// With its length, so that no two sequences of texts have one digest.
fn text(hasher: &mut Hasher, text: &str) {
    hasher
        .update(&(text.len() as u64).to_le_bytes())
        .update(text.as_bytes());
}

fn maybe(hasher: &mut Hasher, maybe: Option<&str>) {
    hasher.update(&[u8::from(maybe.is_some())]);
    text(hasher, maybe.unwrap_or_default());
}

/// The fields of an object have no order. Recursion ends, because what is read is nested 120 levels at most.
fn value(hasher: &mut Hasher, of: &Value) {
    match of {
        Value::Array(items) => {
            hasher
                .update(b"a")
                .update(&(items.len() as u64).to_le_bytes());
            items.iter().for_each(|item| value(hasher, item));
        }
        Value::Object(fields) => {
            hasher
                .update(b"o")
                .update(&(fields.len() as u64).to_le_bytes());
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            for (name, field) in fields {
                text(hasher, name);
                value(hasher, field);
            }
        }
        scalar => {
            hasher.update(b"s");
            text(hasher, &scalar.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolcell_dialect::otc::{OtcMode, OtcRequest, RequestReading};

    use super::RequestDigests;

    fn body(inputs: &str, context: &Value, created_at: &str) -> RequestDigests {
        let text = format!(
            r#"{{"run_id":"r","execution_id":"e","created_at":"{created_at}","inputs":{inputs},"context":{context},
            "tool":{{"name":"n","toolkit":"t","version":"v"}}}}"#
        );
        RequestDigests::from_request(
            &OtcRequest::read(&text, OtcMode::Otc, RequestReading::Strict).unwrap(),
            OtcMode::Otc,
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
