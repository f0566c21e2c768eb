//! The registry that Debian packages, which does not list what is attached to an artifact.
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use toolcell::ErrorCode;

use serde_json::{Value, json};
use toolcell_install::source::ReferrerKind;

use crate::support::{Toolcell, kept, scratch, wat};

use super::super::BUILDING;
use super::super::build::with_toolchain;
use super::{attached, pull};

/// The line of a `htpasswd` file for the user `me` with the password `a-password`.
const HTPASSWD: &str = "me:$2b$05$abcdefghijklmnopqrstuubsRD.Ffj/ka0r3BpAjv57rF8oK.y5YW\n";

/// The program of Debian's package `docker-registry`: the installed one, or that of the package, unpacked once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let installed = Path::new("/usr/bin/docker-registry");
        if installed.is_file() {
            return installed.to_owned();
        }
        let folder = kept("docker-registry");
        let program = folder.join("usr/bin/docker-registry");
        if !program.is_file() {
            std::fs::create_dir_all(&folder).unwrap();
            let script = "apt-get update -qq; apt-get download -qq docker-registry && dpkg -x docker-registry*.deb .";
            let ran = Command::new("sh").args(["-c", script]).current_dir(&folder).output().unwrap();
            let said = String::from_utf8_lossy(&ran.stderr).into_owned();
            assert!(program.is_file(), "cannot unpack the package docker-registry; install it: {said}");
        }
        program
    })
}

/// The registry, while it runs.
pub(in crate::cli) struct Debian {
    child: Child,
    pub(in crate::cli) host: String,
    _folder: tempfile::TempDir,
}

impl Debian {
    pub(in crate::cli) fn start(with_password: bool) -> Self {
        let (guard, folder) = scratch();
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let mut config = json!({
            "version": 0.1,
            "log": { "level": "error" },
            "storage": { "filesystem": { "rootdirectory": folder.join("data") } },
            "http": { "addr": format!("127.0.0.1:{port}") },
        });
        if with_password {
            std::fs::write(folder.join("htpasswd"), HTPASSWD).unwrap();
            config["auth"] =
                json!({ "htpasswd": { "realm": "here", "path": folder.join("htpasswd") } });
        }
        // JSON is YAML.
        std::fs::write(folder.join("config.yml"), config.to_string()).unwrap();
        let mut command = Command::new(program());
        command
            .arg("serve")
            .arg(folder.join("config.yml"))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "the registry does not start"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        Self {
            child,
            host: format!("127.0.0.1:{port}"),
            _folder: guard,
        }
    }
}

impl Drop for Debian {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_is_pushed_can_be_pulled_with_what_is_attached_to_it() {
    let registry = Debian::start(false);
    let (_guard, folder) = scratch();
    std::fs::write(folder.join("echo.wasm"), wat("echo")).unwrap();
    let to = format!("{}/me/echo:1", registry.host);
    let push = || {
        Toolcell::new(["push", "echo.wasm", &to, "--json"])
            .dir(&folder)
            .run()
            .exits(0)
            .json()
    };
    let pushed = push();
    let (resolved, component) = pull(&to).unwrap();
    assert_eq!(
        (component, json!(resolved.digest())),
        (wat("echo"), pushed["digest"].clone())
    );
    // A second push finds everything there, and attaches nothing twice.
    assert_eq!(push()["sbom"], pushed["sbom"]);
    let found = attached(&to, ReferrerKind::Sbom).unwrap();
    assert_eq!(
        (found.len(), json!(found[0].found)),
        (1, pushed["sbom"].clone())
    );
    assert!(attached(&to, ReferrerKind::Signature).unwrap().is_empty());
    assert_eq!(
        pull(&format!("{}/me/other:1", registry.host))
            .unwrap_err()
            .code,
        ErrorCode::ArtifactNotFound
    );
}

#[test]
fn a_private_registry_takes_the_credentials_of_docker() {
    let registry = Debian::start(true);
    let (_guard, folder) = scratch();
    std::fs::write(folder.join("echo.wasm"), wat("echo")).unwrap();
    let to = format!("{}/me/echo:1", registry.host);
    let push = || {
        let program = Toolcell::new(["push", "echo.wasm", &to, "--json"]).dir(&folder);
        program.env("DOCKER_CONFIG", folder.to_str().unwrap()).run()
    };
    assert_eq!(
        push().exits(2).json()["error"]["error_code"],
        "registry_unauthorized"
    );
    let auth = data_encoding::BASE64.encode(b"me:a-password");
    let config = json!({ "auths": { format!("http://{}", registry.host): { "auth": auth } } });
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    push().exits(0);
    assert_eq!(pull(&to).unwrap_err().code, ErrorCode::RegistryUnauthorized);
}

#[test]
#[ignore = "builds a tool three times: `just nightly` runs it"]
fn a_source_folder_is_built_twice_and_published_with_its_dependencies() {
    let _turn = BUILDING
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let registry = Debian::start(false);
    let (_guard, place) = scratch();
    with_toolchain(&place, &["new", "word-count"])
        .run()
        .exits(0);
    let to = format!("{}/me/word-count", registry.host);
    let pushed = with_toolchain(&place, &["push", "word-count", &to, "--json"])
        .run()
        .exits(0)
        .json();
    assert_eq!(
        (&pushed["reproducible"], &pushed["reference"]),
        (&json!(true), &json!(format!("{to}:0.1.0")))
    );
    assert!(pushed["dependencies"].as_u64().unwrap() > 5, "{pushed}");
    let found = attached(&format!("{to}:0.1.0"), ReferrerKind::Sbom).unwrap();
    let bill: Value = serde_json::from_slice(&found[0].bytes).unwrap();
    let purls: Vec<&str> = bill["components"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["purl"].as_str())
        .collect();
    assert!(
        purls
            .iter()
            .any(|purl| purl.starts_with("pkg:cargo/serde@")),
        "{purls:?}"
    );
    let checked = with_toolchain(&place, &["check", "word-count", "--json"])
        .run()
        .exits(0)
        .json();
    assert_eq!(checked["component"], pushed["component"]);
}
