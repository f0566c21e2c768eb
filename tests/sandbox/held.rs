//! What the host keeps for a guest counts toward the memory of its call: stacks of tasks that wait, and parts of requests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use toolcell::Host;

use crate::pipeline::doubles::own_host;
use crate::support::{Test, waiting_tasks, wat};

const MIB: u64 = 1 << 20;

fn waits(host: &Arc<Host>, tasks: usize, mib: u64) -> Test {
    Test::of_bytes(waiting_tasks(tasks), None).on(host).limit(|limits| limits.memory_bytes = mib * MIB)
}

#[tokio::test]
async fn the_stacks_of_tasks_that_wait_count() {
    for (tasks, mib, is_enough) in [(2, 16, true), (40, 16, false), (40, 256, true)] {
        let called = waits(&own_host(|_| {}), tasks, mib).call(json!({})).await;
        match is_enough {
            true => assert_eq!(called.succeeded(), tasks),
            false => assert!(called.failed("sandbox_violation", "memory_limit").message().contains("--memory")),
        }
    }
}

fn parts() -> Test {
    Test::of_bytes(wat("http-parts"), None)
        .on(&own_host(|_| {}))
        .net("example.com")
        .limit(|limits| (limits.memory_bytes, limits.handles) = (32 * MIB, 2_000))
}

#[tokio::test]
async fn headers_and_bodies_of_requests_count_until_they_are_dropped() {
    for (how, few, many) in [(0, 20, 400), (2, 10, 60)] {
        assert_eq!(parts().call(json!({ "count": few, "how": how })).await.succeeded(), few);
        parts().call(json!({ "count": many, "how": how })).await.failed("sandbox_violation", "memory_limit");
    }
    assert_eq!(parts().call(json!({ "count": 5_000, "how": 1 })).await.succeeded(), 5_000);
}

#[tokio::test]
async fn the_method_of_a_request_is_short() {
    assert_eq!(parts().call(json!({ "count": 20, "how": 3 })).await.succeeded(), 0);
}

#[tokio::test]
async fn a_deadline_ends_a_guest_between_pieces_of_random_bytes() {
    let text = r#"(component
      (import "wasi:random/random@0.2.6" (instance $random
        (export "get-random-bytes" (func (param "len" u64) (result (list u8))))))
      (core module $page
        (memory (export "memory") 40)
        (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 65536)))
      (core instance $page (instantiate $page))
      (core func $bytes (canon lower (func $random "get-random-bytes")
        (memory (core memory $page "memory")) (realloc (core func $page "realloc"))))
      (core module $main
        (import "" "bytes" (func $bytes (param i64 i32)))
        (import "" "memory" (memory 40))
        (func (export "make") (param $bytes i64) (param $times i32) (result i32)
          (loop $each
            (call $bytes (local.get $bytes) (i32.const 16))
            (br_if $each (local.tee $times (i32.sub (local.get $times) (i32.const 1)))))
          (i32.load (i32.const 20))))
      (core instance $main (instantiate $main (with "" (instance
        (export "bytes" (func $bytes)) (export "memory" (memory $page "memory"))))))
      (func (export "make") (param "bytes" u64) (param "times" u32) (result u32)
        (canon lift (core func $main "make"))))"#;
    let host = own_host(|_| {});
    let make = || Test::of_bytes(wat::parse_str(text).unwrap(), None).on(&host);
    assert_eq!(make().call(json!({ "bytes": MIB, "times": 1 })).await.succeeded(), MIB);
    assert_eq!(make().call(json!({ "bytes": 40_001, "times": 1 })).await.succeeded(), 40_001);
    make().call(json!({ "bytes": MIB + 1, "times": 1 })).await.failed("execution_failed", "guest_invalid");
    // One call of the host takes longer than the whole time of the guest.
    let began = Instant::now();
    let test = make().limit(|limits| limits.wall = Duration::from_millis(1));
    test.call(json!({ "bytes": MIB, "times": 1_000 })).await.failed("timeout", "deadline_exceeded");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}
