//! The end of a server that others wait for: readiness falls, what runs finishes, and what is refused can be sent again.
//!
//! Promise: A client that disconnects stops its calls.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Coming, Home, Reply, Web};

/// Begins a call of the plain API.
fn begin(web: &Web, tool: &str, input: Value) -> TcpStream {
    let body = json!({ "tool": tool, "input": input }).to_string();
    web.begin("POST /v1/calls", &web.headers(), &body)
}

fn ask_to_end(web: &mut Web) {
    let pid = web.pid().to_string();
    let status = std::process::Command::new("kill")
        .args(["-TERM", &pid])
        .status();
    assert!(status.unwrap().success());
}

fn code(reply: &Reply) -> String {
    let problem: Value = serde_json::from_str(&reply.body).unwrap();
    problem["code"].as_str().unwrap_or_default().to_owned()
}

/// A server at `home` with the tools of the probe.
fn served(home: &Home, options: &[&str]) -> Web {
    let arguments = Web::arguments(&["probe#hold", "probe#echo", "probe#progress"], options);
    let arguments: Vec<String> = arguments
        .into_iter()
        .map(|one| one.into_string().unwrap())
        .collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Web::run(home.toolcell(&arguments))
}

#[test]
fn readiness_falls_first_and_calls_are_taken_until_the_delay_is_over() {
    let home = Home::new();
    let mut web = served(&home, &["--drain-delay=3s", "--drain=30s", "--timeout=50s"]);
    let held = begin(&web, "hold", json!({ "ms": 5_000 }));
    let running = begin(&web, "echo", json!({}));
    assert_eq!(Coming::head(running).whole().status, 200);
    let began = Instant::now();
    ask_to_end(&mut web);
    while web
        .request("GET /readyz", &[("Authorization", "")], "")
        .status
        != 503
    {
        assert!(
            began.elapsed() < Duration::from_millis(2_500),
            "it is ready"
        );
    }
    assert_eq!(
        web.request("GET /livez", &[("Authorization", "")], "")
            .status,
        200
    );
    // A load balancer may not have noticed yet.
    assert_eq!(
        Coming::head(begin(&web, "echo", json!({}))).whole().status,
        200
    );
    assert!(
        began.elapsed() < Duration::from_millis(2_900),
        "a slow machine"
    );
    // Then the rest goes elsewhere, and comes again.
    let refused = loop {
        let reply = Coming::head(begin(&web, "echo", json!({}))).whole();
        if reply.status != 200 {
            break reply;
        }
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "calls are still taken"
        );
    };
    assert_eq!(
        (refused.status, code(&refused).as_str()),
        (503, "server_ending")
    );
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    assert!(
        began.elapsed() > Duration::from_millis(2_500),
        "before the delay was over"
    );
    let answer = Coming::head(held).whole();
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(web.terminate().0.success());
}

#[test]
fn a_drain_is_as_long_as_the_file_says_and_what_is_cut_can_be_sent_again() {
    let home = Home::new();
    home.configure("[server]\ndrain = \"1s\"\n");
    for (options, least, most) in [
        (&["--timeout=50s"][..], 900, 4_500),
        (&["--timeout=50s", "--drain=100ms"], 90, 900),
    ] {
        let web = served(&home, options);
        let spins = begin(
            &web,
            "progress",
            json!({ "count": 1_000, "interval_ms": 50 }),
        );
        let echo = begin(&web, "echo", json!({}));
        assert_eq!(Coming::head(echo).whole().status, 200);
        std::thread::sleep(Duration::from_millis(300));
        let began = Instant::now();
        let ending = std::thread::spawn(move || web.terminate());
        let cut = Coming::head(spins).whole();
        let took = began.elapsed();
        assert_eq!(cut.status, 503, "{cut:?}");
        assert!(
            cut.header("retry-after").is_some() && cut.body.contains("host_stopped"),
            "{cut:?}"
        );
        let least = Duration::from_millis(least);
        assert!(
            took > least && took < Duration::from_millis(most) + least,
            "{took:?}"
        );
        assert!(ending.join().unwrap().0.success());
    }
}

#[test]
fn limits_of_the_server_are_checked_and_are_not_for_projects() {
    let home = Home::new();
    let refused = |text: &str, why: &str| {
        home.configure(text);
        let tool = Web::arguments(&["probe#echo"], [""; 0])[2].clone();
        let ran = home
            .toolcell(&["serve", "--listen=127.0.0.1:0", tool.to_str().unwrap()])
            .run();
        let ran = ran.exits(3);
        assert!(ran.stderr.contains(why), "{}", ran.stderr);
    };
    refused("[server]\ndrain = \"5\"\n", "give a number with a unit");
    refused(
        "[server]\nmax_calls = 0\n",
        "max_calls is a number from 1 to 4096",
    );
    refused("[server]\nmax_call = 1\n", "unknown field");
    home.configure("");
    let project = crate::support::scratch();
    std::fs::write(
        project.1.join("toolcell.toml"),
        "[server]\nmax_calls = 1000\n",
    )
    .unwrap();
    let refused = home.toolcell(&["trust", "."]).dir(&project.1).run();
    assert!(
        refused.code != Some(0)
            && refused
                .stderr
                .contains("[server] is for your own toolcell.toml"),
        "{refused:?}"
    );
}
