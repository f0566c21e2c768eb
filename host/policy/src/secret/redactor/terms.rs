//! What is redacted.

use std::collections::BTreeSet;
use std::sync::Arc;

use toolcell_spec::plain_name;
use zeroize::Zeroizing;

use super::REDACTED;
use crate::secret::SecretValue;
use crate::secret::scrubber::{self, SearchMode, SearchedValue};

/// Shorter values are taken out of outputs only, as whole words, because elsewhere they cannot be told from noise.
pub(super) const ANYWHERE_BYTES_MIN: usize = 8;
/// For a whole JSON string or number of any record. Shorter arguments are only compared with the tool's output.
pub(super) const ALONE_BYTES_MIN: usize = 4;

/// Longer values are searched for only as they are.
const ENCODED_BYTES_MAX: usize = 4 << 10;
/// Limits sensitive values, and their bytes, in encoded forms, the shortest first: each byte takes some 70 states of
/// the automaton, pieces included. Secrets are always searched for in all forms.
const ENCODED_VALUES_MAX: usize = 64;
const ENCODED_BYTES_TOTAL: usize = 8 << 10;
/// Maximum of values, and of their bytes; with more, every text of the tool is withheld.
const VALUES_MAX: usize = 10_000;
const VALUE_BYTES_TOTAL: usize = 1 << 20;

#[derive(Clone, PartialEq, Eq)]
pub struct RedactionTerm {
    pub(super) value: Zeroizing<String>,
    label: Arc<str>,
    pub(super) kind: TermKind,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TermKind {
    Secret,
    Sensitive,
    /// Only outputs are searched for it.
    Short,
    /// Hiding only `true` or only `false` would tell which it is.
    Boolean,
}

impl RedactionTerm {
    pub fn secret(name: &str, value: &SecretValue) -> Self {
        Self::new(value.expose(), scrubber::label(name), TermKind::Secret)
    }

    pub fn sensitive(value: &str) -> Self {
        Self::new(value, REDACTED, TermKind::Sensitive)
    }

    pub fn argument(value: &str) -> Self {
        let is_short = value.len() < ALONE_BYTES_MIN;
        Self::new(
            value,
            REDACTED,
            if is_short {
                TermKind::Short
            } else {
                TermKind::Sensitive
            },
        )
    }

    pub fn boolean() -> Self {
        Self::new("", REDACTED, TermKind::Boolean)
    }

    fn new(value: &str, label: impl Into<Arc<str>>, kind: TermKind) -> Self {
        Self {
            value: Zeroizing::new(value.to_owned()),
            label: label.into(),
            kind,
        }
    }
}

/// Distinct terms, secrets first, then the shortest; and field names that outputs must not show.
#[derive(Clone, Default)]
pub struct RedactionTerms(pub(super) Vec<RedactionTerm>, pub(super) BTreeSet<String>);

impl RedactionTerms {
    /// Redacts fields of outputs whatever they hold; returns whether any is new.
    pub fn hide_fields<'n>(&mut self, names: impl IntoIterator<Item = &'n String>) -> bool {
        let known = self.1.len();
        self.1.extend(
            names
                .into_iter()
                .map(|name| plain_name(name).collect::<String>())
                .filter(|name| !name.is_empty()),
        );
        self.1.len() > known
    }

    /// For calls below, whose outputs have fields of their own.
    pub fn without_fields(&self) -> Self {
        Self(self.0.clone(), BTreeSet::new())
    }

    /// Returns whether any is new. Takes O(n log n), because a caller may send many values.
    pub fn add(&mut self, mut terms: Vec<RedactionTerm>) -> bool {
        let key = |term: &RedactionTerm| (term.kind, term.value.len());
        let order = |a: &RedactionTerm, b: &RedactionTerm| {
            key(a)
                .cmp(&key(b))
                .then_with(|| a.value.as_str().cmp(b.value.as_str()))
                .then_with(|| a.label.cmp(&b.label))
        };
        let known = self.0.len();
        terms.sort_unstable_by(order);
        terms.dedup();
        terms.retain(|term| self.0.binary_search_by(|other| order(other, term)).is_err());
        self.0.append(&mut terms);
        self.0.sort_by(order);
        self.0.len() > known
    }

    pub fn bytes(&self) -> usize {
        self.0.iter().map(|term| term.value.len()).sum()
    }

    /// Shorter values of an output are taken out at their own place only.
    fn sensitive(&self) -> impl Iterator<Item = &RedactionTerm> {
        let is_long = |term: &RedactionTerm| {
            term.kind == TermKind::Sensitive && term.value.len() >= ALONE_BYTES_MIN
        };
        self.0
            .iter()
            .filter(move |term| is_long(term) || term.kind == TermKind::Short)
    }

    pub fn too_many(&self) -> Option<String> {
        let (values, bytes) = self.sensitive().fold((0, 0), |(values, bytes), term| {
            (values + 1, bytes + term.value.len())
        });
        let over = values > VALUES_MAX || bytes > VALUE_BYTES_TOTAL;
        over.then(|| {
            format!(
                "{values} sensitive values of {bytes} bytes cannot be kept out of what is recorded; at most {VALUES_MAX} \
                 values of {VALUE_BYTES_TOTAL} bytes can; pass fewer"
            )
        })
    }

    /// Texts are searched for them.
    pub(super) fn needles(&self) -> Vec<SearchedValue<'_>> {
        let mut values_left = ENCODED_VALUES_MAX;
        let mut bytes_left = ENCODED_BYTES_TOTAL;
        let mut needles = Vec::new();
        for term in self
            .0
            .iter()
            .filter(|term| term.value.len() >= ANYWHERE_BYTES_MIN)
        {
            let length = term.value.len();
            let look = match term.kind {
                TermKind::Secret => SearchMode::Forms,
                TermKind::Sensitive
                    if values_left > 0 && length <= ENCODED_BYTES_MAX.min(bytes_left) =>
                {
                    values_left -= 1;
                    bytes_left -= length;
                    SearchMode::Forms
                }
                TermKind::Sensitive => SearchMode::Chunks,
                // Shorter than what is searched for anywhere.
                TermKind::Short | TermKind::Boolean => continue,
            };
            needles.push(SearchedValue {
                value: term.value.as_bytes(),
                label: &term.label,
                look,
            });
        }
        needles
    }
}
