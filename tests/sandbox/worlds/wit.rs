//! Components of plain functions: a tool for each function.
//!
//! Promise: A component of another world gets no more.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolcell_spec::dialect::sections::with_custom;
use toolcell_spec::{ErrorClass, ErrorCode, Refusal};

use super::alone;
use crate::support::{Test, Toolcell, fixture, scratch, wat};

/// The tool `name` of the component `plain`.
fn plain(name: &str) -> Test {
    alone(wat("plain"), Some(name))
}

/// The component `file` with a profile, or with another custom section.
fn with(file: &str, section: &str, content: &Value) -> Vec<u8> {
    with_custom(&wat(file), section, content.to_string().as_bytes()).unwrap()
}

async fn refused(component: Vec<u8>) -> Refusal {
    alone(component, None).load().await.unwrap_err()
}

#[tokio::test]
async fn each_function_is_a_tool_of_the_package() {
    let names = alone(wat("plain"), None).load().await.unwrap();
    let tools = [
        "tools-echo",
        "tools-bytes",
        "tools-add",
        "tools-check",
        "tools-flood",
        "tools-not-text",
    ];
    let tools: Vec<String> = tools
        .into_iter()
        .chain(["nothing", "spin", "trap"])
        .map(|tool| format!("acme-plain.{tool}"))
        .collect();
    assert_eq!(names, tools);
}

#[tokio::test]
async fn arguments_and_results_pass_without_loss() {
    let text = "gr\u{f6}\u{df}e \"\u{0}\u{10ffff}";
    assert_eq!(
        plain("tools-echo")
            .call(json!({ "text": text }))
            .await
            .succeeded(),
        text
    );
    let bytes = json!({ "bytes": "AP+A" });
    assert_eq!(plain("tools-bytes").call(bytes).await.succeeded(), "AP+A");
    let add = async |input: Value| plain("tools-add").call(input).await.succeeded();
    assert_eq!(add(json!({ "a": 40, "b": 2 })).await, 42);
    assert_eq!(add(json!({ "a": 40 })).await, 40);
    assert_eq!(
        add(json!({ "a": "18446744073709551615", "b": null })).await,
        "18446744073709551615"
    );
    assert_eq!(
        add(json!({ "a": u64::MAX, "b": -1 })).await,
        "18446744073709551614"
    );
}

#[tokio::test]
async fn arguments_of_other_types_do_not_reach_the_function() {
    for (tool, input) in [
        ("tools-echo", json!({ "text": 7 })),
        ("tools-echo", json!({})),
        ("tools-echo", json!({ "text": "", "more": 1 })),
        ("tools-add", json!({ "a": -1 })),
        ("tools-add", json!({ "a": "18446744073709551616" })),
        ("tools-add", json!({ "a": 1, "b": 2_147_483_648_u32 })),
    ] {
        plain(tool)
            .call(input)
            .await
            .failed("schema_validation_failed", "schema_mismatch")
            .never_ran();
    }
    // The schema does not check the text of bytes.
    let called = plain("tools-bytes")
        .call(json!({ "bytes": "not base64" }))
        .await;
    called.failed("invalid_arguments", "argument_conversion");
    assert!(
        called
            .message()
            .contains("/bytes: not base64, with its padding"),
        "{}",
        called.message()
    );
}

#[tokio::test]
async fn an_err_is_a_failed_call_and_nothing_is_an_empty_result() {
    assert_eq!(
        plain("tools-check")
            .call(json!({ "wanted": true }))
            .await
            .succeeded(),
        7
    );
    let called = plain("tools-check").call(json!({ "wanted": false })).await;
    let error = called.0.result.error.as_ref().unwrap();
    assert_eq!(
        (error.error_class, error.message.as_str()),
        (ErrorClass::ExecutionFailed, "it was not wanted")
    );
    let empty = plain("nothing").call(json!({})).await;
    empty.succeeded();
    assert!(
        empty.0.result.structured_content.is_none()
            && empty.record()["result"]["empty_result"] == true
    );
}

#[tokio::test]
async fn a_function_is_stopped_by_every_limit() {
    plain("spin")
        .limit(|limits| limits.fuel = 10_000_000)
        .call(json!({}))
        .await
        .failed("timeout", "fuel_exhausted");
    plain("spin")
        .timeout_ms(200)
        .call(json!({}))
        .await
        .failed("timeout", "epoch_deadline");
    let small = plain("tools-echo").limit(|limits| limits.memory_bytes = 1 << 20);
    small
        .call(json!({ "text": "x".repeat(2 << 20) }))
        .await
        .failed("sandbox_violation", "memory_limit");
    let many = plain("tools-flood")
        .call(json!({ "length": 120_000 }))
        .await;
    many.failed("result_too_large", "too_many_values");
    let wide = plain("tools-flood")
        .limit(|limits| limits.output_bytes = 1_000)
        .call(json!({ "length": 90_000 }))
        .await;
    wide.failed("result_too_large", "output_limit");
    let out_of_bounds = plain("tools-flood")
        .call(json!({ "length": 1 << 30 }))
        .await;
    out_of_bounds.failed("execution_failed", "guest_invalid");
    assert_eq!(
        plain("tools-flood")
            .call(json!({ "length": 2 }))
            .await
            .succeeded(),
        json!([false, false])
    );
}

#[tokio::test]
async fn a_function_that_is_canceled_ends_at_once() {
    alone(wat("plain"), None).load().await.unwrap();
    let began = Instant::now();
    let called = plain("spin")
        .cancel_after(Duration::from_millis(100))
        .call(json!({}))
        .await;
    called.failed("canceled", "canceled");
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "it was not stopped"
    );
}

#[tokio::test]
async fn an_asynchronous_function_is_a_tool_under_the_same_limits() {
    let text = r#"(component
        (core func $return (canon task.return (result u32)))
        (core module $main
          (import "" "return" (func $return (param i32)))
          (func (export "double") (param $n i32) (result i32)
            (call $return (i32.shl (local.get $n) (i32.const 1)))
            (i32.const 0))
          (func (export "spin") (result i32) (loop $forever (br $forever)) (i32.const 0))
          (func (export "silent") (result i32) (i32.const 0))
          (func (export "callback") (param i32 i32 i32) (result i32) unreachable))
        (core instance $main (instantiate $main (with "" (instance (export "return" (func $return))))))
        (func (export "double") async (param "n" u32) (result u32)
          (canon lift (core func $main "double") async (callback (core func $main "callback"))))
        (func (export "spin") async (canon lift (core func $main "spin") async (callback (core func $main "callback"))))
        (func (export "silent") async
          (canon lift (core func $main "silent") async (callback (core func $main "callback")))))"#;
    let component = wat::parse_str(text).unwrap();
    let tool = |name: &str| alone(component.clone(), Some(name));
    assert_eq!(
        tool("double").call(json!({ "n": 21 })).await.succeeded(),
        42
    );
    tool("spin")
        .limit(|limits| limits.fuel = 10_000_000)
        .call(json!({}))
        .await
        .failed("timeout", "fuel_exhausted");
    tool("spin")
        .timeout_ms(200)
        .call(json!({}))
        .await
        .failed("timeout", "epoch_deadline");
    let silent = tool("silent").call(json!({})).await;
    assert!(
        silent.0.result.error.is_some(),
        "a function that ends without its answer has none"
    );
}

#[tokio::test]
async fn what_breaks_the_contract_of_components_ends_the_call() {
    plain("trap")
        .call(json!({}))
        .await
        .failed("execution_failed", "guest_panicked");
    plain("tools-not-text")
        .call(json!({}))
        .await
        .failed("execution_failed", "guest_invalid");
}

#[tokio::test]
async fn a_component_that_imports_http_asks_for_the_network() {
    let show = || alone(wat("plain-network"), None);
    let called = show().call(json!({ "path": "/a" })).await;
    called
        .failed("permission_denied", "not_granted")
        .never_ran();
    assert!(
        called.message().contains("--allow-net"),
        "{}",
        called.message()
    );
    assert_eq!(
        show()
            .net("example.com")
            .call(json!({ "path": "/a" }))
            .await
            .succeeded(),
        "/a"
    );
}

#[tokio::test]
async fn paths_that_a_profile_names_are_asked_for_and_narrow_the_call() {
    let (_guard, folder) = scratch();
    std::fs::write(folder.join("a"), "").unwrap();
    let inside = json!({ "path": folder.join("a").to_str().unwrap() });
    let show = |tool: Value| {
        let profile = json!({ "namespace": "papers", "tools": { "show": tool } });
        alone(
            with("plain-files", "toolcell:profile", &profile),
            Some("show"),
        )
    };
    // Without a profile, a component that imports files asks for none, because all runtimes import them.
    alone(wat("plain-files"), None)
        .call(inside.clone())
        .await
        .succeeded();
    let reads = || show(json!({ "paths": ["path"], "read_only": true }));
    assert_eq!(reads().load().await.unwrap(), ["papers.show"]);
    let called = reads().call(inside.clone()).await;
    called
        .failed("permission_denied", "not_granted")
        .never_ran();
    assert!(
        called.message().contains("--allow-read"),
        "{}",
        called.message()
    );
    reads().read(&folder).call(inside.clone()).await.succeeded();
    let outside = reads()
        .read(&folder)
        .call(json!({ "path": "/elsewhere" }))
        .await;
    outside
        .failed("permission_denied", "path_not_granted")
        .never_ran();
    let writes = show(json!({ "paths": ["path"] }))
        .read(&folder)
        .call(inside)
        .await;
    writes
        .failed("permission_denied", "not_granted")
        .never_ran();
}

#[tokio::test]
async fn a_profile_that_would_be_lost_is_refused() {
    for (file, profile, why) in [
        (
            "plain",
            json!({ "tools": { "no-such-tool": {} } }),
            "none of its tools",
        ),
        ("plain", json!({ "tool": {} }), "unknown field `tool`"),
        (
            "plain",
            json!({ "tools": { "spin": { "network": true } } }),
            "does not import wasi:http",
        ),
        (
            "plain-files",
            json!({ "tools": { "show": { "paths": ["pahth"] } } }),
            "leads to no argument",
        ),
        (
            "plain-files",
            json!({ "namespace": "a b" }),
            "characters other than letters",
        ),
        ("echo", json!({}), "not made for toolcell"),
    ] {
        let refusal = refused(with(file, "toolcell:profile", &profile)).await;
        assert_eq!(
            (refusal.class, refusal.code),
            (ErrorClass::SetupRequired, ErrorCode::DescriptionInvalid),
            "{profile}"
        );
        let told = format!(
            "{} {}",
            refusal.message,
            refusal.detail.as_deref().unwrap_or_default()
        );
        assert!(told.contains(why), "{told}");
    }
}

#[tokio::test]
async fn a_tool_without_the_network_needs_no_grant_although_its_component_imports_http() {
    for profile in [
        json!({ "tools": { "show": { "network": false } } }),
        json!({ "ceiling": {} }),
    ] {
        let silent = || alone(with("plain-network", "toolcell:profile", &profile), None);
        assert_eq!(
            silent().call(json!({ "path": "/a" })).await.succeeded(),
            "/a",
            "{profile}"
        );
    }
}

#[tokio::test]
async fn the_requests_of_a_tool_stay_below_its_ceiling() {
    let profile = json!({ "ceiling": { "network": ["https://example.com"] } });
    let show = || alone(with("plain-network", "toolcell:profile", &profile), None);
    show()
        .call(json!({ "path": "/a" }))
        .await
        .failed("permission_denied", "not_granted")
        .never_ran();
    show()
        .net("https://example.com")
        .call(json!({ "path": "/a" }))
        .await
        .succeeded();
}

#[tokio::test]
async fn metadata_that_is_damaged_or_too_large_is_refused() {
    let twice = |section: &str| {
        let once = with("plain", section, &json!({}));
        let added = once[wat("plain").len()..].to_vec();
        [once, added].concat()
    };
    let refusal = refused(twice("toolcell:profile")).await;
    assert!(
        refusal
            .message
            .contains("two custom sections `toolcell:profile`"),
        "{}",
        refusal.message
    );
    let docs = with_custom(&wat("plain"), "package-docs", b"\x01{\"interfaces\": [").unwrap();
    assert!(refused(docs).await.message.contains("`package-docs`"));
    // A section of 2 MiB, written by others.
    let mut large = wat("plain");
    large.extend([0, 0x8d, 0x80, 0x80, 0x01, 12]);
    large.extend(b"package-docs");
    large.extend(vec![b' '; 2 << 20]);
    assert!(refused(large).await.message.contains("more than 1048576"));
}

#[test]
fn a_person_sees_what_the_types_and_the_documentation_say() {
    let (_guard, folder) = scratch();
    let docs = json!({ "interfaces": { "tools": { "funcs": { "add": { "docs": "Adds two numbers." } } } } });
    let component = with_custom(
        &wat("plain"),
        "package-docs",
        format!("\u{1}{docs}").as_bytes(),
    )
    .unwrap();
    std::fs::write(folder.join("renamed.wasm"), component).unwrap();
    let describe = |arguments: &[&str]| {
        Toolcell::new([&["describe"][..], arguments].concat())
            .dir(&folder)
            .run()
            .exits(0)
    };
    let text = describe(&["renamed.wasm#tools-add"]).stdout;
    for words in [
        "acme-plain.tools-add\n",
        "Adds two numbers.",
        "asks for: nothing",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let records = describe(&["renamed.wasm", "--json"]).json();
    let note = "not offered as a tool: init: by its name, it starts the runtime of its toolchain";
    assert!(
        records["notes"]
            .as_array()
            .unwrap()
            .iter()
            .any(|found| found["message"] == note),
        "{}",
        records["notes"]
    );
    let add = &records["declarations"][2]["input_contract"]["model_input_schema"];
    assert_eq!(
        add["properties"]["b"],
        json!({ "type": ["integer", "null"], "minimum": i32::MIN, "maximum": i32::MAX })
    );
    assert_eq!(add["required"], json!(["a"]));
    let profile = &records["permission_profiles"][0];
    assert_eq!(
        (&profile["risk_level"], &profile["access_kinds"]),
        (&json!("medium"), &json!([]))
    );
}

#[tokio::test]
async fn a_component_of_no_world_is_told_what_it_has() {
    let refusal = refused(wat("not-a-tool")).await;
    assert_eq!(refusal.code, ErrorCode::NotATool);
    assert!(
        refusal
            .message
            .contains("exports no function that can be called with JSON"),
        "{}",
        refusal.message
    );
}

#[tokio::test]
async fn a_component_for_a_later_wasi_is_told_what_to_build_it_for() {
    let component = |import: &str, kind: &str| {
        let text = format!(
            r#"(component
                 {import}
                 (core module $main (func (export "f")))
                 (core instance $main (instantiate $main))
                 (func (export "f") {kind} (canon lift (core func $main "f"))))"#
        );
        wat::parse_str(text).unwrap()
    };
    alone(component("", "async"), None)
        .call(json!({}))
        .await
        .succeeded();
    let clock = |version: &str| {
        format!(
            r#"(import "wasi:clocks/monotonic-clock@{version}" (instance (export "later" (func (result u64)))))"#
        )
    };
    for (version, is_told) in [("0.3.0", true), ("0.2.6", false)] {
        let refusal = refused(component(&clock(version), "")).await;
        assert_eq!(refusal.code, ErrorCode::ImportNotAvailable);
        let told = refusal
            .message
            .ends_with("toolcell has cli, clocks, filesystem, random, sockets and http/client");
        assert_eq!(told, is_told, "{}", refusal.message);
    }
}

#[tokio::test]
async fn streams_and_futures_that_functions_return_are_read_to_their_end() {
    let component = std::fs::read(fixture("streams")).unwrap();
    let test = |tool: &str| alone(component.clone(), Some(tool));
    let call = async |tool: &str, input: Value| test(tool).call(input).await;
    let count = call("tools-count", json!({ "to": 300 })).await.succeeded();
    assert_eq!(count, json!((0..300).collect::<Vec<u32>>()));
    assert_eq!(
        call("tools-words", json!({})).await.succeeded(),
        json!(["one", "two"])
    );
    assert_eq!(
        call("tools-bytes", json!({ "count": 3 })).await.succeeded(),
        "eHh4"
    );
    assert_eq!(call("tools-later", json!({})).await.succeeded(), "at last");
    assert_eq!(
        call("tools-sum", json!({ "a": 40, "b": 2 }))
            .await
            .succeeded(),
        42
    );
    let many = call("tools-count", json!({ "to": 100_001 })).await;
    many.failed("result_too_large", "too_many_values");
    call("tools-flood", json!({}))
        .await
        .failed("result_too_large", "output_limit");
    let never = test("tools-never").timeout_ms(500).call(json!({})).await;
    assert!(never.0.result.is_error, "{:?}", never.0.result);
    let names = alone(component, None).load().await.unwrap();
    assert!(
        !names.iter().any(|name| name.ends_with("pairs")),
        "{names:?}"
    );
}
