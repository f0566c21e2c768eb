use anyhow::{Context, anyhow, bail};
use toolcell::{Home, Keep, LogSettings};

use super::config_text::ConfigText;
use super::file::{ConfigFile, JournalSection};
use super::{duration, size};

impl JournalSection {
    /// The first word of the section; `None` if it is empty.
    pub(super) fn word(&self) -> Option<&ConfigText> {
        let Self {
            keep,
            durability,
            max,
            age,
            payloads,
            replay,
        } = self;
        [keep, durability, max, age, payloads, replay]
            .into_iter()
            .find_map(Option::as_ref)
    }
}

/// Parses the `[log]` of `file`.
pub(super) fn settings(file: &ConfigFile) -> anyhow::Result<LogSettings> {
    let JournalSection {
        keep,
        durability,
        max,
        age,
        payloads,
        replay,
    } = &file.log;
    let mut settings = LogSettings::default();
    if let Some(word) = keep {
        settings.keep = match &**word {
            "all" => Keep::All,
            "failures" => Keep::Failures,
            "none" => Keep::None,
            _ => bail!(
                "{}: [log] keep = {word:?}: say \"all\", \"failures\" or \"none\"",
                file.place_of(word)
            ),
        };
    }
    if let Some(word) = durability {
        settings.flush = match &**word {
            "normal" => false,
            "full" => true,
            _ => bail!(
                "{}: [log] durability = {word:?}: say \"normal\" or \"full\"",
                file.place_of(word)
            ),
        };
    }
    if let Some(word) = max {
        let read = size(word).map_err(|error| anyhow!("[log] max = {word:?}: {error}"));
        settings.bytes_max = read.with_context(|| file.place_of(word))?;
    }
    if let Some(word) = age {
        let read = duration(word).map_err(|error| anyhow!("[log] age = {word:?}: {error}"));
        settings.age_max = read.with_context(|| file.place_of(word))?;
    }
    if let Some(word) = payloads {
        let read = size(word).map_err(|error| anyhow!("[log] payloads = {word:?}: {error}"));
        settings.payload_bytes_max = read.with_context(|| file.place_of(word))?;
    }
    if let Some(word) = replay {
        settings.replay = match &**word {
            "on" => true,
            "off" => false,
            _ => bail!(
                "{}: [log] replay = {word:?}: say \"on\" or \"off\"",
                file.place_of(word)
            ),
        };
    }
    Ok(settings)
}

/// Returns what the user's own file says about the journal, for commands that read nothing else of it.
pub fn configured_journal(home: &Home) -> anyhow::Result<LogSettings> {
    ConfigFile::read(&home.user_file()?)?
        .map_or_else(|| Ok(LogSettings::default()), |file| settings(&file))
}
