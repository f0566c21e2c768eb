//! `toolcell sign`: signs a component, for cosign, minisign and toolcell.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use crate::runtime::Runtime;
use clap::Args;
use serde_json::json;
use toolcell::Home;
use toolcell_config::configured_compilation;
use toolcell_install::digest::Digest;
use toolcell_install::reference::ComponentReference;
use toolcell_install::registry::{Attachment, Descriptor, MANIFEST};
use toolcell_install::signature::beside;
use toolcell_install::signature::sign::SigningKey;
use toolcell_spec::{ErrorCode, Refusal};
use toolcell_system::component_file::read_component;
use zeroize::Zeroizing;

use super::exit::{self, BadRequest, Exit, Stop};
use super::{install, show, signed, wrap};

/// Signs a component with the user's own key.
#[derive(Debug, Args)]
#[command(
    after_help = "The signature is a sigstore bundle, as cosign makes it, or one of minisign.\n\n\
                        Keys: PKCS #8 in PEM, for ECDSA on P-256 (`openssl genpkey -algorithm EC -pkeyopt \
                        ec_paramgen_curve:P-256 -out key.pem`) or for Ed25519; those of `cosign generate-key-pair`, and \
                        of `minisign -G`. cosign does not verify files that were signed with Ed25519.\n\n\
                        Examples:\n  toolcell sign jq.wasm --key cosign.key\n  \
                        toolcell sign jq.wasm --key minisign.key --password-file password\n  \
                        toolcell sign ghcr.io/me/jq:1.2 --key cosign.key"
)]
pub(super) struct Sign {
    /// The component: a file, or the reference of a registry, to which the signature is attached
    #[arg(value_name = "FILE|REF")]
    target: String,
    /// The file of the secret key
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The file of the key's password [default: it is asked for]
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// The new file; nothing is attached to an artifact [default: FILE.sigstore.json or FILE.minisig]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

struct NewSignature {
    signed: String,
    digest: Digest,
    key: SigningKey,
}

impl Sign {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let signed = exit::refusable(self.sign())?;
        let done = signed.as_ref().ok();
        let record = self.json.then(|| {
            json!({
                "signed": done.map(|done| &done.signed),
                "digest": done.map(|done| done.digest),
                "signer": done.map(|done| done.key.signer()),
                "error": signed.as_ref().err().map(Refusal::to_error),
            })
        });
        if let Some(done) = done.filter(|_| !self.json) {
            show::say(&format!("signed by {}", done.key.signer()));
        }
        let made = done.map_or("", |done| &done.signed);
        show::outcome(signed.as_ref().err(), record.as_ref(), made)
    }

    fn sign(&self) -> Result<NewSignature, Stop> {
        let here = std::env::current_dir().unwrap_or_else(|_| "/".into());
        match ComponentReference::parse(&self.target, &here)? {
            ComponentReference::Path(file) => self.sign_file(&file),
            reference @ ComponentReference::Registry(_) => self.sign_artifact(&reference),
            elsewhere @ (ComponentReference::Url(_) | ComponentReference::Package(_)) => {
                let message = format!(
                    "cannot write a signature to {elsewhere}; download the component, and sign the file"
                );
                Err(BadRequest(message).into())
            }
        }
    }

    fn sign_file(&self, file: &Path) -> Result<NewSignature, Stop> {
        // It says how large a component may be.
        configured_compilation(&Home::find()?).map_err(BadRequest::from_error)?;
        let bytes = read_component(file).map_err(|refusal| match refusal.code {
            ErrorCode::ComponentUnreadable => Stop::from(BadRequest(refusal.message)),
            _ => refusal.into(),
        })?;
        let key = self.key()?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let made = key.sign_file(&bytes, &name)?;
        // As it was written, and not as an absolute path.
        let output = self
            .output
            .clone()
            .unwrap_or_else(|| beside::path(Path::new(&self.target), made.ending));
        wrap::write(&output, &made.bytes, self.force)?;
        Ok(NewSignature {
            signed: output.display().to_string(),
            digest: Digest::of(&bytes),
            key,
        })
    }

    fn sign_artifact(&self, reference: &ComponentReference) -> Result<NewSignature, Stop> {
        let home = Home::find()?;
        let key = self.key()?;
        let registries = install::registries(&home, Vec::new())?;
        let runtime = Runtime::on_this_thread()?;
        let resolved = runtime.block_on(registries.resolve(reference))?;
        let (Some(manifest), ComponentReference::Registry(to)) = (resolved.manifest, reference)
        else {
            return Err(Refusal::host_fault("an artifact of a registry has a manifest").into());
        };
        let digest = manifest.digest;
        if !reference.is_pinned() {
            // The registry decides what a tag stands for, and the user may have looked at something else.
            show::say(&format!(
                "{reference} resolves to {digest}, which is signed; {}@{digest} always names it",
                to.name()
            ));
        }
        let made = key.sign_manifest(&manifest.bytes)?;
        let signed = if let Some(output) = &self.output {
            wrap::write(output, &made.bytes, self.force)?;
            output.display().to_string()
        } else {
            let attachment = Attachment {
                media_type: made.media_type.to_owned(),
                bytes: made.bytes,
            };
            let subject = Descriptor::new(MANIFEST, &manifest.bytes);
            let attached = runtime.block_on(registries.attach(to, &subject, &attachment))?;
            format!("oci://{}@{attached}", to.name())
        };
        Ok(NewSignature {
            signed,
            digest,
            key,
        })
    }

    fn key(&self) -> Result<SigningKey, Stop> {
        key(&self.key, self.password_file.as_deref())
    }
}

/// The password is never an argument, because every process on the machine can read those.
pub(super) fn key(file: &Path, password_file: Option<&Path>) -> Result<SigningKey, Stop> {
    let text = Zeroizing::new(signed::small_text(file)?);
    let password = || {
        let refused = |why: &str| Refusal::new(ErrorCode::PasswordMissing, why);
        if let Some(file) = password_file {
            let text = Zeroizing::new(signed::small_text(file).map_err(|error| refused(&error.0))?);
            return Ok(Zeroizing::new(
                text.lines().next().unwrap_or_default().to_owned(),
            ));
        }
        if !io::stdin().is_terminal() {
            return Err(refused(
                "the key is encrypted, and there is no terminal to ask for its password; name a file with --password-file",
            ));
        }
        let typed =
            rpassword::prompt_password(format!("Password of {} (not shown): ", file.display()));
        typed
            .map(Zeroizing::new)
            .map_err(|error| refused(&format!("the password cannot be read: {error}")))
    };
    Ok(SigningKey::read(&text, password)?)
}
