//! Configured hooks: loads the hooks that `toolcell.toml` names, to run around every call.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};

use toolcell::Host;
use toolcell_executor::hook::{Matcher, OnFailure, Registration};
use toolcell_policy::{GrantWord, Grants, Provenance};
use toolcell_spec::{HookEvent, digest};
use toolcell_system::component_file::read_component;

use super::{ConfigFile, GrantSection, HookEntry, HookMatcher};

/// Default time limit of one run of a hook component.
const WALL_DEFAULT: Duration = Duration::from_secs(1);

/// A hook that a file configures.
pub struct ConfiguredHook<'a> {
    pub entry: &'a HookEntry,
    /// Where the entry is, and where relative paths of its grants start.
    pub said: Provenance<'a>,
    /// The digest that the component must have, if the user trusted one: see [`hook_digests`].
    pub digest: Option<&'a str>,
    /// Files that no hook may change: see [`super::ConfigLayers::kept`].
    pub kept: &'a Grants,
}

/// Returns the digests of the hook components that `file`, a project's file, names, in their order. Fails at the first
/// component that cannot be trusted.
pub fn hook_digests(file: &ConfigFile) -> anyhow::Result<Vec<String>> {
    file.hooks
        .iter()
        .map(|entry| hook_digest(file, entry))
        .collect()
}

/// Returns the digest of the component that `entry` of `file` names. Fails for a source folder, because a build runs
/// the project's own code outside of any sandbox, and a user who trusts a file has not reviewed that code.
pub(super) fn hook_digest(file: &ConfigFile, entry: &HookEntry) -> anyhow::Result<String> {
    let path = file.folder.join(&entry.component);
    if path.is_dir() {
        let path = path.display();
        bail!(
            "{path} is a source folder, which is not built for a project; run `toolcell build {path}`, and name the .wasm"
        );
    }
    read_component(&path)
        .map(|bytes| digest(&bytes))
        .map_err(|refusal| anyhow::anyhow!(refusal.message))
}

/// Fails if `entry` cannot be configured: an event, a time, a pattern or a grant is invalid, or no hook may have the
/// grant. It does not read the component.
pub(super) fn check(
    entry: &HookEntry,
    said: &Provenance<'_>,
    protected: &[PathBuf],
) -> anyhow::Result<()> {
    matcher(entry).map_err(anyhow::Error::msg)?;
    match understand(entry, said)?.1.refusal(protected) {
        Some(refusal) => bail!(refusal.message),
        None => Ok(()),
    }
}

fn matcher(entry: &HookEntry) -> Result<Matcher, String> {
    let HookMatcher { tool, namespace } = &entry.matcher;
    Matcher::new(tool.as_deref(), namespace.as_deref())
}

/// Adds a hook whose component is the file `component`. A hook that cannot be loaded is added all the same: it
/// fails before each call that it would have received, which blocks that call unless its entry says `on_failure =
/// "warn"`. Returns why it could not be loaded, if it could not. Fails, and adds nothing, if another hook has the
/// same id.
pub async fn add_hook(
    host: &mut Host,
    configured: &ConfiguredHook<'_>,
    component: anyhow::Result<impl AsRef<Path>>,
) -> Result<Option<String>, String> {
    let entry = configured.entry;
    let id = id(entry);
    let matcher = matcher(entry);
    let loaded = match (&matcher, component) {
        (Err(why), _) => Err(anyhow::Error::msg(why.clone())),
        (_, Err(error)) => Err(error),
        (Ok(_), Ok(component)) => load_hook(host, configured, &id, component.as_ref()).await,
    };
    let (registration, problem) = match loaded {
        Ok(registration) => (registration, None),
        Err(error) => {
            let why = format!("the hook {id} could not be loaded: {error:#}");
            (Registration::not_loaded(&id, &why), Some(why))
        }
    };
    // A hook with an invalid matcher guards every call.
    let registration = registration
        .matching(matcher.unwrap_or_default())
        .priority(entry.priority);
    host.add_hook(match entry.on_failure {
        Some(super::OnFailure::Block) => registration.on_failure(OnFailure::Block),
        Some(super::OnFailure::Warn) => registration.on_failure(OnFailure::Warn),
        None => registration,
    })?;
    Ok(problem)
}

async fn load_hook(
    host: &Host,
    configured: &ConfiguredHook<'_>,
    id: &str,
    component: &Path,
) -> anyhow::Result<Registration> {
    let (events, mut grants, wall) = understand(configured.entry, &configured.said)?;
    grants.extend(configured.kept)?;
    let bytes = read_component(component).map_err(|refusal| anyhow::anyhow!(refusal.message))?;
    // Checks the loaded bytes, because the file may have changed since its project was found to be trusted (a
    // TOCTOU race).
    if configured
        .digest
        .is_some_and(|trusted| trusted != digest(&bytes))
    {
        bail!(
            "{} is not the component that was trusted",
            component.display()
        );
    }
    let hook = host
        .load_hook(id, &bytes, &grants, wall)
        .await
        .map_err(|refusal| match refusal.detail {
            Some(detail) => anyhow::anyhow!("{}: {detail}", refusal.message),
            None => anyhow::anyhow!(refusal.message),
        })?;
    if let Some(event) = events
        .iter()
        .find(|event| !toolcell_executor::hook::Hook::events(&*hook).contains(event))
    {
        bail!(
            "it does not handle {}, which its entry names",
            event.as_str()
        );
    }
    let registration = Registration::new(hook).within(wall);
    Ok(if events.is_empty() {
        registration
    } else {
        registration.only(&events)
    })
}

/// Returns the name of a hook in records: the entry's id, or else its file's name.
fn id(entry: &HookEntry) -> String {
    let file = || {
        entry
            .component
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned())
    };
    entry.id.clone().or_else(file).unwrap_or_default()
}

/// The events, the grants and the time limit of an entry.
fn understand(
    entry: &HookEntry,
    said: &Provenance<'_>,
) -> anyhow::Result<(Vec<HookEvent>, Grants, Duration)> {
    let events = entry.events.iter().map(|word| event(word));
    let wall = entry.timeout.as_ref().map(|text| {
        super::duration(text).map_err(|error| anyhow::anyhow!("timeout = {text:?}: {error}"))
    });
    Ok((
        events.collect::<anyhow::Result<_>>()?,
        grants(&entry.grants, said)?,
        wall.transpose()?.unwrap_or(WALL_DEFAULT),
    ))
}

fn event(word: &str) -> anyhow::Result<HookEvent> {
    HookEvent::ALL
        .into_iter()
        .find(|event| event.as_str() == word)
        .with_context(|| {
            let known: Vec<&str> = HookEvent::ALL.iter().map(|event| event.as_str()).collect();
            format!(
                "there is no hook event {word:?}; there are: {}",
                known.join(", ")
            )
        })
}

/// Returns the grants of a hook. A grant that no hook can have is an error, because a hook that was meant to have it
/// would behave differently without it.
pub(super) fn grants(section: &GrantSection, said: &Provenance<'_>) -> anyhow::Result<Grants> {
    if !section.net.is_empty() || !section.secret.is_empty() || !section.tool.is_empty() {
        bail!(
            "a hook has no network and no secrets, and calls no tools; remove net, secret and tool from its grants"
        );
    }
    let mut grants = Grants::default();
    // A denial of requests has no effect on a hook, which sends none.
    for word in GrantWord::ALL
        .into_iter()
        .filter(|word| *word != GrantWord::DenyNet)
    {
        section
            .specs(word)
            .iter()
            .try_for_each(|spec| grants.add(word, spec, said))?;
    }
    Ok(grants)
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolcell_spec::RuleSource;

    fn entry(text: &str) -> HookEntry {
        let file = ConfigFile::parse(&format!("[[hook]]\n{text}"), Path::new("/")).unwrap();
        file.hooks.into_iter().next().unwrap()
    }

    #[test]
    fn a_hook_is_named_by_its_entry_or_by_its_file() {
        assert_eq!(id(&entry("component = \"hooks/audit.wasm\"")), "audit");
        assert_eq!(
            id(&entry("component = \"audit.wasm\"\nid = \"auditor\"")),
            "auditor"
        );
    }

    #[test]
    fn an_entry_that_cannot_be_understood_says_why() {
        let said = Provenance {
            source: RuleSource::UserSettings,
            file: Some(Path::new("/nowhere/toolcell.toml")),
        };
        for (text, why) in [
            (
                "events = [\"pre_tool\"]",
                "there is no hook event \"pre_tool\"; there are: pre_tool_use",
            ),
            ("timeout = \"soon\"", "timeout = \"soon\""),
            (
                "grants = { net = [\"https://a\"] }",
                "a hook has no network",
            ),
            (
                "grants = { read = [\"not/there\"] }",
                "not/there\" in /nowhere/toolcell.toml: cannot find the folder",
            ),
        ] {
            let entry = entry(&format!("component = \"x.wasm\"\n{text}"));
            let error = understand(&entry, &said).err().unwrap();
            assert!(format!("{error:#}").contains(why), "{error:#}");
        }
    }
}
