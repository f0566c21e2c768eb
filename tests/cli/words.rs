//! What a person reads at the terminal: layouts that stay readable, and refusals that name what to do.

use std::fs;

use serde_json::json;

use super::policy::Place;
use super::{example, guest};
use crate::support::{Identity, Server, Toolcell, scratch};

#[test]
fn the_help_lists_the_commands_in_groups() {
    let help = Toolcell::new(["--help"]).run().exits(0).stdout;
    let at = |text: &str| help.find(text).unwrap_or_else(|| panic!("{text}: {help}"));
    let headings = [
        "\nCall tools:\n  call ",
        "\nManage installed tools:\n  install ",
        "\nWrite and publish tools:\n  new ",
    ];
    assert!(
        headings.map(at).is_sorted() && at("\nOptions:\n") > at("\nHelp:\n"),
        "{help}"
    );
    assert!(!help.contains("Commands:"), "{help}");
}

#[test]
fn a_match_of_a_search_is_cut_after_a_word() {
    let (_guard, folder) = scratch();
    let words = "Answers ".repeat(30);
    let component = crate::pipeline::doubles::echoing("greet", |toolkit| {
        toolkit["declarations"][0]["description"] = json!(words);
    });
    fs::write(folder.join("greet.wasm"), component).unwrap();
    let ran = Toolcell::new(["search", "answers", "greet.wasm"])
        .dir(&folder)
        .run()
        .exits(0)
        .stdout;
    let line = ran.lines().nth(1).unwrap();
    assert!(
        line.ends_with("Answers\u{2026}") && line.chars().count() <= 78,
        "{ran}"
    );
}

#[test]
fn a_relative_grant_is_explained_once() {
    let place = Place::new();
    let tool = format!("{}#read", example("files"));
    let deep = place.project.join("src/deep");
    let input = json!({ "path": "../a.txt" }).to_string();
    let ran = place
        .run_in(
            &deep,
            &[
                "policy",
                "check",
                "--explain",
                &tool,
                &input,
                "--allow-read=..",
            ],
        )
        .exits(0)
        .stdout;
    let may = format!("  may read: {}", place.project.join("src").display());
    assert_eq!(
        ran.lines()
            .filter(|line| line.starts_with("  may read: "))
            .collect::<Vec<_>>(),
        [may],
        "{ran}"
    );
}

#[test]
fn a_size_is_the_same_as_an_option_and_in_a_file() {
    let place = Place::new().user("[limits]\nmemory = 100000000\n");
    let tool = format!("{}#list", example("files"));
    let input = "{}";
    let of_file = place
        .run(&["call", &tool, input, "--allow-read=src", "--json"])
        .json();
    let of_option = Place::new()
        .run(&[
            "call",
            &tool,
            input,
            "--allow-read=src",
            "--json",
            "--memory=100000000",
        ])
        .json();
    assert_eq!(
        of_file["usage"]["memory_bytes"]["limit"],
        json!(100_000_000),
        "{of_file}"
    );
    assert_eq!(
        of_file["usage"]["memory_bytes"]["limit"],
        of_option["usage"]["memory_bytes"]["limit"]
    );
    let wrong = Place::new()
        .user("[limits]\ntimeout = 5\n")
        .run(&["call", &tool, input])
        .exits(3);
    assert!(wrong.stderr.contains("line 2"), "{}", wrong.stderr);
}

#[test]
fn plan_mode_answers_a_question_with_no() {
    let place = Place::new().user("[[rule]]\nbehavior = \"ask\"\ntool = \"files.*\"\n");
    let tool = format!("{}#read", example("files"));
    let input = json!({ "path": "src/a.txt" }).to_string();
    let refused = place
        .run(&["call", &tool, &input, "--allow-read=src", "--mode=plan"])
        .exits(3)
        .stderr;
    assert!(
        refused.contains("plan mode asks for none [permission_denied/approval_not_possible]"),
        "{refused}"
    );
}

#[test]
fn a_bad_grant_is_found_before_a_build() {
    let place = Place::new();
    let tool = place.project.join("tool");
    place.run(&["new", "tool"]).exits(0);
    let grant = format!("--allow-read={}", place.home.display());
    let refused = place
        .run(&["call", "--build", &tool.display().to_string(), "{}", &grant])
        .exits(3);
    assert!(
        refused.stderr.contains("grant_reaches_own_state"),
        "{}",
        refused.stderr
    );
    assert!(!place.home.join("builds").exists(), "it was built");
}

#[test]
fn a_certificate_that_is_not_accepted_is_told_with_its_reason() {
    let (_guard, folder) = scratch();
    let page = |visit: &mut crate::support::Visit| {
        if visit.head().is_some() {
            visit.say(
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nhello",
            );
        }
    };
    let fetch = example("fetch");
    let call = |server: &Server, options: &[&str]| {
        let origin = format!("https://{}", server.authority());
        let input = json!({ "url": origin }).to_string();
        let grant = format!("--allow-net={origin}");
        let arguments = ["call", &fetch, &input, &grant]
            .into_iter()
            .chain(options.iter().copied());
        Toolcell::new(arguments.map(str::to_owned).collect::<Vec<_>>()).run()
    };
    let identity = Identity::of(&["127.0.0.1"]);
    let trusting = format!("--tls-ca={}", identity.authority_in(&folder).display());
    let server = Server::secure(&identity, page);
    call(&server, &[&trusting]).exits(0);
    let unknown = call(&server, &[]).exits(1).stderr;
    for words in [
        "its issuer is not known; --tls-ca=FILE",
        "[dependency_unavailable/certificate_not_accepted]",
    ] {
        assert!(unknown.contains(words), "{words}: {unknown}");
    }
    // The certificate of the authority itself, used as that of a server.
    let own = Identity::of_authority(&["127.0.0.1"]);
    let trusting = format!("--tls-ca={}", own.authority_in(&folder).display());
    let refused = call(&Server::secure(&own, page), &[&trusting])
        .exits(1)
        .stderr;
    assert!(
        refused.contains("it is the certificate of an authority"),
        "{refused}"
    );
    // A file of no certificates is a mistake on the command line.
    fs::write(folder.join("empty.pem"), "").unwrap();
    for file in ["empty.pem", "missing.pem"] {
        let option = format!("--tls-ca={}", folder.join(file).display());
        let refused = call(&server, &[&option]).exits(2).stderr;
        assert!(
            refused.contains("--tls-ca: ") && refused.contains(file),
            "{refused}"
        );
    }
}

#[test]
fn drafts_are_not_described_as_changes_of_files() {
    let told = Toolcell::new(["describe", &guest("probe#touch_drafts")])
        .run()
        .exits(0)
        .stdout;
    let told: Vec<&str> = told.split_whitespace().collect();
    let told = told.join(" ");
    assert!(
        told.contains("file_write (drafts alone, which are removed with the call)"),
        "{told}"
    );
}
