use toolcell::{Home, Keep, LogSettings};

use super::config_text::ConfigText;
use super::file::{ConfigFile, JournalSection};
use super::units::{duration, one_of, size};

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
    let keeps = [
        ("all", Keep::All),
        ("failures", Keep::Failures),
        ("none", Keep::None),
    ];
    let flushes = [("normal", false), ("full", true)];
    let switch = [("on", true), ("off", false)];
    let keep = keep.as_ref();
    let durability = durability.as_ref();
    let replay = replay.as_ref();
    file.set(&mut settings.keep, "[log] keep", keep, one_of(&keeps))?;
    file.set(
        &mut settings.flush,
        "[log] durability",
        durability,
        one_of(&flushes),
    )?;
    file.set(
        &mut settings.replay,
        "[log] replay",
        replay,
        one_of(&switch),
    )?;
    file.set(&mut settings.bytes_max, "[log] max", max.as_ref(), size)?;
    file.set(&mut settings.age_max, "[log] age", age.as_ref(), duration)?;
    file.set(
        &mut settings.payload_bytes_max,
        "[log] payloads",
        payloads.as_ref(),
        size,
    )?;
    Ok(settings)
}

/// Returns what the user's own file says about the journal, for commands that read nothing else of it.
pub fn configured_journal(home: &Home) -> anyhow::Result<LogSettings> {
    ConfigFile::read(&home.user_file()?)?
        .map_or_else(|| Ok(LogSettings::default()), |file| settings(&file))
}
