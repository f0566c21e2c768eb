//! Components that are small to send and expensive to compile: the compiler is a process with its own limits.

use std::sync::Arc;

use toolcell_core::record::{ErrorClass, Refusal};

use crate::support::{Test, host};

#[rustfmt::skip]
#[path = "../guests/compile_bomb.rs"]
pub(crate) mod bomb;

async fn compile(cpu_seconds: u64, memory_bytes: u64) -> Refusal {
    let host = Arc::new(host(|settings| {
        settings.pooled = false;
        settings.cached = false;
        settings.compile_cpu_seconds = cpu_seconds;
        settings.compile_memory_bytes = memory_bytes;
    }));
    let bomb = wat::parse_str(bomb::compile_bomb()).unwrap();
    assert!(bomb.len() < 1 << 20);
    let refusal = Test::of_bytes(bomb, None).on(&host).load().await.unwrap_err();
    // The host that started the compiler still works.
    Test::new("wat:spin").on(&host).load().await.unwrap();
    refusal
}

#[tokio::test]
async fn a_component_that_takes_too_long_to_compile_is_refused() {
    let refusal = compile(2, 4 << 30).await;
    assert_eq!((refusal.class, refusal.code), (ErrorClass::SandboxViolation, "compile_limit"), "{refusal:?}");
    assert!(refusal.message.contains("2 s"), "{}", refusal.message);
}

#[tokio::test]
async fn a_component_that_takes_too_much_memory_to_compile_is_refused() {
    let refusal = compile(60, 160 << 20).await;
    assert_eq!((refusal.class, refusal.code), (ErrorClass::SandboxViolation, "compile_limit"), "{refusal:?}");
    assert!(refusal.message.contains("memory"), "{}", refusal.message);
}
