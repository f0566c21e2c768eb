//! What the program reports of its own work, with `TOOLCELL_LOG`.

use std::path::Path;

use serde_json::json;

use super::guest;
use super::hooks::{configured, scripted};
use crate::support::{Canary, Mirror, Ran, Toolcell, scratch};

const SECRET: Canary = Canary::new("sk-told/4f9+aB~cD\"eF0123=xyz");
const ARGUMENT: Canary = Canary::new("argument-told-7d0bCeFgH4567uvw");

/// The phases of a call that succeeds, in their order.
const PHASES: [&str; 13] = [
    "resolve",
    "parse",
    "schema_gate",
    "validate",
    "observe",
    "pre_hooks",
    "permission",
    "schedule",
    "execute",
    "map_result",
    "post_hooks",
    "persist",
    "terminal",
];

/// Calls a tool that sends the secret to `mirror`, with the other canary in the path of its request.
fn send(home: &Path, mirror: &Mirror, level: &str) -> Ran {
    let tool = guest("courier#bearer");
    let url = format!("{}/{}?a=b", mirror.origin(), ARGUMENT.value());
    let input = json!({ "url": url, "then": "answer" }).to_string();
    let net = format!("--allow-net={}", mirror.origin());
    let secret = format!("--allow-secret=API_KEY@{}", mirror.origin());
    Toolcell::at(home, ["call", &tool, &input, &net, &secret])
        .env("TOOLCELL_LOG", level)
        .run()
}

/// The lines of standard error, first the reports, as `TIME LEVEL MODULE: MESSAGE FIELDS`, and then all others.
fn lines(ran: &Ran) -> (Vec<&str>, Vec<&str>) {
    ran.stderr.lines().partition(|line| {
        let module = line.split_whitespace().nth(2);
        module.is_some_and(|word| word.starts_with("toolcell_") && word.ends_with(':'))
    })
}

/// The reports with `message`, in their order.
fn reports<'r>(ran: &'r Ran, message: &str) -> Vec<&'r str> {
    let mut reports = lines(ran).0;
    reports.retain(|line| line.contains(message));
    reports
}

#[test]
fn the_phases_of_a_call_are_reported_without_its_secrets_and_arguments() {
    let (_guard, home) = scratch();
    Toolcell::at(&home, ["secrets", "set", "API_KEY"])
        .stdin(SECRET.value())
        .run()
        .exits(0);
    let mirror = Mirror::reflecting();
    let told = send(&home, &mirror, "debug").exits(0);
    let silent = send(&home, &mirror, "").exits(0);
    assert_eq!(told.stdout, silent.stdout);
    assert_eq!(lines(&told).1, lines(&silent).1);
    assert!(lines(&silent).0.is_empty(), "{}", silent.stderr);
    let phases = reports(&told, "a phase ended");
    assert_eq!(phases.len(), PHASES.len(), "{phases:#?}");
    for (line, phase) in phases.iter().zip(PHASES) {
        assert!(
            line.contains(&format!("phase=\"{phase}\"")) && line.contains("took="),
            "{line}"
        );
    }
    let compiled = reports(&told, "the compiler ended");
    assert!(
        compiled.len() == 1 && compiled[0].contains("component=\"sha256:"),
        "{compiled:#?}"
    );
    let requests = reports(&told, "a request ended");
    let origin = format!("method=\"GET\" origin={} status=200", mirror.origin());
    assert!(
        requests.len() == 1 && requests[0].contains(&origin),
        "{requests:#?}"
    );
    let ended = reports(&told, "a call ended");
    assert!(
        ended.len() == 1 && ended[0].contains("status=\"succeeded\" code=\"none\""),
        "{ended:#?}"
    );
    // At the lowest level too, and no escape sequences where no terminal is.
    for ran in [told, send(&home, &mirror, "trace").exits(0)] {
        let reports = lines(&ran).0.join("\n");
        assert!(!reports.contains('\u{1b}'), "{reports}");
        SECRET.is_not_in("the reports", &ran.stderr);
        // The tool itself shows it elsewhere.
        ARGUMENT.is_not_in("the reports", &reports);
    }
}

#[test]
fn a_refused_call_is_reported_with_its_code_and_not_with_its_arguments() {
    let input = json!({ ARGUMENT.value(): ARGUMENT.value() }).to_string();
    let ran = Toolcell::new(["call", &guest("probe#strict"), &input, "--json"])
        .env("TOOLCELL_LOG", "info")
        .run()
        .exits(2);
    let code = ran.json()["error"]["error_code"].clone();
    let ended = reports(&ran, "a call ended");
    assert!(
        ended.len() == 1 && ended[0].contains(&format!("code={code} took=")),
        "{code}: {ended:#?}"
    );
    ARGUMENT.is_not_in("the report", ended[0]);
    // Phases are reported from the level `debug` on.
    assert!(reports(&ran, "a phase ended").is_empty(), "{}", ran.stderr);
}

#[test]
fn what_a_tool_makes_of_its_arguments_is_not_in_the_reports() {
    let mirror = Mirror::reflecting();
    let request = json!({ "authority": mirror.origin().trim_start_matches("http://"), "scheme": "http", "method": ARGUMENT.value() });
    let failing = json!({ "class": "execution_failed", "code": ARGUMENT.value() });
    let net = format!("--allow-net={}", mirror.origin());
    for (tool, input, reported) in [
        (
            "egress#ask",
            json!({ "requests": [request] }),
            "method=\"other\"",
        ),
        ("probe#fail", failing, "code=\"own\""),
    ] {
        let ran = Toolcell::new(["call", &guest(tool), &input.to_string(), &net])
            .env("TOOLCELL_LOG", "trace")
            .run();
        let reports = lines(&ran).0.join("\n");
        assert!(reports.contains(reported), "{tool}: {}", ran.stderr);
        ARGUMENT.is_not_in("the reports", &reports);
    }
}

#[test]
fn the_runs_of_hooks_are_reported() {
    let (_guard, folder) = scratch();
    let config = configured(&folder, &scripted("")).display().to_string();
    let tool = guest("probe#echo");
    let input = json!({ "text": ARGUMENT.value() }).to_string();
    let ran = Toolcell::new(["call", &tool, &input, "--config", &config])
        .env("TOOLCELL_LOG", "debug")
        .run()
        .exits(0);
    let hooks = reports(&ran, "a hook ran");
    let is_complete =
        |line: &&str| line.contains("hook=\"scripted\"") && line.contains("outcome=Completed");
    assert!(
        !hooks.is_empty() && hooks.iter().all(is_complete),
        "{}",
        ran.stderr
    );
    ARGUMENT.is_not_in("the reports", &ran.stderr);
}

#[test]
fn a_level_that_does_not_exist_is_a_bad_request() {
    for word in ["loud", "DEBUG", "toolcell=debug"] {
        let ran = Toolcell::new(["completions", "bash"])
            .env("TOOLCELL_LOG", word)
            .run()
            .exits(2);
        assert!(
            ran.stdout.is_empty()
                && ran.stderr.contains(word)
                && ran.stderr.contains("error, warn, info, debug, trace"),
            "{ran:?}"
        );
    }
    for word in ["off", ""] {
        let ran = Toolcell::new(["completions", "bash"])
            .env("TOOLCELL_LOG", word)
            .run()
            .exits(0);
        assert!(ran.stderr.is_empty(), "{ran:?}");
    }
}
