//! Hook components: their answers, and the limits of a hostile one.
//!
//! Promise: A project grants nothing by itself.
//! Promise: Hooks are sandboxed too.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolcell::{Grants, Host};
use toolcell_config::{ConfigFile, ConfiguredHook, add_hook};
use toolcell_policy::Provenance;
use toolcell_spec::{ErrorCode, RuleSource, digest};

use crate::support::{Called, Test, fixture, host, root, scratch};

/// A host with the hooks of a `[[hook]]` text; `COMPONENT` is replaced by the scripted hook of the test guests.
async fn host_with(text: &str, folder: &Path) -> (Arc<Host>, Vec<String>) {
    let component = fixture("hooks");
    let text = text.replace("COMPONENT", component.to_str().unwrap());
    let file = ConfigFile::parse(&text, folder).unwrap();
    let path = folder.join("toolcell.toml");
    let said = Provenance {
        source: RuleSource::UserSettings,
        file: Some(&path),
    };
    let mut host = host(|settings| settings.pooled(false));
    let mut problems = Vec::new();
    for entry in &file.hooks {
        let configured = ConfiguredHook {
            entry,
            said,
            digest: None,
            kept: &Grants::default(),
        };
        problems.extend(
            add_hook(&mut host, &configured, Ok(folder.join(&entry.component)))
                .await
                .unwrap(),
        );
    }
    (Arc::new(host), problems)
}

/// A hook with enough time for a busy machine.
const PATIENT: &str = "[[hook]]\nid = \"scripted\"\ncomponent = \"COMPONENT\"\ntimeout = \"60s\"\n";

async fn scripted(options: &str) -> Arc<Host> {
    let (host, problems) = host_with(&format!("{PATIENT}{options}"), Path::new("/")).await;
    assert!(problems.is_empty(), "{problems:?}");
    host
}

/// Calls `probe#echo` with these hook steps for one event.
async fn at(host: &Arc<Host>, event: &str, steps: Value) -> Called {
    Test::new("probe#echo")
        .on(host)
        .call(json!({"hook": {event: steps}}))
        .await
}

async fn attack(options: &str, event: &str, attack: &str) -> Called {
    at(&scripted(options).await, event, json!([{"attack": attack}])).await
}

fn run(called: &Called, event: &str) -> Value {
    let record = called.record();
    let runs = record["hooks"].as_array().unwrap();
    runs.iter()
        .find(|run| run["hook_event"] == event)
        .unwrap_or_else(|| panic!("no run at {event}: {runs:?}"))
        .clone()
}

#[tokio::test]
async fn a_component_gives_all_seven_outputs() {
    let host = scripted("").await;
    let called = Test::new("probe#echo")
        .on(&host)
        .call(json!({"hook": {
            "pre_tool_use": [
                {"message": "hello"}, {"progress": "looking"}, {"additional_context": {"k": 1}}, {"allow": "fine"},
                {"updated_input": {"hook": {"post_tool_use": [{"updated_output": {"n": 8}}, {"stop": "late"}]}}},
            ],
        }}))
        .await;
    assert_eq!(called.succeeded(), json!({"n": 8}));
    let before = run(&called, "pre_tool_use");
    assert_eq!(
        before["outputs"][0],
        json!({"type": "message", "text": "hello"})
    );
    assert_eq!(
        before["permission_result"],
        json!({"behavior": "allow", "reason": "fine"})
    );
    let record = called.record();
    assert_eq!(record["progress"][0]["hook_id"], "scripted");
    assert_eq!(
        record["result"]["additional_context"],
        json!([{"k": 1}, {"stop": "late", "hook": "scripted"}])
    );
    assert_eq!(
        record["result"]["input_mutations"][0]["changed_fields"],
        json!(["/hook/post_tool_use", "/hook/pre_tool_use"])
    );
    assert_eq!(record["result_mappings"]["hooks"], json!(["scripted"]));

    let denied = at(
        &host,
        "permission_request",
        json!([{"allow": "a"}, {"deny": "not this"}]),
    )
    .await;
    denied
        .failed("permission_denied", "denied_by_hook")
        .never_ran();
    let stopped = at(&host, "permission_decision", json!([{"stop": "no"}])).await;
    stopped.failed("hook_blocked", "hook_stop").never_ran();
    let kept = at(&host, "result_persistence", json!([{"stop": "private"}])).await;
    assert_eq!(kept.record()["persistence"][0]["strategy"], "never_persist");
}

#[tokio::test]
async fn a_component_sees_copies_of_what_is_known() {
    let host = scripted("").await;
    let script = json!({"permission_decision": [{"seen": 0}], "post_tool_use": [{"seen": 0}]});
    let called = Test::new("probe#echo")
        .on(&host)
        .call(json!({"hook": script}))
        .await;
    let seen = |event: &str| -> Value {
        serde_json::from_str(run(&called, event)["outputs"][0]["text"].as_str().unwrap()).unwrap()
    };
    let decided = seen("permission_decision");
    assert_eq!(decided["tool_id"], "probe.echo");
    assert_eq!(
        decided["invocation_id"],
        called.record()["invocation"]["invocation_id"]
    );
    assert_eq!(decided["context"]["decision"]["behavior"], "allow");
    assert_eq!(
        decided["context"]["permission_profile"]["risk_level"],
        "low"
    );
    assert!(decided["context"]["result"].is_null());
    assert!(seen("post_tool_use")["context"]["decision"].is_null());
}

#[tokio::test]
async fn a_hook_that_spins_runs_out_of_fuel() {
    // So much fuel lasts a minute on a busy machine.
    let (host, _) = host_with(&PATIENT.replace("60s", "10m"), Path::new("/")).await;
    let called = at(&host, "pre_tool_use", json!([{"attack": "spin"}])).await;
    called
        .failed("hook_blocked", "hook_failed")
        .ended("denied", "blocked")
        .never_ran();
    assert!(
        run(&called, "pre_tool_use")["error"]
            .as_str()
            .unwrap()
            .contains("20000000000 units of fuel")
    );
}

#[tokio::test]
async fn a_hook_ends_at_its_own_time_limit_and_its_neighbours_do_not_notice() {
    let (host, _) = host_with(&PATIENT.replace("60s", "300ms"), Path::new("/")).await;
    for name in ["sleep", "spin"] {
        let began = Instant::now();
        let called = at(&host, "pre_tool_use", json!([{"attack": name}])).await;
        called
            .failed("hook_blocked", "hook_timed_out")
            .ended("denied", "blocked")
            .never_ran();
        assert!(began.elapsed() < Duration::from_secs(30), "{name}");
        assert_eq!(
            run(&called, "pre_tool_use")["error"],
            "no answer within 300 ms",
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_hook_that_breaks_blocks_before_the_tool_and_is_noted_after_it() {
    for name in [
        "panic",
        "exit",
        "memory",
        "flood_bytes",
        "flood_outputs",
        "flood_context",
        "huge_update",
        "garbage_input",
        "twice_input",
        "deep_input",
        "garbage_context",
        "garbage_output",
    ] {
        let host = scripted("").await;
        let before = at(&host, "pre_tool_use", json!([{"attack": name}])).await;
        before
            .failed("hook_blocked", "hook_failed")
            .ended("denied", "blocked")
            .never_ran();
        assert_eq!(run(&before, "pre_tool_use")["outcome"], "failed", "{name}");
        let after = at(&host, "post_tool_use", json!([{"attack": name}])).await;
        assert_eq!(after.succeeded()["tool"], "echo", "{name}");
        assert_eq!(run(&after, "post_tool_use")["outcome"], "failed", "{name}");
        assert!(after.0.result.additional_context.is_empty(), "{name}");
    }
}

#[tokio::test]
async fn the_words_of_a_crash_stay_in_the_record() {
    let called = attack("", "pre_tool_use", "panic").await;
    assert!(
        run(&called, "pre_tool_use")["error"]
            .as_str()
            .unwrap()
            .contains("words of a hook that crashed")
    );
    assert!(
        !serde_json::to_string(&called.0.result)
            .unwrap()
            .contains("words of a hook")
    );
}

#[tokio::test]
async fn an_owner_can_turn_a_failure_around() {
    let warned = attack("on_failure = \"warn\"", "pre_tool_use", "panic").await;
    assert_eq!(warned.succeeded()["tool"], "echo");
    let blocked = attack("on_failure = \"block\"", "post_tool_use", "panic").await;
    blocked
        .failed("execution_failed", "post_hook_failed")
        .ended("failed", "failed");
    assert!(blocked.0.result.structured_content.is_none() && blocked.0.result.content.is_empty());
}

#[tokio::test]
async fn a_hook_forges_no_reference_and_says_no_more_than_its_log_may_hold() {
    let called = attack("", "post_tool_use", "forged_output").await;
    called.failed("execution_failed", "result_mapping_failed");
    assert!(
        !serde_json::to_string(&called.0.result)
            .unwrap()
            .contains("toolcell:payload")
    );
    let flooded = attack("", "pre_tool_use", "flood_log").await;
    flooded.succeeded();
    let logs = run(&flooded, "pre_tool_use")["logs"].clone();
    assert!(logs.to_string().len() < 32 << 10, "bounded");
    assert!(
        logs[0]["text"].as_str().unwrap().starts_with("info xxx"),
        "{logs}"
    );
}

#[tokio::test]
async fn every_event_gets_a_fresh_instance() {
    let host = scripted("").await;
    for _ in 0..2 {
        let count = json!([{"attack": "count"}]);
        let script =
            json!({"pre_tool_use": count, "permission_request": count, "post_tool_use": count});
        let called = Test::new("probe#echo")
            .on(&host)
            .call(json!({"hook": script}))
            .await;
        for event in ["pre_tool_use", "permission_request", "post_tool_use"] {
            assert_eq!(run(&called, event)["outputs"][0]["text"], "0", "{event}");
        }
    }
}

#[tokio::test]
async fn a_hook_reaches_nothing_that_was_not_granted_to_it() {
    let (_guard, folder) = scratch();
    std::fs::write(folder.join("secret"), "the secret").unwrap();
    // The tool's grants are not the hook's.
    let host = scripted("").await;
    let test = Test::new("probe#echo")
        .on(&host)
        .write(&folder)
        .grant(|grants| grants.allow_env("PATH").unwrap());
    let called = test
        .call(json!({"hook": {"pre_tool_use": [{"attack": "look_around"}]}}))
        .await;
    assert_eq!(run(&called, "pre_tool_use")["outputs"][0]["text"], "");
    assert!(!folder.join("mark").exists());
}

#[tokio::test]
async fn a_hook_gets_exactly_what_its_entry_grants() {
    let (_guard, folder) = scratch();
    std::fs::create_dir_all(folder.join("read")).unwrap();
    std::fs::create_dir_all(folder.join("write")).unwrap();
    let grants =
        "grants = { read = [\"read=/read\"], write = [\"write=/write\"], env = [\"PATH\"] }";
    let (host, problems) = host_with(&format!("{PATIENT}{grants}"), &folder).await;
    assert!(problems.is_empty(), "{problems:?}");
    let called = at(&host, "pre_tool_use", json!([{"attack": "look_around"}])).await;
    let text = run(&called, "pre_tool_use")["outputs"][0]["text"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("variable PATH={}", std::env::var("PATH").unwrap());
    assert_eq!(
        text.lines().collect::<Vec<_>>(),
        ["folder /write", "write /write/mark", "folder /read", &path]
    );
    assert!(folder.join("write/mark").exists() && !folder.join("read/mark").exists());
}

#[tokio::test]
async fn a_hook_that_cannot_be_loaded_blocks_what_it_guards_and_says_why() {
    let (_guard, folder) = scratch();
    let write = |name: &str, text: &str| {
        std::fs::write(folder.join(name), wat::parse_str(text).unwrap()).unwrap()
    };
    let handler = "(instance $e) (export \"toolcell:tool/hook-handler@0.2.0\" (instance $e))";
    write("nothing.wasm", "(component)");
    write("empty.wasm", &format!("(component {handler})"));
    write(
        "greedy.wasm",
        &format!(
            "(component (import \"toolcell:tool/progress@0.2.0\" (instance (export \"report\" (func)))) {handler})"
        ),
    );
    std::fs::write(folder.join("garbage.wasm"), "no component").unwrap();
    let tool = fixture("probe");
    let tool = tool.to_str().unwrap();
    for (entry, why) in [
        ("component = \"missing.wasm\"", "missing.wasm"),
        (
            "component = \"garbage.wasm\"",
            "not a WebAssembly component",
        ),
        (
            "component = \"nothing.wasm\"",
            "it does not export toolcell:tool/hook-handler@0.2.0",
        ),
        (
            &format!("component = {tool:?}"),
            "the component is not a hook",
        ),
        (
            "component = \"empty.wasm\"",
            "does not follow toolcell:tool@0.2.0",
        ),
        (
            "component = \"greedy.wasm\"",
            "the hook asks for what no hook gets",
        ),
        (
            "component = \"COMPONENT\"\nevents = [\"pre_tool\"]",
            "there is no hook event",
        ),
        (
            "component = \"COMPONENT\"\nmatcher = { tool = \"[\" }",
            "is not a pattern",
        ),
        (
            "component = \"COMPONENT\"\ngrants = { secret = [\"X\"] }",
            "no secrets",
        ),
        (
            "component = \"COMPONENT\"\ngrants = { read = [\"gone\"] }",
            "gone",
        ),
    ] {
        let (host, problems) =
            host_with(&format!("[[hook]]\nid = \"guard\"\n{entry}"), &folder).await;
        assert!(problems.concat().contains(why), "{problems:?}");
        let called = Test::new("probe#counter").on(&host).call(json!({})).await;
        called
            .failed("hook_blocked", "hook_not_loaded")
            .ended("denied", "blocked")
            .never_ran();
        assert!(
            called.record()["invocation"]["error_detail"]
                .as_str()
                .unwrap()
                .contains(why)
        );
    }
    let entry = "[[hook]]\ncomponent = \"missing.wasm\"\nmatcher = { tool = \"probe.read\" }";
    let (host, _) = host_with(entry, &folder).await;
    Test::new("probe#counter")
        .on(&host)
        .call(json!({}))
        .await
        .succeeded();
    let (host, _) = host_with(
        "[[hook]]\ncomponent = \"missing.wasm\"\non_failure = \"warn\"",
        &folder,
    )
    .await;
    let called = Test::new("probe#counter").on(&host).call(json!({})).await;
    called.succeeded();
    assert_eq!(run(&called, "pre_tool_use")["outcome"], "not_loaded");
}

#[tokio::test]
async fn events_of_the_entry_narrow_those_of_the_component() {
    let host = scripted("events = [\"post_tool_use\"]").await;
    let called = at(&host, "pre_tool_use", json!([{"stop": "never heard"}])).await;
    called.succeeded();
    let events: Vec<&str> = called
        .0
        .hooks
        .iter()
        .map(|run| run.hook_event.as_str())
        .collect();
    assert_eq!(events, ["post_tool_use"]);
}

#[tokio::test]
async fn the_code_of_a_hook_is_cached_apart_from_that_of_a_tool() {
    // The same bytes, first as a tool, which is refused; the caches of the two must not mix.
    let component = std::fs::read(fixture("hooks")).unwrap();
    let refusal = Test::of_bytes(component, None).load().await.unwrap_err();
    assert_eq!(refusal.code, ErrorCode::NotATool);
    let began = Instant::now();
    for _ in 0..2 {
        at(&scripted("").await, "pre_tool_use", json!([]))
            .await
            .succeeded();
    }
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[tokio::test]
async fn the_example_redacts_home_folders() {
    let text = format!(
        "[[hook]]\ncomponent = {:?}\ntimeout = \"60s\"",
        crate::support::component("example-tools/redact-paths")
    );
    let (host, problems) = host_with(&text, &root()).await;
    assert!(problems.is_empty(), "{problems:?}");
    let called = Test::new("probe#echo")
        .on(&host)
        .call(json!({"path": "/home/ada/notes"}))
        .await;
    assert_eq!(called.succeeded()["input"], json!({"path": "~/notes"}));
    assert_eq!(called.0.invocation.hook_refs, ["redact-paths"]);
    let untouched = Test::new("probe#counter").on(&host).call(json!({})).await;
    assert_eq!(untouched.record()["result_mappings"]["hooks"], json!([]));
}

#[tokio::test]
async fn a_hook_that_is_another_one_when_it_is_loaded_than_when_it_was_looked_at_is_not_loaded() {
    let file = ConfigFile::parse(
        "[[hook]]\nid = \"guard\"\ncomponent = \"x\"",
        Path::new("/"),
    )
    .unwrap();
    let said = Provenance {
        source: RuleSource::ProjectSettings,
        file: None,
    };
    let mut host = crate::support::host(|settings| settings.pooled(false));
    let trusted = digest(&std::fs::read(fixture("hooks")).unwrap());
    let other = digest(b"another");
    let nothing = Grants::default();
    let configured = |digest| ConfiguredHook {
        entry: &file.hooks[0],
        said,
        digest,
        kept: &nothing,
    };
    let problem = add_hook(&mut host, &configured(Some(&other)), Ok(fixture("hooks")))
        .await
        .unwrap()
        .unwrap();
    assert!(
        problem.contains("is not the component that was trusted"),
        "{problem}"
    );
    let host = Arc::new(host);
    Test::new("probe#echo")
        .on(&host)
        .call(json!({}))
        .await
        .failed("hook_blocked", "hook_not_loaded")
        .never_ran();
    let mut host = crate::support::host(|settings| settings.pooled(false));
    assert_eq!(
        add_hook(&mut host, &configured(Some(&trusted)), Ok(fixture("hooks")))
            .await
            .unwrap(),
        None
    );
}
