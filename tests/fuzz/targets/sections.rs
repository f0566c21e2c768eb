//! What the file of a component says beside its code: its custom sections, and the profile and the manifest in them.

use toolcell_spec::dialect::near::{self, Manifest};
use toolcell_spec::dialect::sections::{
    component_name, custom, module_name, own_module_name, with_custom,
};
use toolcell_spec::dialect::wrapping::{DOCS_SECTION, PROFILE_SECTION, Profile};

pub(crate) fn run(data: &[u8]) {
    let _ = (
        component_name(data),
        module_name(data),
        own_module_name(data),
    );
    for name in [DOCS_SECTION, PROFILE_SECTION, near::SECTION] {
        let _ = custom(data, name);
        if let Ok(copy) = with_custom(data, name, b"new") {
            assert_eq!(custom(&copy, name), Ok(Some(&b"new"[..])));
        }
    }
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(profile) = Profile::read(text) {
        for tool in profile.tools.values() {
            let _ = tool.subjects();
        }
    }
    if let Ok(manifest) = Manifest::read(text) {
        for tool in &manifest.tools {
            let _ = (
                manifest.bare_name(tool),
                tool.access(),
                tool.write_effects(),
                tool.network_scope(),
            );
        }
        let written = serde_json::to_string(&manifest).expect("a manifest is JSON");
        assert!(Manifest::read(&written).is_ok());
    }
}
