//! Components and commands that others made: what their names, imports, sizes and descriptions lead to.
//!
//! Promise: Nothing without a grant.

use std::path::Path;

use serde_json::{Value, json};
use toolcell_spec::dialect::sections::with_custom;

use crate::sandbox::compiling::bomb::compile_bomb;
use crate::support::{Client, Ran, Toolcell, scratch, wat};

fn toolcell(folder: &Path, arguments: &[&str]) -> Ran {
    Toolcell::new(arguments).dir(folder).run()
}

/// A folder with these files.
fn place(files: &[(&str, Vec<u8>)]) -> (tempfile::TempDir, std::path::PathBuf) {
    let (guard, folder) = scratch();
    for (name, bytes) in files {
        std::fs::write(folder.join(name), bytes).unwrap();
    }
    (guard, folder)
}

/// A module of preview 1 that imports these functions, and exits with what `body` leaves. `dir/` stands at 64.
fn exits_with(imports: &[(&str, &str)], body: &str) -> Vec<u8> {
    let import = |(name, parameters): &(&str, &str)| {
        format!(
            "(import \"wasi_snapshot_preview1\" {name:?} (func ${name} (param {parameters}) (result i32)))"
        )
    };
    let imports: String = imports.iter().map(import).collect();
    let text = format!(
        "(module {imports} (import \"wasi_snapshot_preview1\" \"proc_exit\" (func $exit (param i32)))
          (memory (export \"memory\") 1) (data (i32.const 64) \"dir/\")
          (func (export \"_start\") (call $exit {body})))"
    );
    wat::parse_str(text).unwrap()
}

fn exit_code(module: Vec<u8>, input: Value) -> Value {
    let (_guard, folder) = place(&[("probe.wasm", module)]);
    let called = toolcell(
        &folder,
        &[
            "call",
            "probe.wasm",
            &input.to_string(),
            "--json",
            "--no-config",
        ],
    )
    .json();
    called["structured_content"]["exit_code"].clone()
}

#[test]
fn descriptors_and_paths_of_preview_1_fail_as_it_says_or_as_the_book_says() {
    const BADF: i32 = 8;
    const NOTDIR: i32 = 54;
    let write = [("fd_write", "i32 i32 i32 i32")];
    let call = "(call $fd_write (i32.const 1000) (i32.const 8) (i32.const 1) (i32.const 16))";
    assert_eq!(exit_code(exits_with(&write, call), json!({})), BADF);
    // In the book: nothing to write is written to any descriptor.
    assert_eq!(
        exit_code(
            exits_with(&write, &call.replace("(i32.const 1)", "(i32.const 0)")),
            json!({})
        ),
        0
    );
    let shutdown = [("sock_shutdown", "i32 i32")];
    let shut = |fd: u32| {
        exits_with(
            &shutdown,
            &format!("(call $sock_shutdown (i32.const {fd}) (i32.const 1))"),
        )
    };
    assert_eq!(exit_code(shut(1000), json!({})), BADF);
    // In the book: the first descriptor beyond the streams is the working directory, so it is no bad one.
    assert_eq!(exit_code(shut(3), json!({})), 57);

    let make = ("path_create_directory", "i32 i32 i32");
    let remove = ("path_remove_directory", "i32 i32 i32");
    let removing = "(call $path_remove_directory (i32.const 3) (i32.const 64) (i32.const 4))";
    let both = format!(
        "(i32.add (call $path_create_directory (i32.const 3) (i32.const 64) (i32.const 3)) {removing})"
    );
    assert_eq!(exit_code(exits_with(&[make, remove], &both), json!({})), 0);
    assert_eq!(
        exit_code(
            exits_with(&[remove], removing),
            json!({ "files": { "dir": "a file" } })
        ),
        NOTDIR
    );
}

#[test]
fn a_program_that_takes_all_memory_for_its_own_dies_as_the_book_says_unless_it_takes_it_first() {
    const SIZES: &str = "(call $args_sizes_get (i32.const 0) (i32.const 4))";
    const GET: &str = "(call $args_get (i32.const 2048) (i32.const 4096))";
    // What an allocator does that keeps a mark at the end of memory.
    const TAKE: &str =
        "(i32.store (i32.sub (i32.shl (memory.size) (i32.const 16)) (i32.const 4)) (i32.const 2))";
    let imports = [("args_sizes_get", "i32 i32"), ("args_get", "i32 i32")];
    let run = |first: &str, second: &str| {
        let body = format!("(block (result i32) {first} {second} (i32.const 0))");
        let (_guard, folder) = place(&[("probe.wasm", exits_with(&imports, &body))]);
        let input = json!({ "args": ["one", "two", "three"] }).to_string();
        toolcell(
            &folder,
            &["call", "probe.wasm", &input, "--json", "--no-config"],
        )
        .json()
    };
    let sizes = format!("(drop {SIZES})");
    let get = format!("(drop {GET})");
    assert_eq!(
        run(TAKE, &format!("{sizes} {get}"))["structured_content"]["exit_code"],
        0
    );
    assert_eq!(
        run(&format!("{sizes} {TAKE}"), &get)["error"]["error_code"],
        "guest_panicked"
    );
}

#[test]
fn imports_are_looked_at_before_anything_is_compiled() {
    let foreign = "(component (import \"acme:db/store@1.0.0\" (instance (export \"get\" (func))))";
    let bomb = compile_bomb().replacen("(component", foreign, 1);
    let (_guard, folder) = place(&[("bomb.wasm", wat::parse_str(bomb).unwrap())]);
    // It would not be compiled within this time.
    std::fs::create_dir(folder.join("home")).unwrap();
    std::fs::write(
        folder.join("home/toolcell.toml"),
        "[compile]\ntime = \"1s\"\n",
    )
    .unwrap();
    let bomb = folder.join("bomb.wasm");
    let refused = Toolcell::at(&folder.join("home"), ["describe", bomb.to_str().unwrap()]).run();
    assert!(
        refused.stderr.contains("import_not_available]"),
        "{}",
        refused.stderr
    );
    assert!(
        refused
            .stderr
            .contains("does not have: acme:db/store@1.0.0"),
        "{}",
        refused.stderr
    );
}

#[test]
fn files_that_a_component_cannot_declare_are_those_that_a_command_grants_to_it_alone() {
    let (_guard, folder) = place(&[
        ("folders.wasm", wat("plain-folders")),
        ("echo.wasm", wat("echo")),
    ]);
    let data = folder.join("data");
    std::fs::create_dir(&data).unwrap();
    let data = data.to_str().unwrap();
    let read = format!("--allow-read={data}");
    let write = format!("--allow-write={data}");
    let call = |tool: &str, input: &str, options: &[&str]| {
        let called = [
            &["call", tool, input, "--print-record", "--no-config"],
            options,
        ]
        .concat();
        toolcell(&folder, &called).exits(0).json()
    };
    let answer = |record: &Value| record["result"]["structured_content"].clone();
    let notes = |record: &Value| record["decisions"][0]["notes"].to_string();

    assert_eq!(
        answer(&call("folders.wasm#folder", "{}", &[])),
        "",
        "nothing without a grant"
    );
    let granted = call("folders.wasm#folder", "{}", &[&read]);
    assert_eq!(answer(&granted), data);
    let said = notes(&granted);
    assert!(
        said.contains(&read) && said.contains("which declares no files"),
        "{said}"
    );
    let make =
        |options: &[&str]| answer(&call("folders.wasm#make", "{\"name\": \"new\"}", options));
    assert_eq!(
        (make(&[&read]), make(&[&write])),
        (json!(false), json!(true))
    );
    assert!(Path::new(data).join("new").is_dir());

    // Grants in a file are for many tools.
    let file = folder.join("grants.toml");
    std::fs::write(&file, format!("[grants]\nread = [{data:?}]\n")).unwrap();
    let of_file = [
        "call",
        "folders.wasm#folder",
        "{}",
        "--print-record",
        "--config",
        file.to_str().unwrap(),
    ];
    assert_eq!(answer(&toolcell(&folder, &of_file).exits(0).json()), "");
    // A profile that says nothing of files is one of its own.
    std::fs::write(
        folder.join("profile.json"),
        r#"{"tools": {"make": {"read_only": true}}}"#,
    )
    .unwrap();
    toolcell(
        &folder,
        &[
            "wrap",
            "folders.wasm",
            "--profile=profile.json",
            "-o",
            "profiled.wasm",
        ],
    )
    .exits(0);
    assert_eq!(answer(&call("profiled.wasm#folder", "{}", &[&read])), "");

    // Beside another component, a grant can be meant for that one.
    let served = |tools: &[&str]| {
        let mut arguments = vec!["mcp".to_owned(), read.clone()];
        arguments.extend(
            tools
                .iter()
                .map(|tool| folder.join(tool).display().to_string()),
        );
        let mut session = Client::run(Toolcell::new(arguments));
        session.initialize("2025-11-25");
        let listed = session.request("tools/list", json!({}));
        let listed = listed["result"]["tools"].as_array().unwrap().iter();
        let name = listed
            .map(|tool| tool["name"].as_str().unwrap())
            .find(|name| name.ends_with("folder"))
            .unwrap();
        session.call(name, json!({})).to_string()
    };
    assert!(served(&["folders.wasm"]).contains(data));
    assert!(!served(&["folders.wasm", "echo.wasm"]).contains(data));
    let together = json!({ "id": "a", "tool": folder.join("folders.wasm#folder"), "input": {} });
    let batch = Toolcell::new(["batch", "-", "--print-record", "--no-config", &read])
        .stdin(&format!("{together}\n"))
        .run()
        .exits(0);
    let record: Value = serde_json::from_str(batch.stdout.trim()).unwrap();
    assert_eq!(answer(&record), "");
    assert!(
        notes(&record).contains("name its component alone"),
        "{record:#}"
    );
}

#[test]
fn a_command_without_a_name_has_that_of_its_file() {
    let nameless = |at: u8| {
        wat::parse_str(format!("(module (memory {at}) (func (export \"_start\")))")).unwrap()
    };
    let named = wat::parse_str("(module $own (func (export \"_start\")))").unwrap();
    let (_guard, folder) = place(&[
        ("word count.wasm", nameless(1)),
        ("cut-0123456789abcdef.wasm", nameless(2)),
        ("other.wasm", named),
    ]);
    let names = |file: &str| {
        let described = toolcell(&folder, &["describe", file, "--json"])
            .exits(0)
            .json();
        described["declarations"][0]["tool_id"].clone()
    };
    // Twice: compiled, and as it was noted.
    for _ in 0..2 {
        assert_eq!(names("word count.wasm"), "command.word-count");
        assert_eq!(names("cut-0123456789abcdef.wasm"), "command.cut");
        assert_eq!(names("other.wasm"), "command.own");
    }
    let files = ["word count.wasm", "cut-0123456789abcdef.wasm"]
        .map(|file| folder.join(file).display().to_string());
    let together = toolcell(
        &folder,
        &["export", &files[0], &files[1], "--dialect=openai"],
    )
    .exits(0);
    assert!(
        together.stdout.contains("word-count") && together.stdout.contains("cut"),
        "{}",
        together.stdout
    );
    assert_eq!(
        toolcell(&folder, &["call", "cut-0123456789abcdef.wasm#cut", "{}"])
            .exits(0)
            .json()["exit_code"],
        0
    );
}

/// A component that exports `wasi:cli/run` and the function `seven`.
fn command_with_functions() -> Vec<u8> {
    let text = r#"(component
      (core module $main (func (export "run") (result i32) i32.const 0) (func (export "seven") (result i32) i32.const 7))
      (core instance $main (instantiate $main))
      (func $run (result (result)) (canon lift (core func $main "run")))
      (instance $cli (export "run" (func $run)))
      (export "wasi:cli/run@0.2.6" (instance $cli))
      (func (export "seven") (result u32) (canon lift (core func $main "seven"))))"#;
    wat::parse_str(text).unwrap()
}

#[test]
fn functions_beside_a_command_are_named_and_can_be_chosen() {
    let (_guard, folder) = place(&[
        ("both.wasm", command_with_functions()),
        ("plain.wasm", wat("echo")),
    ]);
    let described = toolcell(&folder, &["describe", "both.wasm"]).exits(0);
    let said = format!("{}{}", described.stdout, described.stderr)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    for words in [
        "command.main",
        "seven",
        "runs as a command",
        "toolcell wrap FILE --functions -o NEW",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    toolcell(
        &folder,
        &[
            "wrap",
            "both.wasm",
            "--functions",
            "--name=sums",
            "-o",
            "sums.wasm",
        ],
    )
    .exits(0);
    assert_eq!(
        toolcell(&folder, &["call", "sums.wasm#seven", "{}"])
            .exits(0)
            .stdout
            .trim(),
        "7"
    );
    let described = toolcell(&folder, &["describe", "sums.wasm", "--json"])
        .exits(0)
        .json();
    let tools: Vec<&Value> = described["declarations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| &tool["tool_id"])
        .collect();
    assert_eq!(tools, ["sums.seven"]);
    // Nothing to choose from.
    let command = wat::parse_str("(module (func (export \"_start\")))").unwrap();
    std::fs::write(folder.join("command.wasm"), command).unwrap();
    let refused = toolcell(
        &folder,
        &["wrap", "command.wasm", "--functions", "-o", "none.wasm"],
    );
    assert!(
        refused.code != Some(0) && !folder.join("none.wasm").exists(),
        "{}",
        refused.stderr
    );
}

/// An Amplifier module at the root whose `get-spec` answers the two texts in turn, by a counter in a resource that outlives
/// no instance: by chance.
fn in_turn(one: &str, other: &str) -> Vec<u8> {
    let escaped = |text: &str| {
        text.bytes()
            .map(|byte| format!("\\{byte:02x}"))
            .collect::<String>()
    };
    let text = format!(
        r#"(component
          (import "wasi:random/random@0.2.6" (instance $random (export "get-random-u64" (func (result u64)))))
          (core func $random (canon lower (func $random "get-random-u64")))
          (core module $main
            (import "" "random" (func $random (result i64)))
            (memory (export "memory") 2)
            (data (i32.const 1024) "{}")
            (data (i32.const 65536) "{}")
            (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 32768))
            (func (export "get-spec") (result i32)
              (i32.store (i32.const 16) (select (i32.const 1024) (i32.const 65536) (i32.wrap_i64 (i64.and (call $random) (i64.const 1)))))
              (i32.store (i32.const 20) (i32.const {}))
              (i32.const 16))
            (func (export "execute") (param i32 i32) (result i32) (unreachable)))
          (core instance $main (instantiate $main (with "" (instance (export "random" (func $random))))))
          (func (export "get-spec") (result (list u8))
            (canon lift (core func $main "get-spec") (memory (core memory $main "memory"))))
          (func (export "execute") (param "input" (list u8)) (result (result (list u8) (error string)))
            (canon lift (core func $main "execute") (memory (core memory $main "memory"))
              (realloc (core func $main "realloc")))))"#,
        escaped(one),
        escaped(other),
        one.len()
    );
    assert_eq!(one.len(), other.len());
    wat::parse_str(text).unwrap()
}

/// The component with another digest, so that no cache knows it.
fn again(component: &[u8], at: u32) -> Vec<u8> {
    with_custom(component, "again", &at.to_le_bytes()).unwrap()
}

#[test]
fn a_description_may_change_the_order_of_its_keys_and_what_else_changes_is_named() {
    let spec = r#"{"name": "t", "description": "d", "parameters": {"type": "object", "properties": {"a": {}, "b": {}}}}"#;
    let turned = r#"{"parameters": {"properties": {"b": {}, "a": {}}, "type": "object"}, "description": "d", "name": "t"}"#;
    let other = spec.replace("\"d\"", "\"e\"");
    let same = in_turn(spec, turned);
    let differs = in_turn(spec, &other);
    let (_guard, folder) = scratch();
    let describe = |component: &[u8], at: u32| {
        std::fs::write(folder.join("t.wasm"), again(component, at)).unwrap();
        toolcell(&folder, &["describe", "t.wasm", "--json"])
    };
    // Each load asks twice, and the two answers differ in half of the loads.
    for at in 0..8 {
        describe(&same, at).exits(0);
    }
    let refused = (0..40)
        .map(|at| describe(&differs, at))
        .find(|ran| ran.code != Some(0))
        .expect("they never differed");
    let said = format!("{}{}", refused.stdout, refused.stderr);
    assert!(
        said.contains("description_changes")
            && said.contains("/declarations/0/description differs"),
        "{said}"
    );
}

#[test]
fn the_largest_component_is_what_the_user_says() {
    let (_guard, folder) = place(&[("echo.wasm", wat("echo"))]);
    let size = std::fs::metadata(folder.join("echo.wasm")).unwrap().len();
    let home = folder.join("home");
    std::fs::create_dir(&home).unwrap();
    let echo = folder.join("echo.wasm").display().to_string();
    let with = |bytes: u64| {
        std::fs::write(
            home.join("toolcell.toml"),
            format!("[compile]\nsize = \"{bytes}\"\n"),
        )
        .unwrap();
        Toolcell::at(&home, ["call", &echo, r#"{"a": 1}"#]).run()
    };
    let refused = with(size - 1).exits(4);
    let limit = format!("has {size} bytes, more than {} bytes", size - 1);
    for words in [
        "component_too_large]",
        limit.as_str(),
        "raise `size` under [compile] in your own toolcell.toml",
    ] {
        assert!(
            refused.stderr.contains(words),
            "{words}: {}",
            refused.stderr
        );
    }
    assert!(
        !refused.stderr.contains("debug"),
        "it is not guessed why: {}",
        refused.stderr
    );
    with(size).exits(0);

    // The limit that holds without a setting can be raised, too.
    let large = folder.join("large.wasm");
    // A custom section without a name, of 257 MiB and one byte, which LEB128 has in five.
    let mut padded = wat("echo");
    padded.extend([0, 0x81, 0x80, 0xc0, 0x80, 0x01]);
    padded.resize(padded.len() + (257 << 20) + 1, 0);
    std::fs::write(&large, padded).unwrap();
    let large = large.display().to_string();
    std::fs::remove_file(home.join("toolcell.toml")).unwrap();
    Toolcell::at(&home, ["describe", &large]).run().exits(4);
    std::fs::write(home.join("toolcell.toml"), "[compile]\nsize = \"300MiB\"\n").unwrap();
    Toolcell::at(&home, ["describe", &large]).run().exits(0);
}
