//! Attacks on memory, tables and the stack, and searches for data of another call.

use std::sync::Arc;

use serde_json::json;
use toolcell::Host;

use crate::support::{Test, waiting_tasks, wat};

use super::arena::{Arena, assembled, host};

const MIB: u64 = 1 << 20;

/// A host without a pool, whose limits would apply first.
fn on_demand() -> Arc<Host> {
    host(|settings| settings.pooled(false))
}

/// Sixteen memories of 16 MiB; each alone is below the limit. The memory of an asynchronous component.
pub(super) async fn many_memories(arena: &Arena) {
    let asynchronous = arena
        .test("act#memory")
        .limit(|limits| limits.memory_bytes = 16 * MIB);
    arena.call(asynchronous, json!({ "mib": 64 })).await;
    let test = Test::new("wat:many-memories")
        .on(&on_demand())
        .limit(|limits| limits.memory_bytes = 128 * MIB);
    arena.call(test, json!({})).await;
}

/// Two tables of sixteen million elements of eight bytes, which the memory limit does not count.
pub(super) async fn tables(arena: &Arena) {
    let grow = |table| {
        format!(
            "(if (i32.eq (table.grow {table} (ref.null func) (i32.const 0x1000000)) (i32.const -1)) (then unreachable))
             (table.fill {table} (i32.const 0) (ref.null func) (table.size {table}))"
        )
    };
    let component = assembled(
        1,
        "(table $a 0 funcref) (table $b 0 funcref)",
        "",
        &(grow("$a") + &grow("$b")),
    );
    let test = Test::of_bytes(component, None)
        .on(&on_demand())
        .limit(|limits| limits.memory_bytes = MIB);
    arena.call(test, json!({})).await;
}

pub(super) async fn recursion(arena: &Arena) {
    arena
        .call(arena.test("hostile#recurse"), json!({ "stack": "engine" }))
        .await;
    let component = assembled(
        1,
        "(func $again (call $again) (call $again))",
        "",
        "(call $again)",
    );
    arena.call(arena.test_of(&component), json!({})).await;
}

/// One string of 16 MiB, returned three times.
pub(super) async fn aliased_strings(arena: &Arena) {
    for _ in 0..3 {
        arena
            .call(arena.test("wat:aliased-strings"), json!({}))
            .await;
    }
}

/// Each call searches for data of the call before it: in memory, in newly grown memory, in a global and in a table.
/// Then it leaves data there itself. It crashes if it finds anything.
pub(super) async fn residue(arena: &Arena) {
    let items = "(global $mark (mut i64) (i64.const 0)) (table $table 4 funcref) (func $left) (elem declare func $left)";
    let locals = "(local $at i32)";
    let body = "
        (if (i64.ne (global.get $mark) (i64.const 0)) (then unreachable))
        (if (i32.eqz (ref.is_null (table.get $table (i32.const 1)))) (then unreachable))
        (drop (memory.grow (i32.const 16)))
        (local.set $at (i32.const 0x20000))
        (loop $each
          (if (i64.ne (i64.load (local.get $at)) (i64.const 0)) (then unreachable))
          (i64.store (local.get $at) (i64.const 0x5ec3e75ec3e75ec3))
          (local.set $at (i32.add (local.get $at) (i32.const 8)))
          (br_if $each (i32.lt_u (local.get $at) (i32.shl (memory.size) (i32.const 16)))))
        (global.set $mark (i64.const 1))
        (table.set $table (i32.const 1) (ref.func $left))";
    let component = assembled(64, items, locals, body);
    for _ in 0..12 {
        arena.call(arena.test_of(&component), json!({})).await;
    }
    for _ in 0..3 {
        let called = arena.call(arena.test("probe#counter"), json!({})).await;
        arena.holds(
            called.succeeded()["count"] == 1,
            "a static outlived its call",
        );
    }
}

/// 55 tasks that wait, each with a stack of more than a megabyte, which is no memory of the guest.
pub(super) async fn stacks(arena: &Arena) {
    let test = arena
        .test_of(&waiting_tasks(55))
        .limit(|limits| limits.memory_bytes = 16 * MIB);
    arena.call(test, json!({})).await;
}

/// Headers, and requests with bodies, which the host keeps: a thousand of each.
pub(super) async fn parts_of_requests(arena: &Arena) {
    for how in [0, 2] {
        let test = arena.test_of(&wat("http-parts")).net("example.com");
        let test = test.limit(|limits| (limits.memory_bytes, limits.handles) = (16 * MIB, 4_096));
        arena
            .call(test, json!({ "count": 1_000, "how": how }))
            .await;
    }
}
