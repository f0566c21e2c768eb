//! Attacks on time.

use std::time::Duration;

use serde_json::json;

use super::arena::{Arena, assembled};
use super::meters;
use crate::support::wat;

/// Time limit of checks and descriptions.
const DESCRIBE: Duration = Duration::from_secs(2);

pub(super) async fn spin(arena: &Arena) {
    for tool in [
        "hostile#spin",
        "hostile#spin_fuel",
        "hostile#clock_flood",
        "wat:spin-realloc",
        "wat:spin-post-return",
        "act#spin",
        "act#spin_politely",
        "act#spin_in_a_stream",
    ] {
        arena
            .call(arena.test(tool).timeout_ms(200), json!({}))
            .await;
    }
}

/// The start function runs before any call, even before the tool describes itself.
pub(super) async fn spin_at_the_start(arena: &Arena) {
    arena
        .load(arena.test_of(&wat("spin-start")), DESCRIBE)
        .await;
}

/// One instruction over all the memory that the profile allows; epochs are not checked during an instruction.
pub(super) async fn bulk_operations(arena: &Arena) {
    let pages = 4_090_u32;
    let bytes = (pages - 2) * 65_536;
    for instruction in [
        format!("(memory.fill (i32.const 131072) (i32.const 1) (i32.const {bytes}))"),
        format!(
            "(memory.copy (i32.const 131072) (i32.const 131073) (i32.const {}))",
            bytes - 1
        ),
    ] {
        let body = format!("(loop $for_ever {instruction} (br $for_ever))");
        arena
            .call(
                arena
                    .test_of(&assembled(pages, "", "", &body))
                    .timeout_ms(300),
                json!({}),
            )
            .await;
    }
}

pub(super) async fn more_spinners_than_cores(arena: &Arena) {
    // Long enough for a 99th percentile of the neighbour that is not only the first moment.
    const DEADLINE_MS: u64 = 2_000;
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let spinners = (0..4 * cores).map(|number| {
        let tool = [
            "hostile#spin",
            "hostile#spin_fuel",
            "hostile#memcpy_loop",
            "hostile#clock_flood",
        ][number % 4];
        arena
            .test(tool)
            .limit(|limits| limits.memory_bytes = 16 << 20)
            .timeout_ms(DEADLINE_MS)
    });
    // Without tasks of their own, the calls would share this task, and so one core.
    let calls: Vec<_> = spinners
        .map(|test| tokio::spawn(arena_free(test)))
        .collect();
    let begun = std::time::Instant::now();
    let cpu = meters::cpu_seconds();
    for call in calls {
        let (verdict, record) = call.await.unwrap();
        arena.verdict(verdict);
        arena.shown(&record);
    }
    arena.in_time(
        begun.elapsed(),
        arena.allowed(Duration::from_millis(DEADLINE_MS)),
    );
    // One processor is left to the neighbours, except for the time that guests get before they queue for turns.
    let used = meters::cpu_seconds() - cpu;
    let had = begun.elapsed().as_secs_f64();
    let allowed = had * (cores as f64 - 0.4).max(1.0);
    arena.holds(
        used <= allowed,
        format!("N: the guests computed for {used:.2} s in {had:.2} s on {cores} processors"),
    );
}

async fn arena_free(test: crate::support::Test) -> (String, String) {
    let called = test.call(json!({})).await;
    let error = called.0.result.error.as_ref().unwrap();
    let class = serde_json::to_value(error.error_class).unwrap();
    (
        format!("{}/{}", class.as_str().unwrap(), error.error_code),
        called.record().to_string(),
    )
}

pub(super) async fn sleep_for_ever(arena: &Arena) {
    for tool in ["hostile#sleep", "hostile#sleep_ignore_cancel", "act#sleep"] {
        arena
            .call(arena.test(tool).timeout_ms(200), json!({}))
            .await;
    }
}

/// Canceled after 50 ms: in a spin loop, blocked in the host's clock, and during a write.
pub(super) async fn deaf_to_cancellation(arena: &Arena) {
    let folder = arena.folder("canceled");
    let path = folder.join("lines");
    for (tool, input) in [
        ("hostile#spin", json!({})),
        ("hostile#sleep", json!({})),
        ("act#spin", json!({})),
        ("act#spin_politely", json!({})),
        ("act#sleep", json!({})),
        ("hostile#busy_write", json!({ "path": path })),
        (
            "hostile#fill_disk",
            json!({ "path": folder, "how": "rewrite" }),
        ),
    ] {
        let cancel = Duration::from_millis(50);
        let test = arena.test(tool).write(&folder).cancel_after(cancel);
        let begun = std::time::Instant::now();
        arena.call(test, input).await;
        arena.in_time(begun.elapsed(), arena.allowed(cancel));
    }
    let size =
        |path: &std::path::Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    let before = size(&path);
    tokio::time::sleep(Duration::from_millis(100)).await;
    arena.holds(
        before > 0 && size(&path) == before,
        "C: a canceled call still writes",
    );
}
