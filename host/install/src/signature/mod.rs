//! The formats of signatures: sigstore bundles, with a certificate or with a managed key, and minisign. They are
//! checked in this process, without the network.

pub mod beside;
mod bundle;
mod cosign_key;
mod key;
mod keyless;
mod managed;
mod minisign;
mod provider;
mod refusal;
mod root;
pub mod sign;
mod statement;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use toolcell_spec::{ErrorCode, Refusal};

use crate::digest::Digest;
use crate::reference::ComponentReference;
use crate::source::{REFERRERS_MAX, Referrer};
use crate::trust::TrustPolicy;
use crate::verifier::{SignatureSubject, SignatureVerdict, Signer};
use crate::workflow::TaggedWorkflow;

pub use key::{ManagedKey, MinisignKey};
use refusal::problem;
use root::SigstoreRoot;

/// In bytes. Bundles of real tools have about 10 KiB.
pub const SIGNATURE_BYTES_MAX: usize = 256 << 10;
pub const SIGNATURES_MAX: usize = REFERRERS_MAX;
/// Later, no further signature is checked.
const TIME_MAX: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidSignature {
    pub signer: Signer,
    /// In seconds since 1970. Only a log or the signer says so.
    pub signed_at: Option<i64>,
    /// `true` if a transparency log has the signature.
    pub is_logged: bool,
}

/// One signature, and what checking it showed.
#[derive(Clone, Debug)]
pub struct SignatureCheck {
    /// Where it was found.
    pub found: String,
    /// `sigstore`, `minisign` or `unknown`.
    pub format: &'static str,
    /// The signature, if it holds.
    pub outcome: Result<ValidSignature, Refusal>,
}

/// Checks signatures against what the user trusts.
pub struct SignatureVerifier {
    policy: TrustPolicy,
    root: SigstoreRoot,
}

impl SignatureVerifier {
    pub fn new(policy: TrustPolicy) -> Self {
        provider::install();
        let root = SigstoreRoot::new(policy.trusted_root().map(PathBuf::from));
        Self { policy, root }
    }

    pub fn policy(&self) -> &TrustPolicy {
        &self.policy
    }

    /// `found` is untrusted. Fails if a signature is needed and missing, or does not hold.
    pub fn verify(
        &self,
        subject: &SignatureSubject<'_>,
        found: &[Referrer],
    ) -> Result<SignatureVerdict, Refusal> {
        self.judge(subject, &self.examine(subject, found)?)
    }

    /// `found` is untrusted. Fails on too many signatures, and those that take too long.
    pub fn examine(
        &self,
        subject: &SignatureSubject<'_>,
        found: &[Referrer],
    ) -> Result<Vec<SignatureCheck>, Refusal> {
        if found.len() > SIGNATURES_MAX {
            return Err(refusal::too_many(subject.reference, found.len()));
        }
        let start = Instant::now();
        let mut examined = Vec::new();
        for referrer in found {
            if start.elapsed() > TIME_MAX {
                return Err(refusal::too_slow(subject.reference));
            }
            let (format, outcome) = self.check(subject, referrer);
            examined.push(SignatureCheck {
                found: referrer.found.clone(),
                format,
                outcome,
            });
        }
        Ok(examined)
    }

    fn check(
        &self,
        subject: &SignatureSubject<'_>,
        referrer: &Referrer,
    ) -> (&'static str, Result<ValidSignature, Refusal>) {
        let bytes = &*referrer.bytes;
        let found = &*referrer.found;
        let refused = |code, why: &str| ("unknown", Err(problem(code, found, why)));
        if bytes.len() > SIGNATURE_BYTES_MAX {
            return ("unknown", Err(refusal::too_large(found, bytes.len())));
        }
        if Digest::of(subject.bytes) != subject.digest {
            return refused(
                ErrorCode::SignatureWrongDigest,
                "the bytes do not have the digest",
            );
        }
        let Ok(text) = str::from_utf8(bytes) else {
            return refused(ErrorCode::SignatureFormatUnknown, "it is not UTF-8 text");
        };
        match text.trim_start() {
            "" => refused(ErrorCode::SignatureTruncated, ""),
            json if json.starts_with('{') => {
                let keys: Vec<&ManagedKey> = self.policy.managed_keys().collect();
                (
                    "sigstore",
                    bundle::check(bytes, subject, &keys, &self.root, found),
                )
            }
            lines if lines.starts_with(minisign::BEGIN) || minisign::BEGIN.starts_with(lines) => {
                let keys: Vec<&MinisignKey> = self.policy.minisign_keys().collect();
                ("minisign", minisign::check(lines, subject, &keys, found))
            }
            _ => refused(ErrorCode::SignatureFormatUnknown, ""),
        }
    }

    /// A refusal says what is wrong.
    pub fn judge(
        &self,
        subject: &SignatureSubject<'_>,
        examined: &[SignatureCheck],
    ) -> Result<SignatureVerdict, Refusal> {
        let valid: Vec<&ValidSignature> = examined
            .iter()
            .filter_map(|one| one.outcome.as_ref().ok())
            .collect();
        let signers: Vec<&Signer> = valid.iter().map(|signed| &signed.signer).collect();
        let unmet = self
            .policy
            .unmet(subject.reference, &signers)
            .filter(|_| guard!("trust_policy"));
        if valid.is_empty() {
            return self.without_signer(subject, examined, unmet);
        }
        if let Some(place) = unmet {
            let every_tag = self.policy.at_every_tag(subject.reference, &signers);
            return Err(refusal::not_trusted(
                subject.reference,
                &signers,
                place,
                every_tag,
            ));
        }
        let named: Vec<&Signer> = signers
            .iter()
            .copied()
            .filter(|signer| self.policy.names(subject.reference, signer))
            .collect();
        let candidates = if named.is_empty() { &signers } else { &named };
        let signer = preferred(candidates, subject.last_signer).cloned();
        let rejected = examined.iter().filter_map(|one| one.outcome.as_ref().err());
        let notes = rejected
            .map(|refusal| format!("ignored: {}", refusal.message))
            .collect();
        // A later signature does not make an older version a newer one.
        let by_signer = valid
            .iter()
            .filter(|signed| signer.as_ref() == Some(&signed.signer));
        let signed_at = by_signer.filter_map(|signed| signed.signed_at).min();
        Ok(SignatureVerdict {
            signer,
            signed_at,
            is_named: !named.is_empty(),
            notes,
        })
    }

    fn without_signer(
        &self,
        subject: &SignatureSubject<'_>,
        examined: &[SignatureCheck],
        unmet: Option<&str>,
    ) -> Result<SignatureVerdict, Refusal> {
        let refusals: Vec<&Refusal> = examined
            .iter()
            .filter_map(|one| one.outcome.as_ref().err())
            .collect();
        // A tampered component is refused, whatever is allowed.
        let broken = refusals
            .iter()
            .find(|refusal| !refusal::is_unverifiable(refusal.code));
        if let Some(refusal) = broken {
            return Err((*refusal).clone());
        }
        let is_allowed =
            subject.is_unsigned_allowed || matches!(subject.reference, ComponentReference::Path(_));
        if unmet.is_some() || (!is_allowed && guard!("unsigned")) {
            let unsigned = || refusal::unsigned(subject.reference, unmet);
            return Err(refusals
                .first()
                .map_or_else(unsigned, |refusal| (*refusal).clone()));
        }
        let mut notes = vec![format!(
            "{} is not signed: nothing says who made it",
            subject.reference
        )];
        notes.extend(
            refusals
                .iter()
                .map(|refusal| format!("not checked: {}", refusal.message)),
        );
        Ok(SignatureVerdict {
            signer: None,
            signed_at: None,
            is_named: false,
            notes,
        })
    }
}

/// The last signer, or else the same workflow at another tag, or else the first: the lock has to learn of it.
fn preferred<'a>(signers: &[&'a Signer], last: Option<&Signer>) -> Option<&'a Signer> {
    let is_next = |signer: &&&Signer| {
        last.is_some_and(|last| TaggedWorkflow::of_both(last, signer).is_some())
    };
    let known = signers.iter().find(|signer| last == Some(**signer));
    known
        .or_else(|| signers.iter().find(is_next))
        .or_else(|| signers.first())
        .copied()
}

pub fn unsigned(reference: &ComponentReference) -> Refusal {
    refusal::unsigned(reference, None)
}

#[cfg(test)]
mod tests {

    use super::sign::SigningKey;
    use super::*;
    use crate::source::MINISIGN;
    use crate::trust::{TrustEntry, TrustPattern, TrustedSigner};

    /// Key file and public key.
    pub(super) fn unencrypted() -> (String, String) {
        let pair = ::minisign::KeyPair::generate_unencrypted_keypair().unwrap();
        (
            pair.sk.to_box(None).unwrap().to_string(),
            pair.pk.to_base64(),
        )
    }

    pub(super) struct Place {
        reference: ComponentReference,
        bytes: Vec<u8>,
        pub(super) is_unsigned_allowed: bool,
        last_signer: Option<Signer>,
    }

    impl Place {
        pub(super) fn new(reference: &str, bytes: &[u8]) -> Self {
            let reference = ComponentReference::parse(reference, "/".as_ref()).unwrap();
            Self {
                reference,
                bytes: bytes.to_vec(),
                is_unsigned_allowed: false,
                last_signer: None,
            }
        }

        pub(super) fn trusting(&self, signers: &str) -> TrustPolicy {
            let entry = |line: &str| {
                let (kind, text) = line.split_once(' ').unwrap();
                let signer = match kind {
                    "key" => TrustedSigner::Key(ManagedKey::parse(text).unwrap()),
                    _ => TrustedSigner::Minisign(MinisignKey::parse(text).unwrap()),
                };
                let reference =
                    TrustPattern::new(if self.reference.is_path() { "/*" } else { "*" });
                TrustEntry {
                    reference,
                    signer,
                    place: "toolcell.toml, line 1".to_owned(),
                }
            };
            let mut policy = TrustPolicy::default();
            policy.add(signers.lines().map(entry).collect());
            policy
        }

        pub(super) fn judge(
            &self,
            policy: TrustPolicy,
            signatures: &[Vec<u8>],
        ) -> Result<SignatureVerdict, Refusal> {
            let found = |bytes: &Vec<u8>| Referrer {
                media_type: MINISIGN.to_owned(),
                found: "here".to_owned(),
                bytes: bytes.clone(),
            };
            let found: Vec<Referrer> = signatures.iter().map(found).collect();
            let digest = Digest::of(&self.bytes);
            let subject = SignatureSubject {
                reference: &self.reference,
                digest,
                bytes: &self.bytes,
                is_unsigned_allowed: self.is_unsigned_allowed,
                last_signer: self.last_signer.as_ref(),
            };
            SignatureVerifier::new(policy).verify(&subject, &found)
        }
    }

    #[test]
    fn what_is_unsigned_is_refused_unless_it_is_a_file_or_was_named_so() {
        let (secret, public) = unencrypted();
        let signature = SigningKey::read(&secret, || panic!())
            .unwrap()
            .sign_file(b"jq", "jq")
            .unwrap()
            .bytes;
        let of_another = SigningKey::read(&secret, || panic!())
            .unwrap()
            .sign_file(b"yq", "yq")
            .unwrap()
            .bytes;
        let none = TrustPolicy::default;
        for reference in ["ghcr.io/acme/jq:1", "https://example.org/jq.wasm"] {
            let mut place = Place::new(reference, b"jq");
            let named = || place.trusting(&format!("minisign {public}"));
            assert_eq!(
                place.judge(none(), &[]).unwrap_err().code,
                ErrorCode::Unsigned
            );
            assert_eq!(
                place.judge(named(), &[]).unwrap_err().code,
                ErrorCode::Unsigned
            );
            // A key that no entry names says nothing.
            assert_eq!(
                place
                    .judge(none(), std::slice::from_ref(&signature))
                    .unwrap_err()
                    .code,
                ErrorCode::SignerUnknown
            );
            assert_eq!(
                place.judge(none(), &[b"PGP".to_vec()]).unwrap_err().code,
                ErrorCode::SignatureFormatUnknown
            );
            let (named, other) = (named(), named());
            place.is_unsigned_allowed = true;
            for found in [vec![], vec![signature.clone()], vec![b"PGP".to_vec()]] {
                let verdict = place.judge(none(), &found).unwrap();
                assert_eq!(verdict.signer, None);
                assert!(verdict.notes[0].contains("is not signed"), "{verdict:?}");
                assert_eq!(verdict.notes.len(), 1 + found.len());
            }
            // Who is named must have signed, and what was tampered with is refused, whatever is allowed.
            assert_eq!(
                place.judge(named, &[]).unwrap_err().code,
                ErrorCode::Unsigned
            );
            assert_eq!(
                place
                    .judge(other, std::slice::from_ref(&of_another))
                    .unwrap_err()
                    .code,
                ErrorCode::SignatureReplayed
            );
            assert_eq!(
                place.judge(none(), &[b"{".to_vec()]).unwrap_err().code,
                ErrorCode::SignatureTruncated
            );
        }
        let place = Place::new("/tools/jq.wasm", b"jq");
        assert!(place.judge(none(), &[]).unwrap().notes[0].contains("nothing says who made it"));
        assert_eq!(
            place
                .judge(place.trusting(&format!("minisign {public}")), &[])
                .unwrap_err()
                .code,
            ErrorCode::Unsigned
        );
    }

    #[test]
    fn signatures_are_bounded_in_number_and_size() {
        let place = Place::new("ghcr.io/acme/jq:1", b"jq");
        let many = vec![b"{".to_vec(); SIGNATURES_MAX + 1];
        assert_eq!(
            place.judge(TrustPolicy::default(), &many).unwrap_err().code,
            ErrorCode::SignaturesTooMany
        );
        let large = vec![b' '; SIGNATURE_BYTES_MAX + 1];
        assert_eq!(
            place
                .judge(TrustPolicy::default(), &[large])
                .unwrap_err()
                .code,
            ErrorCode::SignatureTooLarge
        );
    }

    #[test]
    fn of_several_signers_that_of_the_lock_counts() {
        let (one, one_public) = unencrypted();
        let (two, two_public) = unencrypted();
        let mut place = Place::new("ghcr.io/acme/jq:1", b"jq");
        let keys = [one, two].map(|secret| SigningKey::read(&secret, || panic!()).unwrap());
        let signatures = keys
            .each_ref()
            .map(|key| key.sign_file(b"jq", "jq").unwrap().bytes);
        let policy = || place.trusting(&format!("minisign {one_public}\nminisign {two_public}"));
        let first = policy();
        let second = policy();
        let third = policy();
        assert_eq!(
            place.judge(first, &signatures).unwrap().signer.as_ref(),
            Some(keys[0].signer())
        );
        place.last_signer = Some(keys[1].signer().clone());
        assert_eq!(
            place.judge(second, &signatures).unwrap().signer.as_ref(),
            Some(keys[1].signer())
        );
        // Another signer is another signer, also if the policy names both.
        let verdict = place.judge(third, &signatures[..1]).unwrap();
        assert_eq!(verdict.signer.as_ref(), Some(keys[0].signer()));
        // A signer who is named for something else signed this.
        let mut elsewhere = place.trusting(&format!("minisign {one_public}"));
        elsewhere.add(vec![TrustEntry {
            reference: TrustPattern::new("ghcr.io/other/*"),
            signer: TrustedSigner::Minisign(MinisignKey::parse(&two_public).unwrap()),
            place: String::new(),
        }]);
        assert_eq!(
            place.judge(elsewhere, &signatures[1..]).unwrap_err().code,
            ErrorCode::SignerNotTrusted
        );
    }

    #[test]
    fn of_several_signers_the_workflow_of_the_lock_at_another_tag_counts() {
        let by = |identity: &str| Signer::Identity {
            identity: identity.to_owned(),
            issuer: "https://x.test".to_owned(),
        };
        let at = |tag: &str| {
            by(&format!(
                "https://github.com/acme/jq/.github/workflows/r.yml@refs/tags/{tag}"
            ))
        };
        let person = by("me@acme.test");
        let before = at("v1");
        let after = at("v2");
        let signers = [&person, &after, &before];
        assert_eq!(preferred(&signers, Some(&before)), Some(&before));
        assert_eq!(preferred(&signers[..2], Some(&before)), Some(&after));
        assert_eq!(
            preferred(&signers, Some(&by("you@acme.test"))),
            Some(&person)
        );
        assert_eq!(
            (preferred(&signers, None), preferred(&[], Some(&before))),
            (Some(&person), None)
        );
    }

    #[test]
    fn bytes_of_another_digest_are_not_verified() {
        let (secret, public) = unencrypted();
        let place = Place::new("ghcr.io/acme/jq:1", b"jq");
        let signature = SigningKey::read(&secret, || panic!())
            .unwrap()
            .sign_file(b"jq", "jq")
            .unwrap()
            .bytes;
        let found = Referrer {
            media_type: MINISIGN.to_owned(),
            found: "here".to_owned(),
            bytes: signature,
        };
        let verifier = SignatureVerifier::new(place.trusting(&format!("minisign {public}")));
        let digest = Digest::of(b"another");
        let reference = &place.reference;
        let subject = SignatureSubject {
            reference,
            digest,
            bytes: b"jq",
            is_unsigned_allowed: false,
            last_signer: None,
        };
        assert_eq!(
            verifier.verify(&subject, &[found]).unwrap_err().code,
            ErrorCode::SignatureWrongDigest
        );
    }
}
