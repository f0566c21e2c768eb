//! `toolcell push`: publishes a tool in a registry.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::runtime::Runtime;
use clap::Args;
use serde::{Serialize, Serializer};
use serde_json::json;
use toolcell::Home;
use toolcell_config::configured_registry;
use toolcell_install::check::{CheckFinding, Severity};
use toolcell_install::digest::Digest;
use toolcell_install::reference::{ComponentReference, RegistryReference};
use toolcell_install::registry::{Attachment, ComponentArtifact, PushResult, Registries};
use toolcell_install::sbom::{self, Sbom};
use toolcell_install::source::REFERRER_BYTES_MAX;
use toolcell_install::verifier::Signer;
use toolcell_spec::{ErrorCode, Refusal, ToolError};

use super::exit::{self, BadRequest, Exit, Stop};
use super::published::{self, CheckedTool};
use super::reproduce::Again;
use super::target::BuildPermission;
use super::{reproduce, show, sign};

/// Fixed, because the time is a part of the digest: the same component has the same one.
const CREATED: &str = "1970-01-01T00:00:00Z";

/// Publishes a tool in a registry.
#[derive(Debug, Args)]
#[command(
    after_help = "The tool is checked as `toolcell check` does. What is pushed is the component with its version, licence \
                        and source, and a bill of materials of its lock file.\n\n\
                        A source folder is built twice, in two places: if two components come out, nothing is pushed. \
                        Of a tool in Python, the code alone is compared, because its toolchain makes another snapshot \
                        of memory each time. \
                        Building runs code of the folder and of what it depends on as you, outside of the sandbox. With \
                        this command you agree to that.\n\n\
                        Credentials are docker's: `docker login` writes them, and its helpers are asked.\n\n\
                        Examples:\n  toolcell push . ghcr.io/me/word-count\n  \
                        toolcell push jq.wasm localhost:5000/jq:1.2 --dry-run"
)]
pub(super) struct Push {
    /// The source folder of a tool, or a .wasm file
    #[arg(value_name = "DIR|FILE")]
    path: PathBuf,
    /// Where to: HOST/REPOSITORY:TAG of a registry [default of the tag: the version of the package]
    reference: String,
    /// Build and check, and print the digest that a push would give; send nothing
    #[arg(long)]
    dry_run: bool,
    /// Sign the artifact with the secret key in this file, and attach the signature
    #[arg(long, value_name = "KEY")]
    sign: Option<PathBuf>,
    /// The file of the key's password [default: it is asked for]
    #[arg(long, value_name = "FILE", requires = "sign")]
    password_file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Default, Serialize)]
struct Report {
    pushed: Option<String>,
    dry_run: bool,
    #[serde(rename = "reference", serialize_with = "as_text")]
    to: Option<RegistryReference>,
    digest: Option<Digest>,
    component: Option<Digest>,
    size: Option<u64>,
    /// `true` if a second build gave the same; `None` if unknown.
    reproducible: Option<bool>,
    sbom: Option<Digest>,
    dependencies: Option<usize>,
    signer: Option<Signer>,
    signature: Option<Digest>,
    findings: Vec<CheckFinding>,
    error: Option<ToolError>,
}

impl Push {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let mut report = Report {
            dry_run: self.dry_run,
            ..Report::default()
        };
        let refusal = exit::refusable(self.push(&mut report))?.err();
        let pushed = report.to.as_ref().zip(report.digest);
        let pushed = pushed.filter(|_| refusal.is_none());
        let pushed = pushed.map(|(to, digest)| format!("oci://{}", to.pinned(digest)));
        report.pushed = pushed.clone().filter(|_| !self.dry_run);
        report.error = refusal.as_ref().map(Refusal::to_error);
        let record = self.json.then(|| json!(report));
        if !self.json {
            report
                .findings
                .iter()
                .for_each(|found| show::say(&published::line(found)));
            if self.dry_run && refusal.is_none() {
                show::say("nothing was sent");
            }
        }
        show::outcome(
            refusal.as_ref(),
            record.as_ref(),
            pushed.as_deref().unwrap_or_default(),
        )
    }

    fn push(&self, report: &mut Report) -> Result<(), Stop> {
        let mut to = self.target()?;
        let home = Home::find()?;
        let settings = configured_registry(&home).map_err(BadRequest::from_error)?;
        let key = self
            .sign
            .as_deref()
            .map(|file| sign::key(file, self.password_file.as_deref()))
            .transpose()?;
        let published = CheckedTool::examine(&home, &self.path, BuildPermission::Yes)?;
        report.findings.clone_from(&published.found);
        report.component = Some(published.digest);
        report.size = Some(published.component.size);
        if published.has_errors() {
            let message =
                "the tool has errors, so it was not pushed; correct them, and see `toolcell check`";
            return Err(Refusal::new(ErrorCode::CheckFailed, message).into());
        }
        if let Some(folder) = &published.folder {
            report.reproducible =
                is_reproducible(folder, &home, &published.bytes, &mut report.findings);
            if report.reproducible == Some(false) {
                let message = "a second build, in another folder, gave another component, so the component cannot be \
                               compared with its sources; look for times, paths and random numbers in the build. Push the \
                               .wasm file itself to do without this check";
                return Err(Refusal::new(ErrorCode::BuildNotReproducible, message).into());
            }
        }
        if to.tag.is_none() {
            to.tag = Some(tag(&published)?);
        }
        report.to = Some(to.clone());
        let artifact = artifact(&published);
        let mut attached = PushAttachments {
            sbom: bill(&published, report),
            signature: None,
        };
        if let Some(key) = key {
            let made = key.sign_manifest(&artifact.manifest())?;
            attached.signature = Some(Attachment {
                media_type: made.media_type.to_owned(),
                bytes: made.bytes,
            });
            report.signer = Some(key.signer().clone());
        }
        let pushed = if self.dry_run {
            Registries::foretold(&artifact)
        } else {
            let registries = Registries::new(settings)?;
            Runtime::on_this_thread()?.block_on(send(
                &registries,
                &to,
                &artifact,
                &attached,
                report,
            ))?
        };
        report.digest = Some(pushed.digest);
        Ok(())
    }

    /// The reference to push to.
    fn target(&self) -> Result<RegistryReference, Stop> {
        let here = std::env::current_dir()
            .map_err(|error| BadRequest(format!("cannot find the current folder: {error}")))?;
        let bad = |why: &str| {
            let message = format!(
                "cannot push to `{}`: {why}; write HOST/REPOSITORY:TAG",
                self.reference
            );
            Refusal::new(ErrorCode::BadReference, message)
        };
        match ComponentReference::parse(&self.reference, &here)? {
            ComponentReference::Registry(registry) if registry.digest.is_none() => Ok(registry),
            ComponentReference::Registry(_) => {
                Err(bad("a digest follows from what is pushed").into())
            }
            _ => Err(bad("it is not in a registry").into()),
        }
    }
}

fn as_text<S: Serializer>(to: &Option<RegistryReference>, to_json: S) -> Result<S::Ok, S::Error> {
    to.as_ref().map(ToString::to_string).serialize(to_json)
}

/// Returns whether a second build gives the same component; `None`, which is a finding, if that is unknown.
fn is_reproducible(
    folder: &Path,
    home: &Home,
    built: &[u8],
    found: &mut Vec<CheckFinding>,
) -> Option<bool> {
    let (severity, code, message) = match reproduce::again(folder, home, built) {
        Ok(Again::Same) => return Some(true),
        Ok(Again::Another) => return Some(false),
        Ok(Again::SameCode) => (
            Severity::Note,
            "snapshot_differs",
            "two builds of these sources have the same code, and differ in the memory of the language's runtime, of which \
             its toolchain takes another snapshot each time: so the code alone was compared"
                .to_owned(),
        ),
        Err(error) => (
            Severity::Warning,
            "reproducibility_unknown",
            format!(
                "whether the build is reproducible is not known, because a copy does not build: {error:#}"
            ),
        ),
    };
    found.push(CheckFinding::new(severity, code, "package", message));
    None
}

/// The version, in the characters that a tag can have.
fn tag(published: &CheckedTool) -> Result<String, Refusal> {
    let missing = || {
        let message =
            "the reference has no tag, and no manifest says the version; write HOST/REPOSITORY:TAG";
        Refusal::new(ErrorCode::BadReference, message)
    };
    let version = published
        .package
        .version
        .as_ref()
        .ok_or_else(missing)?
        .replace('+', "_");
    let is_tag = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let begins = version
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphanumeric());
    if begins && version.len() <= 128 && version.bytes().all(is_tag) {
        Ok(version)
    } else {
        Err(missing())
    }
}

fn artifact(published: &CheckedTool) -> ComponentArtifact {
    let package = &published.package;
    let fields = [
        ("title", Some(&package.name)),
        ("version", package.version.as_ref()),
        ("licenses", package.licence.as_ref()),
        ("description", package.description.as_ref()),
        ("source", package.source.as_ref()),
    ];
    let annotation = |(name, value): (&str, Option<&String>)| {
        Some((format!("org.opencontainers.image.{name}"), value?.clone()))
    };
    ComponentArtifact {
        component: published.bytes.clone(),
        imports: published.component.imports.iter().cloned().collect(),
        exports: published.component.exports.iter().cloned().collect(),
        created: CREATED.to_owned(),
        annotations: fields
            .into_iter()
            .filter_map(annotation)
            .collect::<BTreeMap<_, _>>(),
    }
}

/// `None` if it is too large to be read by those who pull it.
fn bill(published: &CheckedTool, report: &mut Report) -> Option<Attachment> {
    let bill = Sbom::new(
        &published.package,
        published.digest,
        published.folder.as_deref(),
    );
    if published.folder.is_some() && bill.lock_file.is_none() {
        let message = "there is no lock file that can be read, so the bill of materials lists the component alone";
        report.findings.push(CheckFinding::new(
            Severity::Note,
            "lock_file_missing",
            "package",
            message,
        ));
    }
    let bytes = bill.json.to_string().into_bytes();
    if bytes.len() as u64 > REFERRER_BYTES_MAX {
        let message = format!(
            "the bill of materials has more than {REFERRER_BYTES_MAX} bytes, and is left out"
        );
        report.findings.push(CheckFinding::new(
            Severity::Warning,
            "sbom_too_large",
            "package",
            message,
        ));
        return None;
    }
    report.dependencies = Some(bill.dependencies);
    Some(Attachment {
        media_type: sbom::MEDIA_TYPE.to_owned(),
        bytes,
    })
}

/// Attachments of the artifact.
struct PushAttachments {
    sbom: Option<Attachment>,
    signature: Option<Attachment>,
}

async fn send(
    registries: &Registries,
    to: &RegistryReference,
    artifact: &ComponentArtifact,
    attached: &PushAttachments,
    report: &mut Report,
) -> Result<PushResult, Refusal> {
    let pushed = registries.push(to, artifact).await?;
    if let Some(sbom) = &attached.sbom {
        report.sbom = Some(registries.attach(to, &pushed.subject, sbom).await?);
    }
    if let Some(signature) = &attached.signature {
        report.signature = Some(registries.attach(to, &pushed.subject, signature).await?);
    }
    registries.tag(to, artifact).await?;
    Ok(pushed)
}
