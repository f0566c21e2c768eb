//! Reads the `policy.yaml` that Wassette keeps beside a component.

use std::path::Path;

use anyhow::Context;
use toolcell_spec::dialect::wassette::{POLICY_BYTES_MAX, ceiling};
use toolcell_spec::dialect::wrapping::Ceiling;

use super::manifest::text;
use super::yaml;

/// Returns the most that the tools of a component may ask for, by the policy `file`.
///
/// # Errors
///
/// A file that is a link, not a regular file, too large or not a policy that this host can keep to. The error names the file,
/// and the place in it.
pub fn policy_ceiling(file: &Path) -> anyhow::Result<Ceiling> {
    let read = || -> anyhow::Result<Ceiling> {
        let policy =
            yaml::read(&text(file, POLICY_BYTES_MAX)?, yaml::POLICY).map_err(anyhow::Error::msg)?;
        ceiling(&policy).map_err(anyhow::Error::msg)
    };
    read().with_context(|| format!("cannot use the policy {}", file.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::policy_ceiling;

    #[test]
    fn a_policy_is_a_small_regular_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let write = |name: &str, text: &str| std::fs::write(file(name), text).unwrap();
        write(
            "policy.yaml",
            "version: '1.0'\npermissions:\n  network: {allow: [{host: example.com}]}\n",
        );
        assert_eq!(
            policy_ceiling(&file("policy.yaml")).unwrap().network.len(),
            2
        );
        symlink(file("policy.yaml"), file("link.yaml")).unwrap();
        write("large.yaml", &"#".repeat(70_000));
        write("broken.yaml", "version: '1.0'\nversion: '1.1'\n");
        write(
            "unknown.yaml",
            "version: '1.0'\npermissions: {network: {alow: []}}\n",
        );
        for (name, why) in [
            ("link.yaml", "it is a link"),
            ("large.yaml", "larger than 65536 bytes"),
            ("broken.yaml", "line 2: \"version\" is a duplicate key"),
            ("unknown.yaml", "permissions.network.alow: "),
            ("missing.yaml", "cannot read"),
        ] {
            let refusal = format!("{:#}", policy_ceiling(&file(name)).unwrap_err());
            assert!(
                refusal.contains(why) && refusal.contains(name),
                "{name}: {refusal}"
            );
        }
    }
}
