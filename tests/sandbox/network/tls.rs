//! Promise: Internal addresses are not reached.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolcell::{Host, NetworkSettings};

use crate::support::{Identity, ScriptedResolver, Server, Test, Visit, host, scratch};

use super::{answer, eventually, failed};

fn hello(visit: &mut Visit) {
    if visit.head().is_some() {
        visit.say("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
    }
}

/// A host in which every name resolves to this machine, and `roots` are trusted.
fn trusting(roots: Option<PathBuf>) -> Arc<Host> {
    Arc::new(host(|settings| {
        settings.network(NetworkSettings {
            resolver: Arc::new(ScriptedResolver::answering(&[&["127.0.0.1"]])),
            extra_roots: roots,
        })
    }))
}

async fn ask(host: &Arc<Host>, server: &Server, name: &str) -> Value {
    let authority = format!("{name}:{}", server.port);
    let test = Test::new("egress#ask")
        .on(host)
        .net("*.ex.test:*")
        .net(&format!("https://{}", server.authority()));
    answer(test, json!({ "scheme": "https", "authority": authority })).await
}

fn trusted(identity: &Identity, dir: &Path) -> Arc<Host> {
    trusting(Some(identity.authority_in(dir)))
}

#[tokio::test]
async fn a_server_that_proves_its_name_is_reached_over_tls() {
    let (_dir, dir) = scratch();
    let identity = Identity::of(&["api.ex.test", "127.0.0.1"]);
    let server = Server::secure(&identity, hello);
    let host = trusted(&identity, &dir);
    assert_eq!(ask(&host, &server, "api.ex.test").await["body"], "hello");
    assert_eq!(ask(&host, &server, "127.0.0.1").await["body"], "hello");
    assert_eq!(server.heads().len(), 2);
}

#[tokio::test]
async fn a_server_that_cannot_prove_its_name_sees_no_request() {
    let (_dir, dir) = scratch();
    let identity = Identity::of(&["api.ex.test"]);
    let server = Server::secure(&identity, hello);
    let host = trusted(&identity, &dir);
    failed(
        &ask(&host, &server, "other.ex.test").await,
        "TlsCertificateError",
    );
    failed(
        &ask(&host, &server, "127.0.0.1").await,
        "TlsCertificateError",
    );
    // Without the root that signed the certificate, no name is accepted.
    failed(
        &ask(&trusting(None), &server, "api.ex.test").await,
        "TlsCertificateError",
    );
    assert!(server.heads().is_empty() && server.connections() == 3);
}

#[tokio::test]
async fn what_does_not_speak_tls_or_never_finishes_to_greet_is_given_up() {
    let plain = Server::start(|visit| {
        visit.say("HTTP/1.1 400 Bad Request\r\n\r\n");
        visit.drain();
    });
    let answer = ask(&trusting(None), &plain, "api.ex.test").await;
    failed(&answer, "Tls");

    let silent = Server::start(|visit| {
        visit.drain();
    });
    let authority = format!("api.ex.test:{}", silent.port);
    let test = Test::new("egress#ask")
        .on(&trusting(None))
        .net("*.ex.test:*")
        .net(&format!("https://{}", silent.authority()))
        .limit(|limits| limits.network.connect = Duration::from_millis(100));
    let answer = super::answer(test, json!({ "scheme": "https", "authority": authority })).await;
    failed(&answer, "ConnectionTimeout");
    eventually("the end of the connection", || silent.open() == 0).await;
}

#[test]
fn a_file_that_holds_no_certificate_is_refused_when_a_host_is_set_up() {
    let (_dir, dir) = scratch();
    let file = dir.join("roots.pem");
    std::fs::write(&file, "no certificate").unwrap();
    let settings = || {
        let home = toolcell::Home::at(crate::support::kept("home"));
        Host::builder()
            .home(home)
            .compiler(env!("CARGO_BIN_EXE_toolcell"))
            .network(NetworkSettings {
                extra_roots: Some(file.clone()),
                ..NetworkSettings::default()
            })
    };
    let error = settings().build().err().unwrap();
    assert!(format!("{error:#}").contains("roots.pem"), "{error:#}");
}
