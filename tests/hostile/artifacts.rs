//! Attacks on the store through artifacts: floods of writes, files and names, and references that no call was given.

use serde_json::json;

use super::arena::Arena;

/// What the store holds: payloads, and drafts of calls.
fn stored(arena: &Arena) -> (usize, usize) {
    let count = |folder: std::path::PathBuf| std::fs::read_dir(folder).map_or(0, Iterator::count);
    let payloads = arena.home.payloads();
    let drafts = payloads.join("drafts");
    (
        count(payloads) - usize::from(drafts.exists()),
        count(drafts),
    )
}

/// Endless files, tiny writes, too many files and open files, huge chunks and names. Nothing stays on disk.
pub(super) async fn floods(arena: &Arena) {
    let endless = json!([{ "bytes": 1_u64 << 40, "chunk": 1 << 20, "refer": false }]);
    for files in [
        endless,
        json!([{ "bytes": 1_u64 << 40, "chunk": 1, "refer": false }]),
        json!([{ "bytes": 8 << 20, "chunk": 8 << 20, "refer": false }]),
        json!([{ "text": "x", "name": "\u{1b}]0;x", "name_times": 1_000_000, "refer": false }]),
        json!([{ "text": "x", "media_type": "x".repeat(1 << 20), "refer": false }]),
    ] {
        let test = arena
            .test("probe#artifacts")
            .limit(|limits| limits.artifact_bytes = 64 << 20)
            .timeout_ms(1_500);
        let called = arena.call(test, json!({ "files": files })).await;
        arena.holds(
            called.0.result.artifact_refs.is_empty(),
            "an artifact was kept",
        );
        let used = called
            .0
            .result
            .usage
            .and_then(|usage| usage.artifacts)
            .map_or(0, |artifacts| artifacts.bytes.used);
        arena.holds(used <= 64 << 20, format!("Q: {used} bytes were written"));
    }
    for finish in ["yes", "never", "keep_open"] {
        let files = json!([{ "text": "x", "finish": finish, "refer": false }]);
        let test = arena.test("probe#artifacts").timeout_ms(3_000);
        let called = arena
            .call(test, json!({ "files": files, "repeat": 10_000 }))
            .await;
        let used = called
            .0
            .result
            .usage
            .and_then(|usage| usage.artifacts)
            .map_or(0, |artifacts| artifacts.created.used);
        arena.holds(used <= 100, format!("Q: {used} artifacts were created"));
    }
    arena.holds(
        stored(arena) == (0, 0),
        format!("Q: the store holds {:?}", stored(arena)),
    );
}

/// References to unfinished artifacts, to those of other calls, to payloads, and to paths.
pub(super) async fn forgeries(arena: &Arena) {
    let files = json!([{ "text": "mine" }]);
    let kept = arena
        .call(arena.test("probe#artifacts"), json!({ "files": files }))
        .await;
    let record = kept
        .0
        .result
        .artifact_refs
        .first()
        .cloned()
        .unwrap_or_default();
    let before = stored(arena);
    arena.holds(before == (1, 0), format!("the store holds {before:?}"));
    for field in ["reference", "uri", "digest", "id", "name"] {
        let input = json!({ "files": [{ "text": "other", "finish": "never" }], "refer_to": [record[field]] });
        arena
            .call(arena.test("probe#artifacts"), input)
            .await
            .failed("execution_failed", "artifact_ref_invalid");
    }
    for reference in [
        "",
        "toolcell:artifact/",
        "../drafts",
        "/etc/passwd",
        "\u{1b}[2J",
    ] {
        let called = arena
            .call(
                arena.test("probe#artifacts"),
                json!({ "refer_to": [reference] }),
            )
            .await;
        called.failed("execution_failed", "artifact_ref_invalid");
        arena.holds(
            !called.message().contains('\u{1b}'),
            "L: an escape is in a message",
        );
    }
    arena.holds(
        stored(arena) == before,
        format!("the store holds {:?}", stored(arena)),
    );
}
