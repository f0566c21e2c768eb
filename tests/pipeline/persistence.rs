//! Phase 12: content that is too large for a result becomes a payload, and stays completely readable.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use toolcell::Host;
use toolcell_spec::digest;

use crate::support::{Called, Test, scratch};

use super::doubles::{declaring, home_with_own_payloads, own_host};

const LIMIT: u64 = 64 << 10;
/// The size of a text block includes its quotes.
const QUOTES: u64 = 2;

fn storing_host(folder: &Path) -> Arc<Host> {
    own_host(|settings| {
        settings
            .home(home_with_own_payloads(folder))
            .inline_bytes_max(LIMIT)
    })
}

fn payloads(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder.join("payloads")) else {
        return Vec::new();
    };
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// The only payload in `folder`; checks that its file name and the record agree with its digest.
#[track_caller]
fn payload(folder: &Path, called: &Called) -> Vec<u8> {
    let names = payloads(folder);
    assert_eq!(names.len(), 1, "{names:?}");
    let bytes = std::fs::read(folder.join("payloads").join(&names[0])).unwrap();
    let decision = &called.0.persistence[0];
    let kept = decision.persisted_ref.as_ref().unwrap();
    assert_eq!(digest(&bytes), format!("sha256:{}", names[0]));
    assert_eq!(
        (kept.digest.as_str(), kept.size_bytes),
        (digest(&bytes).as_str(), bytes.len() as u64)
    );
    assert_eq!(kept.uri, format!("toolcell:payload/{}", kept.digest));
    assert_eq!(decision.original_size_bytes, bytes.len() as u64);
    assert_eq!(
        called.0.result.resource_refs[0]["digest"],
        kept.digest.as_str()
    );
    assert_eq!(called.0.result.persistence_refs, [decision.decision_id]);
    assert_eq!(
        serde_json::to_value(decision).unwrap()["strategy"],
        "preview_and_persist"
    );
    bytes
}

#[tokio::test]
async fn an_output_exactly_at_the_limit_stays_in_the_result_and_one_byte_more_does_not() {
    let (_guard, folder) = scratch();
    let host = storing_host(&folder);
    let called = Test::new("probe#big")
        .on(&host)
        .call(json!({"bytes": LIMIT - QUOTES}))
        .await;
    assert_eq!(
        called.0.result.content[0].as_text().unwrap().len() as u64,
        LIMIT - QUOTES
    );
    assert_eq!(
        serde_json::to_value(called.0.persistence[0].strategy).unwrap(),
        "inline"
    );
    assert!(called.0.result.resource_refs.is_empty() && payloads(&folder).is_empty());

    let called = Test::new("probe#big")
        .on(&host)
        .call(json!({"bytes": LIMIT - QUOTES + 1}))
        .await;
    called.ended("succeeded", "succeeded");
    assert_eq!(
        payload(&folder, &called),
        "x".repeat((LIMIT - QUOTES) as usize + 1).into_bytes()
    );
    assert!(called.events().contains(&"tool.result.persisted"));
}

#[tokio::test]
async fn the_preview_of_a_large_text_is_whole_characters_and_the_record_says_how_many_bytes() {
    let (_guard, folder) = scratch();
    let called = Test::new("probe#big_multibyte")
        .on(&storing_host(&folder))
        .call(json!({"bytes": LIMIT}))
        .await;
    let text = String::from_utf8(payload(&folder, &called)).unwrap();
    assert_eq!(text, "\u{1F980}".repeat(LIMIT as usize / 4));
    let block = called.record()["result"]["content"][0].clone();
    assert_eq!(
        (&block["type"], &block["of"]),
        (&json!("persisted_output_ref"), &json!("text"))
    );
    let preview = block["preview"].as_str().unwrap();
    assert!(!preview.is_empty() && text.starts_with(preview));
    assert_eq!(
        called.0.persistence[0].preview_size_bytes,
        preview.len() as u64
    );
    let shown = serde_json::to_string(&called.0.result.model_facing_content).unwrap();
    assert!((shown.len() as u64) < LIMIT && shown.contains(preview));
}

#[tokio::test]
async fn the_same_output_again_is_the_same_file() {
    use std::os::unix::fs::MetadataExt;
    let (_guard, folder) = scratch();
    let host = storing_host(&folder);
    let mut written = Vec::new();
    for _ in 0..3 {
        let called = Test::new("probe#big")
            .on(&host)
            .call(json!({"bytes": 100_000}))
            .await;
        payload(&folder, &called);
        let file = folder.join("payloads").join(&payloads(&folder)[0]);
        written.push(std::fs::metadata(file).unwrap().ino());
    }
    assert!(
        written.iter().all(|file| *file == written[0]),
        "nothing was written again"
    );
}

#[tokio::test]
async fn a_payload_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let (_guard, folder) = scratch();
    Test::new("probe#big")
        .on(&storing_host(&folder))
        .call(json!({"bytes": 100_000}))
        .await
        .ended("succeeded", "succeeded");
    for path in [
        folder.join("payloads"),
        folder.join("payloads").join(&payloads(&folder)[0]),
    ] {
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
    }
}

#[tokio::test]
async fn a_large_structured_output_is_kept_as_json() {
    let (_guard, folder) = scratch();
    let called = Test::new("probe#structured_big")
        .on(&storing_host(&folder))
        .call(json!({"bytes": 100_000}))
        .await;
    let value: Value = serde_json::from_slice(&payload(&folder, &called)).unwrap();
    assert_eq!(value["text"].as_str().unwrap().len(), 100_000);
    let result = &called.record()["result"];
    assert!(result.get("structured_content").is_none());
    assert_eq!(result["content"][0]["of"], "structured_content");
    assert_eq!(
        result["content"][0]["persisted_ref"]["media_type"],
        "application/json"
    );
}

#[tokio::test]
async fn a_large_log_is_kept_and_no_model_reads_its_preview() {
    let (_guard, folder) = scratch();
    let called = Test::new("hostile#flood_stdout")
        .on(&storing_host(&folder))
        .call(json!({"mib": 1}))
        .await;
    called.ended("succeeded", "succeeded");
    let result = &called.record()["result"];
    let blocks = result["content"].as_array().unwrap();
    assert!(
        blocks.iter().any(|block| block["of"] == "log"),
        "{:?}",
        blocks.len()
    );
    let shown = result["model_facing_content"].to_string();
    assert!(!shown.contains("persisted_output_ref"), "{}", &shown[..200]);
}

#[tokio::test]
async fn the_limit_that_a_tool_states_counts_where_it_is_the_lower_one() {
    let (_guard, folder) = scratch();
    let host = storing_host(&folder);
    let bytes = declaring("persistence_limit", |declaration| {
        declaration["output_contract"] = json!({"max_inline_chars": 1_000});
    });
    let call = |text: String| {
        Test::of_bytes(bytes.clone(), None)
            .on(&host)
            .call(json!({ "text": text }))
    };
    call("x".repeat(900)).await.succeeded();
    assert!(payloads(&folder).is_empty());
    let called = call("x".repeat(1_100)).await;
    called.ended("succeeded", "succeeded");
    assert_eq!(
        serde_json::from_slice::<Value>(&payload(&folder, &called)).unwrap()["text"]
            .as_str()
            .unwrap()
            .len(),
        1_100
    );
    let preview = called.record()["result"]["content"][0]["preview"]
        .as_str()
        .unwrap()
        .len();
    assert!(preview < 1_000, "a preview of {preview} bytes");
}

#[tokio::test]
async fn a_text_that_is_larger_than_a_small_limit_does_not_stay() {
    let (_guard, folder) = scratch();
    let host = own_host(|settings| {
        settings
            .home(home_with_own_payloads(&folder))
            .inline_bytes_max(4_000)
    });
    let called = Test::new("probe#big")
        .on(&host)
        .call(json!({"bytes": 6_000}))
        .await;
    called.ended("succeeded", "succeeded");
    assert_eq!(payload(&folder, &called).len(), 6_000);
    assert!(
        serde_json::to_string(&called.0.result.content)
            .unwrap()
            .len()
            < 4_000
    );
}

#[tokio::test]
async fn many_small_blocks_are_kept_as_one_payload() {
    let (_guard, folder) = scratch();
    let host = own_host(|settings| {
        settings
            .home(home_with_own_payloads(&folder))
            .inline_bytes_max(300)
    });
    let called = Test::new("probe#blocks").on(&host).call(json!({})).await;
    called.ended("succeeded", "succeeded");
    let kept: Value = serde_json::from_slice(&payload(&folder, &called)).unwrap();
    assert_eq!(kept.as_array().unwrap().len(), 8, "all but the log");
    assert_eq!(called.record()["result"]["content"][0]["of"], "content");
}

#[tokio::test]
async fn an_output_that_cannot_be_stored_is_dropped_with_the_reason() {
    let (_guard, folder) = scratch();
    std::fs::write(folder.join("payloads"), "in the way").unwrap();
    let called = Test::new("probe#big")
        .on(&storing_host(&folder))
        .call(json!({"bytes": 100_000}))
        .await;
    called
        .failed("result_too_large", "not_persistable")
        .ended("too_large", "failed");
    assert!(called.0.result.content.is_empty() && called.0.result.resource_refs.is_empty());
    let decision = serde_json::to_value(called.0.persistence.last().unwrap()).unwrap();
    assert_eq!(
        (&decision["strategy"], &decision["preview_size_bytes"]),
        (&json!("drop_with_reason"), &json!(0))
    );
    assert!(called.0.result.usage.is_some());
    assert!(
        !called.message().contains(folder.to_str().unwrap()),
        "no path of the host in a message"
    );
}

/// What `probe#say` is told to answer: a text, and the same as rows.
fn table(rows: usize) -> (String, Value) {
    let row = |n: usize| json!({ "id": n, "name": format!("name of row {n}") });
    let rows: Vec<Value> = (0..rows).map(row).collect();
    let text: Vec<String> = rows
        .iter()
        .map(|row| format!("{}\t{}", row["id"], row["name"].as_str().unwrap()))
        .collect();
    (text.join("\n"), json!({ "rows": rows }))
}

#[tokio::test]
async fn structured_output_that_a_text_says_too_is_kept_without_a_second_preview() {
    for (rows, is_whole) in [(1_300, true), (4_000, false)] {
        let (_guard, folder) = scratch();
        let host = storing_host(&folder);
        let (text, structured) = table(rows);
        let said =
            json!({ "content": [{ "type": "text", "text": text }], "structured": structured });
        let called = Test::new("probe#say").on(&host).call(said).await;
        called.ended("succeeded", "succeeded");
        let result = &called.0.result;
        let [only] = result.content.as_slice() else {
            panic!("one block: {:?}", result.content)
        };
        assert_eq!(
            only.as_text().is_some_and(|shown| shown == text),
            is_whole,
            "{rows} rows"
        );
        assert!(
            !serde_json::to_string(&result.model_facing_content)
                .unwrap()
                .contains("[cut]")
        );
        assert!(result.structured_content.is_none(), "{rows} rows");
        let kept = std::fs::read_dir(folder.join("payloads"))
            .unwrap()
            .map(|file| file.unwrap().path());
        let kept: Vec<Vec<u8>> = kept.map(|file| std::fs::read(file).unwrap()).collect();
        assert!(kept.iter().any(|bytes| {
            serde_json::from_slice::<Value>(bytes).is_ok_and(|value| value == structured)
        }));
        assert_eq!(result.resource_refs.len(), if is_whole { 1 } else { 2 });
    }
}

#[tokio::test]
async fn an_outline_has_whole_rows_and_not_the_marks_of_many() {
    let (_guard, folder) = scratch();
    let (_, structured) = table(4_000);
    let said =
        json!({ "content": [{ "type": "text", "text": "4000 rows" }], "structured": structured });
    let called = Test::new("probe#say")
        .on(&storing_host(&folder))
        .call(said)
        .await;
    let outline = called.record()["result"]["content"][1]["preview"]
        .as_str()
        .unwrap()
        .to_owned();
    let outline: Value = serde_json::from_str(&outline).unwrap();
    let (last, rows) = outline["rows"].as_array().unwrap().split_last().unwrap();
    assert!(
        rows.len() > 20 && rows[..] == structured["rows"].as_array().unwrap()[..rows.len()],
        "{outline}"
    );
    assert!(last.as_str().unwrap().ends_with("more items]"), "{outline}");
}
