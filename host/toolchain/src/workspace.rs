//! The workspace of a tool in Rust, as cargo describes it, and the files that a build of one of its packages reads.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;

use super::find::Toolchain;
use super::process;
use super::sources::{SourceListing, SourceScope};

pub(super) const SDK: &str = "toolcell-guest";

#[derive(Deserialize)]
pub(super) struct Workspace {
    packages: Vec<CargoPackage>,
    workspace_root: PathBuf,
    pub(super) target_directory: PathBuf,
}

#[derive(Deserialize)]
pub(super) struct CargoPackage {
    pub(super) name: String,
    pub(super) id: String,
    manifest_path: PathBuf,
    targets: Vec<CargoTarget>,
    dependencies: Vec<CargoDependency>,
}

#[derive(Deserialize)]
struct CargoTarget {
    kind: Vec<String>,
    crate_types: Vec<String>,
}

#[derive(Deserialize)]
struct CargoDependency {
    name: String,
    source: Option<String>,
    path: Option<PathBuf>,
}

impl Workspace {
    pub(super) fn read(dir: &Path, toolchain: &Toolchain) -> Result<Self> {
        let mut command = toolchain.cargo(dir);
        command.args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--color",
            "never",
        ]);
        let answer = process::output(command, None)?;
        if !answer.status.success() {
            bail!(
                "cargo cannot read {}:\n{}",
                dir.join("Cargo.toml").display(),
                answer.err.trim_end()
            );
        }
        serde_json::from_str(&answer.out).context("cannot read the answer of `cargo metadata`")
    }

    pub(super) fn package_at(&self, dir: &Path) -> Result<&CargoPackage> {
        if let Some(package) = self
            .packages
            .iter()
            .find(|package| package.folder() == Some(dir))
        {
            return Ok(package);
        }
        let tools: Vec<String> = self
            .packages
            .iter()
            .filter(|package| package.check_component().is_ok())
            .filter_map(|package| Some(package.folder()?.display().to_string()))
            .collect();
        match tools.as_slice() {
            [] => bail!("{} is a workspace without a tool in it", dir.display()),
            [one] => bail!(
                "{} is a workspace: name its tool's folder, {one}",
                dir.display()
            ),
            many => bail!(
                "{} is a workspace of several tools: name the folder of one:\n  {}",
                dir.display(),
                many.join("\n  ")
            ),
        }
    }

    /// Everything that decides what a build runs: the whole workspace, its path dependencies, and the configuration of
    /// cargo.
    pub(super) fn around(&self, dir: &Path) -> SourceScope {
        let mut scope = SourceScope::of_cargo(dir);
        scope.add(&self.workspace_root);
        for package in &self.packages {
            let beside = package.dependencies.iter();
            package
                .folder()
                .into_iter()
                .chain(beside.filter_map(|dependency| dependency.path.as_deref()))
                .for_each(|folder| scope.add(folder));
        }
        scope.add_cargo_home();
        scope
    }

    /// Includes the workspace's packages that `package` depends on, and other path dependencies.
    pub(super) fn near(&self, package: &CargoPackage, dir: &Path) -> SourceScope {
        let mut scope = self.steering(dir);
        let mut open = vec![package];
        scope.add(dir);
        while let Some(package) = open.pop() {
            for folder in package
                .dependencies
                .iter()
                .filter_map(|dependency| dependency.path.as_deref())
            {
                if scope.folders.contains(folder) {
                    continue;
                }
                scope.add(folder);
                open.extend(
                    self.packages
                        .iter()
                        .find(|package| package.folder() == Some(folder)),
                );
            }
        }
        scope
    }

    /// The files that steer a build of the tool in `dir`.
    pub(super) fn steering(&self, dir: &Path) -> SourceScope {
        let mut scope = SourceScope::default();
        scope.add_steering(dir);
        scope.add_steering(&self.workspace_root);
        scope.add_file(self.lock_file());
        scope.add_cargo_home();
        scope
    }

    fn lock_file(&self) -> PathBuf {
        self.workspace_root.join("Cargo.lock")
    }

    /// Refuses a file that changed meanwhile, because it is unknown which content the build read. Cargo itself may
    /// write the lock file.
    pub(super) fn refuse_changes(
        &self,
        before: &SourceListing,
        sources: &SourceListing,
    ) -> Result<()> {
        match sources
            .edited(before)
            .filter(|path| *path != self.lock_file())
        {
            Some(path) => bail!(
                "{} has changed since the build began: build again",
                path.display()
            ),
            None => Ok(()),
        }
    }

    /// `true` if a package takes the SDK from the registry, and the workspace's manifest does not patch it.
    pub(super) fn wants_sdk(&self) -> bool {
        let from_registry = |dependency: &CargoDependency| {
            dependency.name == SDK
                && dependency
                    .source
                    .as_deref()
                    .is_some_and(|source| source.starts_with("registry+"))
        };
        self.packages
            .iter()
            .any(|package| package.dependencies.iter().any(from_registry))
            && !patches_sdk(&manifest(&self.workspace_root))
    }
}

pub(super) fn manifest(folder: &Path) -> toml::Table {
    let text = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
    toml::from_str(&text).unwrap_or_default()
}

pub(super) fn setting<'m>(manifest: &'m toml::Table, path: &[&str]) -> Option<&'m toml::Value> {
    let (first, rest) = path.split_first()?;
    rest.iter()
        .try_fold(manifest.get(*first)?, |value, key| value.get(key))
}

/// A patch on the command line would override the manifest's.
fn patches_sdk(manifest: &toml::Table) -> bool {
    setting(manifest, &["patch", "crates-io", SDK]).is_some()
}

impl CargoPackage {
    fn folder(&self) -> Option<&Path> {
        self.manifest_path.parent()
    }

    pub(super) fn check_component(&self) -> Result<()> {
        let is_library =
            |target: &CargoTarget| target.kind.iter().any(|kind| kind.ends_with("lib"));
        let library = self.targets.iter().find(|target| is_library(target)).ok_or_else(|| {
            anyhow!(
                "{} has no library, and a tool is one: put it into src/lib.rs, and add to Cargo.toml:\n{CDYLIB}",
                self.name
            )
        })?;
        if !library.crate_types.iter().any(|kind| kind == "cdylib") {
            bail!(
                "{} does not build a component: add to {}:\n{CDYLIB}",
                self.name,
                self.manifest_path.display()
            );
        }
        Ok(())
    }
}

const CDYLIB: &str = "[lib]\ncrate-type = [\"cdylib\", \"rlib\"]";

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(packages: &[(&str, &str)]) -> Workspace {
        let packages: Vec<String> = packages
            .iter()
            .map(|(name, kind)| {
                format!(
                    r#"{{"name": "{name}", "id": "{name}", "manifest_path": "/w/{name}/Cargo.toml", "dependencies": [],
                        "targets": [{{"kind": ["{kind}"], "crate_types": ["{kind}"]}}]}}"#
                )
            })
            .collect();
        let text = format!(
            r#"{{"packages": [{}], "workspace_root": "/w", "target_directory": "/w/target"}}"#,
            packages.join(",")
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn the_package_at_the_folder_is_built_and_a_workspace_is_asked_which() {
        let both = workspace(&[("a", "cdylib"), ("b", "cdylib"), ("c", "lib")]);
        assert_eq!(
            both.package_at(Path::new("/w/b"))
                .ok()
                .map(|package| package.name.as_str()),
            Some("b")
        );
        let error = |workspace: &Workspace| {
            workspace
                .package_at(Path::new("/w"))
                .err()
                .unwrap()
                .to_string()
        };
        assert_eq!(
            error(&both),
            "/w is a workspace of several tools: name the folder of one:\n  /w/a\n  /w/b"
        );
        assert_eq!(
            error(&workspace(&[("a", "cdylib")])),
            "/w is a workspace: name its tool's folder, /w/a"
        );
        assert_eq!(
            error(&workspace(&[("c", "lib")])),
            "/w is a workspace without a tool in it"
        );
    }

    #[test]
    fn a_package_that_is_no_component_is_told_what_to_add() {
        let packages = workspace(&[("c", "lib"), ("d", "bin")]).packages;
        let [plain, program] = packages.as_slice() else {
            panic!("two packages")
        };
        let error = plain.check_component().unwrap_err().to_string();
        assert_eq!(
            error,
            "c does not build a component: add to /w/c/Cargo.toml:\n[lib]\ncrate-type = [\"cdylib\", \"rlib\"]"
        );
        assert!(
            program
                .check_component()
                .unwrap_err()
                .to_string()
                .starts_with("d has no library, and a tool is one")
        );
    }

    #[test]
    fn a_patch_of_the_users_own_is_seen() {
        for manifest in [
            "[patch.crates-io]\ntoolcell-guest = { path = \"../sdk\" }",
            "[patch.crates-io]\nserde = \"1\"\ntoolcell-guest.path = \"../sdk\"",
            "[patch.crates-io.toolcell-guest]\npath = \"../sdk\"",
            "[patch.\"crates-io\"]\n\"toolcell-guest\" = { path = \"../sdk\" }",
        ] {
            assert!(
                patches_sdk(&toml::from_str(manifest).unwrap()),
                "{manifest}"
            );
        }
        for manifest in [
            "[dependencies]\ntoolcell-guest = \"0.1\"",
            "[patch.crates-io]\ntoolcell-guest-macros = { path = \"m\" }\n[dependencies]\ntoolcell-guest = \"0.1\"",
            "",
        ] {
            assert!(
                !patches_sdk(&toml::from_str(manifest).unwrap()),
                "{manifest}"
            );
        }
    }
}
