//! A component's file: its interfaces, its size, and its author's metadata.

use std::collections::BTreeSet;

use toolcell_spec::dialect::sections;
use wasmparser::{Encoding, Parser, Payload};

use crate::source::is_version;

const NAMES_MAX: usize = 1_000;
const DEBUG: &str = ".debug_";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComponentFile {
    /// Interfaces, or the names of modules if it is a module itself.
    pub imports: BTreeSet<String>,
    pub exports: BTreeSet<String>,
    pub is_module: bool,
    pub size: u64,
    pub debug_bytes: u64,
}

impl ComponentFile {
    /// Fails on a damaged file.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut read = Self {
            size: bytes.len() as u64,
            ..Self::default()
        };
        let mut depth = 0_usize;
        for payload in Parser::new(0).parse_all(bytes) {
            match payload.map_err(|error| error.to_string())? {
                Payload::Version {
                    encoding: Encoding::Module,
                    ..
                } if depth == 0 => read.is_module = true,
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::ComponentImportSection(imports) if depth == 0 => {
                    for import in imports {
                        note(
                            &mut read.imports,
                            import.map_err(|error| error.to_string())?.name.name,
                        );
                    }
                }
                Payload::ComponentExportSection(exports) if depth == 0 => {
                    for export in exports {
                        note(
                            &mut read.exports,
                            export.map_err(|error| error.to_string())?.name.name,
                        );
                    }
                }
                Payload::ImportSection(imports) if read.is_module => {
                    for import in imports.into_imports() {
                        note(
                            &mut read.imports,
                            import.map_err(|error| error.to_string())?.module,
                        );
                    }
                }
                Payload::CustomSection(section) if section.name().starts_with(DEBUG) => {
                    read.debug_bytes = read.debug_bytes.saturating_add(section.data().len() as u64);
                }
                _ => {}
            }
        }
        Ok(read)
    }

    pub fn imports_any(&self, starts: &[&str]) -> bool {
        self.imports
            .iter()
            .any(|import| starts.iter().any(|start| import.starts_with(start)))
    }
}

/// The same code, types and wiring, but for the modules' initial memory: data, globals and initial sizes. Fails on a
/// damaged file.
pub fn same_but_memory(one: &[u8], other: &[u8]) -> Result<bool, String> {
    Ok(without_memory(one)? == without_memory(other)?)
}

fn without_memory(bytes: &[u8]) -> Result<Vec<(u8, &[u8])>, String> {
    const MEMORY: u8 = 5;
    const GLOBAL: u8 = 6;
    const DATA: u8 = 11;
    const DATA_COUNT: u8 = 12;
    let mut sections = Vec::new();
    let mut modules = Vec::new();
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.map_err(|error| error.to_string())?;
        match payload {
            Payload::Version { encoding, .. } => modules.push(encoding == Encoding::Module),
            Payload::End(_) => {
                modules.pop();
            }
            // Their sections follow.
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {}
            _ => {
                let Some((id, range)) = payload.as_section() else {
                    continue;
                };
                let is_memory = matches!(id, MEMORY | GLOBAL | DATA | DATA_COUNT);
                if !(is_memory && modules.last() == Some(&true)) {
                    sections.push((id, bytes.get(range).unwrap_or_default()));
                }
            }
        }
    }
    Ok(sections)
}

fn note(names: &mut BTreeSet<String>, name: &str) {
    if names.len() < NAMES_MAX {
        names.insert(name.to_owned());
    }
}

/// The format of component tools: `version`, `licenses`, `description`, `source`.
pub fn written(component: &[u8], section: &str) -> Option<String> {
    let text = std::str::from_utf8(sections::custom(component, section).ok()??)
        .ok()?
        .trim();
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

/// The author's version. Untrusted, unless the component is signed.
pub fn version(component: &[u8]) -> Option<String> {
    written(component, "version").filter(|version| is_version(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interfaces_of_the_outer_component_alone_are_read() {
        let empty = b"\0asm\x0d\0\x01\0";
        let read = ComponentFile::read(empty).unwrap();
        assert_eq!(
            (read.size, read.is_module, read.imports.len()),
            (8, false, 0)
        );
        assert!(ComponentFile::read(b"\0asm\x01\0\0\0").unwrap().is_module);
        assert!(ComponentFile::read(b"no component").is_err());
        let named = sections::with_custom(empty, "version", b"1.2.0\n").unwrap();
        assert_eq!(
            (
                written(&named, "version").as_deref(),
                written(&named, "source")
            ),
            (Some("1.2.0"), None)
        );
        assert!(
            same_but_memory(&named, &named).unwrap() && !same_but_memory(&named, empty).unwrap()
        );
        let debug = sections::with_custom(empty, ".debug_info", b"0123").unwrap();
        assert_eq!(ComponentFile::read(&debug).unwrap().debug_bytes, 4);
    }
}
