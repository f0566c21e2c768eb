//! Components behind URLs, whose servers answer with anything.
//!
//! Promise: A server leads to no place that only this machine can reach.

use std::fs;

use serde_json::json;

use super::super::policy::Place;
use super::project;
use crate::pipeline::doubles::echoing;
use crate::support::{Mirror, response};

/// Serves `whole`, a complete response, at `/greet.wasm`, and nothing at any other path.
fn serving(whole: impl Fn() -> Vec<u8> + Send + Sync + 'static) -> Mirror {
    Mirror::new(move |request| {
        if request.starts_with("GET /greet.wasm ") {
            whole()
        } else {
            b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec()
        }
    })
}

fn install(place: &Place, server: &Mirror, code: i32) -> String {
    let url = format!("{}/greet.wasm", server.origin());
    let ran = place
        .run(&["install", &url, "--allow-unsigned", "--yes", "--json"])
        .exits(code);
    ran.json()["error"]["error_code"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn a_url_is_installed_if_it_may_be_unsigned() {
    let place = project();
    let server = serving(|| response(&[], &echoing("greet", |_| {})));
    let url = format!("{}/greet.wasm", server.origin());
    let refused = place
        .run(&["install", &url, "--yes", "--json"])
        .exits(3)
        .json();
    assert_eq!(refused["error"]["error_code"], json!("unsigned"));
    assert_eq!(install(&place, &server, 0), "");
    place.run(&["call", "greet"]).exits(0);
    // Signatures beside it were looked for.
    assert!(
        server
            .seen()
            .iter()
            .any(|head| head.starts_with("GET /greet.wasm.minisig ")),
        "{:?}",
        server.seen()
    );
    // What it may be is remembered for this reference, so an update asks no more.
    place.run(&["update"]).exits(0);
}

#[test]
fn a_query_of_a_url_is_in_no_lock() {
    let place = project();
    let server = serving(|| response(&[], &echoing("greet", |_| {})));
    let url = format!("{}/greet.wasm?token=hunter2", server.origin());
    let refused = place
        .run(&["install", &url, "--allow-unsigned", "--yes"])
        .exits(2)
        .stderr;
    assert!(
        refused.contains("a URL has no query here") && !refused.contains("hunter2"),
        "{refused}"
    );
    let place = place
        .project(&format!(
            "[tools]\ngreet = {{ reference = \"{url}\", allow_unsigned = true }}\n"
        ))
        .trusted();
    let refused = place.run(&["install", "--yes"]).exits(2).stderr;
    assert!(
        refused.contains("a URL has no query here") && !refused.contains("hunter2"),
        "{refused}"
    );
    assert!(!place.project.join("toolcell.lock").exists() && server.seen().is_empty());
}

#[test]
fn a_bucket_that_forbids_what_it_does_not_have_has_no_signature() {
    let place = project();
    let whole = response(&[], &echoing("greet", |_| {}));
    let server = Mirror::new(move |request| {
        if request.starts_with("GET /greet.wasm ") {
            whole.clone()
        } else {
            b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec()
        }
    });
    let url = format!("{}/greet.wasm", server.origin());
    let refused = place
        .run(&["install", &url, "--yes", "--json"])
        .exits(3)
        .json();
    assert_eq!(refused["error"]["error_code"], json!("unsigned"));
    assert_eq!(install(&place, &server, 0), "");
    let missing = format!("{}/missing.wasm", server.origin());
    let refused = place
        .run(&["install", &missing, "--allow-unsigned", "--yes", "--json"])
        .exits(1)
        .json();
    assert_eq!(refused["error"]["error_code"], json!("source_refused"));
}

#[test]
fn what_may_be_unsigned_in_one_project_may_not_in_another() {
    let place = project();
    let server = serving(|| response(&[], &echoing("greet", |_| {})));
    let url = format!("{}/greet.wasm", server.origin());
    assert_eq!(install(&place, &server, 0), "");
    let other = place.home.parent().unwrap().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(
        other.join("toolcell.toml"),
        format!("[tools]\ngreet = {url:?}\n"),
    )
    .unwrap();
    fs::copy(
        place.project.join("toolcell.lock"),
        other.join("toolcell.lock"),
    )
    .unwrap();
    place.run_in(&other, &["trust"]).exits(0);
    // The lock comes with the project, and what it says of signatures is not the user's word.
    let refused = place
        .run_in(&other, &["install", "--offline", "--yes", "--json"])
        .exits(3)
        .json();
    assert_eq!(
        refused["error"]["error_code"],
        json!("unsigned"),
        "{refused}"
    );
    place
        .run_in(
            &other,
            &["install", &url, "--offline", "--allow-unsigned", "--yes"],
        )
        .exits(0);
    place.run_in(&other, &["call", "greet"]).exits(0);
}

#[test]
fn one_reference_that_may_be_unsigned_says_nothing_of_another() {
    let place = Place::new()
        .project("[tools]\ngreet = { reference = \"./greet.wasm\", allow_unsigned = true }\n")
        .trusted();
    fs::write(place.project.join("greet.wasm"), echoing("greet", |_| {})).unwrap();
    place.run(&["install", "--yes"]).exits(0);
    let server = serving(|| response(&[], &echoing("greet", |_| {})));
    let lock = place.project.join("toolcell.lock");
    let text = fs::read_to_string(&lock).unwrap();
    fs::write(
        &lock,
        text.replace("./greet.wasm", &format!("{}/greet.wasm", server.origin())),
    )
    .unwrap();
    let refused = place.run(&["update", "--yes", "--json"]).exits(3).json();
    assert_eq!(
        refused["error"]["error_code"],
        json!("unsigned"),
        "{refused}"
    );
}

#[test]
fn a_file_without_certificates_is_refused() {
    let place = project();
    fs::write(place.project.join("empty.pem"), "").unwrap();
    let refused = place
        .run(&[
            "install",
            "https://example.org/greet.wasm",
            "--tls-ca=empty.pem",
            "--yes",
        ])
        .exits(2);
    assert!(
        refused.stderr.contains("there is no certificate in"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_server_leads_nowhere_else() {
    let place = project();
    for (to, code) in [
        ("http://10.0.0.1/greet.wasm", "redirect_refused"),
        ("https://10.0.0.1/greet.wasm", "redirect_refused"),
        ("https://[::ffff:169.254.169.254]/", "redirect_refused"),
        ("file:///etc/passwd", "redirect_refused"),
        ("/greet.wasm", "too_many_redirects"),
    ] {
        let head = format!(
            "HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        );
        let server = serving(move || head.clone().into_bytes());
        let exit = if code == "redirect_refused" { 3 } else { 1 };
        assert_eq!(install(&place, &server, exit), code, "{to}");
    }
    assert_eq!(
        place.run(&["store", "verify", "--json"]).exits(0).json()["components"],
        json!(0)
    );
}

#[test]
fn the_query_of_a_redirect_is_not_repeated() {
    let place = project();
    let server = Mirror::new(|request| match request.starts_with("GET /greet.wasm ") {
        true => {
            let head = "HTTP/1.1 302 Found\r\nlocation: /signed?signature=a-secret\r\ncontent-length: 0\r\n";
            format!("{head}connection: close\r\n\r\n").into_bytes()
        }
        false if request.starts_with("GET /signed?signature=a-secret ") => {
            b"HTTP/1.1 503 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec()
        }
        false => {
            b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec()
        }
    });
    let url = format!("{}/greet.wasm", server.origin());
    let refused = place
        .run(&["install", &url, "--allow-unsigned", "--yes"])
        .exits(1)
        .stderr;
    assert!(
        refused.contains("/signed answers 503") && !refused.contains("a-secret"),
        "{refused}"
    );
}

#[test]
fn a_body_is_whole_and_bounded() {
    let place = project();
    let truncated = || {
        let whole = response(&[], &echoing("greet", |_| {}));
        whole[..whole.len() - 10].to_vec()
    };
    assert_eq!(
        install(&place, &serving(truncated), 1),
        "source_unreachable"
    );
    let large = || {
        b"HTTP/1.1 200 OK\r\ncontent-length: 10737418240\r\nconnection: close\r\n\r\nabc".to_vec()
    };
    assert_eq!(install(&place, &serving(large), 4), "component_too_large");
    // Without a length, it is cut off at the bound.
    let endless = || {
        [
            &b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n"[..],
            &vec![0; (256 << 20) + 1][..],
        ]
        .concat()
    };
    assert_eq!(install(&place, &serving(endless), 4), "component_too_large");
    let gone = Mirror::new(|_| {
        b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec()
    });
    assert_eq!(install(&place, &gone, 2), "reference_not_found");
    let failing = Mirror::new(|_| {
        b"HTTP/1.1 503 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec()
    });
    assert_eq!(install(&place, &failing, 1), "source_refused");
    assert_eq!(
        place.run(&["store", "verify", "--json"]).exits(0).json()["components"],
        json!(0)
    );
}
