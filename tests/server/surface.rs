//! The surface of a session: settings that change while a server runs, and what a model cannot take.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http_api::{Api, BERT, Said, of_two};
use crate::pipeline::doubles::crowd;
use crate::support::{
    Client, OLD, Toolcell, Web, bare_names, check_one, component, records, scratch,
};

struct Shop {
    _guard: tempfile::TempDir,
    folder: PathBuf,
}

impl Shop {
    fn new(namespace: &str, config: &str) -> Self {
        let (guard, folder) = scratch();
        let component = crowd(namespace, 4, |toolkit| {
            toolkit["declarations"][3]["interface_ref"] = json!("i3");
            let id = format!("{namespace}.t3");
            toolkit["interfaces"] = json!([{
                "schema_version": "0.2.0", "interface_id": "i3", "tool_id": id, "is_enabled": "feature:beta",
            }]);
        });
        std::fs::write(folder.join("crowd.wasm"), component).unwrap();
        let shop = Self {
            _guard: guard,
            folder,
        };
        shop.configure(config);
        shop
    }

    fn configure(&self, surface: &str) {
        let next = self.folder.join("next");
        std::fs::write(
            &next,
            format!("{surface}\n[[tool]]\ncomponent = \"crowd.wasm\"\n"),
        )
        .unwrap();
        std::fs::rename(next, self.folder.join("toolcell.toml")).unwrap();
    }

    fn client(&self, options: &[&str]) -> Client {
        let all = ["mcp", "--config=toolcell.toml"].iter().chain(options);
        let mut client = Client::run(
            Toolcell::new(all)
                .dir(&self.folder)
                .env("TOOLCELL_SESSION", ""),
        );
        client.initialize(OLD);
        client
    }
}

/// The names of the listed tools, and the id of the surface.
fn listed(client: &mut Client) -> (Vec<String>, String) {
    let listed = client.request("tools/list", json!({}))["result"].clone();
    (
        bare_names(&listed["tools"]),
        listed["_meta"]["toolcell/surface_id"]
            .as_str()
            .unwrap()
            .to_owned(),
    )
}

fn error(answer: &Value) -> (&str, &str) {
    let error = &answer["_meta"]["toolcell/error"];
    (
        error["class"].as_str().unwrap(),
        error["code"].as_str().unwrap(),
    )
}

#[test]
fn each_setting_that_changes_is_named_and_counts_for_the_next_call() {
    let shop = Shop::new("surface_knobs", "");
    let mut client = shop.client(&["--record-to=record"]);
    let (names, mut id) = listed(&mut client);
    assert_eq!(names, ["t0", "t1", "t2", "read_result"]);
    assert_eq!(
        error(&client.call("t3", json!({}))),
        ("policy_blocked", "tool_disabled")
    );
    for (config, reason, expected) in [
        (
            "[surface]\nfeatures = [\"beta\"]",
            "updated: feature gates",
            &["t0", "t1", "t2", "t3", "read_result"][..],
        ),
        (
            "[surface]\nmax_listed = 2",
            "budget",
            &["t0", "t1", "search_tools", "load_tool", "read_result"],
        ),
        (
            "[[rule]]\nbehavior = \"deny\"\ntool = \"*.t1\"",
            "policy",
            &["t0", "t2", "read_result"],
        ),
        (
            "[surface]\nrole = \"r\"\n[surface.roles]\nr = [\"t2\"]",
            "role",
            &["t2", "read_result"],
        ),
        (
            "mode = \"plan\"",
            "runtime mode",
            &["t0", "t1", "t2", "read_result"],
        ),
        (
            "[surface]\nmedia = [\"text\"]",
            "model capabilities",
            &["t0", "t1", "t2", "read_result"],
        ),
        (
            "[surface]\ntool_choice = \"none\"",
            "tool choice",
            &["t0", "t1", "t2", "read_result"],
        ),
    ] {
        shop.configure(config);
        let began = Instant::now();
        let said = loop {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "{config} changed nothing"
            );
            let (names, now) = listed(&mut client);
            if now != id {
                id = now;
                break names;
            }
        };
        assert_eq!(said, expected, "{config}");
        assert!(
            client
                .says(reason)
                .contains("the list of tools that clients can call changed (updated: "),
            "{config}"
        );
    }
    assert_eq!(
        error(&client.call("t0", json!({}))),
        ("policy_blocked", "tool_choice_none")
    );
    client.close();
    let records = records(&shop.folder.join("record"));
    let of_last = &records.last().unwrap()["invocation"]["surface_id"];
    assert_eq!((of_last, records.len()), (&json!(id), 2));
    assert_ne!(records[0]["invocation"]["surface_id"], *of_last);
}

#[test]
fn what_a_session_loads_changes_its_own_surface() {
    let shop = Shop::new("surface_sessions", "[surface]\nmax_listed = 1");
    let mut one = shop.client(&[]);
    let mut other = shop.client(&[]);
    let shared = listed(&mut one).1;
    assert_eq!(listed(&mut other).1, shared);
    one.call("load_tool", json!({ "name": "t1" }));
    let (names, own) = listed(&mut one);
    assert!(
        names.contains(&"t1".to_owned()) && own.starts_with(&shared) && own != shared,
        "{own}"
    );
    assert_eq!(listed(&mut other).1, shared);
    assert_eq!(error(&other.call("t1", json!({}))).0, "schema_not_loaded");
    // What cannot be called cannot be loaded either.
    assert_eq!(
        error(&one.call("load_tool", json!({ "name": "t3" }))),
        ("policy_blocked", "tool_disabled")
    );
}

/// Why a tool is blocked can be seen before it is called.
#[test]
fn a_client_sees_its_surface_as_it_is_for_its_own_session() {
    let denial = "[surface]\nmax_listed = 1\n[[rule]]\nbehavior = \"deny\"\ntool = \"*.t1\"\n";
    let shop = Shop::new("surface_seen", denial);
    let mut one = shop.client(&[]);
    let mut other = shop.client(&[]);
    let seen = |client: &mut Client| {
        let surface = client.request("toolcell/surface", json!({}))["result"].clone();
        check_one("tool-surface", &surface);
        assert_eq!(
            (&surface["scope"], &surface["surface_id"]),
            (&json!("session"), &json!(listed(client).1))
        );
        let refs: Vec<&str> = surface["runtime_refs"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        assert!(
            matches!(refs.as_slice(), [component, host, session]
                if component.starts_with("component:") && host.starts_with("toolcell/")
                    && session.starts_with("session:mcp:")),
            "{refs:?}"
        );
        surface
    };
    let first = seen(&mut one);
    assert_eq!(first["loaded_tools"], json!(["surface_seen.t0"]));
    assert_eq!(first["deferred_tools"][0]["name"], "surface_seen_t2");
    let blocked = &first["blocked_tools"][0];
    assert_eq!(
        (&blocked["tool_id"], &blocked["reason"]),
        (&json!("surface_seen.t1"), &json!("policy_blocked"))
    );
    assert!(
        blocked["policy_refs"][0]
            .as_str()
            .unwrap()
            .starts_with("deny tool"),
        "{blocked}"
    );
    assert_eq!(first["excluded_tools"][0]["reason"], "feature_disabled");
    assert_eq!(first["surface_reason"], "created: the tools were loaded");
    one.call("load_tool", json!({ "name": "t2" }));
    let loaded = seen(&mut one);
    assert_eq!(
        (&loaded["loaded_tools"], &loaded["deferred_tools"]),
        (&json!(["surface_seen.t0", "surface_seen.t2"]), &json!([]))
    );
    assert_eq!(
        loaded["surface_reason"],
        "updated: the caller loaded 1 of the tools"
    );
    assert_eq!(seen(&mut other)["loaded_tools"], json!(["surface_seen.t0"]));
    shop.configure("[surface]\nfeatures = [\"beta\"]");
    one.says("the list of tools that clients can call changed");
    let reason = seen(&mut one)["surface_reason"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        reason.starts_with("updated: ") && reason.contains("feature gates"),
        "{reason}"
    );
}

#[test]
fn each_principal_sees_its_own_surface_over_http() {
    let mut web = of_two(&["probe#echo", "probe#empty"], &["--max-listed=1"]);
    let seen = |web: &Web| {
        let surface = web.get("/v1/surface").value();
        check_one("tool-surface", &surface);
        assert_eq!(
            surface["surface_id"],
            web.get("/v1/tools").value()["surface_id"]
        );
        let deferred: Value = surface["deferred_tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].clone())
            .collect();
        let session = surface["runtime_refs"].as_array().unwrap().last().unwrap();
        assert!(
            session.as_str().unwrap().starts_with("session:run:"),
            "{session}"
        );
        (
            surface["scope"].clone(),
            surface["loaded_tools"].clone(),
            deferred,
        )
    };
    let before = (
        json!("session"),
        json!(["probe.echo"]),
        json!(["probe_empty"]),
    );
    assert_eq!(seen(&web), before);
    let call = json!({ "tool": "empty", "input": {} });
    let early = web.post("/v1/calls", &[], &call);
    let way = "GET /v1/tools/probe.empty loads it";
    assert!(early.body.contains(way), "{}", early.body);
    assert_eq!(web.get("/v1/tools/probe.empty").status, 200);
    assert!(!web.post("/v1/calls", &[], &call).body.contains(way));
    assert_eq!(
        seen(&web),
        (
            json!("session"),
            json!(["probe.echo", "probe.empty"]),
            json!([])
        )
    );
    web.token = BERT.to_owned();
    assert_eq!(seen(&web), before);
}

#[test]
fn a_role_of_the_command_line_has_its_tools_only() {
    let shop = Shop::new(
        "surface_roles",
        "[surface.roles]\nreader = [\"t0\"]\nwriter = [\"t1\", \"t2\"]",
    );
    let mut reader = shop.client(&["--role=reader"]);
    assert_eq!(listed(&mut reader).0, ["t0", "read_result"]);
    assert_eq!(
        error(&reader.call("t1", json!({}))),
        ("policy_blocked", "role_not_allowed")
    );
    let mut writer = shop.client(&["--role=writer"]);
    assert_eq!(listed(&mut writer).0, ["t1", "t2", "read_result"]);
    let none = Toolcell::new(["mcp", "--config=toolcell.toml", "--role=other"])
        .dir(&shop.folder)
        .run()
        .exits(3);
    assert!(
        none.stderr.contains("the role \"other\" is in no file"),
        "{}",
        none.stderr
    );
}

#[test]
fn a_model_without_images_gets_a_text_instead() {
    let (_guard, folder) = scratch();
    std::fs::write(
        folder.join("toolcell.toml"),
        "[surface]\nmedia = [\"text\"]\n",
    )
    .unwrap();
    let everything = component("example-tools/everything").display().to_string();
    let arguments = ["mcp", &everything, "--config=toolcell.toml"];
    let mut client = Client::run(Toolcell::new(arguments).dir(&folder));
    client.initialize(OLD);
    let names = listed(&mut client).0;
    assert!(
        !names.contains(&"test_image_content".to_owned()),
        "{names:?}"
    );
    assert_eq!(
        error(&client.call("test_image_content", json!({}))),
        ("capability_gap", "model_unsupported")
    );
    let mixed = client.call("test_multiple_content_types", json!({}));
    let types: Vec<&Value> = mixed["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| &block["type"])
        .collect();
    assert!(
        types.iter().all(|kind| **kind == "text") && types.len() == 3,
        "{mixed:#}"
    );
    assert_eq!(
        mixed["content"][1]["text"],
        "[image left out: the model does not take it]"
    );
}
