//! A tool can reach only what the command line grants.

use std::path::Path;

use serde_json::{Value, json};

use super::{example, guest};
use crate::support::{Toolcell, scratch};

/// Calls `probe#read` with `path`. Returns the text, or the error number.
fn read(dir: &Path, options: &[&str], path: &str) -> Result<String, String> {
    let input = json!({ "path": path }).to_string();
    let tool = guest("probe#read");
    let mut arguments = vec!["call", &tool, &input, "--json"];
    arguments.extend(options);
    let answer =
        Toolcell::new(arguments).dir(dir).run().exits(0).json()["structured_content"].clone();
    if answer["ok"] == true {
        Ok(answer["value"]["text"].as_str().unwrap().to_owned())
    } else {
        Err(answer["error"].to_string())
    }
}

fn file(folder: &Path, name: &str) -> String {
    std::fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
    std::fs::write(folder.join(name), name).unwrap();
    folder.join(name).display().to_string()
}

#[test]
fn a_tool_that_needs_a_grant_is_refused_without_it_and_works_with_it() {
    let (_guard, folder) = scratch();
    file(&folder, "src/a.rs");
    let search = format!("{}#search", example("files"));
    let call = |options: &[&str]| {
        let mut arguments = vec!["call", search.as_str(), "{\"pattern\": \"src\"}"];
        arguments.extend(options);
        Toolcell::new(arguments).dir(&folder).run()
    };
    let refused = call(&[]).exits(3);
    assert!(
        refused.stderr.contains("--allow-read="),
        "{}",
        refused.stderr
    );
    let found = call(&["--allow-read=."]).exits(0);
    assert!(found.stdout.contains("src/a.rs"), "{}", found.stdout);
}

#[test]
fn a_folder_keeps_the_name_under_which_its_user_knows_it() {
    let (_guard, folder) = scratch();
    let real = folder.join("real");
    file(&real, "src/a.rs");
    let link = folder.join("link");
    std::os::unix::fs::symlink("real", &link).unwrap();
    let read = |named: &Path, grant: &str| {
        let path = format!("path={}", named.join("src/a.rs").display());
        Toolcell::new(["call", &format!("{}#read", example("files")), &path, grant])
            .dir(&link)
            .env("PWD", &link.display().to_string())
            .run()
    };
    for known in [&real, &link] {
        let whole = format!("--allow-read={}", link.display());
        for grant in ["--allow-read=.", "--allow-read=./src/", &whole] {
            assert_eq!(read(known, grant).exits(0).stdout, "src/a.rs\n", "{grant}");
        }
    }
    // No link that nobody named leads anywhere.
    let whole = format!("--allow-read={}", real.display());
    std::os::unix::fs::symlink("real", folder.join("other")).unwrap();
    read(&folder.join("other"), &whole).exits(3);
    read(&folder.join("other"), "--allow-read=.").exits(3);
    // What is given that name is there, and not what a link leads to.
    file(&folder, "beside/src/a.rs");
    let mapped = format!(
        "--allow-read={}={}",
        folder.join("beside").display(),
        link.display()
    );
    let path = format!("path={}", link.join("src/a.rs").display());
    let words = [
        "call",
        &format!("{}#read", example("files")),
        &path,
        &mapped,
    ];
    let both = Toolcell::new([&words[..], &[&format!("--allow-read={}", link.display())]].concat());
    assert_eq!(both.run().exits(0).stdout, "beside/src/a.rs\n");
}

fn needed(access_kind: &str, subject: Value, next_action: &str) -> Value {
    json!({ "access_kind": access_kind, "subject": subject, "next_action": next_action })
}

#[test]
fn a_refusal_for_lack_of_a_grant_names_the_option_that_gives_it() {
    let (_guard, folder) = scratch();
    std::fs::create_dir(folder.join("sub")).unwrap();
    let needs = |tool: &str, input: Value, options: &[&str]| {
        let input = input.to_string();
        let arguments = [&["call", tool, &input, "--json"], options].concat();
        let refused = Toolcell::new(arguments).dir(&folder).run().exits(3).json();
        refused["error"]["needs_authorization"].clone()
    };
    let read = guest("probe#read");
    let append = guest("probe#append_approved");
    assert_eq!(
        needs(&read, json!({ "path": "a" }), &[]),
        needed("file_read", Value::Null, "--allow-read=DIR")
    );
    let far = json!({ "path": "../a.txt", "other": "/etc/b.conf" });
    let outside = needs(&guest("probe#read_named"), far, &["--allow-read=sub"]);
    assert_eq!(outside, needed("file_read", Value::Null, "--allow-read=.."));
    let unwritable = needs(
        &append,
        json!({ "path": "a", "text": "b" }),
        &["--allow-read=."],
    );
    assert_eq!(
        unwritable,
        needed("file_write", Value::Null, "--allow-write=DIR")
    );
    let fetch = example("fetch");
    let input = json!({ "url": "https://a.test/x" });
    let unreached = needed(
        "network",
        json!("https://a.test"),
        "--allow-net=https://a.test",
    );
    assert_eq!(needs(&fetch, input.clone(), &[]), unreached);
    let deeper = needed(
        "network",
        json!("https://a.test"),
        "--allow-net=https://a.test",
    );
    assert_eq!(
        needs(&fetch, input.clone(), &["--allow-net=https://a.test/docs"]),
        deeper
    );
    let bearer = guest("courier#bearer");
    let secret = "--allow-secret=API_KEY@https://HOST";
    assert_eq!(
        needs(&bearer, input.clone(), &["--allow-net=a.test"]),
        needed("credential", json!("API_KEY"), secret)
    );
    // All that is missing is said at once. Any host is not offered.
    let all = format!("--allow-net=HOST {secret}");
    assert_eq!(
        needs(&bearer, input, &[]),
        needed("network", json!("*://*:*"), &all)
    );
    let port = json!({ "url": "http://127.0.0.1:18080/x" });
    assert_eq!(
        needs(&fetch, port, &[])["next_action"],
        "--allow-net=http://127.0.0.1:18080"
    );
    // Nothing that a shell would expand is offered.
    let expands = json!({ "path": "/tmp/$(id).d/a.txt", "other": "sub" });
    let outside = needs(&guest("probe#read_named"), expands, &["--allow-read=sub"]);
    assert_eq!(outside["next_action"], "--allow-read=DIR");
    // A grant would not help where a denial overrules it.
    let denied = needs(
        &read,
        json!({ "path": "a" }),
        &["--allow-read=.", "--deny-read=."],
    );
    assert_eq!(denied, Value::Null);
}

#[test]
fn an_error_has_what_the_network_said_in_its_own_words() {
    // Nobody listens there any more.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let origin = format!("http://127.0.0.1:{port}");
    let input = json!({ "url": format!("{origin}/x") }).to_string();
    let ran = Toolcell::new([
        "call",
        &example("fetch"),
        &input,
        &format!("--allow-net={origin}"),
        "--json",
    ])
    .run();
    let error = ran.json()["error"].clone();
    assert_eq!(
        error["native_error_ref"],
        json!({ "request": "ConnectionRefused" }),
        "{error}"
    );
}

#[test]
fn an_error_has_what_the_file_system_said_in_its_own_words() {
    let (_guard, folder) = scratch();
    let missing = folder.join("missing").display().to_string();
    let input = json!({ "path": missing }).to_string();
    let tool = format!("{}#read", example("files"));
    let allow = format!("--allow-read={}", folder.display());
    let ran = Toolcell::new(["call", &tool, &input, &allow, "--json"]).run();
    let error = ran.json()["error"].clone();
    assert_eq!(
        error["native_error_ref"],
        json!({ "errno": "no-entry" }),
        "{error}"
    );
}

#[test]
fn a_relative_path_in_the_arguments_starts_at_the_callers_folder() {
    let (_guard, folder) = scratch();
    file(&folder, "below/a.txt");
    file(&folder, "beside/a.txt");
    let tool = format!("{}#read", example("files"));
    let call = |dir: &Path, path: &str, grant: &str| {
        Toolcell::new([
            "call",
            &tool,
            &json!({ "path": path }).to_string(),
            grant,
            "--json",
        ])
        .dir(dir)
        .run()
    };
    for (dir, path, grant) in [
        (folder.clone(), "below/a.txt", "--allow-read=."),
        (folder.clone(), "./below/a.txt", "--allow-read=below/.."),
        (folder.join("below"), "a.txt", "--allow-read=.."),
        (folder.clone(), "below/a.txt", "--allow-read=below"),
        // It may lead into the grant by way of what was not granted.
        (
            folder.join("beside"),
            "../below/a.txt",
            "--allow-read=../below",
        ),
        (
            folder.join("beside"),
            "./../beside/../below/a.txt",
            "--allow-read=../below",
        ),
        (
            folder.clone(),
            "../{name}/below/a.txt",
            "--allow-read=below",
        ),
    ] {
        let path = path.replace("{name}", folder.file_name().unwrap().to_str().unwrap());
        assert_eq!(
            call(&dir, &path, grant).exits(0).json()["content"][0]["text"],
            "below/a.txt",
            "{path}"
        );
    }
    // A link in the grant leads nowhere else, also on such a way.
    std::os::unix::fs::symlink(folder.join("beside"), folder.join("below/link")).unwrap();
    for path in ["../below/link/a.txt", "../beside/a.txt"] {
        call(&folder.join("beside"), path, "--allow-read=../below").exits(3);
    }
}

#[test]
fn from_outside_of_the_only_granted_folder_a_relative_path_starts_in_it() {
    let (_guard, folder) = scratch();
    file(&folder, "granted/sub/a.txt");
    file(&folder, "other/b.txt");
    let call = |dir: &Path, tool: &str, input: Value, grants: &[&str]| {
        let tool = format!("{}#{tool}", example("files"));
        let input = input.to_string();
        Toolcell::new([&["call", &tool, &input, "--json"], grants].concat())
            .dir(dir)
            .run()
    };
    let granted = folder.join("granted").display().to_string();
    let other = folder.join("other").display().to_string();
    let grant = format!("--allow-read={granted}");
    for dir in [Path::new("/"), &folder, &folder.join("other")] {
        for input in [json!({}), json!({ "path": "." }), json!({ "path": "./" })] {
            let listed = call(dir, "list", input.clone(), &[&grant]).exits(0).json();
            assert!(
                listed["content"][0]["text"]
                    .as_str()
                    .unwrap()
                    .contains("sub/"),
                "{input} in {}",
                dir.display()
            );
        }
        let read = call(dir, "read", json!({ "path": "sub/a.txt" }), &[&grant])
            .exits(0)
            .json();
        assert_eq!(read["content"][0]["text"], "granted/sub/a.txt");
    }
    // Of two granted folders, none is meant; the refusal names both.
    let refused = call(
        Path::new("/"),
        "list",
        json!({}),
        &[&grant, &format!("--allow-read={other}")],
    )
    .exits(3)
    .json();
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(
        message.contains(&format!("(granted: {granted}, {other})")),
        "{message}"
    );
}

#[test]
fn several_folders_are_granted_by_commas_or_by_repetition() {
    let (_guard, folder) = scratch();
    let a = file(&folder, "a/x");
    let b = file(&folder, "b/x");
    let c = file(&folder, "c/x");
    for options in [
        &["--allow-read=a,b"][..],
        &["--allow-read", "a", "--allow-read", "b"],
    ] {
        assert_eq!(read(&folder, options, &a), Ok("a/x".to_owned()));
        assert_eq!(read(&folder, options, &b), Ok("b/x".to_owned()));
        assert!(read(&folder, options, &c).is_err(), "{options:?}");
    }
}

#[test]
fn a_folder_can_have_another_name_inside_the_tool() {
    let (_guard, folder) = scratch();
    let path = file(&folder, "data/x");
    assert_eq!(
        read(&folder, &["--allow-read=data=/inside"], "/inside/x"),
        Ok("data/x".to_owned())
    );
    assert!(
        read(&folder, &["--allow-read=data=/inside"], &path).is_err(),
        "its own name is gone"
    );
    for bad in ["data=inside", "data=/in/../side", "data="] {
        let ran = Toolcell::new(["call", "x", "{}", &format!("--allow-read={bad}")])
            .dir(&folder)
            .run()
            .exits(2);
        assert!(ran.stderr.contains(bad), "{}", ran.stderr);
    }
}

#[test]
fn two_folders_cannot_have_one_name_inside_the_tool() {
    let (_guard, folder) = scratch();
    file(&folder, "a/x");
    file(&folder, "b/x");
    let ran = Toolcell::new(["call", "x", "{}", "--allow-read=a=/d", "--allow-write=b=/d"])
        .dir(&folder)
        .run()
        .exits(2);
    assert!(
        ran.stderr.contains("--allow-read=a=/d") && ran.stderr.contains("--allow-write=b=/d"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_path_can_be_closed_inside_what_is_allowed() {
    let (_guard, folder) = scratch();
    let open = file(&folder, "open/x");
    let closed = file(&folder, "closed/x");
    let options = ["--allow-read=.", "--deny-read=closed"];
    assert_eq!(read(&folder, &options, &open), Ok("open/x".to_owned()));
    assert!(read(&folder, &options, &closed).is_err());
    let input = json!({ "path": closed }).to_string();
    let words = [
        "call",
        &format!("{}#read", example("files")),
        &input,
        "--json",
    ];
    let refused = Toolcell::new([&words[..], &options].concat()).dir(&folder);
    let error = refused.run().exits(3).json()["error"].clone();
    let refs = error["policy_refs"].as_array().unwrap();
    assert!(refs.contains(&json!("--deny-read=closed")), "{error}");
    let input = json!({"path": open}).to_string();
    let ran = Toolcell::new([
        "call",
        &guest("probe#read"),
        &input,
        "--allow-read=.",
        "--deny-read=.",
    ])
    .dir(&folder)
    .run();
    assert!(
        ran.exits(3)
            .stderr
            .contains("permission_denied/denied_by_rule")
    );
}

#[test]
fn a_grant_of_a_file_or_of_nothing_is_a_bad_request_that_says_what_to_do() {
    let (_guard, folder) = scratch();
    file(&folder, "data/x");
    for option in ["--allow-read", "--allow-write"] {
        let ran = Toolcell::new(["call", "x", "{}", &format!("{option}=data/x")])
            .dir(&folder)
            .run()
            .exits(2);
        let hint = format!(
            "grant the folder that holds it: {option}={}",
            folder.join("data").display()
        );
        assert!(ran.stderr.contains(&hint), "{}", ran.stderr);
        let ran = Toolcell::new(["call", "x", "{}", &format!("{option}=none")])
            .dir(&folder)
            .run()
            .exits(2);
        assert!(
            ran.stderr.contains("find the folder none"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn what_was_granted_is_named_in_the_record() {
    let (_guard, folder) = scratch();
    file(&folder, "data/x");
    let input = json!({"path": folder.join("data/x")}).to_string();
    let ran = Toolcell::new([
        "call",
        &guest("probe#read"),
        &input,
        "--allow-read=data",
        "--print-record",
    ])
    .dir(&folder)
    .run();
    let decision = ran.exits(0).json()["decisions"][0].clone();
    assert_eq!(
        (&decision["rule_refs"], &decision["source"]),
        (&json!(["--allow-read=data"]), &json!("cli_arg"))
    );
}

#[test]
fn a_write_grant_lets_a_reader_read_and_nothing_more() {
    let (_guard, folder) = scratch();
    let path = file(&folder, "data/x");
    assert_eq!(
        read(&folder, &["--allow-write=data"], &path),
        Ok("data/x".to_owned())
    );
    let input = json!({ "path": path }).to_string();
    let ran = Toolcell::new([
        "call",
        &guest("probe#write_readonly"),
        &input,
        "--allow-write=data",
        "--json",
    ])
    .dir(&folder)
    .run();
    let attempts: Value = ran.exits(0).json()["structured_content"].clone();
    assert_eq!(attempts["succeeded"], json!([]), "{attempts:#}");
    assert_eq!(std::fs::read_to_string(path).unwrap(), "data/x");
}
