//! Tools and configuration that change while a server runs.
//!
//! Promise: An approval is void once its component changes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use toolcell::{
    Hook, HookCall, HookEvent, HookFuture, Policy, Provenance, Registration, Rule, RuleWords,
};
use toolcell_server::HttpLimits;
use toolcell_spec::Mode;

use crate::sandbox::compiling::bomb::compile_bomb;
use crate::support::{
    Client, Coming, Toolcell, Web, bare_names, check_printed, fixture, frame, root, scratch,
    share_compiled, wat, web,
};

/// A folder with its own configuration, whose tools can be replaced.
struct Shop {
    _guard: tempfile::TempDir,
    folder: PathBuf,
    home: PathBuf,
}

impl Shop {
    fn new(config: &str) -> Self {
        let (guard, path) = scratch();
        let folder = path.join("shop");
        let home = path.join("home");
        std::fs::create_dir(&folder).unwrap();
        std::fs::create_dir(&home).unwrap();
        share_compiled(&home);
        let shop = Self {
            _guard: guard,
            folder,
            home,
        };
        shop.put("probe", "tool.wasm");
        shop.configure(config);
        shop
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Replaces a tool with the component of a test guest, atomically.
    fn put(&self, guest: &str, name: &str) {
        let next = self.file("next");
        std::fs::copy(fixture(guest), &next).unwrap();
        std::fs::rename(next, self.file(name)).unwrap();
    }

    fn configure(&self, text: &str) {
        replace(&self.file("toolcell.toml"), text);
    }

    fn options(&self) -> Vec<String> {
        vec![format!("--config={}", self.file("toolcell.toml").display())]
    }

    fn client(&self, capabilities: Value) -> Client {
        let mut arguments = vec!["mcp".to_owned()];
        arguments.extend(self.options());
        let mut client =
            Client::run(Toolcell::at(&self.home, arguments).env("TOOLCELL_SESSION", ""))
                .can(capabilities);
        client.initialize("2025-11-25");
        client
    }
}

fn replace(file: &Path, text: impl AsRef<[u8]>) {
    let next = file.with_extension("next");
    std::fs::write(&next, text).unwrap();
    std::fs::rename(next, file).unwrap();
}

fn names(client: &mut Client) -> Vec<String> {
    let listed = client.request("tools/list", json!({}))["result"]["tools"].clone();
    bare_names(&listed)
}

fn list_changed(client: &mut Client, times: usize) {
    let meant = |frame: &&Value| frame["method"] == "notifications/tools/list_changed";
    client.until(|frame| meant(&frame));
    while client.seen().iter().filter(meant).count() < times {
        // Other frames may come first; a ping waits for the next one.
        client.request("ping", json!({}));
    }
}

const ECHO: &str = "[[tool]]\ncomponent = \"tool.wasm#echo\"\n";
const TWO: &str = "[[tool]]\ncomponent = \"tool.wasm#echo\"\n[[tool]]\ncomponent = \"tool.wasm#hold\"\ntimeout = \"200ms\"\n";

#[test]
fn tools_come_from_the_configuration_with_a_timeout_each() {
    let shop = Shop::new(TWO);
    let mut client = shop.client(json!({}));
    assert_eq!(names(&mut client), ["echo", "hold", "read_result"]);
    let slow = client.call("hold", json!({ "ms": 5_000 }));
    assert_eq!(slow["_meta"]["toolcell/error"]["class"], "timeout");
}

/// An update puts another program in its place; the one that runs compiles with itself.
#[test]
fn a_server_compiles_while_its_program_is_replaced() {
    let (_guard, folder) = scratch();
    let program = folder.join("toolcell");
    std::fs::copy(env!("CARGO_BIN_EXE_toolcell"), &program).unwrap();
    let tool = folder.join("tool.wasm");
    std::fs::write(&tool, wat("plain")).unwrap();
    let mut command = Command::new(&program);
    command
        .arg("mcp")
        .arg(&tool)
        .env("TOOLCELL_HOME", folder.join("home"));
    let mut client = Client::run(Toolcell::exactly(command));
    client.initialize("2025-11-25");
    let before = names(&mut client);
    replace(&program, "another program");
    replace(&tool, wat("echo"));
    list_changed(&mut client, 1);
    assert_ne!(names(&mut client), before);
    let answer = client.call("echo", json!({ "text": "hello" }));
    assert_ne!(answer["isError"], true, "{answer}");
}

#[test]
fn a_changed_configuration_counts_at_once_and_is_announced() {
    let shop = Shop::new(ECHO);
    let mut client = shop.client(json!({}));
    assert_eq!(names(&mut client), ["echo", "read_result"]);
    shop.configure(TWO);
    list_changed(&mut client, 1);
    assert_eq!(names(&mut client), ["echo", "hold", "read_result"]);
    // A new denial applies too. The tool is not listed any more, and a call of it is refused.
    shop.configure(&format!(
        "{TWO}[[rule]]\nbehavior = \"deny\"\ntool = \"echo\"\n"
    ));
    client.says("now serving the new version");
    let refused = loop {
        let answer = client.call("echo", json!({}));
        if answer["isError"] == json!(true) {
            break answer;
        }
    };
    assert_eq!(
        refused["_meta"]["toolcell/error"]["class"],
        "permission_denied"
    );
    assert_eq!(names(&mut client), ["hold", "read_result"]);
}

#[test]
fn changed_settings_of_a_tool_count_from_a_later_call_on() {
    let shop = Shop::new("");
    shop.put("configured", "tool.wasm");
    let configure = |unit: &str| {
        shop.configure(&format!(
            "[[tool]]\ncomponent = \"tool.wasm#settings\"\nconfig.unit = \"{unit}\"\n"
        ));
    };
    configure("metre");
    let mut client = shop.client(json!({}));
    let given = |client: &mut Client| {
        client.call("settings", json!({}))["structuredContent"]["given"].clone()
    };
    assert_eq!(given(&mut client), json!([r#"{"unit":"metre"}"#]));
    configure("yard");
    client.says("now serving the new version");
    let began = Instant::now();
    loop {
        let now = given(&mut client);
        if now == json!([r#"{"unit":"yard"}"#]) {
            break;
        }
        assert!(
            now == json!([r#"{"unit":"metre"}"#]) && began.elapsed() < Duration::from_secs(20),
            "{now}"
        );
    }
}

#[test]
fn a_changed_component_is_swapped_and_a_call_that_runs_finishes_on_the_old_one() {
    let shop = Shop::new("[[tool]]\ncomponent = \"tool.wasm\"\n");
    let mut client = shop.client(json!({}));
    let running = client.begin_call("hold", json!({ "ms": 3_000 }));
    shop.put("cancellable", "tool.wasm");
    list_changed(&mut client, 1);
    let now = names(&mut client);
    assert!(
        now.contains(&"cooperative".to_owned()) && !now.contains(&"hold".to_owned()),
        "{now:?}"
    );
    assert!(client.answer(&running)["result"]["structuredContent"]["left_ns"].is_number());
    let id = client.begin_call("hold", json!({ "ms": 1 }));
    assert_eq!(client.answer(&id)["error"]["code"], json!(-32602));
}

#[test]
#[cfg(target_os = "linux")]
fn a_component_that_changes_while_the_server_loads_it_is_swapped() {
    let shop = Shop::new("[[tool]]\ncomponent = \"tool.wasm\"\n");
    shop.put("cancellable", "tool.wasm");
    // Nothing is compiled in this home, so that loading takes a while.
    let home = shop.folder.join("home");
    let arguments = [vec!["mcp".to_owned()], shop.options()].concat();
    let next = shop.file("next");
    std::fs::write(&next, wat("echo")).unwrap();
    let mut client = Client::run(Toolcell::at(&home, arguments).env("TOOLCELL_SESSION", ""));
    let children = format!("/proc/{0}/task/{0}/children", client.pid());
    let began = Instant::now();
    // The compiler has the old component.
    while std::fs::read_to_string(&children)
        .unwrap_or_default()
        .trim()
        .is_empty()
    {
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "nothing was compiled"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    std::fs::rename(next, shop.file("tool.wasm")).unwrap();
    client.initialize("2025-11-25");
    client.says("now serving the new version");
    assert_eq!(names(&mut client), ["echo", "read_result"]);
}

#[test]
fn what_cannot_be_used_is_said_and_the_old_goes_on() {
    let shop = Shop::new(ECHO);
    let mut client = shop.client(json!({}));
    // Not a component, a component that describes itself differently every time, and an invalid configuration.
    for (what, change, said) in [
        ("tool.wasm", b"not a component".to_vec(), "tool.wasm#echo: "),
        ("tool.wasm", wat("describe-changes"), "differently"),
        (
            "toolcell.toml",
            b"[[tool]]\ncomponent = 7\n".to_vec(),
            "toolcell.toml",
        ),
    ] {
        replace(&shop.file(what), change);
        client.says(said);
        assert_eq!(names(&mut client), ["echo", "read_result"]);
        assert_eq!(
            client.call("echo", json!({ "n": 1 }))["isError"],
            json!(false)
        );
    }
    client.says("still serving the previous version");
    // The fixed files are used again.
    shop.put("probe", "tool.wasm");
    shop.configure(TWO);
    list_changed(&mut client, 1);
    assert_eq!(names(&mut client), ["echo", "hold", "read_result"]);
    assert!(
        client
            .seen()
            .iter()
            .all(|frame| frame["not a frame"].is_null())
    );
}

const DEFERRED: &str = "[surface]\nmax_listed = 0\n[[tool]]\ncomponent = \"tool.wasm#echo\"\n\
                        [[tool]]\ncomponent = \"tool.wasm#lifecycle_deprecated\"\n";

/// The components that a search names: those that are being loaded, and those that could not be.
fn providers(client: &mut Client) -> [Value; 2] {
    let found =
        client.call("search_tools", json!({ "query": "select:echo" }))["structuredContent"].clone();
    check_printed(&found);
    // What was offered before is found all the time.
    assert_eq!(found["matches"][0]["name"], "probe_echo", "{found:#}");
    [
        found["pending_providers"].clone(),
        found["unavailable_providers"].clone(),
    ]
}

/// Searches until the result is `wanted`.
fn until_told(client: &mut Client, wanted: impl Fn(&[Value; 2]) -> bool) -> [Value; 2] {
    let began = Instant::now();
    loop {
        let told = providers(client);
        if wanted(&told) {
            return told;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{told:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn echo_state(client: &mut Client) -> (Value, Value) {
    state(client, "echo")
}

/// The state of the tool in a search, and its component, if that is being loaded.
fn state(client: &mut Client, name: &str) -> (Value, Value) {
    let query = json!({ "query": format!("select:{name}") });
    let found = client.call("search_tools", query)["structuredContent"].clone();
    let tool = &found["matches"][0];
    let next = match tool["loading_state"].as_str().unwrap() {
        "deferred" => "load",
        "discoverable" => "call",
        "unavailable" => "none",
        _ => "search_again",
    };
    assert_eq!(found["next_action"], next, "{found:#}");
    (
        tool["loading_state"].clone(),
        tool["pending_provider_or_server"].clone(),
    )
}

/// Ends the compilation that the server of `client` waits for.
fn kill_compiler(client: &Client) {
    let began = Instant::now();
    let worker = loop {
        if let Some(worker) = compiler(client.pid()) {
            break worker;
        }
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "no compiler was started"
        );
        std::thread::sleep(Duration::from_millis(5));
    };
    kill_process(worker, Signal::KILL).unwrap();
}

/// The process that compiles for the server with the PID `server`.
fn compiler(server: u32) -> Option<Pid> {
    let tasks = std::fs::read_dir(format!("/proc/{server}/task")).ok()?;
    let children = tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let mut pids = children.filter_map(|text| text.split_whitespace().next()?.parse().ok());
    Pid::from_raw(pids.next()?)
}

#[test]
fn a_search_names_the_components_that_are_loaded_or_could_not_be() {
    let shop = Shop::new(DEFERRED);
    let mut client = shop.client(json!({}));
    let nothing = [json!([]), json!([])];
    assert_eq!(providers(&mut client), nothing);
    replace(&shop.file("tool.wasm"), b"not a component");
    client.says("still serving the previous version");
    let [pending, unavailable] = providers(&mut client);
    assert_eq!(
        (&pending, &unavailable[0]["provider"]),
        (&json!([]), &json!("tool.wasm"))
    );
    shop.put("probe", "tool.wasm");
    until_told(&mut client, |told| *told == nothing);
    // A new component that takes long to compile is pending until it is loaded, or cannot be.
    replace(
        &shop.file("bomb.wasm"),
        ::wat::parse_str(compile_bomb()).unwrap(),
    );
    shop.configure(&format!("{DEFERRED}[[tool]]\ncomponent = \"bomb.wasm\"\n"));
    until_told(&mut client, |told| {
        *told == [json!(["bomb.wasm"]), json!([])]
    });
    assert_eq!(
        echo_state(&mut client),
        (json!("deferred"), Value::Null),
        "its component is another one"
    );
    kill_compiler(&client);
    let [pending, unavailable] = until_told(&mut client, |[pending, _]| *pending == json!([]));
    let killed = json!({ "provider": "bomb.wasm", "error_class": "sandbox_violation", "error_code": "compile_killed" });
    assert_eq!((pending, unavailable), (json!([]), json!([killed])));
    shop.configure(DEFERRED);
    until_told(&mut client, |told| *told == nothing);
    let deprecated = "lifecycle_deprecated";
    let discoverable = (json!("discoverable"), Value::Null);
    assert_eq!(state(&mut client, deprecated), discoverable);
    // A tool whose own component is loaded anew says so, in a search and in the surface.
    replace(
        &shop.file("tool.wasm"),
        ::wat::parse_str(compile_bomb()).unwrap(),
    );
    until_told(&mut client, |[pending, _]| *pending == json!(["tool.wasm"]));
    assert_eq!(
        echo_state(&mut client),
        (json!("pending_provider"), json!("tool.wasm"))
    );
    assert_eq!(
        state(&mut client, deprecated),
        (json!("pending_provider"), json!("tool.wasm"))
    );
    let surface = client.request("toolcell/surface", json!({}))["result"].clone();
    assert_eq!(
        surface["deferred_tools"][0]["loading_state"],
        "pending_provider"
    );
    kill_compiler(&client);
    until_told(&mut client, |[pending, _]| *pending == json!([]));
    // The file is no longer what is served, so that nobody can load its schema.
    let unavailable = (json!("unavailable"), Value::Null);
    assert_eq!(echo_state(&mut client), unavailable);
    assert_eq!(state(&mut client, deprecated), unavailable);
    let refused = client.call("load_tool", json!({ "name": deprecated }));
    assert_eq!(refused["isError"], true, "{refused:#}");
    let surface = client.request("toolcell/surface", json!({}))["result"].clone();
    assert_eq!(surface["deferred_tools"][0]["reason"], "setup_required");
    let refused = client.call("load_tool", json!({ "name": "echo" }));
    let error = &refused["_meta"]["toolcell/error"];
    assert_eq!(error["code"], "tool_requires_setup", "{refused:#}");
    shop.put("probe", "tool.wasm");
    until_told(&mut client, |told| *told == nothing);
    assert_eq!(echo_state(&mut client), (json!("deferred"), Value::Null));
    assert_eq!(state(&mut client, deprecated), discoverable);
    client.call("load_tool", json!({ "name": deprecated }));
    assert_eq!(
        client.call(
            "search_tools",
            json!({ "query": format!("select:{deprecated}") })
        )["structuredContent"]["matches"][0]["loading_state"],
        "loaded"
    );
}

/// A folder that is granted does not exist yet: its tools wait for it, and the others do not.
#[test]
fn a_folder_that_appears_makes_its_tools_available() {
    let read = "[[tool]]\ncomponent = \"tool.wasm#read\"\n";
    let shop = Shop::new(&format!("[grants]\nread = [\"later\"]\n{ECHO}{read}"));
    let mut client = shop.client(json!({}));
    assert_eq!(names(&mut client), ["echo", "read_result"]);
    assert_eq!(client.call("echo", json!({}))["isError"], false);
    let folder = shop.file("later");
    let input = json!({ "path": folder.join("a") });
    let refused = client.call("read", input.clone());
    let error = &refused["_meta"]["toolcell/error"];
    assert_eq!(
        (&error["class"], &error["code"]),
        (&json!("setup_required"), &json!("tool_requires_setup"))
    );
    assert!(!refused.to_string().contains("later"), "{refused:#}");
    // With its file, because the folder may be used at once.
    let next = shop.file("next");
    std::fs::create_dir(&next).unwrap();
    std::fs::write(next.join("a"), "here").unwrap();
    std::fs::rename(next, &folder).unwrap();
    client.says("(updated: folders)");
    list_changed(&mut client, 1);
    assert_eq!(names(&mut client), ["echo", "read", "read_result"]);
    let answer = client.call("read", input);
    assert_eq!(answer["isError"], false, "{answer:#}");
    client.close();
    let events = Toolcell::at(&shop.home, ["events", "--json"]).run();
    let updated = |line: &&str| line.contains("tool.surface.updated");
    let events = events.exits(0).stdout;
    assert!(events.lines().filter(updated).count() > 0, "{events}");
}

#[test]
fn a_changed_component_inherits_no_approval() {
    let shop = Shop::new("");
    let config = format!(
        "[grants]\nwrite = [{:?}]\n[[tool]]\ncomponent = \"tool.wasm\"\n",
        shop.folder
    );
    shop.configure(&config);
    let mut client = shop.client(json!({ "elicitation": {} }));
    let arguments = json!({ "path": shop.file("lines"), "text": "one\n" });
    let always = json!({ "action": "accept", "content": { "decision": "run, and do not ask again this session" } });
    let id = client.begin_call("append_approved", arguments.clone());
    let first = client
        .until(|frame| frame["method"] == "elicitation/create")
        .1;
    client.send(&json!({ "jsonrpc": "2.0", "id": first["id"], "result": always }));
    client.answer(&id);
    assert_eq!(
        client.call("append_approved", arguments.clone())["isError"],
        json!(false)
    );
    // Another component with the same tools: it has one more custom section.
    let mut bytes = std::fs::read(fixture("probe")).unwrap();
    bytes.extend([0, 2, 1, b'x']);
    let next = shop.file("next");
    std::fs::write(&next, bytes).unwrap();
    std::fs::rename(next, shop.file("tool.wasm")).unwrap();
    client.says("now serving the new version");
    client.begin_call("append_approved", arguments);
    client.until(|frame| frame["method"] == "elicitation/create" && frame["id"] != first["id"]);
}

/// A tool that answers its input, with this description and this schema.
fn echo(description: &str, schema: &str) -> Vec<u8> {
    let text = std::fs::read_to_string(root().join("tests/guests/wat/echo.wat")).unwrap();
    let swap = |text: String, old: &str, new: &str| {
        assert!(text.contains(old), "{old}");
        text.replacen(old, new, 1)
    };
    let told = |description: &str, schema: &str| description.len() + schema.replace('\\', "").len();
    let bytes = 926 + told(description, schema) - told("Answers its input", PLAIN);
    let text = swap(text, "Answers its input\\\"", &format!("{description}\\\""));
    let text = swap(text, PLAIN, schema);
    let text = swap(text, "(i32.const 926)", &format!("(i32.const {bytes})"));
    wat::parse_str(text).unwrap()
}

/// Schemas as a string in component text, where quotes are escaped.
const PLAIN: &str = r#"{\"type\":\"object\"}"#;
const TITLED: &str = r#"{\"type\":\"object\",\"title\":\"whatever is to be deleted\"}"#;

#[test]
fn a_description_or_a_schema_that_changed_asks_again() {
    let shop = Shop::new("");
    let put = |component: Vec<u8>| replace(&shop.file("tool.wasm"), component);
    put(echo("Answers its input", PLAIN));
    shop.configure(
        "[[tool]]\ncomponent = \"tool.wasm\"\n[[rule]]\nbehavior = \"ask\"\ntool = \"wat.*\"\n",
    );
    let mut client = shop.client(json!({ "elicitation": {} }));
    let always = json!({ "action": "accept", "content": { "decision": "run, and do not ask again this session" } });
    let mut changes = [
        ("Deletes its input", PLAIN),
        ("Deletes its input", TITLED),
        ("Answers its input", TITLED),
    ]
    .into_iter();
    loop {
        client.forget();
        let id = client.begin_call("echo", json!({ "n": 1 }));
        let asked = client
            .until(|frame| frame["method"] == "elicitation/create")
            .1;
        client.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": always }));
        assert_eq!(client.answer(&id)["result"]["isError"], json!(false));
        // The client is not asked again while nothing changes.
        client.forget();
        assert_eq!(
            client.call("echo", json!({ "n": 1 }))["isError"],
            json!(false)
        );
        assert!(
            client
                .forget()
                .iter()
                .all(|frame| frame["method"] != "elicitation/create")
        );
        let Some((description, schema)) = changes.next() else {
            break;
        };
        put(echo(description, schema));
        list_changed(&mut client, 1);
        let listed = client.request("tools/list", json!({}))["result"]["tools"][0].clone();
        assert_eq!(listed["description"], description);
        assert_eq!(
            listed["inputSchema"].get("title").is_some(),
            schema == TITLED,
            "{listed}"
        );
    }
}

/// Holds calls back between their arrival and the decision on them.
struct Pause {
    arrived: Semaphore,
    go_on: Semaphore,
}

impl Hook for Pause {
    fn id(&self) -> &str {
        "pause"
    }

    fn events(&self) -> &[HookEvent] {
        &[HookEvent::PreToolUse]
    }

    fn handle<'a>(&'a self, _: &'a HookCall) -> HookFuture<'a> {
        Box::pin(async move {
            self.arrived.add_permits(1);
            self.go_on.acquire().await.unwrap().forget();
            Ok(Vec::new()).into()
        })
    }
}

#[test]
fn a_call_is_decided_by_the_policy_that_it_arrived_under() {
    let pause = Arc::new(Pause {
        arrived: Semaphore::new(0),
        go_on: Semaphore::new(0),
    });
    let runtime = web::runtime();
    let handle = runtime.handle().clone();
    let mut host = crate::support::host(|settings| settings);
    let hook = Registration::new(Arc::<Pause>::clone(&pause)).within(Duration::from_secs(60));
    host.add_hook(hook).unwrap();
    let before = handle.block_on(web::offering("probe", host, Policy::default()));
    let server = web::server(before);
    let ends = Box::pin(std::future::pending());
    let web = Web::serving(runtime, Arc::clone(&server), HttpLimits::default(), ends);
    let echo = json!({ "name": "echo", "arguments": {} });
    let of_mcp = web.begin_stateless("tools/call", echo.clone(), json!({}));
    let body = json!({ "tool": "echo", "input": {} }).to_string();
    let of_http = web.begin("POST /v1/calls", &web.headers(), &body);
    let deny = RuleWords {
        behavior: "deny",
        tool: Some("*"),
        ..RuleWords::default()
    };
    let deny = Rule::compile(&deny, &Provenance::COMMAND_LINE).unwrap();
    handle.block_on(async {
        pause.arrived.acquire_many(2).await.unwrap().forget();
        let policy = Policy::new(Mode::Default, vec![deny]);
        let after = web::offering("probe", crate::support::host(|settings| settings), policy).await;
        server.replace(after).await;
    });
    let refused = web.request("POST /v1/calls", &[], &body);
    assert!(refused.body.contains("denied_by_rule"), "{refused:?}");
    pause.go_on.add_permits(2);
    let of_mcp = Coming::head(of_mcp).whole().answer()["result"].clone();
    assert!(
        of_mcp["content"].is_array() && of_mcp["isError"] != json!(true),
        "{of_mcp:#}"
    );
    let of_http = Coming::head(of_http).whole();
    assert!(of_http.body.contains("\"succeeded\""), "{of_http:?}");
}

#[test]
fn a_question_that_is_open_is_closed_by_a_change() {
    let shop = Shop::new("");
    let config = format!(
        "[grants]\nwrite = [{:?}]\n[[tool]]\ncomponent = \"tool.wasm\"\n",
        shop.folder
    );
    shop.configure(&config);
    let mut client = shop.client(json!({}));
    let id = client.begin_call(
        "append_approved",
        json!({ "path": shop.file("lines"), "text": "never\n" }),
    );
    client.says("waiting for approval");
    shop.put("cancellable", "tool.wasm");
    let answer = client.answer(&id)["result"].clone();
    assert_eq!(
        answer["_meta"]["toolcell/error"]["class"], "approval_rejected",
        "{answer:#}"
    );
    assert!(!shop.file("lines").exists());
}

#[test]
fn the_newer_revision_hears_of_changes_where_it_listens() {
    let shop = Shop::new(ECHO);
    let mut arguments = vec!["serve".to_owned(), "--listen=127.0.0.1:0".to_owned()];
    arguments.extend(shop.options());
    let web = Web::run(Toolcell::at(&shop.home, arguments));
    let mut params = json!({ "notifications": { "toolsListChanged": true } });
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({ "name": "t", "version": "1" });
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    let more = [
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "subscriptions/listen"),
    ];
    let mut coming = web.send(
        "POST /mcp",
        &web.changed(&more),
        &frame(json!(1), "subscriptions/listen", params),
    );
    assert_eq!(coming.status, 200, "{}", coming.head);
    assert_eq!(
        coming.next()["method"],
        "notifications/subscriptions/acknowledged"
    );
    shop.configure(TWO);
    web.says("now serving the new version");
    assert_eq!(coming.next()["method"], "notifications/tools/list_changed");
    let listed =
        web.stateless("tools/list", json!({}), json!({})).answer()["result"]["tools"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 3);
}
