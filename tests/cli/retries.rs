//! `--retry` and `[retry]`: which failed calls of the program run again.

use serde_json::{Value, json};

use super::guest;
use crate::support::{Client, OLD, Toolcell, records, scratch};

/// The record of a call of `flaky`.
fn flaky(options: &[&str], until: u64) -> Value {
    let tool = guest("probe#flaky");
    let input = json!({ "until": until }).to_string();
    let call = ["call", &tool, &input, "--print-record"];
    Toolcell::new(call.iter().chain(options)).run().json()
}

fn attempts(record: &Value) -> usize {
    let events = record["events"].as_array().unwrap().iter();
    events
        .filter(|event| event["event_type"] == "tool.invocation.started")
        .count()
}

#[test]
fn a_call_is_tried_again_as_often_as_the_command_line_or_the_file_says() {
    let (_guard, folder) = scratch();
    let file = folder.join("settings.toml");
    std::fs::write(&file, "[retry]\nattempts = 3\nbackoff = \"1ms\"\n").unwrap();
    let config = format!("--config={}", file.display());
    for (options, expected) in [
        (&["--no-config"][..], 1),
        (&["--no-config", "--retry=1"], 2),
        (&[&config], 3),
        (&[&config, "--retry=0"], 1),
        (&[&config, "--retry=9"], 4),
    ] {
        let record = flaky(options, 4);
        assert_eq!(attempts(&record), expected, "{options:?}");
        assert_eq!(
            record["result"]["is_error"],
            json!(expected < 4),
            "{options:?}"
        );
    }
    let wrong = Toolcell::new(["call", "x", "{}", "--retry=10"])
        .run()
        .exits(2);
    assert!(wrong.stderr.contains("--retry"), "{}", wrong.stderr);
}

#[test]
fn the_calls_of_a_batch_are_tried_again_too() {
    let line = |id: &str, until: u64| json!({ "id": id, "tool": guest("probe#flaky"), "input": { "until": until } });
    let calls = format!("{}\n{}\n", line("a", 2), line("b", 1));
    let ran = Toolcell::new(["batch", "-", "--no-config", "--retry=1", "--print-record"])
        .stdin(&calls)
        .run()
        .exits(0);
    let tried: Vec<usize> = ran
        .stdout
        .lines()
        .map(|line| attempts(&serde_json::from_str(line).unwrap()))
        .collect();
    assert_eq!(tried, [2, 1]);
}

#[test]
fn a_server_follows_the_file() {
    let (_guard, folder) = scratch();
    let file = folder.join("settings.toml");
    let record = folder.join("records");
    std::fs::write(&file, "[retry]\nattempts = 2\nbackoff = \"1ms\"\n").unwrap();
    let tool = guest("probe#flaky");
    let options = [
        format!("--config={}", file.display()),
        format!("--record-to={}", record.display()),
    ];
    let mut client = Client::run(Toolcell::new(
        ["mcp", &tool]
            .into_iter()
            .chain(options.iter().map(String::as_str)),
    ));
    client.initialize(OLD);
    let answer = client.call("flaky", json!({ "until": 2 }));
    assert_eq!(
        answer["structuredContent"]["attempt"],
        json!(2),
        "{answer:#}"
    );
    client.close();
    assert_eq!(attempts(&records(&record)[0]), 2);
}
