use std::fmt;

use anyhow::Context;
use zeroize::Zeroizing;

/// Makes references that say nothing of what they refer to. A digest of a short value is as good as the value to
/// whoever can guess; these are made with a key that lives as long as one call, so that they connect the records of
/// that call, and nobody can make one to compare.
#[derive(Clone)]
pub struct ReferenceKey(Zeroizing<[u8; 32]>);

impl ReferenceKey {
    pub fn new() -> anyhow::Result<Self> {
        let mut key = Zeroizing::new([0; 32]);
        rustix::rand::getrandom(&mut key[..], rustix::rand::GetRandomFlags::empty()).context("make a key")?;
        Ok(Self(key))
    }

    /// The key itself, for what is sealed.
    pub fn to_text(&self) -> String {
        data_encoding::HEXLOWER.encode(&self.0[..])
    }

    /// The key that [`Self::to_text`] gave.
    pub fn from_text(text: &str) -> Option<Self> {
        let bytes = Zeroizing::new(data_encoding::HEXLOWER.decode(text.as_bytes()).ok()?);
        Some(Self(Zeroizing::new(bytes.as_slice().try_into().ok()?)))
    }

    /// `blake3-keyed:<hex>` in the place of `reference`: the same for the same, and it stays as it is when given again.
    pub fn conceal(&self, reference: &str) -> String {
        if reference.starts_with(CONCEALED) {
            return reference.to_owned();
        }
        format!("{CONCEALED}{}", blake3::keyed_hash(&self.0, reference.as_bytes()).to_hex())
    }
}

const CONCEALED: &str = "blake3-keyed:";

impl fmt::Debug for ReferenceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReferenceKey")
    }
}
