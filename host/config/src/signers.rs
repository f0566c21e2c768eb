//! `[[signer]]` and `trusted_root`: who must have signed what is installed.

use std::path::Path;

use anyhow::{Context, anyhow, bail, ensure};
use serde::Deserialize;
use toolcell_install::package_index::PackageReference;
use toolcell_install::signature::{ManagedKey, MinisignKey};
use toolcell_install::trust::{
    ENTRIES_MAX, TrustEntry, TrustPattern, TrustPolicy, TrustedSigner, plain_host, plain_path,
    plain_repository,
};
use toolcell_spec::RuleSource;

use super::ConfigText;
use super::file::ConfigFile;

/// `[[signer]]`: names one signer, in one of three ways. A key is written into the file itself, so that trust in the file
/// covers it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustSection {
    /// `host/repository`, a package such as `pypi:NAME`, a URL, or a path; `*` stands for any text.
    pub reference: ConfigText,
    /// A sigstore identity, such as an e-mail address; `*` stands for any text.
    pub identity: Option<ConfigText>,
    /// URL of who vouches for the identity.
    pub issuer: Option<ConfigText>,
    /// A public key: PEM, or its base64 text.
    pub key: Option<ConfigText>,
    /// A public key of minisign.
    pub minisign: Option<ConfigText>,
}

/// Adds what `file`, a file of this `source`, says of signers.
pub(super) fn read(
    policy: &mut TrustPolicy,
    source: RuleSource,
    file: &ConfigFile,
) -> anyhow::Result<()> {
    if let Some(word) = &file.trusted_root {
        // The trust in a project's file covers its own bytes, and no other file.
        ensure!(
            !source.is_in_checkout(),
            "{}: `trusted_root` is not for a project's file, because it decides who may have signed; set it in your own \
             toolcell.toml, or name a file with --config",
            file.place_of(word)
        );
        policy.use_root(file.folder.join(&**word));
    }
    if file.signer.is_empty() {
        return Ok(());
    }
    ensure!(
        file.signer.len() <= ENTRIES_MAX,
        "{}: more than {ENTRIES_MAX} [[signer]] entries",
        file.path.display()
    );
    let entries = file.signer.iter().map(|section| entry(section, file));
    policy.add(entries.collect::<anyhow::Result<_>>()?);
    Ok(())
}

fn entry(section: &TrustSection, file: &ConfigFile) -> anyhow::Result<TrustEntry> {
    let place = file.place_of(&section.reference);
    let reference = pattern(&section.reference, &file.folder).with_context(|| place.clone())?;
    let signer = signer(section).with_context(|| place.clone())?;
    Ok(TrustEntry {
        reference,
        signer,
        place,
    })
}

fn signer(section: &TrustSection) -> anyhow::Result<TrustedSigner> {
    match (
        &section.identity,
        &section.issuer,
        &section.key,
        &section.minisign,
    ) {
        (Some(identity), Some(issuer), None, None) => identified(identity, issuer),
        (None, None, Some(key), None) => match ManagedKey::parse(key) {
            Ok(key) => Ok(TrustedSigner::Key(key)),
            Err(why) => bail!("[[signer]] key: {why}"),
        },
        (None, None, None, Some(key)) => match MinisignKey::parse(key) {
            Ok(key) => Ok(TrustedSigner::Minisign(key)),
            Err(why) => bail!("[[signer]] minisign: {why}"),
        },
        _ => {
            bail!("[[signer]] names one signer: `identity` with `issuer`, or `key`, or `minisign`")
        }
    }
}

/// The signer with this sigstore identity.
pub fn identified(identity: &str, issuer: &str) -> anyhow::Result<TrustedSigner> {
    let identity = TrustPattern::new(identity);
    ensure!(
        !identity.is_blank(),
        "[[signer]] identity: it would match every identity; name one, or a part of it"
    );
    ensure!(
        issuer.starts_with("https://"),
        "[[signer]] issuer: {issuer:?} is not an https URL, such as https://accounts.google.com"
    );
    Ok(TrustedSigner::Identity {
        identity,
        issuer: issuer.to_owned(),
    })
}

/// The references that `word` names. A version is no part of them.
fn pattern(word: &str, folder: &Path) -> anyhow::Result<TrustPattern> {
    let word = word.strip_prefix("oci://").unwrap_or(word);
    if word.starts_with(['.', '/']) {
        return files(word, folder);
    }
    if word == "*" {
        return Ok(TrustPattern::new(word));
    }
    if let Some(package) = PackageReference::pattern(word) {
        return package
            .map(TrustPattern::new)
            .map_err(|why| anyhow!("[[signer]] reference: {word:?} {why}"));
    }
    if let Some((scheme, rest)) = word.split_once("://") {
        return url(scheme, rest);
    }
    let (_, last) = word.rsplit_once('/').with_context(|| {
        format!(
            "[[signer]] reference: {word:?} is not `host/repository`, a package such as `pypi:NAME`, a URL, a path that begins with `.` or `/`, or `*`"
        )
    })?;
    ensure!(
        !last.contains([':', '@']),
        "[[signer]] reference: {word:?} has a tag or a digest; name the repository, because an entry is for all its versions"
    );
    let word = word.to_ascii_lowercase();
    let (host, repository) = word.split_once('/').unwrap_or((word.as_str(), ""));
    Ok(TrustPattern::new(plain_repository(host, repository)))
}

/// The files that `word` names. Only the folder before its first `*` is resolved through links, as in the paths that
/// are compared with it.
fn files(word: &str, folder: &Path) -> anyhow::Result<TrustPattern> {
    let path = std::path::absolute(folder.join(word)).context("[[signer]] reference")?;
    let path = plain_path(&path).to_string_lossy().into_owned();
    let named = path
        .split('*')
        .next()
        .unwrap_or_default()
        .rfind('/')
        .unwrap_or_default();
    let (folder, rest) = path.split_at(named);
    let folder = Path::new(folder)
        .canonicalize()
        .map_or(folder.to_owned(), |folder| {
            folder.to_string_lossy().into_owned()
        });
    Ok(TrustPattern::new(format!(
        "{}{rest}",
        folder.trim_end_matches('/')
    )))
}

/// The URLs that begin with this scheme, spelt as references are.
fn url(scheme: &str, rest: &str) -> anyhow::Result<TrustPattern> {
    let scheme = scheme.to_ascii_lowercase();
    let default_port = match scheme.as_str() {
        "https" => "443",
        "http" => "80",
        _ => bail!("[[signer]] reference: `{scheme}` is not `https`, so it would match nothing"),
    };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let path = if path.is_empty() && !host.ends_with('*') {
        "/"
    } else {
        path
    };
    Ok(TrustPattern::new(format!(
        "{scheme}://{}{path}",
        plain_host(host, default_port)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINISIGN: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";

    fn policy(source: RuleSource, text: &str) -> anyhow::Result<TrustPolicy> {
        let mut policy = TrustPolicy::default();
        read(
            &mut policy,
            source,
            &ConfigFile::parse(text, Path::new("/project"))?,
        )?;
        Ok(policy)
    }

    #[test]
    fn an_entry_names_one_signer_of_references() {
        let text = format!(
            "trusted_root = \"root.json\"\n[[signer]]\nreference = \"ghcr.io/acme/*\"\nidentity = \"*@acme.test\"\n\
             issuer = \"https://issuer.test\"\n[[signer]]\nreference = \"./dist/*\"\nminisign = \"{MINISIGN}\"\n"
        );
        let read = policy(RuleSource::UserSettings, &text).unwrap();
        assert_eq!(read.trusted_root(), Some(Path::new("/project/root.json")));
        assert_eq!(read.minisign_keys().count(), 1);
        let error = policy(RuleSource::ProjectSettings, &text)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("`trusted_root` is not for a project's file"),
            "{error}"
        );
    }

    #[test]
    fn a_reference_is_spelt_as_those_that_it_is_compared_with() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("real/tools")).unwrap();
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        let root = root.to_string_lossy();
        for (word, expected) in [
            ("GHCR.io:443/Acme/*", "ghcr.io/acme/*".to_owned()),
            ("docker.io/jq", "docker.io/library/jq".to_owned()),
            ("index.docker.io/*", "docker.io/*".to_owned()),
            (
                "HTTPS://Example.org:443/Tools/*",
                "https://example.org/Tools/*".to_owned(),
            ),
            ("https://example.org", "https://example.org/".to_owned()),
            ("https://*", "https://*".to_owned()),
            (
                "http://127.0.0.1:8000/*",
                "http://127.0.0.1:8000/*".to_owned(),
            ),
            ("./tools/*", format!("{root}/real/tools/*")),
            (
                "../link/tools/jq.wasm",
                format!("{root}/real/tools/jq.wasm"),
            ),
            ("/*", "/*".to_owned()),
            ("*", "*".to_owned()),
        ] {
            let folder = Path::new(&*root).join("link");
            assert_eq!(
                pattern(word, &folder).unwrap(),
                TrustPattern::new(expected),
                "{word}"
            );
        }
        assert!(
            pattern("ftp://example.org/*", Path::new("/"))
                .unwrap_err()
                .to_string()
                .contains("match nothing")
        );
    }

    #[test]
    fn what_an_entry_lacks_or_has_too_much_is_named() {
        let of = |words: &str| {
            format!(
                "{:#}",
                policy(RuleSource::ProjectSettings, &format!("[[signer]]\n{words}")).unwrap_err()
            )
        };
        for (words, why) in [
            ("reference = \"a.b/c\"", "names one signer"),
            (
                "reference = \"a.b/c\"\nidentity = \"a@b.c\"",
                "names one signer",
            ),
            (
                "reference = \"a.b/c\"\nidentity = \"*\"\nissuer = \"https://x\"",
                "it would match every identity",
            ),
            (
                "reference = \"a.b/c\"\nidentity = \"a@b.c\"\nissuer = \"x\"",
                "not an https URL",
            ),
            (
                "reference = \"a.b/c\"\nkey = \"x\"",
                "[[signer]] key: it is neither PEM nor base64",
            ),
            (
                "reference = \"a.b/c\"\nminisign = \"x\"",
                "[[signer]] minisign: it is not a minisign public key",
            ),
            (
                "reference = \"a.b/c:1\"\nkey = \"x\"",
                "has a tag or a digest",
            ),
            (
                "reference = \"pypi:x==1\"\nkey = \"x\"",
                "has a version or a file",
            ),
            (
                "reference = \"npm:@x/y#z\"\nkey = \"x\"",
                "has a version or a file",
            ),
            (
                "reference = \"jq\"\nkey = \"x\"",
                "is not `host/repository`",
            ),
            (
                "reference = \"a.b/c\"\nkeys = \"x\"",
                "unknown field `keys`",
            ),
        ] {
            assert!(of(words).contains(why), "{words}: {}", of(words));
        }
        assert!(of("reference = \"a.b/c\"\nkey = \"x\"").contains(", line 2"));
    }
}
