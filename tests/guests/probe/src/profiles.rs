//! The same code under many permission profiles, so that answers differ only by what the profiles grant.

use std::fs;
use std::io;

use fixture::{Access, Input, Tool};
use serde_json::{Value, json};

use crate::surroundings::preopened_paths;
use crate::{Call, Handler, Outcome, answer};

pub(crate) fn tools() -> Vec<Tool> {
    let touch = |name, access, description| {
        let path = json!({ "type": "string" });
        let then = json!({ "enum": ["answer", "panic", "spin"] });
        let nested = json!({ "type": "integer", "minimum": 0 });
        let input = json!({ "path": path, "other": path, "then": then, "nested": nested });
        Tool::new(name, access, description).input(input, &["path"])
    };
    let writes = |name, description| touch(name, Access::WritesFiles, description);
    let named = json!({ "/path": "path" });
    let about = |name, kind| {
        Tool::new(
            name,
            Access::Nothing,
            "Names what it is about, and touches nothing",
        )
        .input(
            json!({ "subject": { "type": ["string", "array"] } }),
            &["subject"],
        )
        .claims("permission_subjects", json!({ "/subject": kind }))
    };
    vec![
        touch("touch_nothing", Access::Nothing, "Asks for nothing"),
        touch("touch_reads", Access::ReadsFiles, "Asks to read"),
        writes("touch_writes", "Asks to write"),
        writes("touch_drafts", "Asks for a folder for drafts")
            .permits("write_effects", json!(["local_draft"])),
        writes(
            "touch_remote",
            "Asks to write, and says that it changes things elsewhere only",
        )
        .permits("write_effects", json!(["remote_mutation"])),
        writes("touch_liar", "Says that it only reads").claims("is_read_only", true),
        writes("touch_boxed", "Asks for the sandbox profile read_only")
            .permits("sandbox_profile", "read_only"),
        writes("touch_emptied", "Asks for the sandbox profile empty")
            .permits("sandbox_profile", "empty"),
        writes("touch_unknown", "Asks for an unknown sandbox profile")
            .permits("sandbox_profile", "golden"),
        touch(
            "read_named",
            Access::ReadsFiles,
            "Reads what its argument names",
        )
        .claims("permission_subjects", named.clone())
        .permits("rule_matching_fields", vec!["path"]),
        writes("write_named", "Writes where its argument says")
            .claims("permission_subjects", named.clone()),
        touch(
            "read_default",
            Access::ReadsFiles,
            "Reads what its argument names, `sub` unless it says so",
        )
        .input(
            json!({ "path": { "type": "string", "default": "sub" } }),
            &[],
        )
        .claims("permission_subjects", named),
        about("about_path", "path"),
        about("about_url", "url"),
        about("about_resource", "resource"),
    ]
}

pub(crate) fn handler(tool: &str) -> Option<Handler> {
    Some(match tool {
        "about_path" | "about_url" | "about_resource" => |_, _| answer(json!({ "ran": true })),
        name if name.starts_with("touch_")
            || name.ends_with("_named")
            || name == "read_default" =>
        {
            touch
        }
        _ => return None,
    })
}

/// Tries every operation on `path`: reads it, lists its folder, writes beside it, keeps a draft.
fn touch(call: &Call, input: &Input) -> Outcome {
    let path = input.text_or("path", "sub");
    let scratch = scratch(&call.context);
    let draft = scratch.as_ref().map(|folder| format!("{folder}/draft"));
    let touched = json!({
        "preopens": preopened_paths(),
        "read": outcome(fs::read_to_string(path)),
        "listed": outcome(list(path)),
        "wrote": outcome(fs::write(format!("{path}.new"), "new")),
        "other": input.given("other").map(|other| outcome(fs::read_to_string(other))),
        "scratch": scratch,
        "nested": scratch.as_ref().map(|folder| nest(folder, input.number("nested"))),
        "drafted": draft.map(|draft| outcome(fs::write(&draft, "a draft").and_then(|()| fs::read_to_string(&draft)))),
    });
    match input.text("then") {
        "panic" => panic!("after all that"),
        "spin" => loop {
            std::hint::spin_loop();
        },
        _ => answer(touched),
    }
}

/// Creates `wanted` nested folders, each with a file. Returns how many it created.
fn nest(folder: &str, wanted: u64) -> u64 {
    let mut path = folder.to_owned();
    for made in 0..wanted {
        path.push_str("/n");
        if fs::create_dir(&path)
            .and_then(|()| fs::write(format!("{path}/file"), "x"))
            .is_err()
        {
            return made;
        }
    }
    wanted
}

fn scratch(context: &str) -> Option<String> {
    let context: Value = serde_json::from_str(context).ok()?;
    context.get("scratch")?.as_str().map(str::to_owned)
}

/// The names in the folder `path`, or in the parent folder of the file `path`.
fn list(path: &str) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(path)
        .or_else(|_| fs::read_dir(path.rsplit_once('/').map_or(".", |(folder, _)| folder)))?;
    let mut names = entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

fn outcome<T: Into<Value>>(outcome: io::Result<T>) -> Value {
    match outcome {
        Ok(value) => json!({ "ok": value.into() }),
        Err(error) => json!({ "error": error.to_string() }),
    }
}
