use toolcell_guest::hook::{Call, Output, hook};

/// Stops each call whose argument `path` leads through a name that begins with a dot.
#[hook(permission_request)]
fn guard(call: Call) -> Option<Output> {
    let path = call.input["path"].as_str()?;
    let is_hidden = |name: &str| name.starts_with('.') && name != "." && name != "..";
    path.split('/')
        .any(is_hidden)
        .then(|| Output::Stop("dotfiles are private".to_owned()))
}

#[cfg(test)]
mod tests {
    use toolcell_guest::hook::Event;
    use toolcell_guest::serde_json::{Value, json};

    use super::*;

    fn call(path: &str) -> Call {
        Call {
            event: Event::PermissionRequest,
            invocation_id: "1".to_owned(),
            tool_id: "files.read".to_owned(),
            input: json!({ "path": path }),
            permission_profile: Value::Null,
            actor_ref: None,
            decision: Value::Null,
            result: Value::Null,
        }
    }

    #[test]
    fn a_hidden_name_stops_the_call() {
        assert!(guard(call("src/.env")).is_some());
        assert!(guard(call("./src/lib.rs")).is_none());
    }
}
