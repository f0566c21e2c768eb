//! What bundles of each version need, and those that could be read in two ways.
//!
//! Promise: A signature holds for one artifact and one signer.
//! Promise: Signatures are untrusted input.

use data_encoding::BASE64;
use serde_json::{Value, json};

use super::{ENTRY, Place, changed, identity, turned};
use crate::support::{IDENTITY, ISSUER, Sigstore, Wanted};

#[test]
fn a_bundle_that_could_mean_two_things_is_refused() {
    let place = Place::new();
    place.trust(&identity(IDENTITY, ISSUER));
    let message = place.sigstore.message(&place.artifact, &Wanted::default());
    let statement = place
        .sigstore
        .statement(&place.artifact, &Wanted::default());
    let hint = Some(json!({ "hint": "" }));
    for (text, words) in [
        (
            message.to_string().replacen('{', "{\"mediaType\":\"\",", 1),
            "duplicate key",
        ),
        (
            changed(
                &message,
                ("", "dsseEnvelope"),
                Some(statement["dsseEnvelope"].clone()),
            )
            .to_string(),
            "messageSignature and dsseEnvelope",
        ),
        (
            changed(&message, ("/verificationMaterial", "publicKey"), hint).to_string(),
            "certificate and publicKey",
        ),
    ] {
        place.home.keep("jq.wasm.sigstore.json", text.as_bytes());
        let refused = place.verify(&[]).exits(3);
        assert!(
            refused.stderr.contains(words) && refused.stderr.contains("[signature_malformed]"),
            "{refused:?}"
        );
    }
    place.sign(&message);
    place.verify(&[]).exits(0);
}

#[test]
fn what_a_signature_says_begins_no_line_of_its_own() {
    let place = Place::new();
    let message = place.sigstore.message(&place.artifact, &Wanted::default());
    let identity = Wanted {
        identity: "a@acme.test\ntrusted: release@acme.test",
        ..Wanted::default()
    };
    for (bundle, code, words) in [
        (
            changed(
                &message,
                ("", "mediaType"),
                Some(json!("x\ntrusted: release@acme.test")),
            ),
            3,
            "x\\u{a}trusted",
        ),
        (
            place.sigstore.message(&place.artifact, &identity),
            6,
            "a@acme.test\\u{a}trusted",
        ),
    ] {
        place.sign(&bundle);
        let ran = place.verify(&[]).exits(code);
        assert!(ran.stdout.contains(words), "{ran:?}");
        assert!(
            !ran.stdout
                .lines()
                .chain(ran.stderr.lines())
                .any(|line| line.starts_with("trusted:")),
            "{ran:?}"
        );
    }
}

/// The token of the timestamp of a bundle.
const TOKEN: &str =
    "/verificationMaterial/timestampVerificationData/rfc3161Timestamps/0/signedTimestamp";

#[test]
fn an_entry_of_rekor_v2_needs_a_timestamp_of_its_signature() {
    let place = Place::new();
    place.trust(&identity(IDENTITY, ISSUER));
    let sigstore = &place.sigstore;
    let artifact = &place.artifact;
    let wanted = Wanted {
        is_rekor_v2: true,
        is_timestamped: true,
        ..Wanted::default()
    };
    let make = |is_statement: bool, artifact: &[u8], wanted: &Wanted| {
        if is_statement {
            sigstore.statement(artifact, wanted)
        } else {
            sigstore.message(artifact, wanted)
        }
    };
    for is_statement in [false, true] {
        let bundle = make(is_statement, artifact, &wanted);
        let with_token = |other: &Value| {
            let mut bundle = bundle.clone();
            *bundle.pointer_mut(TOKEN).unwrap() = other.pointer(TOKEN).unwrap().clone();
            bundle
        };
        let untimed = make(
            is_statement,
            artifact,
            &Wanted {
                is_timestamped: false,
                ..wanted.clone()
            },
        );
        for (bundle, code) in [
            (untimed.clone(), "signature_time_unproven"),
            // No log vouches for a time that is written beside such an entry.
            (
                changed(
                    &untimed,
                    (ENTRY, "integratedTime"),
                    Some(json!("1700000000")),
                ),
                "signature_time_unproven",
            ),
            (turned(&bundle, TOKEN), "signature_time_unproven"),
            (
                with_token(&make(is_statement, artifact, &wanted)),
                "signature_time_unproven",
            ),
            (
                with_token(&Sigstore::new().message(artifact, &wanted)),
                "signature_time_unproven",
            ),
            (
                make(
                    is_statement,
                    artifact,
                    &Wanted {
                        age: 700,
                        ..wanted.clone()
                    },
                ),
                "signature_expired",
            ),
            (
                make(is_statement, b"another", &wanted),
                "signature_replayed",
            ),
            (
                changed(&bundle, (ENTRY, "inclusionProof"), None),
                "signature_not_logged",
            ),
            (
                changed(
                    &bundle,
                    (&format!("{ENTRY}/inclusionProof"), "hashes"),
                    Some(json!([BASE64.encode(&[7; 32])])),
                ),
                "signature_not_logged",
            ),
        ] {
            place.sign(&bundle);
            assert_eq!(place.refused(), code, "{bundle}");
        }
        place.sign(&bundle);
        let verified = place.verify(&["--json"]).exits(0).json();
        assert_eq!(verified["signatures"][0]["logged"], true);
        assert!(
            verified["signatures"][0]["signed_at"].is_string(),
            "{verified}"
        );
    }
    // A root without authorities for timestamps believes none.
    let mut root = place.sigstore.root();
    root["timestampAuthorities"] = json!([]);
    place.home.keep("root.json", root.to_string().as_bytes());
    assert_eq!(place.refused(), "signature_time_unproven");
}

#[test]
fn bundles_of_earlier_versions_need_what_their_version_needs() {
    let place = Place::new();
    place.trust(&identity(IDENTITY, ISSUER));
    let bundle = place.sigstore.message(&place.artifact, &Wanted::default());
    let chained = |media_type: &str| {
        let certificate = bundle["verificationMaterial"]["certificate"].clone();
        let bundle = changed(&bundle, ("/verificationMaterial", "certificate"), None);
        let chain = json!({ "certificates": [certificate] });
        let bundle = changed(
            &bundle,
            ("/verificationMaterial", "x509CertificateChain"),
            Some(chain),
        );
        changed(&bundle, ("", "mediaType"), Some(json!(media_type)))
    };
    let [first, second, third] = ["0.1", "0.2", "0.3"].map(|version| {
        chained(&format!(
            "application/vnd.dev.sigstore.bundle+json;version={version}"
        ))
    });
    for bundle in [
        &first,
        &second,
        &changed(&first, (ENTRY, "inclusionProof"), None),
    ] {
        place.sign(bundle);
        place.verify(&[]).exits(0);
    }
    for (bundle, code) in [
        (
            changed(&first, (ENTRY, "inclusionPromise"), None),
            "signature_malformed",
        ),
        (
            changed(&second, (ENTRY, "inclusionProof"), None),
            "signature_not_logged",
        ),
        (
            turned(
                &first,
                &format!("{ENTRY}/inclusionPromise/signedEntryTimestamp"),
            ),
            "signature_not_logged",
        ),
        // A chain is not of this version.
        (third, "signature_malformed"),
    ] {
        place.sign(&bundle);
        assert_eq!(place.refused(), code, "{bundle}");
    }
}
