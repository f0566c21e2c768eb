use std::time::Duration;

use rcgen::{
    CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair, SerialNumber, SigningKey,
    date_time_ymd,
};
use sha2::{Digest, Sha256};

use super::sigstore::{der, first_inside, lengths};

const SHA_256: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1];
const ECDSA_WITH_SHA_256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
const SIGNED_DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 7, 2];
const CONTENT_TYPE: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 3];
const MESSAGE_DIGEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 4];
const TIMESTAMP_INFO: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 16, 1, 4];
const POLICY: &[u8] = &[0x2a, 3, 4];

/// An authority for timestamps of RFC 3161.
pub(super) struct Timestamps {
    key: KeyPair,
    der: Vec<u8>,
}

impl Timestamps {
    /// An authority whose certificate is of `issuer`.
    pub(super) fn new(issuer: &Issuer<'_, KeyPair>) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.serial_number = Some(SerialNumber::from_slice(&[4, 5, 6]));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::TimeStamping];
        let der = params.signed_by(&key, issuer).unwrap().der().to_vec();
        Self { key, der }
    }

    pub(super) fn certificate(&self) -> &[u8] {
        &self.der
    }

    /// The token that says that `message` was there at this time, in seconds since 1970.
    pub(super) fn token(&self, message: &[u8], seconds: u64) -> Vec<u8> {
        let sha_256 = sequence(&[&id(SHA_256)]);
        let at = date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds);
        let month = u8::from(at.month());
        let day = at.day();
        let hour = at.hour();
        let time = format!(
            "{}{month:02}{day:02}{hour:02}{:02}{:02}Z",
            at.year(),
            at.minute(),
            at.second()
        );
        let imprint = sequence(&[&sha_256, &der(4, &Sha256::digest(message))]);
        let info = sequence(&[
            &integer(1),
            &id(POLICY),
            &imprint,
            &integer(1),
            &der(0x18, time.as_bytes()),
        ]);
        let attributes = [
            attribute(CONTENT_TYPE, &id(TIMESTAMP_INFO)),
            attribute(MESSAGE_DIGEST, &der(4, &Sha256::digest(&info))),
        ]
        .concat();
        let signature = self.key.sign(&der(0x31, &attributes)).unwrap();
        let signer = sequence(&[
            &integer(1),
            &self.issuer_and_serial(),
            &sha_256,
            &der(0xa0, &attributes),
            &sequence(&[&id(ECDSA_WITH_SHA_256)]),
            &der(4, &signature),
        ]);
        let content = sequence(&[&id(TIMESTAMP_INFO), &der(0xa0, &der(4, &info))]);
        let signed = sequence(&[
            &integer(3),
            &der(0x31, &sha_256),
            &content,
            &der(0x31, &signer),
        ]);
        sequence(&[&id(SIGNED_DATA), &der(0xa0, &signed)])
    }

    /// How a signature names the certificate.
    fn issuer_and_serial(&self) -> Vec<u8> {
        let to_be_signed = first_inside(&self.der);
        let (header, _) = lengths(to_be_signed);
        let mut rest = &to_be_signed[header..];
        let mut next = || {
            let (header, content) = lengths(rest);
            let (value, after) = rest.split_at(header + content);
            rest = after;
            value
        };
        let _version = next();
        let serial = next();
        let _algorithm = next();
        let issuer = next();
        sequence(&[issuer, serial])
    }
}

fn sequence(values: &[&[u8]]) -> Vec<u8> {
    der(0x30, &values.concat())
}

fn integer(value: u8) -> Vec<u8> {
    der(2, &[value])
}

fn id(content: &[u8]) -> Vec<u8> {
    der(6, content)
}

fn attribute(name: &[u8], value: &[u8]) -> Vec<u8> {
    sequence(&[&id(name), &der(0x31, value)])
}
