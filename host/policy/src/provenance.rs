use std::path::{Path, PathBuf};

use anyhow::bail;

use toolcell_spec::RuleSource;

/// Where a grant or a rule was written. It is recorded with every decision that the grant or rule takes part in.
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
    /// The kind of place, which decides the authority of a rule.
    pub source: RuleSource,
    /// The file that contains it, if any. Relative paths start at the file's folder, otherwise in the working
    /// directory.
    pub file: Option<&'a Path>,
}

impl Provenance<'static> {
    /// An option of the command line.
    pub const COMMAND_LINE: Self = Self {
        source: RuleSource::CliArg,
        file: None,
    };
    /// Accepted while the session lasts.
    pub const SESSION: Self = Self {
        source: RuleSource::Session,
        file: None,
    };
}

impl Provenance<'_> {
    /// Where relative paths start.
    pub(super) fn base(&self) -> &Path {
        self.file.and_then(Path::parent).unwrap_or(Path::new(""))
    }

    /// Fails if a path in a project's file leads through one of `links` inside the project, because the project could
    /// redirect the path after the user trusted the file. `end` is where the path leads now.
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

    /// Fails if `text` is a relative path in the user's own file: no call is made in the folder of that file, so a denial
    /// there would close nothing, and nobody would notice. `advice` is what else could be meant.
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

    /// The grant as records and messages show it: the option, or the entry of a file.
    pub(super) fn words(&self, option: &str, entry: &str, spec: &str) -> String {
        match self.file {
            None => format!("{option}={spec}"),
            Some(file) => format!("grants.{entry} {spec:?} in {}", file.display()),
        }
    }
}
