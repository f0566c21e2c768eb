//! The example tool `code`: what a script of an agent can call, what it uses up, and what is left of it on record.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::npm_tools::{built, native_test, readme_calls};
use crate::support::{Client, Home, Ran, Server, component, scratch};

/// Fifty searches, and fifty filters of what they found.
const HUNDRED_CALLS: &str = r"
    const counts = [];
    for (let n = 0; n < 50; n++) {
        const hits = await tools.search({ pattern: `word${n}$` });
        const { outputs } = await tools.jq({ filter: '.matches | length', input: hits });
        counts.push(outputs[0]);
    }
    return counts.reduce((sum, count) => sum + count);";

/// A folder in which scripts run, with records of its own.
struct Place {
    home: Home,
    folder: PathBuf,
    _guard: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let (guard, folder) = scratch();
        let words: String = (0..50).map(|n| format!("word{n}\n")).collect();
        std::fs::write(folder.join("words.txt"), words).unwrap();
        Self {
            home: Home::new(),
            folder,
            _guard: guard,
        }
    }

    fn run(&self, tool: &str, script: &str, options: &[&str]) -> Ran {
        let tool = format!("{}#{tool}", built("code").display());
        let input = json!({ "script": script }).to_string();
        let others = ["files", "jq", "patch"].map(|name| format!("--with={}", example(name)));
        let mut arguments = vec!["call", tool.as_str(), input.as_str()];
        arguments.extend(others.iter().map(String::as_str));
        arguments.extend(options);
        self.home.toolcell(&arguments).dir(&self.folder).run()
    }

    /// What a script returns.
    fn value(&self, tool: &str, script: &str, options: &[&str]) -> Value {
        let answer = self
            .run(tool, script, &[&["--json"], options].concat())
            .exits(0)
            .json();
        answer["structured_content"]["value"].clone()
    }
}

fn example(name: &str) -> String {
    component(&format!("example-tools/{name}"))
        .display()
        .to_string()
}

const GRANTED: [&str; 3] = [
    "--allow-tool=files.search",
    "--allow-tool=jq.jq",
    "--allow-read=.",
];

#[test]
fn a_hundred_calls_of_one_script_have_one_budget_and_a_hundred_and_one_records() {
    let place = Place::new();
    let record = place
        .run(
            "run",
            HUNDRED_CALLS,
            &[&GRANTED[..], &["--print-record"]].concat(),
        )
        .exits(0)
        .json();
    let result = &record["result"];
    assert_eq!(
        result["structured_content"],
        json!({ "value": 50, "console": [], "calls": 100 })
    );
    let below = record["invocation"]["child_invocation_ids"]
        .as_array()
        .unwrap();
    assert_eq!(below.len(), 100);

    let calls = place.home.calls(&["--limit=200"]);
    assert_eq!(calls.len(), 101);
    for (tool, count) in [("code.run", 1), ("files.search", 50), ("jq.jq", 50)] {
        let of_it = calls
            .iter()
            .filter(|call| call["tool_id"] == tool && call["status"] == "succeeded");
        assert_eq!(of_it.count(), count, "{tool}");
    }
    let shown = place
        .home
        .toolcell(&["show", below[99].as_str().unwrap(), "--json"])
        .run()
        .exits(0)
        .json();
    assert_eq!(
        shown["invocation"]["parent_invocation_id"],
        record["invocation"]["invocation_id"]
    );
    let shown = place
        .home
        .toolcell(&[
            "show",
            record["invocation"]["invocation_id"].as_str().unwrap(),
        ])
        .run()
        .exits(0);
    assert_eq!(
        shown.stdout.matches("called jq.jq: ").count(),
        50,
        "{}",
        shown.stdout
    );

    // Half of what all of them used up ends them all together.
    let used = result["usage"]["fuel"]["used"].as_u64().unwrap();
    let half = format!("--fuel={}", used / 2);
    let stopped = place
        .run(
            "run",
            HUNDRED_CALLS,
            &[&GRANTED[..], &["--print-record", &half]].concat(),
        )
        .exits(4)
        .json();
    assert_eq!(
        stopped["result"]["error"]["error_code"], "fuel_exhausted",
        "{stopped:#}"
    );
    let made = stopped["invocation"]["child_invocation_ids"]
        .as_array()
        .unwrap()
        .len();
    assert!(made > 0 && made < 100, "{made}");
}

#[test]
fn a_script_reaches_no_tool_that_was_not_granted() {
    let place = Place::new();
    let script = r"
        const told = async (call) => {
            try { return await call() } catch (error) { return [error.class, error.code, error instanceof Error] }
        };
        return {
            refused: [
                await told(() => tools.files.read({ path: 'words.txt' })),
                await told(() => tools['patch.patch']({ diff: '' })),
                await told(() => tools.code.run({ script: '1' })),
                await told(() => tools.nowhere({})),
            ],
            listed: [Object.keys(tools), callableTools().map(({ name }) => name)],
            found: (await tools.files.search({ pattern: 'word7$' })).matches.length,
        };";
    let value = place.value("run", script, &GRANTED);
    let refused = json!(["permission_denied", "tool_not_callable", true]);
    assert_eq!(
        value["refused"],
        json!([refused, refused, refused, refused])
    );
    assert_eq!(
        value["listed"],
        json!([["files.search", "jq.jq"], ["files.search", "jq.jq"]])
    );
    assert_eq!(value["found"], 1);
    // Without a grant there is nothing, and the engine of the tool has no other way to the host.
    let around = r"
        const raw = await new Function('name', 'return import(name)')('toolcell:tool/tools@0.2.0');
        const code = () => { try { return raw.call('files.read', '{}') } catch ({ payload }) { return payload.code } };
        return [callableTools(), typeof require, typeof process, raw.list(), code()];";
    assert_eq!(
        place.value("run", around, &[]),
        json!([[], "undefined", "undefined", [], "tool_not_callable"])
    );
    let failed = place
        .run("run", "await import('fs')", &["--json"])
        .exits(2)
        .json();
    assert_eq!(failed["error"]["error_code"], "script_syntax", "{failed}");
    let own = format!("--with={}", built("code").display());
    let itself = "try { await tools.code.run({ script: '1' }) } catch ({ code }) { return code }";
    assert_eq!(
        place.value("run", itself, &[&own, "--allow-tool=*"]),
        "recursive_tool_forbidden"
    );
}

#[test]
fn what_a_script_calls_gets_no_more_than_the_tool_that_runs_it() {
    let place = Place::new();
    let diff = "--- /dev/null\n+++ b/made.txt\n@@ -0,0 +1 @@\n+made\n";
    let script = format!(
        "return await tools.patch({{ diff: {} }}).catch(({{ code }}) => code)",
        json!(diff)
    );
    let options = ["--allow-tool=*", "--allow-write=."];
    assert_eq!(place.value("run", &script, &options), "beyond_caller");
    let made = place.folder.join("made.txt");
    assert!(!made.exists());
    assert_eq!(place.value("run_writing", &script, &options)["added"], 1);
    assert_eq!(std::fs::read_to_string(made).unwrap(), "made\n");
    let without = place
        .run("run_writing", "1", &["--allow-read=.", "--json"])
        .exits(3)
        .json();
    assert_eq!(without["error"]["error_class"], "permission_denied");
    let offline = place.run("run_online", "1", &["--json"]).exits(3).json();
    assert_eq!(offline["error"]["error_class"], "permission_denied");
    assert_eq!(
        place.value("run_online", "1 + 1", &["--allow-net=x.example"]),
        2
    );
}

#[test]
fn a_script_that_fails_or_does_not_end_says_why() {
    let place = Place::new();
    let error = |script: &str, options: &[&str]| {
        place
            .run(
                "run",
                script,
                &[&GRANTED[..], &["--json"], options].concat(),
            )
            .json()["error"]
            .clone()
    };
    let thrown = error(
        "console.log('so far');\n\nawait tools.jq({ filter: '.[' })",
        &[],
    );
    assert_eq!(
        (&thrown["error_class"], &thrown["error_code"]),
        (&json!("execution_failed"), &json!("script_failed"))
    );
    let message = thrown["message"].as_str().unwrap();
    assert!(
        message.contains("[invalid_arguments/") && message.ends_with("(line 3)\nconsole:\nso far"),
        "{message}"
    );
    assert!(
        error("const x = 1;\nx.y.z", &[])["message"]
            .as_str()
            .unwrap()
            .ends_with("(line 2)")
    );
    let syntax = error("const = 1", &[]);
    assert_eq!(
        (&syntax["error_class"], &syntax["error_code"]),
        (&json!("invalid_arguments"), &json!("script_syntax"))
    );
    assert_eq!(
        error("for (;;);", &["--fuel=1000000000"])["error_code"],
        "fuel_exhausted"
    );
    assert_eq!(
        error("for (;;) await null", &["--timeout=1s"])["error_class"],
        "timeout"
    );
    let hoarder = error(
        "const all = []; for (;;) all.push(new Uint8Array(1e6))",
        &["--memory=64MiB"],
    );
    assert!(
        hoarder["message"]
            .as_str()
            .unwrap()
            .contains("out of memory"),
        "{hoarder}"
    );

    let printed = place
        .run(
            "run",
            "for (let n = 0; n < 1000; n++) console.log(n); return 'done'",
            &["--json"],
        )
        .exits(0)
        .json();
    assert_eq!(
        printed["structured_content"]["console"]
            .as_array()
            .unwrap()
            .len(),
        201
    );
    let plain = place
        .run("run", "console.log('seen'); return { a: 1 }", &[])
        .exits(0)
        .stdout;
    assert_eq!(plain, "{\"a\":1}\nconsole:\nseen\n");
    let many = r"
        for (let n = 0; ; n++) {
            try { await tools.jq({ filter: '1' }) } catch (error) { return [n, error.class, error.code] }
        }";
    assert_eq!(
        place.value("run", many, &GRANTED),
        json!([256, "rate_limited", "child_calls_limit"])
    );
}

#[test]
fn a_script_sends_requests_where_run_online_was_granted_them() {
    let place = Place::new();
    let arrived = AtomicUsize::new(0);
    // Each waits for the others.
    let server = Server::start(move |visit| {
        let Some(head) = visit.head() else { return };
        let began = Instant::now();
        arrived.fetch_add(1, Ordering::SeqCst);
        while arrived.load(Ordering::SeqCst) < 3 && began.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let path = head.split(' ').nth(1).unwrap();
        visit.say(&format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{path}",
            path.len()
        ));
    });
    let script = format!(
        "const get = async (name) => (await fetch('{}' + name, {{ signal: AbortSignal.timeout(60000) }})).text();
        return Promise.all(['a', 'b', 'c'].map(get))",
        server.url("/")
    );
    let granted = format!("--allow-net={}", server.url(""));
    assert_eq!(
        place.value("run_online", &script, &[&granted]),
        json!(["/a", "/b", "/c"])
    );
    assert_eq!(server.most_open(), 3);
    let denied = place.run("run_online", &script, &["--allow-net=x.example", "--json"]);
    assert_eq!(
        denied.json()["error"]["error_code"],
        "network_denied",
        "{denied:?}"
    );
    let offline = place.run("run", &script, &[&granted, "--json"]).json();
    let message = offline["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("fetch is there in scripts of run_online alone"),
        "{message}"
    );
}

#[test]
fn a_served_script_calls_the_tools_that_are_served_with_it() {
    let place = Place::new();
    let code = format!("{}#run", built("code").display());
    let files = example("files");
    let jq = example("jq");
    let arguments = [&["mcp", &code, &files, &jq], &GRANTED[..]].concat();
    let mut client = Client::run(place.home.toolcell(&arguments).dir(&place.folder));
    client.initialize("2025-11-25");
    let answer = client.call("run", json!({ "script": HUNDRED_CALLS }));
    assert_eq!(answer["structuredContent"]["value"], 50, "{answer:#}");
    assert_eq!(answer["content"][0]["text"], "50");
    client.close();
}

#[test]
fn the_readme_of_code_shows_what_it_does_and_its_own_tests_pass() {
    let said = readme_calls("code", &["files", "jq"]);
    let [longest] = said.as_slice() else {
        panic!("{said:?}")
    };
    let pages: Vec<Value> = serde_json::from_str(longest).unwrap();
    assert_eq!(pages.len(), 3, "{longest}");
    let bytes: Vec<u64> = pages
        .iter()
        .map(|page| page["bytes"].as_u64().unwrap())
        .collect();
    assert!(
        bytes.is_sorted_by(|one, other| one >= other) && pages[0]["title"].is_string(),
        "{longest}"
    );
    native_test("code");
}
