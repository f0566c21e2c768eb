//! `initialize` as clients write it. The MCP library takes one that lacks a field for another request.

use rmcp::model::ErrorData;
use serde_json::{Value, json};

/// Field of `_meta`, in revisions without `initialize`.
const REVISION: &str = "io.modelcontextprotocol/protocolVersion";

/// Returns the request with what a client may leave out, if it did.
///
/// # Errors
///
/// The name of a field that is missing or is no text or object.
pub(super) fn complete(request: &[u8]) -> Result<Option<Vec<u8>>, ErrorData> {
    // What cannot be parsed gets the error of any other message.
    let Ok(mut request) = serde_json::from_slice::<Value>(request) else {
        return Ok(None);
    };
    let params = request.get_mut("params").and_then(Value::as_object_mut);
    let params = params.ok_or_else(|| {
        wrong(
            "params",
            "an object with protocolVersion, capabilities and clientInfo",
        )
    })?;
    // Requests of a revision without this method name it so. The library says that there is no such method.
    if params
        .get("_meta")
        .is_some_and(|meta| meta.get(REVISION).is_some())
    {
        return Ok(None);
    }
    if !params.get("protocolVersion").is_some_and(Value::is_string) {
        return Err(wrong(
            "params.protocolVersion",
            "a text such as \"2025-11-25\"",
        ));
    }
    if !params.get("capabilities").is_some_and(Value::is_object) {
        return Err(wrong("params.capabilities", "an object, {} for none"));
    }
    let client = params.get_mut("clientInfo").and_then(Value::as_object_mut);
    let client =
        client.ok_or_else(|| wrong("params.clientInfo", "an object with name and version"))?;
    if !client.get("name").is_some_and(Value::is_string) {
        return Err(wrong(
            "params.clientInfo.name",
            "a text, the name of the client",
        ));
    }
    match client.get("version") {
        Some(version) if version.is_string() => return Ok(None),
        None | Some(Value::Null) => {}
        Some(_) => {
            return Err(wrong(
                "params.clientInfo.version",
                "a text, the version of the client",
            ));
        }
    }
    // It is shown, and nothing depends on it.
    client.insert("version".to_owned(), json!(""));
    Ok(serde_json::to_vec(&request).ok())
}

fn wrong(field: &str, meant: &str) -> ErrorData {
    ErrorData::invalid_params(
        format!("initialize: {field} is missing or has another type: send {meant}"),
        None,
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::complete;

    fn request() -> Value {
        let client = json!({ "name": "c", "version": "1" });
        let params =
            json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params })
    }

    #[test]
    fn a_version_can_be_left_out_and_any_other_field_is_named() {
        assert!(
            complete(request().to_string().as_bytes())
                .unwrap()
                .is_none()
        );
        let mut without = request();
        without["params"]["clientInfo"]
            .as_object_mut()
            .unwrap()
            .remove("version");
        let completed: Value =
            serde_json::from_slice(&complete(without.to_string().as_bytes()).unwrap().unwrap())
                .unwrap();
        assert_eq!(
            completed["params"]["clientInfo"],
            json!({ "name": "c", "version": "" })
        );
        let newer = json!({ "method": "initialize", "params": { "_meta": { super::REVISION: "2026-07-28" } } });
        assert!(complete(newer.to_string().as_bytes()).unwrap().is_none());
        for (path, field) in [
            ("/params", "params"),
            ("/params/protocolVersion", "params.protocolVersion"),
            ("/params/capabilities", "params.capabilities"),
            ("/params/clientInfo", "params.clientInfo"),
            ("/params/clientInfo/name", "params.clientInfo.name"),
            ("/params/clientInfo/version", "params.clientInfo.version"),
        ] {
            let mut wrong = request();
            *wrong.pointer_mut(path).unwrap() = json!(7);
            let error = complete(wrong.to_string().as_bytes()).unwrap_err();
            assert!(
                error.message.contains(&format!("{field} is missing")),
                "{}",
                error.message
            );
        }
    }
}
