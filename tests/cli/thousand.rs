//! Many components: what each says of itself is kept, so that they are listed without their code.
//!
//! Promise: No foreign native code.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use toolcell::{Home, Request};

use super::cache::on_disk;
use super::guest;
use super::interrupts::wait_until;
use crate::pipeline::doubles::{RecordingListener, declaring, echoing, own_host};
use crate::sandbox::compiling::bomb::slow_to_compile;
use crate::support::{Client, OLD, Toolcell, Web};

/// A folder with components, and a home in which nothing is compiled yet.
struct Shelf {
    _guard: tempfile::TempDir,
    home: PathBuf,
    tools: PathBuf,
}

impl Shelf {
    fn new(count: usize) -> Self {
        Self::of((0..count).map(|n| {
            echoing(&format!("many{n}"), |toolkit| {
                toolkit["declarations"][0]["input_contract"]["model_input_schema"] =
                    json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
            })
        }))
    }

    fn of(components: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let (guard, folder) = on_disk();
        let shelf = Self {
            _guard: guard,
            home: folder.join("home"),
            tools: folder.join("tools"),
        };
        fs::create_dir(&shelf.tools).unwrap();
        for (n, component) in components.into_iter().enumerate() {
            fs::write(shelf.tool(n), component).unwrap();
        }
        // A file that changed just now could change again unnoticed, so nothing is noted of it.
        std::thread::sleep(Duration::from_millis(1_200));
        shelf
    }

    fn tool(&self, n: usize) -> PathBuf {
        self.tools.join(format!("{n:04}.wasm"))
    }

    fn run(&self, arguments: &[&str]) -> Toolcell {
        Toolcell::at(&self.home, arguments)
    }

    fn client(&self) -> Client {
        let mut client = Client::run(self.run(&["mcp", text(&self.tools), "--max-listed=1000"]));
        client.initialize(OLD);
        client
    }

    fn compiled(&self) -> Vec<PathBuf> {
        files(&self.home.join("cache/components"))
    }

    fn notes(&self) -> Vec<PathBuf> {
        files(&self.home.join("cache/components.notes"))
    }

    /// Loads all components once, and then removes their code.
    fn load_and_forget_code(&self, count: usize) {
        self.run(&["search", "answers", text(&self.tools)])
            .run()
            .exits(0);
        assert_eq!((self.compiled().len(), self.notes().len()), (count, count));
        self.compiled()
            .iter()
            .for_each(|entry| fs::remove_file(entry).unwrap());
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .collect()
}

/// The number of listed tools, without the host's own one.
fn listed(client: &mut Client) -> usize {
    let listed = client.request("tools/list", json!({}))["result"]["tools"].clone();
    listed
        .as_array()
        .unwrap()
        .iter()
        .filter(|tool| tool["name"] != "read_result")
        .count()
}

#[test]
fn components_are_listed_searched_and_described_without_their_code_and_the_first_call_loads_one() {
    let count = 40;
    let shelf = Shelf::new(count);
    shelf.load_and_forget_code(count);
    let found = shelf
        .run(&["search", "select:many7.echo", text(&shelf.tools), "--json"])
        .run()
        .exits(0)
        .json();
    assert_eq!(found["matches"][0]["name"], "many7.echo");
    let described = shelf
        .run(&["describe", text(&shelf.tool(7)), "--json"])
        .run()
        .exits(0)
        .json();
    assert_eq!(described["declarations"][0]["namespace"], "many7");
    let mut client = shelf.client();
    assert_eq!(listed(&mut client), count);
    assert_eq!(
        shelf.compiled(),
        Vec::<PathBuf>::new(),
        "something was compiled, and nothing was called"
    );
    let answer = client.call("many7_echo", json!({ "n": 7 }));
    assert_eq!(answer["structuredContent"], json!({ "n": 7 }), "{answer:#}");
    assert_eq!(shelf.compiled().len(), 1);
    // The arguments are checked, although no schema was compiled at the start.
    for _ in 0..2 {
        let refused = client.call("many8_echo", json!({ "n": "x" }));
        assert_eq!(
            refused["_meta"]["toolcell/error"]["class"], "schema_validation_failed",
            "{refused:#}"
        );
    }
    assert_eq!(shelf.compiled().len(), 1);
}

#[test]
fn definitions_over_http_load_no_code_and_the_head_of_one_loads_not_even_that() {
    let count = 3;
    let shelf = Shelf::new(count);
    shelf.load_and_forget_code(count);
    let web = Web::run(shelf.run(&[
        "serve",
        "--listen=127.0.0.1:0",
        text(&shelf.tools),
        "--max-listed=1",
    ]));
    let answer = |line: &str, body: &str| {
        let reply = web.request(line, &[], body);
        assert_eq!(reply.status, 200, "{line}: {reply:?}");
        reply.body
    };
    let listed = || {
        let tools: Value = serde_json::from_str(&answer("GET /v1/tools", "")).unwrap();
        tools["tools"].as_array().unwrap().len()
    };
    assert_eq!(listed(), 1);
    for path in ["/v1/tools/many1_echo", "/v1/dialects/otc/tools/many2.echo"] {
        let before = listed();
        assert_eq!(answer(&format!("HEAD {path}"), ""), "");
        assert_eq!(listed(), before, "{path}");
        assert!(answer(&format!("GET {path}"), "").contains("echo"));
        assert_eq!(listed(), before + 1, "{path}");
    }
    for path in [
        "/v1/dialects/otc/tools",
        "/v1/dialects/agentool/registry",
        "/v1/search?q=answers",
    ] {
        answer(&format!("GET {path}"), "");
    }
    assert_eq!(
        shelf.compiled(),
        Vec::<PathBuf>::new(),
        "something was compiled, and nothing was called"
    );
    answer(
        "POST /v1/calls",
        &json!({ "tool": "many2_echo", "input": { "n": 7 } }).to_string(),
    );
    assert_eq!(shelf.compiled().len(), 1);
}

#[test]
fn the_others_are_searched_by_their_notes_if_a_component_cannot_be_loaded() {
    let count = 40;
    let shelf = Shelf::new(count);
    shelf.load_and_forget_code(count);
    let broken = shelf.tools.join("0020-broken.wasm");
    fs::write(&broken, "not a component").unwrap();
    let gone = shelf.tool(count);
    let tools = [shelf.tool(3), gone.clone(), broken.clone(), shelf.tool(30)];
    let arguments = [
        &["search", "select:many3.echo,many30.echo", "--json"][..],
        &tools.each_ref().map(|tool| text(tool)),
    ];
    let found = shelf.run(&arguments.concat()).run().exits(0).json();
    let matches: Vec<_> = found["matches"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].clone())
        .collect();
    assert_eq!(matches, ["many3.echo", "many30.echo"]);
    let unavailable: Vec<_> = found["unavailable_providers"]
        .as_array()
        .unwrap()
        .iter()
        .collect();
    assert_eq!(
        (&unavailable[0]["provider"], &unavailable[0]["error_code"]),
        (&json!(gone), &json!("unknown_tool"))
    );
    assert_eq!(
        (&unavailable[1]["provider"], unavailable.len()),
        (&json!(broken), 2)
    );
    let all = shelf
        .run(&["search", "select:many39.echo", text(&shelf.tools), "--json"])
        .run()
        .exits(0)
        .json();
    assert_eq!(all["matches"][0]["name"], "many39.echo");
    assert_eq!(
        shelf.compiled(),
        Vec::<PathBuf>::new(),
        "something was compiled"
    );
}

#[test]
fn a_note_that_was_forged_or_cut_counts_for_nothing() {
    let shelf = Shelf::new(1);
    shelf.load_and_forget_code(1);
    let note = shelf.notes().remove(0);
    let good = fs::read(&note).unwrap();
    let describe = || {
        shelf
            .run(&["describe", text(&shelf.tool(0)), "--json"])
            .run()
            .exits(0)
            .json()
    };
    let honest = "Answers its input";
    let at = good
        .windows(honest.len())
        .position(|bytes| bytes == honest.as_bytes())
        .unwrap();
    let mut forged = good.clone();
    forged[at..at + 7].copy_from_slice(b"Obeys  ");
    let other = {
        let other = Shelf::new(1);
        other.load_and_forget_code(1);
        fs::read(other.notes().remove(0)).unwrap()
    };
    for bad in [
        forged,
        good[..good.len() - 1].to_vec(),
        good[..31].to_vec(),
        Vec::new(),
        other,
    ] {
        fs::write(&note, bad).unwrap();
        assert_eq!(describe()["declarations"][0]["description"], honest);
        // It was read again, and noted anew.
        assert_eq!(
            (
                fs::read(&note).unwrap()[..32] == good[..32],
                shelf.compiled().len()
            ),
            (true, 1)
        );
        shelf
            .compiled()
            .iter()
            .for_each(|entry| fs::remove_file(entry).unwrap());
    }
}

#[test]
fn a_component_that_was_replaced_is_described_anew() {
    let shelf = Shelf::new(2);
    shelf.load_and_forget_code(2);
    let next = shelf.tools.join("next");
    let changed = declaring("many0", |declaration| {
        declaration["description"] = json!("Answers something else")
    });
    fs::write(&next, changed).unwrap();
    fs::rename(&next, shelf.tool(0)).unwrap();
    let described = shelf
        .run(&["describe", text(&shelf.tool(0)), "--json"])
        .run()
        .exits(0)
        .json();
    assert_eq!(
        described["declarations"][0]["description"],
        "Answers something else"
    );
    assert_eq!(
        shelf.compiled().len(),
        1,
        "the other component was not needed"
    );
}

#[test]
fn a_component_that_cannot_be_loaded_any_more_fails_the_call_and_nothing_else() {
    let shelf = Shelf::new(2);
    shelf.load_and_forget_code(2);
    let mut client = shelf.client();
    assert_eq!(listed(&mut client), 2);
    fs::write(shelf.tool(0), b"\0asm not a component").unwrap();
    let refused = client.call("many0_echo", json!({}));
    let error = &refused["_meta"]["toolcell/error"];
    assert_eq!(
        (&error["class"], &error["code"]),
        (
            &json!("dependency_unavailable"),
            &json!("component_changed")
        )
    );
    assert_eq!(
        client.call("many1_echo", json!({ "n": 1 }))["isError"],
        json!(false)
    );
}

#[test]
fn the_time_of_a_call_includes_the_loading_of_code_which_goes_on_without_it() {
    let shelf = Shelf::of([wat::parse_str(slow_to_compile(1_000)).unwrap()]);
    shelf.load_and_forget_code(1);
    // Enough for the checks before the call, far less than compiling takes.
    let mut client = Client::run(shelf.run(&["mcp", text(&shelf.tool(0)), "--timeout=100ms"]));
    client.initialize(OLD);
    let call = |client: &mut Client| client.call("echo", json!({ "text": "hi" }));
    let late = call(&mut client);
    let error = &late["_meta"]["toolcell/error"];
    assert_eq!(
        (&error["class"], &error["code"]),
        (&json!("timeout"), &json!("deadline_exceeded")),
        "{late:#}"
    );
    wait_until("loading the code without a call", || {
        shelf.compiled().len() == 1
    });
    wait_until("a call in time", || {
        call(&mut client)["isError"] == json!(false)
    });
}

#[tokio::test]
async fn calls_that_wait_for_one_load_share_its_failure_and_the_next_call_loads_again() {
    const CALLS: usize = 5;
    let shelf = Shelf::new(1);
    shelf.load_and_forget_code(1);
    // A compiler that counts its starts, and fails when it may.
    let [compiler, starts, go] =
        ["compiler", "starts", "go"].map(|name| shelf.tools.with_file_name(name));
    let script = format!(
        "#!/bin/sh\necho started >> '{}'\nwhile [ ! -e '{}' ]; do /bin/sleep 0.01; done\nexit 9\n",
        starts.display(),
        go.display()
    );
    fs::write(&compiler, script).unwrap();
    fs::set_permissions(&compiler, fs::Permissions::from_mode(0o755)).unwrap();
    let listener = Arc::new(RecordingListener::default());
    let heard = Arc::clone(&listener);
    let host = own_host(|settings| {
        settings
            .home(Home::at(&shelf.home))
            .compiler(compiler)
            .calls_at_once(10)
            .listener(heard)
    });
    host.load_file(&shelf.tool(0)).await.unwrap();
    let call = || {
        let host = Arc::clone(&host);
        async move {
            host.call(Request::new("many0.echo", json!({ "n": 1 })))
                .await
                .result
                .error
                .unwrap()
                .error_code
        }
    };
    let started = || fs::read_to_string(&starts).unwrap().lines().count();
    let crowd: JoinSet<String> = (0..CALLS).map(|_| call()).collect();
    // A call that has started waits for the load, or makes it.
    listener
        .wait_for_count("many0.echo", "tool.invocation.started", CALLS)
        .await;
    fs::write(&go, "").unwrap();
    assert_eq!(crowd.join_all().await, ["host_fault"; CALLS]);
    assert_eq!(started(), 1);
    assert_eq!((call().await.as_str(), started()), ("host_fault", 2));
}

#[tokio::test]
async fn bytes_that_are_given_are_loaded_instead_of_the_file_that_held_them() {
    let shelf = Shelf::new(1);
    shelf.load_and_forget_code(1);
    let host = own_host(|settings| settings.home(Home::at(&shelf.home)));
    host.load_file(&shelf.tool(0)).await.unwrap();
    assert!(shelf.compiled().is_empty(), "the component was recalled");
    let bytes = fs::read(shelf.tool(0)).unwrap();
    fs::write(shelf.tool(0), b"\0asm not a component").unwrap();
    host.load(&bytes).await.unwrap();
    let called = host
        .call(Request::new("many0.echo", json!({ "n": 1 })))
        .await;
    assert!(called.result.error.is_none(), "{:?}", called.result.error);
}

#[test]
fn a_folder_is_served_with_what_the_user_adds_to_it_and_no_tool_adds_anything() {
    let shelf = Shelf::new(2);
    let grant = format!("--allow-write={}", shelf.tools.display());
    let mut client =
        Client::run(shelf.run(&["mcp", text(&shelf.tools), &guest("probe#append"), &grant]));
    client.initialize(OLD);
    assert_eq!(listed(&mut client), 3);
    let planted = shelf.tools.join("planted.wasm");
    let refused = client.call("append", json!({ "path": planted, "text": "x" }));
    assert!(
        refused["isError"] == json!(true) && !planted.exists(),
        "{refused:#}"
    );
    fs::write(shelf.tools.join(".draft.wasm"), "not yet").unwrap();
    let next = shelf.tools.join("next");
    fs::write(&next, echoing("many2", |_| {})).unwrap();
    fs::rename(&next, shelf.tool(2)).unwrap();
    client.until(|frame| frame["method"] == "notifications/tools/list_changed");
    assert_eq!(listed(&mut client), 4);
}
