//! JavaScript, with types in JSDoc comments: the SDK and the toolchain of TypeScript.

use super::fetched::{FetchedToolchain, outside};
use super::typescript::{MADE_BESIDE, PART, STEERING, compile, extended, local_files, read};
use super::{EmbeddedFile, LanguageRow, every_name};

const TOOL: &[EmbeddedFile] = &[
    (
        "package.json",
        include_str!("../template/javascript/package.json"),
    ),
    (
        "jsconfig.json",
        include_str!("../template/javascript/jsconfig.json"),
    ),
    (
        "src/tool.js",
        include_str!("../template/javascript/tool.js"),
    ),
    (
        "test/tool.test.js",
        include_str!("../template/javascript/tool.test.js"),
    ),
    (
        "README.md",
        include_str!("../template/javascript/README.md"),
    ),
    (
        ".gitignore",
        include_str!("../template/javascript/gitignore"),
    ),
];

pub(super) static JAVASCRIPT: LanguageRow = LanguageRow {
    name: "javascript",
    title: "JavaScript",
    // With a tsconfig.json as well, a project is one of TypeScript, which is built in the same way.
    marks: &["package.json"],
    tool: TOOL,
    hook: &[],
    local_files,
    refuses_name: every_name,
    // That of TypeScript has all of it.
    sdk: &[],
    test_command: "npm test",
    fetched: Some(FetchedToolchain {
        part: &PART,
        made_beside: MADE_BESIDE,
        steering: STEERING,
        beside: |dir| Ok(outside(dir, extended(dir)?)),
        read,
        skips: false,
        compile,
    }),
};
