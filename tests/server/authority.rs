//! Files that hold authority over a server, or evidence of its calls, and what decides what it runs: no tool reaches them,
//! whatever is granted.
//!
//! Promise: No grant reaches what holds authority or evidence.
//! Promise: A tool does not replace what runs.
//! Promise: The kernel's state is no folder of files.
//! Promise: Memory is not shown.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http_api::token_file;
use crate::pipeline::doubles::crowd;
use crate::support::{Client, Identity, Toolcell, Web, fixture, kept, scratch};

const ANNA: &str = "anna-4f1c0d9e8b7a6f5e";
const BOSS: &str = "boss-1a2b3c4d5e6f7a8b";
const ENGINE: &str = "engine-9c8d7e6f5a4b3c2d";

/// A folder that a server is granted, with everything that the server itself needs in it.
struct Desk {
    _guard: tempfile::TempDir,
    folder: PathBuf,
}

impl Desk {
    fn new() -> Self {
        let (guard, folder) = scratch();
        fs::create_dir(folder.join("sub")).unwrap();
        token_file(&folder, "sub/tokens", &format!("anna {ANNA}\n"));
        symlink("sub/tokens", folder.join("tokens")).unwrap();
        token_file(&folder, "approvers", &format!("boss {BOSS}\n"));
        fs::hard_link(folder.join("approvers"), folder.join("second-name")).unwrap();
        symlink("approvers", folder.join("link")).unwrap();
        token_file(&folder, "engine", ENGINE);
        token_file(&folder, "nkey", "seed of an nkey");
        token_file(&folder, "signs", "seed of another");
        fs::write(
            folder.join("toolcell.toml"),
            "[limits]\nmemory = \"128MiB\"\n[cluster]\nnkey = \"nkey\"\nkey = \"signs\"\n",
        )
        .unwrap();
        fs::write(folder.join(".mcp.json"), "{}").unwrap();
        fs::write(folder.join("open"), "open").unwrap();
        fs::copy(fixture("probe"), folder.join("tool.wasm")).unwrap();
        Identity::of(&["localhost"]).authority_in(&folder);
        Self {
            _guard: guard,
            folder,
        }
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// Serves the component of the folder, with the files of the folder, and the grant `grant` of it.
    fn serve(&self, grant: &str) -> Web {
        let arguments = [
            "serve".to_owned(),
            "--listen=127.0.0.1:0".to_owned(),
            "tool.wasm".to_owned(),
            format!("{grant}=."),
            "--token-file=tokens".to_owned(),
            "--approver-token-file=approvers".to_owned(),
            "--arcade-secret-file=engine".to_owned(),
            "--record-to=records".to_owned(),
            "--config=toolcell.toml".to_owned(),
            "--tls-ca=authority.pem".to_owned(),
        ];
        let mut web = Web::run(Toolcell::new(arguments).dir(&self.folder));
        web.token = ANNA.to_owned();
        web
    }

    /// What a tool made of it; `None` if the decision on the call refused it already.
    fn call(&self, web: &Web, tool: &str, input: Value) -> Option<Value> {
        let body = json!({ "tool": tool, "input": input }).to_string();
        let reply = web.request("POST /v1/calls", &[], &body);
        let result: Value = serde_json::from_str(&reply.body).unwrap();
        for secret in [ANNA, BOSS, ENGINE] {
            assert!(
                !result.to_string().contains(secret),
                "{tool} read {secret}: {result:#}"
            );
        }
        (result["status"] == "succeeded").then(|| result["structured_content"].clone())
    }

    fn works(&self, web: &Web, tool: &str, input: Value) -> bool {
        self.call(web, tool, input)
            .is_some_and(|told| told["ok"] == true)
    }
}

/// What the folder holds, to compare.
fn held(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let names = [
        "tokens",
        "sub/tokens",
        "approvers",
        "second-name",
        "engine",
        "nkey",
        "signs",
        "toolcell.toml",
        ".mcp.json",
        "authority.pem",
        "tool.wasm",
    ];
    names
        .iter()
        .map(|name| ((*name).to_owned(), fs::read(folder.join(name)).unwrap()))
        .collect()
}

#[test]
fn no_tool_reads_what_holds_authority_or_evidence_under_any_of_its_names() {
    let desk = Desk::new();
    let web = desk.serve("--allow-read");
    assert!(desk.works(&web, "read", json!({ "path": desk.path("open") })));
    for name in [
        "tokens",
        "sub/tokens",
        "approvers",
        "second-name",
        "link",
        "sub/../approvers",
        "engine",
        "nkey",
        "signs",
        "records",
        "toolcell.toml",
        ".mcp.json",
        "authority.pem",
    ] {
        for tool in ["read", "list"] {
            assert!(
                !desk.works(&web, tool, json!({ "path": desk.path(name) })),
                "{tool} {name}"
            );
        }
    }
    // The names are no secret, and the component can be read.
    let listed = desk
        .call(&web, "list", json!({ "path": desk.path("") }))
        .unwrap();
    assert!(
        listed["value"]
            .as_array()
            .unwrap()
            .contains(&json!("approvers")),
        "{listed}"
    );
    assert!(desk.works(&web, "stat", json!({ "path": desk.path("tool.wasm") })));
}

#[test]
fn no_tool_replaces_what_holds_authority_or_what_it_is_made_of() {
    let desk = Desk::new();
    fs::write(
        desk.folder.join("other.wasm"),
        fs::read(fixture("hostile")).unwrap(),
    )
    .unwrap();
    let before = held(&desk.folder);
    let web = desk.serve("--allow-write");
    let at = |name: &str| desk.path(name);
    assert!(desk.works(&web, "write", json!({ "path": at("new"), "text": "mine" })));
    for name in [
        "tokens",
        "sub/tokens",
        "approvers",
        "engine",
        "records",
        "toolcell.toml",
        ".mcp.json",
        "tool.wasm",
    ] {
        for (tool, input) in [
            (
                "write",
                json!({ "path": at(name), "text": "boss 0123456789abcdef" }),
            ),
            (
                "append",
                json!({ "path": at(name), "text": "boss 0123456789abcdef" }),
            ),
            ("truncate", json!({ "path": at(name), "bytes": 0 })),
            ("remove", json!({ "path": at(name) })),
            ("rename", json!({ "from": at(name), "to": at("moved") })),
            (
                "rename",
                json!({ "from": at("other.wasm"), "to": at(name) }),
            ),
            ("link", json!({ "from": at(name), "to": at("mine") })),
        ] {
            assert!(!desk.works(&web, tool, input.clone()), "{tool} {input}");
        }
    }
    // A folder on the way, and other names of what is closed.
    for (from, to) in [("sub", "moved"), ("new", "link/../approvers")] {
        assert!(
            !desk.works(&web, "rename", json!({ "from": at(from), "to": at(to) })),
            "{from} to {to}"
        );
    }
    for name in ["second-name", "link"] {
        assert!(
            !desk.works(
                &web,
                "write",
                json!({ "path": at(name), "text": "boss 0123456789abcdef" })
            ),
            "{name}"
        );
    }
    // What is not there yet, and would count once it was.
    for name in ["toolcell.lock", ".cursor/mcp.json", ".vscode/mcp.json"] {
        desk.call(
            &web,
            "mkdir",
            json!({ "path": at(Path::new(name).parent().unwrap().to_str().unwrap()) }),
        );
        assert!(
            !desk.works(&web, "write", json!({ "path": at(name), "text": "{}" })),
            "{name}"
        );
    }
    assert_eq!(held(&desk.folder), before);
    assert!(!desk.folder.join("moved").exists() && !desk.folder.join("mine").exists());
}

#[test]
#[cfg(target_os = "linux")]
fn the_state_of_the_kernel_is_granted_with_no_folder() {
    let home = kept("home");
    let closed = format!("--deny-read={}", home.canonicalize().unwrap().display());
    let (_guard, folder) = scratch();
    fs::write(folder.join("open"), "open").unwrap();
    let tools = ["probe#read", "probe#list", "probe#stat"];
    let mut client = Client::with(&tools, ["--allow-read=/", closed.as_str()]);
    let mut read = |tool: &str, path: &str| {
        client.call(tool, json!({ "path": path }))["structuredContent"].clone()
    };
    assert_eq!(
        read("read", folder.join("open").to_str().unwrap())["ok"],
        true
    );
    for path in [
        "/proc/self/mem",
        "/proc/self/environ",
        "/proc/self/root/etc/hostname",
        "/proc/self/fd/0",
        "/proc/thread-self/maps",
        "/proc/1/environ",
        "/proc/1/cmdline",
        "/proc/version",
        "/proc",
        "/sys/kernel/notes",
        "/sys",
    ] {
        for tool in ["read", "list", "stat"] {
            let told = read(tool, path);
            assert_ne!(told["ok"], true, "{tool} {path}: {told}");
        }
    }
    // A link to it, in a folder of files.
    symlink("/proc/self/environ", folder.join("variables")).unwrap();
    assert_ne!(
        read("read", folder.join("variables").to_str().unwrap())["ok"],
        true
    );
    let tool = format!("{}#read", fixture("probe").display());
    let refused = Toolcell::new(["call", &tool, "{}", "--allow-read=/proc"])
        .run()
        .exits(2);
    assert!(
        refused.stderr.contains("--allow-read=/proc")
            && refused.stderr.contains("the kernel's state"),
        "{refused:?}"
    );
}

/// What lets root read the memory of every process.
#[cfg(target_os = "linux")]
const LESSER: [&str; 2] = [
    "--bounding-set=-sys_ptrace,-perfmon,-sys_admin",
    "--inh-caps=-sys_ptrace,-perfmon,-sys_admin",
];

#[test]
#[cfg(target_os = "linux")]
fn another_program_of_the_user_cannot_read_the_memory_of_this_one() {
    // Root may read every process, unless it gives that up.
    let may_read_all = rustix::process::geteuid().is_root();
    let lesser = |program: &str| {
        let mut command = Command::new(if may_read_all { "setpriv" } else { program });
        if may_read_all {
            command.args(LESSER).arg(program);
        }
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let is_read = |id: u32| {
        lesser("cat")
            .arg(format!("/proc/{id}/environ"))
            .status()
            .unwrap()
            .success()
    };
    let began = Instant::now();
    let runs = |id: u32, name: &str| {
        while fs::read_to_string(format!("/proc/{id}/comm"))
            .unwrap()
            .trim()
            != name
        {
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "{name} does not start"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let mut other = lesser("sleep").arg("60").spawn().unwrap();
    runs(other.id(), "sleep");
    // It waits for its calls.
    let mut program = lesser(env!("CARGO_BIN_EXE_toolcell"))
        .args(["batch", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    runs(program.id(), "toolcell");
    // It is not hidden before its first lines.
    while is_read(program.id()) {
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "its variables can be read"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(program.try_wait().unwrap().is_none());
    let before = is_read(other.id());
    for child in [&mut program, &mut other] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(before, "another process can be read");
}

#[test]
#[cfg(target_os = "linux")]
fn a_file_that_is_mounted_elsewhere_too_is_closed_there() {
    let (_guard, folder) = scratch();
    fs::create_dir_all(folder.join("sub")).unwrap();
    fs::create_dir_all(folder.join("other")).unwrap();
    fs::write(folder.join("sub/closed"), "secret-5e1d").unwrap();
    fs::write(folder.join("sub/open"), "open").unwrap();
    let run = |tool: &str, name: &str| {
        let path = folder.join(name);
        let mut input = json!({ "path": path });
        if tool == "write" {
            input["text"] = "x".into();
        }
        let input = input.to_string();
        let tool = format!("{}#{tool}", fixture("probe").display());
        let script = "mount --bind sub other && exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args([
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            script,
            "sh",
        ]);
        command.args([
            env!("CARGO_BIN_EXE_toolcell"),
            "call",
            "--json",
            "--no-config",
            &tool,
            &input,
        ]);
        command
            .args(["--allow-write=.", "--deny-read=sub/closed"])
            .current_dir(&folder);
        let ran = Toolcell::exactly(command)
            .env("TOOLCELL_HOME", kept("home").to_str().unwrap())
            .run();
        // Where no program may mount anything, no file has another mount.
        (!ran.stderr.contains("Operation not permitted"))
            .then(|| ran.exits(0).json()["structured_content"]["ok"] == true)
    };
    if run("read", "other/open") != Some(true) {
        return;
    }
    for tool in ["read", "write", "remove"] {
        assert_eq!(run(tool, "other/closed"), Some(false), "{tool}");
    }
    assert_eq!(
        fs::read_to_string(folder.join("sub/closed")).unwrap(),
        "secret-5e1d"
    );
}

/// A folder of components, in which each file is replaced as a whole.
fn put(folder: &Path, guest: &str, name: &str) {
    fs::copy(fixture(guest), folder.join("next")).unwrap();
    fs::rename(folder.join("next"), folder.join(name)).unwrap();
}

#[test]
fn a_component_that_could_ask_for_more_is_not_served_before_a_restart() {
    let (_guard, folder) = scratch();
    put(&folder, "cancellable", "tool.wasm");
    let serve = || {
        let arguments = [
            "mcp".to_owned(),
            folder.join("tool.wasm").display().to_string(),
            "--no-config".to_owned(),
        ];
        let mut client = Client::run(Toolcell::new(arguments));
        client.initialize("2025-11-25");
        client
    };
    let names = |client: &mut Client| {
        let listed = client.request("tools/list", json!({}))["result"]["tools"].clone();
        listed
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let mut client = serve();
    let before = names(&mut client);
    put(&folder, "probe", "tool.wasm");
    let said = client.says("still serving the previous version");
    for words in [
        "could ask for more",
        "read files in folders that you grant",
        "restart the server",
        "ceiling_grew",
    ] {
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(names(&mut client), before);
    // Less is no question, and more than at the start still is one.
    put(&folder, "cancellable", "tool.wasm");
    client.says("now serving the new version");
    put(&folder, "probe", "tool.wasm");
    client.says("still serving the previous version");
    // A restart is the operator's word.
    assert!(
        names(&mut serve())
            .iter()
            .any(|name| name.ends_with("read")),
        "the tools of the new component"
    );
}

/// Clients know a tool by its id, so the id keeps its meaning, also under another path.
#[test]
fn a_tool_does_not_come_back_as_another_kind_of_tool() {
    let (_guard, folder) = scratch();
    let put = |name: &str, kind: &str| {
        let component = crowd("kinds", 1, |toolkit| {
            toolkit["declarations"][0]["tool_kind"] = json!(kind)
        });
        fs::write(folder.join("next"), component).unwrap();
        fs::rename(folder.join("next"), folder.join(name)).unwrap();
    };
    put("tool.wasm", "function");
    let arguments = [
        "mcp".to_owned(),
        folder.display().to_string(),
        "--no-config".to_owned(),
    ];
    let mut client = Client::run(Toolcell::new(arguments));
    client.initialize("2025-11-25");
    put("tool.wasm", "browser_action");
    let said = client.says("still serving the previous version");
    assert!(
        said.contains("kinds.t0 was of the kind function") && said.contains("tool_kind_changed"),
        "{said}"
    );
    assert_eq!(client.call("kinds_t0", json!({}))["isError"], json!(false));
    put("other.wasm", "web_search");
    fs::remove_file(folder.join("tool.wasm")).unwrap();
    client.says("is of the kind web_search now");
}

#[test]
fn a_tool_does_not_come_back_in_another_namespace() {
    let (_guard, folder) = scratch();
    let put = |namespace: &str| {
        let component = crowd(namespace, 1, |toolkit| {
            toolkit["declarations"][0]["tool_id"] = json!("constant.id")
        });
        fs::write(folder.join("next"), component).unwrap();
        fs::rename(folder.join("next"), folder.join("tool.wasm")).unwrap();
    };
    put("before");
    let arguments = [
        "mcp".to_owned(),
        folder.display().to_string(),
        "--no-config".to_owned(),
    ];
    let mut client = Client::run(Toolcell::new(arguments));
    client.initialize("2025-11-25");
    put("after");
    let said = client.says("still serving the previous version");
    assert!(
        said.contains("constant.id was of the namespace before")
            && said.contains("tool_kind_changed"),
        "{said}"
    );
    assert_eq!(client.call("before_t0", json!({}))["isError"], json!(false));
}

#[test]
fn a_component_that_appears_in_a_served_folder_has_no_grants_before_a_restart() {
    let (_guard, folder) = scratch();
    put(&folder, "cancellable", "one.wasm");
    let arguments = [
        "mcp".to_owned(),
        folder.display().to_string(),
        "--no-config".to_owned(),
    ];
    let mut client = Client::run(Toolcell::new(arguments));
    client.initialize("2025-11-25");
    put(&folder, "probe", "two.wasm");
    assert!(
        client
            .says("still serving the previous version")
            .contains("ceiling_grew")
    );
    fs::remove_file(folder.join("two.wasm")).unwrap();
    // What asks for nothing needs no agreement.
    fs::write(folder.join("next"), crate::support::wat("echo")).unwrap();
    fs::rename(folder.join("next"), folder.join("two.wasm")).unwrap();
    client.says("now serving the new version");
    assert_eq!(client.call("echo", json!({ "n": 1 }))["isError"], false);
}

#[test]
fn what_an_option_names_is_a_regular_file_of_a_bounded_size() {
    let (_guard, folder) = scratch();
    let pipe = folder.join("pipe");
    assert!(
        std::process::Command::new("mkfifo")
            .arg("-m600")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let large = folder.join("large");
    fs::write(&large, vec![b'\n'; 5 << 20]).unwrap();
    fs::set_permissions(&large, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let tool = fixture("probe").display().to_string();
    for option in [
        "--tls-ca",
        "--token-file",
        "--approver-token-file",
        "--arcade-secret-file",
        "--config",
    ] {
        for (file, why) in [
            (Path::new("/dev/zero"), ""),
            (&pipe, "not a regular file"),
            (&large, "larger than"),
        ] {
            let option = format!("{option}={}", file.display());
            let ran = Toolcell::new(["serve", "--listen=127.0.0.1:0", &tool, &option]).run();
            assert!(ran.code.is_some_and(|code| code != 0), "{option}: {ran:?}");
            assert!(ran.stderr.contains(why), "{option}: {ran:?}");
        }
    }
}
