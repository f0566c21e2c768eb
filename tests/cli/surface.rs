//! `toolcell surface`, and the calls of what it withholds.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::guest;
use super::policy::Place;
use crate::pipeline::doubles::crowd;
use crate::support::{Ran, Toolcell, fixture, scratch, share_compiled};

/// A folder with one component and a toolcell.toml.
struct Shop {
    _guard: tempfile::TempDir,
    folder: PathBuf,
}

impl Shop {
    fn new(namespace: &str, count: usize, config: &str, change: impl FnOnce(&mut Value)) -> Self {
        let (guard, folder) = scratch();
        std::fs::write(folder.join("crowd.wasm"), crowd(namespace, count, change)).unwrap();
        let shop = Self {
            _guard: guard,
            folder,
        };
        shop.configure(config);
        shop
    }

    fn configure(&self, text: &str) {
        std::fs::write(self.folder.join("toolcell.toml"), text).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let all = arguments.iter().chain(&["--config=toolcell.toml"]);
        Toolcell::new(all)
            .dir(&self.folder)
            .env("TOOLCELL_SESSION", "")
            .run()
    }

    fn surface(&self, options: &[&str]) -> Value {
        self.run(&[&["surface", "crowd.wasm", "--json"], options].concat())
            .exits(0)
            .json()
    }

    /// The record of a call that does not run.
    #[track_caller]
    fn refused(&self, name: &str, exit: i32) -> (String, String) {
        let (class, code, _) = self.refused_by(name, exit);
        (class, code)
    }

    /// Class and code of the error, and the policies of the call.
    fn refused_by(&self, name: &str, exit: i32) -> (String, String, Value) {
        let record = self
            .run(&[
                "call",
                &format!("crowd.wasm#{name}"),
                "{}",
                "--print-record",
            ])
            .exits(exit)
            .json();
        let events = record["events"].as_array().unwrap();
        assert!(
            !events
                .iter()
                .any(|event| event["event_type"] == "tool.invocation.started"),
            "{record:#}"
        );
        assert!(
            record["invocation"]["surface_id"]
                .as_str()
                .unwrap()
                .starts_with("surface:"),
            "{record:#}"
        );
        let error = &record["result"]["error"];
        let word = |name: &str| error[name].as_str().unwrap().to_owned();
        let policies = &record["invocation"]["policy_refs"];
        if error["error_class"] == "policy_blocked" {
            assert_eq!(
                (policies, &record["result"]["policy_refs"]),
                (&error["policy_refs"], policies),
                "{record:#}"
            );
        }
        (word("error_class"), word("error_code"), policies.clone())
    }
}

/// The reason for which the tool is withheld, and what stands behind it.
fn withheld<'s>(surface: &'s Value, list: &str, name: &str) -> (Option<&'s str>, String) {
    let tools = surface[list].as_array().unwrap();
    let tool = tools
        .iter()
        .find(|tool| tool["name"].as_str().unwrap().ends_with(name));
    let tool = tool.unwrap_or_else(|| panic!("{list} lacks {name}: {surface:#}"));
    (tool["reason"].as_str(), tool["policy_refs"].to_string())
}

#[test]
fn each_reason_is_told_and_the_call_ends_accordingly() {
    let config = "[surface]\nrole = \"reviewer\"\nmedia = [\"text\"]\n[surface.roles]\n\
                  reviewer = [\"t0\", \"t1\", \"t2\", \"t3\", \"t4\", \"t6\", \"t7\", \"t8\", \"t9\"]\n\
                  [[rule]]\nbehavior = \"deny\"\ntool = \"*.t1\"\n";
    let shop = Shop::new("surface_reasons", 10, config, |toolkit| {
        toolkit["declarations"][2]["lifecycle"] = json!("requires_setup");
        toolkit["declarations"][3]["interface_ref"] = json!("i3");
        toolkit["interfaces"] = json!([{
            "schema_version": "0.2.0", "interface_id": "i3", "tool_id": "surface_reasons.t3",
            "is_enabled": "feature:beta",
        }]);
        toolkit["declarations"][4]["output_contract"] = json!({ "content_types": ["image"] });
        for (at, lifecycle) in [
            (6, "deferred"),
            (7, "retired"),
            (8, "draft"),
            (9, "deprecated"),
        ] {
            toolkit["declarations"][at]["lifecycle"] = json!(lifecycle);
        }
        let mappings =
            json!([{ "source": "mcp", "tool_name": "six", "x": 1 }, { "source": "a2a" }]);
        toolkit["declarations"][6]["external_mappings"] = mappings;
    });
    let surface = shop.surface(&[]);
    assert_eq!(surface["loaded_tools"], json!(["surface_reasons.t0"]));
    assert_eq!(
        surface["deferred_tools"][0]["reason"],
        "deferred_until_discovered"
    );
    assert_eq!(
        surface["deferred_tools"][0]["native_ref"],
        json!({ "mcp": { "tool_name": "six" } })
    );
    let listed: usize = [
        "loaded_tools",
        "deferred_tools",
        "blocked_tools",
        "excluded_tools",
    ]
    .iter()
    .map(|list| surface[list].as_array().unwrap().len())
    .sum();
    assert_eq!(
        (listed, surface["tool_refs"].as_array().unwrap().len()),
        (10, 10)
    );
    assert_eq!(surface["role_constraints"]["role"], "reviewer");
    assert!(
        surface["policy_refs"][0]
            .as_str()
            .unwrap()
            .starts_with("deny tool \"*.t1\""),
        "{surface:#}"
    );
    shop.run(&["call", "crowd.wasm#t0", "{}"]).exits(0);
    for (list, name, reason, behind, exit, class, code) in [
        (
            "blocked_tools",
            "t1",
            Some("policy_blocked"),
            "deny tool",
            3,
            "permission_denied",
            "denied_by_rule",
        ),
        (
            "blocked_tools",
            "t2",
            Some("setup_required"),
            "",
            2,
            "setup_required",
            "tool_requires_setup",
        ),
        (
            "excluded_tools",
            "t3",
            Some("feature_disabled"),
            "feature beta",
            3,
            "policy_blocked",
            "tool_disabled",
        ),
        (
            "excluded_tools",
            "t4",
            Some("model_unsupported"),
            "media image",
            3,
            "capability_gap",
            "model_unsupported",
        ),
        (
            "blocked_tools",
            "t5",
            Some("role_not_allowed"),
            "role reviewer",
            3,
            "policy_blocked",
            "role_not_allowed",
        ),
        (
            "excluded_tools",
            "t7",
            Some("feature_disabled"),
            "",
            3,
            "capability_gap",
            "tool_retired",
        ),
        (
            "excluded_tools",
            "t8",
            Some("feature_disabled"),
            "",
            3,
            "capability_gap",
            "tool_draft",
        ),
    ] {
        let (told, refs) = withheld(&surface, list, name);
        assert!(
            told == reason && refs.contains(behind),
            "{name}: {told:?} {refs}"
        );
        assert_eq!(
            shop.refused(name, exit),
            (class.to_owned(), code.to_owned()),
            "{name}"
        );
    }
    for (name, policy) in [("t3", "feature:beta"), ("t5", "role:reviewer")] {
        assert_eq!(shop.refused_by(name, 3).2, json!([policy]));
    }
    assert_eq!(
        shop.refused("t6", 2),
        (
            "schema_not_loaded".to_owned(),
            "schema_not_loaded".to_owned()
        )
    );
    let told = shop.run(&["call", "crowd.wasm#t6", "{}"]).exits(2).stderr;
    let select = "#select:surface_reasons.t6";
    assert!(told.contains(&format!("FILE{select} does so")), "{told}");
    shop.run(&["call", &format!("crowd.wasm{select}"), "{}"])
        .exits(0);
    // A deprecated tool is not listed, and its callers still have it.
    assert_eq!(
        withheld(&surface, "excluded_tools", "t9").0,
        Some("deferred_until_discovered")
    );
    shop.run(&["call", "crowd.wasm#t9", "{}"]).exits(0);
    let people = shop.run(&["surface", "crowd.wasm"]).exits(0).stdout;
    assert!(
        people.contains(": 1 loaded, 1 deferred, 3 blocked, 5 excluded\n"),
        "{people}"
    );
    assert!(
        people.contains(
            "  excluded  surface_reasons.t7: feature_disabled (its lifecycle is retired)\n"
        ),
        "{people}"
    );
    assert!(
        people.contains("  blocked   surface_reasons.t5: role_not_allowed (role reviewer)\n"),
        "{people}"
    );
}

#[test]
fn a_tool_whose_secret_is_not_set_is_blocked() {
    let (_guard, folder) = scratch();
    share_compiled(&folder);
    let tool = guest("courier#bearer");
    let grants = [
        "--allow-net=a.test",
        "--allow-secret=API_KEY@https://a.test",
    ];
    let run = |arguments: &[&str]| {
        Toolcell::at(&folder, [arguments, &grants].concat())
            .env("TOOLCELL_SESSION", "")
            .run()
    };
    let surface = run(&["surface", &tool, "--json"]).exits(0).json();
    assert_eq!(
        withheld(&surface, "blocked_tools", "bearer").0,
        Some("credential_missing")
    );
    assert_eq!(surface["blocked_tools"][0]["lifecycle"], "requires_setup");
    let setup = || {
        let described = Toolcell::at(&folder, ["describe", &tool, "--json"]).run();
        let described = described.exits(0).json();
        described["interfaces"][0]["availability"]["setup_state"].clone()
    };
    assert_eq!(setup(), "requires_setup");
    let called = run(&["call", &tool, "{\"url\": \"https://a.test/\"}", "--json"])
        .exits(2)
        .json();
    assert_eq!(called["error"]["error_class"], "credential_missing");
    let set = Toolcell::at(&folder, ["secrets", "set", "API_KEY"])
        .stdin("value-of-the-key")
        .run();
    set.exits(0);
    let later = run(&["surface", &tool, "--json"]).exits(0).json();
    assert_eq!(
        (
            &later["blocked_tools"],
            later["loaded_tools"].as_array().unwrap().len()
        ),
        (&json!([]), 1)
    );
    assert_ne!(later["surface_id"], surface["surface_id"]);
    assert_eq!(setup(), "ready");
}

#[test]
fn a_surface_keeps_its_id_until_a_setting_changes() {
    let shop = Shop::new("surface_ids", 3, "", |toolkit| {
        toolkit["declarations"][0]["capability_refs"] = json!(["retrieval"]);
    });
    let id = |config: &str| {
        shop.configure(config);
        shop.surface(&[])["surface_id"].as_str().unwrap().to_owned()
    };
    let first = id("");
    assert_eq!(first, id(""));
    let mut ids = vec![first];
    for config in [
        "[surface]\nmax_listed = 1\n",
        "[surface]\nfeatures = [\"beta\"]\n",
        "[surface]\ncapabilities = [\"retrieval\"]\n",
        "[surface]\nmedia = [\"text\"]\n",
        "[surface]\ntool_choice = \"none\"\n",
        "[surface]\nrole = \"r\"\n[surface.roles]\nr = [\"*\"]\n",
        "mode = \"plan\"\n",
        "[[rule]]\nbehavior = \"deny\"\npath = \"/etc\"\n",
    ] {
        let id = id(config);
        assert!(!ids.contains(&id), "{config}");
        ids.push(id);
    }
    shop.configure("[surface]\ncapabilities = [\"retrieval\"]\n");
    let surface = shop.surface(&[]);
    assert_eq!(surface["loaded_tools"], json!(["surface_ids.t0"]));
    assert_eq!(
        withheld(&surface, "excluded_tools", "t1").0,
        Some("model_unsupported")
    );
    assert_eq!(shop.refused("t1", 3).0, "capability_gap");
    shop.configure("[surface]\nmax_listed = 1\n");
    assert_eq!(
        shop.surface(&[])["deferred_tools"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(
        shop.surface(&["--max-listed=2"])["selection_policy"]["max_loaded"],
        2
    );
}

#[test]
fn a_tool_choice_counts_for_every_call() {
    let shop = Shop::new(
        "surface_choice",
        2,
        "[surface]\ntool_choice = \"none\"\n",
        |_| {},
    );
    let request = |dialect: &str, exit: i32| {
        let dialect = format!("--dialect={dialect}");
        shop.run(&["export", "crowd.wasm", "--request", &dialect])
            .exits(exit)
    };
    let chosen = |dialect: &str| request(dialect, 0).json()["tool_choice"].clone();
    assert_eq!(chosen("openai"), "none");
    assert_eq!(chosen("anthropic"), json!({ "type": "none" }));
    request("mcp", 2);
    for name in ["t0", "t1"] {
        let (class, code, policies) = shop.refused_by(name, 3);
        assert_eq!(
            (&*class, &*code, policies),
            (
                "policy_blocked",
                "tool_choice_none",
                json!(["tool_choice:none"])
            )
        );
    }
    shop.configure("[surface]\ntool_choice = \"surface_choice.t0\"\n");
    assert_eq!(
        shop.surface(&[])["default_tool_choice"],
        json!({ "tool": "surface_choice.t0" })
    );
    let named = json!({ "type": "function", "name": "surface_choice_t0" });
    assert_eq!(chosen("openai-responses"), named);
    assert_eq!(
        request("openai", 0).json()["tools"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    shop.run(&["call", "crowd.wasm#t0", "{}"]).exits(0);
    let (_, code, policies) = shop.refused_by("t1", 3);
    assert_eq!(
        (&*code, policies),
        (
            "tool_choice_other",
            json!(["tool_choice:surface_choice.t0"])
        )
    );
    // What is explained of a call is what becomes of it.
    let explained = shop
        .run(&[
            "policy",
            "check",
            "--explain",
            "crowd.wasm#t1",
            "{}",
            "--json",
        ])
        .exits(3)
        .json();
    assert_eq!(explained["error"]["error_code"], "tool_choice_other");
}

#[test]
fn a_model_that_has_to_call_a_tool_may_call_any() {
    let shop = Shop::new(
        "surface_required",
        2,
        "[surface]\ntool_choice = \"required\"\n",
        |_| {},
    );
    assert_eq!(shop.surface(&[])["default_tool_choice"], "required");
    shop.run(&["call", "crowd.wasm#t0", "{}"]).exits(0);
    shop.run(&["call", "crowd.wasm#t1", "{}"]).exits(0);
}

#[test]
fn what_a_model_cannot_take_is_said_and_counts() {
    let shop = Shop::new("surface_model", 2, "", |toolkit| {
        let schema = json!({ "type": "object", "properties": {}, "required": [], "additionalProperties": false });
        let contract = json!({ "model_input_schema": schema, "strict": true });
        toolkit["declarations"][0]["input_contract"] = contract;
    });
    let exported = || {
        shop.run(&["export", "crowd.wasm", "--dialect=openai"])
            .exits(0)
            .json()
    };
    let calls: String = ["a", "b"]
        .map(|id| json!({ "id": id, "tool": "crowd.wasm#t0", "input": {} }).to_string() + "\n")
        .concat();
    std::fs::write(shop.folder.join("calls.ndjson"), calls).unwrap();
    let at_once = || {
        let records = shop
            .run(&["batch", "calls.ndjson", "--print-record"])
            .exits(0)
            .stdout;
        let record: Value = serde_json::from_str(records.lines().next().unwrap()).unwrap();
        record["invocation"]["scheduler_policy"]["max_parallel"]
            .as_u64()
            .unwrap()
    };
    let all = json!({ "strict_schemas": true, "parallel_calls": true, "deferred_refs": true });
    assert_eq!(shop.surface(&[])["model_capabilities"], all);
    assert_eq!(exported()[0]["function"]["strict"], true);
    assert!(at_once() > 1);
    shop.configure(
        "[surface]\nmax_listed = 1\nstrict_schemas = false\nparallel_calls = false\ndeferred_refs = false\n",
    );
    let surface = shop.surface(&[]);
    let none = json!({ "strict_schemas": false, "parallel_calls": false, "deferred_refs": false });
    assert_eq!(
        (&surface["model_capabilities"], &surface["deferred_tools"]),
        (&none, &json!([]))
    );
    assert_eq!(surface["selection_policy"]["allow_parallel"], false);
    let (reason, refs) = withheld(&surface, "excluded_tools", "t1");
    assert_eq!(
        (reason, refs.as_str()),
        (Some("model_unsupported"), "[\"deferred_refs\"]")
    );
    assert_eq!(
        shop.refused("t1", 3),
        ("capability_gap".to_owned(), "model_unsupported".to_owned())
    );
    assert_eq!(exported()[0]["function"]["strict"], Value::Null);
    assert_eq!(at_once(), 1);
}

/// A tool of one workspace is on no surface of another one.
#[test]
fn a_surface_says_for_whom_it_is() {
    let entry = "[[tool]]\ncomponent = \"crowd.wasm\"\n";
    let one = Shop::new("surface_scope_one", 1, entry, |_| {});
    let other = Shop::new(
        "surface_scope_other",
        1,
        &format!("{entry}[surface.roles]\nreader = [\"t0\"]\n"),
        |_| {},
    );
    let of = |shop: &Shop, arguments: &[&str]| {
        let surface = shop
            .run(&[&["surface", "--json"], arguments].concat())
            .exits(0)
            .json();
        let session = surface["runtime_refs"].as_array().unwrap().last().unwrap();
        assert!(
            session.as_str().unwrap().starts_with("session:run:"),
            "{surface:#}"
        );
        (
            surface["scope"].as_str().unwrap().to_owned(),
            surface["tool_refs"].clone(),
        )
    };
    assert_eq!(
        of(&one, &[]),
        ("workspace".to_owned(), json!(["surface_scope_one.t0"]))
    );
    assert_eq!(
        of(&other, &[]),
        ("workspace".to_owned(), json!(["surface_scope_other.t0"]))
    );
    assert_eq!(of(&other, &["--role=reader"]).0, "role");
    assert_eq!(of(&other, &["crowd.wasm"]).0, "task");
    let request = ["surface", "crowd.wasm", "--dialect=openai", "--json"];
    let request = one.run(&request).exits(0).json();
    assert_eq!(request["scope"], "model_request");
    let named = Toolcell::new(["surface", "crowd.wasm", "--json", "--config=toolcell.toml"])
        .dir(&one.folder)
        .env("TOOLCELL_SESSION", "monday")
        .run()
        .exits(0)
        .json();
    let refs = named["runtime_refs"].as_array().unwrap();
    assert!(refs.contains(&json!("session:monday")), "{named:#}");
    let message = json!([{ "id": "a", "type": "function", "function": { "name": "surface_scope_one_t0", "arguments": "{}" } }]);
    std::fs::write(
        other.folder.join("message.json"),
        json!({ "role": "assistant", "tool_calls": message }).to_string(),
    )
    .unwrap();
    std::fs::copy(
        other.folder.join("message.json"),
        one.folder.join("message.json"),
    )
    .unwrap();
    let decided = one
        .run(&[
            "respond",
            "crowd.wasm",
            "--dialect=openai",
            "--message=message.json",
            "--print-record",
        ])
        .exits(0)
        .json();
    assert_eq!(
        decided["invocation"]["surface_id"], request["surface_id"],
        "its calls are decided under it"
    );
    let answered = other.run(&["respond", "--dialect=openai", "--message=message.json"]);
    assert!(
        answered.stdout.contains("unknown_tool"),
        "{}{}",
        answered.stdout,
        answered.stderr
    );
}

#[test]
fn an_open_feature_gate_lets_its_tool_run() {
    let shop = Shop::new(
        "surface_gates",
        1,
        "[surface]\nfeatures = [\"beta\"]\n",
        |toolkit| {
            toolkit["declarations"][0]["interface_ref"] = json!("i0");
            toolkit["interfaces"] = json!([{
                "schema_version": "0.2.0", "interface_id": "i0", "tool_id": "surface_gates.t0", "is_enabled": "feature:beta",
            }]);
        },
    );
    shop.run(&["call", "crowd.wasm#t0", "{}"]).exits(0);
    let line = json!({ "id": "a", "tool": "crowd.wasm#t0", "input": {} }).to_string();
    std::fs::write(shop.folder.join("calls.ndjson"), line + "\n").unwrap();
    shop.run(&["batch", "calls.ndjson"]).exits(0);
    shop.configure("[surface]\nfeatures = [\"alpha\"]\n");
    assert_eq!(shop.refused("t0", 3).1, "tool_disabled");
    shop.run(&["batch", "calls.ndjson"]).exits(3);
}

#[test]
fn a_setting_that_cannot_be_applied_allows_nothing() {
    let shop = Shop::new("surface_wrong", 1, "", |_| {});
    for (config, words) in [
        (
            "[surface]\ntool_choice = \"\"\n",
            "write auto, none, required",
        ),
        (
            "[surface]\nmedia = [\"smell\"]\n",
            "line 2: [surface] media \"smell\" is not one of: text",
        ),
        (
            "[surface]\nrole = \"nobody\"\n",
            "add its tools to [surface.roles]",
        ),
        (
            "[surface]\nfeature = [\"beta\"]\n",
            "unknown field `feature`",
        ),
    ] {
        shop.configure(config);
        for command in [
            &["surface", "crowd.wasm"][..],
            &["call", "crowd.wasm#t0", "{}"],
        ] {
            let ran = shop.run(command).exits(3);
            assert!(
                ran.stderr.contains(words) && ran.stderr.contains("policy_unreadable"),
                "{}",
                ran.stderr
            );
        }
    }
}

/// A file narrows a role, and gives it no tool that another file keeps from it.
#[test]
fn a_role_that_two_files_describe_has_the_tools_that_both_give_it() {
    for (user, project, callable) in [
        ("'t0'", "'*'", &["t0"][..]),
        ("'*'", "'t0'", &["t0"]),
        ("'t0', 't1'", "'t1', 't2'", &["t1"]),
        ("'t0'", "'t1'", &[]),
    ] {
        let place = Place::new()
            .user(&format!(
                "[surface]\nrole = 'r'\n[surface.roles]\nr = [{user}]\n"
            ))
            .project(&format!("[surface.roles]\nr = [{project}]\n"))
            .trusted();
        std::fs::write(
            place.project.join("crowd.wasm"),
            crowd("surface_two_files", 3, |_| {}),
        )
        .unwrap();
        for tool in ["t0", "t1", "t2"] {
            let ran = place.run(&["call", &format!("crowd.wasm#{tool}"), "{}", "--json"]);
            let code = ran.json()["error"]["error_code"].clone();
            let expected = if callable.contains(&tool) {
                Value::Null
            } else {
                json!("role_not_allowed")
            };
            assert_eq!(code, expected, "{tool}: [{user}] and [{project}]");
        }
    }
}

#[test]
fn a_tool_calls_only_tools_that_its_own_surface_has_and_never_itself() {
    let shop = Shop::new("surface_below", 2, "", |toolkit| {
        toolkit["declarations"][1]["interface_ref"] = json!("i1");
        toolkit["interfaces"] = json!([{
            "schema_version": "0.2.0", "interface_id": "i1", "tool_id": "surface_below.t1", "is_enabled": "feature:beta",
        }]);
    });
    let caller = format!("{}#call", fixture("caller").display());
    let role = |tools: &str| format!("[surface]\nrole = \"r\"\n[surface.roles]\nr = [{tools}]\n");
    let gate = "[surface]\nfeatures = [\"beta\"]\n".to_owned();
    let not_callable = Some("tool_not_callable");
    for (config, name, expected) in [
        (String::new(), "surface_below.t0", None),
        (String::new(), "surface_below.t1", not_callable),
        (gate, "surface_below.t1", None),
        (role("\"call\", \"t0\""), "surface_below.t0", None),
        (role("\"call\""), "surface_below.t0", not_callable),
        (
            "[surface]\ntool_choice = \"caller.call\"\n".to_owned(),
            "surface_below.t0",
            not_callable,
        ),
        (
            "[[rule]]\nbehavior = \"deny\"\ntool = \"*.t0\"\n".to_owned(),
            "surface_below.t0",
            not_callable,
        ),
        (
            String::new(),
            "caller.call",
            Some("recursive_tool_forbidden"),
        ),
    ] {
        shop.configure(&config);
        let input = json!({ "tool": name, "input": {}, "list": true }).to_string();
        let arguments = [
            "call",
            caller.as_str(),
            input.as_str(),
            "--with=crowd.wasm",
            "--allow-tool=*",
            "--print-record",
        ];
        let record = shop.run(&arguments).exits(0).json();
        let output = &record["result"]["structured_content"];
        let answer = &output["answers"][0];
        assert_eq!(
            answer["error"]["code"].as_str(),
            expected,
            "{config}{output:#}"
        );
        let listed = output["listed"].as_array().unwrap().contains(&json!(name));
        assert_eq!(listed, expected.is_none(), "{config}{output:#}");
        if expected.is_none() {
            let id = answer["invocation_id"].as_str().unwrap();
            let child = Toolcell::new(["show", id, "--json"]).run().exits(0).json();
            let below = &record["invocation"]["child_surface"];
            assert_eq!(child["invocation"]["surface_id"], below["surface_id"]);
            let loaded = below["loaded_tools"].as_array().unwrap();
            assert!(loaded.contains(&json!(name)), "{below:#}");
            let (reason, rules) = withheld(below, "blocked_tools", "caller.call");
            assert_eq!(
                (reason, rules.as_str()),
                (Some("recursive_tool_forbidden"), "[\"tool_calls:cycles\"]")
            );
        }
    }
}
