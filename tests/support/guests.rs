use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use toolcell::Home;
use toolcell_toolchain::{BuildSettings, Preference, ToolchainSearch, build};

use super::root;

/// The component of a source folder below the checkout (`example-tools/jq`, `tests/guests/probe`), built once.
pub(crate) fn component(folder: &str) -> PathBuf {
    type Built = Mutex<HashMap<String, Arc<OnceLock<PathBuf>>>>;
    static BUILT: OnceLock<Built> = OnceLock::new();
    let cell = Arc::clone(
        BUILT
            .get_or_init(Mutex::default)
            .lock()
            .unwrap()
            .entry(folder.to_owned())
            .or_default(),
    );
    cell.get_or_init(|| {
        // One build at a time, because parallel builds would wait for cargo's lock.
        static TURN: Mutex<()> = Mutex::new(());
        let _turn = TURN.lock().unwrap();
        build_in(folder, &Home::at(super::kept("home")))
    })
    .clone()
}

/// Builds a source folder below the checkout as a user would, with the state in `home`.
pub(crate) fn build_in(folder: &str, home: &Home) -> PathBuf {
    // The toolchain is the user's, wherever it is installed.
    let own = Home::find().unwrap();
    let search = ToolchainSearch::new(Preference::from_env().unwrap(), own.cache());
    let mut settings = BuildSettings::new(search, home.builds());
    // What the tools have in common is compiled once, here and where a test runs `toolcell build`.
    settings.target_dir = Some(own.compiling());
    let dir = root().join(folder);
    build(&dir, &settings, &mut |line| eprintln!("{line}"))
        .unwrap_or_else(|e| panic!("build {folder}: {e:#}"))
        .wasm
}

/// The component of a test guest by its name: `probe`, `hostile`, ...
pub(crate) fn fixture(name: &str) -> PathBuf {
    component(&format!("tests/guests/{name}"))
}

/// The component of `tests/guests/wat/<name>.wat`, as bytes.
pub(crate) fn wat(name: &str) -> Vec<u8> {
    let file: &Path = &root().join("tests/guests/wat").join(format!("{name}.wat"));
    wat::parse_file(file).unwrap_or_else(|error| panic!("{error}"))
}
