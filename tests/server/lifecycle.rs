use serde_json::{Value, json};

use crate::cli::example;
use crate::support::{Client, NEW, OLD, Toolcell, root, scratch};

#[test]
fn instructions_say_what_was_granted() {
    let (_guard, folder) = scratch();
    for name in ["in", "out"] {
        std::fs::create_dir(folder.join(name)).unwrap();
    }
    let read = folder.join("in").display().to_string();
    let write = folder.join("out").display().to_string();
    let told = |options: &[&str]| {
        let files = example("files");
        let mut client =
            Client::run(Toolcell::new([&["mcp", files.as_str()], options].concat()).dir(&folder));
        client.initialize(OLD)["result"]["instructions"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let none = told(&[]);
    assert!(
        none.contains("- files: none\n") && none.contains("- requests: none"),
        "{none}"
    );
    let some = told(&["--allow-read=in", "--allow-net=api.example.com"]);
    assert!(
        some.contains(&format!(
            "- files: may be read in {read}; writing is not allowed\n"
        )),
        "{some}"
    );
    assert!(
        some.contains(&format!("- relative paths start in {read}\n")),
        "{some}"
    );
    assert!(
        some.contains("- requests: to https://api.example.com"),
        "{some}"
    );
    let both = told(&["--allow-read=in", "--allow-write=out"]);
    assert!(
        both.contains(&format!(
            "may be read in {read}; read and written in {write}\n"
        )),
        "{both}"
    );
    assert!(!both.contains("relative paths"), "{both}");
}

#[test]
fn the_name_of_a_tool_stays_when_another_one_is_added() {
    let listed = |tools: &[&str]| {
        let tools = tools.iter().map(|tool| example(tool));
        let sample = root().join("example-tools/sql/sample");
        let grant = format!("--allow-read={}", sample.display());
        let arguments: Vec<String> = ["mcp".to_owned(), grant].into_iter().chain(tools).collect();
        let mut client = Client::run(Toolcell::new(arguments));
        client.initialize(OLD);
        let listed = client.request("tools/list", json!({}))["result"]["tools"].clone();
        let names: Vec<String> = listed
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect();
        // A name alone, or that with a dot, still finds the tool, where only one has it.
        for name in ["query", "sql.query"] {
            let input = json!({ "files": [{ "path": "requests.csv" }], "sql": "select 'found ' || count(*) from requests" });
            let found = client.call(name, input);
            assert!(
                found["isError"] == json!(false) && found.to_string().contains("found 8"),
                "{found:#}"
            );
        }
        names
    };
    let alone = listed(&["sql"]);
    assert_eq!(alone, ["sql_query", "sql_schema", "read_result"]);
    assert_eq!(
        listed(&["files", "sql", "jq"])[5..],
        ["sql_query", "sql_schema", "jq", "read_result"]
    );
}

#[test]
fn both_revisions_are_negotiated() {
    let mut client = Client::silent(&["probe#echo"], [""; 0]);
    let greeted = client.initialize(OLD)["result"].clone();
    assert_eq!(greeted["protocolVersion"], OLD);
    assert_eq!(greeted["serverInfo"]["name"], "toolcell");
    assert!(
        greeted["capabilities"]["tools"].is_object()
            && greeted["capabilities"]["resources"].is_object()
    );
    let mut client = Client::silent(&["probe#echo"], [""; 0]);
    client.speak_new();
    let found = client.request("server/discover", json!({}))["result"].clone();
    let versions: Vec<&str> = found["supportedVersions"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert!(
        versions.contains(&OLD) && versions.contains(&NEW),
        "{found}"
    );
    let answer = client.request(
        "tools/call",
        json!({ "name": "echo", "arguments": { "a": 1 } }),
    )["result"]
        .clone();
    assert_eq!(
        (&answer["resultType"], &answer["isError"]),
        (&json!("complete"), &json!(false))
    );
    assert_eq!(answer["structuredContent"]["input"], json!({ "a": 1 }));
}

#[test]
fn an_unknown_revision_gets_one_that_the_server_speaks() {
    let mut client = Client::silent(&["probe#echo"], [""; 0]);
    let greeted = client.initialize("1999-01-01");
    assert_eq!(greeted["result"]["protocolVersion"], OLD);
}

#[test]
fn tools_are_listed_with_what_a_model_may_see() {
    let mut client = Client::of(&["probe"]);
    let listed = client.request("tools/list", json!({}))["result"]["tools"].clone();
    let tool = |name: &str| {
        let name = format!("probe_{name}");
        listed
            .as_array()
            .unwrap()
            .iter()
            .find(|tool| tool["name"] == name.as_str())
            .cloned()
    };
    let echo = tool("echo").unwrap();
    assert_eq!(echo["inputSchema"]["type"], "object");
    assert!(echo["description"].as_str().unwrap().contains("verbatim"));
    let hints = &echo["annotations"];
    assert_eq!(
        (&hints["readOnlyHint"], &hints["openWorldHint"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(
        tool("write").unwrap()["annotations"]["destructiveHint"],
        json!(true)
    );
    assert_eq!(
        tool("net").unwrap()["annotations"]["openWorldHint"],
        json!(true)
    );
    assert_eq!(
        tool("good_structured").unwrap()["outputSchema"]["type"],
        "object"
    );
    for hidden in [
        "draft",
        "disabled",
        "deferred",
        "deprecated",
        "retired",
        "requires_setup",
    ] {
        assert!(
            tool(&format!("lifecycle_{hidden}")).is_none(),
            "{hidden} is listed"
        );
    }
    // A deprecated tool still runs for clients that know its name.
    assert_eq!(
        client.call("lifecycle_deprecated", json!({}))["isError"],
        json!(false)
    );
    // A field that only hooks may fill is in no answer, and a client cannot send it.
    assert!(!listed.to_string().contains("zz_internal_7f3"));
    let refused = client.call("internal", json!({ "query": "q", "zz_internal_7f3": "x" }));
    assert_eq!(refused["isError"], json!(true));
    assert_eq!(
        refused["_meta"]["toolcell/error"]["class"],
        "schema_validation_failed"
    );
}

#[test]
fn only_what_was_offered_can_be_called() {
    let mut client = Client::of(&["probe#echo"]);
    let listed = client.request("tools/list", json!({}))["result"]["tools"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 2);
    for name in ["counter", "probe.counter", "nothing"] {
        let id = client.begin_call(name, json!({}));
        let answer = client.answer(&id);
        assert_eq!(answer["error"]["code"], json!(-32602), "{answer}");
        assert_eq!(
            answer["error"]["data"]["error"]["error_class"],
            "unknown_tool"
        );
        assert_eq!(answer["error"]["data"]["status"], "failed");
    }
}

#[test]
fn a_bare_name_of_two_tools_finds_neither() {
    let mut client = Client::of(&["cancellable", "hostile"]);
    let listed = client.request("tools/list", json!({}))["result"]["tools"].clone();
    let names: Vec<&str> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    for name in [
        "cancellable_sleep_ignore_cancel",
        "hostile_sleep_ignore_cancel",
        "hostile_spin",
    ] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    let id = client.begin_call("sleep_ignore_cancel", json!({}));
    assert_eq!(
        client.answer(&id)["error"]["data"]["error"]["error_class"],
        "unknown_tool"
    );
    let answer = client.call("acknowledge_unasked", json!({}));
    assert_eq!(answer["_meta"]["toolcell/error"], Value::Null, "{answer}");
}

#[test]
fn a_server_without_its_tools_does_not_start() {
    let client = Client::silent(&["probe#no_such_tool"], [""; 0]);
    let (status, _, stderr, frames) = client.close();
    assert_eq!(status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("no_such_tool") && frames.is_empty());
}
