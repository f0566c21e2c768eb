//! Imports that always refuse: raw secrets, and an approval of the component's own making. They exist, so that a
//! component that can do without them runs.

use wasmtime::component::{Accessor, Linker, Val};

use crate::state::StoreState;

/// `act:credentials/store` would hand out the values of secrets; here they go into requests that the host sends.
pub(crate) fn link_credentials(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    let error = || Val::Result(Err(Some(Box::new(Val::Variant("denied".to_owned(), None)))));
    let why = "a secret was not handed out: toolcell puts secrets into the requests that it sends, and shows none to a tool";
    for function in ["list-secrets", "get-secret"] {
        deny(linker, "act:credentials/store@0.1.0", function, why, error)?;
    }
    Ok(())
}

/// `act:consent/consent-authority`: the host decides before a call starts.
pub(crate) fn link_consent(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    let answer = || Val::Enum("deny".to_owned());
    let why = "an action was denied: no rule of toolcell covers the actions that only the tool itself can see";
    deny(
        linker,
        "act:consent/consent-authority@0.1.0",
        "request",
        why,
        answer,
    )
}

fn deny(
    linker: &mut Linker<StoreState>,
    interface: &str,
    function: &str,
    why: &'static str,
    answer: fn() -> Val,
) -> wasmtime::Result<()> {
    let mut interface = linker.instance(interface)?;
    // The engine without concurrency defines no such function, and no component that it runs can import one.
    let _ = interface.func_new_concurrent(
        function,
        move |caller: &Accessor<StoreState>, _, _, results| {
            Box::pin(async move {
                caller.with(|mut caller| caller.get().logs.line("warn", why, None));
                if let Some(result) = results.first_mut() {
                    *result = answer();
                }
                Ok(())
            })
        },
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use toolcell_policy::{Capability, Limits};
    use wasmtime::component::{Component, Linker};

    use super::{link_consent, link_credentials};
    use crate::call;
    use crate::engine::{EngineKind, Engines};
    use crate::limiter::charging;

    fn asking(
        import: &str,
        function: &str,
        parameters: usize,
        result: &str,
        answer: &str,
    ) -> String {
        let params = "i32 ".repeat(parameters);
        let zeros = "(i32.const 0) ".repeat(parameters);
        let lowered =
            "(memory (core memory $shared \"memory\")) (realloc (core func $shared \"realloc\"))";
        let call = format!("(call $ask {zeros})");
        let body = answer.replace("CALL", &call);
        format!(
            r#"(component
                (import {import})
                (core module $memory
                    (memory (export "memory") 1)
                    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024)))
                (core instance $shared (instantiate $memory))
                (core func $ask (canon lower (func $asked "{function}") {lowered}))
                (core module $main
                    (import "host" "ask" (func $ask (param {params}) {result}))
                    (import "host" "memory" (memory 1))
                    (func (export "run") (result i32) {body}))
                (core instance $main (instantiate $main (with "host" (instance
                    (export "ask" (func $ask)) (export "memory" (memory $shared "memory"))))))
                (func (export "run") async (result u32) (canon lift (core func $main "run"))))"#
        )
    }

    async fn answer(text: &str) -> (u32, String) {
        let engines = Engines::new(None, 16 << 20, std::env::temp_dir()).unwrap();
        let engine = engines.get(EngineKind::Extended);
        let component = Component::new(engine.wasmtime(), wat::parse_str(text).unwrap()).unwrap();
        let mut linker = Linker::new(engine.wasmtime());
        link_consent(&mut linker).unwrap();
        link_credentials(&mut linker).unwrap();
        let limits = Limits::default();
        let mut store =
            call::offline(engine, &Capability::default(), &limits, &crate::never()).unwrap();
        let meter = store.data().limiter.meter();
        let (answer,) = {
            let work = std::pin::pin!(async {
                let instance = linker
                    .instantiate_async(&mut store, &component)
                    .await
                    .unwrap();
                let run = instance
                    .get_typed_func::<(), (u32,)>(&mut store, "run")
                    .unwrap();
                run.call_async(&mut store, ()).await.unwrap()
            });
            charging(meter, work).await
        };
        let logs = store.into_data().logs.into_content();
        (
            answer,
            logs.iter().filter_map(|block| block.as_text()).collect(),
        )
    }

    #[tokio::test]
    async fn no_action_is_consented_to() {
        let consent = r#""act:consent/consent-authority@0.1.0" (instance $asked
            (type $request (record (field "class" string) (field "key" string) (field "summary" string)
                (field "args" (list u8))))
            (export "consent-request" (type $consent-request (eq $request)))
            (type $choice (enum "allow" "deny"))
            (export "decision" (type $decision (eq $choice)))
            (export "request" (func async (param "req" $consent-request) (param "meta" (list (tuple string (list u8))))
                (result $decision))))"#;
        let (decision, logs) =
            answer(&asking(consent, "request", 10, "(result i32)", "CALL")).await;
        assert_eq!(decision, 1, "it is not `deny`");
        assert!(logs.contains("an action was denied"), "{logs}");
    }

    #[tokio::test]
    async fn no_secret_is_listed() {
        let store = r#""act:credentials/store@0.1.0" (instance $asked
            (type $info (record (field "key" string) (field "kind" string) (field "description" (option string))
                (field "expires-at" (option u64))))
            (export "secret-info" (type $secret-info (eq $info)))
            (type $why (variant (case "not-found") (case "denied") (case "invalid-session") (case "unavailable" string)))
            (export "secret-error" (type $secret-error (eq $why)))
            (export "list-secrets" (func async (param "session" (option string))
                (result (result (list $secret-info) (error $secret-error))))))"#;
        // The place of the answer is the last parameter: 0. It holds an error, and at 4 which one.
        let body = "CALL (i32.or (i32.shl (i32.load8_u (i32.const 0)) (i32.const 4)) (i32.load8_u (i32.const 4)))";
        let (error, logs) = answer(&asking(store, "list-secrets", 4, "", body)).await;
        assert_eq!(error, 0x11, "it is not the error `denied`");
        assert!(logs.contains("a secret was not handed out"), "{logs}");
    }
}
