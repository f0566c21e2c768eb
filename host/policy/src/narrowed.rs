//! The grants of a caller that has fewer than its server.

use std::path::Path;

use anyhow::bail;

use super::tools::matches;
use super::{FolderGrant, Grants};

impl Grants {
    /// What `wanted` names of these grants, and nothing else; the denials of both.
    ///
    /// # Errors
    ///
    /// A grant of `wanted` of which these grants have nothing, and two folders with one path inside the tool.
    pub fn narrowed(&self, wanted: &Self) -> anyhow::Result<Self> {
        if !guard!("principal_grants") {
            return Ok(self.clone());
        }
        let mut narrowed = Self {
            read: Vec::new(),
            write: Vec::new(),
            environment: Vec::new(),
            variables: Vec::new(),
            secrets: Vec::new(),
            tools: Vec::new(),
            network: self.network.narrowed(&wanted.network)?,
            ..self.clone()
        };
        narrowed.add_folders(self, wanted)?;
        narrowed.add_names(self, wanted)?;
        narrowed.deny_read.extend(wanted.deny_read.clone());
        narrowed.deny_write.extend(wanted.deny_write.clone());
        narrowed.held.extend(wanted.held.clone());
        Ok(narrowed)
    }

    fn add_folders(&mut self, own: &Self, wanted: &Self) -> anyhow::Result<()> {
        let readable: Vec<&FolderGrant> = own.folders().collect();
        let writable: Vec<&FolderGrant> = own.write.iter().collect();
        for (folders, own, write) in [
            (&wanted.read, readable, false),
            (&wanted.write, writable, true),
        ] {
            for folder in folders {
                let met: Vec<FolderGrant> = (own.iter())
                    .filter_map(|own| meet(folder, &own.host))
                    .collect();
                granted(!met.is_empty(), &folder.rule)?;
                for folder in met {
                    self.add_folder(folder, write)?;
                }
            }
        }
        Ok(())
    }

    fn add_names(&mut self, own: &Self, wanted: &Self) -> anyhow::Result<()> {
        for variable in &wanted.variables {
            let is_own = |known: &str| known == variable.name;
            let known = own.variables.iter().any(|own| is_own(&own.name));
            granted(known, &variable.rule)?;
            self.variables.push(variable.clone());
            let values = own.environment.iter().filter(|(name, _)| is_own(name));
            self.environment.extend(values.cloned());
        }
        for secret in &wanted.secrets {
            let known = (own.secrets.iter())
                .any(|own| own.name == secret.name && own.origin == secret.origin);
            granted(known, &secret.rule)?;
            self.secrets.push(secret.clone());
        }
        for tool in &wanted.tools {
            // A `*` of the wanted pattern is a character like others here, so that only a wider pattern has it.
            let known = (own.tools.iter()).any(|own| matches(&own.pattern, &tool.pattern));
            granted(known, &tool.rule)?;
            self.tools.push(tool.clone());
        }
        Ok(())
    }
}

pub(super) fn granted(is_known: bool, rule: &str) -> anyhow::Result<()> {
    if !is_known {
        bail!("{rule}: the server itself is not granted this, so that it cannot give it");
    }
    Ok(())
}

/// The part of `wanted` that lies in `own`, or the part of it that `own` is.
fn meet(wanted: &FolderGrant, own: &Path) -> Option<FolderGrant> {
    if wanted.host.starts_with(own) {
        return Some(wanted.clone());
    }
    let rest = own.strip_prefix(&wanted.host).ok()?;
    let below = |path: &str| Some(Path::new(path).join(rest).to_str()?.to_owned());
    Some(FolderGrant {
        host: own.to_owned(),
        guest: below(&wanted.guest)?,
        alias: wanted.alias.as_deref().and_then(below),
        ..wanted.clone()
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{GrantWord, Provenance};

    fn grants(entries: &[(GrantWord, &str)]) -> Grants {
        let mut grants = Grants::default();
        for (word, spec) in entries {
            grants.add(*word, spec, &Provenance::COMMAND_LINE).unwrap();
        }
        grants
    }

    #[test]
    fn a_folder_is_a_part_of_one_that_is_granted_with_the_same_right() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for name in ["a/b", "c"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        let path = |name: &str| root.join(name).to_str().unwrap().to_owned();
        let (all, a, b, c) = (path("."), path("a"), path("a/b"), path("c"));
        let own = grants(&[(GrantWord::Write, &a), (GrantWord::DenyRead, &b)]);
        let only = own.narrowed(&grants(&[(GrantWord::Read, &b)])).unwrap();
        assert_eq!(only.read[0].host, root.join("a/b"));
        assert!(only.write.is_empty());
        assert_eq!(only.deny_read.len(), 1, "denials stay");
        let wider = own.narrowed(&grants(&[(GrantWord::Write, &all)])).unwrap();
        assert_eq!(wider.write[0].host, root.join("a"));
        assert_eq!(wider.write[0].guest, a);
        for (own, wanted) in [
            (GrantWord::Write, (GrantWord::Read, &c)),
            (GrantWord::Read, (GrantWord::Write, &b)),
        ] {
            let refused = grants(&[(own, &a)]).narrowed(&grants(&[(wanted.0, wanted.1)]));
            assert!(refused.is_err(), "{wanted:?}");
        }
        let none = own.narrowed(&Grants::default()).unwrap();
        assert_eq!(none.folders().count(), 0);
    }

    #[test]
    fn hosts_secrets_tools_and_variables_are_among_those_of_the_server() {
        let own = grants(&[
            (GrantWord::Net, "GET+HEAD@*.example.com"),
            (GrantWord::DenyNet, "b.example.com"),
            (GrantWord::Secret, "KEY@https://a.example.com"),
            (GrantWord::Tool, "files.*"),
            (GrantWord::Env, "PATH"),
        ]);
        let wanted = [
            (GrantWord::Net, "a.example.com"),
            (GrantWord::Secret, "KEY@https://a.example.com"),
            (GrantWord::Tool, "files.r*"),
            (GrantWord::Env, "PATH"),
        ];
        let narrowed = own.narrowed(&grants(&wanted)).unwrap();
        assert_eq!(narrowed.network.allow.len(), 1);
        assert!(narrowed.network.allow[0].methods().is_some());
        assert_eq!(narrowed.network.deny.len(), 1);
        assert_eq!(narrowed.environment, own.environment);
        for beyond in [
            (GrantWord::Net, "a.example.org"),
            (GrantWord::Secret, "KEY@https://c.example.com"),
            (GrantWord::Tool, "*"),
            (GrantWord::Env, "HOME"),
        ] {
            let refused = own.narrowed(&grants(&[beyond])).unwrap_err().to_string();
            assert!(refused.contains(beyond.1), "{refused}");
        }
    }
}
