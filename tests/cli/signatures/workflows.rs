//! Signers that are workflows, whose identity ends with the ref for which they ran.
//!
//! Promise: Another tag of the same workflow is another signer.

use serde_json::{Value, json};
use toolcell_spec::dialect::sections::with_custom;

use super::{Place, identity};
use crate::support::{ISSUER, Ran, Wanted};

const FIRST: &str = "https://github.com/a/t/.github/workflows/r.yml@refs/tags/v1";
const SECOND: &str = "https://github.com/a/t/.github/workflows/r.yml@refs/tags/v2";
const EVERY: &str = "https://github.com/a/t/.github/workflows/r.yml@refs/tags/*";

/// Replaces the file by a release with this number, which `identity` signs.
fn release(place: &Place, number: &str, identity: &'static str) {
    let component = with_custom(&place.artifact, "version", number.as_bytes()).unwrap();
    place.home.keep("jq.wasm", &component);
    place.sign(&place.sigstore.message(
        &component,
        &Wanted {
            identity,
            ..Wanted::default()
        },
    ));
}

fn update(place: &Place, options: &[&str]) -> Ran {
    place.toolcell(&[&["update", "jq"], options].concat()).run()
}

/// What the next update would change.
fn changes(place: &Place) -> Value {
    update(place, &["--dry-run", "--json"]).exits(0).json()["tools"][0]["plan"]["changes"].clone()
}

fn lock(place: &Place) -> String {
    std::fs::read_to_string(place.file("toolcell.lock")).unwrap()
}

#[test]
fn another_tag_of_the_same_workflow_asks_until_an_entry_names_every_tag() {
    let place = Place::new();
    release(&place, "1.0.0", FIRST);
    place
        .toolcell(&["install", "./jq.wasm", "--name=jq", "--yes"])
        .run()
        .exits(0);
    release(&place, "1.1.0", SECOND);
    let asked = update(&place, &[]).exits(3);
    let pin = format!("| identity = \"{EVERY}\"");
    for words in [
        "ANOTHER TAG OF THE SAME WORKFLOW",
        &pin,
        "in a [[signer]] entry",
        "[install_needs_consent]",
    ] {
        assert!(asked.stderr.contains(words), "{words}: {asked:?}");
    }
    let signed = |identity: &str| format!("{identity} (by {ISSUER})");
    assert_eq!(
        changes(&place),
        json!([{
            "kind": "tag", "before": signed(FIRST), "after": signed(SECOND), "identity": EVERY, "issuer": ISSUER,
            "named": false,
        }])
    );
    // Each tag is named by itself, and no entry says that another one may follow.
    place.trust(&format!(
        "{}{}",
        identity(FIRST, ISSUER),
        identity(SECOND, ISSUER)
    ));
    assert!(
        update(&place, &[])
            .exits(3)
            .stderr
            .contains("[install_needs_consent]")
    );
    assert!(lock(&place).contains(FIRST));
    place.trust(&identity(EVERY, ISSUER));
    assert_eq!(changes(&place)[0]["named"], json!(true));
    update(&place, &[]).exits(0);
    assert!(
        lock(&place).contains(SECOND) && !lock(&place).contains(FIRST),
        "{}",
        lock(&place)
    );
}

#[test]
fn an_entry_for_every_tag_names_no_branch_and_no_other_workflow() {
    let place = Place::new();
    place.trust(&identity(EVERY, ISSUER));
    release(&place, "1.0.0", FIRST);
    place
        .toolcell(&["install", "./jq.wasm", "--name=jq", "--yes"])
        .run()
        .exits(0);
    let wide = identity("https://github.com/*", ISSUER);
    for (signer, is_ambiguous) in [
        (
            "https://github.com/a/t/.github/workflows/r.yml@refs/heads/main",
            false,
        ),
        (
            "https://github.com/a/t/.github/workflows/r.yml@refs/heads/x@refs/tags/v2",
            true,
        ),
        (
            "https://github.com/a/t/.github/workflows/r.yml@refs/tags/x@refs/heads/main",
            true,
        ),
        (
            "https://github.com/a/t/.github/workflows/r.yml@refs/pull/7/merge",
            false,
        ),
        (
            "https://github.com/a/t/.github/workflows/other.yml@refs/tags/v2",
            false,
        ),
        (
            "https://github.com/a/t2/.github/workflows/r.yml@refs/tags/v2",
            false,
        ),
        (
            "https://github.com/b/t/.github/workflows/r.yml@refs/tags/v2",
            false,
        ),
    ] {
        release(&place, "1.1.0", signer);
        place.trust(&identity(EVERY, ISSUER));
        let refused = update(&place, &["--yes"]).exits(3);
        assert!(
            refused.stderr.contains("[signer_not_trusted]"),
            "{signer}: {refused:?}"
        );
        assert!(
            !refused.stderr.contains("another tag"),
            "{signer}: {refused:?}"
        );
        // An entry that names all of them says nothing of a change from one to the other.
        place.trust(&wide);
        let refused = update(&place, &[]).exits(3);
        let code = if is_ambiguous {
            "[signer_not_trusted]"
        } else {
            "[install_needs_consent]"
        };
        assert!(refused.stderr.contains(code), "{signer}: {refused:?}");
        assert_eq!(
            refused.stderr.contains("THE SIGNER CHANGED"),
            !is_ambiguous,
            "{signer}: {refused:?}"
        );
    }
    assert!(lock(&place).contains(FIRST));
}

#[test]
fn a_signature_for_another_tag_than_the_named_one_says_how_to_name_every_tag() {
    let place = Place::new();
    place.trust(&identity(FIRST, ISSUER));
    release(&place, "1.1.0", SECOND);
    let refused = place.verify(&[]).exits(3);
    for words in [
        "another tag of the same workflow",
        &format!("`{EVERY}`"),
        "[signer_not_trusted]",
    ] {
        assert!(refused.stderr.contains(words), "{words}: {refused:?}");
    }
    place
        .verify(&["--identity", EVERY, "--issuer", ISSUER])
        .exits(0);
}
