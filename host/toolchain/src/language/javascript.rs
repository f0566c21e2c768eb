//! JavaScript, with types in JSDoc comments: the SDK and the toolchain of TypeScript.

use std::path::Path;

use anyhow::Result;

use super::super::Say;
use super::super::build::{BuildSettings, Built};
use super::super::find::Search;
use super::super::make;
use super::super::project::Kind;
use super::super::room::Room;
use super::typescript::{self, ROOM, STEERING};
use super::{File, Language};

pub(super) struct JavaScript;

const TOOL: &[File] = &[
    ("package.json", include_str!("../template/javascript/package.json")),
    ("jsconfig.json", include_str!("../template/javascript/jsconfig.json")),
    ("src/tool.js", include_str!("../template/javascript/tool.js")),
    ("test/tool.test.js", include_str!("../template/javascript/tool.test.js")),
    ("README.md", include_str!("../template/javascript/README.md")),
    (".gitignore", include_str!("../template/javascript/gitignore")),
];

impl Language for JavaScript {
    fn name(&self) -> &'static str {
        "javascript"
    }

    fn title(&self) -> &'static str {
        "JavaScript"
    }

    /// With a tsconfig.json as well, a project is one of TypeScript, which is built in the same way.
    fn marks(&self) -> &'static [&'static str] {
        &["package.json"]
    }

    fn template(&self, kind: Kind) -> &'static [File] {
        match kind {
            Kind::Tool => TOOL,
            Kind::Hook => &[],
        }
    }

    fn local_files(&self, sdk: &Path) -> Result<Vec<(String, String)>> {
        typescript::local_files(sdk)
    }

    /// That of TypeScript, which has all of it.
    fn sdk(&self) -> &'static [File] {
        &[]
    }

    fn test_command(&self) -> &'static str {
        "npm test"
    }

    fn rooms(&self, _search: &Search) -> Vec<&'static Room> {
        vec![&ROOM]
    }

    fn made_beside(&self) -> &'static [&'static str] {
        typescript::TypeScript.made_beside()
    }

    fn steering(&self) -> &'static [&'static str] {
        STEERING
    }

    fn build(&self, dir: &Path, settings: &BuildSettings, say: Say) -> Result<Built> {
        make::build(&Self, dir, settings, &typescript::compile, say)
    }
}
