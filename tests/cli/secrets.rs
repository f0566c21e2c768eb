//! Secrets: stored once, never shown again, sent in requests to one origin, and found nowhere else.
//!
//! Promise: Secrets are shown nowhere.
//! Promise: Secrets are sealed.
//! Promise: Whether a secret is set stays hidden

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::guest;
use crate::support::{Canary, Mirror, Ran, Toolcell, response, scratch};

const CANARY: Canary = Canary::new("sk-live/4f9+aB~cD\"eF0123=xyz");

fn toolcell(home: &Path, arguments: &[&str]) -> Toolcell {
    Toolcell::at(home, arguments)
        .env("RUST_LOG", "trace")
        .env("RUST_BACKTRACE", "full")
}

fn set(home: &Path, name: &str, value: &str) -> Ran {
    toolcell(home, &["secrets", "set", name]).stdin(value).run()
}

fn listed(home: &Path) -> Vec<String> {
    let list = toolcell(home, &["secrets", "list", "--json"])
        .run()
        .exits(0)
        .json();
    let names = list["secrets"].as_array().unwrap().iter();
    names
        .map(|entry| entry["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Calls a tool of `courier` with the grants for a request to `mirror`.
fn send(home: &Path, tool: &str, mirror: &Mirror, then: &str, options: &[&str]) -> Ran {
    let tool = guest(&format!("courier#{tool}"));
    let input = json!({ "url": format!("{}/path?a=b", mirror.origin()), "then": then }).to_string();
    let net = format!("--allow-net={}", mirror.origin());
    let secret = format!("--allow-secret=API_KEY@{}", mirror.origin());
    let mut arguments = vec!["call", &tool, &input, &net, &secret];
    arguments.extend(options);
    toolcell(home, &arguments).run()
}

fn shows_nothing(ran: &Ran) {
    CANARY.is_not_in("standard output", &ran.stdout);
    CANARY.is_not_in("standard error", &ran.stderr);
}

#[test]
fn a_secret_is_set_from_standard_input_listed_by_name_and_removed() {
    let (_guard, home) = scratch();
    assert!(listed(&home).is_empty());
    let ran = set(&home, "API_KEY", &format!("{}\n", CANARY.value())).exits(0);
    assert!(
        ran.stdout.is_empty() && ran.stderr.contains("set the secret API_KEY"),
        "{ran:?}"
    );
    let again = toolcell(&home, &["secrets", "set", "API_KEY", "--json"])
        .stdin("another value")
        .run()
        .exits(0);
    assert_eq!(again.json(), json!({ "name": "API_KEY", "replaced": true }));
    set(&home, "other.key-2", CANARY.value()).exits(0);
    assert_eq!(listed(&home), ["API_KEY", "other.key-2"]);
    let people = toolcell(&home, &["secrets", "list"]).run().exits(0);
    assert!(
        people.stdout.starts_with("API_KEY ") && people.stdout.lines().count() == 2,
        "{people:?}"
    );
    shows_nothing(&people);
    toolcell(&home, &["secrets", "remove", "API_KEY"])
        .run()
        .exits(0);
    assert_eq!(listed(&home), ["other.key-2"]);
    let gone = toolcell(&home, &["secrets", "remove", "API_KEY"])
        .run()
        .exits(2);
    assert!(
        gone.stderr.contains("there is no secret API_KEY"),
        "{}",
        gone.stderr
    );
}

#[test]
fn a_value_is_no_argument_and_what_cannot_be_kept_out_of_records_is_refused_without_being_quoted() {
    let (_guard, home) = scratch();
    toolcell(&home, &["secrets", "set", "API_KEY", CANARY.value()])
        .run()
        .exits(2);
    let long = "x".repeat(20_000);
    for (value, why) in [
        ("", "shorter"),
        ("\n", "shorter"),
        ("seven77", "shorter"),
        ("two\nlines here", "line breaks"),
    ] {
        let ran = set(&home, "API_KEY", value).exits(2);
        assert!(
            ran.stderr.contains(why) && (value.len() < 2 || !ran.stderr.contains(value)),
            "{value:?}: {ran:?}"
        );
    }
    assert!(
        set(&home, "API_KEY", &long)
            .exits(2)
            .stderr
            .contains("longer")
    );
    for name in [
        "",
        "a b",
        "a@b",
        "../a",
        ".a",
        "a,b",
        "\u{e4}",
        &"x".repeat(65),
    ] {
        let ran = set(&home, name, CANARY.value()).exits(2);
        assert!(
            ran.stderr.contains("not a name for a secret"),
            "{name}: {ran:?}"
        );
        shows_nothing(&ran);
    }
    assert!(listed(&home).is_empty());
}

#[test]
fn what_is_kept_is_sealed_private_and_apart_from_its_key() {
    let (_guard, home) = scratch();
    set(&home, "API_KEY", CANARY.value()).exits(0);
    let store = home.join("secrets/store");
    let key = home.join("keys/secrets");
    for (path, mode) in [
        (&store, 0o600),
        (&key, 0o600),
        (&home.join("secrets"), 0o700),
        (&home.join("keys"), 0o700),
    ] {
        assert_eq!(
            fs::metadata(path).unwrap().permissions().mode() & 0o777,
            mode,
            "{}",
            path.display()
        );
    }
    assert!(CANARY.is_nowhere_below(&home) >= 2);
    assert!(
        !String::from_utf8_lossy(&fs::read(&store).unwrap()).contains("API_KEY"),
        "names are sealed, too"
    );
    assert_eq!(fs::read(&key).unwrap().len(), 32);
}

#[test]
fn a_store_that_was_damaged_or_opened_to_others_is_refused_and_left_as_it_is() {
    let (_guard, home) = scratch();
    set(&home, "API_KEY", CANARY.value()).exits(0);
    let store = home.join("secrets/store");
    let key = home.join("keys/secrets");
    let sealed = fs::read(&store).unwrap();
    let made = fs::read(&key).unwrap();
    let mirror = Mirror::reflecting();
    let refused = |why: &str| {
        let before = fs::read(&store).ok();
        for arguments in [&["secrets", "list"][..], &["secrets", "remove", "API_KEY"]] {
            let ran = toolcell(&home, arguments).run().exits(70);
            assert!(ran.stderr.contains(why), "{why}: {}", ran.stderr);
        }
        assert!(
            set(&home, "OTHER_KEY", "another value")
                .exits(70)
                .stderr
                .contains(why)
        );
        let ran = send(&home, "bearer", &mirror, "answer", &["--json"]).exits(2);
        assert_eq!(ran.json()["error"]["error_code"], "secret_store_unreadable");
        assert_eq!(
            fs::read(&store).ok(),
            before,
            "a store that cannot be read is not written"
        );
    };
    for at in [0, 30, sealed.len() - 1] {
        let mut tampered = sealed.clone();
        tampered[at] ^= 1;
        fs::write(&store, tampered).unwrap();
        refused("cannot be opened");
    }
    for length in [0, 10, sealed.len() - 1] {
        fs::write(&store, &sealed[..length]).unwrap();
        refused("cannot be opened");
    }
    fs::write(&store, &sealed).unwrap();
    fs::write(&key, [7; 32]).unwrap();
    refused("cannot be opened");
    fs::write(&key, [7; 31]).unwrap();
    refused("damaged");
    fs::remove_file(&key).unwrap();
    refused("is missing");
    assert!(!key.exists(), "a new key would open nothing");
    fs::write(&key, &made).unwrap();
    refused("can be read by others");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    for mode in [0o640, 0o604, 0o620] {
        fs::set_permissions(&store, fs::Permissions::from_mode(mode)).unwrap();
        refused("can be read by others");
    }
    fs::set_permissions(&store, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(listed(&home), ["API_KEY"]);
    fs::rename(&store, home.join("secrets/elsewhere")).unwrap();
    std::os::unix::fs::symlink(home.join("secrets/elsewhere"), &store).unwrap();
    refused("open ");
    assert!(mirror.seen().is_empty());
}

#[test]
fn two_processes_that_set_secrets_at_once_lose_nothing() {
    let (_guard, home) = scratch();
    let names: Vec<String> = (0..8).map(|n| format!("KEY_{n}")).collect();
    let started: Vec<_> = names
        .iter()
        .map(|name| {
            toolcell(&home, &["secrets", "set", name])
                .stdin("value of it")
                .spawn()
        })
        .collect();
    for child in started {
        Ran::from(child.wait_with_output().unwrap()).exits(0);
    }
    assert_eq!(listed(&home), names);
}

#[test]
fn the_value_reaches_the_server_and_nothing_else() {
    let (_guard, home) = scratch();
    set(&home, "API_KEY", CANARY.value()).exits(0);
    let percent: String = CANARY
        .value()
        .bytes()
        .map(|b| format!("%{b:02X}"))
        .collect();
    let encoded = |request: &str| {
        let base64 = data_encoding::BASE64.encode(request.as_bytes());
        let hex = data_encoding::HEXUPPER.encode(request.as_bytes());
        format!(
            "{request}\n{base64}\n{hex}\n{}\n{}",
            json!({ "q": request }),
            CANARY.value().len()
        )
    };
    let mirror = Mirror::new(move |request| {
        let body = format!("{}\n{percent}", encoded(request));
        response(
            &[("x-echo", &request.replace("\r\n", " "))],
            body.as_bytes(),
        )
    });
    let mut calls = 0;
    for tool in ["bearer", "header", "query"] {
        for (then, code) in [("answer", 0), ("fail", 1), ("panic", 1)] {
            for options in [&[][..], &["--json"], &["--print-record"]] {
                let ran = send(&home, tool, &mirror, then, options).exits(code);
                shows_nothing(&ran);
                if !(then == "panic" && options.is_empty()) {
                    let shown = format!("{}{}", ran.stdout, ran.stderr);
                    assert!(shown.contains("[secret API_KEY]"), "{tool} {then}: {shown}");
                }
                if options == ["--json"] {
                    assert_eq!(ran.json()["redaction_state"], "partial");
                }
                calls += 1;
            }
        }
    }
    assert!(CANARY.is_nowhere_below(&home) > 3);
    let seen = mirror.seen();
    assert_eq!(seen.len(), calls);
    let query = url::form_urlencoded::byte_serialize(CANARY.value().as_bytes()).collect::<String>();
    let carried = |request: &&String| {
        request.contains(&format!("authorization: Bearer {}\r\n", CANARY.value()))
            || request.contains(&format!("x-custom-key: k={}\r\n", CANARY.value()))
            || request.starts_with(&format!("GET /path?a=b&key={query} HTTP/1.1\r\n"))
    };
    assert_eq!(seen.iter().filter(carried).count(), calls, "{seen:#?}");
}

#[test]
fn a_payload_on_disk_holds_no_value() {
    let (_guard, home) = scratch();
    set(&home, "API_KEY", CANARY.value()).exits(0);
    let mirror = Mirror::new(|request| response(&[], request.repeat(600).as_bytes()));
    let ran = send(&home, "bearer", &mirror, "answer", &["--print-record"]).exits(0);
    shows_nothing(&ran);
    let record = ran.json();
    let stored: Vec<&Value> = record["persistence"].as_array().unwrap().iter().collect();
    assert!(
        stored
            .iter()
            .all(|decision| decision["redaction_state"] == "partial"),
        "{stored:?}"
    );
    let payloads: Vec<PathBuf> = fs::read_dir(home.join("payloads"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(!payloads.is_empty());
    assert!(
        fs::read_to_string(&payloads[0])
            .unwrap()
            .contains("[secret API_KEY]")
    );
    CANARY.is_nowhere_below(&home);
}

#[test]
fn a_secret_that_is_not_set_ends_the_call_before_anything_runs() {
    let (_guard, home) = scratch();
    let mirror = Mirror::reflecting();
    let ran = send(&home, "bearer", &mirror, "answer", &["--print-record"]).exits(2);
    let record = ran.json();
    assert_eq!(
        record["result"]["error"]["error_class"],
        "credential_missing"
    );
    assert_eq!(record["result"]["error"]["recoverability"], "setup_first");
    let message = record["result"]["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("`toolcell secrets set API_KEY`"),
        "{message}"
    );
    assert_eq!(record["invocation"]["status"], "blocked");
    assert!(record["invocation"].get("started_at").is_none() && mirror.seen().is_empty());
    let needed = json!({ "access_kind": "credential", "subject": "API_KEY", "next_action": "toolcell secrets set API_KEY" });
    assert_eq!(record["result"]["error"]["needs_authorization"], needed);
    for ended in ["tool.invocation.blocked", "tool.invocation.failed"] {
        let mut events = record["events"].as_array().unwrap().iter();
        let event = events.find(|event| event["event_type"] == ended).unwrap();
        assert_eq!(event["data"]["needs_authorization"], needed, "{ended}");
    }
    // Later processes read it from the log, and the same call succeeds once it is done.
    let id = record["invocation"]["invocation_id"].as_str().unwrap();
    let shown = toolcell(&home, &["show", id, "--json"])
        .run()
        .exits(0)
        .json();
    assert_eq!(shown["result"]["error"]["needs_authorization"], needed);
    set(&home, "API_KEY", CANARY.value()).exits(0);
    send(&home, "bearer", &mirror, "answer", &[]).exits(0);
    assert_eq!(mirror.seen().len(), 1);
}

#[test]
fn a_secret_that_is_not_granted_is_refused_whether_it_is_set_or_not() {
    let (_guard, home) = scratch();
    let mirror = Mirror::reflecting();
    let call = || {
        let tool = guest("courier#bearer");
        let input = json!({ "url": mirror.origin() }).to_string();
        let net = format!("--allow-net={}", mirror.origin());
        let other = format!("--allow-secret=OTHER_KEY@{}", mirror.origin());
        toolcell(&home, &["call", &tool, &input, &net, &other])
            .run()
            .exits(3)
            .stderr
    };
    let before = call();
    set(&home, "API_KEY", CANARY.value()).exits(0);
    assert_eq!(
        before,
        call(),
        "a refusal does not say whether a secret is set"
    );
    assert!(
        before.contains("--allow-secret=API_KEY@https://HOST"),
        "{before}"
    );
    assert!(mirror.seen().is_empty());
}

#[test]
fn the_security_schemes_of_an_openapi_mapping_are_secrets_that_its_tool_needs() {
    let (_guard, home) = scratch();
    let tool = guest("courier#mapped");
    let described = toolcell(&home, &["describe", &tool]).run().exits(0).stdout;
    for said in [
        "API_KEY, OTHER_KEY",
        "--allow-secret=OTHER_KEY@https://HOST",
    ] {
        assert!(described.contains(said), "{said}: {described}");
    }
    let mirror = Mirror::reflecting();
    let grant = |name: &str| format!("--allow-secret={name}@{}", mirror.origin());
    set(&home, "API_KEY", CANARY.value()).exits(0);
    let missing = send(&home, "mapped", &mirror, "answer", &["--print-record"]).exits(3);
    let error = missing.json()["result"]["error"].clone();
    assert_eq!(
        (
            &error["error_code"],
            &error["needs_authorization"]["subject"]
        ),
        (&json!("not_granted"), &json!("OTHER_KEY")),
        "{error:#}"
    );
    let input = json!({ "url": mirror.origin() }).to_string();
    let net = format!("--allow-net={}", mirror.origin());
    let first = grant("API_KEY");
    let checked = toolcell(&home, &["policy", "check", &tool, &input, &net, &first])
        .run()
        .exits(3);
    assert!(
        checked.stdout.contains("needs the secret OTHER_KEY"),
        "{checked:?}"
    );
    let second = grant("OTHER_KEY");
    let unset = send(&home, "mapped", &mirror, "answer", &[&second]).exits(2);
    assert!(
        unset.stderr.contains("`toolcell secrets set OTHER_KEY`") && mirror.seen().is_empty(),
        "{unset:?}"
    );
    set(&home, "OTHER_KEY", "another-value").exits(0);
    shows_nothing(&send(&home, "mapped", &mirror, "answer", &[&second]).exits(0));
    let [sent] = <[String; 1]>::try_from(mirror.seen()).unwrap();
    assert!(
        sent.contains(&format!("authorization: Bearer {}\r\n", CANARY.value()))
            && sent.starts_with("GET /path?a=b&other=another-value HTTP/1.1\r\n"),
        "{sent}"
    );
}

#[test]
fn a_grant_names_a_secret_and_one_origin() {
    let (_guard, home) = scratch();
    for grant in [
        "API_KEY",
        "@https://a.example",
        "API_KEY@a.example",
        "API_KEY@http://a.example",
        "API_KEY@https://*.a.example",
    ] {
        let option = format!("--allow-secret={grant}");
        let ran = toolcell(
            &home,
            &[
                "call",
                &guest("courier#plain"),
                "{\"url\": \"http://a\"}",
                &option,
            ],
        )
        .run()
        .exits(2);
        assert!(ran.stderr.contains(&option), "{}", ran.stderr);
    }
}
