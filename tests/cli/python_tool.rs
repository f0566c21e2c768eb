//! The example tool `python`: what a snippet gets, what comes back of it, and what stops it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::BUILDING;
use super::build::with_toolchain;
use super::interrupts::{interrupt, listens, ticks, wait_until};
use super::readme::commands_of;
use crate::support::{Ran, Toolcell, root, scratch};

/// The component, built with the user's state, where the build has compiled it too.
fn component() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let _turn = BUILDING
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let built = with_toolchain(&root(), &["build", "example-tools/python", "--json"])
            .run()
            .exits(0)
            .json();
        PathBuf::from(built["wasm"].as_str().unwrap())
    })
}

fn call(folder: &Path, input: &Value, options: &[&str]) -> Toolcell {
    let target = component().display().to_string();
    let input = input.to_string();
    let all: Vec<&str> = ["call", &target, &input]
        .into_iter()
        .chain(options.iter().copied())
        .collect();
    with_toolchain(folder, &all)
}

/// The result of a snippet.
fn run(folder: &Path, code: &str, options: &[&str]) -> Value {
    let options: Vec<&str> = options.iter().copied().chain(["--json"]).collect();
    call(folder, &json!({ "code": code }), &options)
        .run()
        .json()
}

fn code(ran: &Ran) -> String {
    ran.json()["error"]["error_code"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn the_readme_of_python_shows_what_its_command_does() {
    component();
    let printed = commands_of("example-tools/python");
    assert!(
        printed[0].contains("= {'search': 887.0, 'cart': 13.5, 'pay': 590.5}"),
        "{printed:?}"
    );
    assert!(
        printed[0].contains("made medians.csv (36 bytes)"),
        "{printed:?}"
    );
}

#[test]
fn the_interpreter_passes_its_own_tests() {
    let sdk = root().join("guest-sdk/python");
    let ran = Command::new("python3")
        .args(["-B", "-W", "ignore", "-m", "unittest"])
        .current_dir(root().join("example-tools/python"))
        .env("PYTHONPATH", sdk)
        .output()
        .unwrap();
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
}

#[test]
fn a_snippet_returns_its_output_its_value_and_its_files() {
    let (_guard, folder) = scratch();
    let code = "import sys\nprint('half')\nprint('oh', file=sys.stderr)\nopen('a.csv', 'w').write('1,2')\n{'n': rows[0] * 2}";
    let input = json!({ "code": code, "inputs": { "rows": [21] } });
    let found = call(&folder, &input, &["--json"]).run().exits(0).json();
    let content = &found["structured_content"];
    assert_eq!(
        (&content["stdout"], &content["stderr"]),
        (&json!("half\n"), &json!("oh\n"))
    );
    assert_eq!(
        content["value"],
        json!({ "type": "dict", "repr": "{'n': 42}", "json": { "n": 42 } })
    );
    assert_eq!(
        (&content["files"][0]["path"], &content["files"][0]["bytes"]),
        (&json!("a.csv"), &json!(3))
    );
    let reference = found["artifact_refs"][0]["uri"].as_str().unwrap();
    assert_eq!(
        with_toolchain(&folder, &["artifact", reference])
            .run()
            .exits(0)
            .stdout,
        "1,2"
    );
    // No variable and no file of an earlier call is there.
    assert_eq!(
        run(&folder, "import os\nos.listdir()", &[])["structured_content"]["value"]["json"],
        json!([])
    );
    assert_eq!(
        run(&folder, "rows", &[])["error"]["error_code"],
        "name_error"
    );
}

#[test]
fn the_standard_library_that_people_expect_is_there() {
    let (_guard, folder) = scratch();
    let code = "import json, math, statistics, re, csv, datetime, itertools, collections, sqlite3, random, decimal, fractions\n\
        import base64, hashlib, io, pathlib, string, textwrap, zipfile, gzip, tomllib, uuid, html.parser, xml.etree.ElementTree\n\
        import urllib.parse, difflib, heapq, functools, operator, typing, dataclasses, enum, zoneinfo, email.message, logging\n\
        assert sqlite3.connect(':memory:').execute('SELECT 6 * 7').fetchone() == (42,)\n\
        assert datetime.datetime.strptime('2024-02-29', '%Y-%m-%d').strftime('%A') == 'Thursday'\n\
        assert gzip.decompress(gzip.compress(b'x')) == b'x' and 'é'.encode('cp1252') == b'\\xe9'\n\
        assert xml.etree.ElementTree.fromstring('<a b=\"1\"/>').get('b') == '1' and hashlib.sha256(b'').hexdigest()[:4] == 'e3b0'\n\
        [random.random(), str(uuid.uuid4())]";
    let [one, two] =
        [(), ()].map(|()| run(&folder, code, &[])["structured_content"]["value"]["json"].clone());
    assert!(
        one[0].is_number() && one[0] != two[0] && one[1] != two[1],
        "{one} {two}"
    );
}

#[test]
fn a_traceback_shows_the_lines_of_the_snippet_alone() {
    let (_guard, folder) = scratch();
    let found = run(
        &folder,
        "import json\n\ndef load(text):\n    return json.loads(text)\n\nload('{')",
        &[],
    );
    let error = &found["structured_content"]["error"];
    let traceback = error["traceback"].as_str().unwrap();
    assert!(
        traceback.contains("line 6, in <module>")
            && traceback.contains("    return json.loads(text)"),
        "{traceback}"
    );
    assert!(
        !traceback.contains("decoder.py\"") && !traceback.contains("/0/"),
        "{traceback}"
    );
    assert_eq!(found["error"]["error_code"], "json_decode_error");
    assert_eq!(
        run(&folder, "1 +", &[])["error"]["error_code"],
        "syntax_error"
    );
    assert_eq!(
        run(&folder, "import numpy", &[])["error"]["error_code"],
        "module_not_found_error"
    );
}

#[test]
fn a_snippet_reads_what_was_granted_and_writes_in_its_own_folder_alone() {
    let (_guard, folder) = scratch();
    for name in ["open/a.txt", "open/b.txt", "closed/c.txt"] {
        std::fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
        std::fs::write(folder.join(name), name).unwrap();
    }
    let path = |name: &str| folder.join(name).display().to_string();
    let read = |name: &str| format!("open({:?}).read()", path(name));
    let grant = format!("--allow-read={}", path("open"));
    let error = |found: &Value| {
        found["error"]["error_code"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(
        error(&run(&folder, &read("open/a.txt"), &[])),
        "file_not_found_error"
    );
    assert_eq!(
        run(&folder, &read("open/a.txt"), &[&grant])["structured_content"]["value"]["json"],
        "open/a.txt"
    );
    assert_eq!(
        error(&run(&folder, &read("closed/c.txt"), &[&grant])),
        "file_not_found_error"
    );
    assert_eq!(
        error(&run(&folder, &read("open/../closed/c.txt"), &[&grant])),
        "permission_error"
    );
    for options in [
        &[grant.as_str()][..],
        &[&format!("--allow-write={}", path("open"))],
    ] {
        let found = run(
            &folder,
            &format!("open({:?}, 'w')", path("open/new.txt")),
            options,
        );
        assert_eq!(error(&found), "permission_error", "{found}");
    }
    assert!(!folder.join("open/new.txt").exists());
    // Files among the arguments are all that the call gets.
    let input = json!({ "code": "files[0].read_text()", "files": ["open/a.txt"] });
    let all = format!("--allow-read={}", folder.display());
    let found = call(&folder, &input, &[&all, "--json"])
        .run()
        .exits(0)
        .json();
    assert_eq!(found["structured_content"]["value"]["json"], "open/a.txt");
    let input = json!({ "code": read("closed/c.txt"), "files": ["open/a.txt"] });
    assert_eq!(
        code(&call(&folder, &input, &[&all, "--json"]).run()),
        "file_not_found_error"
    );
    let refused = call(
        &folder,
        &json!({ "code": "1", "files": ["../closed/c.txt"] }),
        &[&grant, "--json"],
    )
    .run()
    .exits(3);
    assert_eq!(code(&refused), "path_not_granted");
}

#[test]
fn a_snippet_has_no_network_no_process_and_no_environment() {
    let (_guard, folder) = scratch();
    for attempt in [
        "import socket; socket.create_connection(('127.0.0.1', 80))",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1')",
        "import subprocess; subprocess.run(['ls'])",
        "import os; os.fork()",
        "import threading; threading.Thread(target=print).start()",
    ] {
        let found = run(&folder, attempt, &[]);
        assert!(
            found["structured_content"]["error"].is_object(),
            "{attempt}: {found}"
        );
    }
    let found = call(
        &folder,
        &json!({ "code": "import os; dict(os.environ)" }),
        &["--json"],
    )
    .env("SECRET", "x")
    .run();
    assert_eq!(
        found.json()["structured_content"]["value"]["json"],
        json!({})
    );
}

#[test]
fn an_endless_snippet_ends_with_the_limits_of_its_call() {
    let (_guard, folder) = scratch();
    for (endless, option, expected) in [
        ("while True: pass", "--timeout=1s", "epoch_deadline"),
        ("while True: pass", "--fuel=5000000000", "fuel_exhausted"),
        (
            "try:\n  while True: pass\nexcept BaseException:\n  while True: pass",
            "--timeout=1s",
            "epoch_deadline",
        ),
    ] {
        let ran = call(&folder, &json!({ "code": endless }), &[option, "--json"])
            .run()
            .exits(4);
        assert_eq!(code(&ran), expected);
    }
    assert_eq!(
        run(&folder, "x = bytearray(10 ** 9)", &[])["error"]["error_code"],
        "memory_error"
    );
    assert_eq!(
        run(&folder, "def f(): return f()\nf()", &[])["error"]["error_code"],
        "recursion_error"
    );
    let long = run(&folder, "print('x' * 10_000_000)", &[]);
    let notes = long["structured_content"]["notes"][0].as_str().unwrap();
    assert!(
        notes.contains("stdout is cut: 9983617 more bytes"),
        "{notes}"
    );
}

#[test]
fn an_interrupt_cancels_a_snippet() {
    let (_guard, folder) = scratch();
    let child = call(
        &folder,
        &json!({ "code": "while True: pass" }),
        &["--print-record"],
    )
    .spawn();
    wait_until("starting", || listens(&child));
    let begun = ticks(&child);
    wait_until("running", || ticks(&child) > begun + 50);
    let record = interrupt(child, Signal::INT).exits(5).json();
    assert_eq!(record["invocation"]["status"], "canceled");
}
