//! `toolcell verify`: who signed a component, and whether the user's policy trusts the signer.

use std::path::{Path, PathBuf};

use crate::runtime::Runtime;
use clap::Args;
use serde_json::{Value, json};
use toolcell::Home;
use toolcell_config::{ConfigLayers, LayerOptions, identified};
use toolcell_install::digest::Digest;
use toolcell_install::reference::ComponentReference;
use toolcell_install::signature::{
    self, ManagedKey, MinisignKey, SignatureCheck, SignatureVerifier, beside,
};
use toolcell_install::trust::{TrustEntry, TrustPattern, TrustPolicy, TrustedSigner};
use toolcell_install::verifier::{SignatureSubject, SignatureVerdict};
use toolcell_spec::{Refusal, Timestamp};

use super::exit::{self, BadRequest, Exit, Stop};
use super::install::{self, SourceOptions};
use super::show;
use super::signed;

/// Says who signed a component, and whether the policy trusts the signer.
#[derive(Debug, Args)]
#[command(
    after_help = "The [[signer]] entries of toolcell.toml name who must have signed what. Nothing is run, and checking a \
                        signature needs no network.\n\n\
                        Exit 0: a signer who is named, by toolcell.toml or by an option. Exit 6: a valid signature of \
                        a signer who is not named. Exit 3: no signature, an invalid one, or one of another signer than \
                        the named ones.\n\n\
                        Examples:\n  toolcell verify jq.wasm\n  toolcell verify ghcr.io/example/jq:1 --json\n  \
                        toolcell verify jq.wasm --key publisher.pub"
)]
pub(super) struct Verify {
    /// A file, whose signature is FILE.sigstore.json or FILE.minisig, or the reference of a registry
    #[arg(value_name = "FILE|REF")]
    reference: String,
    /// The file of the signature
    #[arg(long, value_name = "FILE")]
    signature: Option<PathBuf>,
    /// Trust this public key alone: a file with PEM or a minisign.pub
    #[arg(long, value_name = "FILE", conflicts_with_all = ["identity", "issuer"])]
    key: Option<PathBuf>,
    /// Trust this sigstore identity alone; * stands for any text
    #[arg(long, value_name = "IDENTITY", requires = "issuer")]
    identity: Option<String>,
    /// URL of who vouches for the identity
    #[arg(long, value_name = "URL", requires = "identity")]
    issuer: Option<String>,
    /// Read this file instead of the project's toolcell.toml
    #[arg(long, value_name = "FILE", conflicts_with = "no_config")]
    config: Option<PathBuf>,
    /// Read no toolcell.toml, neither your own nor the project's
    #[arg(long)]
    no_config: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sources: SourceOptions,
}

#[derive(Default)]
struct Report {
    reference: Option<ComponentReference>,
    digest: Option<Digest>,
    examined: Vec<SignatureCheck>,
    verdict: Option<SignatureVerdict>,
}

impl Verify {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let mut report = Report::default();
        let refusal = exit::refusable(self.verify(&mut report))?.err();
        let is_named = report
            .verdict
            .as_ref()
            .is_some_and(|verdict| verdict.is_named);
        let exit = match &refusal {
            Some(refusal) => exit::of_refusal(refusal),
            None if is_named => Exit::Succeeded,
            None => Exit::WouldAsk,
        };
        if self.json {
            return show::done(show::json(&document(&report, refusal.as_ref())), exit);
        }
        show::text(&for_people(&report))?;
        if let Some(refusal) = &refusal {
            show::refused(refusal);
        }
        Ok(exit)
    }

    fn verify(&self, report: &mut Report) -> Result<(), Stop> {
        let home = Home::find()?;
        let folder = std::env::current_dir().ok();
        let reference = ComponentReference::parse(
            &self.reference,
            folder.as_deref().unwrap_or(Path::new("/")),
        )?;
        let options = LayerOptions {
            file: self.config.clone(),
            none: self.no_config,
        };
        let layers = ConfigLayers::read(&home, folder.as_deref(), &options)?;
        let verifier = SignatureVerifier::new(self.policy(&layers.signers)?);
        let sources = install::sources(&home, &self.sources)?;
        let mut artifact =
            Runtime::on_this_thread()?.block_on(signed::artifact(&reference, &sources))?;
        if let Some(file) = &self.signature {
            artifact.signatures = vec![beside::read(file)?];
        }
        let subject = SignatureSubject {
            reference: &reference,
            digest: artifact.digest,
            bytes: &artifact.bytes,
            is_unsigned_allowed: false,
            last_signer: None,
        };
        report.digest = Some(artifact.digest);
        report.reference = Some(reference.clone());
        report.examined = verifier.examine(&subject, &artifact.signatures)?;
        let verdict = verifier.judge(&subject, &report.examined)?;
        if verdict.signer.is_none() {
            let failed = report
                .examined
                .iter()
                .find_map(|one| one.outcome.as_ref().err());
            return Err(failed
                .cloned()
                .unwrap_or_else(|| signature::unsigned(&reference))
                .into());
        }
        report.verdict = Some(verdict);
        Ok(())
    }

    /// The policy of the options, else of the files.
    fn policy(&self, of_files: &TrustPolicy) -> anyhow::Result<TrustPolicy> {
        let (signer, place) = match (&self.key, &self.identity, &self.issuer) {
            (Some(file), _, _) => (public_key(file)?, "--key"),
            (None, Some(identity), Some(issuer)) => (
                identified(identity, issuer).map_err(BadRequest::from_error)?,
                "--identity",
            ),
            _ => return Ok(of_files.clone()),
        };
        let mut policy = TrustPolicy::default();
        let entry = |reference: &str| TrustEntry {
            reference: TrustPattern::new(reference),
            signer: signer.clone(),
            place: place.to_owned(),
        };
        policy.add(vec![entry("*"), entry("/*")]);
        if let Some(root) = of_files.trusted_root() {
            policy.use_root(root.to_owned());
        }
        Ok(policy)
    }
}

fn public_key(file: &Path) -> anyhow::Result<TrustedSigner> {
    let text = signed::small_text(file)?;
    let read = if text.trim_start().starts_with("-----") {
        ManagedKey::parse(&text).map(TrustedSigner::Key)
    } else {
        MinisignKey::parse(&text).map(TrustedSigner::Minisign)
    };
    Ok(read
        .map_err(|why| BadRequest(format!("the key {} cannot be used: {why}", file.display())))?)
}

fn moment(seconds: i64) -> Timestamp {
    Timestamp::of_unix_millis(seconds.saturating_mul(1000))
}

fn document(report: &Report, refusal: Option<&Refusal>) -> Value {
    let signatures = report.examined.iter().map(|one| {
        let signed = one.outcome.as_ref().ok();
        json!({
            "found": one.found,
            "format": one.format,
            "signer": signed.map(|signed| &signed.signer),
            "signed_at": signed.and_then(|signed| signed.signed_at).map(moment),
            "logged": signed.is_some_and(|signed| signed.is_logged),
            "error": one.outcome.as_ref().err().map(Refusal::to_error),
        })
    });
    let verdict = report.verdict.as_ref();
    json!({
        "verified": verdict.is_some(),
        "reference": report.reference.as_ref(),
        "digest": report.digest.as_ref(),
        "signer": verdict.and_then(|verdict| verdict.signer.as_ref()),
        "trusted": verdict.is_some_and(|verdict| verdict.is_named),
        "signatures": signatures.collect::<Vec<_>>(),
        "error": refusal.map(Refusal::to_error),
    })
}

fn for_people(report: &Report) -> String {
    let mut text = String::new();
    if let (Some(reference), Some(digest)) = (&report.reference, &report.digest) {
        text += &format!("{reference}\n{digest}\n");
    }
    for one in &report.examined {
        text += &match &one.outcome {
            Ok(signed) => {
                let when = signed
                    .signed_at
                    .map(|seconds| format!(", at {}", moment(seconds)))
                    .unwrap_or_default();
                let log = if signed.is_logged {
                    ", in a transparency log"
                } else {
                    ""
                };
                format!(
                    "signed by {}{when}{log} ({}, {})\n",
                    signed.signer, one.format, one.found
                )
            }
            Err(refusal) => format!("rejected: {} [{}]\n", refusal.message, refusal.code),
        };
    }
    if let Some(SignatureVerdict {
        signer: Some(signer),
        is_named,
        ..
    }) = &report.verdict
    {
        text += &if *is_named {
            format!("trusted: {signer}\n")
        } else {
            format!("not named: no [[signer]] entry names {signer}; an install asks\n")
        };
    }
    text
}
