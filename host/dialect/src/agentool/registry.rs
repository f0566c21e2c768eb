use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcell_spec::{Extra, Timestamp, TypedFields};

use super::tool_spec::TOOL_ID;
use super::{ToolSpec, category, snake_case};
use crate::name::{free, is_made_of};
use crate::{ListedTool, visible};

/// Added by a tool's annotations.
const TAGS_MAX: usize = 16;
const TAG_CHARS_MAX: usize = 64;

/// `ToolRegistry` (AO-RG-01).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolRegistry {
    pub registry_id: String,
    pub version: String,
    pub updated_at: String,
    pub tools: Vec<RegistryEntry>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// One tool of a registry (AO-RG-02).
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegistryEntry {
    pub spec: ToolSpec,
    /// The URL that takes a `tool_call`.
    pub endpoint: Option<String>,
    pub auth: Option<Auth>,
    /// The namespace of the tool.
    pub provider: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Auth {
    /// `Authorization: Bearer TOKEN`.
    Bearer,
    None,
}

#[derive(Clone, Copy, Debug)]
pub struct RegistryOffer<'a> {
    pub listed: ListedTool<'a>,
    /// `None` for a tool without a URL.
    pub endpoint: Option<&'a str>,
    pub auth: Auth,
}

/// `None` matches all.
#[derive(Clone, Copy, Debug, Default)]
pub struct RegistryQuery<'a> {
    /// Each word has to be in the name, description, provider or a tag.
    pub words: Option<&'a str>,
    pub tag: Option<&'a str>,
    pub category: Option<&'a str>,
}

/// In the tools' order, with unique names.
pub fn registry(
    registry_id: &str,
    version: &str,
    updated_at: Timestamp,
    mut tools: Vec<RegistryEntry>,
) -> ToolRegistry {
    let mut taken = HashSet::new();
    tools
        .iter_mut()
        .for_each(|entry| entry.claim_name(&mut taken));
    ToolRegistry {
        registry_id: registry_id.to_owned(),
        version: version.to_owned(),
        updated_at: updated_at.to_string(),
        tools,
        extra: Extra::new(),
    }
}

/// Returns whether a registry can list `exported` as `name`.
pub fn is_named(name: &str, exported: &str) -> bool {
    name == exported || is_made_of(name, &snake_case(exported))
}

pub fn query<'r>(registry: &'r ToolRegistry, query: &RegistryQuery<'_>) -> Vec<&'r RegistryEntry> {
    let words: Vec<String> = query
        .words
        .unwrap_or_default()
        .split_whitespace()
        .map(str::to_lowercase)
        .collect();
    let is_wanted = |entry: &&RegistryEntry| {
        let tag = query.tag.is_none_or(|wanted| {
            entry
                .tags
                .iter()
                .any(|tag| tag.eq_ignore_ascii_case(wanted))
        });
        let category = query
            .category
            .is_none_or(|wanted| category_of(entry) == Some(wanted));
        tag && category && has_words(entry, &words)
    };
    registry.tools.iter().filter(is_wanted).collect()
}

fn has_words(entry: &RegistryEntry, words: &[String]) -> bool {
    if words.is_empty() {
        return true;
    }
    let texts = [&entry.spec.name, &entry.spec.description]
        .into_iter()
        .chain(&entry.provider)
        .chain(&entry.tags);
    let texts: Vec<String> = texts.map(|text| text.to_lowercase()).collect();
    words
        .iter()
        .all(|word| texts.iter().any(|text| text.contains(word)))
}

fn category_of(entry: &RegistryEntry) -> Option<&'static str> {
    Some(entry.spec.metadata.as_ref()?.category?.into_str())
}

impl RegistryEntry {
    pub fn from_offer(offer: &RegistryOffer<'_>) -> Self {
        let declaration = offer.listed.declaration;
        Self {
            spec: ToolSpec::from_listed(&offer.listed),
            endpoint: offer.endpoint.map(str::to_owned),
            auth: Some(offer.auth),
            provider: Some(visible(&declaration.namespace)),
            tags: tags(offer),
            extra: Extra::from_iter([(TOOL_ID.to_owned(), declaration.tool_id.as_str().into())]),
        }
    }

    fn claim_name(&mut self, taken: &mut HashSet<String>) {
        let id = self.extra.text(TOOL_ID).unwrap_or_default();
        self.spec.name = free(&self.spec.name, id, |name| !taken.contains(name));
        taken.insert(self.spec.name.clone());
    }
}

/// Category, kind, and claimed `tags`, which decide nothing.
fn tags(offer: &RegistryOffer<'_>) -> Vec<String> {
    let declaration = offer.listed.declaration;
    let kind = &declaration.tool_kind;
    let mut tags: Vec<String> = category(kind)
        .map(|category| category.into_str().to_owned())
        .into_iter()
        .collect();
    let claimed = declaration
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get("tags"));
    let claimed = claimed
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    let fits = |tag: &&str| !tag.is_empty() && tag.chars().count() <= TAG_CHARS_MAX;
    for tag in [kind.0.as_str()]
        .into_iter()
        .chain(claimed.filter(fits).take(TAGS_MAX))
    {
        let tag = visible(tag);
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    tags
}
