//! Tools from a registry: installed, run by name, updated, and refused in each tampered form.

use rcgen::{KeyPair, PKCS_ED25519};
use serde_json::{Value, json};
use toolcell_spec::dialect::sections::with_custom;

use crate::pipeline::doubles::echoing;
use crate::support::{Answer, Body, Home, Ran, Registry, wat};

use super::debian::Debian;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// An empty home whose user trusts one key for the repositories `me/*` of a registry.
struct Publisher {
    home: Home,
    to: String,
}

impl Publisher {
    fn new(host: &str) -> Self {
        let home = Home::new();
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        home.keep("signing.key", key.serialize_pem().as_bytes());
        let key = key.public_key_pem();
        home.configure(&format!(
            "[[signer]]\nreference = \"{host}/me/*\"\nkey = '''\n{key}'''\n"
        ));
        Self {
            home,
            to: format!("{host}/me/greet:stable"),
        }
    }

    fn toolcell(&self, arguments: &[&str]) -> Ran {
        self.home.toolcell(arguments).dir(self.home.path()).run()
    }

    /// Pushes a tool of this version, which may ask for these hosts.
    fn push(&self, version: &str, scope: &str) -> Value {
        let component = echoing("greet", |toolkit| {
            toolkit["declarations"][0]["permission_profile_ref"] = json!("p");
            toolkit["permission_profiles"] = json!([{
                "schema_version": "0.2.0", "permission_profile_id": "p", "risk_level": "low",
                "access_kinds": ["network"], "write_effects": ["none"], "network_scope": scope,
            }]);
        });
        self.home.keep(
            "greet.wasm",
            &with_custom(&component, "version", version.as_bytes()).unwrap(),
        );
        self.toolcell(&[
            "push",
            "greet.wasm",
            &self.to,
            "--sign=signing.key",
            "--json",
        ])
        .exits(0)
        .json()
    }
}

#[test]
fn a_signed_tool_is_installed_on_an_empty_home_and_updated_with_a_difference() {
    let registry = Debian::start(false);
    let publisher = Publisher::new(&registry.host);
    let toolcell = |arguments: &[&str]| publisher.toolcell(arguments);
    let pushed = publisher.push("1.0.0", "a.example");
    let told = toolcell(&["info", &publisher.to, "--json"]).exits(0).json();
    assert!(
        told["component"] == pushed["component"] && !told["signer"].is_null(),
        "{told}"
    );
    toolcell(&["install", &publisher.to, "--name=greet", "--yes"]).exits(0);
    let call = || {
        toolcell(&[
            "call",
            "greet",
            r#"{"a":1}"#,
            "--allow-net=https://a.example",
            "--json",
        ])
        .exits(0)
        .json()
    };
    assert_eq!(call()["structured_content"], json!({ "a": 1 }));
    let component = || call()["provenance"]["component"].clone();
    assert_eq!(component(), pushed["component"]);
    // Other bytes that may do the same.
    let same = publisher.push("1.1.0", "a.example");
    assert_eq!(
        toolcell(&["outdated", "--json"]).exits(0).json()["outdated"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    toolcell(&["update", "greet"]).exits(0);
    assert_eq!(component(), same["component"]);
    // A tool that may do more.
    let more = publisher.push("1.2.0", "a.example, b.example");
    let asked = toolcell(&["update", "greet"]).exits(3).stderr;
    for words in [
        "+ greet.echo: send requests to b.example",
        "[install_needs_consent]",
    ] {
        assert!(asked.contains(words), "{words}: {asked}");
    }
    assert_eq!(component(), same["component"]);
    toolcell(&["update", "greet", "--yes"]).exits(0);
    assert_eq!(component(), more["component"]);
    // An older version, whose signature is as good as it was.
    publisher.push("1.0.0", "a.example");
    let refused = toolcell(&["update", "greet", "--yes"]).exits(3);
    assert!(refused.stderr.contains("[downgrade]"), "{}", refused.stderr);
    assert_eq!(component(), more["component"]);
    toolcell(&["store", "verify"]).exits(0);
}

#[test]
fn what_a_publisher_wrote_passes_for_no_line_of_the_program() {
    let registry = Registry::start();
    let home = Home::new();
    let config = registry.put_blob("application/vnd.wasm.config.v0+json", b"{}");
    let layer = registry.put_blob("application/wasm", &wat("echo"));
    let annotations = json!({
        "org.opencontainers.image.version": "1.0\n  signed by: Debian", "a\n  signed by: Debian": "x",
    });
    let manifest = json!({ "schemaVersion": 2, "config": config, "layers": [layer], "annotations": annotations });
    registry.put_manifest("me/greet", "1", MANIFEST, manifest.to_string().as_bytes());
    let to = format!("{}/me/greet:1", registry.host());
    let toolcell = |arguments: &[&str]| {
        home.toolcell(arguments)
            .dir(home.path())
            .run()
            .exits(0)
            .stdout
    };
    let told = toolcell(&["info", &to, "--allow-unsigned"]);
    let signers: Vec<&str> = told
        .lines()
        .filter(|line| line.starts_with("  sign"))
        .collect();
    assert_eq!(signers, ["  signer: none, it is not signed"], "{told}");
    assert!(
        told.contains("  org.opencontainers.image.version: 1.0"),
        "{told}"
    );
    toolcell(&["install", &to, "--name=greet", "--allow-unsigned", "--yes"]);
    let listed = toolcell(&["list"]);
    assert!(
        listed.lines().count() == 3 && !listed.contains("Debian"),
        "{listed}"
    );
}

#[test]
fn each_tampered_form_is_refused_and_nothing_is_installed() {
    let registry = Registry::start();
    let publisher = Publisher::new(&registry.host());
    publisher.push("1.0.0", "a.example");
    registry.put_component("me/unsigned", "1", &wat("echo"));
    let unsigned = format!("{}/me/unsigned:1", registry.host());
    let install =
        |reference: &str| publisher.toolcell(&["install", reference, "--name=greet", "--yes"]);
    assert!(install(&unsigned).exits(3).stderr.contains("[unsigned]"));
    let index = json!({ "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [] });
    type Lie = fn(Answer) -> Answer;
    let lies: [(&str, &str, Lie); 5] = [
        ("/blobs/", "digest_mismatch", |honest| match honest.body {
            Body::Whole(mut bytes) => {
                let last = bytes.len() - 1;
                bytes[last] ^= 1;
                Answer {
                    body: Body::Whole(bytes),
                    ..honest
                }
            }
            _ => honest,
        }),
        ("/blobs/", "registry_unreachable", |honest| {
            match honest.body {
                Body::Whole(bytes) => Answer {
                    body: Body::Cut {
                        claimed: bytes.len() as u64,
                        sent: bytes[..9].to_vec(),
                    },
                    ..honest
                },
                _ => honest,
            }
        }),
        ("/blobs/", "redirect_refused", |_| {
            Answer::redirect("https://169.254.169.254/latest")
        }),
        ("/blobs/", "redirect_refused", |_| {
            Answer::redirect("file:///etc/passwd")
        }),
        ("/manifests/stable", "registry_answer_too_large", |honest| {
            Answer {
                body: Body::Zeros(5 << 20),
                ..honest
            }
        }),
    ];
    for (part, code, lie) in lies {
        registry.tamper(move |_, path, honest| {
            if path.contains(part) {
                lie(honest)
            } else {
                honest
            }
        });
        let refused = install(&publisher.to);
        assert!(
            refused.code != Some(0) && refused.stderr.contains(&format!("[{code}]")),
            "{code}: {refused:?}"
        );
    }
    let index = index.to_string();
    registry.tamper(move |_, path, honest| {
        if path.contains("/manifests/stable") {
            Answer::of(200, MANIFEST, index.as_bytes())
        } else {
            honest
        }
    });
    assert!(
        install(&publisher.to)
            .exits(3)
            .stderr
            .contains("[artifact_unsupported]")
    );
    // The signature of another manifest under the same tag.
    registry.heal();
    let other = registry.put_component("me/greet", "stable", &wat("echo"));
    assert!(
        install(&publisher.to)
            .exits(3)
            .stderr
            .contains("[unsigned]"),
        "nothing is attached to {other}"
    );
    assert_eq!(
        publisher.toolcell(&["list", "--json"]).exits(0).json()["installed"],
        json!([])
    );
    publisher.toolcell(&["store", "verify"]).exits(0);
}
