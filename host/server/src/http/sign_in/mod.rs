//! Sign-in: the server is a resource server of OAuth 2.1, as MCP's authorization asks. It takes access tokens (RFC 9068) of
//! the issuers in its settings, and says who they are (RFC 9728). It never sends a token anywhere.

mod issuer;
mod keys;
mod token;

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::bail;
use http::HeaderValue;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};
use toolcell_policy::{JwtMatch, TokenIssuer, token_caller};
use toolcell_spec::{ErrorCode, Timestamp};

use crate::log::OperatorLog;

use super::problem::Problem;
use super::proxy::PublicUrl;
use issuer::{IssuerKeys, IssuerUnreachable};
use keys::KeySet;
use token::AccessToken;

pub use issuer::{DocumentUrl, FetchFn};

/// The path of the metadata, which the path of the resource may follow.
const METADATA: &str = "/.well-known/oauth-protected-resource";
const RESOURCE: &str = "/mcp";
/// Tokens that were verified, and need no second look until they end.
const VERIFIED_MAX: usize = 4_096;
/// An issuer that does not answer is asked again after so many seconds.
const RETRY_AFTER: u64 = 5;

/// The issuers of access tokens, and the principals that these name.
#[derive(Clone)]
pub struct TokenIssuers {
    issuers: Vec<TokenIssuer>,
    principals: Vec<(Arc<str>, JwtMatch)>,
    fetch: FetchFn,
}

impl TokenIssuers {
    /// Principals have the names of the configuration. Fails if one is of no issuer, or can never be told from another.
    pub fn new(
        issuers: Vec<TokenIssuer>,
        principals: Vec<(&str, JwtMatch)>,
        fetch: FetchFn,
    ) -> anyhow::Result<Self> {
        let urls = || issuers.iter().map(|issuer| &issuer.url);
        let mut all = principals.iter();
        if let Some((name, known)) = all.find(|(_, known)| !urls().any(|url| *url == known.issuer))
        {
            bail!(
                "the principal {name} is of the issuer {:?}, and no [[issuer]] has that url",
                known.issuer
            );
        }
        if let Some((one, other)) = confused(&principals) {
            bail!(
                "the principals {one} and {other} have claims that one token can always have: give one of them claims that \
                 the other does not allow"
            );
        }
        let principals = principals.into_iter();
        let principals = principals.map(|(name, known)| (token_caller(name).into(), known));
        Ok(Self {
            issuers,
            principals: principals.collect(),
            fetch,
        })
    }

    /// Fetches the keys of each issuer, by its URL, and counts those that can verify tokens.
    pub async fn probe(&self) -> Vec<(String, Result<usize, String>)> {
        let mut probed = Vec::new();
        for issuer in &self.issuers {
            let keys = IssuerKeys::probe(issuer.clone(), Arc::clone(&self.fetch)).await;
            probed.push((issuer.url.clone(), keys));
        }
        probed
    }
}

/// Two principals of which one has every token of the other. Of thousands, few are compared: only such that have a text of
/// a claim in common.
fn confused<'p>(principals: &[(&'p str, JwtMatch)]) -> Option<(&'p str, &'p str)> {
    let mut wide: HashMap<_, Vec<_>> = HashMap::new();
    for (name, known) in principals {
        let keys: Vec<_> = match known.claims.first_key_value() {
            Some((claim, texts)) => texts.iter().map(|text| Some((claim, text))).collect(),
            None => vec![None],
        };
        for key in keys {
            let of = (&known.issuer, key);
            wide.entry(of).or_default().push((*name, known));
        }
    }
    principals.iter().find_map(|(name, known)| {
        let claims = known.claims.iter();
        let keys = claims.filter_map(|(claim, texts)| Some(Some((claim, texts.first()?))));
        let near = keys.chain([None]);
        let mut near = near
            .filter_map(|key| wide.get(&(&known.issuer, key)))
            .flatten();
        let found = near.find(|(other, wide)| other != name && wide.covers(known));
        found.map(|(other, _)| (*other, *name))
    })
}

/// What all sign-ins of a server share.
pub(super) struct SignInTerms {
    /// The beginning of the server's URLs, for clients.
    pub(super) base: String,
    /// The URL of the metadata.
    pub(super) metadata: String,
    pub(super) log: Option<Arc<OperatorLog>>,
}

impl SignInTerms {
    pub(super) fn new(
        base: String,
        public: Option<&PublicUrl>,
        log: Option<Arc<OperatorLog>>,
    ) -> Self {
        let metadata = match public {
            Some(url) => url.well_known(METADATA, RESOURCE),
            None => format!("{base}{METADATA}{RESOURCE}"),
        };
        Self {
            base,
            metadata,
            log,
        }
    }
}

/// `true` for a path of the metadata. A proxy passes what is at its origin on with the path of the server, or without.
pub(super) fn is_metadata(path: &str, public: Option<&PublicUrl>) -> bool {
    let is_here = |path: &str| path.is_empty() || path == RESOURCE;
    let below = |path: &str| {
        let rest = public.and_then(|url| path.strip_prefix(url.path()));
        is_here(path) || rest.is_some_and(is_here)
    };
    path.strip_prefix(METADATA).is_some_and(below)
}

pub(super) struct SignIn {
    issuers: Vec<Arc<IssuerKeys>>,
    principals: Vec<(Arc<str>, JwtMatch)>,
    /// The URLs of this server, as a client may know it.
    audiences: Vec<String>,
    base: String,
    metadata: String,
    verified: Mutex<HashMap<blake3::Hash, VerifiedToken>>,
}

#[derive(Clone)]
struct VerifiedToken {
    principal: Arc<str>,
    /// In milliseconds since 1970.
    end: i64,
    issuer: Arc<IssuerKeys>,
    /// Those that verified it: with new keys, it is verified again.
    keys: Arc<KeySet>,
}

enum TokenRefusal {
    Invalid(&'static str),
    Lacks(String),
    NoPrincipal,
    SeveralPrincipals,
    Unreachable(String, String),
}

impl SignIn {
    /// Issuers with the same settings keep their keys.
    pub(super) fn new(terms: &SignInTerms, issuers: &TokenIssuers, before: Option<&Self>) -> Self {
        let keys = |settings: &TokenIssuer| {
            let mut known = before.iter().flat_map(|before| &before.issuers);
            let same = known.find(|known| known.settings == *settings).cloned();
            let fetch = Arc::clone(&issuers.fetch);
            let new = || IssuerKeys::new(settings.clone(), fetch, terms.log.clone());
            same.unwrap_or_else(new)
        };
        let base = &terms.base;
        Self {
            issuers: issuers.issuers.iter().map(keys).collect(),
            principals: issuers.principals.clone(),
            audiences: vec![
                format!("{base}{RESOURCE}"),
                base.clone(),
                format!("{base}/"),
            ],
            base: base.clone(),
            metadata: terms.metadata.clone(),
            verified: Mutex::default(),
        }
    }

    /// The principal of a token. Each request is checked, so that a token ends on a kept connection, too.
    pub(super) async fn principal(&self, token: &str) -> Result<Arc<str>, Problem> {
        let hash = blake3::hash(token.as_bytes());
        let now = Timestamp::now();
        let known = self.verified.lock().get(&hash).cloned();
        let still = |known: &VerifiedToken| {
            known.end > now.unix_millis() && Arc::ptr_eq(&known.keys, &known.issuer.keys())
        };
        if let Some(known) = known.filter(|known| still(known) || !guard!("token_end")) {
            known.issuer.keep_fresh();
            return Ok(known.principal);
        }
        let verified = self.verify(token, now).await;
        let verified = verified.map_err(|refusal| self.problem(refusal))?;
        let principal = Arc::clone(&verified.principal);
        let mut all = self.verified.lock();
        if all.len() >= VERIFIED_MAX {
            all.retain(|_, known| still(known));
        }
        if all.len() >= VERIFIED_MAX {
            all.clear();
        }
        all.insert(hash, verified);
        Ok(principal)
    }

    async fn verify(&self, token: &str, now: Timestamp) -> Result<VerifiedToken, TokenRefusal> {
        use TokenRefusal::{Invalid, Lacks, Unreachable};
        let token = AccessToken::parse(token).map_err(Invalid)?;
        let said = token.issuer().unwrap_or_default();
        let mut issuers = self.issuers.iter();
        let issuer = issuers.find(|issuer| issuer.settings.url == said);
        let issuer = issuer.ok_or(Invalid("the token is of another issuer"))?;
        let settings = &issuer.settings;
        if !settings.algorithms.contains(&token.algorithm) && guard!("token_algorithm") {
            return Err(Invalid("the algorithm of the token is not accepted"));
        }
        let keys = issuer.keys_for(&token).await;
        let unreachable = |IssuerUnreachable(why)| Unreachable(settings.url.clone(), why);
        let keys = keys.map_err(unreachable)?;
        if !keys.knows(&token) {
            return Err(Invalid("the token is signed with an unknown key"));
        }
        if !keys.verify(&token) && guard!("token_signature") {
            return Err(Invalid("the signature of the token is wrong"));
        }
        let end = token
            .check(settings, &self.audiences, now)
            .map_err(Invalid)?;
        let lacks = token.lacks(settings);
        if !lacks.is_empty() && guard!("token_scope") {
            return Err(Lacks(lacks.join(" ")));
        }
        let principal = self.named(&settings.url, &token)?;
        let issuer = Arc::clone(issuer);
        Ok(VerifiedToken {
            principal,
            end,
            issuer,
            keys,
        })
    }

    /// Guesses no one between several.
    fn named(&self, issuer: &str, token: &AccessToken<'_>) -> Result<Arc<str>, TokenRefusal> {
        let mut matches = self.principals.iter();
        let mut next = || {
            let found = matches.find(|(_, known)| known.matches(issuer, &token.claims));
            found.map(|(name, _)| Arc::clone(name))
        };
        let first = next().ok_or(TokenRefusal::NoPrincipal)?;
        let is_another = next().is_some_and(|second| second != first);
        if is_another && guard!("token_principals") {
            return Err(TokenRefusal::SeveralPrincipals);
        }
        Ok(first)
    }

    /// Refuses a request that has no token at all.
    pub(super) fn no_token(&self) -> Problem {
        Problem::from(ErrorCode::Unauthorized).challenge(self.challenge("", None))
    }

    fn problem(&self, refusal: TokenRefusal) -> Problem {
        match refusal {
            TokenRefusal::Invalid(why) => {
                let detail = format!("{why}; get a new one from its issuer");
                Problem::new(ErrorCode::Unauthorized, detail)
                    .challenge(self.challenge("invalid_token", Some(why)))
            }
            TokenRefusal::Lacks(scopes) => {
                let why = format!("the token lacks the scope {scopes}");
                let detail = format!("{why}; get one that has it");
                Problem::new(ErrorCode::InsufficientScope, detail)
                    .challenge(self.challenge("insufficient_scope", Some(&why)))
            }
            TokenRefusal::NoPrincipal => ErrorCode::NoPrincipal.into(),
            TokenRefusal::SeveralPrincipals => ErrorCode::SeveralPrincipals.into(),
            TokenRefusal::Unreachable(issuer, why) => {
                let detail = format!(
                    "the token cannot be checked, because the keys of {issuer} cannot be fetched: {why}"
                );
                Problem::new(ErrorCode::IssuerUnreachable, detail).after(RETRY_AFTER)
            }
        }
    }

    /// The parameters of `WWW-Authenticate` (RFC 6750, RFC 9728). No text in it has a quote.
    fn challenge(&self, error: &str, description: Option<&str>) -> Option<HeaderValue> {
        let scopes = self.scopes().join(" ");
        let mut said = vec![
            ("error", error),
            ("error_description", description.unwrap_or_default()),
            ("scope", &scopes),
            ("resource_metadata", &self.metadata),
        ];
        said.retain(|(_, value)| !value.is_empty());
        let said = said
            .iter()
            .map(|(name, value)| format!("{name}=\"{value}\""));
        let said: Vec<String> = said.collect();
        HeaderValue::try_from(format!("Bearer {}", said.join(", "))).ok()
    }

    fn scopes(&self) -> Vec<&str> {
        let mut scopes: Vec<&str> = Vec::new();
        for scope in self
            .issuers
            .iter()
            .flat_map(|issuer| &issuer.settings.scopes)
        {
            if !scopes.contains(&scope.as_str()) {
                scopes.push(scope);
            }
        }
        scopes
    }

    /// The metadata of the protected resource (RFC 9728).
    pub(super) fn metadata(&self) -> Value {
        let issuers = self.issuers.iter();
        let issuers: Vec<&str> = issuers.map(|issuer| &*issuer.settings.url).collect();
        json!(ResourceMetadata {
            resource: format!("{}{RESOURCE}", self.base),
            authorization_servers: issuers,
            scopes_supported: self.scopes(),
            bearer_methods_supported: ["header"],
            resource_name: "toolcell",
        })
    }
}

/// RFC 9728 has no empty lists.
#[derive(Serialize)]
struct ResourceMetadata<'a> {
    resource: String,
    authorization_servers: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scopes_supported: Vec<&'a str>,
    bearer_methods_supported: [&'static str; 1],
    resource_name: &'static str,
}
