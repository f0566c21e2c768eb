//! Batches through the API: what a client that goes away leaves behind, and what one principal can take up.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{ANNA, Api, BERT, SOON, Said, endless, of_two, token_file};
use crate::support::{Web, check_one, records, scratch};

const LINES: [(&str, &str); 1] = [("Content-Type", "application/x-ndjson")];

/// So many calls that run until they are canceled.
fn endless_calls(count: usize) -> Vec<Value> {
    let call = |at: usize| {
        let mut call = endless();
        call["id"] = json!(at.to_string());
        call
    };
    (0..count).map(call).collect()
}

fn lines(calls: &[Value]) -> String {
    calls.iter().map(|call| format!("{call}\n")).collect()
}

#[test]
fn the_calls_of_a_batch_whose_client_goes_away_end_and_are_recorded() {
    let (_guard, path) = scratch();
    let file = path.join("records");
    let web = Web::with(
        &["probe#progress"],
        [
            format!("--record-to={}", file.display()),
            "--timeout=60s".to_owned(),
        ],
    );
    let calls = endless_calls(3);
    let batches = [
        (web.changed(&LINES), lines(&calls)),
        (web.headers(), json!(calls).to_string()),
    ];
    for ((headers, body), count) in batches.into_iter().zip([3, 6]) {
        let waiting = web.begin("POST /v1/batches", &headers, &body);
        std::thread::sleep(Duration::from_millis(500));
        drop(waiting);
        let began = Instant::now();
        while records(&file).len() < count {
            assert!(
                began.elapsed() < SOON,
                "{} of {count} records",
                records(&file).len()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let statuses: Vec<Value> = records(&file)
        .iter()
        .map(|record| record["invocation"]["status"].clone())
        .collect();
    assert_eq!(statuses, ["canceled"; 6]);
}

#[test]
fn the_batches_of_a_principal_have_so_many_calls_at_once() {
    let mut web = of_two(&["probe#progress", "probe#echo"], &["--timeout=2m"]);
    let one = json!([{ "id": "a", "tool": "echo" }]);
    let held = web.send(
        "POST /v1/batches",
        &web.changed(&LINES),
        &lines(&endless_calls(1_000)),
    );
    assert_eq!(held.status, 200, "{}", held.head);
    let refused = web.post("/v1/batches", &[], &one);
    refused.is_problem(429, "too_many_batch_calls");
    assert_eq!(refused.header("retry-after").as_deref(), Some("1"));
    web.token = BERT.to_owned();
    assert_eq!(
        web.post("/v1/batches", &[], &one).status,
        200,
        "another principal has its own room"
    );
    web.token = ANNA.to_owned();
    drop(held);
    let began = Instant::now();
    while web.post("/v1/batches", &[], &one).status != 200 {
        assert!(began.elapsed() < SOON, "the batch keeps its room");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_results_of_a_batch_are_counted_and_what_is_too_much_is_left_out_and_stays_on_record() {
    let (_guard, path) = scratch();
    // Of eight principals, each has an eighth of the memory for results.
    let tokens: String = (0..8)
        .map(|at| format!("p{at} {at}{}\n", &ANNA[1..]))
        .collect();
    let mut web = Web::with(
        &["probe#big"],
        [format!(
            "--token-file={}",
            token_file(&path, "tokens", &tokens)
        )],
    );
    web.token = format!("0{}", &ANNA[1..]);
    let calls: Vec<Value> = (0..250)
        .map(|at| json!({ "id": at.to_string(), "tool": "big", "input": { "bytes": 60_000 } }))
        .collect();
    let is_left_out = |result: &Value| {
        result["model_facing_content"]
            .to_string()
            .contains("is left out here")
    };
    let batch = |calls: &[Value]| {
        let reply = web.post("/v1/batches", &[], &json!(calls));
        assert_eq!(reply.status, 200, "{}", reply.head);
        reply.value()["results"].as_array().unwrap().clone()
    };
    let results = batch(&calls);
    assert_eq!(results.len(), 250);
    assert!(
        results.iter().all(|one| one["result"]["is_error"] == false),
        "each call ran"
    );
    let (left_out, whole): (Vec<_>, Vec<_>) =
        results.iter().partition(|one| is_left_out(&one["result"]));
    assert!(
        !whole.is_empty() && !left_out.is_empty(),
        "{} of them are left out",
        left_out.len()
    );
    let id = left_out[0]["result"]["invocation_id"].as_str().unwrap();
    let recorded = web.get(&format!("/v1/calls/{id}")).value()["result"].clone();
    assert!(!is_left_out(&recorded) && recorded["model_facing_content"].to_string().len() > 60_000);
    // The client has the answer, so there is room again.
    assert!(
        batch(&calls[..10])
            .iter()
            .all(|one| !is_left_out(&one["result"]))
    );
}

#[test]
fn a_batch_answers_with_each_result_as_an_array_or_line_by_line() {
    let web = Web::of(&["probe#echo", "probe#fail"]);
    let calls = json!([
        { "id": "a", "tool": "echo", "input": { "n": 1 } },
        { "id": "b", "tool": "fail", "input": { "class": "execution_failed" } },
        { "id": "c", "tool": "echo", "depends_on": ["b"] },
        { "id": "d", "tool": "nothing" },
    ]);
    let holds = |results: &[Value]| {
        results
            .iter()
            .for_each(|one| check_one("batch-result", one));
        let of = |id: &str| &results.iter().find(|one| one["id"] == id).unwrap()["result"];
        assert_eq!(
            (results.len(), &of("a")["status"]),
            (4, &json!("succeeded"))
        );
        assert_eq!(of("b")["error"]["error_class"], "execution_failed");
        assert_eq!(of("c")["error"]["error_class"], "sibling_canceled");
        assert_eq!(of("d")["error"]["error_class"], "unknown_tool");
    };
    let reply = web.post("/v1/batches", &[], &calls);
    assert_eq!(reply.status, 200, "{reply:?}");
    holds(reply.value()["results"].as_array().unwrap());
    let lines: String = calls
        .as_array()
        .unwrap()
        .iter()
        .map(|call| format!("{call}\n"))
        .collect();
    let reply = web.request(
        "POST /v1/batches",
        &[("Content-Type", "application/x-ndjson")],
        &lines,
    );
    assert_eq!(
        reply.header("content-type").as_deref(),
        Some("application/x-ndjson")
    );
    let results: Vec<Value> = reply
        .body
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    holds(&results);
    let id = results[0]["result"]["invocation_id"].as_str().unwrap();
    assert_eq!(
        web.get(&format!("/v1/calls/{id}")).status,
        200,
        "a call of a batch is found by its id"
    );
    for wrong in [
        json!([]),
        json!({}),
        json!([{ "id": "a", "tool": "x", "depends_on": ["z"] }]),
    ] {
        web.post("/v1/batches", &[], &wrong)
            .is_problem(422, "batch_invalid");
    }
}
