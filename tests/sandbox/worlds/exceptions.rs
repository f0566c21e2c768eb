//! Modules that throw exceptions, which one engine alone has.
//!
//! Promise: Every call ends at its deadline.
//! Promise: Memory of one call is bounded.

use serde_json::json;
use toolcell_spec::ErrorClass;

use super::alone;
use crate::support::Test;

fn throwing(body: &str) -> Test {
    let text = format!(
        r#"(module
             (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
             (memory (export "memory") 1)
             (table $kept 1 1000000 exnref)
             (tag $thrown (param i32))
             (tag $link (param exnref))
             (func $catch (param $value i32) (result i32)
               (block $caught (result i32)
                 (try_table (catch $thrown $caught) (throw $thrown (local.get $value)))
                 (unreachable)))
             (func (export "_start") (local $last exnref) (local $count i32) {body}))"#
    );
    alone(wat::parse_str(text).unwrap(), None)
}

#[tokio::test]
async fn an_exception_is_caught_and_one_that_is_not_fails_the_call() {
    let caught = throwing("(call $exit (call $catch (i32.const 7)))");
    let called = caught.call(json!({})).await;
    called.failed("partial_failure", "exit_7");
    let uncaught = throwing("(throw $thrown (i32.const 7))");
    let called = uncaught.call(json!({})).await;
    called.failed("execution_failed", "guest_panicked");
}

#[tokio::test]
async fn exceptions_without_end_stop_at_the_fuel_and_at_the_time() {
    let spins = "(loop $more (drop (call $catch (local.get $count))) (br $more))";
    let called = throwing(spins)
        .limit(|limits| limits.fuel = 10_000_000)
        .call(json!({}))
        .await;
    called.failed("timeout", "fuel_exhausted");
    let called = throwing(spins)
        .limit(|limits| limits.wall = std::time::Duration::from_millis(300))
        .call(json!({}))
        .await;
    let error = called.0.result.error.as_ref().unwrap();
    assert_eq!(error.error_class, ErrorClass::Timeout, "{error:?}");
}

/// Each is in the memory of the engine, and not in that of the module.
#[tokio::test]
async fn exceptions_that_are_kept_count_as_memory() {
    let kept = "(loop $more
        (block $caught (result i32 exnref)
          (try_table (catch_ref $thrown $caught) (throw $thrown (i32.const 1)))
          (unreachable))
        (local.set $last) (drop)
        (drop (table.grow $kept (local.get $last) (i32.const 1)))
        (br $more))";
    let called = throwing(kept)
        .limit(|limits| limits.memory_bytes = 8 << 20)
        .call(json!({}))
        .await;
    called.failed("sandbox_violation", "memory_limit");
}

/// The engine frees one after the other, however many there are.
#[tokio::test]
async fn a_long_chain_of_exceptions_is_freed() {
    let chain = "(loop $more
        (block $caught (result exnref exnref)
          (try_table (catch_ref $link $caught) (throw $link (local.get $last)))
          (unreachable))
        (local.set $last) (drop)
        (local.set $count (i32.add (local.get $count) (i32.const 1)))
        (br_if $more (i32.lt_u (local.get $count) (i32.const 300000))))
        (local.set $last (ref.null exn))
        (drop (call $catch (i32.const 1)))";
    throwing(chain).call(json!({})).await.succeeded();
}
