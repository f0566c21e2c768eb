//! The example tool `sql`: files of all kinds under a read grant, and what hostile ones and endless statements do.

use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::example;
use super::interrupts::{interrupt, listens, ticks, wait_until};
use super::readme::commands_of;
use crate::support::{Ran, Toolcell, root, scratch};

const ENDLESS: &str =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";

/// A call in `folder`, which is granted for reading.
fn call(folder: &Path, tool: &str, input: &Value, options: &[&str]) -> Toolcell {
    let target = format!("{}#{tool}", example("sql"));
    let input = input.to_string();
    let grant = format!("--allow-read={}", folder.display());
    let all = ["call", &target, &input, &grant]
        .into_iter()
        .chain(options.iter().copied());
    Toolcell::new(all).dir(folder)
}

fn query(folder: &Path, sql: &str, files: &[&str]) -> Ran {
    let files: Vec<Value> = files.iter().map(|path| json!({ "path": path })).collect();
    call(
        folder,
        "query",
        &json!({ "sql": sql, "files": files }),
        &["--json"],
    )
    .run()
}

fn code(ran: &Ran) -> String {
    ran.json()["error"]["error_code"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn database(path: &Path, sql: &str) {
    rusqlite::Connection::open(path)
        .unwrap()
        .execute_batch(sql)
        .unwrap();
}

#[test]
fn the_readme_of_sql_shows_what_its_commands_print() {
    let printed = commands_of("example-tools/sql");
    let readme = std::fs::read_to_string(root().join("example-tools/sql/README.md")).unwrap();
    let shown = readme
        .split("```text\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    assert_eq!(printed[0], shown);
    assert!(
        printed[1]
            .starts_with("requests (time TEXT, service TEXT, status INTEGER, ms INTEGER), 8 rows"),
        "{printed:?}"
    );
}

#[test]
fn files_of_all_kinds_are_joined() {
    let (_guard, folder) = scratch();
    std::fs::write(
        folder.join("people.csv"),
        "id;name;zip\n1;Ada;00123\n2;Bob;\n",
    )
    .unwrap();
    std::fs::write(
        folder.join("notes.ndjson"),
        "{\"id\": 1, \"tags\": [\"a\", \"b\"]}\n",
    )
    .unwrap();
    database(
        &folder.join("shop.db"),
        "CREATE TABLE orders (id, total); INSERT INTO orders VALUES (1, 2.5), (1, 3);",
    );
    let sql = "SELECT name, zip, sum(total), notes.tags ->> 1 FROM people JOIN shop.orders USING (id) JOIN notes USING (id)";
    let files = ["people.csv", "notes.ndjson", "shop.db"];
    let found = query(&folder, sql, &files).exits(0).json();
    assert_eq!(
        found["structured_content"]["rows"],
        json!([["Ada", "00123", 5.5, "b"]])
    );
    let sources: Vec<Value> = files.iter().map(|path| json!({ "path": path })).collect();
    let schema = call(&folder, "schema", &json!({ "files": sources }), &["--json"])
        .run()
        .exits(0)
        .json();
    let tables = schema["structured_content"]["tables"].as_array().unwrap();
    let names: Vec<&Value> = tables.iter().map(|table| &table["table"]).collect();
    assert_eq!(names, ["people", "notes", "shop.orders"]);
    // The folder has what it had: no lock, no journal.
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 3);
}

#[test]
fn a_file_that_was_not_granted_is_refused_and_nothing_is_written() {
    let (_guard, folder) = scratch();
    let inner = folder.join("inner");
    let outer = folder.join("secret.csv");
    std::fs::create_dir(&inner).unwrap();
    std::fs::write(inner.join("a.csv"), "x\n1\n").unwrap();
    std::fs::write(&outer, "x\nsecret\n").unwrap();
    database(
        &inner.join("b.db"),
        "CREATE TABLE t (x); INSERT INTO t VALUES (1);",
    );
    let target = format!("{}#query", example("sql"));
    let input = json!({ "sql": "SELECT * FROM a", "files": [{ "path": "a.csv" }] }).to_string();
    let refused = Toolcell::new(["call", &target, &input, "--json"])
        .dir(&inner)
        .run()
        .exits(3);
    assert_eq!(code(&refused), "not_granted");
    for path in ["../secret.csv", outer.to_str().unwrap()] {
        assert_eq!(
            code(&query(&inner, "SELECT 1", &[path]).exits(3)),
            "path_not_granted"
        );
    }
    let out = inner.join("out.db").display().to_string();
    for sql in [
        format!("ATTACH '{}' AS other", outer.display()),
        format!("VACUUM INTO '{out}'"),
        "INSERT INTO t VALUES (2)".to_owned(),
        "PRAGMA query_only = OFF".to_owned(),
        "SELECT load_extension('x')".to_owned(),
        "SELECT readfile('a.csv')".to_owned(),
    ] {
        let refused = query(&inner, &sql, &["a.csv", "b.db"]).exits(2);
        assert!(
            ["not_allowed", "sql_invalid"].contains(&code(&refused).as_str()),
            "{sql}: {}",
            refused.stdout
        );
    }
    assert_eq!(std::fs::read_dir(&inner).unwrap().count(), 2);
}

#[test]
fn an_endless_statement_ends_with_the_limits_of_its_call() {
    let (_guard, folder) = scratch();
    let input = json!({ "sql": ENDLESS, "files": [] });
    for (option, expected) in [
        // It hears of its deadline, and ends in good order if it has the time.
        (
            "--timeout=500ms",
            &["deadline_exceeded", "epoch_deadline"][..],
        ),
        ("--fuel=1000000000", &["fuel_exhausted"]),
    ] {
        let ran = call(&folder, "query", &input, &[option, "--json"])
            .run()
            .exits(4);
        assert!(expected.contains(&code(&ran).as_str()), "{}", ran.stdout);
    }
    let all = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";
    let cut = call(
        &folder,
        "query",
        &json!({ "sql": all, "files": [], "limit": 5 }),
        &["--json"],
    )
    .run()
    .exits(0)
    .json();
    let found = &cut["structured_content"];
    assert_eq!(
        (found["rows"].as_array().unwrap().len(), &found["truncated"]),
        (5, &json!(true))
    );
}

#[test]
fn an_interrupt_cancels_a_statement() {
    let (_guard, folder) = scratch();
    let input = json!({ "sql": ENDLESS, "files": [] });
    // Compiled before, so that the time below is the statement's.
    query(&folder, "SELECT 1", &[]).exits(0);
    let child = call(&folder, "query", &input, &["--print-record"]).spawn();
    wait_until("starting", || listens(&child));
    let begun = ticks(&child);
    wait_until("running", || ticks(&child) > begun + 50);
    let record = interrupt(child, Signal::INT).exits(5).json();
    assert_eq!(record["invocation"]["status"], "canceled");
}

#[test]
fn damaged_databases_are_errors_of_their_own_and_crash_nothing() {
    let (_guard, folder) = scratch();
    let whole = folder.join("whole.db");
    let rows: String = (0..200)
        .map(|n| format!("INSERT INTO t VALUES ({n}, 'row {n}');"))
        .collect();
    database(
        &whole,
        &format!(
            "CREATE TABLE t (x INTEGER PRIMARY KEY, y TEXT); CREATE INDEX i ON t (y); BEGIN; {rows} COMMIT;"
        ),
    );
    let bytes = std::fs::read(&whole).unwrap();
    // A small generator, so that each run damages the same bytes.
    let mut state = 1_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap()
    };
    for round in 0_usize..12 {
        let mut damaged = bytes.clone();
        for _ in 0..40 {
            let at = next() % damaged.len();
            damaged[at] = next().to_le_bytes()[0];
        }
        if round.is_multiple_of(4) {
            damaged.truncate(damaged.len() / 2 + round);
        }
        std::fs::write(folder.join("damaged.db"), damaged).unwrap();
        let ran = query(
            &folder,
            "SELECT y, count(*) FROM t GROUP BY y ORDER BY x",
            &["damaged.db"],
        );
        let known = [
            "database_corrupt",
            "not_a_database",
            "sql_invalid",
            "sql_failed",
        ];
        let expected = ran.code == Some(0) || known.contains(&code(&ran).as_str());
        assert!(expected, "round {round}: {} {}", ran.stdout, ran.stderr);
    }
    std::fs::write(
        folder.join("noise.db"),
        "no database, but long enough to have the header of one",
    )
    .unwrap();
    assert_eq!(
        code(&query(&folder, "SELECT 1", &["noise.db"])),
        "not_a_database"
    );
}

#[test]
fn a_file_that_would_fill_the_memory_ends_its_own_call() {
    let (_guard, folder) = scratch();
    let line = |text: &str, times: usize| text.repeat(times);
    // One field without an end, columns without an end, rows without an end.
    std::fs::write(
        folder.join("field.csv"),
        format!("a,b\n1,\"{}", line("x,y\n", 500_000)),
    )
    .unwrap();
    std::fs::write(folder.join("wide.csv"), line("a,", 100_000)).unwrap();
    std::fs::write(
        folder.join("tall.csv"),
        format!("a,b\n{}", line(",\n", 8_000_000)),
    )
    .unwrap();
    std::fs::write(folder.join("deep.json"), line("[", 1_000_000)).unwrap();
    std::fs::write(folder.join("large.csv"), line("a\n", 40_000_000)).unwrap();
    for (file, expected) in [
        ("field.csv", "csv_invalid"),
        ("wide.csv", "too_many_columns"),
        ("deep.json", "json_invalid"),
        ("large.csv", "file_too_large"),
    ] {
        assert_eq!(
            code(&query(&folder, "SELECT 1", &[file])),
            expected,
            "{file}"
        );
    }
    let input = json!({ "sql": "SELECT 1", "files": [{ "path": "tall.csv" }] });
    let ran = call(&folder, "query", &input, &["--json", "--memory=32MiB"]).run();
    assert!(
        ["out_of_memory", "memory_limit"].contains(&code(&ran).as_str()),
        "{} {}",
        ran.stdout,
        ran.stderr
    );
}
