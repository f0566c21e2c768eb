//! Credentials where docker keeps them: its `config.json`, and the helper programs that it names.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use data_encoding::BASE64;
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use toolcell_spec::{ErrorCode, Refusal};
use toolcell_system::named_file;
use zeroize::Zeroizing;

use super::is_docker_hub;

/// In bytes.
const CONFIG_BYTES_MAX: u64 = 1 << 20;
const HELPER_BYTES_MAX: u64 = 64 << 10;
/// A helper may ask the user to unlock a keyring.
const HELPER_TIME: Duration = Duration::from_secs(60);
/// Marks a secret that is an identity token.
const TOKEN_USER: &str = "<token>";
/// Docker keeps the credentials for its own registry under this name.
const DOCKER_HUB: &str = "https://index.docker.io/v1/";

/// No message and no `Debug` shows them.
#[derive(Clone, PartialEq, Eq)]
pub enum RegistryCredential {
    /// A user and a password.
    Password {
        user: String,
        /// The password, or a token in its place.
        password: Zeroizing<String>,
    },
    /// A token that is exchanged for one of the registry.
    Identity(Zeroizing<String>),
}

impl fmt::Debug for RegistryCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(..)")
    }
}

#[derive(Clone, Debug, Default)]
pub struct RegistryCredentials {
    /// `None` for no credentials.
    config: Option<PathBuf>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DockerConfig {
    auths: BTreeMap<String, AuthEntry>,
    #[serde(rename = "credHelpers")]
    helpers: BTreeMap<String, String>,
    #[serde(rename = "credsStore")]
    store: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AuthEntry {
    /// `user:password` in base64.
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HelperOutput {
    username: String,
    secret: String,
}

impl RegistryCredentials {
    /// The folder of `DOCKER_CONFIG` counts, or else `.docker` of the home folder.
    pub fn of_docker() -> Self {
        let folder = match std::env::var_os("DOCKER_CONFIG").filter(|folder| !folder.is_empty()) {
            Some(folder) => Some(PathBuf::from(folder)),
            None => std::env::home_dir().map(|home| home.join(".docker")),
        };
        Self {
            config: folder.map(|folder| folder.join("config.json")),
        }
    }

    /// The file may not exist.
    pub fn file(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// A `config.json` elsewhere.
    pub fn in_file(config: PathBuf) -> Self {
        Self {
            config: Some(config),
        }
    }

    /// `None` if there are none. Fails if a configuration cannot be read, or a helper fails.
    pub async fn of_host(&self, host: &str) -> Result<Option<RegistryCredential>, Refusal> {
        let Some(file) = &self.config else {
            return Ok(None);
        };
        let Some(config) = read(file)? else {
            return Ok(None);
        };
        let server = if is_docker_hub(host) {
            DOCKER_HUB
        } else {
            host
        };
        let helper = of_server(&config.helpers, server, host)
            .map(|(known, helper)| (known.as_str(), helper));
        if let Some((server, helper)) =
            helper.or(config.store.as_ref().map(|store| (server, store)))
            && let Some(found) = ask(helper, server).await?
        {
            return Ok(Some(found));
        }
        // Docker leaves an empty entry where a helper has the credentials.
        let entries: BTreeMap<String, AuthEntry> = config
            .auths
            .into_iter()
            .filter(|(_, entry)| !entry.is_empty())
            .collect();
        let Some((_, entry)) = of_server(&entries, server, host) else {
            return Ok(None);
        };
        let why = || {
            invalid(&format!(
                "the entry of {host} is not `user:password` in base64"
            ))
        };
        entry.credential().map(Some).ok_or_else(why)
    }
}

impl AuthEntry {
    fn is_empty(&self) -> bool {
        let texts = [
            &self.auth,
            &self.username,
            &self.password,
            &self.identitytoken,
        ];
        texts.into_iter().flatten().all(String::is_empty)
    }

    fn credential(&self) -> Option<RegistryCredential> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        if let Some(token) = given(&self.identitytoken) {
            return Some(RegistryCredential::Identity(token.into()));
        }
        if let Some(auth) = given(&self.auth) {
            let decoded = Zeroizing::new(BASE64.decode(auth.trim().as_bytes()).ok()?);
            let (user, password) = std::str::from_utf8(&decoded).ok()?.split_once(':')?;
            let password = password.trim_end_matches('\0').to_owned().into();
            return Some(RegistryCredential::Password {
                user: user.to_owned(),
                password,
            });
        }
        let user = given(&self.username)?;
        let password = given(&self.password)?;
        Some(RegistryCredential::Password {
            user,
            password: password.into(),
        })
    }
}

/// The registry's own name `server` comes before other spellings, as in docker.
fn of_server<'a, T>(
    entries: &'a BTreeMap<String, T>,
    server: &str,
    host: &str,
) -> Option<(&'a String, &'a T)> {
    entries
        .get_key_value(server)
        .or_else(|| entries.iter().find(|(known, _)| is_for(known, host)))
}

/// Docker also writes URLs.
fn is_for(known: &str, host: &str) -> bool {
    if is_docker_hub(host) {
        return known == DOCKER_HUB || is_docker_hub(known);
    }
    let known = known
        .strip_prefix("https://")
        .or(known.strip_prefix("http://"))
        .unwrap_or(known);
    known
        .split('/')
        .next()
        .is_some_and(|known| known.eq_ignore_ascii_case(host))
}

fn read(file: &Path) -> Result<Option<DockerConfig>, Refusal> {
    let open = match named_file::open(file) {
        Ok(open) => open,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(invalid(&format!(
                "{} cannot be read: {error}",
                file.display()
            )));
        }
    };
    let mut text = Zeroizing::new(Vec::new());
    let taken = open.take(CONFIG_BYTES_MAX + 1).read_to_end(&mut text);
    taken.map_err(|error| invalid(&format!("{} cannot be read: {error}", file.display())))?;
    if text.len() as u64 > CONFIG_BYTES_MAX {
        return Err(invalid(&format!(
            "{} has more than {CONFIG_BYTES_MAX} bytes",
            file.display()
        )));
    }
    // Without serde's words, which quote what they did not expect.
    let parsed = serde_json::from_slice(&text);
    let place = |error: serde_json::Error| format!("{}, line {}", file.display(), error.line());
    parsed
        .map(Some)
        .map_err(|error| invalid(&format!("{} cannot be parsed", place(error))))
}

/// Asks the program `docker-credential-NAME`; `None` if it has nothing for `server`.
async fn ask(name: &str, server: &str) -> Result<Option<RegistryCredential>, Refusal> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.is_empty() || name.starts_with('.') || !name.bytes().all(is_word) {
        return Err(invalid(
            "the name of a credential helper has characters other than letters, digits, `.`, `_` and `-`",
        ));
    }
    let program = format!("docker-credential-{name}");
    let failed = |why: &str| {
        let message = format!(
            "the credential helper {program}, which docker's config.json names, {why}; correct that entry, or log in again"
        );
        Refusal::new(ErrorCode::CredentialHelperFailed, message)
    };
    let found = on_path(&program).ok_or_else(|| failed("is in no absolute folder of PATH"))?;
    let mut command = Command::new(found);
    // Its standard error could repeat the secret.
    command
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let mut child = command
        .spawn()
        .map_err(|error| failed(&format!("cannot be started: {error}")))?;
    let asking = async {
        if let Some(mut pipe) = child.stdin.take() {
            // It may answer before it has read everything.
            let _ = pipe.write_all(server.as_bytes()).await;
        }
        let mut printed = Zeroizing::new(Vec::new());
        if let Some(pipe) = child.stdout.take() {
            pipe.take(HELPER_BYTES_MAX)
                .read_to_end(&mut printed)
                .await?;
        }
        Ok::<_, std::io::Error>((printed, child.wait().await?))
    };
    let ended = tokio::time::timeout(HELPER_TIME, asking).await;
    let ended =
        ended.map_err(|_| failed(&format!("did not end within {} s", HELPER_TIME.as_secs())))?;
    let (printed, status) = ended.map_err(|error| failed(&format!("broke off: {error}")))?;
    if !status.success() {
        // The words of docker's own helpers.
        let says = String::from_utf8_lossy(&printed).to_ascii_lowercase();
        return if says.contains("credentials not found") {
            Ok(None)
        } else {
            Err(failed(&format!("failed with {status}")))
        };
    }
    let helped: HelperOutput =
        serde_json::from_slice(&printed).map_err(|_| failed("printed no credentials"))?;
    Ok(Some(match helped.username.as_str() {
        TOKEN_USER => RegistryCredential::Identity(helped.secret.into()),
        _ => RegistryCredential::Password {
            user: helped.username,
            password: helped.secret.into(),
        },
    }))
}

/// Skips relative folders of PATH: the current folder can be a project of others.
fn on_path(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let folders = std::env::split_paths(&folders);
    let folders = folders.filter(|folder| folder.is_absolute() || !guard!("helper_folders"));
    folders
        .map(|folder| folder.join(name))
        .find(|file| is_program(file))
}

/// Another file of the name does not hide the program in a later folder.
fn is_program(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

fn invalid(why: &str) -> Refusal {
    let message =
        format!("docker's credentials cannot be used: {why}; correct the config.json of docker");
    Refusal::new(ErrorCode::DockerConfigInvalid, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn of(config: &str, host: &str) -> Result<Option<RegistryCredential>, Refusal> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.json");
        std::fs::write(&file, config).unwrap();
        RegistryCredentials::in_file(file).of_host(host).await
    }

    fn password(user: &str, password: &str) -> RegistryCredential {
        RegistryCredential::Password {
            user: user.to_owned(),
            password: password.to_owned().into(),
        }
    }

    #[tokio::test]
    async fn the_entry_of_a_registry_is_found_however_docker_writes_it() {
        let auth = BASE64.encode(b"me:pass:word");
        for known in [
            "ghcr.io",
            "https://ghcr.io",
            "https://ghcr.io/v1/",
            "GHCR.io",
        ] {
            let config =
                format!(r#"{{"auths":{{"{known}":{{"auth":"{auth}"}},"other.io":{{}}}}}}"#);
            assert_eq!(
                of(&config, "ghcr.io").await.unwrap(),
                Some(password("me", "pass:word")),
                "{known}"
            );
            assert_eq!(of(&config, "ghcr.io.example.org").await.unwrap(), None);
            assert_eq!(of(&config, "other.io").await.unwrap(), None);
        }
        // Of several spellings docker's own counts.
        let old = BASE64.encode(b"me:old");
        let new = BASE64.encode(b"me:new");
        let others =
            format!(r#""GHCR.io":{{"auth":"{old}"}},"https://ghcr.io":{{"auth":"{old}"}}"#);
        let config = format!(r#"{{"auths":{{{others},"ghcr.io":{{"auth":"{new}"}}}}}}"#);
        assert_eq!(
            of(&config, "ghcr.io").await.unwrap(),
            Some(password("me", "new"))
        );
        let config =
            format!(r#"{{"auths":{{"ghcr.io":{{}},"https://ghcr.io":{{"auth":"{new}"}}}}}}"#);
        assert_eq!(
            of(&config, "ghcr.io").await.unwrap(),
            Some(password("me", "new"))
        );
        let config = format!(r#"{{"auths":{{"{DOCKER_HUB}":{{"auth":"{auth}"}}}}}}"#);
        assert!(of(&config, "docker.io").await.unwrap().is_some());
        let config = r#"{"auths":{"a.io":{"identitytoken":"t"}}}"#;
        assert_eq!(
            of(config, "a.io").await.unwrap(),
            Some(RegistryCredential::Identity("t".to_owned().into()))
        );
    }

    #[tokio::test]
    async fn a_configuration_that_cannot_be_used_is_refused_without_a_secret() {
        for config in [
            r#"{"auths": {"a.io": {"auth": ["c2VjcmV0"]}}}"#,
            r#"{"auths": {"a.io": {"auth": "not base64 c2VjcmV0"}}}"#,
            r#"{"auths": {"a.io": {"auth": "c2VjcmV0"}}}"#,
            r#"{"credsStore": "../c2VjcmV0"}"#,
            "{",
        ] {
            let refusal = of(config, "a.io").await.unwrap_err();
            assert_eq!(refusal.code, ErrorCode::DockerConfigInvalid, "{config}");
            assert!(
                !refusal.message.contains("c2VjcmV0") && !refusal.message.contains("secret"),
                "{refusal}"
            );
        }
        let refusal = of(r#"{"credsStore": "toolcell-no-such-helper"}"#, "a.io")
            .await
            .unwrap_err();
        assert_eq!(refusal.code, ErrorCode::CredentialHelperFailed);
        assert_eq!(format!("{:?}", password("me", "secret")), "Credential(..)");
    }
}
