//! Ways out of a granted folder. Each is tried through std, as a tool would, and through the bare WASI interface,
//! because the guest's standard library refuses some paths before the host sees them.

use std::fs;
use std::io;

use fixture::{Access, Attempts, Input, Tool};
use serde_json::json;
use wasip2::filesystem::preopens;
use wasip2::filesystem::types::{Descriptor, DescriptorFlags, ErrorCode, OpenFlags, PathFlags};

use crate::files::symlink;
use crate::surroundings::{HOST_FOLDERS, preopened_paths};
use crate::{Call, Handler, Outcome, answer};

pub(crate) fn tools() -> Vec<Tool> {
    let tool = |name, access, description| {
        Tool::new(name, access, description).input(
            json!({
                "root": { "type": "string" },
                "outside": { "type": "string" },
                "link": { "type": "string" },
                "sibling": { "type": "string" },
            }),
            &["root", "outside"],
        )
    };
    vec![
        tool(
            "escape",
            Access::WritesFiles,
            "Tries every way out of a folder, as a writer",
        ),
        tool(
            "escape_reader",
            Access::ReadsFiles,
            "Tries every way out of a folder, as a reader",
        ),
    ]
}

pub(crate) fn handler(tool: &str) -> Option<Handler> {
    matches!(tool, "escape" | "escape_reader").then_some(escape as Handler)
}

/// The folder that the guest is confined to, and the file that it tries to reach.
struct Target {
    /// The granted folder, as the guest names it.
    root: String,
    /// A file outside, as the host names it.
    outside: String,
    /// The last part of `outside`.
    file: String,
    /// A path to `outside` with more `..` than any folder is deep.
    climbing: String,
    /// A link in `root` from before the call, to the file outside or to its folder.
    link: String,
    /// A folder beside `root` whose name begins with that of `root`.
    sibling: String,
}

impl Target {
    fn new(input: &Input) -> Self {
        let root = input.text("root").trim_end_matches('/').to_owned();
        let outside = input.text("outside").to_owned();
        let file = outside.rsplit('/').next().unwrap_or_default().to_owned();
        let sibling = match input.given("sibling") {
            Some(sibling) => sibling.to_owned(),
            None => format!("{root}-evil"),
        };
        Self {
            climbing: format!("{}{}", "../".repeat(24), outside.trim_start_matches('/')),
            link: input.text_or("link", "link-out").to_owned(),
            root,
            outside,
            file,
            sibling,
        }
    }

    fn inside(&self, name: &str) -> String {
        format!("{}/{name}", self.root)
    }
}

fn escape(_: &Call, input: &Input) -> Outcome {
    let target = Target::new(input);
    let mut attempts = Attempts::default();
    read_outside(&target, &mut attempts);
    read_through_own_links(&target, &mut attempts);
    change_outside(&target, &mut attempts);
    list_folders_never_given(&mut attempts);
    for (folder, path) in preopens::get_directories() {
        open_past_std(&target, &folder, &path, &mut attempts);
        link_past_std(&target, &folder, &path, &mut attempts);
    }
    answer(attempts.to_value())
}

fn read(path: &str) -> io::Result<String> {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn read_outside(target: &Target, attempts: &mut Attempts) {
    let mut attempt = |name: &str, path: String| {
        let outcome = read(&path);
        attempts.record(name, path, outcome);
    };
    attempt("dotdot", target.inside(&target.climbing));
    attempt(
        "dot_segments",
        target.inside(&format!("././/{}", target.climbing)),
    );
    attempt("relative", target.climbing.clone());
    attempt("absolute", target.outside.clone());
    attempt("double_slash", format!("/{}", target.outside));
    attempt("nul_byte", format!("{}\0.txt", target.outside));
    attempt("sibling", format!("{}/{}", target.sibling, target.file));
    attempt(
        "sibling_by_dotdot",
        target.inside(&format!("..{}/{}", target.sibling, target.file)),
    );
    attempt("existing_link", target.inside(&target.link));
    attempt(
        "existing_link_to_folder",
        target.inside(&format!("{}/{}", target.link, target.file)),
    );
    attempt("own_environment", "/proc/self/environ".into());
}

fn read_through_own_links(target: &Target, attempts: &mut Attempts) {
    let outside_folder = target.outside.trim_end_matches(&target.file);
    let climbing_folder = target.climbing.trim_end_matches(&target.file);
    let mut attempt = |name: &str, says: &str, beneath: &str| {
        let link = target.inside(&format!("escape-{name}"));
        let path = format!("{link}{beneath}");
        // A link from an earlier call will do as well, so the read is tried even if no link could be made.
        let made = symlink(says, &link);
        let outcome = read(&path).map_err(|error| match made {
            Ok(()) => format!("linked, then {error}"),
            Err(unmade) => format!("not linked ({unmade}), then {error}"),
        });
        attempts.record(name, format!("{path} -> {says}"), outcome);
    };
    let beneath = format!("/{}", target.file);
    attempt("own_absolute_link", &target.outside, "");
    attempt("own_climbing_link", &target.climbing, "");
    attempt("own_absolute_folder_link", outside_folder, &beneath);
    attempt("own_climbing_folder_link", climbing_folder, &beneath);
    attempt("own_link_to_slash", "/", &target.outside);
    attempt(
        "own_link_to_parent",
        "..",
        &format!("{}/{}", target.sibling, target.file),
    );
}

fn change_outside(target: &Target, attempts: &mut Attempts) {
    let bait = target.inside("escape-bait");
    let made = fs::write(&bait, "bait");
    attempts.record("opened_hard_link", &target.outside, {
        let link = target.inside("escape-hard-link");
        fs::hard_link(&target.outside, &link).and_then(|()| read(&link))
    });
    let places = [
        ("absolute", format!("{}.escaped", target.outside)),
        (
            "dotdot",
            target.inside(&format!("{}.escaped", target.climbing)),
        ),
        ("sibling", format!("{}/escaped", target.sibling)),
        (
            "existing_link",
            target.inside(&format!("{}/escaped", target.link)),
        ),
    ];
    for (way, place) in places {
        let mut attempt = |what: &str, outcome: io::Result<()>| {
            attempts.record(
                &format!("{what}_{way}"),
                &place,
                outcome.map(|()| String::new()),
            );
        };
        attempt("create", fs::write(&place, "escaped"));
        attempt("mkdir", fs::create_dir(format!("{place}-folder")));
        attempt("symlink", symlink("/", &format!("{place}-symlink")));
        if made.is_ok() {
            attempt(
                "hard_link",
                fs::hard_link(&bait, format!("{place}-hard-link")),
            );
            attempt("rename", fs::rename(&bait, format!("{place}-renamed")));
        }
    }
}

fn list_folders_never_given(attempts: &mut Attempts) {
    let given = preopened_paths();
    let never_given = |folder: &str| {
        let beneath = |path: &String| {
            folder == path || folder.starts_with(&format!("{}/", path.trim_end_matches('/')))
        };
        folder.starts_with('/') && !given.iter().any(beneath)
    };
    for folder in HOST_FOLDERS.iter().filter(|folder| never_given(folder)) {
        let outcome = fs::read_dir(folder).map(|entries| format!("{} entries", entries.count()));
        attempts.record("list_never_given", folder, outcome);
    }
}

fn open_past_std(target: &Target, folder: &Descriptor, name: &str, attempts: &mut Attempts) {
    // Whether the folder is created or exists already, a path can then climb out of it.
    let _ = folder.create_directory_at("escape-folder");
    let paths = [
        target.outside.clone(),
        target.climbing.clone(),
        format!("escape-folder/../{}", target.climbing),
        format!("./{}", target.climbing),
        target.link.clone(),
        format!("{}/{}", target.link, target.file),
        format!("..{}/{}", target.sibling, target.file),
        format!(
            "../{}",
            target.sibling.rsplit('/').next().unwrap_or_default()
        ),
        "..".into(),
        "../".into(),
        "./..".into(),
        "/".into(),
        "/proc/self/environ".into(),
        format!("{}\0", target.outside),
        format!("{}{}", "./".repeat(2500), target.climbing),
        target.climbing.replace('/', "\\"),
    ];
    for path in paths {
        attempts.record("open_at", shown(name, &path), open_and_read(folder, &path));
        let found = folder.stat_at(PathFlags::SYMLINK_FOLLOW, &path);
        attempts.record(
            "stat_at",
            shown(name, &path),
            found.map(|stat| format!("{stat:?}")),
        );
    }
}

/// Opens a file and reads its first bytes, or opens a folder and lists it.
fn open_and_read(folder: &Descriptor, path: &str) -> Result<String, ErrorCode> {
    let open = |flags| {
        folder.open_at(
            PathFlags::SYMLINK_FOLLOW,
            path,
            flags,
            DescriptorFlags::READ,
        )
    };
    let opened = open(OpenFlags::empty()).or_else(|_| open(OpenFlags::DIRECTORY))?;
    let bytes = match opened.read(4096, 0) {
        Ok((bytes, _)) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => "a folder".to_owned(),
    };
    Ok(bytes)
}

fn link_past_std(target: &Target, folder: &Descriptor, name: &str, attempts: &mut Attempts) {
    let says = [target.outside.as_str(), &target.climbing];
    for (number, says) in says.into_iter().enumerate() {
        let link = format!("escape-bare-{number}");
        let unlinked = folder.symlink_at(says, &link).err();
        let outcome = open_and_read(folder, &link).map_err(|error| match unlinked {
            None => format!("linked, then {error}"),
            Some(unlinked) => format!("not linked ({unlinked}), then {error}"),
        });
        attempts.record("symlink_at", shown(name, says), outcome);
        let hard = format!("escape-bare-hard-{number}");
        let outcome = folder
            .link_at(PathFlags::empty(), says, folder, &hard)
            .and_then(|()| open_and_read(folder, &hard));
        attempts.record("link_at", shown(name, says), outcome);
        let away = format!("{says}.escaped-bare");
        let bait = format!("escape-bare-bait-{number}");
        let made = OpenFlags::CREATE;
        let outcome = folder
            .open_at(PathFlags::empty(), &bait, made, DescriptorFlags::WRITE)
            .and_then(|_| folder.rename_at(&bait, folder, &away))
            .map(|()| String::new());
        attempts.record("rename_at", shown(name, &away), outcome);
        let outcome = folder
            .open_at(PathFlags::empty(), &away, made, DescriptorFlags::WRITE)
            .map(|_| String::new());
        attempts.record("create_at", shown(name, &away), outcome);
    }
}

/// Truncates long paths, because people read the list too.
fn shown(folder: &str, path: &str) -> String {
    let start: String = path.chars().take(120).collect();
    format!("{folder}: {start}")
}
