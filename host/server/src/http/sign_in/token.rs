//! An access token as a client sends it (JWT, RFC 9068), and what its claims must say.

use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use serde_json::{Map, Value};
use toolcell_policy::{SignatureAlgorithm, TokenIssuer};
use toolcell_spec::Timestamp;

use crate::jwt;

/// In bytes.
const TOKEN_BYTES_MAX: usize = 16 << 10;
/// More claims are in no token of 16 KiB that is one.
const VALUES_MAX: usize = 2_000;
/// `JWT` is what issuers write that are older than RFC 9068; an ID token has it, too, but another audience.
const TYPES: [&str; 3] = ["at+jwt", "application/at+jwt", "jwt"];
const NOT_A_JWT: &str = "the token is unknown, and not a JWT";

/// Nothing in it is true before its signature is verified.
pub(super) struct AccessToken<'a> {
    pub(super) signed: &'a str,
    pub(super) signature: Vec<u8>,
    pub(super) algorithm: SignatureAlgorithm,
    pub(super) key: Option<String>,
    pub(super) claims: Map<String, Value>,
}

impl<'a> AccessToken<'a> {
    pub(super) fn parse(token: &'a str) -> Result<Self, &'static str> {
        if token.len() > TOKEN_BYTES_MAX && guard!("token_size") {
            return Err("the token is larger than 16 KiB");
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(NOT_A_JWT)?;
        let (header, claims) = signed.split_once('.').ok_or(NOT_A_JWT)?;
        let header = jwt::object(header, VALUES_MAX).ok_or(NOT_A_JWT)?;
        let text = |name: &str| header.get(name).and_then(Value::as_str);
        // Unsigned tokens and shared secrets have no algorithm here.
        let algorithm = text("alg").and_then(SignatureAlgorithm::of_name);
        let algorithm = algorithm.ok_or("the algorithm of the token is not accepted")?;
        let is_type = |kind: &Value| {
            let kind = kind.as_str().unwrap_or_default();
            TYPES.iter().any(|known| kind.eq_ignore_ascii_case(known))
        };
        if !header.get("typ").is_none_or(is_type) && guard!("token_type") {
            return Err("the token is not an access token");
        }
        // An extension that has to be understood is not.
        if header.contains_key("crit") || header.contains_key("b64") {
            return Err("the token demands an extension");
        }
        let key = match header.get("kid") {
            None => None,
            Some(Value::String(key)) => Some(key.clone()),
            Some(_) => return Err(NOT_A_JWT),
        };
        let signature = BASE64URL_NOPAD.decode(signature.as_bytes());
        Ok(Self {
            signed,
            signature: signature.map_err(|_| NOT_A_JWT)?,
            algorithm,
            key,
            claims: jwt::object(claims, VALUES_MAX).ok_or(NOT_A_JWT)?,
        })
    }

    pub(super) fn issuer(&self) -> Option<&str> {
        self.claims.get("iss").and_then(Value::as_str)
    }

    /// To be called once the signature is verified. Returns when the token ends, in milliseconds since 1970, with the
    /// tolerated difference of clocks.
    pub(super) fn check(
        &self,
        issuer: &TokenIssuer,
        audiences: &[String],
        now: Timestamp,
    ) -> Result<i64, &'static str> {
        let is_here = |audience: &Value| match (&issuer.audience, audience.as_str()) {
            (Some(own), Some(audience)) => own == audience,
            (None, Some(audience)) => audiences.iter().any(|own| own == audience),
            (_, None) => false,
        };
        let audience = match self.claims.get("aud") {
            Some(Value::Array(audiences)) => audiences.iter().any(is_here),
            Some(audience) => is_here(audience),
            None => false,
        };
        if !audience && guard!("token_audience") {
            return Err("the token is for another audience");
        }
        let skew = millis(issuer.skew);
        let end = self.date("exp").ok_or("the token has no time of expiry")?;
        let end = end.saturating_add(skew);
        if end <= now.unix_millis() && guard!("token_expiry") {
            return Err("the token has expired");
        }
        for name in ["nbf", "iat"] {
            let is_read = !self.claims.contains_key(name) || self.date(name).is_some();
            let start = self.date(name).unwrap_or(i64::MIN);
            let is_early = start.saturating_sub(skew) > now.unix_millis();
            if (!is_read || is_early) && guard!("token_start") {
                return Err("the token is not valid yet");
            }
        }
        Ok(end)
    }

    /// The scopes that the token lacks.
    pub(super) fn lacks<'i>(&self, issuer: &'i TokenIssuer) -> Vec<&'i str> {
        let mut had: Vec<&str> = Vec::new();
        // `scp` has them at some issuers, as a list or as a text.
        for claim in ["scope", "scp"].map(|name| self.claims.get(name)) {
            match claim {
                Some(Value::String(text)) => had.extend(text.split(' ')),
                Some(Value::Array(scopes)) => had.extend(scopes.iter().filter_map(Value::as_str)),
                _ => {}
            }
        }
        let needed = issuer.scopes.iter().map(String::as_str);
        needed.filter(|scope| !had.contains(scope)).collect()
    }

    /// A date of a token is in seconds, and may have a fraction. In milliseconds here.
    fn date(&self, name: &str) -> Option<i64> {
        let seconds = self.claims.get(name)?.as_f64()?;
        // A conversion of floats saturates.
        Some((seconds * 1_000.0) as i64)
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
