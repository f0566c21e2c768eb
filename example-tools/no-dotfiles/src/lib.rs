//! A hook that stops calls whose argument `path` contains a file or folder name that begins with a dot.

use toolcell_guest::hook::{Call, Output, hook};

#[hook(permission_request)]
fn no_dotfiles(call: Call) -> Option<Output> {
    let path = call.input["path"].as_str()?;
    let is_hidden = |name: &str| name.starts_with('.') && name != "." && name != "..";
    path.split('/')
        .any(is_hidden)
        .then(|| Output::Stop("dotfiles are private".to_owned()))
}
