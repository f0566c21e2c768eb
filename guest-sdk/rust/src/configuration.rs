use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

use serde::de::DeserializeOwned;

use crate::ToolError;

thread_local! {
    static GIVEN: RefCell<Option<Rc<dyn Any>>> = RefCell::default();
}

/// Returns the settings that the operator gave the tools of this component; `None` if there are none. `T` is the type that
/// `toolkit!` names: `configuration: T`. Settings that are no `T` end the call before its tool runs, as `setup_required`.
pub fn configuration<T: 'static>() -> Option<Rc<T>> {
    GIVEN.with_borrow(Option::clone)?.downcast().ok()
}

/// Keeps the settings `config`, JSON text.
pub fn configure<T: DeserializeOwned + 'static>(config: &str) -> Result<(), ToolError> {
    let settings: T = serde_json::from_str(config).map_err(|error| {
        ToolError::setup_required(
            "invalid_configuration",
            format!("cannot use the settings of the tool: {error}"),
        )
    })?;
    GIVEN.set(Some(Rc::new(settings)));
    Ok(())
}

/// Forgets the settings, between two tests.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn forget() {
    GIVEN.take();
}
