use std::fmt;
use std::sync::{Arc, OnceLock};

use zeroize::Zeroizing;

use super::Scrubber;

/// `Debug` does not print it, it cannot be serialised or compared, and it is wiped from memory with its last copy.
///
/// ```
/// use toolcell_policy::secret::SecretValue;
///
/// let value = SecretValue::new("sk-live-0815".to_owned());
/// assert_eq!(format!("{value:?}"), "SecretValue");
/// ```
#[derive(Clone)]
pub struct SecretValue(Arc<Zeroizing<String>>);

impl SecretValue {
    pub fn new(value: String) -> Self {
        Self(Arc::new(Zeroizing::new(value)))
    }

    /// The caller is responsible for where the value goes.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue")
    }
}

/// Secrets of one call, by name; usually empty, at no cost.
///
/// ```
/// use toolcell_policy::secret::{SecretValue, Secrets};
///
/// let value = SecretValue::new("sk-live-0815".to_owned());
/// let secrets = Secrets::new(vec![("API_KEY".to_owned(), value)]);
/// assert!(secrets.get("API_KEY").is_some() && secrets.get("OTHER_KEY").is_none());
/// ```
#[derive(Clone, Default)]
pub struct Secrets(Option<Arc<SecretMap>>);

struct SecretMap {
    values: Vec<(String, SecretValue)>,
    scrubber: OnceLock<Arc<Scrubber>>,
}

impl Secrets {
    /// Of several with one name, the first counts.
    pub fn new(values: Vec<(String, SecretValue)>) -> Self {
        Self((!values.is_empty()).then(|| {
            Arc::new(SecretMap {
                values,
                scrubber: OnceLock::new(),
            })
        }))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub fn get(&self, name: &str) -> Option<&SecretValue> {
        self.iter()
            .find_map(|(known, value)| (known == name).then_some(value))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &SecretValue)> {
        self.0
            .iter()
            .flat_map(|held| &held.values)
            .map(|(name, value)| (name.as_str(), value))
    }

    pub(super) fn scrubber(&self) -> Option<&OnceLock<Arc<Scrubber>>> {
        self.0.as_ref().map(|held| &held.scrubber)
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{SecretValue, Secrets};

    #[test]
    fn a_value_is_not_in_what_is_printed_for_debugging() {
        let secrets = Secrets::new(vec![(
            "API_KEY".to_owned(),
            SecretValue::new("hunter2hunter2".to_owned()),
        )]);
        let printed = format!("{secrets:?} {secrets:#?}");
        assert!(printed.contains("API_KEY") && !printed.contains("hunter2"));
        assert_eq!(secrets.get("API_KEY").unwrap().expose(), "hunter2hunter2");
        assert!(secrets.get("api_key").is_none());
    }
}
