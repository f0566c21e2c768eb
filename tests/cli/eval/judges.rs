//! What a judge may do: answer, lie about the shape of its answer, hang, flood, crash. Without a verdict nothing passes.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::super::interrupts::wait_until;
use super::{case, results};
use crate::support::{Ran, Toolcell, scratch, wat};

/// A verdict that passes.
const GOOD: &str = r#"{"passed":true,"score":0.75,"reason":"seen","model":"m"}"#;
/// Far less than a judge that hangs would take.
const BOUND: Duration = Duration::from_secs(30);

/// The command that asks about one property of a run, in `folder`.
fn asking(folder: &Path, output: &str, options: &[&str]) -> Toolcell {
    let asked = case(
        "c",
        json!([{ "type": "output_property", "property": "names an animal" }]),
    );
    std::fs::write(folder.join("cases.json"), asked.to_string()).unwrap();
    std::fs::write(
        folder.join("trace.json"),
        json!({ "trace_id": "t", "output": output }).to_string(),
    )
    .unwrap();
    let arguments = ["eval", "cases.json", "--trace=trace.json", "--json"];
    Toolcell::new(arguments.iter().chain(options)).dir(folder)
}

/// What the judge made of the property: passed, score, reason, and the model of the whole result.
fn verdict(ran: &Ran) -> (bool, f64, String, Value) {
    let results = results(ran);
    assert_eq!(results.len(), 1, "{ran:?}");
    let one = &results[0]["assertion_results"][0];
    assert_eq!(results[0]["passed"], one["passed"]);
    assert_eq!(ran.code, Some(if one["passed"] == true { 0 } else { 1 }));
    let reason = one["reason"].as_str().unwrap().to_owned();
    (
        one["passed"].as_bool().unwrap(),
        one["score"].as_f64().unwrap(),
        reason,
        results[0]["judge_model"].clone(),
    )
}

/// What a judge makes of it that is this shell script.
fn scripted(script: &str, options: &[&str]) -> (bool, f64, String, Value) {
    let (_guard, folder) = scratch();
    let options = [options, &["--judge-command", "sh", "-c", script]].concat();
    verdict(&asking(&folder, "zebra", &options).run())
}

/// Fails unless the judge gave no verdict, because of `why`.
#[track_caller]
fn fails((passed, score, reason, model): (bool, f64, String, Value), why: &str) {
    assert!(!passed && score == 0.0 && model.is_null(), "{reason}");
    assert!(
        reason.starts_with("the judge failed: ") && reason.contains(why),
        "{reason}"
    );
}

#[test]
fn a_program_reads_the_question_and_its_verdict_counts() {
    let script = format!(
        r#"question=$(cat)
        case $question in *'"property":"names an animal"'*'"case_id":"c"'*'"output":"zebra"'*) echo '{GOOD}';; *) exit 9;; esac"#
    );
    assert_eq!(
        scripted(&script, &[]),
        (true, 0.75, "seen".to_owned(), json!("m"))
    );
    let low = r#"echo '{"passed": false, "score": 1, "reason": "r", "model": "m2", "votes": [0]}'"#;
    assert_eq!(
        scripted(low, &[]),
        (false, 1.0, "r".to_owned(), json!("m2"))
    );
}

#[test]
fn a_judge_that_lies_about_the_shape_of_its_answer_passes_nothing() {
    for (answer, why) in [
        ("", "not a verdict"),
        ("yes", "not a verdict"),
        ("true", "not an object"),
        (r#"[true,1,"r","m"]"#, "not an object"),
        (r#"{"passed":true}"#, "`score`"),
        (r#"{"passed":true,"score":1,"reason":"r"}"#, "`model`"),
        (
            r#"{"passed":"true","score":1,"reason":"r","model":"m"}"#,
            "boolean",
        ),
        (
            r#"{"passed":true,"score":1.5,"reason":"r","model":"m"}"#,
            "from 0 to 1",
        ),
        (
            r#"{"passed":true,"score":-1,"reason":"r","model":"m"}"#,
            "from 0 to 1",
        ),
        (
            r#"{"passed":true,"score":1e999,"reason":"r","model":"m"}"#,
            "not a verdict",
        ),
        (
            r#"{"passed":false,"passed":true,"score":1,"reason":"r","model":"m"}"#,
            "duplicate key",
        ),
        (
            r#"{"passed":true,"score":1,"reason":"","model":"m"}"#,
            "`reason` is empty",
        ),
        (
            r#"{"passed":true,"score":1,"reason":"r","model":"m"} and more"#,
            "not a verdict",
        ),
    ] {
        fails(
            scripted(&format!("cat >/dev/null; printf '%s' '{answer}'"), &[]),
            why,
        );
    }
    fails(scripted(r"printf '\377\376'", &[]), "not UTF-8");
}

#[test]
fn a_judge_that_exits_with_a_failure_passes_nothing_whatever_it_said() {
    fails(
        scripted(
            &format!("echo '{GOOD}'; echo 'no quota' >&2; echo >&2; exit 3"),
            &[],
        ),
        "exit status: 3: no quota",
    );
    fails(
        scripted(&format!("echo '{GOOD}'; kill -9 $$"), &[]),
        "signal: 9",
    );
    let (_guard, folder) = scratch();
    fails(
        verdict(&asking(&folder, "zebra", &["--judge-command", "./not-there"]).run()),
        "cannot start \"./not-there\"",
    );
}

/// Whether the process with the id in `file` runs; it may remain a zombie until its new parent reaps it.
fn runs(file: &Path) -> bool {
    let id = std::fs::read_to_string(file).unwrap();
    let state = std::fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
    !state.is_empty() && !state.contains(") Z")
}

#[test]
fn a_judge_that_hangs_is_killed_with_its_children() {
    let (_guard, folder) = scratch();
    let pid = folder.join("pid");
    let script = format!(
        "trap '' TERM INT; sleep 600 & echo $! >{}; echo '{GOOD}'; wait",
        pid.display()
    );
    let begun = Instant::now();
    fails(
        scripted(&script, &["--judge-timeout=1s"]),
        "did not answer within 1000 ms",
    );
    assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
    wait_until("the end of the judge's child", || !runs(&pid));
}

#[test]
fn an_interrupt_ends_the_judge_too() {
    let (_guard, folder) = scratch();
    let pid = folder.join("pid");
    let script = format!(
        "sleep 600 & echo $! >{0}.new; mv {0}.new {0}; wait",
        pid.display()
    );
    let child = asking(&folder, "zebra", &["--judge-command", "sh", "-c", &script]).spawn();
    wait_until("the start of the judge", || pid.exists());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ran = Ran::from(child.wait_with_output().unwrap()).exits(5);
    assert!(ran.stdout.is_empty(), "{ran:?}");
    wait_until("the end of the judge's child", || !runs(&pid));
}

#[test]
fn a_judge_that_floods_its_answer_passes_nothing() {
    // The answer is a verdict, after more space than it may take.
    let script = format!("cat >/dev/null; head -c 200000 /dev/zero | tr '\\0' ' '; echo '{GOOD}'");
    fails(scripted(&script, &[]), "printed more than 65536 bytes");
}

#[test]
fn an_endless_answer_ends_the_judge_and_endless_words_beside_it_do_not() {
    let begun = Instant::now();
    fails(scripted("yes", &[]), "printed more than 65536 bytes");
    assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
    let talker = format!("head -c 4000000 /dev/zero >&2; echo '{GOOD}'");
    assert!(scripted(&talker, &[]).0);
}

#[test]
fn a_judge_gets_no_environment_but_what_is_named() {
    let (_guard, folder) = scratch();
    let script = format!(
        r#"test "$EVAL_CANARY" = 7 && echo '{GOOD}' || echo "canary: $EVAL_CANARY" >&2; env >env"#
    );
    for (options, passes) in [
        (&[] as &[&str], false),
        (&["--judge-env=EVAL_CANARY", "--judge-env=NOT_SET"], true),
    ] {
        let options = [options, &["--judge-command", "sh", "-c", &script]].concat();
        let ran = asking(&folder, "zebra", &options)
            .env("EVAL_CANARY", "7")
            .run();
        assert_eq!(verdict(&ran).0, passes, "{ran:?}");
        let seen = std::fs::read_to_string(folder.join("env")).unwrap();
        let names: Vec<&str> = seen
            .lines()
            .filter_map(|line| line.split('=').next())
            .collect();
        // The shell sets the others itself.
        let own = ["PATH", "PWD", "OLDPWD", "SHLVL", "_", "EVAL_CANARY"];
        assert!(
            names.iter().all(|name| own.contains(name)) && names.contains(&"PATH"),
            "{names:?}"
        );
    }
}

/// Writes a judge component into `folder`. Its function is `body`, in which `$request` and `$len` are the question, and
/// `(call $passes)` and `(call $fails)` give verdicts.
fn component(folder: &Path, imports: &str, body: &str) -> PathBuf {
    let bad = r#"{"passed":false,"score":0.5,"reason":"not seen","model":"m"}"#;
    let data = |text: &str| text.replace('"', "\\\"");
    let text = format!(
        r#"(component
          {imports}
          (component $judge
            (core module $main
              (memory (export "memory") 2)
              (data (i32.const 64) "{good}")
              (data (i32.const 1024) "{bad}")
              (global $free (mut i32) (i32.const 8192))
              (func (export "realloc") (param i32 i32 i32) (param $size i32) (result i32)
                (local $start i32)
                (local.set $start (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
                (global.set $free (i32.add (local.get $start) (local.get $size)))
                (local.get $start))
              (func $tell (param $case i32) (param $text i32) (param $len i32) (result i32)
                (i32.store8 (i32.const 16) (local.get $case))
                (i32.store (i32.const 20) (local.get $text))
                (i32.store (i32.const 24) (local.get $len))
                (i32.const 16))
              (func $passes (result i32) (call $tell (i32.const 0) (i32.const 64) (i32.const {good_len})))
              (func $fails (result i32) (call $tell (i32.const 0) (i32.const 1024) (i32.const {bad_len})))
              (func (export "assess") (param $request i32) (param $len i32) (result i32) (local $at i32) {body}))
            (core instance $main (instantiate $main))
            (func (export "assess") (param "request" string) (result (result string (error string)))
              (canon lift (core func $main "assess") (memory (core memory $main "memory"))
                (realloc (core func $main "realloc")))))
          (instance $handler (instantiate $judge))
          (export "toolcell:tool/judge-handler@0.2.0" (instance $handler)))"#,
        good = data(GOOD),
        bad = data(bad),
        good_len = GOOD.len(),
        bad_len = bad.len(),
    );
    let file = folder.join("judge.wasm");
    std::fs::write(&file, ::wat::parse_str(text).unwrap()).unwrap();
    file
}

/// Looks for a `Z` in the question.
const SEARCH: &str = r#"
    (local.set $at (local.get $request))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $at) (i32.add (local.get $request) (local.get $len))))
        (if (i32.eq (i32.load8_u (local.get $at)) (i32.const 90)) (then (return (call $passes))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $next)))
    (call $fails)"#;

#[test]
fn a_component_reads_the_question_and_its_verdict_counts() {
    let (_guard, folder) = scratch();
    component(&folder, "", SEARCH);
    let asked = |output: &str| verdict(&asking(&folder, output, &["--judge=judge.wasm"]).run());
    assert_eq!(asked("Zebra"), (true, 0.75, "seen".to_owned(), json!("m")));
    assert_eq!(
        asked("zebra"),
        (false, 0.5, "not seen".to_owned(), json!("m"))
    );
}

#[test]
fn a_component_that_fails_traps_spins_or_answers_no_verdict_passes_nothing() {
    for (body, why) in [
        (
            "(call $tell (i32.const 1) (i32.const 64) (i32.const 8))",
            "{\"passed",
        ),
        (
            "(call $tell (i32.const 0) (i32.const 64) (i32.const 8))",
            "not a verdict",
        ),
        (
            "(call $tell (i32.const 0) (local.get $request) (local.get $len))",
            "`passed`",
        ),
        (
            "(call $tell (i32.const 0) (i32.const 32768) (i32.const 70000))",
            "more than 65536 bytes",
        ),
        ("(unreachable)", ""),
        ("(loop $forever (br $forever)) (unreachable)", ""),
    ] {
        let (_guard, folder) = scratch();
        component(&folder, "", body);
        let begun = Instant::now();
        let ran = asking(
            &folder,
            "zebra",
            &["--judge=judge.wasm", "--judge-timeout=2s"],
        )
        .run();
        fails(verdict(&ran), why);
        assert!(begun.elapsed() < BOUND, "{body}: {:?}", begun.elapsed());
    }
}

#[test]
fn what_is_no_judge_is_refused_before_any_case() {
    let (_guard, folder) = scratch();
    let refused = |exit: i32, why: &str| {
        let ran = asking(&folder, "zebra", &["--judge=judge.wasm"])
            .run()
            .exits(exit);
        assert!(ran.stdout.is_empty() && ran.stderr.contains(why), "{ran:?}");
    };
    std::fs::write(folder.join("judge.wasm"), wat("echo")).unwrap();
    refused(2, "not_a_judge");
    component(
        &folder,
        r#"(import "toolcell:tool/log@0.2.0" (instance (export "log" (func))))"#,
        SEARCH,
    );
    refused(3, "import_not_available");
    std::fs::write(folder.join("judge.wasm"), "no component").unwrap();
    refused(2, "component_invalid");
}
