use toolcell::{Home, Keep, LogSettings};

use super::file::ConfigFile;
use super::units::{duration, one_of};

/// Parses the `[log]` of `file`.
pub(super) fn settings(file: &ConfigFile) -> anyhow::Result<LogSettings> {
    let log = &file.log;
    let mut settings = LogSettings::default();
    let keeps = one_of(&[
        ("all", Keep::All),
        ("failures", Keep::Failures),
        ("none", Keep::None),
    ]);
    let flushes = one_of(&[("normal", false), ("full", true)]);
    let switch = one_of(&[("on", true), ("off", false)]);
    file.set(&mut settings.keep, "[log] keep", &log.keep, keeps)?;
    file.set(&mut settings.age_max, "[log] age", &log.age, duration)?;
    for (setting, name, word, parse) in [
        (
            &mut settings.flush,
            "[log] durability",
            &log.durability,
            flushes,
        ),
        (&mut settings.replay, "[log] replay", &log.replay, switch),
    ] {
        file.set(setting, name, word, parse)?;
    }
    let sizes = [
        (&mut settings.bytes_max, "[log] max", &log.max),
        (
            &mut settings.payload_bytes_max,
            "[log] payloads",
            &log.payloads,
        ),
    ];
    file.set_sizes(sizes)?;
    Ok(settings)
}

/// Returns what the user's own file says about the journal, for commands that read nothing else of it.
pub fn configured_journal(home: &Home) -> anyhow::Result<LogSettings> {
    ConfigFile::read(&home.user_file()?)?
        .map_or_else(|| Ok(LogSettings::default()), |file| settings(&file))
}
