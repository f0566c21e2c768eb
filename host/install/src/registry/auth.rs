//! Registry authentication: basic, or with a token of another server.

use bytes::Bytes;
use data_encoding::BASE64;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, StatusCode};
use serde::Deserialize;
use toolcell_spec::Refusal;
use url::Url;
use url::form_urlencoded::Serializer;
use zeroize::Zeroizing;

use crate::exchange::HttpCall;

use super::credentials::RegistryCredential;
use super::refusal;
use super::wire::{RegistryClient, RegistryHost, RegistryResponse};

/// In bytes.
const TOKEN_BYTES_MAX: u64 = 1 << 20;
const CHALLENGE_MAX: usize = 4096;
/// An identity token is exchanged for it.
const CLIENT: &str = "toolcell";

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    Basic,
    Bearer {
        realm: String,
        service: Option<String>,
    },
}

#[derive(Deserialize)]
struct TokenResponse {
    token: Option<String>,
    access_token: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RepositoryAction {
    Pull,
    Push,
}

impl RepositoryAction {
    fn scope(self, repository: &str) -> String {
        let actions = match self {
            Self::Pull => "pull",
            Self::Push => "pull,push",
        };
        format!("repository:{repository}:{actions}")
    }
}

pub(super) fn challenges(answer: &RegistryResponse) -> Vec<Challenge> {
    answer
        .headers("www-authenticate")
        .filter_map(challenge)
        .collect()
}

pub(super) async fn authorization(
    wire: &RegistryClient,
    home: &RegistryHost,
    challenges: &[Challenge],
    (credential, token_servers): (Option<&RegistryCredential>, &[String]),
    (host, repository, access): (&str, &str, RepositoryAction),
) -> Result<HeaderValue, Refusal> {
    let bearer = challenges
        .iter()
        .find(|challenge| **challenge != Challenge::Basic);
    let value = match (bearer, credential) {
        (Some(Challenge::Bearer { realm, service }), credential) => {
            let url = Url::parse(realm)
                .map_err(|_| refusal::malformed(host, "its realm is not a URL"))?;
            if credential.is_some() && !home.trusts(&url, token_servers) && guard!("registry_realm")
            {
                return Err(refusal::token_server(host, &url));
            }
            let call = token_call(
                url,
                service.as_deref(),
                &access.scope(repository),
                credential,
            );
            token(wire, home, call, host, credential.is_some())
                .await
                .map(|token| format!("Bearer {}", token.as_str()))
        }
        (_, Some(RegistryCredential::Password { user, password })) if !challenges.is_empty() => {
            Ok(basic(user, password))
        }
        // An identity token is good for a token server alone.
        _ => Err(refusal::unauthorized(host, credential.is_some())),
    };
    let mut value = HeaderValue::try_from(value?)
        .map_err(|_| refusal::malformed(host, "its token has control characters"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn basic(user: &str, password: &str) -> String {
    format!(
        "Basic {}",
        BASE64.encode(format!("{user}:{password}").as_bytes())
    )
}

/// Follows the token specification of docker's registry.
fn token_call(
    mut url: Url,
    service: Option<&str>,
    scope: &str,
    credential: Option<&RegistryCredential>,
) -> HttpCall {
    let pairs = [("service", service.unwrap_or_default()), ("scope", scope)];
    let pairs = pairs.into_iter().filter(|(_, value)| !value.is_empty());
    let Some(RegistryCredential::Identity(identity)) = credential else {
        url.query_pairs_mut().extend_pairs(pairs);
        let mut call = HttpCall::new(Method::GET, url);
        if let Some(RegistryCredential::Password { user, password }) = credential
            && let Ok(mut value) = HeaderValue::try_from(basic(user, password))
        {
            value.set_sensitive(true);
            call.headers.insert(AUTHORIZATION, value);
        }
        return call;
    };
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "refresh_token")
        .append_pair("client_id", CLIENT);
    form.extend_pairs(pairs)
        .append_pair("refresh_token", identity);
    let mut call = HttpCall::new(Method::POST, url);
    (call.body, call.is_secret) = (Bytes::from(form.finish()), true);
    call.headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/x-www-form-urlencoded"),
    );
    call
}

async fn token(
    wire: &RegistryClient,
    home: &RegistryHost,
    call: HttpCall,
    host: &str,
    had_credentials: bool,
) -> Result<Zeroizing<String>, Refusal> {
    let answer = wire.send(call, home).await?;
    match answer.status() {
        StatusCode::OK => {}
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::BAD_REQUEST => {
            return Err(refusal::unauthorized(host, had_credentials));
        }
        status => return Err(refusal::status(host, "token", status, &[])),
    }
    let body = Zeroizing::new(answer.bytes(TOKEN_BYTES_MAX).await?);
    let read: TokenResponse = serde_json::from_slice(&body)
        .map_err(|_| refusal::malformed(host, "its token server sent no token"))?;
    let token = read
        .token
        .or(read.access_token)
        .filter(|token| !token.is_empty());
    token
        .map(Zeroizing::new)
        .ok_or_else(|| refusal::malformed(host, "its token server sent no token"))
}

/// `None` for a scheme that is not known.
fn challenge(header: &str) -> Option<Challenge> {
    let header = header.get(..header.len().min(CHALLENGE_MAX))?;
    let (scheme, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let mut realm = None;
    let mut service = None;
    let mut rest = rest;
    while let Some((name, after)) = rest.split_once('=') {
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_once(',').unwrap_or((after, "")),
        };
        match name.trim_matches([' ', ',']).to_ascii_lowercase().as_str() {
            "realm" => realm = Some(value.to_owned()),
            "service" => service = Some(value.to_owned()),
            _ => {}
        }
        rest = after;
    }
    Some(Challenge::Bearer {
        realm: realm?,
        service,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read_in_their_spellings() {
        let bearer = |realm: &str, service: Option<&str>| {
            Some(Challenge::Bearer {
                realm: realm.to_owned(),
                service: service.map(str::to_owned),
            })
        };
        for (header, expected) in [
            ("Basic realm=\"x\"", Some(Challenge::Basic)),
            ("basic", Some(Challenge::Basic)),
            (
                "Bearer realm=\"https://a/t\",service=\"a\",scope=\"b,c\"",
                bearer("https://a/t", Some("a")),
            ),
            (
                "bearer service=a, realm=https://a/t",
                bearer("https://a/t", Some("a")),
            ),
            (
                "Bearer realm=\"https://a/t?x=1,2\"",
                bearer("https://a/t?x=1,2", None),
            ),
            ("Bearer service=\"a\"", None),
            ("Bearer realm=\"https://a", None),
            ("Negotiate", None),
        ] {
            assert_eq!(challenge(header), expected, "{header}");
        }
    }

    #[test]
    fn an_identity_token_goes_into_the_body_alone() {
        let url = Url::parse("https://a/t").unwrap();
        let identity = RegistryCredential::Identity("secret".to_owned().into());
        let call = token_call(url.clone(), Some("a"), "repository:x:pull", Some(&identity));
        assert_eq!(
            (call.method.as_str(), call.url.as_str()),
            ("POST", "https://a/t")
        );
        assert!(String::from_utf8_lossy(&call.body).contains("refresh_token=secret"));
        let anonymous = token_call(url, None, &RepositoryAction::Push.scope("x"), None);
        assert_eq!(
            anonymous.url.as_str(),
            "https://a/t?scope=repository%3Ax%3Apull%2Cpush"
        );
        assert!(anonymous.headers.is_empty() && anonymous.body.is_empty());
    }
}
