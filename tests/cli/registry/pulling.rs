//! Pulls from a registry in this process, which lies as a test wants.
//!
//! Promise: A component is what its digest says.
//! Promise: What a registry sends is bounded.
//! Promise: A registry leads to no place that only this machine can reach.
//! Promise: Credentials go to the registry that they are for.
//! Promise: What is attached to another artifact does not count.

use std::time::{Duration, Instant};
use toolcell::ErrorCode;

use serde_json::{Value, json};
use toolcell_install::digest::Digest;
use toolcell_install::registry::{RegistryCredentials, RegistrySettings};
use toolcell_install::source::{REFERRER_BYTES_MAX, ReferrerKind};

use crate::support::{Answer, Body, Registry, scratch};

use super::{attached, attached_with, pinned, pull, pull_with, settings};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// A registry with a component under the tag `1`, the reference to that, and the digest of its manifest.
fn registry() -> (Registry, String, Digest) {
    let registry = Registry::start();
    let digest = registry.put_component("me/tool", "1", COMPONENT);
    let reference = format!("{}/me/tool:1", registry.host());
    (registry, reference, digest)
}

/// The code of the refusal of a pull, while `blobs` or `manifests` are answered by `answer`.
#[track_caller]
fn refused(
    part: &'static str,
    answer: impl Fn() -> Answer + Send + Sync + 'static,
) -> (&'static str, String) {
    let (registry, reference, _) = registry();
    registry.tamper(move |_, path, honest| {
        if path.contains(part) {
            answer()
        } else {
            honest
        }
    });
    let refusal = pull(&reference).unwrap_err();
    registry.heal();
    pull(&reference).unwrap();
    (refusal.code.as_str(), refusal.message)
}

#[test]
fn a_tag_is_resolved_to_a_digest_and_the_component_is_what_was_pushed() {
    let (registry, reference, digest) = registry();
    let (resolved, component) = pull(&reference).unwrap();
    assert_eq!(
        (resolved.digest(), component.as_slice()),
        (Some(digest), COMPONENT)
    );
    assert_eq!(
        (resolved.component, resolved.size),
        (Some(Digest::of(COMPONENT)), Some(8))
    );
    let (again, _) = pull(&pinned(&registry.host(), "me/tool", digest)).unwrap();
    assert_eq!(again.manifest, resolved.manifest);
    let refusal = pull(&format!("{}/me/other:1", registry.host())).unwrap_err();
    assert_eq!(refusal.code, ErrorCode::ArtifactNotFound);
    assert!(
        refusal.message.contains("check the name and the tag"),
        "{refusal}"
    );
}

#[test]
fn bytes_that_do_not_have_their_digest_are_refused() {
    let (code, message) = refused("/blobs/", || Answer::of(200, "x/y", b"\0asm\x0d\0\x01\x01"));
    assert_eq!(code, "digest_mismatch", "{message}");
    let (registry, reference, digest) = registry();
    let other = Registry::start().put_component("me/tool", "1", b"other");
    let manifest = json!({ "schemaVersion": 2 }).to_string();
    let lie = manifest.clone();
    registry.tamper(move |_, path, honest| {
        if path.contains("/manifests/") {
            Answer::of(200, MANIFEST, lie.as_bytes())
        } else {
            honest
        }
    });
    assert_eq!(
        pull(&pinned(&registry.host(), "me/tool", digest))
            .unwrap_err()
            .code,
        ErrorCode::DigestMismatch
    );
    registry.tamper(move |_, path, honest| {
        if path.contains("/manifests/") {
            honest.with("docker-content-digest", &other.to_string())
        } else {
            honest
        }
    });
    assert_eq!(
        pull(&reference).unwrap_err().code,
        ErrorCode::DigestMismatch
    );
}

#[test]
fn an_answer_of_another_size_is_refused() {
    let cut = || Answer {
        body: Body::Cut {
            claimed: 8,
            sent: b"\0asm".to_vec(),
        },
        ..Answer::of(200, "x/y", b"")
    };
    let (code, message) = refused("/blobs/", cut);
    assert_eq!(code, "registry_unreachable", "{message}");
    for body in [&COMPONENT[..4], b"\0asm\x0d\0\x01\0more"] {
        let (code, message) = refused("/blobs/", move || Answer::of(200, "x/y", body));
        assert_eq!(code, "registry_answer_invalid", "{message}");
        assert!(message.contains("where the manifest says 8"), "{message}");
    }
}

#[test]
fn ten_gibibytes_are_not_read() {
    let endless = || Answer {
        body: Body::Zeros(10 << 30),
        ..Answer::of(200, MANIFEST, b"")
    };
    let began = Instant::now();
    assert_eq!(refused("/blobs/", endless).0, "registry_answer_invalid");
    assert_eq!(
        refused("/manifests/", endless).0,
        "registry_answer_too_large"
    );
    let claimed = || Answer {
        body: Body::Cut {
            claimed: 10 << 30,
            sent: vec![0; 8],
        },
        ..Answer::of(200, MANIFEST, b"")
    };
    assert_eq!(refused("/blobs/", claimed).0, "registry_answer_invalid");
    assert_eq!(
        refused("/manifests/", claimed).0,
        "registry_answer_too_large"
    );
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn a_manifest_has_four_mebibytes_at_the_most() {
    let long = || Answer {
        body: Body::Zeros(5 << 20),
        ..Answer::of(200, MANIFEST, b"")
    };
    assert_eq!(refused("/manifests/", long).0, "registry_answer_too_large");
}

#[test]
fn a_component_that_is_too_large_is_refused_before_it_is_fetched() {
    let (registry, ..) = registry();
    let config = registry.put_blob("application/vnd.wasm.config.v0+json", b"{}");
    let layer =
        json!({ "mediaType": "application/wasm", "digest": Digest::of(b"x"), "size": 257 << 20 });
    let manifest = json!({ "schemaVersion": 2, "config": config, "layers": [layer] });
    registry.put_manifest("me/large", "1", MANIFEST, manifest.to_string().as_bytes());
    let refusal = pull(&format!("{}/me/large:1", registry.host())).unwrap_err();
    assert_eq!(refusal.code, ErrorCode::ComponentTooLarge, "{refusal}");
    assert!(
        registry
            .seen()
            .iter()
            .all(|seen| !seen.path.contains("/blobs/")),
        "{:?}",
        registry.seen()
    );
}

#[test]
fn a_body_that_drips_for_ever_is_given_up() {
    let drops = || Answer {
        body: Body::Drops(Duration::from_millis(50)),
        ..Answer::of(200, MANIFEST, b"")
    };
    let (registry, reference, _) = registry();
    registry.tamper(move |_, path, honest| {
        if path.contains("/manifests/") {
            drops()
        } else {
            honest
        }
    });
    let refusal = pull_with(settings(1), &reference).unwrap_err();
    assert_eq!(refusal.code, ErrorCode::RegistryTimeout, "{refusal}");
    assert!(
        refusal.message.contains("made no progress for 1 s"),
        "{refusal}"
    );
}

#[test]
fn attachments_that_each_take_their_time_are_given_up_together() {
    let (registry, reference, digest) = registry();
    for number in 0..32_u32 {
        registry.attach("me/tool", digest, BUNDLE, &number.to_le_bytes());
    }
    registry.tamper(|_, path, honest| {
        if path.contains("/blobs/") {
            std::thread::sleep(Duration::from_millis(500));
        }
        honest
    });
    let began = Instant::now();
    let refusal = attached_with(settings(1), &reference, ReferrerKind::Signature).unwrap_err();
    assert_eq!(refusal.code, ErrorCode::RegistryTimeout, "{refusal}");
    assert!(refusal.message.contains("within 4 s"), "{refusal}");
    assert!(
        began.elapsed() < Duration::from_secs(12),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn a_redirect_to_where_a_registry_may_not_lead_is_refused() {
    let (_, message) = refused("/blobs/", || {
        Answer::redirect("https://10.0.0.1/x?signature=a-secret")
    });
    assert!(
        message.contains("https://10.0.0.1/x,") && !message.contains("a-secret"),
        "{message}"
    );
    for (location, why) in [
        ("file:///etc/passwd", "neither https nor http"),
        ("http://10.0.0.1/x", "private network"),
        ("https://192.168.0.1/x", "private network"),
        (
            "https://169.254.169.254/latest/meta-data",
            "private network",
        ),
        ("https://[fd00::1]/x", "private network"),
        ("http://1.1.1.1/x", "without TLS"),
    ] {
        for part in ["/blobs/", "/manifests/"] {
            let (code, message) = refused(part, move || Answer::redirect(location));
            assert_eq!(code, "redirect_refused", "{location}: {message}");
            assert!(message.contains(why), "{location}: {message}");
        }
    }
    let (code, message) = refused("/blobs/", || Answer::redirect("/v2/me/tool/blobs/again"));
    assert_eq!(code, "redirect_refused", "{message}");
    assert!(message.contains("too many other redirects"), "{message}");
}

/// Settings with a `config.json` of docker in which `entry` is for `registry`.
fn knowing(registry: &Registry, entry: &Value) -> (tempfile::TempDir, RegistrySettings) {
    let (guard, folder) = scratch();
    let file = folder.join("config.json");
    std::fs::write(
        &file,
        json!({ "auths": { registry.host(): entry } }).to_string(),
    )
    .unwrap();
    (
        guard,
        RegistrySettings {
            credentials: RegistryCredentials::in_file(file),
            ..settings(20)
        },
    )
}

#[test]
fn another_host_cannot_ask_for_the_credentials_of_a_registry() {
    let (registry, reference, _) = registry();
    let storage = Registry::start();
    registry.wants_password("me", "secret");
    // It names a token server of its own.
    storage.wants_token("me", "secret");
    let place = format!("http://{}/v2/x/blobs/y", storage.host());
    registry.tamper(move |_, path, honest| {
        if path.contains("/blobs/") && honest.status == 200 {
            Answer::redirect(&place)
        } else {
            honest
        }
    });
    let (_guard, known) = knowing(
        &registry,
        &json!({ "auth": data_encoding::BASE64.encode(b"me:secret") }),
    );
    let refusal = pull_with(known, &reference).unwrap_err();
    assert_eq!(refusal.code, ErrorCode::RedirectRefused, "{refusal}");
    assert!(
        refusal.message.contains("which wants credentials"),
        "{refusal}"
    );
    let seen = storage.seen();
    assert!(
        seen.len() == 1 && seen[0].authorization.is_none(),
        "{seen:?}"
    );
}

#[test]
fn credentials_go_to_no_token_server_of_another_host() {
    let (registry, reference, _) = registry();
    let other = Registry::start();
    other.wants_token("me", "secret");
    registry.wants_password("me", "secret");
    let challenge = format!(
        "Bearer realm=\"http://{}/token\",service=\"here\"",
        other.host()
    );
    registry.tamper(move |_, _, honest| match honest.status {
        401 => Answer::of(401, "application/json", b"{}").with("www-authenticate", &challenge),
        _ => honest,
    });
    for entry in [
        json!({ "auth": data_encoding::BASE64.encode(b"me:secret") }),
        json!({ "identitytoken": "secret" }),
    ] {
        let (_guard, known) = knowing(&registry, &entry);
        let refusal = pull_with(known, &reference).unwrap_err();
        assert_eq!(refusal.code, ErrorCode::TokenServerRefused, "{refusal}");
        assert!(
            refusal.message.contains(&other.host()) && !refusal.message.contains("secret"),
            "{refusal}"
        );
        assert!(other.seen().is_empty(), "{:?}", other.seen());
    }
    // The operator can say that it is one.
    let (_guard, known) = knowing(
        &registry,
        &json!({ "auth": data_encoding::BASE64.encode(b"me:secret") }),
    );
    let known = RegistrySettings {
        token_servers: vec![other.host()],
        ..known
    };
    let refusal = pull_with(known, &reference).unwrap_err();
    assert_eq!(refusal.code, ErrorCode::RegistryUnauthorized, "{refusal}");
    assert!(other.seen().iter().any(|seen| seen.authorization.is_some()));
}

#[test]
fn a_token_server_does_not_pass_an_identity_token_on() {
    let (registry, reference, _) = registry();
    let other = Registry::start();
    registry.wants_token("me", "secret");
    let place = format!("http://{}/token", other.host());
    registry.tamper(move |_, path, honest| {
        if path == "/token" {
            Answer::redirect(&place)
        } else {
            honest
        }
    });
    let (_guard, known) = knowing(&registry, &json!({ "identitytoken": "an-identity" }));
    let refusal = pull_with(known, &reference).unwrap_err();
    assert!(other.seen().is_empty(), "{:?}", other.seen());
    assert_eq!(refusal.code, ErrorCode::RedirectRefused, "{refusal}");
    let asked = registry
        .seen()
        .into_iter()
        .find(|seen| seen.path == "/token")
        .unwrap();
    assert!(
        String::from_utf8(asked.body)
            .unwrap()
            .contains("refresh_token=an-identity")
    );
}

#[test]
fn a_redirect_gets_no_credentials_of_another_host() {
    let (registry, reference, _) = registry();
    let storage = Registry::start();
    let layer = storage.put_blob("application/wasm", COMPONENT);
    let place = format!(
        "http://{}/v2/x/blobs/{}",
        storage.host(),
        layer["digest"].as_str().unwrap()
    );
    registry.wants_password("me", "secret");
    let (_guard, known) = knowing(
        &registry,
        &json!({ "auth": data_encoding::BASE64.encode(b"me:secret") }),
    );
    registry.tamper(move |_, path, honest| {
        if path.contains("/blobs/") && honest.status == 200 {
            Answer::redirect(&place)
        } else {
            honest
        }
    });
    assert_eq!(
        pull(&reference).unwrap_err().code,
        ErrorCode::RegistryUnauthorized
    );
    let (_, component) = pull_with(known, &reference).unwrap();
    assert_eq!(component, COMPONENT);
    assert_eq!(storage.seen().len(), 1);
    assert!(
        storage
            .seen()
            .iter()
            .all(|seen| seen.authorization.is_none())
    );
}

#[test]
fn an_index_or_an_artifact_of_another_kind_is_not_taken_for_a_component() {
    let (registry, _, digest) = registry();
    let reference = |tag: &str| format!("{}/me/tool:{tag}", registry.host());
    let entry = json!({ "mediaType": MANIFEST, "digest": digest, "size": 1 });
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [entry] }).to_string();
    registry.put_manifest("me/tool", "index", INDEX, index.as_bytes());
    assert_eq!(
        pull(&reference("index")).unwrap_err().code,
        ErrorCode::ArtifactIsIndex
    );
    registry.put_manifest("me/tool", "claimed", MANIFEST, index.as_bytes());
    let refusal = pull(&reference("claimed")).unwrap_err();
    assert!(
        refusal.message.contains("as a manifest and as an index"),
        "{refusal}"
    );
    let layer = registry.put_blob("application/wasm", COMPONENT);
    let config = registry.put_blob("application/vnd.wasm.config.v0+json", b"{}");
    let both =
        json!({ "schemaVersion": 2, "config": config, "layers": [layer], "manifests": [entry] })
            .to_string();
    registry.put_manifest("me/tool", "both", MANIFEST, both.as_bytes());
    assert_eq!(
        pull(&reference("both")).unwrap_err().code,
        ErrorCode::ArtifactUnsupported
    );
    let policy = registry.put_blob("application/yaml", b"{}");
    let two =
        json!({ "schemaVersion": 2, "config": config, "layers": [layer, policy] }).to_string();
    registry.put_manifest("me/tool", "two", MANIFEST, two.as_bytes());
    let refusal = pull(&reference("two")).unwrap_err();
    assert!(refusal.message.contains("it has 2 layers"), "{refusal}");
}

#[test]
fn what_is_attached_to_another_artifact_does_not_count() {
    let (registry, reference, digest) = registry();
    registry.attach("me/tool", digest, BUNDLE, b"{\"a\":1}");
    let other = registry.attach("me/tool", Digest::of(b"another"), BUNDLE, b"{\"b\":1}");
    registry.attach("me/tool", digest, "application/vnd.cyclonedx+json", b"{}");
    let signatures = || attached(&reference, ReferrerKind::Signature).unwrap();
    let found = signatures();
    assert_eq!(
        (
            found.len(),
            found[0].media_type.as_str(),
            found[0].bytes.as_slice()
        ),
        (1, BUNDLE, &b"{\"a\":1}"[..])
    );
    assert_eq!(attached(&reference, ReferrerKind::Sbom).unwrap().len(), 1);
    // The list of the registry claims that the other one is attached here.
    registry.tamper(move |_, path, honest| {
        if path.contains("/referrers/") {
            let entry = json!({ "mediaType": MANIFEST, "digest": other, "size": 1, "artifactType": BUNDLE });
            let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [entry] });
            Answer::of(200, INDEX, index.to_string().as_bytes())
        } else {
            honest
        }
    });
    assert!(signatures().is_empty());
    // A registry without such a list.
    registry.tamper(|_, path, honest| {
        if path.contains("/referrers/") {
            Answer::of(404, "x/y", b"")
        } else {
            honest
        }
    });
    assert!(signatures().is_empty());
    registry.heal();
    let large = vec![b' '; usize::try_from(REFERRER_BYTES_MAX).unwrap() + 1];
    registry.attach("me/tool", digest, BUNDLE, &large);
    assert_eq!(
        attached(&reference, ReferrerKind::Signature)
            .unwrap_err()
            .code,
        ErrorCode::RegistryAnswerTooLarge
    );
}
