//! The operator's settings for a tool (requirements 1.37, AM-05).

use std::sync::{Arc, OnceLock};

use toolcell_spec::{ErrorCode, JSON_VALUES_MAX, read_unique_json};

/// In bytes: each call copies the settings into its instance.
const BYTES_MAX: usize = 64 << 10;

/// Set at most once, because running calls use the first ones.
#[derive(Debug)]
pub(super) struct ToolSettings {
    is_taken: bool,
    given: OnceLock<Arc<str>>,
}

impl ToolSettings {
    pub(super) fn new(is_taken: bool) -> Self {
        Self {
            is_taken,
            given: OnceLock::new(),
        }
    }

    pub(super) fn is_taken(&self) -> bool {
        self.is_taken
    }

    pub(super) fn given(&self) -> Option<&Arc<str>> {
        self.given.get()
    }

    pub(super) fn give(&self, config: &str) -> Result<(), (ErrorCode, String)> {
        if !self.is_taken {
            let why = "its component does not export toolcell:tool/configuration@0.2.0; remove its `config`";
            return Err((ErrorCode::NotConfigurable, why.to_owned()));
        }
        if config.len() > BYTES_MAX {
            let why = format!(
                "its `config` has {} bytes of JSON, more than {BYTES_MAX}; shorten it",
                config.len()
            );
            return Err((ErrorCode::ConfigurationTooLarge, why));
        }
        match read_unique_json(config, JSON_VALUES_MAX) {
            Ok(value) if value.is_object() => {}
            Ok(_) => {
                return Err((
                    ErrorCode::ConfigurationInvalid,
                    "its `config` is not a JSON object".to_owned(),
                ));
            }
            Err(why) => {
                return Err((
                    ErrorCode::ConfigurationInvalid,
                    format!("its `config` is not a JSON object: {why}"),
                ));
            }
        }
        if &**self.given.get_or_init(|| config.into()) == config {
            Ok(())
        } else {
            Err((
                ErrorCode::ConfiguredTwice,
                "it has another `config` already; give it one `config`, in one [[tool]] of all files".to_owned(),
            ))
        }
    }
}

#[cfg(test)]
mod tests {

    use super::{BYTES_MAX, ToolSettings};
    use toolcell_spec::ErrorCode;

    fn refused(configuration: &ToolSettings, config: &str) -> ErrorCode {
        configuration.give(config).unwrap_err().0
    }

    #[test]
    fn a_tool_keeps_the_first_settings_that_it_can_take() {
        let one = ToolSettings::new(true);
        for config in ["[]", "{", r#"{"a": 1, "a": 2}"#] {
            assert_eq!(
                refused(&one, config),
                ErrorCode::ConfigurationInvalid,
                "{config}"
            );
        }
        assert!(one.given().is_none());
        one.give(r#"{"a":1}"#).unwrap();
        one.give(r#"{"a":1}"#).unwrap();
        assert_eq!(refused(&one, r#"{"a":2}"#), ErrorCode::ConfiguredTwice);
        assert_eq!(one.given().map(|given| &**given), Some(r#"{"a":1}"#));
        let without = ToolSettings::new(false);
        assert_eq!(refused(&without, "{}"), ErrorCode::NotConfigurable);
        assert!(without.given().is_none());
    }

    #[test]
    fn settings_have_so_many_bytes() {
        let config = |bytes: usize| format!(r#"{{"a":"{}"}}"#, "x".repeat(bytes - 8));
        ToolSettings::new(true).give(&config(BYTES_MAX)).unwrap();
        assert_eq!(
            refused(&ToolSettings::new(true), &config(BYTES_MAX + 1)),
            ErrorCode::ConfigurationTooLarge
        );
    }
}
