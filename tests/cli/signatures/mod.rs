//! `toolcell sign` and `toolcell verify`: who signed a component, and what is refused.
//!
//! Promise: A signature holds for one artifact and one signer.
//! Promise: Who must sign is the user's word.
//! Promise: Another tag of the same workflow is another signer.

mod bundles;
mod workflows;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use data_encoding::BASE64;
use rcgen::{KeyPair, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, SigningKey};
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use serde_json::{Value, json};
use toolcell_spec::dialect::sections::with_custom;

use crate::support::{
    Home, IDENTITY, ISSUER, Mirror, Ran, Registry, Sigstore, Toolcell, Wanted, response, wat,
};

/// A folder with the file `jq.wasm`, and a private sigstore deployment that the user trusts.
struct Place {
    home: Home,
    sigstore: Sigstore,
    artifact: Vec<u8>,
}

impl Place {
    fn new() -> Self {
        let home = Home::new();
        let sigstore = Sigstore::new();
        let artifact = wat("echo");
        home.keep("jq.wasm", &artifact);
        home.keep("root.json", sigstore.root().to_string().as_bytes());
        let place = Self {
            home,
            sigstore,
            artifact,
        };
        place.trust("");
        place
    }

    /// Writes the user's file, with these `[[signer]]` entries.
    fn trust(&self, entries: &str) {
        self.home
            .configure(&format!("trusted_root = \"root.json\"\n{entries}"));
    }

    fn sign(&self, bundle: &Value) {
        self.home
            .keep("jq.wasm.sigstore.json", bundle.to_string().as_bytes());
    }

    fn toolcell(&self, arguments: &[&str]) -> Toolcell {
        self.home.toolcell(arguments).dir(self.home.path())
    }

    fn verify(&self, options: &[&str]) -> Ran {
        self.toolcell(&[&["verify", "jq.wasm"], options].concat())
            .run()
    }

    /// The code that the file is refused with.
    #[track_caller]
    fn refused(&self) -> String {
        let refused = self.verify(&["--json"]).exits(3).json();
        assert_eq!(
            (
                &refused["verified"],
                &refused["trusted"],
                &refused["signer"]
            ),
            (&json!(false), &json!(false), &json!(null))
        );
        refused["error"]["error_code"].as_str().unwrap().to_owned()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }
}

/// An entry for all files here, that names this sigstore identity.
fn identity(identity: &str, issuer: &str) -> String {
    format!("[[signer]]\nreference = \"./*\"\nidentity = \"{identity}\"\nissuer = \"{issuer}\"\n")
}

#[test]
fn a_keyless_signature_says_who_signed_and_the_policy_whether_that_counts() {
    let place = Place::new();
    for bundle in [
        place.sigstore.message(&place.artifact, &Wanted::default()),
        place
            .sigstore
            .statement(&place.artifact, &Wanted::default()),
    ] {
        place.trust("");
        place.sign(&bundle);
        let unnamed = place.verify(&[]).exits(6);
        assert!(
            unnamed
                .stdout
                .contains("signed by release@acme.test (by https://accounts.acme.test), at 20"),
            "{unnamed:?}"
        );
        assert!(
            unnamed
                .stdout
                .contains("no [[signer]] entry names release@acme.test"),
            "{unnamed:?}"
        );
        place.trust(&identity("*@acme.test", ISSUER));
        let named = place.verify(&["--json"]).exits(0).json();
        assert_eq!(
            (&named["verified"], &named["trusted"], &named["error"]),
            (&json!(true), &json!(true), &json!(null))
        );
        assert_eq!(
            named["signer"],
            json!({ "kind": "identity", "identity": IDENTITY, "issuer": ISSUER })
        );
        assert_eq!(named["signatures"][0]["logged"], true);
        for other in [
            identity("*@other.test", ISSUER),
            identity(IDENTITY, "https://evil.test"),
        ] {
            place.trust(&other);
            let refused = place.verify(&[]).exits(3);
            assert!(
                refused.stderr.contains("signed by release@acme.test"),
                "{refused:?}"
            );
            assert!(
                refused.stderr.contains("toolcell.toml, line 3"),
                "the entry is named: {refused:?}"
            );
            assert!(
                refused.stderr.contains("[signer_not_trusted]"),
                "{refused:?}"
            );
        }
        place
            .verify(&["--identity", IDENTITY, "--issuer", ISSUER])
            .exits(0);
        place
            .verify(&["--identity", "me@acme.test", "--issuer", ISSUER])
            .exits(3);
    }
}

#[test]
fn a_root_of_another_deployment_knows_no_signer_of_this_one() {
    let place = Place::new();
    place.sign(&place.sigstore.message(&place.artifact, &Wanted::default()));
    place
        .home
        .keep("root.json", Sigstore::new().root().to_string().as_bytes());
    assert_eq!(place.refused(), "signature_not_logged");
    // That of the public instance, which is in the program.
    place.home.configure("");
    assert_eq!(place.refused(), "signature_not_logged");
    // The same logs, and another authority.
    let mut root = place.sigstore.root();
    root["certificateAuthorities"] = Sigstore::new().root()["certificateAuthorities"].clone();
    place.home.keep("root.json", root.to_string().as_bytes());
    place.trust("");
    assert_eq!(place.refused(), "signature_authority_unknown");
    for root in ["{", "{}", "[]"] {
        place.home.keep("root.json", root.as_bytes());
        let refused = place.verify(&[]).exits(2);
        assert!(
            refused.stderr.contains("root.json cannot be used"),
            "{root}: {refused:?}"
        );
        assert!(
            refused.stderr.contains("[trusted_root_invalid]"),
            "{root}: {refused:?}"
        );
    }
}

#[test]
fn without_a_signature_nothing_is_verified() {
    let place = Place::new();
    assert_eq!(place.refused(), "unsigned");
    // `verify` has no option that accepts it.
    let refused = place.verify(&[]).exits(3);
    assert!(
        refused.stderr.contains("a file can be installed as it is"),
        "{refused:?}"
    );
    place.trust(&identity(IDENTITY, ISSUER));
    let refused = place.verify(&[]).exits(3);
    assert!(
        refused.stderr.contains("names who must have signed it"),
        "{refused:?}"
    );
    place.toolcell(&["verify", "missing.wasm"]).run().exits(2);
    place
        .toolcell(&["verify", "jq.wasm", "--signature=missing"])
        .run()
        .exits(2);
    place
        .toolcell(&["verify", "jq.wasm", "--identity=me"])
        .run()
        .exits(2);
}

#[test]
fn no_spelling_of_a_path_leads_around_the_entry_for_it() {
    let place = Place::new();
    place.trust("[[signer]]\nreference = \"./mine/*\"\nidentity = \"a@acme.test\"\nissuer = \"https://acme.test\"\n");
    std::fs::create_dir(place.file("mine")).unwrap();
    place.home.keep("mine/jq.wasm", &place.artifact);
    std::os::unix::fs::symlink("mine/jq.wasm", place.file("link.wasm")).unwrap();
    for spelt in ["./mine/jq.wasm", "./mine/../mine/jq.wasm", "./link.wasm"] {
        let refused = place
            .toolcell(&["install", spelt, "--name=jq", "--yes", "--allow-unsigned"])
            .run()
            .exits(3);
        assert!(
            refused.stderr.contains("names who must have signed it"),
            "{spelt}: {refused:?}"
        );
    }
    place
        .toolcell(&["install", "./jq.wasm", "--name=jq", "--yes"])
        .run()
        .exits(0);
}

/// Turns over one bit in the middle of the base64 text at this place.
fn turned(bundle: &Value, place: &str) -> Value {
    let mut bundle = bundle.clone();
    let text = bundle.pointer_mut(place).unwrap();
    let mut bytes = BASE64.decode(text.as_str().unwrap().as_bytes()).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    *text = json!(BASE64.encode(&bytes));
    bundle
}

/// The bundle with another value at this place, or without it.
fn changed(bundle: &Value, (parent, name): (&str, &str), value: Option<Value>) -> Value {
    let mut bundle = bundle.clone();
    let object = bundle.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    match value {
        Some(value) => drop(object.insert(name.to_owned(), value)),
        None => drop(object.remove(name).unwrap()),
    }
    bundle
}

const ENTRY: &str = "/verificationMaterial/tlogEntries/0";

/// Bundles without a valid proof that a log has their signature, and words of the refusal of each.
fn unlogged(sigstore: &Sigstore, artifact: &[u8]) -> Vec<(Value, &'static str)> {
    let wanted = Wanted::default();
    let message = sigstore.message(artifact, &wanted);
    let statement = sigstore.statement(artifact, &wanted);
    let none = BASE64.encode(&[7; 32]);
    vec![
        (
            Sigstore::new().message(artifact, &wanted),
            "no valid proof that a transparency log has it",
        ),
        (
            sigstore.message(
                artifact,
                &Wanted {
                    in_certificate_log: false,
                    ..wanted.clone()
                },
            ),
            "SCT",
        ),
        (
            turned(
                &message,
                &format!("{ENTRY}/inclusionPromise/signedEntryTimestamp"),
            ),
            "transparency log",
        ),
        (
            changed(
                &message,
                (ENTRY, "integratedTime"),
                Some(json!("1700000000")),
            ),
            "transparency log",
        ),
        (
            changed(&message, (ENTRY, "inclusionProof"), None),
            "transparency log",
        ),
        (
            changed(
                &message,
                (&format!("{ENTRY}/inclusionProof"), "hashes"),
                Some(json!([none])),
            ),
            "transparency log",
        ),
        (
            changed(
                &statement,
                (ENTRY, "canonicalizedBody"),
                Some(
                    message["verificationMaterial"]["tlogEntries"][0]["canonicalizedBody"].clone(),
                ),
            ),
            "transparency log",
        ),
    ]
}

#[test]
fn each_tampered_bundle_is_refused_in_its_own_words() {
    let place = Place::new();
    place.trust(&identity(IDENTITY, ISSUER));
    let sigstore = &place.sigstore;
    let wanted = Wanted::default();
    let message = sigstore.message(&place.artifact, &wanted);
    let statement = sigstore.statement(&place.artifact, &wanted);
    let payload = BASE64
        .decode(
            statement["dsseEnvelope"]["payload"]
                .as_str()
                .unwrap()
                .as_bytes(),
        )
        .unwrap();
    let payload = String::from_utf8(payload)
        .unwrap()
        .replace("cosign", "cosigm");
    let none = BASE64.encode(&[7; 32]);
    let unlogged = unlogged(sigstore, &place.artifact).into_iter();
    let tampered = [
        (
            sigstore.message(b"another", &wanted),
            "signature_replayed",
            "a valid signature of another artifact",
        ),
        (
            sigstore.statement(b"another", &wanted),
            "signature_replayed",
            "a valid signature of another artifact",
        ),
        (
            changed(
                &message,
                ("/messageSignature/messageDigest", "digest"),
                Some(json!(none)),
            ),
            "signature_wrong_digest",
            "is over another digest",
        ),
        (
            turned(&message, "/messageSignature/signature"),
            "signature_invalid",
            "is invalid",
        ),
        (
            turned(&statement, "/dsseEnvelope/signatures/0/sig"),
            "signature_invalid",
            "is invalid",
        ),
        (
            changed(
                &statement,
                ("/dsseEnvelope", "payload"),
                Some(json!(BASE64.encode(payload.as_bytes()))),
            ),
            "signature_invalid",
            "is invalid",
        ),
        (
            sigstore.message(
                &place.artifact,
                &Wanted {
                    age: 700,
                    ..wanted.clone()
                },
            ),
            "signature_expired",
            "when the certificate of its signer was not valid",
        ),
        (
            sigstore.statement(
                &place.artifact,
                &Wanted {
                    predicate: "https://slsa.dev/provenance/v1",
                    ..wanted.clone()
                },
            ),
            "signature_is_attestation",
            "https://slsa.dev/provenance/v1",
        ),
        (
            sigstore.statement(
                &place.artifact,
                &Wanted {
                    subjects: 2,
                    ..wanted.clone()
                },
            ),
            "signature_wrong_subject",
            "names 2 artifacts",
        ),
        (
            changed(
                &message,
                ("", "mediaType"),
                Some(json!("application/vnd.dev.sigstore.bundle.v9+json")),
            ),
            "signature_format_unknown",
            "bundle.v9",
        ),
        (
            changed(&message, ("", "verificationMaterial"), None),
            "signature_malformed",
            "cannot be read",
        ),
        (
            sigstore.message(
                &place.artifact,
                &Wanted {
                    algorithm: &PKCS_ECDSA_P384_SHA384,
                    ..wanted.clone()
                },
            ),
            "signature_format_unknown",
            "EcdsaP384",
        ),
    ];
    let unlogged = unlogged.map(|(bundle, words)| (bundle, "signature_not_logged", words));
    for (bundle, code, words) in tampered.into_iter().chain(unlogged) {
        place.sign(&bundle);
        assert_eq!(place.refused(), code, "{words}: {bundle}");
        let refused = place.verify(&[]).exits(3);
        assert!(
            refused.stderr.contains(words) && refused.stderr.contains(code),
            "{code}: {refused:?}"
        );
        assert!(
            refused.stderr.contains("jq.wasm.sigstore.json"),
            "{code}: {refused:?}"
        );
    }
    place.sign(&message);
    place.verify(&[]).exits(0);
}

#[test]
fn a_server_cannot_bring_back_an_older_signed_version() {
    let place = Place::new();
    let pair = minisign::KeyPair::generate_unencrypted_keypair().unwrap();
    let secret = place.home.keep(
        "signing.key",
        pair.sk.to_box(None).unwrap().to_string().as_bytes(),
    );
    let signed = |version: &str| {
        place.home.keep(
            "release.wasm",
            &with_custom(&place.artifact, "version", version.as_bytes()).unwrap(),
        );
        place
            .toolcell(&["sign", "release.wasm", "--key", &secret, "--force"])
            .run()
            .exits(0);
        ["release.wasm", "release.wasm.minisig"]
            .map(|name| std::fs::read(place.file(name)).unwrap())
    };
    let older = signed("1.9.0");
    let newer = signed("1.10.0");
    let (origin, lock) = serve_in_turn(&place, &pair, newer, older);
    assert!(lock.contains("1.10.0") && lock.contains(&origin), "{lock}");
}

#[test]
fn a_server_cannot_bring_back_what_was_signed_earlier_and_has_no_version() {
    let place = Place::new();
    let pair = minisign::KeyPair::generate_unencrypted_keypair().unwrap();
    let signed = |seconds: u32| {
        let component =
            with_custom(&place.artifact, "note", seconds.to_string().as_bytes()).unwrap();
        let comment = format!("timestamp:{seconds}\tfile:jq.wasm");
        let made = minisign::sign(
            None,
            &pair.sk,
            std::io::Cursor::new(&component),
            Some(&comment),
            None,
        )
        .unwrap();
        [component, made.to_string().into_bytes()]
    };
    let older = signed(1_700_000_000);
    let newer = signed(1_800_000_000);
    let (_, lock) = serve_in_turn(&place, &pair, newer, older);
    assert!(lock.contains("signed_at = 1800000000"), "{lock}");
}

/// Installs what a server has first, a component and its signature, and sees that an update refuses what the server has
/// then. Returns the origin of the server, and the lock.
fn serve_in_turn(
    place: &Place,
    pair: &minisign::KeyPair,
    first: [Vec<u8>; 2],
    then: [Vec<u8>; 2],
) -> (String, String) {
    let served = Arc::new(Mutex::new(first));
    let shown = Arc::clone(&served);
    let server = Mirror::new(move |request| {
        let [component, signature] = shown.lock().unwrap().clone();
        match request.split(' ').nth(1) {
            Some("/jq.wasm") => response(&[], &component),
            Some("/jq.wasm.minisig") => response(&[], &signature),
            _ => {
                b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec()
            }
        }
    });
    let origin = server.origin();
    place.trust(&format!(
        "[[signer]]\nreference = \"{origin}/*\"\nminisign = \"{}\"\n",
        pair.pk.to_base64()
    ));
    place
        .toolcell(&[
            "install",
            &format!("{origin}/jq.wasm"),
            "--name=jq",
            "--yes",
        ])
        .run()
        .exits(0);
    *served.lock().unwrap() = then;
    let refused = place.toolcell(&["update", "jq", "--yes"]).run().exits(3);
    assert!(refused.stderr.contains("[downgrade]"), "{refused:?}");
    (
        origin,
        std::fs::read_to_string(place.file("toolcell.lock")).unwrap(),
    )
}

#[test]
fn a_signature_that_is_cut_or_too_large_or_of_no_format_is_refused() {
    let place = Place::new();
    let whole = place
        .sigstore
        .message(&place.artifact, &Wanted::default())
        .to_string();
    let cut = |length: usize| whole.as_bytes()[..length].to_vec();
    for (bytes, code) in [
        (cut(0), "signature_truncated"),
        (cut(1), "signature_truncated"),
        (cut(whole.len() / 2), "signature_truncated"),
        (cut(whole.len() - 1), "signature_truncated"),
        ([whole.as_bytes(), b"}"].concat(), "signature_malformed"),
        (
            [whole.as_bytes(), &vec![b' '; 256 << 10]].concat(),
            "signature_too_large",
        ),
        (
            b"-----BEGIN PGP SIGNATURE-----".to_vec(),
            "signature_format_unknown",
        ),
        (vec![0xff; 64], "signature_format_unknown"),
        ("[".repeat(200_000).into_bytes(), "signature_format_unknown"),
        (
            format!("{{\"a\":{}", "[".repeat(200_000)).into_bytes(),
            "signature_malformed",
        ),
    ] {
        place.home.keep("jq.wasm.sigstore.json", &bytes);
        assert_eq!(
            place.refused(),
            code,
            "{:?}",
            String::from_utf8_lossy(&bytes[..bytes.len().min(80)])
        );
    }
}

#[test]
fn a_managed_key_signs_what_others_can_verify() {
    let place = Place::new();
    for (name, key) in [
        ("p256", KeyPair::generate().unwrap()),
        ("ed25519", KeyPair::generate_for(&PKCS_ED25519).unwrap()),
    ] {
        let secret = place
            .home
            .keep(&format!("{name}.key"), key.serialize_pem().as_bytes());
        let public = place
            .home
            .keep(&format!("{name}.pub"), key.public_key_pem().as_bytes());
        let signed = place
            .toolcell(&["sign", "jq.wasm", "--key", &secret, "--force", "--json"])
            .run()
            .exits(0)
            .json();
        assert_eq!(signed["signed"], "jq.wasm.sigstore.json");
        let bundle: Value =
            serde_json::from_slice(&std::fs::read(place.file("jq.wasm.sigstore.json")).unwrap())
                .unwrap();
        let signature = BASE64
            .decode(
                bundle["messageSignature"]["signature"]
                    .as_str()
                    .unwrap()
                    .as_bytes(),
            )
            .unwrap();
        if name == "p256" {
            let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, key.public_key_raw());
            key.verify(&place.artifact, &signature).unwrap();
        } else {
            assert_eq!(
                signature,
                key.sign(&place.artifact).unwrap(),
                "Ed25519 has one signature for one message"
            );
        }
        let verified = place.verify(&["--key", &public, "--json"]).exits(0).json();
        assert_eq!(verified["signer"], signed["signer"]);
        assert_eq!(verified["signatures"][0]["logged"], false);
        // Nobody knows the key.
        assert_eq!(place.refused(), "signer_unknown");
        let pem = key.public_key_pem();
        place.trust(&format!(
            "[[signer]]\nreference = \"./*\"\nkey = '''\n{pem}'''\n"
        ));
        place.verify(&[]).exits(0);
        let line: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
        place.trust(&format!(
            "[[signer]]\nreference = \"./jq.*\"\nkey = \"{line}\"\n"
        ));
        place.verify(&[]).exits(0);
        for (bundle, code) in [
            (
                turned(&bundle, "/messageSignature/signature"),
                "signature_invalid",
            ),
            (
                changed(
                    &bundle,
                    ("/messageSignature/messageDigest", "digest"),
                    Some(json!(BASE64.encode(&[7; 32]))),
                ),
                "signature_wrong_digest",
            ),
        ] {
            place.sign(&bundle);
            assert_eq!(place.refused(), code, "{name}");
        }
        place.sign(&bundle);
        place.home.keep("jq.wasm", b"another");
        let expected = if name == "p256" {
            "signature_replayed"
        } else {
            "signature_wrong_digest"
        };
        assert_eq!(place.refused(), expected, "{name}");
        place.home.keep("jq.wasm", &place.artifact);
        place.trust("");
    }
}

#[test]
fn minisign_signs_and_its_password_is_in_no_argument() {
    let place = Place::new();
    let pair =
        minisign::KeyPair::generate_encrypted_keypair(Some("correct horse".to_owned())).unwrap();
    let public = pair.pk.to_base64();
    place.home.keep(
        "minisign.key",
        pair.sk.to_box(None).unwrap().to_string().as_bytes(),
    );
    place.home.keep(
        "minisign.pub",
        pair.pk.to_box().unwrap().to_string().as_bytes(),
    );
    place.home.keep("password", b"correct horse\n");
    place.home.keep("wrong", b"correct house\n");
    let sign = ["sign", "jq.wasm", "--key=minisign.key"];
    let refused = place.toolcell(&sign).run().exits(2);
    assert!(
        refused.stderr.contains("--password-file") && refused.stderr.contains("[password_missing]"),
        "{refused:?}"
    );
    let refused = place
        .toolcell(&[&sign[..], &["--password-file=wrong"]].concat())
        .run()
        .exits(2);
    assert!(refused.stderr.contains("[key_unreadable]"), "{refused:?}");
    assert!(!place.file("jq.wasm.minisig").exists());
    let signed = place
        .toolcell(&[&sign[..], &["--password-file=password"]].concat())
        .run()
        .exits(0);
    assert_eq!(signed.stdout, "jq.wasm.minisig\n");
    let refused = place
        .toolcell(&[&sign[..], &["--password-file=password"]].concat())
        .run()
        .exits(2);
    assert!(
        refused
            .stderr
            .contains("jq.wasm.minisig exists; --force replaces it"),
        "{refused:?}"
    );
    place.verify(&["--key=minisign.pub"]).exits(0);
    assert_eq!(place.refused(), "signer_unknown");
    place.trust(&format!(
        "[[signer]]\nreference = \"./*\"\nminisign = \"{public}\"\n"
    ));
    let verified = place.verify(&["--json"]).exits(0).json();
    assert_eq!(verified["signer"]["kind"], "minisign");
    assert!(
        verified["signatures"][0]["signed_at"].is_string(),
        "{verified}"
    );
    let text = std::fs::read_to_string(place.file("jq.wasm.minisig")).unwrap();
    for (bytes, code) in [
        (
            text.replace("file:jq.wasm", "file:yq.wasm"),
            "signature_invalid",
        ),
        (text[..text.len() - 20].to_owned(), "signature_truncated"),
        (
            text.lines().take(2).collect::<Vec<_>>().join("\n"),
            "signature_truncated",
        ),
        (text[..12].to_owned(), "signature_truncated"),
        (
            text.replace("trusted comment: timestamp", "comment: timestamp"),
            "signature_malformed",
        ),
    ] {
        place.home.keep("jq.wasm.minisig", bytes.as_bytes());
        assert_eq!(place.refused(), code, "{bytes}");
    }
    place
        .home
        .keep("jq.wasm.minisig", format!("\n{text}").as_bytes());
    place.verify(&[]).exits(0);
    place.home.keep("jq.wasm.minisig", text.as_bytes());
    place.home.keep("jq.wasm", b"another");
    assert_eq!(place.refused(), "signature_replayed");
}

#[test]
fn a_key_that_cannot_sign_is_refused_before_anything_is_written() {
    let place = Place::new();
    let public = KeyPair::generate().unwrap().public_key_pem();
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    for (text, why) in [
        ("", "neither a PEM key nor a minisign key"),
        (&*public, "it is a public key"),
        (encrypted, "encrypted PKCS #8 is not supported"),
        (
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
            "keys for ECDSA on P-256",
        ),
        (
            "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n",
            "openssl pkcs8 -topk8",
        ),
        ("untrusted comment: x\nRWQ\n", "cannot be read"),
    ] {
        place.home.keep("some.key", text.as_bytes());
        let refused = place
            .toolcell(&["sign", "jq.wasm", "--key=some.key"])
            .run()
            .exits(2);
        assert!(refused.stderr.contains(why), "{text}: {refused:?}");
    }
    for (arguments, why) in [
        (
            ["sign", "none.wasm", "--key=some.key", "--json"],
            "No such file",
        ),
        (
            ["sign", ".", "--key=some.key", "--json"],
            "not a regular file",
        ),
    ] {
        let unreadable = place.toolcell(&arguments).run().exits(2);
        assert!(
            unreadable.stdout.is_empty()
                && unreadable.stderr.starts_with("error: ")
                && unreadable.stderr.contains(why),
            "{unreadable:?}"
        );
    }
    assert!(
        !place.file("jq.wasm.sigstore.json").exists() && !place.file("jq.wasm.minisig").exists()
    );
}

/// Where the program is not installed, this shows nothing; `.ci/run` installs it.
#[test]
fn the_program_minisign_verifies_what_toolcell_signs_and_the_other_way_round() {
    let place = Place::new();
    let minisign = |arguments: &[&str]| {
        Command::new("minisign")
            .args(arguments)
            .current_dir(place.home.path())
            .stdin(Stdio::null())
            .output()
    };
    let Ok(made) = minisign(&["-G", "-W", "-p", "program.pub", "-s", "program.key"]) else {
        return;
    };
    assert!(made.status.success(), "{made:?}");
    place
        .toolcell(&["sign", "jq.wasm", "--key=program.key"])
        .run()
        .exits(0);
    let verified = minisign(&["-V", "-m", "jq.wasm", "-p", "program.pub"]).unwrap();
    assert!(verified.status.success(), "{verified:?}");
    place.verify(&["--key=program.pub"]).exits(0);
    for legacy in [&[][..], &["-l"]] {
        let signed =
            minisign(&[&["-S", "-W", "-s", "program.key", "-m", "jq.wasm"], legacy].concat())
                .unwrap();
        assert!(signed.status.success(), "{signed:?}");
        place.verify(&["--key=program.pub"]).exits(0);
    }
    place.home.keep("jq.wasm", b"another");
    place.verify(&["--key=program.pub"]).exits(3);
}

#[test]
fn an_install_remembers_the_signer_and_asks_about_another_one() {
    let place = Place::new();
    place.trust(&identity("*@acme.test", ISSUER));
    let install = ["install", "./jq.wasm", "--name=jq", "--yes"];
    let refused = place.toolcell(&install).run().exits(3);
    assert!(refused.stderr.contains("[unsigned]"), "{refused:?}");
    place.sign(&place.sigstore.message(b"another", &Wanted::default()));
    let refused = place.toolcell(&install).run().exits(3);
    assert!(
        refused.stderr.contains("[signature_replayed]"),
        "{refused:?}"
    );
    assert!(!place.file("toolcell.lock").exists());
    place.sign(&place.sigstore.message(&place.artifact, &Wanted::default()));
    place.toolcell(&install).run().exits(0);
    assert!(
        std::fs::read_to_string(place.file("toolcell.lock"))
            .unwrap()
            .contains(IDENTITY)
    );
    let other = Wanted {
        identity: "other@acme.test",
        ..Wanted::default()
    };
    let newer =
        toolcell_spec::dialect::sections::with_custom(&place.artifact, "note", b"x").unwrap();
    place.home.keep("jq.wasm", &newer);
    place.sign(&place.sigstore.message(&newer, &other));
    let asked = place.toolcell(&["update", "jq"]).run();
    let said = format!("{}{}", asked.stdout, asked.stderr);
    for words in [IDENTITY, "other@acme.test", "[install_needs_consent]"] {
        assert!(said.contains(words), "{words}: {asked:?}");
    }
    place.sign(&turned(
        &place.sigstore.message(&newer, &other),
        "/messageSignature/signature",
    ));
    let refused = place.toolcell(&["update", "jq", "--yes"]).run().exits(3);
    assert!(
        refused.stderr.contains("[signature_invalid]"),
        "{refused:?}"
    );
    let lock = std::fs::read_to_string(place.file("toolcell.lock")).unwrap();
    assert!(
        lock.contains(IDENTITY) && !lock.contains("other@acme.test"),
        "{lock}"
    );
}

/// An entry for this repository, that names the key.
fn entry(reference: &str, key: &KeyPair) -> String {
    format!(
        "[[signer]]\nreference = \"{reference}\"\nkey = \'\'\'\n{}\'\'\'\n",
        key.public_key_pem()
    )
}

#[test]
fn an_artifact_in_a_registry_is_signed_and_its_signature_is_for_no_other() {
    let place = Place::new();
    let registry = Registry::start();
    let key = KeyPair::generate().unwrap();
    place
        .home
        .keep("signing.key", key.serialize_pem().as_bytes());
    registry.put_component("me/jq", "1", &place.artifact);
    let reference = format!("{}/me/jq:1", registry.host());
    let verify = |options: &[&str]| {
        place
            .toolcell(&[&["verify", &reference], options].concat())
            .run()
    };
    let install = ["install", &reference, "--name=jq", "--yes"];
    assert!(verify(&[]).exits(3).stderr.contains("[unsigned]"));
    assert!(
        place
            .toolcell(&install)
            .run()
            .exits(3)
            .stderr
            .contains("[unsigned]")
    );
    let signed = place
        .toolcell(&["sign", &reference, "--key=signing.key", "--json"])
        .run()
        .exits(0);
    assert!(
        signed.stderr.contains("resolves to sha256:"),
        "what a tag is, the registry decides: {signed:?}"
    );
    let signed = signed.json();
    assert!(
        signed["signed"]
            .as_str()
            .unwrap()
            .starts_with(&format!("oci://{}/me/jq@sha256:", registry.host())),
        "{signed}"
    );
    // Nobody knows the key.
    assert!(verify(&[]).exits(3).stderr.contains("[signer_unknown]"));
    place.trust(&entry(&format!("{}/me/*", registry.host()), &key));
    let verified = verify(&["--json"]).exits(0).json();
    assert_eq!(
        (&verified["digest"], &verified["signer"]),
        (&signed["digest"], &signed["signer"])
    );
    place.toolcell(&install).run().exits(0);
    place.toolcell(&["call", "jq", "{\"a\": 1}"]).run().exits(0);
    // The same signature, attached to another artifact.
    let other = registry.put_component("me/yq", "1", &wat("plain"));
    place
        .toolcell(&["sign", &reference, "--key=signing.key", "--output=jq.json"])
        .run()
        .exits(0);
    let signature = std::fs::read(place.file("jq.json")).unwrap();
    registry.attach(
        "me/yq",
        other,
        "application/vnd.dev.sigstore.bundle.v0.3+json",
        &signature,
    );
    let reference = format!("{}/me/yq:1", registry.host());
    for command in [
        &["verify", &reference][..],
        &["install", &reference, "--yes", "--allow-unsigned"],
    ] {
        let refused = place.toolcell(command).run().exits(3);
        assert!(
            refused.stderr.contains("[signature_replayed]"),
            "{refused:?}"
        );
    }
}

#[test]
fn a_push_can_sign() {
    let place = Place::new();
    let registry = Registry::start();
    let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    place
        .home
        .keep("signing.key", key.serialize_pem().as_bytes());
    place.home.keep(
        "jq.wasm",
        &with_custom(&place.artifact, "licenses", b"MIT").unwrap(),
    );
    let to = format!("{}/me/jq:1", registry.host());
    let pushed = place
        .toolcell(&["push", "jq.wasm", &to, "--sign=signing.key", "--json"])
        .run()
        .exits(0)
        .json();
    assert!(pushed["signature"].is_string(), "{pushed}");
    place.trust(&entry("*", &key));
    let verified = place
        .toolcell(&["verify", &to, "--json"])
        .run()
        .exits(0)
        .json();
    assert_eq!(
        (&verified["digest"], &verified["signer"]),
        (&pushed["digest"], &pushed["signer"])
    );
}
