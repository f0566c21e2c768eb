//! The signer of a component: a verifier's input and its verdict.

use std::fmt;

use serde::{Deserialize, Serialize};
use toolcell_spec::text::{Whitespace, visible};

use crate::digest::Digest;
use crate::reference::ComponentReference;

/// A signature must cover this content.
#[derive(Clone, Copy, Debug)]
pub struct SignatureSubject<'a> {
    /// Trust policies match it as written.
    pub reference: &'a ComponentReference,
    /// The manifest's in a registry, the archive's of a package, or else the component's.
    pub digest: Digest,
    /// They have the digest. For formats that sign bytes.
    pub bytes: &'a [u8],
    /// The user allowed this reference to be unsigned.
    pub is_unsigned_allowed: bool,
    /// The installed version's, preferred among several.
    pub last_signer: Option<&'a Signer>,
}

/// Two that are equal are the same signer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Signer {
    Identity {
        /// An e-mail address or the URL of a workflow.
        identity: String,
        /// URL of who vouches for the identity.
        issuer: String,
    },
    Key {
        /// `sha256:<hex>` of the key in SubjectPublicKeyInfo form.
        fingerprint: String,
    },
    Minisign {
        /// 16 hex digits in upper case, as minisign prints it.
        key_id: String,
        /// `sha256:<hex>` of the whole public key, because an id can be chosen.
        fingerprint: String,
    },
}

/// `me@example.org (by https://accounts.example.org)`.
impl fmt::Display for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Identity { identity, issuer } => {
                write!(f, "{} (by {})", quoted(identity), quoted(issuer))
            }
            Self::Key { fingerprint } => write!(f, "the key {fingerprint}"),
            // The id alone would show an impostor's key as the same one.
            Self::Minisign {
                key_id,
                fingerprint,
            } => write!(f, "the minisign key {key_id} ({fingerprint})"),
        }
    }
}

/// Nothing in the result begins a line of its own, controls a terminal or misleads: before a signature is verified,
/// anyone may have written it.
pub(crate) fn quoted(text: &str) -> String {
    visible(text, Whitespace::WrittenOut)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureVerdict {
    /// `None` if the component is unsigned, and may be.
    pub signer: Option<Signer>,
    /// The first time, in seconds since 1970, if a log or the signature says so.
    pub signed_at: Option<i64>,
    /// A `[[signer]]` entry names this signer for this reference. If not, a first install asks.
    pub is_named: bool,
    /// Notes for the user, such as that a file is not signed.
    pub notes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_keys_with_one_id_are_shown_apart() {
        let shown = |fingerprint: &str| {
            Signer::Minisign {
                key_id: "0123456789ABCDEF".to_owned(),
                fingerprint: fingerprint.to_owned(),
            }
            .to_string()
        };
        assert_ne!(shown("sha256:00"), shown("sha256:01"));
    }
}
