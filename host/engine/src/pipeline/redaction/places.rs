//! Where a call's output was redacted, by rule, and never what.

use std::collections::{BTreeMap, BTreeSet};

use super::super::map_result::MappedResult;

/// Of all rules together.
const PLACES_MAX: usize = 256;
/// In bytes. The tool chooses the names on the way.
const PLACE_BYTES_MAX: usize = 256;

pub(super) const SECRET: &str = "secret";

/// JSON Pointers into the result; one that is too long is of the nearest value around it.
#[derive(Clone, Default)]
pub(super) struct RedactedPlaces(BTreeMap<String, BTreeSet<String>>);

impl RedactedPlaces {
    pub(super) fn add(&mut self, rule: &str, place: impl Into<String>) {
        let known: usize = self.0.values().map(BTreeSet::len).sum();
        let mut place = place.into();
        while place.len() > PLACE_BYTES_MAX {
            let around = place.rfind('/').unwrap_or_default();
            place.truncate(around);
        }
        let places = self.rule(rule);
        if known < PLACES_MAX {
            places.insert(place);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_few_and_short_whatever_the_tool_names() {
        let mut places = RedactedPlaces::default();
        for at in 0..1_000 {
            places.add(&contract_rule(at % 2), format!("/{at}"));
        }
        let count: usize = places.iter().map(|(_, places)| places.len()).sum();
        assert_eq!((count, places.rules().len()), (PLACES_MAX, 2));
        let mut places = RedactedPlaces::default();
        places.add(SECRET, format!("/content/0/{}/b", "a".repeat(1 << 20)));
        let known: Vec<_> = places.iter().flat_map(|(_, places)| places).collect();
        assert_eq!(known, ["/content/0"]);
    }
}
