use std::{
    env, fs,
    path::PathBuf,
    process,
    sync::atomic::{AtomicU32, Ordering},
};

use rusqlite::Connection;
use toolcell_guest::{
    Outcome, ToolError,
    cancellation::AbortReason,
    serde_json::{Value, json},
    testing,
};

use crate::Toolkit;

/// A temporary folder for one test, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("toolcell-sql-{}-{number}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path.display().to_string()
    }

    fn database(&self, name: &str, sql: &str) -> String {
        let path = self.0.join(name);
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn answer(tool: &str, input: Value) -> Result<Value, ToolError> {
    match testing::invoke::<Toolkit>(tool, input) {
        Outcome::Success(output) => Ok(output.structured.unwrap()),
        Outcome::Failure(error) => Err(error),
        other => panic!("{other:?}"),
    }
}

/// The rows of a statement on files, which are given as their paths.
fn rows(sql: &str, files: &[&str]) -> Result<Value, ToolError> {
    let files: Vec<Value> = files.iter().map(|path| json!({ "path": path })).collect();
    answer("query", json!({ "sql": sql, "files": files })).map(|answer| answer["rows"].clone())
}

fn code(result: Result<Value, ToolError>) -> String {
    result.unwrap_err().code
}

#[test]
fn columns_of_csv_have_the_type_of_all_their_values() {
    let folder = Folder::new();
    let csv = "id;city;zip;share\n1;Łódź;00123;0.5\n2;\"a;b\";90210;1\n;;;\n";
    let path = folder.file("people.csv", csv);
    let found = rows(
        "SELECT id, city, zip, share FROM people ORDER BY id NULLS LAST",
        &[&path],
    )
    .unwrap();
    assert_eq!(
        found,
        json!([
            [1, "Łódź", "00123", 0.5],
            [2, "a;b", "90210", 1.0],
            [null, null, null, null]
        ])
    );
    let schema = answer("schema", json!({ "files": [{ "path": path }] })).unwrap();
    let types: Vec<&Value> = schema["tables"][0]["columns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| &column["type"])
        .collect();
    assert_eq!(types, ["INTEGER", "TEXT", "TEXT", "REAL"]);
    assert_eq!(
        (&schema["tables"][0]["rows"], &schema["tables"][0]["table"]),
        (&json!(3), &json!("people"))
    );
}

#[test]
fn a_header_with_the_same_name_twice_or_without_one_still_names_every_column() {
    let folder = Folder::new();
    let path = folder.file("a.csv", "\u{feff}x,X,,x\n1,2,3,4\n");
    assert_eq!(
        rows("SELECT x, X_2, column_3, x_3 FROM a", &[&path]).unwrap(),
        json!([[1, 2, 3, 4]])
    );
    let tab = folder.file("b.tsv", "x\ty,z\n1\t2\n");
    assert_eq!(
        rows("SELECT \"y,z\" FROM b", &[&tab]).unwrap(),
        json!([[2]])
    );
}

#[test]
fn an_error_of_csv_names_the_line() {
    let folder = Folder::new();
    let short = folder.file("a.csv", "x,y\n1,2\n3\n");
    let error = rows("SELECT * FROM a", &[&short]).unwrap_err();
    assert_eq!(
        (
            error.code.as_str(),
            error
                .message
                .ends_with("line 3: 1 fields where the header has 2")
        ),
        ("csv_invalid", true)
    );
    let latin = folder.file("b.csv", b"x\n\xe9\n");
    assert!(
        rows("SELECT * FROM b", &[&latin])
            .unwrap_err()
            .message
            .ends_with("line 2: it is not UTF-8 text")
    );
    let empty = folder.file("c.csv", "");
    assert_eq!(code(rows("SELECT * FROM c", &[&empty])), "csv_invalid");
    // A quote that is never closed takes the rest of the file into one field.
    let open = folder.file("d.csv", format!("x,y\n1,\"{}", "line\n".repeat(300_000)));
    let error = rows("SELECT * FROM d", &[&open]).unwrap_err();
    assert!(
        error.message.contains("line 2: a field has more than"),
        "{error}"
    );
    let wide = folder.file("e.csv", vec!["a"; 3000].join(","));
    assert_eq!(code(rows("SELECT * FROM e", &[&wide])), "too_many_columns");
}

#[test]
fn json_objects_are_rows_with_the_columns_of_all_of_them() {
    let folder = Folder::new();
    let path = folder.file(
        "items.json",
        r#"[{"b": 1, "a": true}, {"b": "x", "c": {"n": [1]}}, {}]"#,
    );
    assert_eq!(
        rows("SELECT * FROM items", &[&path]).unwrap(),
        json!([[1, 1, null], ["x", null, "{\"n\":[1]}"], [null, null, null]])
    );
    assert_eq!(
        rows("SELECT c ->> '$.n[0]' FROM items WHERE b = 'x'", &[&path]).unwrap(),
        json!([[1]])
    );
    let one = folder.file("one.json", r#"{"items": [{"n": 1}, {"n": 2}]}"#);
    assert_eq!(
        rows(
            "SELECT value ->> 'n' FROM one, json_each(one.items)",
            &[&one]
        )
        .unwrap(),
        json!([[1], [2]])
    );
    let plain = folder.file("plain.json", "[1, 2.5, null, \"x\", [3]]");
    assert_eq!(
        rows("SELECT value FROM plain", &[&plain]).unwrap(),
        json!([[1], [2.5], [null], ["x"], ["[3]"]])
    );
    // SQL tells these names apart, as it does not `a` and `A`.
    let letters = folder.file("letters.json", r#"[{"é": 1, "É": 2}]"#);
    assert_eq!(
        rows("SELECT * FROM letters", &[&letters]).unwrap(),
        json!([[1, 2]])
    );
    let none = folder.file("none.json", "[]");
    assert_eq!(rows("SELECT * FROM none", &[&none]).unwrap(), json!([]));
}

#[test]
fn an_error_of_json_names_line_and_column() {
    let folder = Folder::new();
    let path = folder.file("a.json", "[{\"a\": 1},\n {\"a\": }]");
    let error = rows("SELECT * FROM a", &[&path]).unwrap_err();
    assert_eq!(error.code, "json_invalid");
    assert!(
        error.message.ends_with("expected value at line 2 column 8"),
        "{error}"
    );
    let lines = folder.file("b.ndjson", "{\"a\": 1}\n\n{\"a\": 2\n");
    let error = rows("SELECT * FROM b", &[&lines]).unwrap_err();
    assert!(error.message.contains("at line 3 column"), "{error}");
    let deep = folder.file("c.json", format!("[{}", "[".repeat(100_000)));
    assert_eq!(code(rows("SELECT * FROM c", &[&deep])), "json_invalid");
    let good = folder.file("d.jsonl", "{\"a\": 1}\r\n{\"a\": 2}");
    assert_eq!(
        rows("SELECT sum(a) FROM d", &[&good]).unwrap(),
        json!([[3]])
    );
}

#[test]
fn a_sqlite_file_is_a_schema_beside_other_files() {
    let folder = Folder::new();
    let sql =
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, who TEXT); INSERT INTO orders VALUES (1, 'ada'), (2, 'bob');
               CREATE VIEW everyone AS SELECT who FROM orders; CREATE TABLE \"odd name\" (x);";
    let path = folder.database("shop 1#.db", sql);
    let csv = folder.file("people.csv", "who,age\nada,36\n");
    let files = json!([{ "path": path, "table": "shop" }, { "path": csv }]);
    let sql = "SELECT o.id, p.age FROM shop.orders o JOIN people p USING (who)";
    assert_eq!(
        answer("query", json!({ "sql": sql, "files": files })).unwrap()["rows"],
        json!([[1, 36]])
    );
    let schema = answer("schema", json!({ "files": files })).unwrap();
    let names: Vec<&str> = schema["tables"]
        .as_array()
        .unwrap()
        .iter()
        .map(|table| table["table"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "shop.everyone",
            "shop.\"odd name\"",
            "shop.orders",
            "people"
        ]
    );
    assert_eq!(
        (&schema["tables"][0]["kind"], &schema["tables"][0]["rows"]),
        (&json!("view"), &Value::Null)
    );
    assert_eq!(schema["tables"][2]["rows"], 2);
}

#[test]
fn nothing_can_be_changed_attached_or_loaded() {
    let folder = Folder::new();
    let path = folder.database("a.db", "CREATE TABLE t (x); INSERT INTO t VALUES (1);");
    let csv = folder.file("b.csv", "x\n1\n");
    let before = fs::read(&path).unwrap();
    let other = folder.0.join("other.db").display().to_string();
    for sql in [
        "INSERT INTO t VALUES (2)".to_owned(),
        "DELETE FROM b".to_owned(),
        "UPDATE b SET x = 2 RETURNING x".to_owned(),
        "DROP TABLE a.t".to_owned(),
        "CREATE TABLE c (x)".to_owned(),
        "CREATE TEMP VIEW v AS SELECT 1".to_owned(),
        format!("ATTACH '{other}' AS other"),
        "DETACH a".to_owned(),
        format!("VACUUM a INTO '{other}'"),
        "PRAGMA query_only = OFF".to_owned(),
        "PRAGMA a.journal_mode = DELETE".to_owned(),
        "PRAGMA writable_schema = ON".to_owned(),
        "PRAGMA user_version = 7".to_owned(),
        "SELECT load_extension('x')".to_owned(),
        "SELECT * FROM pragma_journal_mode('delete')".to_owned(),
        "BEGIN".to_owned(),
        "ANALYZE".to_owned(),
    ] {
        let refused = code(rows(&sql, &[&path, &csv]));
        assert!(
            ["not_allowed", "sql_invalid"].contains(&refused.as_str()),
            "{sql}: {refused}"
        );
    }
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(
        fs::read_dir(&folder.0).unwrap().count(),
        2,
        "no file is made beside them"
    );
    for sql in [
        "PRAGMA table_info(t)",
        "SELECT name FROM pragma_table_list",
        "PRAGMA a.user_version",
        "EXPLAIN SELECT 1",
    ] {
        rows(sql, &[&path]).unwrap();
    }
}

#[test]
fn an_error_of_a_statement_names_line_and_column() {
    let error = rows("SELECT 1,\n  missing", &[]).unwrap_err();
    assert_eq!(
        (error.code.as_str(), error.message.as_str()),
        ("sql_invalid", "line 2, column 3: no such column: missing")
    );
    assert_eq!(code(rows("SELECT 1; SELECT 2", &[])), "sql_invalid");
    assert_eq!(code(rows("", &[])), "sql_invalid");
    assert_eq!(code(rows("-- nothing", &[])), "sql_invalid");
    assert_eq!(rows("SELECT 1;  -- one\n", &[]).unwrap(), json!([[1]]));
}

#[test]
fn parameters_are_bound_by_place_or_by_name() {
    let query = |sql: &str, parameters: Value| {
        answer(
            "query",
            json!({ "sql": sql, "files": [], "parameters": parameters }),
        )
        .map(|found| found["rows"].clone())
    };
    assert_eq!(
        query("SELECT ?, ?", json!([1, "'; --"])).unwrap(),
        json!([[1, "'; --"]])
    );
    assert_eq!(
        query("SELECT :a, @b", json!({ "a": null, "@b": [1] })).unwrap(),
        json!([[null, "[1]"]])
    );
    for (sql, wrong) in [
        ("SELECT ?", json!([])),
        ("SELECT ?", Value::Null),
        ("SELECT 1", json!([1])),
        ("SELECT ?", json!({ "a": 1 })),
        ("SELECT :a", json!({ "b": 1 })),
        ("SELECT :a", json!({ "a": 1, "b": 1 })),
        ("SELECT ?", json!("a")),
    ] {
        assert_eq!(code(query(sql, wrong)), "parameters_unequal", "{sql}");
    }
}

#[test]
fn rows_end_at_the_limit_and_values_that_json_lacks_are_shown() {
    let sql = "SELECT value FROM generate_series(1, 5)";
    // The series is an extension of the shell; a recursive query is the same.
    assert_eq!(code(rows(sql, &[])), "sql_invalid");
    let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";
    let found = answer("query", json!({ "sql": sql, "files": [], "limit": 3 })).unwrap();
    assert_eq!(
        (&found["rows"], &found["truncated"]),
        (&json!([[1], [2], [3]]), &json!(true))
    );
    let long = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT printf('%.*c', 100000, 'x') FROM n";
    let found = answer("query", json!({ "sql": long, "files": [] })).unwrap();
    assert_eq!(
        (found["rows"].as_array().unwrap().len(), &found["truncated"]),
        (10, &json!(true))
    );
    assert_eq!(
        code(rows("SELECT printf('%.*c', 2000000, 'x')", &[])),
        "row_too_large"
    );
    assert_eq!(
        code(rows("SELECT zeroblob(100000000)", &[])),
        "value_too_large"
    );
    assert_eq!(
        rows("SELECT x'00ff', 9e999, 9223372036854775807, NULL", &[]).unwrap(),
        json!([[{ "bytes": 2, "hex": "00ff" }, "inf", 9_223_372_036_854_775_807_i64, null]])
    );
}

#[test]
fn files_that_are_none_of_these_are_refused_by_what_they_are() {
    let folder = Folder::new();
    let damaged = {
        let path = folder.database(
            "damaged.db",
            "CREATE TABLE t (x); INSERT INTO t VALUES (1);",
        );
        let mut bytes = fs::read(&path).unwrap();
        bytes[100..].fill(0xff);
        folder.file("damaged.db", bytes)
    };
    assert_eq!(
        code(rows("SELECT * FROM t", &[&damaged])),
        "database_corrupt"
    );
    // "CREATE TABLE t (name_" and a byte that no UTF-8 has.
    let sql = "CREATE TABLE t (x); PRAGMA writable_schema = ON;
               UPDATE sqlite_schema SET sql = CAST(x'435245415445205441424c45207420286e616d655fff29' AS TEXT);";
    let named = folder.database("named.db", sql);
    assert_eq!(code(rows("SELECT * FROM t", &[&named])), "database_corrupt");
    let noise = folder.file(
        "noise.db",
        "this is not a database, and long enough to have a header",
    );
    assert_eq!(code(rows("SELECT 1", &[&noise])), "not_a_database");
    let text = folder.file("notes.txt", "x\n1\n");
    assert_eq!(code(rows("SELECT 1", &[&text])), "format_unknown");
    assert_eq!(
        code(rows(
            "SELECT 1",
            &[&folder.0.join("none.csv").display().to_string()]
        )),
        "not_found"
    );
    assert_eq!(
        code(rows("SELECT 1", &[&folder.0.display().to_string()])),
        "is_a_folder"
    );
    let one = folder.file("a.csv", "x\n");
    let two = folder.file("A.tsv", "x\n");
    assert_eq!(code(rows("SELECT 1", &[&one, &two])), "name_taken");
    let named = |table: &str| {
        answer(
            "query",
            json!({ "sql": "SELECT 1", "files": [{ "path": one, "table": table }] }),
        )
    };
    assert_eq!(
        (code(named("main")), code(named("sqlite_x"))),
        ("name_taken".to_owned(), "name_invalid".to_owned())
    );
    assert_eq!(named("odd \" name").unwrap()["rows"], json!([[1]]));
}

#[test]
fn changes_that_only_the_log_has_are_said_to_be_missing() {
    let folder = Folder::new();
    let path = folder.0.join("a.db");
    let open = Connection::open(&path).unwrap();
    open.execute_batch(
        "PRAGMA journal_mode = WAL; CREATE TABLE t (x); PRAGMA wal_checkpoint; INSERT INTO t VALUES (1);",
    )
    .unwrap();
    let input = json!({ "sql": "SELECT count(*) FROM t", "files": [{ "path": path.display().to_string() }] });
    let found = answer("query", input).unwrap();
    assert_eq!(found["rows"], json!([[0]]));
    assert!(
        found["notes"][0].as_str().unwrap().contains("-wal file"),
        "{found}"
    );
}

#[test]
fn an_endless_statement_is_stopped_by_a_cancellation() {
    testing::reset();
    testing::cancel(AbortReason::UserInterruption);
    let sql =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    assert_eq!(code(rows(sql, &[])), "canceled");
    assert!(testing::acknowledged());
    testing::reset();
}

#[test]
fn random_numbers_differ_from_row_to_row_and_from_call_to_call() {
    let two = || rows("SELECT random() UNION ALL SELECT random()", &[]).unwrap();
    let one = two();
    let other = two();
    assert!(one[0] != one[1] && one[0] != other[0], "{one} {other}");
}
