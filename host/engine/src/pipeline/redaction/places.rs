//! Where a call's output was redacted, by rule, and never what.

use std::collections::{BTreeMap, BTreeSet};

use super::super::map_result::MappedResult;

/// For each rule.
const PLACES_MAX: usize = 256;

pub(super) const SECRET: &str = "secret";

/// JSON Pointers into the result.
#[derive(Clone, Default)]
pub(super) struct RedactedPlaces(BTreeMap<String, BTreeSet<String>>);

impl RedactedPlaces {
    pub(super) fn add(&mut self, rule: &str, place: impl Into<String>) {
        let places = self.rule(rule);
        if places.len() < PLACES_MAX {
            places.insert(place.into());
        }
    }

    /// Also without any place.
    pub(super) fn rule(&mut self, rule: &str) -> &mut BTreeSet<String> {
        self.0.entry(rule.to_owned()).or_default()
    }

    pub(super) fn add_all(&mut self, rule: &str, places: Vec<&'static str>) {
        self.rule(rule);
        places.into_iter().for_each(|place| self.add(rule, place));
    }

    pub(super) fn extend(&mut self, other: Self) {
        for (rule, places) in other.0 {
            self.rule(&rule);
            places.into_iter().for_each(|place| self.add(&rule, place));
        }
    }

    pub(super) fn rules(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &BTreeSet<String>)> {
        self.0.iter()
    }
}

/// Where `mapped` has output.
pub(super) fn outputs(mapped: &MappedResult) -> Vec<&'static str> {
    let has = [
        ("/content", !mapped.content.is_empty()),
        ("/structured_content", mapped.structured_content.is_some()),
        ("/ui_facing_summary", mapped.ui_facing_summary.is_some()),
        ("/context_modifiers", !mapped.context_modifiers.is_empty()),
    ];
    let has = has.into_iter().filter(|(_, has)| *has);
    has.map(|(place, _)| place).collect()
}

pub(super) fn contract_rule(at: usize) -> String {
    format!("redaction_rules/{at}")
}
