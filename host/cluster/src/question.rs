//! A question crosses the wire when a call is asked for: no grant, secret, rule, or path of a machine.

use data_encoding::BASE64URL_NOPAD;
use nkeys::KeyPair;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::claim::UnixMillis;

/// A call as a gateway asks for it. The worker decides about it with its own rules, grants and secrets.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// Id of the call in the cluster.
    pub call: String,
    /// As in the call's [`Claim`](crate::Claim).
    pub request: String,
    /// The gateway's name of the caller, whose rules a worker has of its own; `None` for a caller without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    pub deadline: UnixMillis,
    /// A `CallSpec`.
    pub spec: Spec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceRef>,
}

/// The files of a call.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceRef {
    pub name: String,
    /// SHA-256 of the object with their tar archive, in hexadecimal.
    pub archive: String,
    /// Bytes and files that the workspace may have.
    pub quota: (u64, u64),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spec {
    Inline(Box<RawValue>),
    /// SHA-256 of the object that has it, in hexadecimal.
    Object(String),
}

/// A question of somebody without a known key.
#[derive(Clone, Debug, thiserror::Error)]
pub enum QuestionError {
    #[error("the gateway {0} is not among those that this worker listens to")]
    UnknownGateway(String),
    #[error("the signature is not of the key that it names")]
    WrongSignature,
    #[error("not a question: {0}")]
    Malformed(String),
}

/// The key and the signature of a question, as they stand in its headers.
#[derive(Clone, Debug)]
pub struct Seal {
    /// Public nkey of the gateway, `U..`.
    pub key: String,
    pub signature: String,
}

impl Seal {
    /// # Errors
    ///
    /// The pair has no private key.
    pub fn new(pair: &KeyPair, question: &[u8]) -> Result<Self, nkeys::error::Error> {
        Ok(Self {
            key: pair.public_key(),
            signature: BASE64URL_NOPAD.encode(&pair.sign(question)?),
        })
    }

    /// `true` if the holder of the key signed `bytes`.
    pub fn is_of(&self, bytes: &[u8]) -> bool {
        KeyPair::from_public_key(&self.key).is_ok_and(|pair| {
            let signature = BASE64URL_NOPAD.decode(self.signature.as_bytes());
            signature.is_ok_and(|signature| pair.verify(bytes, &signature).is_ok())
        })
    }
}

impl Question {
    /// Reads a question that one of `gateways` signed; each is a public nkey.
    ///
    /// # Errors
    ///
    /// None of them did, or it is no question.
    pub fn open(bytes: &[u8], seal: &Seal, gateways: &[String]) -> Result<Self, QuestionError> {
        let is_known = gateways.contains(&seal.key) || !guard!("cluster_gateway");
        if !is_known {
            return Err(QuestionError::UnknownGateway(seal.key.clone()));
        }
        if !seal.is_of(bytes) && guard!("cluster_signature") {
            return Err(QuestionError::WrongSignature);
        }
        serde_json::from_slice(bytes).map_err(|error| QuestionError::Malformed(error.to_string()))
    }
}

/// Of several texts: each by its own digest, so that no two lists of texts have one.
pub fn digest_of(texts: &[&str]) -> String {
    let digests: Vec<String> = texts.iter().map(|text| digest(text.as_bytes())).collect();
    digest(digests.concat().as_bytes())
}

/// SHA-256 in hexadecimal.
pub fn digest(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_of_a_gateway_that_is_known_and_signed_it() {
        let (known, other) = (KeyPair::new_user(), KeyPair::new_user());
        let gateways = [known.public_key()];
        let question = br#"{"call":"c","request":"r","deadline":1,"spec":{"inline":{}}}"#;
        let seal = Seal::new(&known, question).unwrap();
        assert_eq!(
            Question::open(question, &seal, &gateways).unwrap().call,
            "c"
        );
        let changed = br#"{"call":"d","request":"r","deadline":1,"spec":{"inline":{}}}"#;
        let error = Question::open(changed, &seal, &gateways).unwrap_err();
        assert!(matches!(error, QuestionError::WrongSignature), "{error}");
        let foreign = Seal::new(&other, question).unwrap();
        let error = Question::open(question, &foreign, &gateways).unwrap_err();
        assert!(matches!(error, QuestionError::UnknownGateway(_)), "{error}");
        // Another's signature under a known key.
        let forged = Seal {
            key: known.public_key(),
            ..foreign
        };
        assert!(Question::open(question, &forged, &gateways).is_err());
        let unsigned = Seal {
            signature: "%".to_owned(),
            ..seal
        };
        assert!(Question::open(question, &unsigned, &gateways).is_err());
    }
}
