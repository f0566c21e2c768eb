use anyhow::ensure;
use toolcell_policy::{ATTEMPTS_MAX, BACKOFF_MAX, RETRY_CLASSES, RetryPolicy};

use super::file::{ConfigFile, RetrySection};
use super::units::{duration, one_of};

/// Parses the `[retry]` of `file`; `None` if it is empty.
pub(super) fn policy(file: &ConfigFile) -> anyhow::Result<Option<RetryPolicy>> {
    let section = &file.retry;
    if *section == RetrySection::default() {
        return Ok(None);
    }
    let mut policy = RetryPolicy::default();
    if let Some(attempts) = section.attempts {
        ensure!(
            (1..=ATTEMPTS_MAX).contains(&attempts),
            "{}: [retry] attempts = {attempts}: give a number from 1 to {ATTEMPTS_MAX}",
            file.path.display()
        );
        policy.attempts = attempts;
    }
    let wait = |text: &str| match duration(text)? {
        wait if wait <= BACKOFF_MAX => Ok(wait),
        _ => Err(format!(
            "a wait is {} seconds at the most",
            BACKOFF_MAX.as_secs()
        )),
    };
    let backoff = &mut policy.backoff;
    file.set(backoff, "[retry] backoff", &section.backoff, wait)?;
    if let Some(words) = &section.classes {
        let known = RETRY_CLASSES.map(|class| (class.as_str(), class));
        let class = |word| file.parsed("[retry] classes", word, one_of(&known));
        policy.classes = words.iter().map(class).collect::<anyhow::Result<_>>()?;
    }
    Ok(Some(policy))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use toolcell_spec::ErrorClass;

    use super::*;

    fn of(text: &str) -> anyhow::Result<Option<RetryPolicy>> {
        policy(&ConfigFile::parse(text, Path::new("/project")).unwrap())
    }

    #[test]
    fn what_a_file_says_is_read_and_the_rest_is_the_default() {
        assert_eq!(of("").unwrap(), None);
        let said =
            of("[retry]\nattempts = 3\nbackoff = \"1s\"\nclasses = [\"execution_failed\"]\n")
                .unwrap()
                .unwrap();
        let wanted = RetryPolicy {
            attempts: 3,
            backoff: Duration::from_secs(1),
            classes: vec![ErrorClass::ExecutionFailed],
        };
        assert_eq!(said, wanted);
        assert_eq!(
            of("[retry]\nattempts = 2\n").unwrap().unwrap().classes,
            RetryPolicy::default().classes
        );
    }

    #[test]
    fn what_cannot_be_meant_is_told_with_its_value() {
        for (text, why) in [
            ("attempts = 0", "attempts = 0: give a number from 1 to 10"),
            ("attempts = 11", "attempts = 11"),
            ("backoff = \"soon\"", "backoff = \"soon\""),
            ("backoff = \"5m\"", "30 seconds"),
            (
                "classes = [\"canceled\"]",
                "\"canceled\": it is not one of: rate_limited, dependency_unavailable",
            ),
        ] {
            let error = format!("{:#}", of(&format!("[retry]\n{text}\n")).unwrap_err());
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
