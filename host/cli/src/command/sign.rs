//! `toolcell sign`: signs a component, for cosign, minisign and toolcell.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use toolcell_core::record::{ErrorClass, Refusal};
use toolcell_install::digest::Digest;
use toolcell_install::signature::beside;
use toolcell_install::signature::sign::{Made, SigningKey};
use zeroize::Zeroizing;

use super::exit::{self, Exit, Stop};
use super::{show, signed, wrap};

/// Signs a component with your own key. The signature is a sigstore bundle, as `cosign sign-blob` makes it, or one of minisign.
#[derive(Debug, Args)]
#[command(
    after_help = "Keys: PKCS #8 in PEM (`openssl genpkey -algorithm ed25519 -out key.pem`), for Ed25519 or for ECDSA \
                        on P-256; those of `cosign generate-key-pair`, and of `minisign -G`.\n\n\
                        Examples:\n  toolcell sign jq.wasm --key cosign.key\n  \
                        toolcell sign jq.wasm --key minisign.key --password-file password"
)]
pub(super) struct Sign {
    /// The component: a file
    file: PathBuf,
    /// The file of the secret key
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The file of the key's password [default: it is asked for]
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// The new file [default: FILE.sigstore.json or FILE.minisig]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Sign {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let (made, refusal) = match self.sign() {
            Ok(made) => (Some(made), None),
            Err(stop) => (None, Some(stop.refusal()?)),
        };
        refusal.iter().for_each(show::detail);
        let exit = refusal.as_ref().map_or(Exit::Succeeded, exit::of_refusal);
        if self.json {
            let printed = show::json(&json!({
                "signed": made.as_ref().map(|(output, ..)| output.to_string_lossy()),
                "digest": made.as_ref().map(|(_, digest, _)| digest),
                "signer": made.as_ref().map(|(.., key)| key.signer()),
                "error": refusal.as_ref().map(Refusal::to_error),
            }));
            return printed.map(|()| exit).or_else(show::closed);
        }
        match (&made, &refusal) {
            (_, Some(refusal)) => show::say(&format!("error: {} [{}]", refusal.message, refusal.code)),
            (Some((output, _, key)), None) => {
                show::say(&format!("signed by {}", key.signer()));
                return writeln!(io::stdout(), "{}", output.display()).map(|()| exit).or_else(show::closed);
            }
            (None, None) => {}
        }
        Ok(exit)
    }

    fn sign(&self) -> Result<(PathBuf, Digest, SigningKey), Stop> {
        let bytes = signed::component(&self.file)?;
        let key = key(&self.key, self.password_file.as_deref())?;
        let name = self.file.file_name().unwrap_or_default().to_string_lossy();
        let Made { ending, bytes: signature, .. } = key.sign_file(&bytes, &name)?;
        let output = self.output.clone().unwrap_or_else(|| beside::path(&self.file, ending));
        wrap::write(&output, &signature, self.force)?;
        Ok((output, Digest::of(&bytes), key))
    }
}

/// Reads the secret key in `file`. Its password is never an argument, because every process on the machine can read those.
pub(super) fn key(file: &Path, password_file: Option<&Path>) -> Result<SigningKey, Stop> {
    let text = Zeroizing::new(signed::small_text(file)?);
    let password = || {
        let refused = |why: &str| Refusal::new(ErrorClass::SetupRequired, "password_missing", why);
        if let Some(file) = password_file {
            let text = Zeroizing::new(signed::small_text(file).map_err(|error| refused(&error.0))?);
            return Ok(Zeroizing::new(text.lines().next().unwrap_or_default().to_owned()));
        }
        if !io::stdin().is_terminal() {
            return Err(refused(
                "the key is encrypted, and there is no terminal to ask for its password; say --password-file",
            ));
        }
        let typed = rpassword::prompt_password(format!("Password of {} (not shown): ", file.display()));
        typed.map(Zeroizing::new).map_err(|error| refused(&format!("the password cannot be read: {error}")))
    };
    Ok(SigningKey::read(&text, password)?)
}
