//! Components that are small to send and expensive to compile: the compiler is a process with its own limits.
//!
//! Promise: Compilation is bounded.

use std::sync::Arc;

use toolcell_spec::{ErrorClass, ErrorCode, Refusal};

use crate::support::{Test, host};

#[rustfmt::skip]
#[path = "../guests/compile_bomb.rs"]
pub(crate) mod bomb;

async fn compile(cpu_seconds: u64, memory_bytes: u64) -> Refusal {
    let bomb = wat::parse_str(bomb::compile_bomb()).unwrap();
    assert!(bomb.len() < 1 << 20);
    refused(bomb, cpu_seconds, memory_bytes).await
}

async fn refused(component: Vec<u8>, cpu_seconds: u64, memory_bytes: u64) -> Refusal {
    let host = Arc::new(host(|settings| {
        settings
            .pooled(false)
            .cached(false)
            .compile_cpu_seconds(cpu_seconds)
            .compile_memory_bytes(memory_bytes)
    }));
    let refusal = Test::of_bytes(component, None)
        .on(&host)
        .load()
        .await
        .unwrap_err();
    // The host that started the compiler still works.
    Test::new("wat:spin").on(&host).load().await.unwrap();
    refusal
}

#[tokio::test]
async fn a_component_that_takes_too_long_to_compile_is_refused() {
    let refusal = compile(2, 4 << 30).await;
    assert_eq!(
        (refusal.class, refusal.code),
        (ErrorClass::SandboxViolation, ErrorCode::CompileLimit),
        "{refusal:?}"
    );
    assert!(refusal.message.contains("2 s"), "{}", refusal.message);
}

#[tokio::test]
async fn a_component_that_takes_too_much_memory_to_compile_is_refused() {
    let refusal = compile(60, 160 << 20).await;
    assert_eq!(
        (refusal.class, refusal.code),
        (ErrorClass::SandboxViolation, ErrorCode::CompileLimit),
        "{refusal:?}"
    );
    assert!(refusal.message.contains("memory"), "{}", refusal.message);
}

#[tokio::test]
async fn a_component_that_makes_the_compiler_overflow_its_stack_is_refused() {
    const DEPTH: usize = 100_000;
    // A section with one type: that of a component whose one declaration is the type of a component, and so on.
    let mut types = vec![1_u8];
    types.extend([0x41, 1, 1].repeat(DEPTH));
    types.extend([0x41, 0]);
    let mut component = b"\0asm\x0d\0\x01\0\x07".to_vec();
    // LEB128, which a size below 2 MiB has in three bytes.
    let size = types.len();
    let seven = |shift: usize| u8::try_from((size >> shift) & 0x7f).unwrap();
    component.extend([seven(0) | 0x80, seven(7) | 0x80, seven(14)]);
    component.extend(types);
    let refusal = refused(component, 60, 4 << 30).await;
    assert_eq!(
        (refusal.class, refusal.code),
        (ErrorClass::SandboxViolation, ErrorCode::CompileCrash),
        "{refusal:?}"
    );
    assert!(
        refusal
            .detail
            .as_ref()
            .is_some_and(|said| said.contains("overflowed its stack")),
        "{refusal:?}"
    );
}
