//! What the host keeps for a guest counts toward the memory of its call: stacks of tasks that wait, and parts of requests.
//!
//! Promise: Memory of one call is bounded.

use std::sync::Arc;

use serde_json::json;
use toolcell::Host;

use crate::pipeline::doubles::own_host;
use crate::support::{Test, waiting_tasks, wat};

const MIB: u64 = 1 << 20;

fn waits(host: &Arc<Host>, tasks: usize, mib: u64) -> Test {
    Test::of_bytes(waiting_tasks(tasks), None)
        .on(host)
        .limit(|limits| limits.memory_bytes = mib * MIB)
}

#[tokio::test]
async fn the_stacks_of_tasks_that_wait_count() {
    for (tasks, mib, is_enough) in [(2, 16, true), (40, 16, false), (40, 256, true)] {
        let called = waits(&own_host(|settings| settings), tasks, mib)
            .call(json!({}))
            .await;
        if is_enough {
            assert_eq!(called.succeeded(), tasks)
        } else {
            assert!(
                called
                    .failed("sandbox_violation", "memory_limit")
                    .message()
                    .contains("--memory")
            )
        }
    }
}

fn parts() -> Test {
    Test::of_bytes(wat("http-parts"), None)
        .on(&own_host(|settings| settings))
        .net("example.com")
        .limit(|limits| (limits.memory_bytes, limits.handles) = (32 * MIB, 2_000))
}

#[tokio::test]
async fn headers_and_bodies_of_requests_count_until_they_are_dropped() {
    for (how, few, many) in [(0, 20, 400), (2, 10, 60)] {
        assert_eq!(
            parts()
                .call(json!({ "count": few, "how": how }))
                .await
                .succeeded(),
            few
        );
        parts()
            .call(json!({ "count": many, "how": how }))
            .await
            .failed("sandbox_violation", "memory_limit");
    }
    assert_eq!(
        parts()
            .call(json!({ "count": 5_000, "how": 1 }))
            .await
            .succeeded(),
        5_000
    );
}

#[tokio::test]
async fn the_method_of_a_request_is_short() {
    assert_eq!(
        parts()
            .call(json!({ "count": 20, "how": 3 }))
            .await
            .succeeded(),
        0
    );
}
