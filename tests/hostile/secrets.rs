//! Attacks on a secret in a request, by a guest and a server that collude.

use std::path::Path;

use data_encoding::{BASE64, BASE64URL, HEXLOWER, HEXUPPER};
use serde_json::json;
use toolcell_policy::secret::{SecretStore, SecretValue};

use crate::support::{Mirror, response};

use super::arena::Arena;

type Spell = fn(&str) -> String;

/// Encodings of the received header value, which is `Bearer ` and the secret.
const ECHOES: &[(&str, Spell)] = &[
    ("raw", str::to_owned),
    ("in a sentence", |sent| {
        format!("you said {sent}{sent}, I think")
    }),
    ("base64", |sent| BASE64.encode(sent.as_bytes())),
    ("base64, shifted by one", |sent| {
        BASE64.encode(format!(" {sent}").as_bytes())
    }),
    ("base64, shifted by two", |sent| {
        BASE64.encode(format!("  {sent}").as_bytes())
    }),
    ("base64url", |sent| BASE64URL.encode(sent.as_bytes())),
    ("hex", |sent| HEXLOWER.encode(sent.as_bytes())),
    ("hex in capitals", |sent| HEXUPPER.encode(sent.as_bytes())),
    ("percent", |sent| {
        sent.bytes().map(|byte| format!("%{byte:02x}")).collect()
    }),
    ("form", |sent| {
        url::form_urlencoded::byte_serialize(sent.as_bytes()).collect()
    }),
    ("json", |sent| json!({ "authorization": sent }).to_string()),
    ("json in json", |sent| {
        json!(json!({ "authorization": sent }).to_string()).to_string()
    }),
    ("reversed", |sent| sent.chars().rev().collect()),
    ("in halves", |sent| {
        format!("{} {}", &sent[..sent.len() / 2], &sent[sent.len() / 2..])
    }),
    ("far into the body", |sent| {
        format!("{}{sent}{}", "x".repeat(70_000), "y".repeat(70_000))
    }),
];

/// The server echoes the received header in head and body, and the guest repeats it everywhere: in its answer, its
/// error, its panic, its streams, logs and progress.
pub(super) async fn echoes(arena: &Arena) {
    let store = SecretStore::new(arena.home.secrets(), arena.home.secret_key());
    store
        .set("API_KEY", &SecretValue::new(arena.secret.clone()))
        .unwrap();
    let mut disguised = 0;
    for (name, spell) in ECHOES {
        let spell = *spell;
        let server = Mirror::new(move |request| {
            let sent = request
                .lines()
                .find_map(|line| line.strip_prefix("authorization: "))
                .unwrap();
            let told = spell(sent);
            let header = if told.len() < 4_000 {
                told.clone()
            } else {
                String::new()
            };
            response(&[("x-echo", &header)], told.as_bytes())
        });
        for then in ["answer", "fail", "panic"] {
            let origin = server.origin();
            let test = arena.test("courier#bearer").grant(|grants| {
                grants.allow_net(&origin).unwrap();
                grants.allow_secret(&format!("API_KEY@{origin}")).unwrap();
            });
            let called = arena
                .call(test, json!({ "url": origin, "then": then }))
                .await;
            let redacted = called.events().contains(&"tool.result.redacted");
            arena.holds(
                redacted,
                format!("Z: {name}, {then}: no note says that something was taken out"),
            );
            arena.shown(&format!("{:?}", called.0));
            // A result that is too large to be inline has no such copy.
            let told = called
                .0
                .result
                .structured_content
                .as_ref()
                .and_then(|told| told["disguised"].as_str());
            if let Some(told) = told {
                disguised += 1;
                let known: Vec<u8> = told
                    .chars()
                    .map(|c| u8::try_from(u32::from(c) - 0x100).unwrap())
                    .collect();
                // Even the guest must not know the secret, or it could leak it in an encoding of its own.
                arena.shown(&String::from_utf8_lossy(&known));
            }
        }
        let came = server.seen();
        let carried = came
            .iter()
            .filter(|request| request.contains(&arena.secret))
            .count();
        arena.holds(
            (came.len(), carried) == (3, 3),
            format!("{carried} of {} requests carried it", came.len()),
        );
    }
    arena.holds(
        disguised == ECHOES.len() - 1,
        format!("{disguised} guests said what they know"),
    );
    let looked_at = nowhere_below(arena, arena.home.folder());
    arena.holds(looked_at > 0, "nothing is stored at all");
}

/// Checks that no file of the host holds the secret. Returns the number of files.
fn nowhere_below(arena: &Arena, folder: &Path) -> usize {
    let mut looked_at = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let kind = path.symlink_metadata().unwrap().file_type();
        if kind.is_dir() {
            looked_at += nowhere_below(arena, &path);
        } else if kind.is_file() {
            looked_at += 1;
            arena.shown(&String::from_utf8_lossy(&std::fs::read(&path).unwrap()));
        }
    }
    looked_at
}
