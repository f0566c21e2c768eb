//! SHA-256 alone, in lower case, so that one digest has one spelling.

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use serde_with::{DeserializeFromStr, SerializeDisplay};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest, written `sha256:<64 hex digits in lower case>`.
///
/// ```
/// use toolcell_install::digest::Digest;
///
/// let digest = Digest::of(b"abc");
/// assert_eq!(digest.to_string().parse(), Ok(digest));
/// assert!("sha512:00".parse::<Digest>().is_err());
/// ```
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, DeserializeFromStr, SerializeDisplay,
)]
pub struct Digest([u8; 32]);

/// Why a text is not a digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a digest: `sha256:` and 64 hex digits in lower case are expected")]
pub struct NoDigest(String);

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub fn hex(&self) -> String {
        HEXLOWER.encode(&self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = NoDigest;

    fn from_str(text: &str) -> Result<Self, NoDigest> {
        let hex = text
            .strip_prefix("sha256:")
            .and_then(|hex| HEXLOWER.decode(hex.as_bytes()).ok());
        let bytes = hex.and_then(|bytes| bytes.try_into().ok());
        bytes
            .map(Self)
            .ok_or_else(|| NoDigest(text.chars().take(100).collect()))
    }
}

#[derive(Clone, Default)]
pub struct DigestHasher(Sha256);

impl DigestHasher {
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn one_digest_has_one_spelling() {
        assert_eq!(Digest::of(b"abc").to_string(), ABC);
        let mut hasher = DigestHasher::default();
        hasher.update(b"a");
        hasher.update(b"bc");
        assert_eq!(hasher.finish(), ABC.parse().unwrap());
        let sha512 = ABC.replacen("256", "512", 1);
        for wrong in [
            &ABC.to_uppercase(),
            &ABC[7..],
            &ABC[..70],
            &format!("{ABC}0"),
            &sha512,
            "sha256:",
        ] {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
    }
}
