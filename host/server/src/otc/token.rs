use anyhow::ensure;
use data_encoding::BASE64URL_NOPAD;
use ring::hmac;
use serde_json::{Map, Value};
use toolcell_spec::Timestamp;

use crate::jwt;

/// A shorter one can be guessed.
const SECRET_CHARS_MIN: usize = 16;
const TOKEN_BYTES_MAX: usize = 8 << 10;
const VALUES_MAX: usize = 100;
/// The engine's clock may be so far ahead.
const SKEW_SECONDS: f64 = 60.0;
/// A day. A stolen token ends by itself, whatever its engine wrote.
const LIFE_SECONDS_MAX: f64 = 86_400.0;
const VERSION: &str = "1";
const AUDIENCE: &str = "worker";

/// An Arcade engine signs its tokens with it: JWTs (RFC 7519) with HS256, in the one form that engines write.
pub struct WorkerSecret(hmac::Key);

impl WorkerSecret {
    /// Fails if the secret is so short that it can be guessed.
    pub fn new(secret: &str) -> anyhow::Result<Self> {
        let length = secret.chars().count();
        ensure!(
            length >= SECRET_CHARS_MIN,
            "the secret of the Arcade engine is shorter than {SECRET_CHARS_MIN} characters"
        );
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes())))
    }

    /// Compares the signature in constant time, before anything but the algorithm is read. The reason is the same for
    /// every wrong signature.
    pub fn verify(&self, authorization: Option<&str>, now: Timestamp) -> Result<(), &'static str> {
        let (scheme, token) = authorization
            .and_then(|value| value.split_once(' '))
            .ok_or("a bearer token is missing")?;
        if !scheme.eq_ignore_ascii_case("bearer") || token.len() > TOKEN_BYTES_MAX {
            return Err("the token is not a bearer token, or is too long");
        }
        let (signed, signature) = token.rsplit_once('.').ok_or("the token is not a JWT")?;
        let (header, claims) = signed.split_once('.').ok_or("the token is not a JWT")?;
        let header = part(header)?;
        // A token must not choose how it is checked: `none`, or a public key as an HMAC secret.
        if guard!("jwt_algorithm") && header.get("alg").and_then(Value::as_str) != Some("HS256") {
            return Err("the token is not signed with HS256");
        }
        // An extension that has to be understood is not.
        if header.get("crit").is_some() || header.get("b64").is_some() {
            return Err("the token demands an extension");
        }
        let signature = BASE64URL_NOPAD
            .decode(signature.as_bytes())
            .map_err(|_| "the token is not a JWT")?;
        if hmac::verify(&self.0, signed.as_bytes(), &signature).is_err() && guard!("jwt_signature")
        {
            return Err("the signature of the token is wrong");
        }
        check(&part(claims)?, now)
    }
}

fn part(text: &str) -> Result<Map<String, Value>, &'static str> {
    jwt::object(text, VALUES_MAX).ok_or("the token is not a JWT")
}

fn check(claims: &Map<String, Value>, now: Timestamp) -> Result<(), &'static str> {
    let is_worker = |audience: &Value| audience == AUDIENCE;
    let audience = match claims.get("aud") {
        Some(Value::Array(audiences)) => audiences.iter().any(is_worker),
        Some(audience) => is_worker(audience),
        None => false,
    };
    if !audience && guard!("jwt_audience") {
        return Err("the token is for another audience");
    }
    // A date of a token is in seconds, and may have a fraction.
    #[allow(
        clippy::cast_precision_loss,
        reason = "milliseconds since 1970 fit into 53 bits"
    )]
    let now = now.unix_millis() as f64 / 1_000.0;
    let date = |name: &str| claims.get(name).and_then(Value::as_f64);
    let is_over = date("exp").is_none_or(|expiry| expiry <= now);
    if is_over && guard!("jwt_expiry") {
        return Err("the token has expired, or has no expiry");
    }
    if date("exp").is_some_and(|expiry| expiry > now + LIFE_SECONDS_MAX) {
        return Err("the token is valid for longer than a day");
    }
    for name in ["nbf", "iat"] {
        let is_read = claims.get(name).is_none() || date(name).is_some();
        if !is_read || date(name).is_some_and(|start| start > now + SKEW_SECONDS) {
            return Err("the token is not valid yet");
        }
    }
    if claims.get("ver").and_then(Value::as_str) != Some(VERSION) {
        return Err("the token has another version");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use data_encoding::BASE64URL_NOPAD;
    use ring::hmac;
    use serde_json::{Value, json};
    use toolcell_spec::Timestamp;

    use super::WorkerSecret;

    const SECRET: &str = "a secret of this worker";
    /// 2026-01-01, in seconds since 1970.
    const NOW: i64 = 1_767_225_600;

    fn claims() -> Value {
        json!({ "aud": "worker", "exp": NOW + 60, "iat": NOW, "ver": "1" })
    }

    fn bearer(header: &Value, claims: &Value, secret: &str) -> String {
        let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
        let signed = format!("{}.{}", part(header), part(claims));
        let tag = hmac::sign(
            &hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()),
            signed.as_bytes(),
        );
        format!("Bearer {signed}.{}", BASE64URL_NOPAD.encode(tag.as_ref()))
    }

    fn verified(header: &str) -> Result<(), &'static str> {
        WorkerSecret::new(SECRET)
            .unwrap()
            .verify(Some(header), Timestamp::of_unix_millis(NOW * 1_000))
    }

    fn hs256() -> Value {
        json!({ "alg": "HS256", "typ": "JWT" })
    }

    #[test]
    fn a_token_of_the_engine_is_accepted() {
        assert_eq!(verified(&bearer(&hs256(), &claims(), SECRET)), Ok(()));
        for (seconds, audience) in [
            (0.5, json!(["other", "worker"])),
            (86_400.0, json!("worker")),
        ] {
            let claims = json!({ "aud": audience, "exp": NOW as f64 + seconds, "ver": "1" });
            assert_eq!(verified(&bearer(&hs256(), &claims, SECRET)), Ok(()));
        }
    }

    /// Another program made the signature, with the key and the text of RFC 7515, appendix A.1.
    #[test]
    fn a_signature_is_that_of_the_standard() {
        let key = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";
        let key = BASE64URL_NOPAD.decode(key.as_bytes()).unwrap();
        let signed = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly\
                      9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
        let secret = WorkerSecret(hmac::Key::new(hmac::HMAC_SHA256, &key));
        let header = format!("Bearer {signed}.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        let refused = secret.verify(Some(&header), Timestamp::of_unix_millis(1_300_819_379_000));
        // The signature is right; the token is for another audience.
        assert_eq!(refused, Err("the token is for another audience"));
    }

    #[test]
    fn any_other_token_is_refused() {
        let with = |name: &str, value: Value| {
            let mut claims = claims();
            claims[name] = value;
            bearer(&hs256(), &claims, SECRET)
        };
        let without = |name: &str| {
            let mut claims = claims();
            claims.as_object_mut().unwrap().remove(name);
            bearer(&hs256(), &claims, SECRET)
        };
        let valid = bearer(&hs256(), &claims(), SECRET);
        let unsigned = valid.rsplit_once('.').unwrap().0;
        for (what, header) in [
            (
                "another algorithm",
                bearer(&json!({ "alg": "none" }), &claims(), SECRET),
            ),
            (
                "another case",
                bearer(&json!({ "alg": "hs256" }), &claims(), SECRET),
            ),
            (
                "a list of algorithms",
                bearer(&json!({ "alg": ["HS256"] }), &claims(), SECRET),
            ),
            ("no algorithm", bearer(&json!({}), &claims(), SECRET)),
            (
                "an extension",
                bearer(
                    &json!({ "alg": "HS256", "crit": ["b64"] }),
                    &claims(),
                    SECRET,
                ),
            ),
            (
                "another secret",
                bearer(&hs256(), &claims(), "another secret, as long"),
            ),
            ("no signature", format!("{unsigned}.")),
            ("two parts", unsigned.to_owned()),
            ("four parts", format!("{valid}.AAAA")),
            ("padding", format!("{valid}=")),
            ("another audience", with("aud", json!("workers"))),
            ("no audience", without("aud")),
            ("the expiry", with("exp", json!(NOW))),
            ("no expiry", without("exp")),
            ("an expiry that is a text", with("exp", json!("9999999999"))),
            ("for ever", with("exp", json!(NOW + 24 * 60 * 60 + 1))),
            ("an expiry that no clock reaches", with("exp", json!(1e300))),
            ("not yet", with("nbf", json!(NOW + 61))),
            ("a start that is a text", with("nbf", json!("0"))),
            ("made later", with("iat", json!(NOW + 61))),
            ("another version", with("ver", json!("2"))),
            ("no version", without("ver")),
            ("another scheme", valid.replace("Bearer", "Basic")),
            ("too long", with("more", json!("x".repeat(8 << 10)))),
            ("no token", "Bearer".to_owned()),
        ] {
            assert!(verified(&header).is_err(), "{what}");
        }
        assert!(
            WorkerSecret::new(SECRET)
                .unwrap()
                .verify(None, Timestamp::now())
                .is_err()
        );
    }

    #[test]
    fn a_short_secret_is_refused() {
        assert!(WorkerSecret::new("dev").is_err());
    }
}
