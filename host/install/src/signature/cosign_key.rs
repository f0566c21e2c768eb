//! Secret keys of cosign, which are encrypted with a password: scrypt, and the secretbox of NaCl.

use crypto_secretbox::aead::Aead;
use crypto_secretbox::{Key, KeyInit, Nonce, XSalsa20Poly1305};
use data_encoding::BASE64;
use scrypt::{Params, scrypt};
use serde::Deserialize;
use zeroize::Zeroizing;

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
/// Cosign writes 2^16, which takes 64 MiB.
const COST_MAX: u64 = 1 << 20;

#[derive(Deserialize)]
struct EncryptedKey {
    kdf: KeyDerivation,
    cipher: KeyCipher,
    ciphertext: String,
}

#[derive(Deserialize)]
struct KeyDerivation {
    name: String,
    params: ScryptCost,
    salt: String,
}

#[derive(Deserialize)]
struct ScryptCost {
    #[serde(rename = "N")]
    n: u64,
    r: u32,
    p: u32,
}

#[derive(Deserialize)]
struct KeyCipher {
    name: String,
    nonce: String,
}

/// `json` is the content of the PEM file. The result is PKCS #8.
pub(super) fn decrypt(json: &[u8], password: &str) -> Result<Zeroizing<Vec<u8>>, String> {
    let malformed = || "the encrypted key is damaged".to_owned();
    let read: EncryptedKey = serde_json::from_slice(json).map_err(|_| malformed())?;
    if read.kdf.name != "scrypt" || read.cipher.name != "nacl/secretbox" {
        return Err(format!(
            "it is encrypted with {} and {}",
            read.kdf.name, read.cipher.name
        ));
    }
    let ScryptCost { n, r, p } = read.kdf.params;
    if !n.is_power_of_two() || n > COST_MAX || r > 8 || p > 1 {
        return Err("its password needs more work than any key of cosign".to_owned());
    }
    let cost = u8::try_from(n.trailing_zeros()).ok();
    let params = cost
        .and_then(|cost| Params::new(cost, r, p, KEY_BYTES).ok())
        .ok_or_else(malformed)?;
    let decoded = |text: &str| BASE64.decode(text.as_bytes()).map_err(|_| malformed());
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    scrypt(
        password.as_bytes(),
        &decoded(&read.kdf.salt)?,
        &params,
        key.as_mut(),
    )
    .map_err(|_| malformed())?;
    let nonce: [u8; NONCE_BYTES] = decoded(&read.cipher.nonce)?
        .try_into()
        .map_err(|_| malformed())?;
    let cipher = XSalsa20Poly1305::new(Key::from_slice(key.as_ref()));
    let opened = cipher.decrypt(
        Nonce::from_slice(&nonce),
        decoded(&read.ciphertext)?.as_slice(),
    );
    opened
        .map(Zeroizing::new)
        .map_err(|_| "the password is wrong".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn encrypted(n: u64, password: &str) -> Vec<u8> {
        let mut key = [0; KEY_BYTES];
        let cost = u8::try_from(n.trailing_zeros()).unwrap();
        scrypt(
            password.as_bytes(),
            &[1; 32],
            &Params::new(cost, 8, 1, KEY_BYTES).unwrap(),
            &mut key,
        )
        .unwrap();
        let cipher = XSalsa20Poly1305::new(Key::from_slice(&key));
        let ciphertext = cipher
            .encrypt(Nonce::from_slice(&[2; NONCE_BYTES]), &b"a key"[..])
            .unwrap();
        json!({
            "kdf": { "name": "scrypt", "params": { "N": n, "r": 8, "p": 1 }, "salt": BASE64.encode(&[1; 32]) },
            "cipher": { "name": "nacl/secretbox", "nonce": BASE64.encode(&[2; NONCE_BYTES]) },
            "ciphertext": BASE64.encode(&ciphertext),
        })
        .to_string()
        .into_bytes()
    }

    #[test]
    fn a_key_is_decrypted_with_its_password_alone() {
        let json = encrypted(1 << 4, "correct");
        assert_eq!(decrypt(&json, "correct").unwrap().as_slice(), b"a key");
        assert_eq!(
            decrypt(&json, "wrong").unwrap_err(),
            "the password is wrong"
        );
        assert!(decrypt(b"{}", "correct").is_err());
        let text = String::from_utf8(json).unwrap();
        for (from, to) in [
            ("\"N\":16", "\"N\":1099511627776"),
            ("\"N\":16", "\"N\":17"),
            ("\"r\":8", "\"r\":4096"),
        ] {
            let costly = text.replace(from, to);
            assert_ne!(costly, text);
            assert!(
                decrypt(costly.as_bytes(), "correct")
                    .unwrap_err()
                    .contains("more work"),
                "{to}"
            );
        }
    }
}
