//! A thousand components: the start of a server that offers them, and a search among their tools.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use toolcell_engine::catalog::Surface;
use toolcell_engine::find::{RESULTS, ToolFinder, ToolQuery};

use crate::samples::{Samples, repeated};
use crate::subjects;

const COMPONENTS: usize = 1_000;
const STARTS: usize = 15;
const TOOLCELL: &str = env!("CARGO_BIN_EXE_toolcell");
const GREETING: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"#,
    r#""clientInfo":{"name":"bench","version":"1"}}}"#,
    "\n",
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    "\n",
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
    "\n",
);

pub(crate) fn run() -> anyhow::Result<()> {
    let count = repeated(COMPONENTS);
    let (home, folder) = components(count)?;
    println!(
        "many: `toolcell mcp` with {count} components; median of {}",
        repeated(STARTS)
    );
    println!(
        "start to the first tools/list: {:.0} ms (target: at most 150)",
        starts(&home, &folder)?.median_ms()
    );
    println!(
        "a search in process: {:.0} us (target: below 1000)",
        searches(count)?.median_us()
    );
    Ok(())
}

/// The namespace of the component `n`, as long as that in the component text.
fn namespace(n: usize) -> String {
    format!(
        "{}{:02}",
        char::from(b'a' + u8::try_from(n / 100).unwrap_or(0)),
        n % 100
    )
}

fn component(text: &str, n: usize) -> anyhow::Result<Vec<u8>> {
    let own = namespace(n);
    let text = text.replace("\\\"wat", &format!("\\\"{own}"));
    Ok(wat::parse_str(text)?)
}

/// Writes the components, unless an earlier run did, and loads each once.
fn components(count: usize) -> anyhow::Result<(PathBuf, PathBuf)> {
    let kept = subjects::kept().join(format!("many-{count}"));
    let home = kept.join("home");
    let folder = kept.join("tools");
    if !folder.exists() {
        let text = subjects::wat_text("echo")?;
        std::fs::create_dir_all(&folder)?;
        for n in 0..count {
            std::fs::write(folder.join(format!("{n:04}.wasm")), component(&text, n)?)?;
        }
        // Nothing is noted of a file that changed just now.
        std::thread::sleep(Duration::from_millis(1_200));
    }
    let loaded = Command::new(TOOLCELL)
        .env("TOOLCELL_HOME", &home)
        .args(["search", "echo"])
        .arg(&folder)
        .stdout(Stdio::null())
        .status()?;
    anyhow::ensure!(loaded.success(), "load the components: {loaded}");
    Ok((home, folder))
}

fn starts(home: &Path, folder: &Path) -> anyhow::Result<Samples> {
    let mut samples = Samples::new();
    for _ in 0..repeated(STARTS) {
        let start = Instant::now();
        let mut server = Command::new(TOOLCELL)
            .env("TOOLCELL_HOME", home)
            .arg("mcp")
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        server
            .stdin
            .as_mut()
            .context("the server has no input")?
            .write_all(GREETING.as_bytes())?;
        let answers = BufReader::new(server.stdout.take().context("the server has no output")?);
        let listed = answers.lines().find(|line| {
            line.as_ref()
                .is_ok_and(|line| line.contains(r#""tools":["#))
        });
        samples.since(start);
        server.kill()?;
        server.wait()?;
        anyhow::ensure!(listed.is_some(), "the server listed no tools");
    }
    Ok(samples)
}

fn searches(count: usize) -> anyhow::Result<Samples> {
    let host = subjects::host(|settings| settings)?;
    let text = subjects::wat_text("echo")?;
    let mut tools = Vec::new();
    let runtime = crate::runtime()?;
    for n in 0..count {
        let loaded = runtime.block_on(host.load(&component(&text, n)?));
        tools.extend(
            loaded
                .map_err(|refusal| anyhow::anyhow!("load a component: {refusal:?}"))?
                .tools,
        );
    }
    let names = tools
        .iter()
        .map(|tool| tool.declaration().qualified_name())
        .collect();
    let finder = ToolFinder::new(&Surface::new(tools, count), names)
        .map_err(|refusal| anyhow::anyhow!("{refusal:?}"))?;
    let mut samples = Samples::new();
    for n in 0..count {
        let own = namespace(n);
        let start = Instant::now();
        let query = ToolQuery::parse(&format!("which tool echoes {own} records?"));
        let found = query.and_then(|query| finder.search(&query, RESULTS, |_| false));
        samples.since(start);
        let found = found.map_err(|refusal| anyhow::anyhow!("{refusal:?}"))?;
        anyhow::ensure!(
            found
                .matches
                .first()
                .is_some_and(|first| first.name.starts_with(&own)),
            "{own} was not found"
        );
    }
    Ok(samples)
}
