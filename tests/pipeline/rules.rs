//! Rules: their matches, and the precedence of several.
//!
//! Promise: Denials of any layer hold.
//! Promise: No grant reaches toolcell's own state.
//! Promise: Imports are declared.
//! Promise: A name allows nothing by itself.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolcell_policy::{Policy, Provenance, Rule, RuleWords};
use toolcell_spec::{ErrorCode, Mode, RuleSource, digest};

use crate::support::{Called, Test, fixture, scratch};

use super::doubles::{echoing, importing};

fn rule(words: RuleWords<'_>, source: RuleSource) -> Rule {
    Rule::compile(&words, &Provenance { source, file: None }).unwrap()
}

fn of_user(words: RuleWords<'_>) -> Rule {
    rule(words, RuleSource::UserSettings)
}

fn decision(called: &Called) -> Value {
    serde_json::to_value(&called.0.decisions[0]).unwrap()
}

/// A folder with `a`, `sub/b` and `.env`, granted to a tool that declares its path argument.
struct Project {
    _guard: tempfile::TempDir,
    root: PathBuf,
}

impl Project {
    fn new() -> Self {
        let (guard, root) = scratch();
        fs::create_dir(root.join("sub")).unwrap();
        for name in ["a", "sub/b", ".env"] {
            fs::write(root.join(name), name).unwrap();
        }
        Self {
            _guard: guard,
            root,
        }
    }

    fn at(&self, path: &str) -> String {
        self.root.join(path).display().to_string()
    }

    async fn call(&self, tool: &str, path: &str, other: &str, rules: Vec<Rule>) -> Called {
        let input = json!({ "path": self.at(path), "other": self.at(other) });
        let test = Test::new(tool)
            .read(&self.root)
            .policy(|policy| *policy = Policy::new(Mode::Default, rules));
        test.call(input).await
    }

    async fn named(&self, path: &str, rules: Vec<Rule>) -> Called {
        self.call("probe#read_named", path, "a", rules).await
    }
}

#[track_caller]
fn denied(called: &Called) {
    called
        .failed("permission_denied", "denied_by_rule")
        .ended("denied", "denied")
        .never_ran();
}

#[tokio::test]
async fn a_path_rule_meets_the_path_however_it_is_written_and_no_other() {
    let project = Project::new();
    symlink("sub", project.root.join("link")).unwrap();
    symlink("sub/b", project.root.join("file-link")).unwrap();
    let pattern = project.at("sub");
    let deny = || {
        vec![of_user(RuleWords {
            behavior: "deny",
            path: Some(&pattern),
            ..Default::default()
        })]
    };
    for path in [
        "sub/b",
        "sub",
        "sub/",
        "sub/../sub/b",
        "./sub//b",
        "link/b",
        "link",
        "link/",
        "file-link",
        "sub/none",
    ] {
        let called = project.named(path, deny()).await;
        denied(&called);
        let blocked = PathBuf::from(decision(&called)["blocked_path"].as_str().unwrap());
        assert!(
            blocked.starts_with(&pattern),
            "{path}: {}",
            blocked.display()
        );
    }
    assert_eq!(
        project.named("a", deny()).await.succeeded()["read"]["ok"],
        "a"
    );
    fs::create_dir(project.root.join("sub-evil")).unwrap();
    fs::write(project.root.join("sub-evil/c"), "c").unwrap();
    assert_eq!(
        project.named("sub-evil/c", deny()).await.succeeded()["read"]["ok"],
        "c"
    );
    #[cfg(target_os = "linux")]
    {
        fs::create_dir(project.root.join("SUB")).unwrap();
        fs::write(project.root.join("SUB/c"), "c").unwrap();
        assert_eq!(
            project.named("SUB/c", deny()).await.succeeded()["read"]["ok"],
            "c",
            "another folder"
        );
    }
}

#[tokio::test]
async fn a_path_rule_holds_in_the_sandbox_of_a_tool_that_does_not_say_what_it_is_about() {
    let project = Project::new();
    let everywhere = project.at("**/.env");
    for behavior in ["deny", "ask"] {
        let rules = || {
            vec![of_user(RuleWords {
                behavior,
                path: Some(&everywhere),
                ..Default::default()
            })]
        };
        let called = project
            .call("probe#touch_reads", "a", ".env", rules())
            .await;
        if behavior == "ask" {
            // The tool could use any path in its grant, so an approval is needed.
            called
                .failed("permission_denied", "nobody_to_ask")
                .never_ran();
            continue;
        }
        let touched = called.succeeded();
        assert_eq!(
            (&touched["read"]["ok"], &touched["other"]["ok"]),
            (&json!("a"), &Value::Null),
            "{touched}"
        );
    }
    // A tool that declares one path and uses another runs, and finds the other one closed.
    let rules = vec![of_user(RuleWords {
        behavior: "ask",
        path: Some(&everywhere),
        ..Default::default()
    })];
    let touched = project
        .call("probe#read_named", "a", ".env", rules)
        .await
        .succeeded();
    assert_eq!(
        (&touched["read"]["ok"], &touched["other"]["ok"]),
        (&json!("a"), &Value::Null),
        "{touched}"
    );
}

#[tokio::test]
async fn what_a_wildcard_closes_cannot_be_renamed_into_the_open() {
    let project = Project::new();
    let deep = project.at("**/.env");
    let shallow = project.at("sub/*/key");
    fs::create_dir(project.root.join("sub/x")).unwrap();
    fs::write(project.root.join("sub/x/key"), "key").unwrap();
    let moved = async |from: &str, to: &str| {
        let rules = [&deep, &shallow].map(|path| {
            of_user(RuleWords {
                behavior: "deny",
                path: Some(path),
                ..Default::default()
            })
        });
        let test = Test::new("probe#rename")
            .write(&project.root)
            .policy(|policy| rules.into_iter().for_each(|rule| policy.add(rule)));
        test.call(json!({ "from": project.at(from), "to": project.at(to) }))
            .await
            .succeeded()["ok"]
            == true
    };
    assert!(
        !moved(".env", "open").await && !moved("sub/x/key", "open").await,
        "itself"
    );
    assert!(
        !moved("sub/x", "open").await && !moved("sub", "open").await,
        "with its folder"
    );
    assert!(!moved("a", "sub/.env").await, "into its place");
    assert!(moved("a", "free").await, "a folder that no rule closes");
    assert_eq!(
        fs::read_to_string(project.root.join("sub/x/key")).unwrap(),
        "key"
    );
    assert_eq!(
        fs::read_to_string(project.root.join(".env")).unwrap(),
        ".env"
    );
}

#[tokio::test]
async fn a_rule_about_a_tool_a_namespace_or_a_component_meets_it_and_no_other() {
    let probe = digest(&fs::read(fixture("probe")).unwrap());
    let other = format!("sha256:{}", "0".repeat(64));
    let words = |tool, namespace, component| RuleWords {
        behavior: "deny",
        tool,
        namespace,
        component,
        ..Default::default()
    };
    for (words, meets) in [
        (words(Some("probe.echo"), None, None), true),
        (words(Some("echo"), None, None), true),
        (words(Some("probe.*"), None, None), true),
        (words(Some("probe.counter"), None, None), false),
        (words(Some("Probe.Echo"), None, None), false),
        (words(None, Some("probe"), None), true),
        (words(None, Some("pro*"), None), true),
        (words(None, Some("prob"), None), false),
        (words(None, None, Some(&probe)), true),
        (words(None, None, Some(&other)), false),
        (words(Some("echo"), Some("files"), None), false),
        (words(None, None, None), true),
    ] {
        let called = Test::new("probe#echo")
            .policy(|policy| policy.add(of_user(words)))
            .call(json!({}))
            .await;
        if meets {
            denied(&called)
        } else {
            drop(called.succeeded())
        }
    }
}

async fn about(
    tool: &str,
    subject: Value,
    behavior: &str,
    url: Option<&str>,
    resource: Option<&str>,
) -> Called {
    let words = RuleWords {
        behavior,
        url,
        resource,
        ..Default::default()
    };
    Test::new(tool)
        .policy(|policy| policy.add(of_user(words)))
        .call(json!({ "subject": subject }))
        .await
}

#[tokio::test]
async fn a_url_rule_meets_host_port_and_path_and_takes_no_user_for_a_host() {
    let deny = async |subject: &str| {
        about(
            "probe#about_url",
            json!(subject),
            "deny",
            Some("https://evil.example/admin"),
            None,
        )
        .await
    };
    for url in [
        "https://evil.example/admin",
        "https://EVIL.example:443/admin/x?y#z",
        "https://good.example@evil.example/admin",
        "https://evil.example./%61dmin",
        "https://evil.example/x/../admin",
        "https:\\\\evil.example\\admin",
        "https://evil.example:8443/admin",
        "https://evil.example//x",
    ] {
        denied(&deny(url).await);
    }
    for url in [
        "https://evil.example@good.example/admin",
        "https://evil.example.good.example/admin",
        "http://evil.example/admin",
        "https://evil.example/administrator",
    ] {
        deny(url).await.succeeded();
    }
    deny("no url")
        .await
        .failed("permission_denied", "subject_unreadable")
        .never_ran();
    // One denied URL of several denies the call; an allow rule must cover all of them.
    let both = json!(["https://good.example/", "https://evil.example/admin"]);
    denied(
        &about(
            "probe#about_url",
            both.clone(),
            "deny",
            Some("evil.example/admin"),
            None,
        )
        .await,
    );
    let allowed = about(
        "probe#about_url",
        both.clone(),
        "allow",
        Some("*.example"),
        None,
    )
    .await;
    assert_eq!(decision(&allowed)["source"], "user_settings");
    let not_all = about("probe#about_url", both, "allow", Some("good.example"), None).await;
    assert_eq!(
        decision(&not_all)["source"],
        "policy_settings",
        "no rule covers it all"
    );
}

#[tokio::test]
async fn a_resource_rule_meets_what_the_argument_names() {
    denied(
        &about(
            "probe#about_resource",
            json!("mailbox/inbox"),
            "deny",
            None,
            Some("mailbox/*"),
        )
        .await,
    );
    denied(
        &about(
            "probe#about_resource",
            json!(["x", "mailbox/a/b"]),
            "deny",
            None,
            Some("mailbox/*"),
        )
        .await,
    );
    about(
        "probe#about_resource",
        json!("mailboxes"),
        "deny",
        None,
        Some("mailbox/*"),
    )
    .await
    .succeeded();
    let allowed = about(
        "probe#about_resource",
        json!("mailbox/inbox"),
        "allow",
        None,
        Some("mailbox/*"),
    )
    .await;
    assert_eq!(
        decision(&allowed)["rule_refs"],
        json!(["allow resource \"mailbox/*\""])
    );
}

/// A tool that answers its input, with this permission profile.
fn with_profile(namespace: &str, profile: Value) -> Vec<u8> {
    echoing(namespace, |toolkit| {
        let mut record = json!({"schema_version": "0.2.0", "permission_profile_id": "asks", "risk_level": "low"});
        record
            .as_object_mut()
            .unwrap()
            .extend(profile.as_object().unwrap().clone());
        toolkit["permission_profiles"] = json!([record]);
        toolkit["declarations"][0]["permission_profile_ref"] = json!("asks");
    })
}

async fn under(component: &[u8], mode: Mode, rules: Vec<Rule>) -> Called {
    let test = Test::of_bytes(component.to_vec(), None);
    test.policy(|policy| *policy = Policy::new(mode, rules))
        .call(json!({}))
        .await
}

#[tokio::test]
async fn a_risk_rule_meets_that_risk_and_more_and_a_rule_by_name_lets_a_risky_tool_run() {
    let risky = with_profile("rules_risky", json!({"risk_level": "high"}));
    let deny = |risk| {
        vec![of_user(RuleWords {
            behavior: "deny",
            risk: Some(risk),
            ..Default::default()
        })]
    };
    denied(&under(&risky, Mode::Default, deny("medium")).await);
    denied(&under(&risky, Mode::Default, deny("high")).await);
    let asked = under(&risky, Mode::Default, deny("critical")).await;
    asked
        .failed("permission_denied", "nobody_to_ask")
        .never_ran();
    let own = digest(&risky);
    let by_name = RuleWords {
        behavior: "allow",
        tool: Some("rules_risky.echo"),
        ..Default::default()
    };
    let asked = under(&risky, Mode::Default, vec![of_user(by_name)]).await;
    asked
        .failed("permission_denied", "nobody_to_ask")
        .never_ran();
    assert!(asked.message().contains(&own), "{}", asked.message());
    let by_bytes = RuleWords {
        component: Some(&own),
        ..by_name
    };
    assert_eq!(
        under(&risky, Mode::Default, vec![of_user(by_bytes)])
            .await
            .succeeded(),
        json!({})
    );
    let only_bytes = RuleWords {
        behavior: "allow",
        component: Some(&own),
        ..Default::default()
    };
    assert_eq!(
        under(&risky, Mode::Default, vec![of_user(only_bytes)])
            .await
            .succeeded(),
        json!({})
    );
    let not_by_name = RuleWords {
        behavior: "allow",
        risk: Some("high"),
        ..Default::default()
    };
    let asked = under(&risky, Mode::Default, vec![of_user(not_by_name)]).await;
    asked
        .failed("permission_denied", "nobody_to_ask")
        .never_ran();
    // The host does not accept a lower risk than the tool's access implies: a tool that writes is not low risk.
    let project = Project::new();
    let words = RuleWords {
        behavior: "deny",
        risk: Some("medium"),
        ..Default::default()
    };
    let liar = with_profile(
        "rules_liar",
        json!({"access_kinds": ["file_write"], "write_effects": ["local_persistent"]}),
    );
    let test = Test::of_bytes(liar, None)
        .write(&project.root)
        .policy(|policy| policy.add(of_user(words)));
    denied(&test.call(json!({})).await);
}

#[tokio::test]
async fn a_denial_anywhere_wins_then_a_question_then_an_allowance() {
    let echo = with_profile("rules_layers", json!({}));
    let all = [
        RuleSource::PolicySettings,
        RuleSource::UserSettings,
        RuleSource::LocalSettings,
        RuleSource::ProjectSettings,
        RuleSource::FlagSettings,
        RuleSource::CliArg,
        RuleSource::Command,
        RuleSource::Session,
    ];
    let own = digest(&echo);
    let say = |behavior, source| {
        rule(
            RuleWords {
                behavior,
                tool: Some("echo"),
                component: Some(&own),
                ..Default::default()
            },
            source,
        )
    };
    for one in all {
        let word = serde_json::to_value(one).unwrap();
        let alone = under(&echo, Mode::Default, vec![say("allow", one)]).await;
        assert_eq!(
            (&decision(&alone)["source"], &decision(&alone)["behavior"]),
            (&word, &json!("allow"))
        );
        for other in all {
            let called = under(
                &echo,
                Mode::Default,
                vec![say("allow", other), say("ask", other), say("deny", one)],
            )
            .await;
            denied(&called);
            assert_eq!(
                (&decision(&called)["source"], &decision(&called)["behavior"]),
                (&word, &json!("deny"))
            );
            let called = under(
                &echo,
                Mode::Default,
                vec![say("allow", other), say("ask", one)],
            )
            .await;
            called
                .failed("permission_denied", "nobody_to_ask")
                .never_ran();
            assert_eq!(
                (&decision(&called)["source"], &decision(&called)["behavior"]),
                (&word, &json!("ask"))
            );
        }
    }
    // Of several rules with the same behavior, the one with the highest authority comes first, whatever their order.
    let mut rules: Vec<Rule> = all
        .into_iter()
        .rev()
        .map(|source| say("deny", source))
        .collect();
    for _ in 0..all.len() {
        rules.rotate_left(1);
        assert_eq!(
            decision(&under(&echo, Mode::Default, rules.clone()).await)["source"],
            "policy_settings"
        );
    }
}

#[tokio::test]
async fn an_allowance_grants_nothing() {
    let project = Project::new();
    let allow = of_user(RuleWords {
        behavior: "allow",
        tool: Some("probe.*"),
        path: Some("/"),
        ..Default::default()
    });
    let test = Test::new("probe#read_named").policy(|policy| policy.add(allow));
    let called = test.call(json!({ "path": project.at("a") })).await;
    called
        .failed("permission_denied", "not_granted")
        .never_ran();
}

#[tokio::test]
async fn where_nobody_is_asked_what_would_be_asked_is_denied() {
    let echo = with_profile("rules_silent", json!({}));
    let ask = || {
        vec![of_user(RuleWords {
            behavior: "ask",
            reason: Some("it is dear"),
            ..Default::default()
        })]
    };
    let called = under(&echo, Mode::NonInteractive, ask()).await;
    called
        .failed("permission_denied", "approval_not_possible")
        .ended("denied", "denied")
        .never_ran();
    assert!(
        called.message().contains("it is dear"),
        "{}",
        called.message()
    );
    let decided = decision(&called);
    assert_eq!(
        (&decided["behavior"], &decided["mode"]),
        (&json!("deny"), &json!("non_interactive"))
    );
    assert_eq!(
        (&decided["source"], &decided["reason"]["type"]),
        (&json!("user_settings"), &json!("mode"))
    );
    assert_eq!(
        under(&echo, Mode::NonInteractive, Vec::new())
            .await
            .succeeded(),
        json!({})
    );
    // The tool itself declares that no approver can be asked.
    let mute = with_profile(
        "rules_mute",
        json!({"approval_required": true, "permission_channel": "none"}),
    );
    let called = under(&mute, Mode::Default, Vec::new()).await;
    called
        .failed("permission_denied", "approval_not_possible")
        .never_ran();
}

#[tokio::test]
async fn a_rule_by_name_stands_for_the_approval_only_where_the_tool_accepts_that_and_nobody_is_asked()
 {
    let allow = |component: &[u8]| {
        let own = digest(component);
        let words = RuleWords {
            behavior: "allow",
            tool: Some("echo"),
            component: Some(&own),
            ..Default::default()
        };
        vec![of_user(words)]
    };
    let strict = with_profile("rules_strict", json!({"approval_required": true}));
    let mild = json!({"approval_required": true, "non_interactive": "allow_if_preapproved"});
    let mild = with_profile("rules_mild", mild);
    let undone =
        json!({"write_effects": ["irreversible"], "non_interactive": "allow_if_preapproved"});
    let undone = with_profile("rules_undone", undone);
    for component in [&strict, &mild, &undone] {
        under(component, Mode::Default, allow(component))
            .await
            .failed("permission_denied", "nobody_to_ask");
    }
    for (component, rules) in [
        (&strict, allow(&strict)),
        (&mild, Vec::new()),
        (&undone, allow(&undone)),
    ] {
        let called = under(component, Mode::NonInteractive, rules).await;
        called
            .failed("permission_denied", "approval_not_possible")
            .never_ran();
    }
    assert_eq!(
        under(&mild, Mode::NonInteractive, allow(&mild))
            .await
            .succeeded(),
        json!({})
    );
}

#[tokio::test]
async fn in_plan_mode_what_only_looks_runs_and_what_has_effects_does_not() {
    let project = Project::new();
    let plan = |tool: &str| {
        Test::new(tool)
            .write(&project.root)
            .policy(|policy| policy.mode = Mode::Plan)
    };
    let input = || json!({ "path": project.at("a") });
    assert_eq!(
        plan("probe#touch_reads").call(input()).await.succeeded()["read"]["ok"],
        "a"
    );
    // Drafts are deleted with the call, and a tool that claims to be read-only cannot write.
    for tool in [
        "probe#touch_nothing",
        "probe#touch_drafts",
        "probe#touch_liar",
    ] {
        plan(tool).call(input()).await.succeeded();
    }
    for tool in [
        "probe#touch_writes",
        "probe#write_named",
        "probe#touch_remote",
    ] {
        let called = plan(tool).call(input()).await;
        called
            .failed("permission_denied", "plan_mode")
            .ended("denied", "denied")
            .never_ran();
        assert_eq!(
            (
                &decision(&called)["mode"],
                &decision(&called)["reason"]["type"]
            ),
            (&json!("plan"), &json!("mode"))
        );
    }
    for profile in [
        json!({"write_effects": ["irreversible"]}),
        json!({"credential_refs": ["token"]}),
    ] {
        let component = with_profile("rules_planned", profile);
        let called =
            Test::of_bytes(component, None).on(&super::doubles::own_host(|settings| settings));
        let called = called
            .policy(|policy| policy.mode = Mode::Plan)
            .call(json!({}))
            .await;
        called.failed("permission_denied", "plan_mode").never_ran();
    }
}

#[tokio::test]
async fn no_grant_reaches_the_hosts_own_state() {
    let (_guard, outer) = scratch();
    let home = outer.join("home");
    fs::create_dir_all(home.join("keys")).unwrap();
    let host = super::doubles::own_host(|settings| settings.home(toolcell::Home::at(&home)));
    let read = |folder: &Path| Test::new("probe#touch_reads").on(&host).read(folder);
    symlink(home.join("keys"), outer.join("link")).unwrap();
    for folder in [
        outer.clone(),
        home.clone(),
        home.join("keys"),
        outer.join("link"),
    ] {
        let called = read(&folder).call(json!({ "path": folder })).await;
        called
            .failed("policy_blocked", "grant_reaches_own_state")
            .ended("denied", "blocked")
            .never_ran();
        assert!(
            called.message().contains("--deny-read="),
            "{}",
            called.message()
        );
    }
    fs::write(outer.join("a"), "a").unwrap();
    fs::write(home.join("secret"), "secret").unwrap();
    let closed = home.display().to_string();
    let test = read(&outer).grant(|grants| grants.deny_read(&closed).unwrap());
    let touched = test
        .call(json!({ "path": outer.join("a"), "other": home.join("secret") }))
        .await
        .succeeded();
    assert_eq!(
        (&touched["read"]["ok"], &touched["other"]["ok"]),
        (&json!("a"), &Value::Null)
    );
    let test = read(&home.join("keys")).grant(|grants| grants.deny_read(&closed).unwrap());
    test.call(json!({ "path": outer }))
        .await
        .failed("permission_denied", "denied_by_rule")
        .never_ran();
}

#[tokio::test]
async fn a_component_that_imports_more_than_its_tools_declare_is_refused_at_load() {
    let http = "wasi:http/types@0.2.6";
    let sockets = "wasi:sockets/tcp@0.2.6";
    let load = async |import: &str, namespace: &str, access: Value| {
        let bytes = importing(import, namespace, |toolkit| {
            let profile = json!({"schema_version": "0.2.0", "permission_profile_id": "asks", "risk_level": "low",
                "access_kinds": access});
            toolkit["permission_profiles"] = json!([profile]);
            toolkit["declarations"][0]["permission_profile_ref"] = json!("asks");
        });
        Test::of_bytes(bytes, None).load().await
    };
    let refusal = load(http, "rules_undeclared", json!(["file_read"]))
        .await
        .unwrap_err();
    assert_eq!(refusal.code, ErrorCode::ImportsUndeclared);
    assert!(refusal.message.contains(http), "{}", refusal.message);
    assert!(
        load(http, "rules_declared", json!(["network"]))
            .await
            .is_ok()
    );
    // Language runtimes import sockets even for pure code; the import has no effect.
    assert!(load(sockets, "rules_runtime", json!([])).await.is_ok());
}

#[tokio::test]
async fn subjects_that_lead_to_no_argument_are_refused_at_load() {
    let about = |pointer: &str, kind: &str| {
        let bytes = echoing("rules_subjects", |toolkit| {
            let id = "rules_subjects.interface";
            toolkit["interfaces"] = json!([{ "schema_version": "0.2.0", "interface_id": id,
                "tool_id": "rules_subjects.echo",
                "permission_subjects": { pointer: kind } }]);
            toolkit["declarations"][0]["interface_ref"] = json!(id);
            let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
            toolkit["declarations"][0]["input_contract"]["model_input_schema"] = schema;
        });
        Test::of_bytes(bytes, None)
    };
    assert!(
        about("/path", "path")
            .on(&super::doubles::own_host(|settings| settings))
            .load()
            .await
            .is_ok()
    );
    for (pointer, kind) in [("/pathh", "path"), ("path", "path"), ("/path", "colour")] {
        let refusal = about(pointer, kind)
            .on(&super::doubles::own_host(|settings| settings))
            .load()
            .await
            .unwrap_err();
        assert_eq!(
            refusal.code,
            ErrorCode::DescriptionInvalid,
            "{pointer} {kind}"
        );
    }
}

/// A tool that takes a command, and has an id in another protocol.
fn commanding() -> Vec<u8> {
    echoing("commanding", |toolkit| {
        let declaration = &mut toolkit["declarations"][0];
        declaration["input_contract"] = json!({ "model_input_schema": { "type": "object", "properties": {
            "command": {}, "operation": { "type": "string" },
        } } });
        declaration["interface_ref"] = json!("i");
        declaration["external_mappings"] =
            json!([{ "source": "openapi", "operation_id": "deleteRepo" }]);
        toolkit["interfaces"] = json!([{
            "schema_version": "0.2.0", "interface_id": "i", "tool_id": "commanding.echo",
            "permission_subjects": { "/command": "command", "/operation": "native_operation_id" },
        }]);
    })
}

async fn commanded(input: Value, words: RuleWords<'_>) -> Called {
    let test = Test::of_bytes(commanding(), None);
    test.policy(|policy| *policy = Policy::new(Mode::Default, vec![of_user(words)]))
        .call(input)
        .await
}

#[tokio::test]
async fn a_command_rule_meets_the_command_however_it_is_written() {
    let deny = RuleWords {
        behavior: "deny",
        command: Some("rm *"),
        ..Default::default()
    };
    for command in [
        json!("rm -rf x"),
        json!("  rm   -rf x"),
        json!("/bin/rm x"),
        json!(["rm", "-rf", "x"]),
        json!("ls; rm x"),
        json!("'r'm x"),
        json!("A=1 rm x"),
    ] {
        denied(&commanded(json!({ "command": command }), deny).await);
    }
    commanded(json!({ "command": "rmdir x" }), deny)
        .await
        .succeeded();
    commanded(json!({ "command": ["git", "rm", "x"] }), deny)
        .await
        .succeeded();
    commanded(json!({}), deny).await.succeeded();
    let unreadable = commanded(json!({ "command": { "rm": "x" } }), deny).await;
    unreadable
        .failed("permission_denied", "subject_unreadable")
        .never_ran();
    let allow = RuleWords {
        behavior: "allow",
        command: Some("git *"),
        ..Default::default()
    };
    let allowed = commanded(json!({ "command": "git  status" }), allow).await;
    assert_eq!(
        decision(&allowed)["rule_refs"],
        json!(["allow command \"git *\""])
    );
    let other = commanded(json!({ "command": "git status; rm x" }), allow).await;
    assert_eq!(decision(&other)["rule_refs"], json!([]));
}

#[tokio::test]
async fn an_operation_rule_meets_what_an_argument_names_and_what_the_tool_is_elsewhere() {
    let deny = |id| RuleWords {
        behavior: "deny",
        native_operation_id: Some(id),
        ..Default::default()
    };
    denied(&commanded(json!({}), deny("deleteRepo")).await);
    denied(&commanded(json!({ "operation": "listRepos" }), deny("delete*")).await);
    denied(&commanded(json!({ "operation": "dropTable" }), deny("drop*")).await);
    commanded(json!({ "operation": "listRepos" }), deny("drop*"))
        .await
        .succeeded();
    let allow = RuleWords {
        behavior: "allow",
        native_operation_id: Some("list*"),
        ..Default::default()
    };
    for (input, rules) in [
        (
            json!({ "operation": "listRepos" }),
            json!(["allow native_operation_id \"list*\""]),
        ),
        (json!({ "operation": "dropTable" }), json!([])),
    ] {
        let called = commanded(input, allow).await;
        called.succeeded();
        assert_eq!(decision(&called)["rule_refs"], rules);
    }
}
