//! `[[issuer]]`: authorization servers whose access tokens a server accepts.

use std::time::Duration;

use anyhow::ensure;
use http::Uri;
use serde::Deserialize;
use toolcell_policy::{SignatureAlgorithm, TokenIssuer};
use toolcell_spec::RuleSource;

use super::telemetry::is_private;
use super::units::one_of;
use super::{ConfigFile, ConfigText, duration};

const SKEW: Duration = Duration::from_secs(60);
/// A token stays valid for so long after its end.
const SKEW_MAX: Duration = Duration::from_secs(600);
/// Each is asked for its keys from time to time.
const ISSUERS_MAX: usize = 16;

/// `[[issuer]]`: an authorization server whose access tokens (JWT) `toolcell serve` accepts. An error in a project's file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IssuerSection {
    /// Its identifier, to the letter as in its tokens: a URL with `https://`, or on this machine with `http://`.
    pub url: ConfigText,
    /// The audience that its tokens must have [default: the URL of the server, with `/mcp` or without].
    pub audience: Option<ConfigText>,
    /// URL of its public keys (JWKS) [default: as its metadata says].
    pub jwks: Option<ConfigText>,
    /// Signature algorithms that its tokens may have [default: `ES256`, `EdDSA`, `PS256`, `RS256`].
    pub algorithms: Option<Vec<ConfigText>>,
    /// Scopes that its tokens must have, such as `toolcell`.
    #[serde(default)]
    pub scopes: Vec<ConfigText>,
    /// Tolerated difference of clocks, such as `30s` [default: `1m`].
    pub skew: Option<ConfigText>,
}

/// Adds the `[[issuer]]` of `file` to `known`.
///
/// # Errors
///
/// Fails on invalid words, on two with the same URL, and on the file of a project: it would choose who may call.
pub(super) fn read(
    known: &mut Vec<TokenIssuer>,
    source: RuleSource,
    file: &ConfigFile,
) -> anyhow::Result<()> {
    ensure!(
        file.issuers.is_empty() || !source.is_in_checkout() || !guard!("issuer_source"),
        "{}: [[issuer]] is for your own toolcell.toml, because it says whose tokens are accepted; remove it here",
        file.path.display()
    );
    for section in &file.issuers {
        let issuer = issuer(file, section)?;
        ensure!(
            known.iter().all(|known| known.url != issuer.url),
            "{}: two [[issuer]] have the url {:?}: remove one",
            file.place_of(&section.url),
            issuer.url
        );
        known.push(issuer);
    }
    ensure!(
        known.len() <= ISSUERS_MAX,
        "{}: there are more than {ISSUERS_MAX} [[issuer]]",
        file.path.display()
    );
    Ok(())
}

fn issuer(file: &ConfigFile, section: &IssuerSection) -> anyhow::Result<TokenIssuer> {
    let url = |name: &str, word: &ConfigText| file.parsed(name, word, endpoint);
    let mut algorithms = Vec::new();
    for word in section.algorithms.iter().flatten() {
        let known = one_of(&SignatureAlgorithm::ALL);
        algorithms.push(file.parsed("[[issuer]] algorithms", word, known)?);
    }
    ensure!(
        section.algorithms.is_none() || !algorithms.is_empty(),
        "{}: [[issuer]] algorithms is empty: name one, or leave it out",
        file.place_of(&section.url)
    );
    if section.algorithms.is_none() {
        algorithms.extend(SignatureAlgorithm::USUAL);
    }
    let scope = |word: &ConfigText| file.parsed("[[issuer]] scopes", word, scope);
    let mut skew = SKEW;
    file.set(&mut skew, "[[issuer]] skew", &section.skew, |text| {
        let skew = duration(text)?;
        let is_short = skew <= SKEW_MAX;
        is_short
            .then_some(skew)
            .ok_or_else(|| format!("at most {} s", SKEW_MAX.as_secs()))
    })?;
    let jwks = section.jwks.as_ref();
    Ok(TokenIssuer {
        url: url("[[issuer]] url", &section.url)?,
        audience: section.audience.as_deref().map(str::to_owned),
        jwks: jwks.map(|word| url("[[issuer]] jwks", word)).transpose()?,
        algorithms,
        scopes: section.scopes.iter().map(scope).collect::<Result<_, _>>()?,
        skew,
    })
}

fn endpoint(text: &str) -> Result<String, String> {
    let is_plain = |uri: &Uri| {
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        let authority = uri.authority();
        is_http
            && authority.is_some_and(|authority| !authority.as_str().contains('@'))
            && uri.query().is_none()
            && !text.contains('#')
    };
    let uri: Option<Uri> = text.parse().ok();
    match uri.filter(is_plain) {
        Some(uri) if is_private(&uri) || !guard!("issuer_clear") => Ok(text.to_owned()),
        Some(_) => Err("http:// is for this machine alone; give https://".to_owned()),
        None => Err("give a URL with https://, without a query".to_owned()),
    }
}

/// A scope-token of RFC 6749, which a header can quote.
fn scope(text: &str) -> Result<String, String> {
    let is_known = |byte: u8| byte.is_ascii_graphic() && !b"\"\\".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_known) {
        Ok(text.to_owned())
    } else {
        Err("a scope has no spaces, quotes or backslashes".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn of(text: &str) -> anyhow::Result<Vec<TokenIssuer>> {
        let mut known = Vec::new();
        let file = ConfigFile::parse(text, Path::new("/project"))?;
        read(&mut known, RuleSource::UserSettings, &file)?;
        Ok(known)
    }

    #[test]
    fn an_issuer_needs_its_url_alone() {
        let known = of("[[issuer]]\nurl = \"https://auth.example/tenant\"").unwrap();
        let meant = TokenIssuer {
            url: "https://auth.example/tenant".to_owned(),
            audience: None,
            jwks: None,
            algorithms: SignatureAlgorithm::USUAL.to_vec(),
            scopes: Vec::new(),
            skew: SKEW,
        };
        assert_eq!(known, [meant]);
        for url in ["http://127.0.0.1:9", "http://localhost", "http://[::1]:9/a"] {
            assert!(of(&format!("[[issuer]]\nurl = {url:?}")).is_ok(), "{url}");
        }
    }

    #[test]
    fn what_no_issuer_has_is_refused() {
        let own = "[[issuer]]\nurl = \"https://auth.example\"\n";
        let many = (0..17).map(|at| own.replace(".example", &format!("{at}.example")));
        let many: String = many.collect();
        for (text, told) in [
            ("[[issuer]]", "url"),
            ("[[issuer]]\nurl = \"http://auth.example\"", "give https://"),
            ("[[issuer]]\nurl = \"ftp://auth.example\"", "give a URL"),
            (
                "[[issuer]]\nurl = \"https://me:pw@auth.example\"",
                "give a URL",
            ),
            (
                "[[issuer]]\nurl = \"https://auth.example?a=b\"",
                "give a URL",
            ),
            ("[[issuer]]\nurl = \"https://auth.example#a\"", "give a URL"),
            ("[[issuer]]\nurl = \"auth.example\"", "give a URL"),
            (&format!("{own}{own}"), "two [[issuer]]"),
            (&many, "more than 16"),
            (
                &format!("{own}jwks = \"http://keys.example\""),
                "give https://",
            ),
            (&format!("{own}algorithms = [\"HS256\"]"), "not one of"),
            (&format!("{own}algorithms = [\"none\"]"), "not one of"),
            (&format!("{own}algorithms = []"), "is empty"),
            (&format!("{own}scopes = [\"a b\"]"), "no spaces"),
            (&format!("{own}scopes = [\"a\\\"\"]"), "no spaces"),
            (&format!("{own}skew = \"11m\""), "at most 600 s"),
            (&format!("{own}secret = \"x\""), "unknown field"),
        ] {
            let error = format!("{:#}", of(text).unwrap_err());
            assert!(error.contains(told), "{text}: {error}");
        }
    }

    #[test]
    fn a_project_chooses_no_issuer() {
        let file = ConfigFile::parse("[[issuer]]\nurl = \"https://a.example\"", Path::new("/p"));
        let file = file.unwrap();
        for source in [RuleSource::ProjectSettings, RuleSource::LocalSettings] {
            let error = read(&mut Vec::new(), source, &file).unwrap_err();
            assert!(
                error.to_string().contains("your own toolcell.toml"),
                "{error}"
            );
        }
        assert!(read(&mut Vec::new(), RuleSource::FlagSettings, &file).is_ok());
    }
}
