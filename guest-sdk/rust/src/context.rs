use std::cell::RefCell;

use serde_json::{Map, Value};

use crate::ToolError;

/// What a tool knows about the call that it serves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Context {
    /// The host's id of this call.
    pub invocation_id: String,
    /// 1 for the first try.
    pub attempt: u32,
    /// The caller's working directory, if it is in a granted folder. A tool that reads or writes files already runs in
    /// it, so that its relative paths mean what the caller expects. Arguments that `paths` name are absolute already.
    pub cwd: Option<String>,
    /// A folder of this call's own, for a tool whose `write_effects` name `local_draft`; removed when the call ends.
    pub scratch: Option<String>,
    /// Other fields that the host sends.
    pub extra: Map<String, Value>,
}

thread_local! {
    static CURRENT: RefCell<Context> = RefCell::default();
}

/// Returns the context of the current call.
pub fn context() -> Context {
    CURRENT.with_borrow(Context::clone)
}

pub(crate) fn set(context: Context) {
    CURRENT.set(context);
}

impl Context {
    /// `open` is the JSON object that the host sends along. Text that is not an object is ignored.
    #[cfg(any(test, target_arch = "wasm32"))]
    pub(crate) fn new(invocation_id: String, attempt: u32, open: &str) -> Self {
        let mut extra: Map<String, Value> = serde_json::from_str(open).unwrap_or_default();
        let mut text = |name: &str| match extra.remove(name) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let cwd = text("cwd");
        let scratch = text("scratch");
        Self {
            invocation_id,
            attempt,
            cwd,
            scratch,
            extra,
        }
    }
}

/// Enters the caller's working directory. Fails if that is impossible, because elsewhere the tool would read and write
/// the wrong files.
pub fn enter_cwd() -> Result<(), ToolError> {
    let Some(cwd) = context().cwd else {
        return Ok(());
    };
    std::env::set_current_dir(&cwd).map_err(|error| {
        ToolError::setup_required(
            "cwd_unavailable",
            format!("the working directory {cwd} cannot be entered"),
        )
        .detail(error.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_open_object_gives_cwd_and_keeps_the_rest() {
        let context = Context::new(
            "inv_1".to_owned(),
            2,
            r#"{"cwd": "/project", "scratch": "/s", "locale": "fr"}"#,
        );
        assert_eq!(
            (context.cwd.as_deref(), context.scratch.as_deref()),
            (Some("/project"), Some("/s"))
        );
        assert_eq!(context.extra["locale"], "fr");
        assert_eq!(Context::new(String::new(), 1, "nonsense").extra, Map::new());
    }
}
