//! Components that are refused before they become tools, and the error messages.

use std::process::{Command, Stdio};

use toolcell_spec::{ErrorClass, Refusal};

use crate::support::{Test, wat};

async fn refused(test: Test) -> Refusal {
    test.load().await.unwrap_err()
}

async fn bytes(bytes: &[u8]) -> Refusal {
    refused(Test::of_bytes(bytes.to_vec(), None)).await
}

#[track_caller]
fn is(refusal: &Refusal, class: ErrorClass, code: &str) {
    assert_eq!(
        (refusal.class, refusal.code.as_str()),
        (class, code),
        "{refusal:?}"
    );
}

#[tokio::test]
async fn what_is_no_component_is_refused() {
    for garbage in [
        &b""[..],
        b"garbage",
        b"\0asm",
        b"\0asm\xff\xff\xff\xff",
        b"\x7fELF\x02\x01\x01\0",
        &[0; 4096],
    ] {
        is(
            &bytes(garbage).await,
            ErrorClass::SetupRequired,
            "component_invalid",
        );
    }
}

#[tokio::test]
async fn a_damaged_component_is_refused() {
    let whole = wat("echo");
    is(
        &bytes(&whole[..whole.len() / 2]).await,
        ErrorClass::SetupRequired,
        "component_invalid",
    );
    let mut flipped = whole.clone();
    flipped[12] ^= 0xff;
    is(
        &bytes(&flipped).await,
        ErrorClass::SetupRequired,
        "component_invalid",
    );
}

#[tokio::test]
async fn a_core_module_is_refused_with_a_hint() {
    let refusal = refused(Test::new("wat:core-module")).await;
    is(&refusal, ErrorClass::SetupRequired, "component_invalid");
    assert!(
        refusal.message.contains("wasm32-wasip2"),
        "{}",
        refusal.message
    );
}

/// The native code that toolcell makes of a component, which must not be accepted from outside.
fn native_code() -> Vec<u8> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_toolcell"))
        .args([
            "compile-component",
            "60",
            "4294967296",
            &std::process::id().to_string(),
            "thorough",
            "fuel",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), &wat("echo")).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    output.stdout
}

#[tokio::test]
async fn native_code_is_refused_even_if_toolcell_made_it() {
    let code = native_code();
    assert!(code.starts_with(b"\x7fELF"));
    is(
        &bytes(&code).await,
        ErrorClass::SetupRequired,
        "component_precompiled",
    );
}

#[tokio::test]
async fn a_component_that_is_no_tool_is_refused() {
    is(
        &refused(Test::new("wat:not-a-tool")).await,
        ErrorClass::SetupRequired,
        "not_a_tool",
    );
}

#[tokio::test]
async fn a_component_with_the_right_name_and_other_types_is_refused() {
    is(
        &refused(Test::new("wat:wrong-signature")).await,
        ErrorClass::SetupRequired,
        "contract_mismatch",
    );
}

#[tokio::test]
async fn an_import_that_the_host_does_not_have_is_named() {
    let refusal = refused(Test::new("wat:unknown-import")).await;
    is(&refusal, ErrorClass::CapabilityGap, "import_not_available");
    assert!(
        refusal.message.contains("evil:thing/api"),
        "{}",
        refusal.message
    );
}

#[tokio::test]
async fn a_component_that_describes_itself_differently_each_time_is_refused() {
    is(
        &refused(Test::new("wat:describe-changes")).await,
        ErrorClass::SetupRequired,
        "description_changes",
    );
}

#[tokio::test]
async fn a_description_that_is_no_json_is_refused() {
    for name in ["wat:describe-garbage", "wat:describe-empty"] {
        is(
            &refused(Test::new(name)).await,
            ErrorClass::SetupRequired,
            "description_invalid",
        );
    }
}

#[tokio::test]
async fn a_description_without_a_tool_gives_no_tool() {
    match Test::new("wat:describe-no-tools").load().await {
        Ok(names) => assert!(names.is_empty(), "{names:?}"),
        Err(refusal) => is(&refusal, ErrorClass::SetupRequired, "description_invalid"),
    }
}

#[tokio::test]
async fn a_huge_description_is_refused() {
    is(
        &refused(Test::new("wat:describe-huge")).await,
        ErrorClass::ResultTooLarge,
        "output_limit",
    );
}

#[tokio::test]
async fn a_component_that_never_says_what_it_is_is_refused() {
    assert_eq!(
        refused(Test::new("wat:describe-spins")).await.class,
        ErrorClass::Timeout
    );
    is(
        &refused(Test::new("wat:describe-traps")).await,
        ErrorClass::ExecutionFailed,
        "guest_panicked",
    );
}

#[tokio::test]
async fn a_refused_component_is_refused_again() {
    for _ in 0..2 {
        is(
            &refused(Test::new("wat:describe-garbage")).await,
            ErrorClass::SetupRequired,
            "description_invalid",
        );
        is(
            &refused(Test::new("wat:unknown-import")).await,
            ErrorClass::CapabilityGap,
            "import_not_available",
        );
    }
}

#[tokio::test]
async fn loading_the_same_component_again_changes_nothing() {
    let first = Test::new("wat:echo").load().await.unwrap();
    assert_eq!(first, ["wat.echo"]);
    assert_eq!(Test::new("wat:echo").load().await.unwrap(), first);
}
