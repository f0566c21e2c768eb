//! The SDKs of C, C++, Zig and Go: what a tool gets from the host, and the reader of JSON.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Server, root, scratch};

use super::BUILDING;
use super::build::with_toolchain;

#[test]
fn the_reader_of_c_takes_json_alone_and_the_host_of_its_tests_answers() {
    let (_guard, place) = scratch();
    let sdk = root().join("guest-sdk/c");
    let program = place.join("reader");
    let sources = [
        "tests/reader.c",
        "toolcell.c",
        "toolcell_declare.c",
        "toolcell_testing.c",
    ];
    let mut compiler = Command::new("cc");
    compiler
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(&sdk);
    compiler
        .args(sources.map(|source| sdk.join(source)))
        .arg("-lm")
        .arg("-o")
        .arg(&program);
    assert!(compiler.status().unwrap().success(), "{compiler:?}");
    assert!(Command::new(&program).status().unwrap().success());
}

/// A new project of `language`, whose tool is that of `languages/FILE`, built; returns the name of its folder.
fn built(place: &Path, language: &str, file: &str) -> String {
    let folder = format!("in-{language}");
    with_toolchain(place, &["new", &folder, "--lang", language])
        .run()
        .exits(0);
    let source = root().join("tests/cli/languages").join(file);
    std::fs::copy(source, place.join(&folder).join(file)).unwrap();
    with_toolchain(place, &["build", &folder]).run().exits(0);
    folder
}

#[test]
#[ignore = "sets up Zig and Go: `just nightly` runs it"]
fn a_tool_in_cpp_zig_or_go_reports_logs_fails_asks_and_returns_parts() {
    let _turn = BUILDING
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let (_guard, place) = scratch();
    let server = Server::hello();
    let allowed = format!("--allow-net=http://127.0.0.1:{}", server.port);
    let written = format!("--allow-write={}", place.display());
    for (language, file) in [("cpp", "tool.cpp"), ("zig", "tool.zig"), ("go", "tool.go")] {
        let folder = &built(&place, language, file);
        let call = |input: &Value| {
            with_toolchain(
                &place,
                &[
                    "call",
                    folder,
                    &input.to_string(),
                    "--json",
                    &allowed,
                    &written,
                ],
            )
            .run()
            .json()
        };
        let text = |word: &str| call(&json!({ "text": word }));
        let done = call(&json!({ "text": "x", "limit": 4, "more": ["a", "b"] }));
        let found = &done["structured_content"];
        assert_eq!(
            (&found["limit"], &found["more"]),
            (&json!(4), &json!(2)),
            "{language}: {done}"
        );
        let failed = text("fail");
        let error = &failed["error"];
        assert_eq!(error["error_class"], "rate_limited", "{language}: {failed}");
        // Go wraps errors in others.
        let message = if language == "go" {
            "wrapped: wait 1"
        } else {
            "wait 1"
        };
        assert_eq!(
            (&error["error_code"], &error["message"]),
            (&json!("slow"), &json!(message)),
            "{language}"
        );
        assert_eq!(
            text("ask")["error"]["error_code"],
            "nobody_to_ask",
            "{language}"
        );
        assert_eq!(text("part")["error"]["error_code"], "half", "{language}");
        assert_eq!(
            text("bytes")["content"][0]["text"],
            "a\u{fffd}o",
            "{language}"
        );
        if language != "go" {
            assert_eq!(text("zero")["error"]["message"], "a\u{fffd}b", "{language}");
        }
        let plain = with_toolchain(
            &place,
            &["call", folder, r#"{"text": "x"}"#, &allowed, &written],
        )
        .run()
        .exits(0);
        assert!(
            plain.stderr.contains("info read 1 bytes"),
            "{language}: {}",
            plain.stderr
        );
        let got = text(&format!("http://127.0.0.1:{}/words", server.port));
        assert!(
            got["model_facing_content"]
                .to_string()
                .contains("200 hello"),
            "{language}: {got}"
        );
        // More than the garbage collector of Go waits for.
        let large = json!({ "text": "x".repeat(9 << 20) }).to_string();
        let counted = with_toolchain(&place, &["call", folder, "-", "--json", &allowed, &written])
            .stdin(&large)
            .run()
            .json();
        assert!(
            counted["structured_content"].is_object(),
            "{language}: {}",
            counted["error"]
        );
        if language != "go" {
            let kept = text("file");
            assert!(
                kept["content"].to_string().contains("artifact_ref"),
                "{language}: {kept}"
            );
        }
    }
    let call = |folder: &str, text: &str| {
        let input = json!({ "text": text }).to_string();
        with_toolchain(
            &place,
            &["call", folder, &input, "--json", &allowed, &written],
        )
        .run()
        .json()
    };
    // Sizes that overflow in the C library give no block, and what is printed without the end of a line is not lost.
    assert_eq!(
        call("in-cpp", "memory")["content"][0]["text"],
        "000001 ENOMEM"
    );
    let printed = call("in-cpp", "printed");
    assert!(
        printed["content"].to_string().contains("no end of a line"),
        "{printed}"
    );
    let shaped = call("in-zig", "json");
    let expected = json!({ "head": "a\u{fffd}o", "list": ["\u{fffd}", null], "pair": [1, true] });
    assert_eq!(shaped["structured_content"], expected, "{shaped}");
    let trapped = call("in-zig", "index");
    assert!(
        trapped["error"].is_object()
            && trapped["content"]
                .to_string()
                .contains("index out of bounds"),
        "{trapped}"
    );
    exits_and_stays_small(&place, &allowed);
    writes_and_bounds(&place, &allowed, &written);
    let panicked = with_toolchain(
        &place,
        &[
            "call",
            "in-go",
            r#"{"text": "panic"}"#,
            "--json",
            &allowed,
            &written,
        ],
    )
    .run()
    .json();
    assert_eq!(panicked["error"]["error_code"], "panic", "{panicked}");
}

/// What a tool in C++ that ends by itself answers, and in how little memory one runs.
fn exits_and_stays_small(place: &Path, allowed: &str) {
    let exited = with_toolchain(
        place,
        &["call", "in-cpp", r#"{"text": "exit"}"#, "--json", allowed],
    )
    .run()
    .json();
    assert_eq!(
        exited["error"]["message"], "the tool exited with status 3 instead of answering",
        "{exited}"
    );
    // Its stack leaves room for others in a small memory.
    let small = [
        "call",
        "in-cpp",
        r#"{"text": "x"}"#,
        allowed,
        "--memory=8MiB",
    ];
    with_toolchain(place, &small).run().exits(0);
}

/// Files by absolute paths, and integers of some bits, in Zig.
fn writes_and_bounds(place: &Path, allowed: &str, grant: &str) {
    let written = place.join("written.txt");
    let input = json!({ "text": written }).to_string();
    with_toolchain(place, &["call", "in-zig", &input, allowed, grant])
        .run()
        .exits(0);
    assert_eq!(std::fs::read_to_string(&written).unwrap(), "written");
    for (name, value, code) in [
        ("small", 255, Value::Null),
        ("small", 256, json!("schema_mismatch")),
        ("small", -1, json!("schema_mismatch")),
        ("low", -32_768, Value::Null),
        ("low", 32_768, json!("schema_mismatch")),
    ] {
        let input = json!({ "text": "x", name: value }).to_string();
        let done = with_toolchain(place, &["call", "in-zig", &input, "--json", allowed, grant])
            .run()
            .json();
        assert_eq!(done["error"]["error_code"], code, "{name} {value}: {done}");
    }
}

#[test]
#[ignore = "sets up Zig and Go: `just nightly` runs it"]
fn a_tool_in_go_takes_and_returns_what_its_declaration_says() {
    let _turn = BUILDING
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let (_guard, place) = scratch();
    // A package of Go itself has the name of this project.
    with_toolchain(&place, &["new", "time", "--lang", "go"])
        .run()
        .exits(0);
    let source = place.join("time/tool.go");
    std::fs::copy(root().join("tests/cli/languages/shapes.go"), &source).unwrap();
    // A module beside the tool, which no build fetches.
    let manifest = place.join("time/go.mod");
    let lib = place.join("time/lib");
    let module = std::fs::read_to_string(&manifest).unwrap();
    let replaced =
        format!("{module}\nrequire example.com/lib v0.0.0\n\nreplace example.com/lib => ./lib\n");
    std::fs::write(manifest, replaced).unwrap();
    std::fs::create_dir(&lib).unwrap();
    std::fs::write(lib.join("go.mod"), "module example.com/lib\n\ngo 1.24\n").unwrap();
    std::fs::write(lib.join("lib.go"), "package lib\n\nconst One = 1\n").unwrap();
    with_toolchain(&place, &["build", "time"]).run().exits(0);
    let input = json!({ "raw": "AAE=", "at": "2024-01-02T03:04:05Z", "big": i64::MAX, "tag": "t" });
    let done = with_toolchain(
        &place,
        &["call", "time#shapes", &input.to_string(), "--json"],
    )
    .run()
    .json();
    let expected = json!({
        "raw": "AAE=", "at": "2024-01-02T03:04:05Z", "big": i64::MAX, "tag": "t",
        "none": "", "words": [], "deep": { "a": [] }, "note": null,
    });
    assert_eq!(done["structured_content"], expected, "{done}");
    let refused = with_toolchain(
        &place,
        &[
            "call",
            "time#shapes",
            &input.to_string().replace("\"t\"", "1"),
            "--json",
        ],
    );
    assert_eq!(
        refused.run().json()["error"]["error_code"],
        "schema_mismatch"
    );
    let when = input
        .to_string()
        .replace("2024-01-02T03:04:05Z", "2024-01-02 03:04");
    let refused = with_toolchain(&place, &["call", "time#shapes", &when, "--json"])
        .run()
        .json();
    assert_eq!(
        refused["error"]["error_code"], "schema_mismatch",
        "{refused}"
    );
    takes_integers(&place);
    says_what_it_returns(&place);

    // A type that has no schema is refused by name, instead of a stack that overflows.
    let text = std::fs::read_to_string(&source).unwrap();
    let field = "Note  *string             `json:\"note\"`";
    std::fs::write(
        &source,
        text.replace(field, "Inner []Shapes `json:\"inner\"`"),
    )
    .unwrap();
    let refused = with_toolchain(&place, &["build", "time"]).run();
    assert!(
        refused.code != Some(0) && !refused.stdout.contains(".wasm"),
        "{}",
        refused.stderr
    );
}

/// Also of what is no struct.
fn says_what_it_returns(place: &Path) {
    let described = with_toolchain(place, &["describe", "time", "--json"])
        .run()
        .exits(0)
        .json();
    let tools = described["declarations"].as_array().unwrap();
    for (name, output, answer) in [
        (
            "words",
            json!({ "type": "array", "items": { "type": "string" } }),
            json!([]),
        ),
        (
            "table",
            json!({ "type": "object", "additionalProperties": { "type": "integer", "minimum": 0, "maximum": 255 } }),
            json!({ "a": 1 }),
        ),
        (
            "maybe",
            json!({ "type": ["object", "null"], "required": ["tag"], "additionalProperties": false,
                "properties": { "tag": { "type": "string", "description": "A tag." } } }),
            json!(null),
        ),
        ("raw", json!(null), json!([1])),
    ] {
        let tool = tools
            .iter()
            .find(|tool| tool["name"] == name)
            .unwrap_or_else(|| panic!("{name}: {described}"));
        assert_eq!(
            tool["output_contract"]["structured_schema"], output,
            "{name}"
        );
        let done = with_toolchain(place, &["call", &format!("time#{name}"), "{}", "--json"])
            .run()
            .exits(0)
            .json();
        assert_eq!(done["structured_content"], answer, "{done}");
    }
}

/// As JSON Schema has them, which is not how encoding/json has them.
fn takes_integers(place: &Path) {
    let numbers = |input: &str| {
        with_toolchain(place, &["call", "time#numbers", input, "--json"])
            .run()
            .json()
    };
    let found = |input: &str| numbers(input)["structured_content"].clone();
    let expected = json!({ "n": 5000, "small": 10, "text": "\"1.0", "list": [] });
    assert_eq!(
        found(r#"{"n": 5e3, "small": 10.0, "text": "\"1.0"}"#),
        expected
    );
    assert_eq!(found(r#"{"n": -120.0}"#)["n"], -120);
    assert_eq!(
        found(&json!({ "n": i64::MAX, "small": 0.0 }).to_string())["n"],
        i64::MAX
    );
    for small in ["-1", "256", "1.5"] {
        let refused = numbers(&format!(r#"{{"n": 1, "small": {small}}}"#));
        assert_eq!(
            refused["error"]["error_code"], "schema_mismatch",
            "{refused}"
        );
    }
    let beyond = numbers(r#"{"n": 9223372036854775808}"#);
    let message = beyond["error"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("the argument n does not fit"),
        "{beyond}"
    );
    assert_eq!(found(r#"{"n": 1, "text": "list"}"#), json!([]));
    assert_eq!(
        numbers(r#"{"n": 1, "text": "ring"}"#)["error"]["error_code"],
        "error"
    );
}

#[test]
#[ignore = "sets up Zig and Go: `just nightly` runs it"]
fn a_build_that_fails_says_why_once_and_no_command() {
    let _turn = BUILDING
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let (_guard, place) = scratch();
    // 1 if the tool itself fails while it describes itself, 2 if it cannot be compiled.
    let refused = |code: i32, language: &str, file: &str, change: &dyn Fn(String) -> String| {
        let folder = format!("wrong-{language}");
        let _ = std::fs::remove_dir_all(place.join(&folder));
        with_toolchain(&place, &["new", &folder, "--lang", language])
            .run()
            .exits(0);
        let source = place.join(&folder).join(file);
        std::fs::write(&source, change(std::fs::read_to_string(&source).unwrap())).unwrap();
        with_toolchain(&place, &["build", &folder])
            .run()
            .exits(code)
            .stderr
    };
    let endless = |text: String| {
        let end = "    {.name = NULL},\n";
        assert!(text.contains(end), "{text}");
        // What lies behind the list is no argument.
        text.replace(end, "    {\"b\", (toolcell_type)77, \"\", false},\n")
    };
    let c = refused(1, "c", "tool.c", &endless);
    assert!(
        c.contains("the arguments of the tool count have no end"),
        "{c}"
    );
    let broken = refused(2, "cpp", "tool.cpp", &|text| {
        format!("{text}\nint broken = missing_name;\n")
    });
    assert_eq!(
        broken
            .matches("undeclared identifier 'missing_name'")
            .count(),
        1,
        "{broken}"
    );
    assert!(!broken.contains("-ffunction-sections"), "{broken}");
    // What the sandbox's library lacks is named as what it is.
    let lacking = refused(2, "cpp", "tool.cpp", &|text| {
        format!("#include <mutex>\n{text}\nstd::mutex lock;\n")
    });
    assert!(
        lacking.contains("the C++ library of the sandbox has no <fstream>"),
        "{lacking}"
    );
    let node = |text: String| {
        let node = "const Node = struct { next: ?[]const @This() = null };\n";
        let with = text.replacen("struct {", "struct { node: Node = .{},", 1);
        format!("{with}\n{node}")
    };
    let zig = refused(2, "zig", "tool.zig", &node);
    assert!(zig.contains("which contains itself"), "{zig}");
    let node = |text: String| {
        let with = text.replacen("struct {", "struct {\n\tNode Node `json:\"node\"`", 1);
        format!("{with}\ntype Node struct {{\n\tNext []Node `json:\"next\"`\n}}\n")
    };
    let go = refused(1, "go", "tool.go", &node);
    assert!(
        go.contains("no JSON Schema for main.Node, which contains itself"),
        "{go}"
    );
    assert!(!go.contains("goroutine"), "{go}");
}
