use std::fmt;

use anyhow::Context;
use zeroize::Zeroizing;

/// Makes references that reveal nothing. A plain digest of a short value can be confirmed by guessing; these are keyed,
/// and the key lives as long as one call, so they connect the records of that call alone.
#[derive(Clone)]
pub struct ReferenceKey(Zeroizing<[u8; 32]>);

impl ReferenceKey {
    pub fn new() -> anyhow::Result<Self> {
        let mut key = Zeroizing::new([0; 32]);
        getrandom::fill(&mut key[..]).context("cannot create a key")?;
        Ok(Self(key))
    }

    /// In hex, to be stored only where it is sealed.
    pub fn to_text(&self) -> String {
        data_encoding::HEXLOWER.encode(&self.0[..])
    }

    pub fn from_text(text: &str) -> Option<Self> {
        let bytes = Zeroizing::new(data_encoding::HEXLOWER.decode(text.as_bytes()).ok()?);
        Some(Self(Zeroizing::new(bytes.as_slice().try_into().ok()?)))
    }

    /// `blake3-keyed:<hex>`, equal for equal inputs; a result passed in again is unchanged.
    pub fn conceal(&self, reference: &str) -> String {
        if reference.starts_with(CONCEALED) {
            return reference.to_owned();
        }
        format!(
            "{CONCEALED}{}",
            blake3::keyed_hash(&self.0, reference.as_bytes()).to_hex()
        )
    }
}

const CONCEALED: &str = "blake3-keyed:";

impl fmt::Debug for ReferenceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReferenceKey")
    }
}
