//! What an ACT component may import, and never gets: raw secrets, and an approval of its own making. The functions exist and
//! answer no, so that a component that can do without them runs.

use wasmtime::component::{Accessor, Linker, Val};

use crate::state::State;

/// Links `act:credentials/store`. It would hand out the values of secrets; here they go into requests that the host sends.
pub(crate) fn link_credentials(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let error = || Val::Result(Err(Some(Box::new(Val::Variant("denied".to_owned(), None)))));
    let why =
        "a secret was not handed out: toolcell puts secrets into the requests that it sends, and shows none to a tool";
    for function in ["list-secrets", "get-secret"] {
        deny(linker, "act:credentials/store@0.1.0", function, why, error)?;
    }
    Ok(())
}

/// Links `act:consent/consent-authority`. What a call may do is decided before it starts.
pub(crate) fn link_consent(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let answer = || Val::Enum("deny".to_owned());
    let why = "an action was denied: no rule of toolcell covers the actions that only the tool itself can see";
    deny(linker, "act:consent/consent-authority@0.1.0", "request", why, answer)
}

/// Defines an asynchronous function that answers the same each time, and says why in the log.
fn deny(
    linker: &mut Linker<State>,
    interface: &str,
    function: &str,
    why: &'static str,
    answer: fn() -> Val,
) -> wasmtime::Result<()> {
    let mut interface = linker.instance(interface)?;
    // The engine without concurrency defines no such function, and no component that it runs can import one.
    let _ = interface.func_new_concurrent(function, move |caller: &Accessor<State>, _, _, results| {
        Box::pin(async move {
            caller.with(|mut caller| caller.get().logs.line("warn", why, None));
            if let Some(result) = results.first_mut() {
                *result = answer();
            }
            Ok(())
        })
    });
    Ok(())
}
