//! Issuers of access tokens, and the claims that name a principal.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

/// Signature algorithms of access tokens (RFC 7518, RFC 8037). None is symmetric: a public key can be no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureAlgorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl SignatureAlgorithm {
    /// Each with its name in the header of a token.
    pub const ALL: [(&'static str, Self); 9] = [
        ("RS256", Self::Rs256),
        ("RS384", Self::Rs384),
        ("RS512", Self::Rs512),
        ("PS256", Self::Ps256),
        ("PS384", Self::Ps384),
        ("PS512", Self::Ps512),
        ("ES256", Self::Es256),
        ("ES384", Self::Es384),
        ("EdDSA", Self::EdDsa),
    ];

    /// Those that an issuer may use whose settings have no list.
    pub const USUAL: [Self; 4] = [Self::Rs256, Self::Ps256, Self::Es256, Self::EdDsa];

    pub fn of_name(name: &str) -> Option<Self> {
        let mut known = Self::ALL.into_iter();
        known.find_map(|(known, algorithm)| (known == name).then_some(algorithm))
    }
}

/// An OAuth authorization server whose access tokens (RFC 9068) are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenIssuer {
    /// As the claim `iss` of its tokens has it, to the letter.
    pub url: String,
    /// The audience that its tokens must have; `None` for the URL of the server that checks them.
    pub audience: Option<String>,
    /// URL of its keys; `None` if its metadata names it.
    pub jwks: Option<String>,
    pub algorithms: Vec<SignatureAlgorithm>,
    /// A token must have all of them.
    pub scopes: Vec<String>,
    /// Tolerated difference of clocks.
    pub skew: Duration,
}

/// How records name a caller that has a token, or signs in.
pub const TOKEN_CALLER: &str = "token:";

/// The caller, as records have it, that the configuration and token files call `name`.
pub fn token_caller(name: &str) -> String {
    format!("{TOKEN_CALLER}{name}")
}

/// Recognizes a principal by a token's issuer and claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtMatch {
    /// [`TokenIssuer::url`].
    pub issuer: String,
    /// Names, each with the texts of which the token must have one. Empty: every token of the issuer matches.
    pub claims: BTreeMap<String, Vec<String>>,
}

impl JwtMatch {
    /// `claims` are of a verified token of `issuer`. A claim that is a list matches by each of its texts.
    pub fn matches(&self, issuer: &str, claims: &Map<String, Value>) -> bool {
        let has = |(name, texts): (&String, &Vec<String>)| match claims.get(name) {
            Some(Value::String(text)) => texts.contains(text),
            Some(Value::Array(values)) => {
                let mut values = values.iter().filter_map(Value::as_str);
                values.any(|value| texts.iter().any(|text| text == value))
            }
            _ => false,
        };
        let is_its_own = self.issuer == issuer || !guard!("principal_issuer");
        is_its_own && self.claims.iter().all(has)
    }

    /// `true` if each token that `other` matches matches here, too: no such token could name one of the two.
    pub fn covers(&self, other: &Self) -> bool {
        let is_narrower = |(name, texts): (&String, &Vec<String>)| {
            let narrower = other.claims.get(name);
            narrower.is_some_and(|narrower| narrower.iter().all(|text| texts.contains(text)))
        };
        self.issuer == other.issuer && self.claims.iter().all(is_narrower)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{JwtMatch, SignatureAlgorithm};

    const ISSUER: &str = "https://auth.example";

    fn of(claims: &[(&str, &[&str])]) -> JwtMatch {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let claims = claims.iter();
        JwtMatch {
            issuer: ISSUER.to_owned(),
            claims: claims
                .map(|(name, values)| ((*name).to_owned(), texts(values)))
                .collect(),
        }
    }

    fn matches(known: &JwtMatch, issuer: &str, claims: &Value) -> bool {
        known.matches(issuer, claims.as_object().unwrap())
    }

    #[test]
    fn a_principal_is_known_by_all_of_its_claims_and_its_issuer() {
        let anna = of(&[("sub", &["anna"]), ("groups", &["ops", "dev"])]);
        for claims in [
            json!({ "sub": "anna", "groups": ["hr", "ops"] }),
            json!({ "sub": ["anna"], "groups": "dev", "more": 1 }),
        ] {
            assert!(matches(&anna, ISSUER, &claims), "{claims}");
            assert!(!matches(&anna, "https://auth.example/", &claims));
            assert!(!matches(&anna, "https://evil.example", &claims));
        }
        for claims in [
            json!({}),
            json!({ "sub": "anna" }),
            json!({ "sub": "Anna", "groups": "ops" }),
            json!({ "sub": "anna", "groups": "ops dev" }),
            json!({ "sub": "anna", "groups": [["ops"]] }),
            json!({ "sub": { "anna": true }, "groups": ["ops"] }),
            json!({ "sub": null, "groups": ["ops"] }),
        ] {
            assert!(!matches(&anna, ISSUER, &claims), "{claims}");
        }
        assert!(matches(&of(&[]), ISSUER, &json!({})));
    }

    #[test]
    fn a_match_that_leaves_another_no_token_is_seen() {
        let ops = of(&[("groups", &["ops", "dev"])]);
        let anna = of(&[("sub", &["anna"]), ("groups", &["ops"])]);
        assert!(ops.covers(&anna) && !anna.covers(&ops));
        assert!(ops.covers(&ops) && of(&[]).covers(&ops));
        assert!(!ops.covers(&of(&[("groups", &["ops", "hr"])])));
        let other = JwtMatch {
            issuer: "https://other.example".to_owned(),
            ..anna.clone()
        };
        assert!(!ops.covers(&other));
    }

    #[test]
    fn no_algorithm_is_symmetric() {
        for name in ["none", "None", "HS256", "HS384", "HS512", "rs256", ""] {
            assert_eq!(SignatureAlgorithm::of_name(name), None, "{name}");
        }
    }
}
