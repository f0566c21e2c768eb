//! All fuzz targets in one program; the variable `TOOLCELL_FUZZ` names the one that runs.

#![no_main]

mod archives;
mod components;
mod frames;
mod lifting;
mod redaction;
mod rules;
mod sections;
mod settings;
mod shared;
mod signatures;
mod toolkit;

use std::sync::OnceLock;

type Target = fn(&[u8]);

const TARGETS: [(&str, Target); 10] = [
    ("toolkit", toolkit::run),
    ("redaction", redaction::run),
    ("rules", rules::run),
    ("settings", settings::run),
    ("frames", frames::run),
    ("lifting", lifting::run),
    ("components", components::run),
    ("sections", sections::run),
    ("signatures", signatures::run),
    ("archives", archives::run),
];

fn named() -> Target {
    let name = std::env::var("TOOLCELL_FUZZ").expect("TOOLCELL_FUZZ names a target");
    let found = TARGETS.into_iter().find(|(known, _)| *known == name);
    found
        .unwrap_or_else(|| panic!("there is no fuzz target `{name}`"))
        .1
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    static TARGET: OnceLock<Target> = OnceLock::new();
    TARGET.get_or_init(named)(data);
});
