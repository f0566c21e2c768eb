//! `toolcell push`, to a registry in this process.
//!
//! Promise: Credentials go to the registry that they are for.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use toolcell::ErrorCode;

use serde_json::{Value, json};
use toolcell_install::digest::Digest;
use toolcell_install::source::ReferrerKind;
use toolcell_spec::dialect::sections::with_custom;

use crate::support::{Answer, Ran, Registry, Toolcell, scratch, wat};

use super::{attached, pinned, pull};

const SBOM: &str = "application/vnd.cyclonedx+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// A folder with the component `echo.wasm`, of the version 1.2.0.
fn place() -> (tempfile::TempDir, PathBuf) {
    let (guard, folder) = scratch();
    let component = with_custom(&wat("echo"), "version", b"1.2.0+a").unwrap();
    std::fs::write(
        folder.join("echo.wasm"),
        with_custom(&component, "licenses", b"MIT").unwrap(),
    )
    .unwrap();
    (guard, folder)
}

/// Runs `push` with `folder` as the folder of docker's configuration.
fn push(folder: &Path, arguments: &[&str]) -> Ran {
    let folder_name = folder.display().to_string();
    Toolcell::new([&["push"], arguments].concat())
        .dir(folder)
        .env("DOCKER_CONFIG", &folder_name)
        .run()
}

#[test]
fn a_component_is_pushed_with_what_is_known_of_it() {
    let registry = Registry::start();
    let (_guard, folder) = place();
    let to = format!("{}/me/echo", registry.host());
    let foretold = push(&folder, &["echo.wasm", &to, "--dry-run", "--json"])
        .exits(0)
        .json();
    assert_eq!(
        (&foretold["pushed"], &foretold["dry_run"]),
        (&json!(null), &json!(true))
    );
    assert!(registry.seen().is_empty(), "{:?}", registry.seen());
    let pushed = push(&folder, &["echo.wasm", &to, "--json"]).exits(0).json();
    assert_eq!(
        (&pushed["digest"], &pushed["component"]),
        (&foretold["digest"], &foretold["component"])
    );
    // The version is the tag, in the characters that a tag can have.
    assert_eq!(pushed["reference"], format!("{to}:1.2.0_a"));
    let digest: Digest = pushed["digest"].as_str().unwrap().parse().unwrap();
    assert_eq!(pushed["pushed"], format!("oci://{to}:1.2.0_a@{digest}"));
    let (resolved, component) = pull(&pinned(&registry.host(), "me/echo", digest)).unwrap();
    assert_eq!(component, std::fs::read(folder.join("echo.wasm")).unwrap());
    assert_eq!(resolved.version(), Some("1.2.0+a"));
    let annotation = |name: &str| {
        resolved
            .annotations
            .get(&format!("org.opencontainers.image.{name}"))
            .cloned()
    };
    assert_eq!(
        (annotation("title"), annotation("licenses")),
        (Some("echo".to_owned()), Some("MIT".to_owned()))
    );
    let manifest: Value = serde_json::from_slice(&resolved.manifest.unwrap().bytes).unwrap();
    assert_eq!(
        manifest["config"]["mediaType"],
        "application/vnd.wasm.config.v0+json"
    );
    let found = attached(pushed["pushed"].as_str().unwrap(), ReferrerKind::Sbom).unwrap();
    assert_eq!((found.len(), found[0].media_type.as_str()), (1, SBOM));
    let bill: Value = serde_json::from_slice(&found[0].bytes).unwrap();
    assert_eq!(
        (
            &bill["specVersion"],
            &bill["metadata"]["component"]["version"]
        ),
        (&json!("1.6"), &json!("1.2.0+a"))
    );
    let plain = push(&folder, &["echo.wasm", &format!("{to}:1")]).exits(0);
    assert_eq!(
        plain.stdout,
        format!("oci://{to}:1@{digest}\n"),
        "the same component has the same digest"
    );
}

#[test]
fn a_tag_names_an_artifact_once_all_is_attached_to_it() {
    let registry = Registry::start();
    let (_guard, folder) = place();
    let to = format!("{}/me/echo:1", registry.host());
    registry.tamper(|_, _, honest| {
        let attaches = honest.headers.iter().any(|(name, _)| name == "oci-subject");
        if attaches {
            Answer {
                status: 500,
                ..honest
            }
        } else {
            honest
        }
    });
    let failed = push(&folder, &["echo.wasm", &to, "--json"]).exits(1).json();
    assert_eq!(
        failed["error"]["error_code"], "registry_answer_invalid",
        "{failed}"
    );
    registry.heal();
    assert_eq!(pull(&to).unwrap_err().code, ErrorCode::ArtifactNotFound);
    push(&folder, &["echo.wasm", &to]).exits(0);
    pull(&to).unwrap();
}

#[test]
fn an_attachment_replaces_none_however_many_there_are() {
    let registry = Registry::start();
    let (_guard, folder) = place();
    let to = format!("{}/me/echo:1", registry.host());
    let pushed = push(&folder, &["echo.wasm", &to, "--json"]).exits(0).json();
    // A registry that lists nothing by itself, and an index with many attachments of others.
    registry.tamper(|_, path, mut honest| {
        honest.headers.retain(|(name, _)| name != "oci-subject");
        if path.contains("/referrers/") {
            Answer {
                status: 404,
                ..honest
            }
        } else {
            honest
        }
    });
    let other = |number: u32| {
        let digest = Digest::of(&number.to_le_bytes());
        json!({ "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest, "size": 1 })
    };
    let index = json!({
        "schemaVersion": 2, "mediaType": INDEX, "manifests": (0..300).map(other).collect::<Vec<_>>(),
    });
    let tag = pushed["digest"].as_str().unwrap().replace(':', "-");
    registry.put_manifest("me/echo", &tag, INDEX, index.to_string().as_bytes());
    push(&folder, &["echo.wasm", &to]).exits(0);
    let written = registry
        .seen()
        .into_iter()
        .rfind(|seen| seen.method == "PUT" && seen.path.ends_with(&tag))
        .unwrap();
    let written: Value = serde_json::from_slice(&written.body).unwrap();
    assert_eq!(written["manifests"].as_array().unwrap().len(), 301);
    assert_eq!(attached(&to, ReferrerKind::Sbom).unwrap().len(), 1);
}

#[test]
fn what_has_errors_is_not_pushed() {
    let registry = Registry::start();
    let (_guard, folder) = place();
    let hidden = edited(&wat("echo"), "Answers its input", "Answers\u{200b}its inp");
    std::fs::write(folder.join("hidden.wasm"), hidden).unwrap();
    let to = format!("{}/me/hidden:1", registry.host());
    let refused = push(&folder, &["hidden.wasm", &to, "--json"])
        .exits(3)
        .json();
    assert_eq!(refused["error"]["error_code"], "check_failed");
    assert_eq!(refused["findings"][0]["code"], "text_hidden");
    for (reference, why) in [
        ("./here", "it is not in a registry"),
        ("ghcr.io/me/Echo", "is not a repository"),
        (
            &*pinned(&registry.host(), "me/echo", Digest::of(b"x")),
            "a digest follows from what is pushed",
        ),
        (
            &*format!("{}/me/hidden", registry.host()),
            "it was not pushed",
        ),
    ] {
        let refused = push(&folder, &["hidden.wasm", reference]);
        assert!(
            matches!(refused.code, Some(2 | 3)) && refused.stderr.contains(why),
            "{reference}: {}",
            refused.stderr
        );
    }
    std::fs::write(folder.join("nameless.wasm"), wat("echo")).unwrap();
    let refused = push(
        &folder,
        &["nameless.wasm", &format!("{}/me/a", registry.host())],
    )
    .exits(2);
    assert!(
        refused.stderr.contains("no manifest says the version"),
        "{}",
        refused.stderr
    );
    assert!(registry.seen().is_empty(), "{:?}", registry.seen());
}

/// `component` with one text replaced by another that has at most as many bytes, and is filled up with spaces.
pub(crate) fn edited(component: &[u8], from: &str, to: &str) -> Vec<u8> {
    let at = component
        .windows(from.len())
        .position(|part| part == from.as_bytes())
        .unwrap();
    let mut edited = component.to_vec();
    let filled = format!("{to}{}", " ".repeat(from.len() - to.len()));
    edited[at..at + from.len()].copy_from_slice(filled.as_bytes());
    edited
}

#[test]
fn credentials_are_where_docker_keeps_them_and_appear_nowhere() {
    let (_guard, folder) = place();
    let auth = data_encoding::BASE64.encode(b"me:a-password");
    let config = |registry: &Registry, auth: &str| {
        let config = json!({ "auths": { registry.host(): { "auth": auth } } }).to_string();
        std::fs::write(folder.join("config.json"), config).unwrap();
    };
    let secrets = ["a-password", auth.as_str(), "a-token", "other-password"];
    for wants_token in [false, true] {
        let registry = Registry::start();
        if wants_token {
            registry.wants_token("me", "a-password")
        } else {
            registry.wants_password("me", "a-password")
        }
        let to = format!("{}/me/echo:1", registry.host());
        let _ = std::fs::remove_file(folder.join("config.json"));
        let refused = push(&folder, &["echo.wasm", &to, "--json"]).exits(2);
        assert_eq!(
            refused.json()["error"]["error_code"],
            "registry_unauthorized"
        );
        config(
            &registry,
            &data_encoding::BASE64.encode(b"me:other-password"),
        );
        let wrong = push(&folder, &["echo.wasm", &to]).exits(2);
        assert!(
            wrong
                .stderr
                .contains(&format!("run `docker login {}` again", registry.host())),
            "{}",
            wrong.stderr
        );
        config(&registry, &auth);
        let pushed = push(&folder, &["echo.wasm", &to, "--json"]).exits(0);
        for ran in [&refused, &wrong, &pushed] {
            let said = format!("{}{}", ran.stdout, ran.stderr);
            assert!(
                secrets.iter().all(|secret| !said.contains(secret)),
                "{said}"
            );
        }
    }
}

#[test]
fn an_upload_to_another_host_carries_no_credentials() {
    let registry = Registry::start();
    let storage = Registry::start();
    let (_guard, folder) = place();
    registry.wants_password("me", "a-password");
    let auth = data_encoding::BASE64.encode(b"me:a-password");
    let config = json!({ "auths": { registry.host(): { "auth": auth } } }).to_string();
    std::fs::write(folder.join("config.json"), config).unwrap();
    let place = format!("http://{}/v2/me/echo/blobs/uploads/1", storage.host());
    registry.tamper(move |method, _, honest| {
        if method == "POST" && honest.status == 202 {
            Answer {
                headers: vec![("location".to_owned(), place.clone())],
                ..honest
            }
        } else {
            honest
        }
    });
    push(
        &folder,
        &["echo.wasm", &format!("{}/me/echo:1", registry.host())],
    )
    .exits(0);
    let uploads = storage.seen();
    assert!(
        uploads.len() > 1 && uploads.iter().all(|seen| seen.authorization.is_none()),
        "{uploads:?}"
    );
}

#[test]
fn a_credential_helper_is_asked_if_the_configuration_names_it() {
    let registry = Registry::start();
    let (_guard, folder) = place();
    registry.wants_password("me", "a-password");
    let to = format!("{}/me/echo:1", registry.host());
    let helper = folder.join("docker-credential-test");
    let script = "#!/bin/sh\nread server\nprintf '{\"ServerURL\":\"%s\",\"Username\":\"me\",\"Secret\":\"a-password\"}' \
                  \"$server\"\n";
    std::fs::write(&helper, script).unwrap();
    std::fs::set_permissions(&helper, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let push_with = |path: &str| {
        let folder_name = folder.display().to_string();
        let program = Toolcell::new(["push", "echo.wasm", &to])
            .dir(&folder)
            .env("PATH", path);
        program.env("DOCKER_CONFIG", &folder_name).run()
    };
    let push = || push_with(&path);
    // A helper that nothing names is not run.
    std::fs::write(folder.join("config.json"), "{}").unwrap();
    push().exits(2);
    std::fs::write(
        folder.join("config.json"),
        json!({ "credHelpers": { registry.host(): "test" } }).to_string(),
    )
    .unwrap();
    // One in the current folder, which can be a project of others, is not run.
    let near = push_with(&format!(".::{}", std::env::var("PATH").unwrap())).exits(2);
    assert!(
        near.stderr.contains("is in no absolute folder of PATH"),
        "{}",
        near.stderr
    );
    push().exits(0);
    // A file that is no program does not hide it.
    let hidden = folder.join("hidden");
    std::fs::create_dir(&hidden).unwrap();
    std::fs::write(hidden.join("docker-credential-test"), "").unwrap();
    push_with(&format!("{}:{path}", hidden.display())).exits(0);
    std::fs::write(
        &helper,
        "#!/bin/sh\necho a-password >&2\necho a-password\nexit 1\n",
    )
    .unwrap();
    let failed = push().exits(2);
    assert!(
        failed
            .stderr
            .contains("docker-credential-test, which docker's config.json names, failed with"),
        "{}",
        failed.stderr
    );
    assert!(!failed.stderr.contains("a-password"), "{}", failed.stderr);
}

#[test]
fn a_registry_that_cannot_be_used_is_named_with_what_to_do() {
    let registry = Registry::start();
    let (_guard, folder) = place();
    let to = format!("{}/me/echo:1", registry.host());
    registry.tamper(|_, _, honest| Answer {
        status: 403,
        ..honest
    });
    let denied = push(&folder, &["echo.wasm", &to, "--json"]).exits(3).json();
    assert_eq!(denied["error"]["error_code"], "registry_denied");
    drop(registry);
    let gone = push(&folder, &["echo.wasm", &to, "--json"]).exits(1).json();
    assert_eq!(gone["error"]["error_code"], "registry_unreachable");
    assert!(
        gone["error"]["message"]
            .as_str()
            .unwrap()
            .contains("check its name and the network"),
        "{gone}"
    );
}

/// A rustc that has the standard library of the target, and a cargo whose component is a file beside it: `first.wasm`, and
/// `again.wasm` in the place of a second build.
const PROGRAMS: [(&str, &str); 2] = [
    ("rustc", "#!/bin/sh\necho \"${0%/*}/lib\"\n"),
    (
        "cargo",
        r#"#!/bin/sh
here="${0%/*}"
if [ "$1" = metadata ]; then
  target='{"kind":["cdylib"],"crate_types":["cdylib"]}'
  printf '{"packages":[{"name":"placed","id":"placed","manifest_path":"%s/Cargo.toml","targets":[%s],"dependencies":[]}],' \
    "$PWD" "$target"
  printf '"workspace_root":"%s","target_directory":"%s/target"}' "$PWD" "$PWD"
  exit
fi
while [ "$1" != --target-dir ]; do shift; done
mkdir -p "$2"
case "$PWD" in */copy/*) made=again ;; *) made=first ;; esac
cp "$here/$made.wasm" "$2/placed.wasm" || exit 1
echo "placed.wasm: $PWD/src/lib.rs" > "$2/placed.d"
printf '{"reason":"compiler-artifact","package_id":"placed","filenames":["%s/placed.wasm"],"fresh":false}\n' "$2"
"#,
    ),
];

#[test]
fn what_another_build_makes_otherwise_is_not_pushed() {
    let registry = Registry::start();
    let (_guard, folder) = scratch();
    let bin = folder.join("bin");
    let tool = folder.join("placed");
    for made in [bin.join("lib"), tool.join("src")] {
        std::fs::create_dir_all(made).unwrap();
    }
    std::fs::write(bin.join("lib/libstd-1.rlib"), "").unwrap();
    for (name, script) in PROGRAMS {
        std::fs::write(bin.join(name), script).unwrap();
        std::fs::set_permissions(bin.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    std::fs::write(
        tool.join("Cargo.toml"),
        "[package]\nname = \"placed\"\nversion = \"1.0.0\"\n",
    )
    .unwrap();
    std::fs::write(tool.join("src/lib.rs"), "").unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let to = format!("{}/me/placed", registry.host());
    let push = || {
        let program =
            Toolcell::at(&folder.join("home"), ["push", "placed", &to, "--json"]).dir(&folder);
        program
            .env("PATH", &path)
            .env("TOOLCELL_GUEST_TOOLCHAIN", "installed")
            .run()
    };
    let component = wat("echo");
    std::fs::write(bin.join("first.wasm"), &component).unwrap();
    std::fs::write(
        bin.join("again.wasm"),
        with_custom(&component, "place", b"copy").unwrap(),
    )
    .unwrap();
    let refused = push().exits(3).json();
    assert_eq!(
        refused["error"]["error_code"], "build_not_reproducible",
        "{refused}"
    );
    assert_eq!(
        (&refused["reproducible"], &refused["pushed"]),
        (&json!(false), &json!(null))
    );
    assert!(registry.seen().is_empty(), "{:?}", registry.seen());
    // A copy that does not build says nothing of the first build.
    std::fs::remove_file(bin.join("again.wasm")).unwrap();
    let unknown = push().exits(0).json();
    assert_eq!(unknown["reproducible"], json!(null));
    let found = unknown["findings"].as_array().unwrap();
    assert!(
        found
            .iter()
            .any(|found| found["code"] == "reproducibility_unknown"),
        "{unknown}"
    );
    std::fs::write(bin.join("again.wasm"), &component).unwrap();
    assert_eq!(push().exits(0).json()["reproducible"], json!(true));
}
