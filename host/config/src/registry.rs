//! `[registry]`: how registries are reached, of which the user's own file alone decides.

use anyhow::ensure;
use serde::Deserialize;
use toolcell::Home;
use toolcell_install::registry::{RegistryCredentials, RegistrySettings};
use toolcell_spec::RuleSource;

use super::{ConfigFile, ConfigText, duration};

/// `[registry]`: an error in any file but the user's own.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RegistrySection {
    /// Hosts that are spoken to without TLS, such as `registry.lan:5000`. Registries of this machine always are.
    pub plain_http: Vec<ConfigText>,
    /// Hosts that a registry may have its credentials sent to for a token, such as `auth.lan:5001`. Its own host, the hosts
    /// below it, the domain directly above it and docker's token server always are.
    pub token_servers: Vec<ConfigText>,
    /// A PEM file of certificates that are trusted beside Mozilla's; a relative path begins in the folder of the file.
    pub certificates: Option<ConfigText>,
    /// Time without progress after which a registry is given up, such as `10s` [default: `30s`].
    pub timeout: Option<ConfigText>,
}

/// Parses the `[registry]` of `file`.
///
/// # Errors
///
/// Fails on invalid words, and on any file but the user's own: a project's could send credentials in clear text, and a
/// file named by an option has no effect.
pub(super) fn settings(source: RuleSource, file: &ConfigFile) -> anyhow::Result<RegistrySettings> {
    let section = &file.registry;
    ensure!(
        *section == RegistrySection::default()
            || source == RuleSource::UserSettings
            || !guard!("registry_source"),
        "{}: [registry] is for your own toolcell.toml, because it says whom your credentials are sent to; remove it here",
        file.path.display()
    );
    let mut settings = RegistrySettings {
        credentials: RegistryCredentials::of_docker(),
        ..RegistrySettings::default()
    };
    let hosts = |name: &'static str, words: &[ConfigText]| {
        let read = |host: &ConfigText| {
            let is_host = !host.is_empty()
                && host
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte));
            let why = || {
                format!("[registry] {name} = {host:?}: give a host, such as \"registry.lan:5000\"")
            };
            ensure!(is_host, "{}: {}", file.place_of(host), why());
            Ok(host.to_ascii_lowercase())
        };
        words
            .iter()
            .map(read)
            .collect::<anyhow::Result<Vec<String>>>()
    };
    settings
        .plain_http
        .extend(hosts("plain_http", &section.plain_http)?);
    settings
        .token_servers
        .extend(hosts("token_servers", &section.token_servers)?);
    let certificates = section.certificates.iter();
    settings.roots = certificates.map(|path| file.folder.join(&**path)).collect();
    let patience = &mut settings.patience;
    file.set(patience, "[registry] timeout", &section.timeout, duration)?;
    Ok(settings)
}

/// Returns how the user's own file says that registries are reached, with docker's credentials.
pub fn configured_registry(home: &Home) -> anyhow::Result<RegistrySettings> {
    let file = ConfigFile::read(&home.user_file()?)?.unwrap_or_default();
    settings(RuleSource::UserSettings, &file)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;

    fn of(source: RuleSource, text: &str) -> anyhow::Result<RegistrySettings> {
        settings(source, &ConfigFile::parse(text, Path::new("/etc")).unwrap())
    }

    #[test]
    fn registries_are_reached_as_the_user_says() {
        let text = "[registry]\nplain_http = [\"Registry.lan:5000\"]\ncertificates = \"ca.pem\"\ntimeout = \"2s\"";
        let read = of(RuleSource::UserSettings, text).unwrap();
        assert_eq!(read.plain_http, ["registry.lan:5000"]);
        assert_eq!(
            (read.roots, read.patience),
            (vec!["/etc/ca.pem".into()], Duration::from_secs(2))
        );
        for (wrong, why) in [
            ("plain_http = [\"http://a/b\"]", "give a host"),
            ("token_servers = [\"\"]", "give a host"),
            ("timeout = \"x\"", "number with a unit"),
        ] {
            let error = of(RuleSource::UserSettings, &format!("[registry]\n{wrong}")).unwrap_err();
            assert!(format!("{error:#}").contains(why), "{error:#}");
        }
    }

    #[test]
    fn the_users_own_file_alone_chooses_whom_credentials_are_sent_to() {
        assert!(of(RuleSource::ProjectSettings, "").is_ok());
        for source in [RuleSource::ProjectSettings, RuleSource::FlagSettings] {
            let error = of(source, "[registry]\nplain_http = [\"a.lan\"]").unwrap_err();
            assert!(
                error.to_string().contains("is for your own toolcell.toml"),
                "{error}"
            );
        }
    }
}
