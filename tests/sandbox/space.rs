//! Limits on space: memory, tables, stack, host handles, instances.
//!
//! Promise: Disk use is bounded.
//! Promise: Memory of one call is bounded.

use std::sync::Arc;

use serde_json::json;
use toolcell::{ErrorCode, Host};

use crate::pipeline::doubles::echo_text;
use crate::support::{Test, host, root, scratch};

use super::text;

const MIB: u64 = 1 << 20;

/// A host that allocates on demand, so that only the limits of the call apply, not those of the pool.
fn without_pool() -> Arc<Host> {
    Arc::new(host(|settings| settings.pooled(false)))
}

#[tokio::test]
async fn a_tool_that_dies_of_its_memory_limit_is_told_so() {
    let called = Test::new("hostile#memory")
        .limit(|limits| limits.memory_bytes = 16 * MIB)
        .call(json!({ "mib": 64 }))
        .await;
    called.failed("sandbox_violation", "memory_limit");
    let memory = called.0.result.usage.as_ref().unwrap().memory_bytes;
    assert!(
        memory.used > 8 * MIB && memory.used <= 16 * MIB,
        "{memory:?}"
    );
}

#[tokio::test]
async fn a_tool_that_survives_its_memory_limit_gets_no_more_than_that() {
    for how in ["reserve", "grow"] {
        let called = Test::new("hostile#memory")
            .limit(|limits| limits.memory_bytes = 16 * MIB)
            .call(json!({ "mib": 64, "how": how }))
            .await;
        let answer = called.succeeded();
        assert_eq!(answer["refused"], true, "{how}");
        assert!(
            (4..16).contains(&answer["mib"].as_u64().unwrap()),
            "{how}: {answer}"
        );
    }
}

#[tokio::test]
async fn many_small_memories_share_one_limit() {
    let host = without_pool();
    for (limit_mib, granted_mib) in [(100, 96), (50, 48), (256, 240)] {
        let called = Test::new("wat:grow-memories")
            .on(&host)
            .limit(|limits| limits.memory_bytes = limit_mib * MIB)
            .call(json!({}))
            .await;
        assert_eq!(called.succeeded(), granted_mib, "of {limit_mib} MiB");
        assert!(called.0.result.usage.as_ref().unwrap().memory_bytes.used <= limit_mib * MIB);
    }
}

#[tokio::test]
async fn memories_that_are_there_from_the_start_count_too() {
    let host = without_pool();
    let refused = Test::new("wat:many-memories")
        .on(&host)
        .limit(|limits| limits.memory_bytes = 255 * MIB)
        .call(json!({}))
        .await;
    refused.failed("sandbox_violation", "memory_limit");
}

#[tokio::test]
async fn a_component_with_too_many_or_too_large_memories_does_not_load_into_a_pool() {
    for name in [
        "wat:many-memories",
        "wat:grow-memories",
        "wat:many-instances",
        "wat:big-table",
    ] {
        let refusal = Test::new(name).load().await.unwrap_err();
        assert_eq!(
            serde_json::to_value(refusal.class).unwrap(),
            "sandbox_violation",
            "{name}: {refusal:?}"
        );
    }
}

#[tokio::test]
async fn a_component_that_starts_too_large_does_not_load_anywhere() {
    let on_demand = without_pool();
    for (name, code) in [
        ("wat:big-memory", "memory_limit"),
        ("wat:big-table", "table_limit"),
        ("wat:many-instances", "instance_limit"),
    ] {
        let refusal = Test::new(name).on(&on_demand).load().await.unwrap_err();
        assert_eq!(
            serde_json::to_value(refusal.class).unwrap(),
            "sandbox_violation",
            "{name}: {refusal:?}"
        );
        assert_eq!(refusal.code.as_str(), code, "{name}: {refusal:?}");
    }
    let refusal = Test::new("wat:big-memory").load().await.unwrap_err();
    assert_eq!(refusal.code, ErrorCode::MemoryLimit, "{refusal:?}");
}

#[tokio::test]
async fn instances_are_counted_also_where_they_have_nothing() {
    let text = std::fs::read_to_string(root().join("tests/guests/wat/echo.wat")).unwrap();
    let text = text.replace("wat.echo", "wat.many");
    let before = "  (component $tool\n";
    for (count, loads) in [(40, true), (100, false)] {
        let instances = "(core instance (instantiate $empty))\n".repeat(count);
        let many = text.replacen(
            before,
            &format!("{before}(core module $empty)\n{instances}"),
            1,
        );
        let loaded = Test::of_bytes(wat::parse_str(many).unwrap(), None)
            .on(&without_pool())
            .load()
            .await;
        assert_eq!(loaded.is_ok(), loads, "{count}: {loaded:?}");
        if let Err(refusal) = loaded {
            assert_eq!(refusal.code, ErrorCode::InstanceLimit, "{refusal:?}");
        }
    }
}

#[tokio::test]
async fn what_the_engine_keeps_of_an_instance_is_limited_in_both_engines() {
    let text = std::fs::read_to_string(root().join("tests/guests/wat/echo.wat")).unwrap();
    let text = text.replace("wat.echo", "wat.keep");
    let before = "  (component $tool\n";
    // A stream makes it a component for the engine without a pool.
    for (count, needs, loads) in [
        (10_000, "", true),
        (10_000, "(type (stream u8))", true),
        (200_000, "", false),
        (200_000, "(type (stream u8))", true),
        (300_000, "(type (stream u8))", false),
    ] {
        let globals = "(global (mut i32) (i32.const 0))".repeat(count);
        let parts = format!(
            "{before}{needs}(core module $large {globals})\n(core instance (instantiate $large))\n"
        );
        let large = wat::parse_str(text.replacen(before, &parts, 1)).unwrap();
        let loaded = Test::of_bytes(large, None).on(&without_pool()).load().await;
        assert_eq!(loaded.is_ok(), loads, "{count} {needs}: {loaded:?}");
        if let Err(refusal) = loaded {
            assert_eq!(refusal.code, ErrorCode::MemoryLimit, "{refusal:?}");
        }
    }
}

#[tokio::test]
async fn components_count_each_time_that_they_are_instantiated() {
    let text = std::fs::read_to_string(root().join("tests/guests/wat/echo.wat")).unwrap();
    let text = text.replace("wat.echo", "wat.nest");
    let before = "  (component $tool\n";
    // Each level instantiates the one before twice.
    let level = |at: usize| {
        let instance = format!("(instance (instantiate $level{}))", at - 1);
        format!("(component $level{at} {instance} {instance})\n")
    };
    for (levels, needs, loads) in [
        (8, "", true),
        (8, "(type (stream u8))", true),
        (14, "", false),
        (14, "(type (stream u8))", false),
    ] {
        let all: String = (1..=levels).map(level).collect();
        let last = format!("(instance (instantiate $level{levels}))\n");
        let parts = format!("{before}{needs}(component $level0)\n{all}{last}");
        let nested = wat::parse_str(text.replacen(before, &parts, 1)).unwrap();
        let loaded = Test::of_bytes(nested, None)
            .on(&without_pool())
            .load()
            .await;
        assert_eq!(loaded.is_ok(), loads, "{levels} {needs}: {loaded:?}");
        if let Err(refusal) = loaded {
            assert_eq!(refusal.code, ErrorCode::MemoryLimit, "{refusal:?}");
        }
    }
}

#[tokio::test]
async fn tables_share_one_limit() {
    let host = without_pool();
    let called = Test::new("wat:grow-tables")
        .on(&host)
        .limit(|limits| limits.table_elements = 5_000)
        .call(json!({}))
        .await;
    let granted = called.succeeded().as_u64().unwrap();
    assert!((1_000..=5_000).contains(&granted), "{granted}");
    let tables = called.0.result.usage.as_ref().unwrap().table_elements;
    assert!(tables.used <= 5_000 && tables.used >= granted, "{tables:?}");
}

#[tokio::test]
async fn endless_recursion_is_a_trap_on_either_stack() {
    let engine = Test::new("hostile#recurse")
        .call(json!({ "stack": "engine" }))
        .await;
    engine.failed("execution_failed", "stack_overflow");
    let memory = Test::new("hostile#recurse")
        .call(json!({ "stack": "memory" }))
        .await;
    memory.failed("execution_failed", "memory_fault");
    // The host's own stack is intact: the same thread answers the next call.
    Test::new("probe#counter").call(json!({})).await.succeeded();
}

/// A function that calls itself as often as its argument says.
const DEEP: &str = r#"(func $deep (param $level i64) (result i64)
        (if (result i64) (i64.eqz (local.get $level))
          (then (i64.const 1))
          (else (i64.xor (local.get $level) (call $deep (i64.sub (local.get $level) (i64.const 1)))))))
      "#;

#[tokio::test]
async fn a_guest_recurses_as_deep_as_two_mebibytes_of_stack_allow() {
    let invoke = "(func (export \"invoke\")\n";
    let answer = ";; At 64, an outcome";
    // A level takes 32 to 96 bytes: half a mebibyte has no room for 20,000 of them, and two have none for 400,000.
    for (levels, fits) in [(20_000, true), (400_000, false)] {
        let text = echo_text("deep", |_| {});
        assert!(
            [invoke, answer]
                .iter()
                .all(|part| text.matches(part).count() == 1)
        );
        let text = text.replace(invoke, &format!("{DEEP}{invoke}")).replace(
            answer,
            &format!("(drop (call $deep (i64.const {levels})))\n        {answer}"),
        );
        let component = wat::parse_str(text).unwrap();
        for host in [without_pool(), Arc::new(host(|settings| settings))] {
            let called = Test::of_bytes(component.clone(), None)
                .on(&host)
                .call(json!({ "n": 1 }))
                .await;
            if fits {
                assert_eq!(called.succeeded(), json!({ "n": 1 }))
            } else {
                _ = called.failed("execution_failed", "stack_overflow")
            }
            assert_eq!(
                called.0.result.usage.as_ref().unwrap().stack_bytes_limit,
                2 << 20
            );
        }
    }
}

#[tokio::test]
async fn handles_of_every_kind_are_bounded() {
    let (_dir, dir) = scratch();
    let file = dir.join("file");
    std::fs::write(&file, "content").unwrap();
    for kind in ["pollables", "streams", "folders", "files"] {
        let flood = |count: u64| {
            Test::new("hostile#flood_handles")
                .read(&dir)
                .limit(|limits| limits.handles = 64)
                .call(json!({ "count": count, "kind": kind, "path": text(&file) }))
        };
        let few = flood(20).await;
        assert_eq!(few.succeeded()["kept"], 20, "{kind}");
        let many = flood(5_000).await;
        many.failed("sandbox_violation", "handle_limit");
    }
}

#[tokio::test]
async fn handles_are_given_back_after_each_call() {
    let (_dir, dir) = scratch();
    let file = dir.join("file");
    std::fs::write(&file, "content").unwrap();
    let open = || {
        let links = std::fs::read_dir("/proc/self/fd").unwrap();
        links
            .filter(|link| {
                link.as_ref()
                    .unwrap()
                    .path()
                    .read_link()
                    .is_ok_and(|target| target == file)
            })
            .count()
    };
    for _ in 0..5 {
        let called = Test::new("hostile#flood_handles")
            .read(&dir)
            .call(json!({ "count": 200, "kind": "files", "path": text(&file) }))
            .await;
        assert_eq!(called.succeeded()["kept"], 200);
    }
    assert_eq!(open(), 0);
}
