//! Scripts on this machine, over a folder of their own.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use toolcell_guest::{
    Context, Outcome, ToolError,
    http::Error,
    serde_json::{Value, json},
    testing::{self, Served},
    tools::Answer,
};

use crate::{Toolkit, run::STRUCTURED_BYTES_MAX};

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

impl Folder {
    /// A folder that is granted and the working directory of the test's calls. Below the sources, because `/tmp` is memory.
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        testing::reset();
        let name = format!(
            "shell-test-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        testing::set_context(Context {
            cwd: Some(path.display().to_string()),
            ..Context::default()
        });
        Self(path)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }
}

fn call(input: Value) -> Result<Value, ToolError> {
    testing::validate::<Toolkit>("shell", input.clone())?;
    match testing::invoke::<Toolkit>("shell", input) {
        Outcome::Success(output) => Ok(output.structured.unwrap()),
        Outcome::Partial(_, error) | Outcome::Failure(error) => Err(error),
    }
}

fn run(script: &str) -> (i64, String, String) {
    let ran = call(json!({ "script": script })).unwrap();
    let text = |name: &str| ran[name].as_str().unwrap().to_owned();
    (
        ran["exit_code"].as_i64().unwrap(),
        text("stdout"),
        text("stderr"),
    )
}

fn stdout(script: &str) -> String {
    let (code, stdout, stderr) = run(script);
    assert_eq!((code, stderr.as_str()), (0, ""), "{script}");
    stdout
}

#[test]
fn pipes_globs_and_redirections_work_on_the_folder() {
    let folder = Folder::new();
    folder.write("a.csv", "x\ny\nx\n");
    folder.write("b.csv", "x\nz\n");
    assert_eq!(
        stdout("cat *.csv | sort | uniq -c | sort -rn | head -1 | awk '{print $2, $1}'"),
        "x 3\n"
    );
    stdout("mkdir -p out/deep && grep -h x *.csv > out/deep/x.txt && echo more >> out/deep/x.txt");
    assert_eq!(folder.read("out/deep/x.txt"), "x\nx\nx\nmore\n");
    stdout("mv out/deep/x.txt y.txt && cp y.txt z.txt && rm -r out && ln -s z.txt link");
    assert!(!folder.0.join("out").exists());
    assert_eq!(stdout("cat link | wc -l; readlink link"), "4\nz.txt\n");
    assert_eq!(
        stdout("find . -name '*.csv' | sort | xargs wc -l | tail -1"),
        " 5 total\n"
    );
    assert_eq!(
        stdout("cd /; cd ~; pwd"),
        format!("{}\n", folder.0.display())
    );
}

#[test]
fn programs_of_bash_work() {
    let _folder = Folder::new();
    let script = "set -euo pipefail\nadd() { echo $(($1 + $2)); }\nfor n in 1 2 3; do add $n 10; done\ncat <<END\nsum $(add 1 1)\nEND";
    assert_eq!(stdout(script), "11\n12\n13\nsum 2\n");
    let (code, stdout, stderr) = run("set -e; echo before; false; echo after");
    assert_eq!(
        (code, stdout.as_str(), stderr.as_str()),
        (1, "before\n", "")
    );
    assert_eq!(run("exit 7").0, 7);
    let (code, _, stderr) = run("nonesuch; echo $? >&2; cat missing");
    assert!(
        code == 1 && stderr.contains("nonesuch: command not found\n127\n"),
        "{stderr}"
    );
    let ran = call(
        json!({ "script": "read line; echo \"$1 $# $line\"", "args": ["a", "b"], "stdin": "in\n" }),
    );
    assert_eq!(ran.unwrap()["stdout"], "a 2 in\n");
}

#[test]
fn what_a_command_prints_beside_the_commands_that_it_runs_is_not_lost() {
    let folder = Folder::new();
    folder.write("one", "");
    for (script, expected) in [
        (
            "find . -name one -print -exec echo ran {} \\;",
            "./one\nran ./one\n",
        ),
        (
            "printf 'b\\na\\n' | awk '{ print | \"sort\" } END { close(\"sort\"); print \"done\" }'",
            "a\nb\ndone\n",
        ),
        ("(echo pre; exec > log; echo post); cat log", "pre\npost\n"),
    ] {
        assert_eq!(stdout(script), expected, "{script}");
    }
}

#[test]
fn aliases_and_times_of_folders_work() {
    let _folder = Folder::new();
    assert_eq!(
        stdout("shopt -s expand_aliases\nalias begin='{'\nbegin echo one; }"),
        "one\n"
    );
    assert_eq!(
        stdout("mkdir made; touch -d 2020-01-01 made; date -r made +%Y"),
        "2020\n"
    );
}

#[test]
fn a_script_that_is_not_bash_runs_nothing() {
    let folder = Folder::new();
    for script in [
        "touch made; if true; then",
        "touch made; echo (",
        "echo 'open",
    ] {
        let error = call(json!({ "script": script })).unwrap_err();
        assert_eq!(error.code, "script_invalid", "{script}");
    }
    assert!(!folder.0.join("made").exists());
}

#[test]
fn endless_recursion_is_an_error_that_says_what_to_do() {
    let _folder = Folder::new();
    let error = call(json!({ "script": "f() { f; }; echo before; f" })).unwrap_err();
    assert_eq!(error.code, "recursion_too_deep");
    assert!(
        error
            .message
            .ends_with("use a loop; the end of its output: before"),
        "{error}"
    );
}

#[test]
fn limits_of_the_interpreter_are_out_of_the_way() {
    let _folder = Folder::new();
    assert_eq!(
        stdout("i=0; while [ $i -lt 12000 ]; do i=$((i+1)); done; echo $i"),
        "12000\n"
    );
    assert_eq!(stdout("yes | head -20000 | wc -l"), "20000\n");
    assert_eq!(stdout("yes ab c | head -2"), "ab c\nab c\n");
    assert_eq!(stdout("sleep 0.01 0; echo done"), "done\n");
}

#[test]
fn a_long_stream_is_cut_and_kept_as_an_artifact() {
    let _folder = Folder::new();
    let ran = call(json!({ "script": "seq 1 50000; echo é >&2" })).unwrap();
    assert_eq!(ran["stdout"].as_str().unwrap().len(), STRUCTURED_BYTES_MAX);
    let artifacts = testing::artifacts();
    assert_eq!(
        (artifacts.len(), artifacts[0].name.as_str()),
        (1, "stdout.txt")
    );
    assert!(artifacts[0].is_finished && artifacts[0].bytes.ends_with(b"\n50000\n"));
    assert_eq!(ran["stdout_bytes"], artifacts[0].bytes.len());
    assert!(ran["stderr_bytes"].is_null());
    testing::reset();
    testing::set_artifact_bytes_max(200_000);
    let error = call(json!({ "script": "yes" })).unwrap_err();
    assert_eq!(error.code, "artifact_quota");
}

#[test]
fn bytes_that_are_no_text_are_kept_as_an_artifact() {
    let _folder = Folder::new();
    let ran = call(json!({ "script": "printf '\\377a'" })).unwrap();
    assert_eq!(
        (&ran["stdout"], &ran["stdout_bytes"]),
        (&json!("\u{fffd}a"), &json!(2))
    );
    assert_eq!(testing::artifacts()[0].bytes, b"\xffa");
}

#[test]
fn granted_tools_are_commands() {
    let _folder = Folder::new();
    testing::offer("text.count", |input| {
        match input.get("text").and_then(Value::as_str) {
            Some(text) if input.as_object().unwrap().len() == 1 => Ok(Answer::text(format!(
                "{} words",
                text.split_whitespace().count()
            ))),
            _ => Err(ToolError::invalid_arguments(
                "schema_mismatch",
                "it takes `text`",
            )),
        }
    });
    testing::offer("jq.jq", |input| Ok(Answer::structured(input.clone())));
    testing::offer("a.same", |_| Ok(Answer::text("a\n")));
    testing::offer("b.same", |_| {
        Err(ToolError::execution_failed("broken", "it is broken"))
    });
    assert_eq!(stdout("echo one two | count"), "2 words\n");
    assert_eq!(stdout("text.count text='a b c' | tr a-z A-Z"), "3 WORDS\n");
    assert_eq!(stdout("echo '{\"a\": [1]}' | jq -c .a"), "[1]\n");
    assert_eq!(
        stdout("echo '{\"a\": [1]}' | jq.jq filter=.a n=1 | jq -c ."),
        "{\"filter\":\".a\",\"input\":{\"a\":[1]},\"n\":1}\n"
    );
    assert_eq!(stdout("a.same; jq.jq '{\"x\": true}'"), "a\n{\"x\":true}\n");
    assert_eq!(
        run("b.same || echo caught; same"),
        (127, "caught\n".to_owned(), run("b.same; same").2)
    );
    assert!(run("b.same").2.contains("b.same: it is broken (broken)\n"));
    assert_eq!(
        run("count --words"),
        (2, String::new(), run("count --words").2)
    );
    let help = stdout("help");
    assert!(
        help.contains("  text.count, count  ") && help.contains("  jq.jq  "),
        "{help}"
    );
    assert_eq!(run("help nonesuch").0, 1);
}

#[test]
fn standard_input_of_a_loop_is_left_to_the_loop() {
    let folder = Folder::new();
    folder.write("list", "a\nb\n");
    testing::offer("a.show", |input| {
        Ok(Answer::text(format!(
            "<{}>",
            input["name"].as_str().unwrap()
        )))
    });
    assert_eq!(
        stdout("while read -r n; do show name=$n; done < list"),
        "<a>\n<b>\n"
    );
}

#[test]
fn curl_sends_what_its_options_say() {
    let folder = Folder::new();
    testing::serve(|request| {
        let body = |text: &str| vec![text.as_bytes().to_vec()];
        Ok(match (request.method.as_str(), request.url.as_str()) {
            ("GET", "https://a.test/") => Served {
                status: 302,
                headers: vec![("location".to_owned(), "/next".to_owned())],
                body: body("moved"),
            },
            ("GET", "https://a.test/next") => Served {
                status: 200,
                body: body("{\"n\": 1}"),
                ..Served::default()
            },
            ("POST", "https://a.test/") => Served {
                status: 201,
                body: body("made"),
                ..Served::default()
            },
            ("GET", "https://a.test/missing") => Served {
                status: 404,
                body: body("no"),
                ..Served::default()
            },
            _ => return Err(Error::NotAllowed),
        })
    });
    assert_eq!(stdout("curl -s https://a.test"), "moved");
    assert_eq!(stdout("curl -sSfL https://a.test | jq .n"), "1\n");
    stdout("curl -sL https://a.test -o got.json");
    assert_eq!(folder.read("got.json"), "{\"n\": 1}");
    assert_eq!(stdout("curl -s https://a.test -d x=1"), "made");
    assert_eq!(stdout("curl -s https://a.test/missing"), "no");
    let (code, _, stderr) = run("curl -fsS https://a.test/missing");
    assert_eq!(
        (code, stderr.as_str()),
        (22, "curl: (22) The requested URL returned error: 404\n")
    );
    let (code, _, stderr) = run("curl https://b.test");
    assert!(
        code == 7
            && stderr.contains(
                "b.test: this call may not send that request; only the tool shell_online"
            ),
        "{stderr}"
    );
    assert_eq!(run("curl -k https://a.test").0, 2);
}

#[test]
fn chmod_lasts_for_the_call() {
    let folder = Folder::new();
    folder.write("hello.sh", "#!/bin/bash\necho hello $1\n");
    assert_eq!(stdout("chmod +x hello.sh && ./hello.sh you"), "hello you\n");
    assert_eq!(stdout("bash hello.sh me"), "hello me\n");
}

#[test]
fn nothing_of_this_machine_is_there() {
    let folder = Folder::new();
    let outside = folder.0.with_extension("secret");
    fs::write(&outside, "secret").unwrap();
    let path = outside.display();
    for script in [
        format!("cat {path}"),
        format!(
            "cat {}/../{}",
            folder.0.display(),
            Path::new(&outside).file_name().unwrap().display()
        ),
        format!("ln -s {path} link; cat link"),
        format!("echo x > {path}; cat {path}; exit 1"),
    ] {
        let (code, stdout, _) = run(&script);
        assert!(
            code == 1 && !stdout.contains("secret"),
            "{script}: {stdout}"
        );
    }
    assert_eq!(fs::read_to_string(&outside).unwrap(), "secret");
    fs::remove_file(&outside).unwrap();
    assert_eq!(
        stdout("whoami; hostname; echo $HOME"),
        format!("user\ntoolcell\n{}\n", folder.0.display())
    );
}
