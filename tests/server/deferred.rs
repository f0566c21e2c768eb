//! Tools over the budget of a list: a client searches for them, and loads them before it calls them.
//!
//! Promise: A tool that was not loaded is not called.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::pipeline::doubles::crowd;
use crate::support::{
    Client, OLD, Toolcell, Web, bare_names, check_printed, frame, records, scratch,
};

fn put(folder: &Path, name: &str, component: &[u8]) -> PathBuf {
    let file = folder.join(name);
    std::fs::write(&file, component).unwrap();
    file
}

/// A client of a server that offers these components, and lists `budget` tools from the start.
fn client(components: &[PathBuf], budget: usize) -> Client {
    let mut arguments = vec!["mcp".to_owned(), format!("--max-listed={budget}")];
    arguments.extend(
        components
            .iter()
            .map(|component| component.display().to_string()),
    );
    let mut client = Client::run(Toolcell::new(arguments));
    client.initialize(OLD);
    client
}

fn names(client: &mut Client) -> Vec<String> {
    of_list(&client.request("tools/list", json!({})))
}

fn of_list(answer: &Value) -> Vec<String> {
    bare_names(&answer["result"]["tools"])
}

/// How often the client was told that the list has changed.
fn changes(client: &mut Client) -> usize {
    // The answer comes after every notification before it.
    client.request("ping", json!({}));
    client
        .seen()
        .iter()
        .filter(|frame| frame["method"] == "notifications/tools/list_changed")
        .count()
}

#[track_caller]
fn not_loaded(answer: &Value) {
    assert_eq!(answer["isError"], json!(true), "{answer:#}");
    assert_eq!(
        answer["_meta"]["toolcell/error"]["class"], "schema_not_loaded",
        "{answer:#}"
    );
}

#[test]
fn a_list_over_the_budget_has_the_first_tools_and_those_that_find_the_others() {
    let (_guard, folder) = scratch();
    let mut client = client(
        &[put(&folder, "crowd.wasm", &crowd("list_crowd", 20, |_| {}))],
        3,
    );
    let own = ["search_tools", "load_tool", "read_result"];
    assert_eq!(names(&mut client), [&["t0", "t1", "t2"][..], &own].concat());
    for name in ["t9", "t5"] {
        client.call("load_tool", json!({ "name": name }));
    }
    // The order does not depend on the order of loading.
    assert_eq!(
        names(&mut client),
        [&["t0", "t1", "t2", "t5", "t9"][..], &own].concat()
    );
    let listed = client.request("tools/list", json!({}))["result"]["tools"].clone();
    assert_eq!(
        (&listed[3]["name"], &listed[3]["inputSchema"]["type"]),
        (&json!("list_crowd_t5"), &json!("object"))
    );
}

#[test]
fn a_list_within_the_budget_has_all_tools_and_no_search() {
    let (_guard, folder) = scratch();
    let crowd = put(&folder, "crowd.wasm", &crowd("whole_crowd", 4, |_| {}));
    let mut client = client(&[crowd], 4);
    assert_eq!(names(&mut client), ["t0", "t1", "t2", "t3", "read_result"]);
    let id = client.begin_call("search_tools", json!({ "query": "t0" }));
    let answer = client.answer(&id);
    assert_eq!(
        answer["error"]["data"]["error"]["error_class"], "unknown_tool",
        "{answer}"
    );
}

#[test]
fn no_deferred_tool_can_be_called_before_it_is_loaded() {
    let (_guard, folder) = scratch();
    let lines = folder.join("lines");
    let options = [
        "--max-listed=0".to_owned(),
        format!("--allow-write={}", folder.display()),
    ];
    let mut client = Client::with(&["probe#append", "probe#echo"], &options);
    let arguments = json!({ "path": lines, "text": "ran\n" });
    for (name, arguments) in [
        ("append", arguments.clone()),
        ("probe.append", arguments.clone()),
        // The arguments do not matter: the true error is that the schema is not loaded.
        ("append", json!({ "wrong": true })),
        ("echo", json!({})),
    ] {
        not_loaded(&client.call(name, arguments));
    }
    assert!(!lines.exists());
    // The error names a query; what it finds can be loaded, and called then.
    let refused = client.call("append", arguments.clone());
    let message = refused["content"][0]["text"].as_str().unwrap();
    let query = message
        .split('`')
        .find(|part| part.starts_with("select:"))
        .unwrap()
        .to_owned();
    let found = client.call("search_tools", json!({ "query": query }))["structuredContent"].clone();
    assert_eq!(
        (&found["matches"][0]["name"], &found["next_action"]),
        (&json!("probe_append"), &json!("load"))
    );
    assert_eq!(
        (&found["total_deferred_tools"], changes(&mut client)),
        (&json!(2), 0)
    );
    let loaded = client.call("load_tool", json!({ "name": found["matches"][0]["name"] }));
    assert_eq!(
        loaded["structuredContent"]["tool"]["inputSchema"]["required"],
        json!(["path", "text"])
    );
    assert_eq!(changes(&mut client), 1);
    assert_eq!(client.call("append", arguments)["isError"], json!(false));
    assert_eq!(std::fs::read_to_string(&lines).unwrap(), "ran\n");
    not_loaded(&client.call("echo", json!({})));
    // To load it again changes nothing.
    client.call("load_tool", json!({ "name": "probe.append" }));
    assert_eq!(changes(&mut client), 1);
}

#[test]
fn each_of_a_hundred_deferred_tools_is_refused_and_only_the_loaded_one_runs() {
    let (_guard, folder) = scratch();
    let record = folder.join("record");
    let component = put(&folder, "crowd.wasm", &crowd("refused_crowd", 100, |_| {}));
    let arguments = [
        "mcp",
        "--max-listed=0",
        "--record-to",
        record.to_str().unwrap(),
        component.to_str().unwrap(),
    ];
    let mut client = Client::run(Toolcell::new(arguments));
    client.initialize(OLD);
    for n in 0..100 {
        not_loaded(&client.call(&format!("t{n}"), json!({ "n": n })));
    }
    client.call("load_tool", json!({ "name": "t42" }));
    for n in 0..100 {
        let answer = client.call(&format!("t{n}"), json!({ "n": n }));
        match n {
            42 => assert_eq!(
                answer["structuredContent"],
                json!({ "n": 42 }),
                "{answer:#}"
            ),
            _ => not_loaded(&answer),
        }
    }
    client.close();
    let started = |record: &Value| {
        let events = record["events"].as_array().unwrap();
        events
            .iter()
            .any(|event| event["event_type"] == "tool.invocation.started")
    };
    let records = records(&record);
    assert_eq!(
        (
            records.len(),
            records.iter().filter(|record| started(record)).count()
        ),
        (200, 1)
    );
}

#[test]
fn a_tool_is_loaded_in_one_session_only() {
    let (_guard, folder) = scratch();
    let component = put(&folder, "crowd.wasm", &crowd("session_crowd", 6, |_| {}));
    let arguments = [
        "serve",
        "--listen=127.0.0.1:0",
        "--max-listed=1",
        component.to_str().unwrap(),
    ];
    let web = Web::run(Toolcell::new(arguments));
    let one = web.session(json!({}));
    let other = web.session(json!({}));
    let stateless = |name: &str, arguments: Value| {
        let params = json!({ "name": name, "arguments": arguments });
        web.stateless("tools/call", params, json!({})).answer()["result"].clone()
    };
    let listed = |session: &str| {
        of_list(
            &web.request(
                "POST /mcp",
                &web.in_session(session),
                &frame(json!(2), "tools/list", json!({})),
            )
            .answer(),
        )
    };
    web.call(&one, "load_tool", json!({ "name": "t3" }));
    assert_eq!(
        web.call(&one, "t3", json!({ "n": 1 }))["result"]["structuredContent"],
        json!({ "n": 1 })
    );
    not_loaded(&web.call(&other, "t3", json!({}))["result"]);
    not_loaded(&stateless("t3", json!({})));
    assert_eq!(
        listed(&one),
        ["t0", "t3", "search_tools", "load_tool", "read_result"]
    );
    assert_eq!(
        listed(&other),
        ["t0", "search_tools", "load_tool", "read_result"]
    );
    // Where there are no sessions, the principal has loaded it, and hears of it where it listens.
    let mut params = json!({ "notifications": { "toolsListChanged": true } });
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({ "name": "t", "version": "1" });
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    let more = [
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "subscriptions/listen"),
    ];
    let mut coming = web.send(
        "POST /mcp",
        &web.changed(&more),
        &frame(json!(1), "subscriptions/listen", params),
    );
    assert_eq!(
        coming.next()["method"],
        "notifications/subscriptions/acknowledged"
    );
    stateless("load_tool", json!({ "name": "t4" }));
    assert_eq!(coming.next()["method"], "notifications/tools/list_changed");
    assert_eq!(
        stateless("t4", json!({ "n": 2 }))["structuredContent"],
        json!({ "n": 2 })
    );
    assert_eq!(
        of_list(&web.stateless("tools/list", json!({}), json!({})).answer()),
        ["t0", "t4", "search_tools", "load_tool", "read_result"]
    );
    not_loaded(&web.call(&one, "t4", json!({}))["result"]);
}

#[test]
fn what_tools_declare_of_their_loading_counts() {
    let (_guard, folder) = scratch();
    let component = crowd("declared_crowd", 6, |toolkit| {
        let mut interface = |n: usize, wish: &str| {
            toolkit["declarations"][n]["interface_ref"] = json!(format!("i{n}"));
            let id = format!("declared_crowd.t{n}");
            json!({ "schema_version": "0.2.0", "interface_id": format!("i{n}"), "tool_id": id, wish: true })
        };
        let interfaces = [
            interface(4, "always_load"),
            interface(5, "always_load"),
            interface(0, "should_defer"),
        ];
        toolkit["interfaces"] = json!(interfaces);
        toolkit["declarations"][1]["lifecycle"] = json!("deferred");
        toolkit["declarations"][2]["lifecycle"] = json!("disabled");
    });
    let component = put(&folder, "crowd.wasm", &component);
    let mut small = client(std::slice::from_ref(&component), 1);
    assert_eq!(
        names(&mut small),
        ["t4", "t5", "search_tools", "load_tool", "read_result"]
    );
    let mut large = client(&[component], 100);
    assert_eq!(
        names(&mut large),
        ["t3", "t4", "t5", "search_tools", "load_tool", "read_result"]
    );
    for name in ["t0", "t1"] {
        not_loaded(&large.call(name, json!({})));
        large.call("load_tool", json!({ "name": name }));
        assert_eq!(
            large.call(name, json!({}))["isError"],
            json!(false),
            "{name}"
        );
    }
    let off = large.call("load_tool", json!({ "name": "t2" }));
    assert_eq!(
        (&off["isError"], &off["_meta"]["toolcell/error"]["code"]),
        (&json!(true), &json!("tool_disabled"))
    );
    let found =
        large.call("search_tools", json!({ "query": "select:t2,t9" }))["structuredContent"].clone();
    assert_eq!(
        (&found["matches"][0]["reason"], &found["missing_names"]),
        (&json!("feature_disabled"), &json!(["t9"]))
    );
}

#[test]
fn no_tool_takes_the_name_of_the_search() {
    let (_guard, folder) = scratch();
    let component = crowd("named_crowd", 3, |toolkit| {
        toolkit["declarations"][0]["name"] = json!("search_tools");
        toolkit["declarations"][1]["aliases"] = json!(["load_tool"]);
    });
    let component = put(&folder, "crowd.wasm", &component);
    let mut whole = client(std::slice::from_ref(&component), 3);
    assert_eq!(
        names(&mut whole),
        ["search_tools", "t1", "t2", "read_result"]
    );
    let answer = whole.call("named_crowd_search_tools", json!({ "n": 1 }));
    assert_eq!(answer["structuredContent"], json!({ "n": 1 }));
    let mut client = client(&[component], 2);
    assert_eq!(
        names(&mut client),
        [
            "search_tools",
            "t1",
            "search_tools",
            "load_tool",
            "read_result"
        ]
    );
    let found =
        client.call("search_tools", json!({ "query": "word2x" }))["structuredContent"].clone();
    assert_eq!(found["matches"][0]["name"], "named_crowd_t2");
    assert_eq!(
        client.call("load_tool", json!({ "name": "t2" }))["structuredContent"]["loaded"],
        "named_crowd_t2"
    );
}

#[test]
fn each_of_a_thousand_tools_is_found_and_loaded() {
    let (_guard, folder) = scratch();
    let component = |part: usize| {
        let component = crowd(&format!("thousand_{part}"), 250, |toolkit| {
            for n in 0..250 {
                let all = part * 250 + n;
                toolkit["declarations"][n]["name"] = json!(format!("t{all}"));
                toolkit["declarations"][n]["description"] =
                    json!(format!("Answers its input about word{all}x"));
            }
        });
        put(&folder, &format!("{part}.wasm"), &component)
    };
    let mut client = client(&[0, 1, 2, 3].map(component), 20);
    let listed = names(&mut client);
    assert_eq!((listed.len(), listed[19].as_str()), (23, "t19"));
    for n in (0..1_000).step_by(111) {
        let found = client.call(
            "search_tools",
            json!({ "query": format!("input about word{n}x"), "limit": 3 }),
        );
        let found = &found["structuredContent"];
        let name = format!("thousand_{}_t{n}", n / 250);
        assert_eq!(
            (
                &found["matches"][0]["name"],
                found["matches"].as_array().unwrap().len()
            ),
            (&json!(name), 3)
        );
        client.call("load_tool", json!({ "name": name }));
        assert_eq!(
            client.call(&name, json!({ "n": n }))["structuredContent"],
            json!({ "n": n })
        );
    }
}

#[test]
fn arguments_of_the_own_tools_are_checked() {
    let (_guard, folder) = scratch();
    let mut client = client(
        &[put(
            &folder,
            "crowd.wasm",
            &crowd("checked_crowd", 2, |_| {}),
        )],
        0,
    );
    let long = "x".repeat(1_001);
    for (tool, arguments, code) in [
        ("search_tools", json!({}), "schema_mismatch"),
        (
            "search_tools",
            json!({ "query": "x", "more": 1 }),
            "schema_mismatch",
        ),
        ("search_tools", json!({ "query": " " }), "query_empty"),
        ("search_tools", json!({ "query": long }), "query_too_long"),
        ("load_tool", json!({ "name": 7 }), "schema_mismatch"),
        ("load_tool", json!({ "name": "nothing" }), "unknown_tool"),
    ] {
        let answer = client.call(tool, arguments);
        assert_eq!(
            (
                &answer["isError"],
                &answer["_meta"]["toolcell/error"]["code"]
            ),
            (&json!(true), &json!(code))
        );
    }
    let none = client.call("search_tools", json!({ "query": "\" OR zebra*" }))["structuredContent"]
        .clone();
    assert_eq!(
        (&none["matches"], &none["next_action"]),
        (&json!([]), &json!("search_again"))
    );
    assert_eq!(none["query"], "\" OR zebra*");
    // Everything that the search of a client returns satisfies the published schema.
    let found =
        client.call("search_tools", json!({ "query": "answers" }))["structuredContent"].clone();
    check_printed(&found);
    assert_eq!(found["matches"].as_array().unwrap().len(), 2);
}
