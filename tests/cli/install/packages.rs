//! Components in packages of PyPI and npm, from an index of this machine.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::super::policy::Place;
use super::project;
use crate::pipeline::doubles::echoing;
use crate::support::{
    IDENTITY, ISSUER, Mirror, Ran, Sigstore, Toolcell, Wanted, response, scratch,
};

/// Packs `greet.wasm` as a wheel and as an npm package, and prints what their indexes say of them.
const PACK: &str = r#"
import base64, hashlib, json, sys, tarfile, zipfile
folder, version = sys.argv[1], sys.argv[2]
wheel, package = f"{folder}/x-{version}-py3-none-any.whl", f"{folder}/x-{version}.tgz"
with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as packed:
    packed.writestr("x/__init__.py", "")
    packed.write(f"{folder}/greet.wasm", "x/greet.wasm")
with tarfile.open(package, "w:gz") as packed:
    packed.add(f"{folder}/greet.wasm", "package/lib/greet.wasm")
with open(wheel, "rb") as file: sha256 = hashlib.sha256(file.read()).hexdigest()
with open(package, "rb") as file: sha512 = base64.b64encode(hashlib.sha512(file.read()).digest()).decode()
print(json.dumps({"sha256": sha256, "sha512": f"sha512-{sha512}"}))
"#;

fn packed(folder: &Path, version: &str, component: &[u8]) -> Value {
    fs::write(folder.join("greet.wasm"), component).unwrap();
    let output = Command::new("python3")
        .args(["-c", PACK, &folder.display().to_string(), version])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Serves the files of `folder`, and the pages in `pages` by their paths.
pub(super) fn index(folder: &Path, pages: &Arc<Mutex<Value>>) -> Mirror {
    let folder = folder.to_owned();
    let pages = Arc::clone(pages);
    Mirror::new(move |request| {
        let path = request.split(' ').nth(1).unwrap_or_default();
        let page = pages.lock().unwrap()[path].clone();
        let file = || fs::read(folder.join(path.trim_start_matches("/files/"))).ok();
        let body = match page {
            Value::Null => file(),
            page => Some(page.to_string().into_bytes()),
        };
        body.map_or_else(
            || b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec(),
            |body| response(&[], &body),
        )
    })
}

pub(super) fn run(place: &Place, server: &Mirror, arguments: &[&str]) -> Ran {
    Toolcell::at(&place.home, arguments)
        .dir(&place.project)
        .env("PIP_INDEX_URL", &format!("{}/simple", server.origin()))
        .env("npm_config_registry", &server.origin())
        .run()
}

#[test]
fn a_file_of_a_package_is_installed_if_the_package_has_the_hash_of_the_index() {
    let (_guard, folder) = scratch();
    let place = project();
    let hashes = packed(&folder, "1.2", &echoing("greet", |_| {}));
    let pages = Arc::new(Mutex::new(json!({})));
    let server = index(&folder, &pages);
    let file = |version: &str, sha256: &Value| {
        json!({
            "filename": format!("x-{version}-py3-none-any.whl"), "hashes": { "sha256": sha256 },
            "url": format!("../../files/x-{version}-py3-none-any.whl"), "yanked": false,
        })
    };
    *pages.lock().unwrap() = json!({
        "/simple/x/": { "files": [file("1.2", &hashes["sha256"])] },
        "/@s%2fx/latest": { "version": "1.2", "dist": {
            "tarball": format!("{}/files/x-1.2.tgz", server.origin()), "integrity": hashes["sha512"],
        } },
    });
    let code = |name: &str, reference: &str| {
        let name = format!("--name={name}");
        let words = [
            "install",
            reference,
            &name,
            "--allow-unsigned",
            "--yes",
            "--json",
        ];
        let ran = run(&place, &server, &words).json();
        ran["error"]["error_code"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let unsigned = ["install", "pypi:x#x/greet.wasm", "--yes", "--json"];
    let refused = run(&place, &server, &unsigned).exits(3).json();
    assert_eq!(refused["error"]["error_code"], "unsigned");
    assert_eq!(code("x", "pypi:X#x/greet.wasm"), "");
    place.run(&["call", "x"]).exits(0);
    assert_eq!(code("y", "npm:@s/x#lib/greet.wasm"), "");
    let said = run(
        &place,
        &server,
        &[
            "install",
            "npm:@s/x#greet.wasm",
            "--allow-unsigned",
            "--yes",
        ],
    );
    assert!(
        said.stderr.contains("it has lib/greet.wasm"),
        "{}",
        said.stderr
    );
    assert_eq!(code("a", "pypi:x==2.0#x/greet.wasm"), "reference_not_found");
    assert_eq!(code("b", "pypi:y#x/greet.wasm"), "reference_not_found");

    // Another version is taken by an update, and the locked one stays what is installed.
    assert_eq!(code("x", "pypi:x#x/greet.wasm"), "");
    let newer = packed(
        &folder,
        "1.10",
        &echoing("greet", |greet| greet["description"] = json!("Greets")),
    );
    pages.lock().unwrap()["/simple/x/"]["files"] = json!([
        file("1.10", &newer["sha256"]),
        file("1.2", &hashes["sha256"])
    ]);
    fs::remove_dir_all(place.home.join("store")).unwrap();
    run(&place, &server, &["install", "--yes"]).exits(0);
    let lock = || fs::read_to_string(place.project.join("toolcell.lock")).unwrap();
    assert!(lock().contains("version = \"1.2\""), "{}", lock());
    run(&place, &server, &["update", "--yes"]).exits(0);
    assert!(lock().contains("version = \"1.10\""), "{}", lock());

    // Nothing is read out of an archive with other bytes.
    pages.lock().unwrap()["/simple/x/"]["files"] = json!([file("1.10", &hashes["sha256"])]);
    assert_eq!(code("c", "pypi:x==1.10#x/greet.wasm"), "digest_mismatch");
}

/// What PyPI serves of an attestation (PEP 740).
fn provenance(bundle: &Value) -> Value {
    let material = &bundle["verificationMaterial"];
    let envelope = &bundle["dsseEnvelope"];
    let attestation = json!({
        "version": 1,
        "verification_material": {
            "certificate": material["certificate"]["rawBytes"],
            "transparency_entries": material["tlogEntries"],
        },
        "envelope": { "statement": envelope["payload"], "signature": envelope["signatures"][0]["sig"] },
    });
    let publisher = json!({ "kind": "GitHub", "repository": "acme/x", "workflow": "release.yml" });
    json!({
        "version": 1,
        "attestation_bundles": [{ "publisher": publisher, "attestations": [attestation] }],
    })
}

/// What the registry of npm serves: what it attests itself, signed with its own key, and what the publisher does.
fn of_npm(bundle: &Value) -> Value {
    let own = json!({ "verificationMaterial": { "publicKey": { "hint": "SHA256:x" } } });
    json!({ "attestations": [
        { "predicateType": "https://github.com/npm/attestation/tree/main/specs/publish/v0.1", "bundle": own },
        { "predicateType": "https://slsa.dev/provenance/v1", "bundle": bundle },
    ] })
}

#[test]
fn an_attestation_of_the_publisher_is_the_signature_of_a_package() {
    let (_guard, folder) = scratch();
    let place = project();
    let sigstore = Sigstore::new();
    fs::write(place.home.join("root.json"), sigstore.root().to_string()).unwrap();
    let signer = |reference: &str| {
        format!(
            "[[signer]]\nreference = {reference:?}\nidentity = {IDENTITY:?}\nissuer = {ISSUER:?}\n"
        )
    };
    let entries = format!("{}{}", signer("pypi:*"), signer("npm:*"));
    let configured = format!("trusted_root = \"root.json\"\n{entries}");
    fs::write(place.home.join("toolcell.toml"), configured).unwrap();
    let hashes = packed(&folder, "1.2", &echoing("greet", |_| {}));
    let pages = Arc::new(Mutex::new(json!({})));
    let server = index(&folder, &pages);
    let url = |path: &str| format!("{}{path}", server.origin());
    let serve = |attested: Value, at: &str| {
        *pages.lock().unwrap() = json!({
            "/simple/x/": { "files": [{
                "filename": "x-1.2-py3-none-any.whl", "hashes": { "sha256": hashes["sha256"] },
                "url": url("/files/x-1.2-py3-none-any.whl"), "provenance": at,
            }] },
            "/x/latest": { "version": "1.2", "dist": {
                "tarball": url("/files/x-1.2.tgz"), "integrity": hashes["sha512"],
                "attestations": { "url": at },
            } },
            "/attested": attested,
        });
    };
    let install = |reference: &str, options: &[&str]| {
        let words = [&["install", reference, "--yes", "--json"], options].concat();
        let ran = run(&place, &server, &words).json();
        ran["error"]["error_code"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let wheel = fs::read(folder.join("x-1.2-py3-none-any.whl")).unwrap();
    let package = fs::read(folder.join("x-1.2.tgz")).unwrap();
    let publish = Wanted {
        predicate: "https://docs.pypi.org/attestations/publish/v1",
        name: Some("X-1.2-py3-none-any.whl"),
        ..Wanted::default()
    };
    let built = Wanted {
        predicate: "https://slsa.dev/provenance/v1",
        name: Some("pkg:npm/x@1.2"),
        by_sha512: true,
        ..Wanted::default()
    };
    let attested = url("/attested");

    serve(provenance(&sigstore.statement(&wheel, &publish)), &attested);
    let verified = run(
        &place,
        &server,
        &["verify", "pypi:x#x/greet.wasm", "--json"],
    )
    .exits(0);
    assert_eq!(verified.json()["signer"]["identity"], IDENTITY);
    assert_eq!(install("pypi:x#x/greet.wasm", &["--name=a"]), "");
    serve(of_npm(&sigstore.statement(&package, &built)), &attested);
    assert_eq!(install("npm:x#lib/greet.wasm", &["--name=b"]), "");
    let lock = fs::read_to_string(place.project.join("toolcell.lock")).unwrap();
    assert_eq!(lock.matches(IDENTITY).count(), 2, "{lock}");

    // One of another package, and one that states something else.
    for options in [&["--name=c"][..], &["--name=c", "--allow-unsigned"]] {
        serve(
            provenance(&sigstore.statement(b"another wheel", &publish)),
            &attested,
        );
        assert_eq!(
            install("pypi:x#x/greet.wasm", options),
            "signature_replayed"
        );
        serve(of_npm(&sigstore.statement(b"another", &built)), &attested);
        assert_eq!(
            install("npm:x#lib/greet.wasm", options),
            "signature_replayed"
        );
    }
    // An index that serves another package of the publisher, or another version, under this name.
    let named = |name: Option<&'static str>, wanted: &Wanted| Wanted {
        name,
        ..wanted.clone()
    };
    for name in [
        None,
        Some("y-1.2-py3-none-any.whl"),
        Some("x-1.1-py3-none-any.whl"),
        Some("x-1.2.tar.gz"),
    ] {
        let other = sigstore.statement(&wheel, &named(name, &publish));
        serve(provenance(&other), &attested);
        let refused = install("pypi:x==1.2#x/greet.wasm", &["--name=c"]);
        assert_eq!(refused, "signature_wrong_subject", "{name:?}");
    }
    for name in [None, Some("pkg:npm/%40y/x@1.2"), Some("pkg:pypi/x@1.2")] {
        let other = sigstore.statement(&package, &named(name, &built));
        serve(of_npm(&other), &attested);
        let refused = install("npm:x@latest#lib/greet.wasm", &["--name=c"]);
        assert_eq!(refused, "signature_wrong_subject", "{name:?}");
    }
    let other = sigstore.statement(&wheel, &Wanted::default());
    serve(provenance(&other), &attested);
    assert_eq!(
        install("pypi:x#x/greet.wasm", &["--name=c"]),
        "signature_is_attestation"
    );

    // None, none that can be read, and one that lies where an index may not lead.
    for (served, at, code) in [
        (Value::Null, attested.as_str(), "unsigned"),
        (json!({ "attestations": 1 }), &attested, "source_refused"),
        (json!({}), "http://192.0.2.1/attested", "redirect_refused"),
    ] {
        serve(served, at);
        for reference in ["pypi:x#x/greet.wasm", "npm:x#lib/greet.wasm"] {
            assert_eq!(install(reference, &["--name=c"]), code, "{reference}, {at}");
        }
    }
}
