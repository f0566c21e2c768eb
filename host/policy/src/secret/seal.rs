use std::fmt;
use std::path::Path;

use anyhow::{Context, bail};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use zeroize::Zeroizing;

use super::private_file;

/// Random, and long enough never to repeat.
const NONCE_BYTES: usize = 24;

/// XChaCha20-Poly1305, with a key in a file that only its owner can read.
#[derive(Clone)]
pub struct SealingKey(XChaCha20Poly1305);

impl SealingKey {
    pub fn read_or_make(path: &Path) -> anyhow::Result<Self> {
        private_file::read_or_make_key(path).map(|key| Self::new(&key))
    }

    /// `None` if the file is absent.
    pub fn read(path: &Path) -> anyhow::Result<Option<Self>> {
        Ok(private_file::read_key(path)?.map(|key| Self::new(&key)))
    }

    fn new(key: &[u8; private_file::KEY_BYTES]) -> Self {
        Self(XChaCha20Poly1305::new(key.into()))
    }

    /// The result opens for no other `purpose`.
    pub fn seal(&self, purpose: &str, plain: &[u8]) -> anyhow::Result<Vec<u8>> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce[..]).context("cannot create a nonce")?;
        let sealed = self.0.encrypt(
            &XNonce::from(nonce),
            Payload {
                msg: plain,
                aad: purpose.as_bytes(),
            },
        );
        let Ok(sealed) = sealed else {
            bail!("too much to seal at once")
        };
        Ok([&nonce[..], &sealed].concat())
    }

    /// Fails if one byte, the key or the purpose differs.
    pub fn open(&self, purpose: &str, sealed: &[u8]) -> anyhow::Result<Zeroizing<Vec<u8>>> {
        let parts = sealed.split_first_chunk::<NONCE_BYTES>();
        let plain = parts.and_then(|(nonce, sealed)| {
            self.0
                .decrypt(
                    &XNonce::from(*nonce),
                    Payload {
                        msg: sealed,
                        aad: purpose.as_bytes(),
                    },
                )
                .ok()
        });
        plain
            .map(Zeroizing::new)
            .context("damaged, or sealed with another key")
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealingKey")
    }
}

#[cfg(test)]
mod tests {
    use super::SealingKey;

    #[test]
    fn what_is_sealed_opens_with_the_same_key_for_the_same_purpose_only() {
        let key = SealingKey::new(&[7; 32]);
        let sealed = key.seal("a", b"plain").unwrap();
        assert_eq!(key.open("a", &sealed).unwrap().as_slice(), b"plain");
        assert!(key.open("b", &sealed).is_err());
        assert!(SealingKey::new(&[8; 32]).open("a", &sealed).is_err());
        assert_ne!(
            sealed,
            key.seal("a", b"plain").unwrap(),
            "never the same bytes twice"
        );
        for at in 0..sealed.len() {
            let mut tampered = sealed.clone();
            tampered[at] ^= 1;
            assert!(key.open("a", &tampered).is_err(), "byte {at}");
            assert!(key.open("a", &sealed[..at]).is_err(), "cut at {at}");
        }
    }
}
