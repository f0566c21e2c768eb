use std::io::{self, IsTerminal, Read};

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::json;
use toolcell::Home;
use toolcell_policy::secret::{SecretStore, SecretValue, VALUE_BYTES_MAX};

use super::exit::{BadRequest, Exit};
use super::show;

/// The secrets that tools' requests may carry. A value goes in, and never comes out again: only a request to the origin
/// of a grant (--allow-secret=NAME@https://HOST) carries it.
#[derive(Debug, Args)]
pub(super) struct Secrets {
    #[command(subcommand)]
    action: Action,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Set a secret; prompts for its value or reads standard input
    Set { name: String },
    /// List the names of the secrets that are set
    List,
    /// Remove a secret
    Remove { name: String },
}

impl Secrets {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        let store = SecretStore::new(home.secrets(), home.secret_key());
        match &self.action {
            Action::Set { name } => self.set(&store, name),
            Action::List => self.list(&store),
            Action::Remove { name } => self.remove(&store, name),
        }
    }

    fn set(&self, store: &SecretStore, name: &str) -> anyhow::Result<Exit> {
        SecretStore::check_name(name).map_err(BadRequest::from_error)?;
        let value = read_value(name)?;
        SecretStore::check_value(&value).map_err(BadRequest::from_error)?;
        let replaced = store.set(name, &value)?;
        if self.json {
            return show::print_json(&json!({ "name": name, "replaced": replaced }));
        }
        show::say(&format!(
            "{} the secret {name}",
            if replaced { "replaced" } else { "set" }
        ));
        Ok(Exit::Succeeded)
    }

    fn list(&self, store: &SecretStore) -> anyhow::Result<Exit> {
        let secrets = store.list()?;
        if self.json {
            return show::print_json(&json!({ "secrets": secrets }));
        }
        let secrets = secrets.iter();
        show::lines(secrets.map(|entry| format!("{:<24} set {}", entry.name, entry.set_at)))
    }

    fn remove(&self, store: &SecretStore, name: &str) -> anyhow::Result<Exit> {
        SecretStore::check_name(name).map_err(BadRequest::from_error)?;
        if !store.remove(name)? {
            return Err(BadRequest(format!(
                "there is no secret {name}; `toolcell secrets list` lists them"
            ))
            .into());
        }
        if self.json {
            return show::print_json(&json!({ "name": name, "removed": true }));
        }
        show::say(&format!("removed the secret {name}"));
        Ok(Exit::Succeeded)
    }
}

/// Typed without echo, else read from standard input without its line end. Never an argument, because every process on
/// the machine can read arguments.
fn read_value(name: &str) -> anyhow::Result<SecretValue> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        let typed = rpassword::prompt_password(format!("Value of {name} (not shown): "));
        return typed
            .map(SecretValue::new)
            .context("cannot read the value from the terminal");
    }
    // Allocated at full size, because a buffer that grows would leave copies behind.
    let mut value = String::with_capacity(VALUE_BYTES_MAX + 4);
    let read = stdin
        .lock()
        .take(VALUE_BYTES_MAX as u64 + 3)
        .read_to_string(&mut value);
    let length = value.strip_suffix('\n').map_or(value.len(), |line| {
        line.strip_suffix('\r').unwrap_or(line).len()
    });
    value.truncate(length);
    let value = SecretValue::new(value);
    // The error itself is dropped, because it could quote the value.
    read.map_err(|_| BadRequest("the value on standard input is not UTF-8 text".to_owned()))?;
    Ok(value)
}
