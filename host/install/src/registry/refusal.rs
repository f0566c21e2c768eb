//! The refusals of registries, each with its code.

use http::StatusCode;
use toolcell_engine::approval::legible;
use toolcell_spec::{ErrorCode, Refusal};
use url::{Position, Url};

/// In characters.
const CODE_MAX: usize = 40;
const QUOTED_MAX: usize = 300;

pub(super) fn unreachable(host: &str, why: &str) -> Refusal {
    // An error of TLS repeats names of the certificate.
    let why = quoted(why);
    let message = format!(
        "the registry {host} cannot be reached: {why}; check its name and the network, then try again"
    );
    Refusal::new(ErrorCode::RegistryUnreachable, message)
}

pub(super) fn too_slow(host: &str, why: &str) -> Refusal {
    let message = format!("the registry {host} {why}; try again later");
    Refusal::new(ErrorCode::RegistryTimeout, message)
}

/// The query of the target can have a signature in it, which is a credential.
pub(super) fn redirected(host: &str, target: &str, why: &str) -> Refusal {
    let target = target.split(['?', '#']).next().unwrap_or_default();
    let message = format!(
        "{host} redirects to {}, {why}, so nothing was fetched; report it to its operator",
        quoted(target)
    );
    Refusal::new(ErrorCode::RedirectRefused, message)
}

/// The credentials would go to a host that is none of the registry's own.
pub(super) fn token_server(host: &str, realm: &Url) -> Refusal {
    let server = quoted(&realm[Position::BeforeHost..Position::AfterPort]);
    let message = format!(
        "the registry {host} asks to send its credentials to {server}, which is another host, so nothing was sent; if that is \
         its token server, add \"{server}\" to token_servers in [registry] of your own toolcell.toml"
    );
    Refusal::new(ErrorCode::TokenServerRefused, message)
}

/// The answer is not what the distribution specification says.
pub(super) fn malformed(host: &str, why: &str) -> Refusal {
    let message = format!(
        "the registry {host} gave an answer that cannot be used: {}; try again later, or report it to its operator",
        quoted(why)
    );
    Refusal::new(ErrorCode::RegistryAnswerInvalid, message)
}

pub(super) fn too_long(host: &str, bytes_max: u64) -> Refusal {
    let message = format!(
        "the registry {host} sent more than {bytes_max} bytes where fewer were expected; report it to the publisher"
    );
    Refusal::new(ErrorCode::RegistryAnswerTooLarge, message)
}

pub(super) fn mismatch(what: &str, expected: &str, found: &str) -> Refusal {
    let message = format!(
        "{what} has the digest {found}, not {expected}: it was changed on its way or in the registry; do not use it, and \
         report it to the publisher"
    );
    Refusal::new(ErrorCode::DigestMismatch, message)
}

/// An artifact that is not one component.
pub(super) fn unsupported(reference: &str, why: &str) -> Refusal {
    let message = format!(
        "{reference} is not one WebAssembly component: {}; name an artifact with one layer `application/wasm`",
        quoted(why)
    );
    Refusal::new(ErrorCode::ArtifactUnsupported, message)
}

pub(super) fn unauthorized(host: &str, had_credentials: bool) -> Refusal {
    let message = if had_credentials {
        format!(
            "the registry {host} refuses the credentials that docker keeps for it; run `docker login {host}` again"
        )
    } else {
        format!(
            "the registry {host} wants credentials; run `docker login {host}`, or put them into docker's config.json"
        )
    };
    Refusal::new(ErrorCode::RegistryUnauthorized, message)
}

/// `said` is the start of the answer's body, untrusted.
pub(super) fn status(host: &str, what: &str, status: StatusCode, said: &[u8]) -> Refusal {
    let code = error_code(said)
        .map(|code| format!(" ({code})"))
        .unwrap_or_default();
    let number = status.as_u16();
    match number {
        404 => {
            let message =
                format!("the registry {host} has no {what}{code}; check the name and the tag");
            Refusal::new(ErrorCode::ArtifactNotFound, message)
        }
        401 => unauthorized(host, true),
        403 => {
            let message = format!(
                "the registry {host} denies access to {what}{code}; check what your account may do there"
            );
            Refusal::new(ErrorCode::RegistryDenied, message)
        }
        429 => {
            let message = format!(
                "the registry {host} answers 429 for {what}{code}: too many requests; try again later"
            );
            Refusal::new(ErrorCode::RegistryRateLimited, message)
        }
        _ => malformed(host, &format!("status {number} for {what}{code}")),
    }
}

/// The start of a registry's text, in characters that are what they look like.
fn quoted(text: &str) -> String {
    legible(&text.chars().take(QUOTED_MAX).collect::<String>())
}

/// `None` unless the answer has a code of the form `NAME_UNKNOWN`.
fn error_code(body: &[u8]) -> Option<String> {
    let answer: serde_json::Value = serde_json::from_slice(body).ok()?;
    let code = answer.pointer("/errors/0/code")?.as_str()?;
    let is_code = code.len() <= CODE_MAX
        && code
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    is_code.then(|| code.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_ends_with_what_to_do() {
        let answered = |number: u16| status("h", "x", StatusCode::from_u16(number).unwrap(), b"");
        let refusals = [
            unreachable("h", "why"),
            too_slow("h", "sends nothing"),
            redirected("h", "https://x", "which is elsewhere"),
            malformed("h", "why"),
            too_long("h", 1),
            mismatch("x", "a", "b"),
            unsupported("h/x", "why"),
            unauthorized("h", true),
            unauthorized("h", false),
            answered(403),
            answered(404),
            answered(429),
            answered(503),
        ];
        for refusal in refusals {
            let remedy = refusal
                .message
                .rsplit_once("; ")
                .map(|(_, remedy)| remedy.split(' ').count());
            assert!(remedy >= Some(3), "{}", refusal.message);
        }
    }

    #[test]
    fn an_answer_is_quoted_only_if_it_is_a_code() {
        let quoted = |body: &str| error_code(body.as_bytes());
        assert_eq!(
            quoted(r#"{"errors":[{"code":"NAME_UNKNOWN","message":"x"}]}"#).as_deref(),
            Some("NAME_UNKNOWN")
        );
        for other in [
            "",
            "<html>",
            r#"{"errors":[{"code":"run this"}]}"#,
            r#"{"errors":[]}"#,
        ] {
            assert_eq!(quoted(other), None, "{other}");
        }
    }
}
