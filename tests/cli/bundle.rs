//! `toolcell bundle`: what a desktop client unpacks and starts, and what the MCP registry lists. `dist/check` validates both
//! against their public schemas.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::{
    Client, Ran, Toolcell, bare_names, component, fixture, kept, root, scratch, wat,
};

use super::clients::tools;

/// A folder with a component, and a program that is as small as a test wants it.
fn place() -> (tempfile::TempDir, PathBuf) {
    let (guard, folder) = scratch();
    std::fs::copy(fixture("probe"), folder.join("probe.wasm")).unwrap();
    std::fs::write(folder.join("echo.wasm"), wat("echo")).unwrap();
    let script = format!(
        "#!/bin/sh\nexec {:?} \"$@\"\n",
        env!("CARGO_BIN_EXE_toolcell")
    );
    std::fs::write(folder.join("program"), script).unwrap();
    (guard, folder)
}

fn bundle(folder: &Path, arguments: &[&str]) -> Ran {
    let always = ["bundle", "--author=Ada", "--program=program"];
    Toolcell::new([&always[..], arguments].concat())
        .dir(folder)
        .run()
}

fn number(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .rev()
        .fold(0, |number, byte| (number << 8) | usize::from(*byte))
}

/// Reads a zip archive by its directory: name, mode, content.
fn unzipped(archive: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
    let end = archive.len() - 22;
    assert_eq!(&archive[end..end + 4], b"PK\x05\x06");
    let count = number(&archive[end + 10..end + 12]);
    let mut at = number(&archive[end + 16..end + 20]);
    let mut files = Vec::new();
    for _ in 0..count {
        let entry = &archive[at..];
        assert_eq!(&entry[..4], b"PK\x01\x02");
        let crc = number(&entry[16..20]);
        let deflated = number(&entry[20..24]);
        let size = number(&entry[24..28]);
        let length = number(&entry[28..30]);
        let offset = number(&entry[42..46]);
        let name = String::from_utf8(entry[46..46 + length].to_vec()).unwrap();
        let mode = u32::try_from(number(&entry[38..42]) >> 16).unwrap();
        let local = &archive[offset..];
        assert_eq!(
            (&local[..4], &local[30..30 + length]),
            (&b"PK\x03\x04"[..], name.as_bytes())
        );
        let bytes =
            miniz_oxide::inflate::decompress_to_vec(&local[30 + length..30 + length + deflated])
                .unwrap();
        assert_eq!(
            (bytes.len(), crc32fast::hash(&bytes) as usize),
            (size, crc),
            "{name}"
        );
        files.push((name, mode, bytes));
        at += 46 + length;
    }
    files
}

/// Unpacks a bundle as a client does, and returns its manifest.
fn unpack(bundle: &Path, into: &Path) -> Value {
    for (name, mode, bytes) in unzipped(&std::fs::read(bundle).unwrap()) {
        assert_eq!(mode & 0o170_000, 0o100_000, "{name}");
        let file = into.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, bytes).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode & 0o777)).unwrap();
    }
    serde_json::from_slice(&std::fs::read(into.join("manifest.json")).unwrap()).unwrap()
}

/// Starts what the manifest says, with the folder `chosen` in all settings.
fn started(manifest: &Value, unpacked: &Path, chosen: &Path) -> Client {
    let settings = manifest["user_config"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    let put = |text: &Value| {
        let text = text
            .as_str()
            .unwrap()
            .replace("${__dirname}", unpacked.to_str().unwrap());
        settings.keys().fold(text, |text, key| {
            text.replace(&format!("${{user_config.{key}}}"), chosen.to_str().unwrap())
        })
    };
    let config = &manifest["server"]["mcp_config"];
    let mut command = Command::new(put(&config["command"]));
    command.args(config["args"].as_array().unwrap().iter().map(put));
    command
        .env_clear()
        .env("TOOLCELL_HOME", kept("home"))
        .current_dir("/");
    let mut client = Client::run(Toolcell::exactly(command));
    client.initialize("2025-11-25");
    client
}

#[test]
fn a_client_starts_the_tools_of_a_bundle_with_what_was_granted() {
    let (_guard, folder) = place();
    let tool = "probe.wasm#read";
    let ask = "--ask-read=My notes";
    bundle(
        &folder,
        &[
            tool,
            "echo.wasm",
            ask,
            "--timeout=20s",
            "--title=Notes",
            "-o",
            "notes.mcpb",
        ],
    )
    .exits(0);
    let unpacked = folder.join("unpacked");
    let manifest = unpack(&folder.join("notes.mcpb"), &unpacked);
    let setting = &manifest["user_config"]["my_notes"];
    assert_eq!(
        (&setting["type"], &setting["title"], &setting["required"]),
        (&json!("directory"), &json!("My notes"), &json!(true))
    );
    assert_eq!(
        (&manifest["manifest_version"], &manifest["name"]),
        (&json!("0.3"), &json!("probe"))
    );
    assert_eq!(
        (&manifest["display_name"], &manifest["author"]["name"]),
        (&json!("Notes"), &json!("Ada"))
    );
    assert_eq!(
        (&manifest["server"]["type"], &manifest["version"]),
        (&json!("binary"), &json!("0.1.0"))
    );
    let entry = unpacked.join(manifest["server"]["entry_point"].as_str().unwrap());
    assert!(entry.metadata().unwrap().permissions().mode() & 0o111 != 0);
    let told = manifest["long_description"].as_str().unwrap();
    assert!(
        told.contains("My notes") && told.contains("--timeout=20000ms"),
        "{told}"
    );

    let chosen = folder.join("chosen");
    std::fs::create_dir(&chosen).unwrap();
    std::fs::write(chosen.join("note"), "what it says").unwrap();
    let mut client = started(&manifest, &unpacked, &chosen);
    let offered = tools(&mut client);
    for tool in manifest["tools"].as_array().unwrap() {
        assert!(
            offered.iter().any(|name| tool["name"] == json!(name)),
            "{tool} {offered:?}"
        );
        assert!(tool["description"].is_string(), "{tool}");
    }
    assert_eq!(manifest["tools"].as_array().unwrap().len(), 2);
    let read = client.call("read", json!({ "path": chosen.join("note") }));
    assert!(
        read["isError"] == json!(false) && read.to_string().contains("what it says"),
        "{read:#}"
    );
    // Another folder is not there.
    let other = client.call("read", json!({ "path": folder.join("program") }));
    assert!(other.to_string().contains("NotFound"), "{other:#}");
}

#[test]
fn the_folder_that_a_user_chose_is_granted_and_no_other() {
    let (_guard, folder) = place();
    bundle(
        &folder,
        &["probe.wasm#read", "--ask-read=Notes", "-o", "notes.mcpb"],
    )
    .exits(0);
    let unpacked = folder.join("unpacked");
    let manifest = unpack(&folder.join("notes.mcpb"), &unpacked);
    let other = folder.join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("note"), "what another says").unwrap();
    for name in [
        "a",
        "a,b",
        "a=b",
        &format!("a,{}", other.display()),
        &format!("a={}", other.display()),
    ] {
        let chosen = folder.join(name);
        std::fs::create_dir_all(&chosen).unwrap();
        std::fs::write(chosen.join("note"), "what it says").unwrap();
        let mut client = started(&manifest, &unpacked, &chosen);
        let read = client.call("read", json!({ "path": chosen.join("note") }));
        assert!(
            read.to_string().contains("what it says"),
            "{name}: {read:#}"
        );
        let read = client.call("read", json!({ "path": other.join("note") }));
        assert!(
            !read.to_string().contains("what another says"),
            "{name}: {read:#}"
        );
    }
    // `a` is there, and would be granted under the name behind the `=`.
    for chosen in ["a=/x", "missing", ""] {
        let chosen = if chosen.is_empty() {
            PathBuf::new()
        } else {
            folder.join(chosen)
        };
        let option = format!("--chosen-read={}", chosen.display());
        let refused = Toolcell::new(["call", "echo.wasm", "{}", &option])
            .dir(&folder)
            .run()
            .exits(2);
        assert!(
            refused.stderr.contains("choose a folder that exists"),
            "{option}: {}",
            refused.stderr
        );
    }
    let refused = bundle(
        &folder,
        &["echo.wasm", "--chosen-read=/tmp", "-o", "x.mcpb"],
    )
    .exits(2);
    assert!(
        refused.stderr.contains("for the user of a bundle"),
        "{}",
        refused.stderr
    );
}

#[test]
fn the_same_input_makes_the_same_bytes_and_a_file_is_replaced_only_with_force() {
    let (_guard, folder) = place();
    let first = bundle(&folder, &["echo.wasm", "-o", "a.mcpb", "--json"])
        .exits(0)
        .json();
    std::fs::write(folder.join("echo.wasm"), wat("echo")).unwrap();
    let second = bundle(&folder, &["echo.wasm", "-o", "b.mcpb", "--json"])
        .exits(0)
        .json();
    let bytes = std::fs::read(folder.join("a.mcpb")).unwrap();
    assert_eq!(bytes, std::fs::read(folder.join("b.mcpb")).unwrap());
    assert_eq!(
        (&first["sha256"], &first["bytes"]),
        (&second["sha256"], &json!(bytes.len()))
    );
    assert_eq!(first["error"], json!(null));
    let kept = bundle(&folder, &["probe.wasm#echo", "-o", "a.mcpb"]).exits(2);
    assert!(kept.stderr.contains("--force"), "{}", kept.stderr);
    assert_eq!(bytes, std::fs::read(folder.join("a.mcpb")).unwrap());
    bundle(&folder, &["probe.wasm#echo", "-o", "a.mcpb", "--force"]).exits(0);
    assert_ne!(bytes, std::fs::read(folder.join("a.mcpb")).unwrap());
}

#[test]
fn two_components_of_one_name_and_two_tools_of_one_component_are_kept_apart() {
    let (_guard, folder) = place();
    std::fs::create_dir(folder.join("other")).unwrap();
    // Another file, also where names have no case.
    std::fs::copy(fixture("cancellable"), folder.join("other/Probe.wasm")).unwrap();
    let typed = [
        "probe.wasm#echo",
        "probe.wasm#read",
        "other",
        "-o",
        "x.mcpb",
        "--name=three",
    ];
    bundle(&folder, &typed).exits(0);
    let files = unzipped(&std::fs::read(folder.join("x.mcpb")).unwrap());
    let names: Vec<&str> = files.iter().map(|(name, ..)| name.as_str()).collect();
    let tools = ["server/tools/probe.wasm", "server/tools/Probe-2.wasm"];
    assert_eq!(
        names,
        [&["manifest.json", "server/toolcell"][..], &tools].concat()
    );
    let manifest: Value = serde_json::from_slice(&files[0].2).unwrap();
    let args: Vec<&str> = manifest["server"]["mcp_config"]["args"]
        .as_array()
        .unwrap()
        .iter()
        .map(|arg| arg.as_str().unwrap())
        .collect();
    let first = "${__dirname}/server/tools/probe.wasm";
    assert_eq!(
        args[..4],
        [
            "mcp",
            "--no-config",
            &format!("{first}#echo"),
            &format!("{first}#read")
        ]
    );
    assert_eq!(args[4], "${__dirname}/server/tools/Probe-2.wasm");
}

#[test]
fn the_registry_gets_the_digest_of_the_bundle() {
    let (_guard, folder) = place();
    let url = "https://github.com/me/notes/releases/download/v1.2.0/notes-mcp.mcpb";
    let of_url = format!("--url={url}");
    let registry = [
        "--server-json=server.json",
        "--server-name=io.github.me/notes",
        &of_url,
        "--bundle-version=1.2.0",
    ];
    let long = format!("--description={}", "long ".repeat(40));
    let typed = [
        &["echo.wasm", "-o", "notes-mcp.mcpb", "--json", &long][..],
        &registry,
    ]
    .concat();
    let made = bundle(&folder, &typed).exits(0).json();
    assert_eq!(made["server_json"], json!("server.json"));
    let server: Value =
        serde_json::from_slice(&std::fs::read(folder.join("server.json")).unwrap()).unwrap();
    assert_eq!(
        server["$schema"],
        json!("https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json")
    );
    assert_eq!(
        (&server["name"], &server["version"]),
        (&json!("io.github.me/notes"), &json!("1.2.0"))
    );
    assert!(server["description"].as_str().unwrap().chars().count() <= 100);
    let digest = Sha256::digest(std::fs::read(folder.join("notes-mcp.mcpb")).unwrap());
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        server["packages"],
        json!([{ "registryType": "mcpb", "identifier": url, "fileSha256": digest, "transport": { "type": "stdio" } }])
    );
    assert_eq!(made["sha256"], json!(digest));
}

#[test]
fn what_would_mean_something_else_on_another_machine_is_refused() {
    let (_guard, folder) = place();
    let server = [
        "--server-json=s.json",
        "--server-name=io.github.me/x",
        "--url=https://example.com/x.mcpb",
    ];
    for (arguments, words) in [
        (&["echo.wasm", "--allow-read=."][..], "not an absolute path"),
        (&["echo.wasm", "--deny-write=src"], "not an absolute path"),
        (&["echo.wasm", "--tls-ca=ca.pem"], "not an absolute path"),
        // No value of a secret or of a variable gets into a bundle.
        (
            &[
                "echo.wasm",
                "--allow-secret=KEY=a-value@https://api.example.com",
            ],
            "without its value",
        ),
        (&["echo.wasm", "--allow-env=KEY=a-value"], "not a name"),
        (
            &["echo.wasm", "--ask-read=a b", "--ask-write=A_B"],
            "another folder has it",
        ),
        (&["echo.wasm", "--ask-read=!"], "no letter"),
        (&["echo.wasm", "--name=a/b"], "no name of a bundle"),
        (&["echo.wasm", "--allow-net=://"], "--allow-net"),
        (&["missing.wasm"], "missing.wasm"),
        (
            &["echo.wasm", "--program=missing"],
            "cannot read the program",
        ),
        (&["echo.wasm", "--server-json=s.json"], "--server-name"),
        (
            &["echo.wasm", server[0], "--server-name=notes", server[2]],
            "io.github.me/notes",
        ),
        (
            &[
                "echo.wasm",
                server[0],
                server[1],
                "--url=http://example.com/x.mcpb",
            ],
            "https URL",
        ),
        (
            &["echo.wasm", server[0], server[1], "--url=https://"],
            "https URL",
        ),
        (
            &[
                "echo.wasm",
                server[0],
                server[1],
                "--url=https://me:password@example.com/x.mcpb",
            ],
            "https URL",
        ),
        (
            &[
                "echo.wasm",
                server[0],
                server[1],
                "--url=https://example.com/a b.mcpb",
            ],
            "https URL",
        ),
        (
            &[
                "echo.wasm",
                "--server-json=./x.mcpb",
                server[1],
                server[2],
                "--force",
            ],
            "name two files",
        ),
        (&[], "TOOL"),
    ] {
        let program: &[&str] = if arguments.contains(&"--program=missing") {
            &[]
        } else {
            &["--program=program"]
        };
        let typed = [
            &["bundle", "--author=Ada", "-o", "x.mcpb"][..],
            program,
            arguments,
        ]
        .concat();
        let refused = Toolcell::new(typed).dir(&folder).run().exits(2);
        assert!(
            refused.stderr.contains(words),
            "{arguments:?}: {}",
            refused.stderr
        );
        assert!(
            !folder.join("x.mcpb").exists() && !folder.join("s.json").exists(),
            "{arguments:?}"
        );
    }
    let typed = ["missing.wasm", "-o", "x.mcpb", "--json"];
    let refused = bundle(&folder, &typed).exits(2).json();
    assert_eq!(
        (&refused["bundled"], &refused["error"]["error_class"]),
        (&json!(null), &json!("unknown_tool"))
    );
}

/// Installs the program as a package does, with a tool beside it.
fn installed(prefix: &Path) -> PathBuf {
    let program = prefix.join("bin/toolcell");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    let built = env!("CARGO_BIN_EXE_toolcell");
    if std::fs::hard_link(built, &program).is_err() {
        std::fs::copy(built, &program).unwrap();
    }
    let tools = prefix.join("share/toolcell/tools");
    std::fs::create_dir_all(&tools).unwrap();
    std::fs::write(tools.join("shipped.wasm"), wat("echo")).unwrap();
    std::fs::copy(component("example-tools/jq"), tools.join("jq.wasm")).unwrap();
    program
}

/// The commands of the pages about packages and bundles, and the line that each prints.
fn commands_of_the_pages() -> Vec<(String, String)> {
    let page = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let text = page("docs/packages.md") + &page("docs/bundles.md");
    let lines: Vec<&str> = text.lines().collect();
    let typed = |pair: &[&str]| Some((pair[0].strip_prefix("$ ")?.to_owned(), pair[1].to_owned()));
    lines.windows(2).filter_map(typed).collect()
}

#[test]
fn the_commands_of_the_pages_print_what_they_say() {
    let (_guard, folder) = place();
    let program = installed(&folder.join("prefix"));
    let commands = commands_of_the_pages();
    assert_eq!(commands.len(), 3, "{commands:?}");
    for (command, printed) in commands {
        let mut command = command.replacen("toolcell", program.to_str().unwrap(), 1);
        for example in ["example-tools/files", "example-tools/jq"] {
            if command.contains(example) {
                command = command.replace(example, component(example).to_str().unwrap());
                command.push_str(" --program=program");
            }
        }
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &command])
            .env("TOOLCELL_HOME", kept("home"));
        let ran = Toolcell::exactly(shell).dir(&folder).run().exits(0);
        assert_eq!(ran.stdout.trim_end(), printed, "{command}");
    }
    for made in ["notes.mcpb", "jq-mcp.mcpb", "server.json"] {
        assert!(folder.join(made).is_file(), "{made}");
    }
}

#[test]
fn a_tool_that_came_with_the_program_has_a_name_unless_a_file_has_it() {
    let (_guard, prefix) = scratch();
    let program = installed(&prefix);
    let work = prefix.join("work");
    std::fs::create_dir(&work).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments).env("TOOLCELL_HOME", kept("home"));
        Toolcell::exactly(command).dir(&work).run()
    };
    run(&["call", "shipped", "{}"]).exits(0);
    run(&["describe", "shipped"]).exits(0);
    run(&["policy", "check", "shipped", "{}"]).exits(0);
    let folder = prefix.join("share/toolcell/tools");
    let descriptions = r#"{"jq": "Runs a filter"}"#;
    std::fs::write(folder.join("descriptions.json"), descriptions).unwrap();
    let listed = run(&["list"]).exits(0).stdout;
    let shown =
        "came with toolcell (toolcell mcp --toolbox):\n  jq           Runs a filter\n  shipped";
    assert!(listed.contains(shown), "{listed}");
    let printed = run(&["mcp", "shipped", "--print-config=cursor"])
        .exits(0)
        .stdout;
    let place = prefix.join("share/toolcell/tools/shipped.wasm");
    assert!(printed.contains(place.to_str().unwrap()), "{printed}");
    // All of them at once, and none twice.
    let mut command = Command::new(&program);
    command.args(["mcp", "--toolbox", "jq"]);
    command.env("TOOLCELL_HOME", kept("home"));
    let mut client = Client::run(Toolcell::exactly(command).dir(&work));
    client.initialize("2025-11-25");
    let listed = client.request("tools/list", json!({}));
    let names = bare_names(&listed["result"]["tools"]);
    assert_eq!(names, ["jq", "echo", "read_result"]);
    // Another program has none.
    let none = Toolcell::new(["mcp", "--toolbox"]).run().exits(2);
    assert!(
        none.stderr.contains("no tools came with this program"),
        "{none:?}"
    );
    for other in [
        "unshipped",
        "./shipped",
        "shipped.wasm",
        "bin/shipped",
        "..",
    ] {
        run(&["call", other, "{}"]).exits(2);
    }
    // A folder of this name is meant, as anywhere else.
    std::fs::create_dir(work.join("shipped")).unwrap();
    let refused = run(&["call", "shipped", "{}"]).exits(2);
    assert!(
        refused.stderr.contains("not_a_tool_folder"),
        "{}",
        refused.stderr
    );
}
