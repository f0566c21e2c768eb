//! Compiled components on disk. Loading one means running it, so toolcell loads only what it wrote itself.
//!
//! Promise: No foreign native code.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;
use toolcell::{ErrorCode, Home, Host};

use crate::support::{Test, host, scratch, wat};

/// A separate home, with two compiled components.
struct Cached {
    _dir: TempDir,
    home: Home,
    echo: PathBuf,
    spin: PathBuf,
}

impl Cached {
    async fn new() -> Self {
        let (guard, dir) = scratch();
        let home = Home::at(dir.join("home"));
        let host = Arc::new(host(|settings| settings.home(home.clone()).pooled(false)));
        Test::new("wat:echo").on(&host).load().await.unwrap();
        let echo = entries(&home).remove(0);
        Test::new("wat:spin").on(&host).load().await.unwrap();
        let spin = entries(&home)
            .into_iter()
            .find(|entry| *entry != echo)
            .unwrap();
        Self {
            _dir: guard,
            home,
            echo,
            spin,
        }
    }

    /// A host that cannot compile, so that it loads only from the cache.
    fn without_compiler(&self) -> Arc<Host> {
        Arc::new(host(|settings| {
            settings
                .home(self.home.clone())
                .pooled(false)
                .compiler("/nowhere/toolcell")
        }))
    }

    /// Checks that the echo tool is compiled again, and then works.
    async fn echo_is_not_taken_from_disk(&self) {
        let refusal = Test::new("wat:echo")
            .on(&self.without_compiler())
            .load()
            .await
            .unwrap_err();
        assert_eq!(refusal.code, ErrorCode::HostFault, "{refusal:?}");
        let host = Arc::new(host(|settings| {
            settings.home(self.home.clone()).pooled(false)
        }));
        Test::new("wat:echo")
            .on(&host)
            .call(json!({ "n": 1 }))
            .await
            .succeeded();
        // The damaged file has been replaced.
        Test::new("wat:echo")
            .on(&self.without_compiler())
            .load()
            .await
            .unwrap();
    }
}

fn entries(home: &Home) -> Vec<PathBuf> {
    fs::read_dir(home.components())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect()
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn a_compiled_component_is_loaded_without_compiling_it_again() {
    let cached = Cached::new().await;
    let host = cached.without_compiler();
    let called = Test::new("wat:echo")
        .on(&host)
        .call(json!({ "kept": true }))
        .await;
    assert_eq!(called.succeeded(), json!({ "kept": true }));
    let refusal = Test::new("wat:divide-by-zero")
        .on(&host)
        .load()
        .await
        .unwrap_err();
    assert_eq!(refusal.code, ErrorCode::HostFault, "{refusal:?}");
    assert!(!refusal.message.contains("/nowhere"), "{}", refusal.message);
}

#[tokio::test]
async fn an_entry_with_one_changed_bit_is_not_loaded() {
    // In the authentication code, the length, the description, the code, and the very last byte.
    let cached = Cached::new().await;
    let good = fs::read(&cached.echo).unwrap();
    for at in [0, 31, 32, 40, 100, good.len() / 2, good.len() - 1] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        fs::write(&cached.echo, bad).unwrap();
        let refusal = Test::new("wat:echo")
            .on(&cached.without_compiler())
            .load()
            .await
            .unwrap_err();
        assert_eq!(refusal.code, ErrorCode::HostFault, "byte {at}: {refusal:?}");
    }
    cached.echo_is_not_taken_from_disk().await;
}

#[tokio::test]
async fn an_entry_that_was_cut_or_made_longer_is_not_loaded() {
    let cached = Cached::new().await;
    let good = fs::read(&cached.echo).unwrap();
    let longer = [good.as_slice(), b"x"].concat();
    for bad in [
        &[][..],
        &good[..16],
        &good[..40],
        &good[..good.len() - 1],
        &longer,
    ] {
        fs::write(&cached.echo, bad).unwrap();
        let refusal = Test::new("wat:echo")
            .on(&cached.without_compiler())
            .load()
            .await
            .unwrap_err();
        assert_eq!(
            refusal.code,
            ErrorCode::HostFault,
            "{} bytes: {refusal:?}",
            bad.len()
        );
    }
    cached.echo_is_not_taken_from_disk().await;
}

#[tokio::test]
async fn the_entry_of_another_component_is_not_loaded() {
    let cached = Cached::new().await;
    fs::copy(&cached.spin, &cached.echo).unwrap();
    cached.echo_is_not_taken_from_disk().await;
}

#[tokio::test]
async fn an_entry_that_was_made_with_another_key_is_not_loaded() {
    let cached = Cached::new().await;
    fs::write(cached.home.component_key(), [7; 32]).unwrap();
    cached.echo_is_not_taken_from_disk().await;
    fs::remove_file(cached.home.component_key()).unwrap();
    cached.echo_is_not_taken_from_disk().await;
}

#[tokio::test]
async fn an_entry_that_somebody_else_wrote_is_not_loaded() {
    let theirs = Cached::new().await;
    let cached = Cached::new().await;
    assert_eq!(theirs.echo.file_name(), cached.echo.file_name());
    fs::copy(&theirs.echo, &cached.echo).unwrap();
    cached.echo_is_not_taken_from_disk().await;
}

/// A compiler that fails when it is asked to compile again, and then makes the file `asked` beside it. A process of its own
/// writes it: if this one had it open for writing while another test starts a program, it could not be executed.
fn compiler_that_compiles_once(file: &Path) {
    let script = concat!(
        "#!/bin/sh\ncase \"$*\" in *' again '*) : >\"${0%/*}/asked\"; exit 1;; esac\nexec '",
        env!("CARGO_BIN_EXE_toolcell"),
        "' \"$@\"\n"
    );
    let write = "printf %s \"$1\" >\"$2\" && chmod 700 \"$2\"";
    let written = Command::new("sh")
        .args(["-c", write, "sh", script])
        .arg(file)
        .status()
        .unwrap();
    assert!(written.success());
}

#[tokio::test]
async fn a_component_that_cannot_be_compiled_again_keeps_the_code_that_it_has() {
    let (_guard, dir) = scratch();
    let home = Home::at(dir.join("home"));
    let compiler = dir.join("compiler");
    let asked = dir.join("asked");
    compiler_that_compiles_once(&compiler);
    let host = Arc::new(host(|settings| {
        settings.home(home.clone()).compiler(compiler.clone())
    }));
    Test::new("wat:echo")
        .on(&host)
        .call(json!({ "n": 1 }))
        .await
        .succeeded();
    let code = fs::read(entries(&home).remove(0)).unwrap();
    let end = Instant::now() + Duration::from_secs(120);
    while !asked.exists() {
        assert!(Instant::now() < end, "it is not compiled again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The compiler has to end, and the host to hear of it.
    tokio::time::sleep(Duration::from_millis(500)).await;
    Test::new("wat:echo")
        .on(&host)
        .call(json!({ "n": 2 }))
        .await
        .succeeded();
    assert!(
        fs::read(entries(&home).remove(0)).unwrap() == code,
        "another process gets other code"
    );
    assert_eq!(entries(&home).len(), 1, "something was left behind");
}

/// The error of a host that loads nothing.
async fn refused(home: &Home) -> String {
    let refusal = Host::builder()
        .home(home.clone())
        .compiler(env!("CARGO_BIN_EXE_toolcell"))
        .pooled(false)
        .build()
        .unwrap()
        .load(&wat("echo"))
        .await
        .err()
        .unwrap();
    assert_eq!(
        refusal.code,
        ErrorCode::ComponentKeyUnreadable,
        "{refusal:?}"
    );
    refusal.message
}

#[tokio::test]
async fn a_key_that_is_not_private_whole_and_a_file_is_refused() {
    let cached = Cached::new().await;
    let key = cached.home.component_key();
    for open in [0o640, 0o604, 0o620] {
        fs::set_permissions(&key, fs::Permissions::from_mode(open)).unwrap();
        let why = refused(&cached.home).await;
        assert!(
            why.contains("can be read by others") && why.contains(super::text(&key)),
            "{open:o}: {why}"
        );
    }
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    for bad in [&[][..], &[1; 31], &[1; 33]] {
        fs::write(&key, bad).unwrap();
        assert!(refused(&cached.home).await.contains("damaged"));
    }
    let elsewhere = key.with_file_name("elsewhere");
    fs::rename(&key, &elsewhere).unwrap();
    symlink(&elsewhere, &key).unwrap();
    assert!(refused(&cached.home).await.contains("open the key file"));
}

#[tokio::test]
async fn what_is_kept_is_private() {
    let cached = Cached::new().await;
    for file in [&cached.echo, &cached.spin, &cached.home.component_key()] {
        assert_eq!(mode(file), 0o600, "{}", file.display());
    }
    for folder in [
        cached.home.components(),
        cached.home.component_key().parent().unwrap().to_owned(),
    ] {
        assert_eq!(mode(&folder), 0o700, "{}", folder.display());
    }
    assert_eq!(entries(&cached.home).len(), 2, "something was left behind");
}

#[tokio::test]
async fn an_entry_that_others_can_write_to_is_not_loaded() {
    let cached = Cached::new().await;
    for open in [0o620, 0o602] {
        fs::set_permissions(&cached.echo, fs::Permissions::from_mode(open)).unwrap();
        let refusal = Test::new("wat:echo")
            .on(&cached.without_compiler())
            .load()
            .await
            .unwrap_err();
        assert_eq!(refusal.code, ErrorCode::HostFault, "{open:o}: {refusal:?}");
    }
    cached.echo_is_not_taken_from_disk().await;
}
