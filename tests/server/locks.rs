//! Calls of clients in parallel: what could disturb each other takes turns, whatever door it comes through.
//!
//! Promise: One client does not lock out another.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Client, Web, records, scratch};

/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const ANNA: &str = "0123456789abcdef0";
const BERT: &str = "fedcba98765432100";

/// A folder with folders in it, to which tools may write.
struct Place {
    _guard: tempfile::TempDir,
    root: PathBuf,
}

impl Place {
    fn new() -> Self {
        let (guard, path) = scratch();
        let root = path.join("work");
        for folder in ["one/inner", "other"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        Self {
            _guard: guard,
            root,
        }
    }

    fn grant(&self) -> String {
        format!("--allow-write={}", self.root.display())
    }

    fn hold(&self, folder: &str, ms: u64) -> Value {
        json!({ "path": self.root.join(folder), "ms": ms })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.root.with_file_name(name)
    }
}

/// When the guest entered and left, by its own clock.
#[track_caller]
fn held(said: &Value) -> (u64, u64) {
    let time = |name: &str| {
        said[name]
            .as_u64()
            .unwrap_or_else(|| panic!("it did not hold: {said}"))
    };
    (time("entered_ns"), time("left_ns"))
}

fn overlap(one: (u64, u64), other: (u64, u64)) -> bool {
    one.0 < other.1 && other.0 < one.1
}

#[test]
fn writers_to_one_folder_take_turns_and_those_elsewhere_run_beside_them() {
    let place = Place::new();
    let mut client = Client::with(&["probe#hold_writing"], [place.grant()]);
    client.call("hold_writing", place.hold("one", 1));
    let ids = ["one", "one", "one/inner", "other"]
        .map(|folder| client.begin_call("hold_writing", place.hold(folder, 500)));
    let [first, second, inner, other] =
        ids.map(|id| held(&client.answer(&id)["result"]["structuredContent"]));
    for (one, another) in [(first, second), (second, inner), (first, inner)] {
        assert!(!overlap(one, another), "{one:?} {another:?}");
    }
    assert!(
        [first, second, inner]
            .iter()
            .any(|one| overlap(*one, other)),
        "{other:?} waited for them"
    );
}

#[test]
fn a_call_that_waits_for_its_user_keeps_no_other_call_waiting() {
    let place = Place::new();
    let client = Client::silent(
        &["probe#append_approved", "probe#hold_writing"],
        [place.grant()],
    );
    let mut client = client.can(json!({ "elicitation": {} }));
    client.initialize(crate::support::OLD);
    let asked = json!({ "path": place.root.join("one/lines"), "text": "never\n" });
    client.begin_call("append_approved", asked);
    client.until(|frame| frame["method"] == "elicitation/create");
    let held = client.call("hold_writing", place.hold("one", 1));
    assert_eq!(held["isError"], json!(false), "{held:#}");
}

#[test]
fn a_refusal_for_a_while_says_for_how_long() {
    let mut client = Client::of(&["probe#fail"]);
    let refused = client.call(
        "fail",
        json!({ "class": "rate_limited", "retry_after_ms": 1_500 }),
    );
    let error = &refused["_meta"]["toolcell/error"];
    assert_eq!(
        (&error["class"], &error["retry_after"]),
        (&json!("rate_limited"), &json!(1.5))
    );
}

/// A server with two principals.
fn of_two(place: &Place, record: &Path) -> Web {
    let tokens = place.file("tokens");
    std::fs::write(&tokens, format!("anna {ANNA}\nbert {BERT}\n")).unwrap();
    std::fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let options = [
        place.grant(),
        format!("--token-file={}", tokens.display()),
        format!("--record-to={}", record.display()),
        "--timeout=2m".to_owned(),
    ];
    Web::with(&["probe#hold_writing"], options)
}

fn begin(web: &Web, place: &Place, folder: &str, ms: u64) -> TcpStream {
    let params = json!({ "name": "hold_writing", "arguments": place.hold(folder, ms) });
    web.begin_stateless("tools/call", params, json!({}))
}

/// Waits for `count` records.
fn recorded(file: &Path, count: usize) -> Vec<Value> {
    let began = Instant::now();
    loop {
        let found = records(file);
        if found.len() >= count {
            return found;
        }
        assert!(
            began.elapsed() < PATIENCE,
            "{} of {count} records came",
            found.len()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn stay(record: &Value) -> (u64, u64) {
    held(&record["result"]["structured_content"])
}

#[test]
fn the_flood_of_one_principal_lets_the_call_of_another_have_its_turn() {
    const FLOOD: usize = 20;
    let place = Place::new();
    let record = place.file("records");
    let mut web = of_two(&place, &record);
    web.token = ANNA.to_owned();
    let mut streams: Vec<TcpStream> = (0..FLOOD)
        .map(|_| begin(&web, &place, "one", 150))
        .collect();
    recorded(&record, 2);
    web.token = BERT.to_owned();
    streams.push(begin(&web, &place, "one", 1));
    let mut stays: Vec<(bool, (u64, u64))> = recorded(&record, FLOOD + 1)
        .iter()
        .map(|record| {
            (
                record["invocation"]["actor_ref"] == "token:bert",
                stay(record),
            )
        })
        .collect();
    stays.sort_by_key(|(_, stay)| *stay);
    assert!(
        stays.windows(2).all(|pair| !overlap(pair[0].1, pair[1].1)),
        "{stays:?}"
    );
    let bert = stays.iter().position(|(of_bert, _)| *of_bert);
    let bert = bert.unwrap_or_else(|| panic!("{:#}", records(&record)[FLOOD]["invocation"]));
    assert!(
        bert < FLOOD - 5,
        "his call was number {bert} of {}",
        stays.len()
    );
    // The answers are read, so that no connection ends before its call.
    for stream in streams {
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        assert!(line.contains("200"), "{line}");
    }
}
