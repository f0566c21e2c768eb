//! Signatures: checking any bytes ends, is deterministic, and never finds a signature that nobody made.
//!
//! Promise: Signatures are untrusted input.

use std::sync::OnceLock;

use toolcell_install::digest::Digest;
use toolcell_install::reference::ComponentReference;
use toolcell_install::signature::{ManagedKey, MinisignKey, SignatureVerifier};
use toolcell_install::source::{Referrer, SIGSTORE_BUNDLE};
use toolcell_install::trust::{TrustEntry, TrustPattern, TrustPolicy, TrustedSigner};
use toolcell_install::verifier::SignatureSubject;

/// The key of RFC 8410, section 10.1, and one of minisign: the corpus has signatures of both, of another artifact.
const MANAGED: &str = "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=";
const MINISIGN: &str = "RWRLteNAwrF0FgFpjCJOGkhczMzIRAfDUnIU6wamSuQgmtkY4d1N+y6A";

fn verifier() -> SignatureVerifier {
    let managed = ManagedKey::parse(MANAGED)
        .map(TrustedSigner::Key)
        .expect("read a key");
    let minisign = MinisignKey::parse(MINISIGN)
        .map(TrustedSigner::Minisign)
        .expect("read a key");
    let entry = |signer| TrustEntry {
        reference: TrustPattern::new("*"),
        signer,
        place: "toolcell.toml".to_owned(),
    };
    let mut policy = TrustPolicy::default();
    policy.add(vec![entry(managed), entry(minisign)]);
    SignatureVerifier::new(policy)
}

pub(crate) fn run(data: &[u8]) {
    static VERIFIER: OnceLock<SignatureVerifier> = OnceLock::new();
    let reference =
        ComponentReference::parse("ghcr.io/acme/jq:1", "/".as_ref()).expect("a reference");
    let bytes = b"what nobody signed";
    let reference = &reference;
    let digest = Digest::of(bytes);
    let subject = SignatureSubject {
        reference,
        digest,
        bytes,
        is_unsigned_allowed: false,
        last_signer: None,
    };
    let found = [Referrer {
        media_type: SIGSTORE_BUNDLE.to_owned(),
        found: "here".to_owned(),
        bytes: data.to_vec(),
    }];
    let check = || {
        VERIFIER
            .get_or_init(verifier)
            .examine(&subject, &found)
            .expect("one small signature")
    };
    let one = check();
    let two = check();
    for (one, two) in one.iter().zip(&two) {
        let (Err(one), Err(two)) = (&one.outcome, &two.outcome) else {
            panic!("a signature that nobody made holds")
        };
        assert_eq!(one, two);
    }
}
