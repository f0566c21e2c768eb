//! Promise: A decision is bounded.

use serde_json::json;

use super::{echo_in, guest};
use crate::support::{Home, Toolcell, fixture, scratch};

#[test]
fn a_limit_without_a_meaning_is_a_bad_request_that_says_what_has_one() {
    for (option, values, hint) in [
        (
            "--timeout",
            &["5", "soon", "0s", "-1s", "5h", "99999999999999999999s", ""][..],
            "500ms",
        ),
        (
            "--memory",
            &["0", "1TB", "many", "-1", "99999999999GiB"][..],
            "64MiB",
        ),
        ("--cpu", &["5", "soon", "0s"][..], "500ms"),
        ("--max-output", &["0", "1.5MiB", "MiB"][..], "64MiB"),
        (
            "--fuel",
            &["lots", "-1", "1e9", "99999999999999999999999"][..],
            "--fuel",
        ),
    ] {
        for value in values {
            let ran = Toolcell::new(["call", "x", "{}", &format!("{option}={value}")])
                .run()
                .exits(2);
            assert!(
                ran.stderr.contains(hint) && ran.stderr.contains(option),
                "{option}={value}: {}",
                ran.stderr
            );
        }
    }
}

#[test]
fn every_limit_stops_what_is_over_it_and_is_on_the_bill() {
    for (tool, input, limit, code, meter, value) in [
        (
            "hostile#spin",
            "{}",
            "--timeout=120ms",
            "epoch_deadline",
            "wall_ms",
            120,
        ),
        (
            "hostile#sleep",
            "{}",
            "--timeout=120ms",
            "deadline_exceeded",
            "wall_ms",
            120,
        ),
        (
            "hostile#spin_fuel",
            "{}",
            "--fuel=3000000",
            "fuel_exhausted",
            "fuel",
            3_000_000,
        ),
        (
            "hostile#memory",
            "{\"mib\": 64}",
            "--memory=8MiB",
            "memory_limit",
            "memory_bytes",
            8 << 20,
        ),
        (
            "probe#big",
            "{\"bytes\": 3000}",
            "--max-output=2KiB",
            "output_limit",
            "output_bytes",
            2 << 10,
        ),
    ] {
        let ran = Toolcell::new(["call", &guest(tool), input, limit, "--json"])
            .run()
            .exits(4);
        let result = ran.json();
        assert_eq!(result["error"]["error_code"], code, "{tool} {limit}");
        assert_eq!(result["usage"][meter]["limit"], value, "{tool} {limit}");
        let option = limit.split_once('=').unwrap().0;
        assert!(
            result["error"]["message"]
                .as_str()
                .unwrap()
                .contains(option),
            "{}",
            result["error"]
        );
    }
}

#[test]
fn a_file_can_have_the_tools_of_a_component_metered_by_time() {
    let home = Home::new();
    let component = fixture("hostile").display().to_string();
    let entry = |meter: &str| {
        home.configure(&format!(
            "[limits]\ncpu = \"150ms\"\n[[tool]]\ncomponent = {component:?}\nmeter = {meter:?}\n"
        ))
    };
    let tool = format!("{component}#spin_fuel");
    let spin = |options: &[&str]| {
        let call = ["call", &tool, "{}", "--json", "--timeout=20s"];
        let arguments = [&call[..], options].concat();
        let ran = home.toolcell(&arguments).run().exits(4).json();
        let code = ran["error"]["error_code"].as_str().unwrap().to_owned();
        (code, ran["usage"]["cpu_ms"]["limit"].as_u64())
    };
    entry("time");
    assert_eq!(
        spin(&["--fuel=1000"]),
        ("cpu_time_exhausted".to_owned(), Some(150))
    );
    assert_eq!(
        spin(&["--cpu=90ms"]),
        ("cpu_time_exhausted".to_owned(), Some(90))
    );
    // Its code lies beside the other in the cache.
    entry("fuel");
    assert_eq!(spin(&["--fuel=1000"]), ("fuel_exhausted".to_owned(), None));
    entry("sundial");
    let refused = home.toolcell(&["call", &tool, "{}"]).run().exits(3);
    assert!(
        refused.stderr.contains("`fuel` or `time`") || refused.stdout.contains("`fuel` or `time`"),
        "{}{}",
        refused.stdout,
        refused.stderr
    );
}

#[test]
fn a_limit_can_be_raised_over_the_default() {
    let ran = Toolcell::new([
        "call",
        &guest("hostile#memory"),
        "{\"mib\": 300}",
        "--memory=400MiB",
    ])
    .run();
    ran.exits(0);
    let ran = Toolcell::new([
        "call",
        &guest("probe#big"),
        "{\"bytes\": 9000000}",
        "--max-output",
        "16MiB",
        "--json",
    ])
    .run()
    .exits(0);
    assert_eq!(
        ran.json()["content"][0]["persisted_ref"]["size_bytes"],
        9_000_000
    );
}

#[test]
fn the_same_call_costs_the_same_fuel() {
    let (_guard, folder) = scratch();
    // The tool imports nothing, not even randomness, which would make a difference.
    let tool = echo_in(&folder);
    let fuel = || {
        Toolcell::new(["call", &tool, "{\"a\": 1}", "--json"])
            .run()
            .exits(0)
            .json()["usage"]["fuel"]
            .clone()
    };
    let first = fuel();
    assert_eq!(first["limit"], json!(500_000_000_000_u64));
    assert!(first["used"].as_u64().unwrap() > 0);
    assert!((0..5).all(|_| fuel() == first));
}

#[test]
fn a_call_names_at_most_a_thousand_paths_and_urls_with_twenty_thousand_names_on_the_way() {
    let (_guard, folder) = scratch();
    let ends = |tool: &str, input: &serde_json::Value| {
        std::fs::write(folder.join("input"), input.to_string()).unwrap();
        let input = format!("@{}", folder.join("input").display());
        let grant = format!("--allow-write={}", folder.display());
        let ran = Toolcell::new(["call", &guest(tool), &input, &grant, "--json"]).run();
        let error = ran.json()["error"].clone();
        assert_eq!(
            ran.code,
            Some(if error.is_null() { 0 } else { 3 }),
            "{ran:?}"
        );
        (
            error["error_code"].as_str().unwrap_or("none").to_owned(),
            error["message"].to_string(),
        )
    };
    let urls = |count: usize| {
        (0..count)
            .map(|n| format!("https://n{n}.example.com/"))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        ends("probe#about_url", &json!({ "subject": urls(1_000) })).0,
        "none"
    );
    for (tool, subjects) in [
        ("probe#about_url", urls(1_001)),
        ("probe#about_path", vec!["here".to_owned(); 1_001]),
    ] {
        let (code, message) = ends(tool, &json!({ "subject": subjects }));
        assert_eq!(code, "too_many_subjects", "{message}");
        assert!(
            message.contains("more than 1000") && message.contains("name fewer"),
            "{message}"
        );
    }
    // Names that do not exist count as well.
    let long = |count: usize| json!({ "subject": vec!["n/".repeat(2_000); count] });
    assert_eq!(ends("probe#about_path", &long(9)).0, "none");
    let (code, message) = ends("probe#about_path", &long(10));
    assert!(
        code == "subjects_too_long" && message.contains("20000 names"),
        "{code}: {message}"
    );
    // Each of many missing folders below a deep one would be looked up from the root.
    let deep = folder.join("d/".repeat(100));
    std::fs::create_dir_all(&deep).unwrap();
    let missing = |count: usize| json!({ "path": deep.join("m/".repeat(count)).join("file") });
    assert_eq!(ends("probe#write_named", &missing(3)).0, "none");
    assert_eq!(
        ends("probe#write_named", &missing(300)).0,
        "subjects_too_long"
    );
}
