//! Tools in TypeScript and JavaScript: what they say while they run, their types, and what a build of them refuses.

mod asynchronous;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Client, Ran, root, scratch};

use super::BUILDING;
use super::build::with_toolchain;

/// A tool that does all that the SDK can.
const MANY: &str = include_str!("tool.ts");

/// A new project in `place`, whose main module is `source`.
fn project(place: &Path, lang: &str, source: Option<&str>) -> PathBuf {
    with_toolchain(place, &["new", "many", "--lang", lang])
        .run()
        .exits(0);
    let project = place.join("many");
    if let Some(source) = source {
        let file = if lang == "typescript" {
            "src/tool.ts"
        } else {
            "src/tool.js"
        };
        std::fs::write(project.join(file), source).unwrap();
    }
    project
}

fn call(place: &Path, tool: &str, input: &Value, options: &[&str]) -> Ran {
    let tool = format!("many#{tool}");
    let input = input.to_string();
    with_toolchain(place, &[&["call", &tool, &input], options].concat()).run()
}

/// Runs a program and fails with what it printed.
fn succeeds(mut command: Command) {
    let ran = command.output().unwrap();
    let said = [ran.stdout, ran.stderr]
        .map(|text| String::from_utf8_lossy(&text).into_owned())
        .concat();
    assert!(ran.status.success(), "{command:?}: {said}");
}

#[test]
fn a_tool_in_typescript_can_do_what_its_sdk_says() {
    let _turn = BUILDING
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let (_guard, place) = scratch();
    let project = project(&place, "typescript", Some(MANY));
    with_toolchain(&place, &["build", "many"]).run().exits(0);
    // Two snapshots of the same sources are the same.
    let again = with_toolchain(&place, &["build", "many", "--json"])
        .run()
        .exits(0)
        .json();
    assert_eq!(again["fresh"], json!(true));

    says(&place);
    fails(&place);
    reads_and_writes(&place);
    asks(&place);
    let stopped = call(&place, "wait", &json!({}), &["--timeout=1s", "--json"]).json();
    assert_eq!(stopped["error"]["error_class"], "timeout", "{stopped}");

    // The SDK's own tests, and those of its types, with the compiler of the toolchain that the build set up.
    let sdk = root().join("guest-sdk/typescript");
    let mut tests = Command::new("npm");
    tests.arg("test").current_dir(&sdk);
    succeeds(tests);
    let toolchain = std::fs::read_to_string(project.join(".toolcell/toolchain")).unwrap();
    let mut types = Command::new("node");
    types
        .arg(Path::new(toolchain.trim_end()).join("node_modules/typescript/bin/tsc"))
        .args(["-p", "tests"]);
    types.current_dir(&sdk);
    succeeds(types);
}

fn says(place: &Path) {
    let speak = |mode: &str, options: &[&str]| {
        call(place, "speak", &json!({ "mode": mode }), options).exits(0)
    };
    assert_eq!(speak("progress", &[]).stdout, "done\n");
    let logged = speak("log", &[]);
    assert_eq!(logged.stdout, "logged\n");
    let lines = [
        "warn odd {\"n\":1}",
        "info hello {\"a\":1} TypeError: x ✓",
        "info all of NaN Map {\"k\" => undefined}",
    ];
    for line in lines {
        assert!(logged.stderr.contains(line), "{}", logged.stderr);
    }
    // The snapshot has one state of the engine's own generator; each call gets numbers of the host.
    assert_ne!(speak("random", &[]).stdout, speak("random", &[]).stdout);
    assert!(
        speak("context", &[])
            .stderr
            .contains("branch = {\"name\":\"fix\"}")
    );
    assert_eq!(speak("bytes", &[]).stdout, "größe €😀\n");
    assert_eq!(speak("broken", &[]).stdout, "a\u{fffd}o\n");
    // Of the variables, what is declared and granted.
    let variable = call(
        place,
        "variable",
        &json!({}),
        &["--allow-env=HOME", "--allow-env=PATH"],
    )
    .exits(0)
    .stdout;
    assert_eq!(
        variable,
        format!("{} undefined\n", std::env::var("HOME").unwrap())
    );
    let output = speak("output", &["--json"]).json();
    assert_eq!(output["content"][0]["text"], "block");
    assert_eq!(
        (
            &output["content"][1]["name"],
            &output["content"][1]["size_bytes"]
        ),
        (&json!("a.csv"), &json!(5))
    );
    let partial = call(place, "speak", &json!({ "mode": "partial" }), &[]).exits(1);
    assert_eq!(partial.stdout, "half\n");
    assert!(
        partial.stderr.contains("[partial_failure/rest_missing]"),
        "{}",
        partial.stderr
    );
    let record = call(
        place,
        "speak",
        &json!({ "mode": "progress" }),
        &["--print-record"],
    )
    .exits(0)
    .stdout;
    assert!(record.contains("step 3"), "{record}");
}

fn fails(place: &Path) {
    let error = |how: &str| {
        call(place, "fail", &json!({ "how": how }), &["--json"]).json()["error"].clone()
    };
    let slow = error("error");
    assert_eq!(
        (&slow["error_class"], &slow["error_code"]),
        (&json!("rate_limited"), &json!("slow_down"))
    );
    let bug = error("bug");
    assert_eq!(bug["error_code"], "exception");
    assert!(
        bug["message"].as_str().unwrap().starts_with("TypeError: "),
        "{bug}"
    );

    let object = error("object");
    assert_eq!(
        (&object["error_code"], &object["message"]),
        (&json!("exception"), &json!("no disk")),
        "{object}"
    );

    let square = |n: Value| call(place, "square", &json!({ "n": n }), &["--json"]).json();
    assert_eq!(square(json!(4))["error"], Value::Null);
    assert_eq!(square(json!("4"))["error"]["error_code"], "schema_mismatch");
    assert_eq!(
        square(json!(13))["error"]["error_code"],
        "output_schema_mismatch"
    );
}

fn reads_and_writes(place: &Path) {
    let folder = place.join("data");
    std::fs::create_dir_all(folder.join("sub")).unwrap();
    std::fs::write(folder.join("a.txt"), "größe").unwrap();
    // A relative path, which QuickJS could not resolve itself.
    let copied = call(
        place,
        "copy",
        &json!({ "folder": "data" }),
        &["--allow-write=data", "--json"],
    )
    .exits(0)
    .json();
    let names = json!({ "names": ["a.txt", "b.txt", "sub/"] });
    assert_eq!(copied["structured_content"], names, "{copied}");
    assert_eq!(
        std::fs::read_to_string(folder.join("b.txt")).unwrap(),
        "größe"
    );
    let run = |tool: &str| {
        let options = ["--allow-write=data", "--memory=32MiB", "--json"];
        call(place, tool, &json!({ "folder": "data" }), &options)
            .exits(0)
            .json()["structured_content"]
            .clone()
    };
    assert_eq!(
        run("often"),
        json!({ "read": 790, "isLater": true, "word": "word" })
    );
    let refused = "not_utf8";
    let texts = json!({ "isSame": true, "parted": [0, 1, 2, 3, 4], "codes": [refused, refused, refused, refused, refused] });
    assert_eq!(run("texts"), texts);
    std::fs::remove_file(folder.join("a.txt")).unwrap();
    let missing = call(
        place,
        "copy",
        &json!({ "folder": "data" }),
        &["--allow-write=data", "--json"],
    )
    .json();
    assert_eq!(missing["error"]["error_code"], "file_error", "{missing}");
}

fn asks(place: &Path) {
    let mut client = Client::run(with_toolchain(place, &["mcp", "many#greet"]))
        .can(json!({ "elicitation": { "form": {} } }));
    client.initialize("2025-11-25");
    let id = client.begin_call("greet", json!({}));
    let asked = client
        .until(|frame| frame["method"] == "elicitation/create")
        .1;
    let answer = json!({ "action": "accept", "content": { "name": "Ada" } });
    client.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": answer }));
    assert_eq!(
        client.answer(&id)["result"]["content"][0]["text"],
        "hello Ada, 41"
    );
}

#[test]
fn a_build_refuses_what_would_not_run() {
    let _turn = BUILDING
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let (_guard, place) = scratch();
    let project = project(&place, "javascript", None);
    let source = project.join("src/tool.js");
    let tool = std::fs::read_to_string(&source).unwrap();
    std::fs::write(place.join("beside.js"), "export const beside = 1;\n").unwrap();
    std::fs::write(project.join(".toolcell/own.js"), "export const own = 1;\n").unwrap();
    std::fs::create_dir(place.join("a:b")).unwrap();
    std::fs::write(place.join("a:b/beside.js"), "export const beside = 1;\n").unwrap();
    std::fs::create_dir_all(project.join("vendor/target")).unwrap();
    std::fs::write(project.join("vendor/Cargo.toml"), "").unwrap();
    std::fs::write(
        project.join("vendor/target/made.js"),
        "export const made = 1;\n",
    )
    .unwrap();
    let cases = [
        // Types of JSDoc and of the schemas.
        (tool.replace("text.split", "text.splitt"), "src/tool.js(8,"),
        (tool.replace("=> `", "=> +`"), "src/tool.js("),
        (
            format!("// @ts-nocheck\nimport fs from 'node:fs';\nfs.readFileSync('x');\n{tool}"),
            "node:fs is part of Node.js",
        ),
        (
            format!(
                "// @ts-nocheck\nimport {{ beside }} from '../../beside.js';\nconsole.log(beside);\n{tool}"
            ),
            "lies outside of the project",
        ),
        // No source, because toolcell writes this folder.
        (
            format!(
                "// @ts-nocheck\nimport {{ own }} from '../.toolcell/own.js';\nconsole.log(own);\n{tool}"
            ),
            "lies outside of the project",
        ),
        (
            format!(
                "// @ts-nocheck\nimport {{ beside }} from '../../a:b/beside.js';\nconsole.log(beside);\n{tool}"
            ),
            "lies outside of the project",
        ),
        // What cargo makes is no source.
        (
            format!(
                "// @ts-nocheck\nimport {{ made }} from '../vendor/target/made.js';\nconsole.log(made);\n{tool}"
            ),
            "lies outside of the project",
        ),
        (
            tool.replace("export default", "export const kit ="),
            "default",
        ),
        // With the place in the source, not in the bundle.
        (
            format!("{tool}throw new Error('at load');\n"),
            "(src/tool.js:",
        ),
        (
            format!("// @ts-check\n{tool}setImmediate(() => 1);\n"),
            "the sandbox has nothing of it",
        ),
    ];
    for (text, words) in cases {
        std::fs::write(&source, &text).unwrap();
        let refused = with_toolchain(&place, &["build", "many"]).run().exits(2);
        assert_eq!(
            refused.stderr.matches(words).count(),
            1,
            "{words:?}, once: {}",
            refused.stderr
        );
        assert!(!refused.stderr.contains("build.mjs"), "{}", refused.stderr);
    }
    std::fs::write(&source, &tool).unwrap();
    let manifest = project.join("package.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(
        &manifest,
        text.replace(
            "\"main\"",
            "\"dependencies\": { \"left\": \"1\" },\n  \"main\"",
        ),
    )
    .unwrap();
    let refused = with_toolchain(&place, &["build", "many"])
        .run()
        .exits(2)
        .stderr;
    assert!(
        refused.contains("not installed: left: run `npm install`"),
        "{refused}"
    );

    // A package of the project is bundled, and a change of it is one of the sources.
    let package = project.join("node_modules/left");
    std::fs::create_dir_all(&package).unwrap();
    std::fs::write(
        package.join("package.json"),
        "{ \"name\": \"left\", \"main\": \"left.js\" }",
    )
    .unwrap();
    std::fs::write(
        package.join("left.js"),
        "module.exports = (text) => `left ${text}`;\n",
    )
    .unwrap();
    let using = tool
        .replace("`${text", "left(`${text")
        .replace("} words`", "} words`)");
    std::fs::write(&source, format!("import left from 'left';\n{using}")).unwrap();
    with_toolchain(&place, &["build", "many"]).run().exits(0);
    let counted = call(&place, "count", &json!({ "text": "one two" }), &[]).exits(0);
    assert_eq!(counted.stdout, "left 2 words\n");
    std::fs::write(
        package.join("left.js"),
        "module.exports = (text) => `right ${text}`;\n",
    )
    .unwrap();
    let older = call(&place, "count", &json!({ "text": "one two" }), &[]).exits(0);
    assert_eq!(older.stdout, "left 2 words\n");
    assert!(
        older
            .stderr
            .contains("is older than its sources: node_modules/left/left.js has changed"),
        "{older:?}"
    );
}
