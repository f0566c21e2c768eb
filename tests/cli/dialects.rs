//! `toolcell export` and `toolcell respond`: one loaded tool in the messages of each API.
//!
//! Promise: A model reaches only the tools that it was given.

use serde_json::{Value, json};

use super::guest;
use crate::pipeline::doubles::crowd;
use crate::support::{Home, Ran, Toolcell, scratch};

/// The dialects that carry calls in the messages of a model.
const SPOKEN: [&str; 3] = ["openai", "openai-responses", "anthropic"];

/// A message of a model with these calls: id, name, and the text of the arguments.
fn message(dialect: &str, calls: &[(&str, &str, &str)]) -> Value {
    let item = |(id, name, text): &(&str, &str, &str)| match dialect {
        "openai" => {
            json!({ "id": id, "type": "function", "function": { "name": name, "arguments": text } })
        }
        "openai-responses" => {
            json!({ "type": "function_call", "call_id": id, "name": name, "arguments": text })
        }
        "anthropic" => {
            // Arguments that are not JSON cannot be in a message; a text can.
            let input = serde_json::from_str(text).unwrap_or_else(|_| json!(text));
            json!({ "type": "tool_use", "id": id, "name": name, "input": input })
        }
        other => panic!("{other} carries no calls"),
    };
    let items: Value = calls.iter().map(item).collect();
    match dialect {
        "openai" => {
            let message = json!({ "role": "assistant", "content": null, "tool_calls": items });
            json!({ "object": "chat.completion", "choices": [{ "index": 0, "message": message }] })
        }
        "openai-responses" => json!({ "object": "response", "output": items }),
        _ => json!({ "type": "message", "role": "assistant", "content": items }),
    }
}

/// Runs the calls of a message, with so little memory for each that any machine holds all of them.
fn run(dialect: &str, tools: &[&str], options: &[&str], message: &Value) -> Ran {
    let dialect = format!("--dialect={dialect}");
    let small = [
        dialect.as_str(),
        "--memory=16MiB",
        "--max-output=1MiB",
        "--no-config",
    ];
    Toolcell::new([&["respond"], tools, &small[..], options].concat())
        .stdin(&message.to_string())
        .run()
}

/// One result as a model gets it.
#[derive(Debug, PartialEq)]
struct Told {
    id: String,
    text: String,
    images: usize,
}

impl Told {
    fn of(id: &Value, parts: &[Value]) -> Self {
        let texts: Vec<&str> = parts
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect();
        Self {
            id: id.as_str().unwrap().to_owned(),
            text: texts.join("\n"),
            images: parts.len() - texts.len(),
        }
    }

    /// Whether it is the result `id`, and an error of this class and code.
    #[track_caller]
    fn failed(&self, id: &str, class_and_code: &str) {
        let start = format!("ERROR [{class_and_code}");
        assert!(
            self.id == id && self.text.starts_with(&start) && self.text.contains("\nHint: "),
            "{self:?}"
        );
    }
}

/// The results in what `run` printed, in their order. Those of chat completions have their images behind them.
#[track_caller]
fn told(dialect: &str, printed: &Value) -> Vec<Told> {
    let list = |value: &Value| {
        value
            .as_array()
            .unwrap_or_else(|| panic!("{printed:#}"))
            .clone()
    };
    match dialect {
        "openai" => {
            let results = list(printed)
                .into_iter()
                .filter(|message| message["role"] == "tool");
            let text = |content: &Value| json!({ "text": content });
            results
                .map(|one| Told::of(&one["tool_call_id"], &[text(&one["content"])]))
                .collect()
        }
        "openai-responses" => {
            let one = |item: &Value| {
                assert_eq!(item["type"], "function_call_output");
                let output = &item["output"];
                let parts = output
                    .as_array()
                    .cloned()
                    .unwrap_or_else(|| vec![json!({ "text": output })]);
                Told::of(&item["call_id"], &parts)
            };
            list(printed).iter().map(one).collect()
        }
        _ => {
            let [message] = list(printed)
                .try_into()
                .unwrap_or_else(|_| panic!("{printed:#}"));
            assert_eq!(message["role"], "user");
            let one = |block: &Value| {
                let told = Told::of(&block["tool_use_id"], &list(&block["content"]));
                assert_eq!(
                    block["is_error"],
                    json!(told.text.starts_with("ERROR [")),
                    "{block}"
                );
                told
            };
            list(&message["content"]).iter().map(one).collect()
        }
    }
}

fn exported(dialect: &str, tools: &[&str], options: &[&str]) -> Value {
    let dialect = format!("--dialect={dialect}");
    Toolcell::new(
        [
            &["export"],
            tools,
            &[dialect.as_str(), "--no-config"],
            options,
        ]
        .concat(),
    )
    .run()
    .exits(0)
    .json()
}

fn probes(names: &[&str]) -> Vec<String> {
    names
        .iter()
        .map(|name| guest(&format!("probe#{name}")))
        .collect()
}

fn borrowed(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

#[test]
fn each_call_of_a_message_has_one_result_in_the_order_of_the_calls() {
    let tools = probes(&["echo", "empty", "fail", "good_structured"]);
    let fails =
        json!({ "class": "dependency_unavailable", "message": "no answer", "detail": "zz-detail" })
            .to_string();
    let calls = [
        ("one", "echo", "{\"n\": 1.0}"),
        ("two", "echo", "{\"n\": "),
        ("three", "no_such_tool", "{}"),
        ("four", "fail", fails.as_str()),
        ("five", "empty", ""),
        ("six", "good_structured", "{}"),
        ("one", "empty", "{}"),
    ];
    for dialect in SPOKEN {
        let ran = run(dialect, &borrowed(&tools), &[], &message(dialect, &calls)).exits(2);
        let told = told(dialect, &ran.json());
        let [one, two, three, four, five, six, again] = told.as_slice() else {
            panic!("{told:#?}")
        };
        assert!(
            one.id == "one" && one.text.contains("\"input\":{\"n\":1.0}"),
            "{one:?}"
        );
        two.failed("two", "invalid_arguments/arguments_not_json]");
        three.failed(
            "three",
            "unknown_tool/unknown_tool]: no tool named `no_such_tool`; available: probe_echo, ",
        );
        four.failed("four", "dependency_unavailable/told_to_fail]: no answer");
        assert_eq!(
            (five.id.as_str(), five.text.as_str()),
            ("five", "(no output)")
        );
        assert_eq!((six.id.as_str(), six.text.as_str()), ("six", "{\"n\":7}"));
        assert_eq!(
            (again.id.as_str(), again.text.as_str()),
            ("one", "(no output)"),
            "a model repeats an id"
        );
        assert!(!ran.stdout.contains("zz-detail"), "{}", ran.stdout);
    }
}

#[test]
fn images_reach_the_model_where_its_api_takes_them() {
    let tools = probes(&["blocks", "empty"]);
    let calls = [("one", "blocks", "{}"), ("two", "empty", "{}")];
    for dialect in SPOKEN {
        let printed = run(dialect, &borrowed(&tools), &[], &message(dialect, &calls))
            .exits(0)
            .json();
        let told = told(dialect, &printed);
        assert_eq!(told.len(), 2, "{printed:#}");
        let one = &told[0];
        let notes = [
            "a text",
            "[audio: audio/wav, 12 bytes]",
            "[file: notes.txt, text/plain, 5 bytes]",
            "a memo",
            "+new",
        ];
        assert!(notes.iter().all(|note| one.text.contains(note)), "{one:?}");
        assert!(!one.text.contains("a line of a log"), "{one:?}");
        assert_eq!(one.images, usize::from(dialect != "openai"), "{printed:#}");
        if dialect == "openai" {
            let roles: Vec<&Value> = printed
                .as_array()
                .unwrap()
                .iter()
                .map(|message| &message["role"])
                .collect();
            assert_eq!(
                roles,
                ["tool", "tool", "user"],
                "no message may come between the results"
            );
            let parts = printed[2]["content"].as_array().unwrap();
            assert!(
                parts[0]["text"].as_str().unwrap().contains("tool call one"),
                "{parts:?}"
            );
            let url = parts[1]["image_url"]["url"].as_str().unwrap();
            assert!(
                url.starts_with("data:image/png;base64,iVBORw0KGgo"),
                "{url}"
            );
        }
    }
}

#[test]
fn a_large_result_is_a_preview_and_a_reference_and_a_change_of_the_context_is_for_the_operator() {
    let big = guest("probe#big");
    let modifier = guest("modifier#modify");
    let set = json!({ "changes": [{ "key": "zz", "value": 7 }] }).to_string();
    let calls = [
        ("big", "big", "{\"bytes\": 200000}"),
        ("set", "modify", set.as_str()),
    ];
    for dialect in SPOKEN {
        let ran = run(dialect, &[&big, &modifier], &[], &message(dialect, &calls)).exits(0);
        let told = told(dialect, &ran.json());
        assert!(
            told[0].text.starts_with("xxx") && told[0].text.len() < 100_000,
            "{}",
            told[0].text.len()
        );
        let reference =
            "[cut: 200000 bytes of text in all, in the resource toolcell:payload/sha256:";
        assert!(told[0].text.contains(reference), "{}", told[0].text);
        assert!(
            ran.stderr.contains("set: context| zz = 7"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn grants_and_limits_are_the_same_in_every_dialect() {
    let (_guard, folder) = scratch();
    std::fs::write(folder.join("note"), "what is in it").unwrap();
    let tools = probes(&["read", "timeboxed"]);
    let path = json!({ "path": folder.join("note") }).to_string();
    let calls = [
        ("read", "read", path.as_str()),
        ("slow", "timeboxed", "{\"ms\": 60000}"),
    ];
    let grant = format!("--allow-read={}", folder.display());
    for dialect in SPOKEN {
        let message = message(dialect, &calls);
        let refused = told(
            dialect,
            &run(dialect, &borrowed(&tools), &[], &message)
                .exits(3)
                .json(),
        );
        refused[0].failed("read", "permission_denied/");
        let granted = told(
            dialect,
            &run(dialect, &borrowed(&tools), &[&grant], &message)
                .exits(4)
                .json(),
        );
        assert!(granted[0].text.contains("what is in it"), "{granted:?}");
        granted[1].failed("slow", "timeout/");
    }
}

#[test]
fn a_model_reaches_no_tool_that_it_was_not_offered() {
    let tools = probes(&["counter"]);
    let echo = guest("probe#echo");
    let path = echo.split_once('#').unwrap().0.to_owned();
    for dialect in SPOKEN {
        for name in [
            echo.as_str(),
            path.as_str(),
            "echo",
            "probe.echo",
            "probe_echo",
            "probe#counter",
            "",
        ] {
            let message = message(dialect, &[("one", name, "{}")]);
            let told = told(
                dialect,
                &run(dialect, &borrowed(&tools), &[], &message)
                    .exits(2)
                    .json(),
            );
            told[0].failed("one", "unknown_tool/unknown_tool]");
        }
    }
}

#[test]
fn a_message_that_cannot_be_read_runs_nothing() {
    let home = Home::new();
    let echo = guest("probe#echo");
    let many: Vec<(&str, &str, &str)> = vec![("one", "echo", "{}"); 1_001];
    let many = message("openai", &many).to_string();
    let large = format!(
        "{{\"role\": \"assistant\", \"content\": \"{}\"}}",
        "x".repeat(16 << 20)
    );
    for (text, why) in [
        ("", "the text is not a JSON object"),
        ("{\"choices\": [", "cannot read the message: EOF"),
        ("{\"output\": []}", "cannot find a message"),
        (many.as_str(), "a batch has at most 1000 calls"),
        (large.as_str(), "more than 16777216 bytes"),
    ] {
        let arguments = ["respond", &echo, "--dialect=openai", "--no-config"];
        let ran = home.toolcell(&arguments).stdin(text).run().exits(2);
        assert!(
            ran.stdout.is_empty() && ran.stderr.contains(why),
            "{}",
            ran.stderr
        );
    }
    assert!(home.calls(&[]).is_empty());
    let missing = home
        .toolcell(&[
            "respond",
            &echo,
            "--dialect=openai",
            "--message=no/such/file",
        ])
        .run()
        .exits(2);
    assert!(
        missing.stderr.contains("cannot open no/such/file"),
        "{}",
        missing.stderr
    );
    let no_tool = home.toolcell(&["respond", "no/such/tool", "--dialect=openai", "--no-config"]);
    let ran = no_tool
        .stdin(&message("openai", &[("one", "echo", "{}")]).to_string())
        .run()
        .exits(2);
    assert!(
        ran.stdout.is_empty() && ran.stderr.contains("no/such/tool"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_message_without_calls_has_no_answer() {
    let echo = guest("probe#echo");
    for (dialect, text) in [
        ("openai", json!({ "role": "assistant", "content": "done" })),
        (
            "openai-responses",
            json!({ "output": [{ "type": "message", "content": [] }] }),
        ),
        (
            "anthropic",
            json!({ "role": "assistant", "content": [{ "type": "text", "text": "done" }] }),
        ),
    ] {
        let ran = run(dialect, &[&echo], &[], &text).exits(0);
        assert_eq!(ran.json(), json!([]), "{dialect}");
        assert!(
            ran.stderr.contains("note: the message calls no tool"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn a_call_of_amplifier_has_its_events_once_each_with_the_keys_of_both_pages() {
    let tools = probes(&[
        "echo",
        "fail",
        "good_structured",
        "blocks",
        "sensitive",
        "hold_writing",
    ]);
    let call = |id: &str, name: &str, arguments: Value| json!({ "id": id, "name": name, "arguments": arguments });
    let calls = [
        call("echo", "echo", json!({ "n": 1 })),
        call(
            "fails",
            "fail",
            json!({ "class": "dependency_unavailable", "message": "no answer" }),
        ),
        call("unknown", "no_such_tool", json!({})),
        call("denied", "hold_writing", json!({ "path": "/", "ms": 0 })),
        call("value", "good_structured", json!({})),
        call("image", "blocks", json!({})),
        call(
            "hidden",
            "sensitive",
            json!({ "user": "ada", "token": "zz-token-of-the-test" }),
        ),
    ];
    let response =
        json!({ "content": [{ "type": "text", "text": "I look" }], "tool_calls": calls });
    for (dialect, is_seed) in [("amplifier", false), ("amplifier-seed", true)] {
        let printed = run(dialect, &borrowed(&tools), &[], &response)
            .exits(1)
            .json();
        let messages = printed.as_array().unwrap();
        assert_eq!(messages.len(), calls.len(), "{printed:#}");
        for (call, message) in calls.iter().zip(messages) {
            assert_eq!(
                (&message["role"], &message["tool_call_id"]),
                (&json!("tool"), &call["id"])
            );
            assert_eq!(message["name"], call["name"]);
            let result = &message["metadata"]["tool_result"];
            let failed = ["fails", "unknown", "denied"]
                .iter()
                .any(|id| call["id"] == *id);
            assert_eq!(result["success"], !failed, "{message:#}");
            let [before, after] = message["metadata"]["events"].as_array().unwrap().as_slice()
            else {
                panic!("{message:#}")
            };
            assert_eq!(
                (&before["event"], &after["event"]),
                (
                    &json!("tool:pre"),
                    &json!(if failed { "tool:error" } else { "tool:post" }),
                )
            );
            for data in [&before["data"], &after["data"]] {
                assert_eq!(
                    (&data["tool_name"], &data["tool_call_id"]),
                    (&call["name"], &call["id"])
                );
                assert!(
                    data["input"] == data["tool_input"] && data["input"].is_object(),
                    "{data:#}"
                );
            }
            let data = &after["data"];
            assert!(
                data["result"] == data["tool_result"] && data["result"]["success"] == !failed,
                "{data:#}"
            );
            assert_eq!(data.get("error").is_some(), failed);
            assert_eq!(
                data["error"],
                if failed {
                    result["error"].clone()
                } else {
                    Value::Null
                }
            );
            assert_eq!(result["error"].is_string(), failed && is_seed, "{result:#}");
        }
        let [echo, fails, _, denied, value, image, _] = messages.as_slice() else {
            panic!()
        };
        assert!(
            echo["content"]
                .as_str()
                .unwrap()
                .contains("\"input\":{\"n\":1}"),
            "{echo:#}"
        );
        assert!(
            fails["content"]
                .as_str()
                .unwrap()
                .contains("no answer [dependency_unavailable/told_to_fail]")
        );
        assert!(
            denied["content"]
                .as_str()
                .unwrap()
                .contains("[permission_denied/"),
            "{denied:#}"
        );
        let output = &value["metadata"]["tool_result"]["output"];
        assert_eq!(
            output,
            &if is_seed {
                json!("{\"n\":7}")
            } else {
                json!({ "n": 7 })
            }
        );
        assert!(
            image["content"]
                .as_array()
                .unwrap()
                .iter()
                .any(|block| block["type"] == "image"),
            "{image:#}"
        );
        assert!(
            !image["metadata"]["events"]
                .to_string()
                .contains("iVBORw0KGgo"),
            "events reach logs"
        );
        assert!(
            !printed.to_string().contains("zz-token-of-the-test"),
            "{printed:#}"
        );
    }
}

#[test]
fn a_tool_is_exported_in_the_terms_of_each_api() {
    let echo = guest("probe#good_structured");
    let [chat] = exported("openai", &[&echo], &[])
        .as_array()
        .unwrap()
        .clone()
        .try_into()
        .unwrap();
    assert_eq!(
        (&chat["type"], &chat["function"]["name"]),
        (&json!("function"), &json!("probe_good_structured"))
    );
    let schema = &chat["function"]["parameters"];
    assert_eq!(schema["type"], "object");
    assert!(!chat["function"]["description"].as_str().unwrap().is_empty());
    let responses = &exported("openai-responses", &[&echo], &[])[0];
    assert_eq!(
        (&responses["type"], &responses["name"]),
        (&json!("function"), &json!("probe_good_structured"))
    );
    assert!(
        responses["parameters"] == *schema && responses["strict"].is_boolean(),
        "{responses}"
    );
    let anthropic = &exported("anthropic", &[&echo], &[])[0];
    assert_eq!(
        (&anthropic["name"], &anthropic["input_schema"]),
        (&json!("probe_good_structured"), schema)
    );
    assert!(
        anthropic.get("type").is_none() && anthropic.get("defer_loading").is_none(),
        "{anthropic}"
    );
    let mcp = &exported("mcp", &[&echo], &[])[0];
    assert_eq!(
        (&mcp["name"], &mcp["inputSchema"]),
        (&json!("probe_good_structured"), schema)
    );
    let agentool = &exported("agentool", &[&echo], &[])[0];
    assert_eq!(
        (&agentool["name"], &agentool["parameters"]),
        (&json!("probe_good_structured"), schema)
    );
    let amplifier = &exported("amplifier", &[&echo], &[])[0];
    assert_eq!(
        (&amplifier["name"], &amplifier["input_schema"]),
        (&json!("probe_good_structured"), schema)
    );
    for dialect in ["otc", "otc-seed", "arcade"] {
        let definition = &exported(dialect, &[&echo], &[])[0];
        let name = definition["fully_qualified_name"]
            .as_str()
            .or(definition["id"].as_str())
            .unwrap();
        assert!(
            name.contains("good_structured") && definition["input"]["parameters"].is_array(),
            "{definition}"
        );
    }
    let ran = Toolcell::new(["respond", &echo, "--dialect=mcp"])
        .run()
        .exits(2);
    assert!(ran.stderr.contains("openai-responses"), "{}", ran.stderr);
    let none = Toolcell::new(["export", "no/such/tool", "--dialect=openai", "--no-config"])
        .run()
        .exits(2);
    assert!(
        none.stdout.is_empty() && none.stderr.contains("no/such/tool"),
        "{}",
        none.stderr
    );
}

#[test]
fn every_exported_name_fits_its_api_and_leads_back_to_its_tool() {
    let home = Home::new();
    let one = home.keep("one.wasm", &crowd("dialects.one", 2, |_| {}));
    let other = home.keep("other.wasm", &crowd("dialects.other", 2, |_| {}));
    let ids = [
        "dialects.one.t0",
        "dialects.one.t1",
        "dialects.other.t0",
        "dialects.other.t1",
    ];
    for dialect in SPOKEN {
        let tools = exported(dialect, &[&one, &other], &[]);
        let name = |tool: &Value| {
            tool.get("function").unwrap_or(tool)["name"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let names: Vec<String> = tools.as_array().unwrap().iter().map(name).collect();
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        assert!(
            names
                .iter()
                .all(|name| name.chars().all(fits) && name.len() <= 64),
            "{names:?}"
        );
        assert_eq!(names[0], "dialects_one_t0");
        for (name, id) in names.iter().zip(ids) {
            let message = message(dialect, &[("one", name, "{}")]).to_string();
            let option = format!("--dialect={dialect}");
            home.toolcell(&["respond", &one, &other, &option, "--no-config"])
                .stdin(&message)
                .run()
                .exits(0);
            let call = home.calls(&[])[0].clone();
            assert_eq!(call["tool_id"], id);
            let shown = home
                .toolcell(&["show", call["invocation_id"].as_str().unwrap(), "--json"])
                .run()
                .exits(0);
            let invocation = shown.json()["invocation"].clone();
            let mapping = json!({
                "source": dialect, "tool_call_id": "one", "function_name": name, "strict": false, "defer_loading": false,
            });
            assert_eq!(
                (
                    &invocation["external_mappings"],
                    &invocation["native_call_id"]
                ),
                (&json!([mapping]), &json!("one"))
            );
        }
    }
}

#[test]
fn calls_that_their_request_wants_one_by_one_run_so_and_are_printed_as_those_of_a_batch() {
    let home = Home::new();
    let tool = guest("probe#hold");
    let calls = ["one", "two"].map(|id| (id, "probe_hold", r#"{"ms": 100}"#));
    let run = |message: &Value, form: &str| {
        let run = home.toolcell(&[
            "respond",
            &tool,
            "--dialect=openai-responses",
            "--no-config",
            form,
        ]);
        run.stdin(&message.to_string()).run().exits(0).stdout
    };
    let mut asked = message("openai-responses", &calls);
    asked["parallel_tool_calls"] = json!(false);
    asked["tool_choice"] = json!("auto");
    let records: Vec<Value> = run(&asked, "--print-record")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let [one, two] = records.as_slice() else {
        panic!("{records:?}")
    };
    let at = |record: &Value, field: &str| record["invocation"][field].as_str().unwrap().to_owned();
    assert!(at(one, "ended_at") <= at(two, "started_at"), "{one}\n{two}");
    assert_eq!(
        one["invocation"]["scheduler_policy"]["max_parallel"],
        json!(1),
        "{one}"
    );
    let mapping = &two["invocation"]["external_mappings"][0];
    assert_eq!(
        (&mapping["parallel_tool_calls"], &mapping["tool_choice"]),
        (&json!(false), &json!("auto"))
    );
    let printed = run(&message("openai-responses", &calls), "--json");
    let lines: Vec<Value> = printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        lines.iter().map(|line| &line["id"]).collect::<Vec<_>>(),
        ["one", "two"]
    );
    assert!(
        lines
            .iter()
            .all(|line| line["result"]["status"] == "succeeded"),
        "{printed}"
    );
}

#[test]
fn a_deferred_tool_is_in_the_list_only_where_the_api_searches_tools() {
    let home = Home::new();
    let tools = home.keep(
        "deferred.wasm",
        &crowd("dialects.deferred", 3, |toolkit| {
            toolkit["declarations"][1]["lifecycle"] = json!("deferred");
            toolkit["declarations"][2]["lifecycle"] = json!("retired");
        }),
    );
    let export = |dialect: &str, options: &[&str]| {
        let dialect = format!("--dialect={dialect}");
        home.toolcell(&[&["export", &tools, &dialect, "--no-config"], options].concat())
            .run()
            .exits(0)
    };
    for dialect in ["openai", "mcp"] {
        let ran = export(dialect, &[]);
        assert_eq!(ran.json().as_array().unwrap().len(), 1, "{}", ran.stdout);
        assert!(
            ran.stderr.contains(&format!(
                "1 deferred tools are not in the list, because {dialect} has"
            )),
            "{}",
            ran.stderr
        );
    }
    for dialect in ["openai-responses", "anthropic"] {
        let listed = export(dialect, &[]).json();
        let deferred: Vec<&Value> = listed
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| &tool["defer_loading"])
            .collect();
        assert_eq!(deferred, [&Value::Null, &json!(true)], "{listed:#}");
        let all = export(dialect, &["--max-listed=0"]).json();
        assert!(
            all.as_array()
                .unwrap()
                .iter()
                .all(|tool| tool["defer_loading"] == true),
            "{all:#}"
        );
    }
    for (dialect, exit) in [("openai", 2), ("openai-responses", 0), ("anthropic", 0)] {
        let message = message(dialect, &[("one", "t1", "{}")]);
        let printed = run(dialect, &[&tools], &[], &message).exits(exit).json();
        if exit == 2 {
            told(dialect, &printed)[0].failed("one", "schema_not_loaded/");
            assert!(printed.to_string().contains("#select:dialects.deferred.t1"));
            let selected = format!("{tools}#select:dialects.deferred.t1");
            home.toolcell(&["call", &selected, "{}"]).run().exits(0);
        }
        let retired = self::message(dialect, &[("one", "t2", "{}")]);
        let printed = run(dialect, &[&tools], &[], &retired).exits(3).json();
        told(dialect, &printed)[0].failed("one", "capability_gap/tool_retired]");
    }
}
