use std::path::{Path, PathBuf};

use anyhow::bail;

use toolcell_spec::RuleSource;

/// Place of a grant or a rule, recorded with decisions.
///
/// ```
/// use std::path::Path;
///
/// use toolcell_policy::{Provenance, Rule, RuleWords};
/// use toolcell_spec::RuleSource;
///
/// let file = Path::new("/home/ada/.config/toolcell/toolcell.toml");
/// let said = Provenance { source: RuleSource::UserSettings, file: Some(file) };
/// let rule = Rule::compile(&RuleWords { behavior: "ask", risk: Some("high"), ..RuleWords::default() }, &said)?;
/// assert_eq!(rule.source(), RuleSource::UserSettings);
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Provenance<'a> {
    /// Decides the authority of a rule.
    pub source: RuleSource,
    /// Relative paths start at the file's folder, otherwise in the working directory.
    pub file: Option<&'a Path>,
}

impl Provenance<'static> {
    pub const COMMAND_LINE: Self = Self {
        source: RuleSource::CliArg,
        file: None,
    };
    pub const SESSION: Self = Self {
        source: RuleSource::Session,
        file: None,
    };
}

impl Provenance<'_> {
    pub(super) fn base(&self) -> &Path {
        self.file.and_then(Path::parent).unwrap_or(Path::new(""))
    }

    /// Fails if a project's path leads through a link inside the project, which could redirect it after the user
    /// trusted the file. `end` is the target now.
    pub(super) fn own_link(&self, links: &[PathBuf], end: &Path) -> anyhow::Result<()> {
        if !self.source.is_in_checkout() || !guard!("project_links") {
            return Ok(());
        }
        match links.iter().find(|link| link.starts_with(self.base())) {
            Some(link) => bail!(
                "{} is a link inside of the project, which a project may not grant through; if you mean what it leads to \
                 now, {}, write that into the file in its place",
                link.display(),
                end.display(),
            ),
            None => Ok(()),
        }
    }

    /// Fails on relative paths in the user's own file: no call is made in its folder, so a denial there would close
    /// nothing, unnoticed. `advice` says what else could be meant.
    pub(super) fn leads_somewhere(&self, text: &str, advice: &str) -> anyhow::Result<()> {
        let is_own = self.source == RuleSource::UserSettings && self.file.is_some();
        let is_relative = !text.starts_with('/') && text != "~" && !text.starts_with("~/");
        if is_own && is_relative {
            bail!(
                "{text:?} is relative to the folder of your own file, {}, where no tool can open anything; write a whole \
                 path, or one that begins with ~/{advice}",
                self.base().display(),
            );
        }
        Ok(())
    }

    pub(super) fn words(&self, option: &str, entry: &str, spec: &str) -> String {
        match self.file {
            None => format!("{option}={spec}"),
            Some(file) => format!("grants.{entry} {spec:?} in {}", file.display()),
        }
    }
}
