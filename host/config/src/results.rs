use toolcell_spec::{OutputRetention, Strategy};

use super::file::ConfigFile;
use super::units::one_of;

/// The strategies by the words of the specification.
const STRATEGIES: [(&str, Strategy); 6] = [
    ("inline", Strategy::Inline),
    ("preview_and_persist", Strategy::PreviewAndPersist),
    ("ref_only", Strategy::RefOnly),
    ("redact", Strategy::Redact),
    ("drop_with_reason", Strategy::DropWithReason),
    ("never_persist", Strategy::NeverPersist),
];

/// Parses the `[results]` of `file`.
pub(super) fn keeping(file: &ConfigFile) -> anyhow::Result<OutputRetention> {
    let Some(word) = &file.results.persistence else {
        return Ok(OutputRetention::default());
    };
    let strategy = file.parsed("[results] persistence", word, one_of(&STRATEGIES))?;
    Ok(OutputRetention::by(strategy))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use toolcell_spec::{OutputRetention, Strategy};

    use super::{ConfigFile, keeping};

    #[test]
    fn a_strategy_is_read_and_another_word_is_an_error_with_its_place() {
        let of = |text: &str| keeping(&ConfigFile::parse(text, Path::new("/")).unwrap());
        assert_eq!(of("").unwrap(), OutputRetention::default());
        assert_eq!(
            of("[results]\npersistence = \"ref_only\"").unwrap(),
            OutputRetention::by(Strategy::RefOnly)
        );
        let error = of("[results]\npersistence = \"never\"")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("line 2")
                && error.contains("\"never\"")
                && error.contains("never_persist"),
            "{error}"
        );
    }
}
