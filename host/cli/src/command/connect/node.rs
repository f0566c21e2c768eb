//! What a configuration file says, and where: the same tree for JSON, TOML and YAML.

use std::ops::Range;

use serde_json::Value;

/// A value, and its bytes in the text.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) at: Range<usize>,
    pub(super) content: Content,
}

#[derive(Debug)]
pub(super) enum Content {
    /// As JSON, if it has such a form; else as it is written.
    Scalar(String),
    List(Vec<Node>),
    Map(Vec<Member>),
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) key: String,
    /// Where the key begins.
    pub(super) start: usize,
    pub(super) value: Node,
}

/// What is in a file without its form, to compare.
#[derive(Debug, PartialEq)]
pub(super) enum Outline {
    Scalar(String),
    List(Vec<Outline>),
    Map(Vec<(String, Outline)>),
}

/// A name that stands more than once, so that no place is the one.
#[derive(Debug)]
pub(super) struct Ambiguous(pub(super) String);

/// What a key leads to.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundMember<'n> {
    /// Where its key begins, or the item of a list.
    pub(super) start: usize,
    /// In the map or list.
    pub(super) index: usize,
    pub(super) value: &'n Node,
}

impl Node {
    pub(super) fn members(&self) -> Option<&[Member]> {
        match &self.content {
            Content::Map(members) => Some(members),
            Content::Scalar(_) | Content::List(_) => None,
        }
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(&self.content, Content::Scalar(text) if text.is_empty() || text == "null" || text == "~")
    }

    pub(super) fn is_empty(&self) -> bool {
        match &self.content {
            Content::Scalar(_) => self.is_null(),
            Content::List(items) => items.is_empty(),
            Content::Map(members) => members.is_empty(),
        }
    }

    /// Finds a member of a map, or the item of a list that has this `name`.
    pub(super) fn find(&self, key: &str) -> Result<Option<FoundMember<'_>>, Ambiguous> {
        let all: Vec<FoundMember<'_>> = match &self.content {
            Content::Scalar(_) => Vec::new(),
            Content::Map(members) => {
                let members = members.iter().enumerate();
                let members = members.filter(|(_, member)| member.key == key);
                members
                    .map(|(index, member)| FoundMember {
                        start: member.start,
                        index,
                        value: &member.value,
                    })
                    .collect()
            }
            Content::List(items) => {
                let items = items.iter().enumerate();
                let items = items.filter(|(_, item)| item.is_named(key));
                items
                    .map(|(index, item)| FoundMember {
                        start: item.at.start,
                        index,
                        value: item,
                    })
                    .collect()
            }
        };
        match all.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(*one)),
            _ => Err(Ambiguous(key.to_owned())),
        }
    }

    /// Follows `keys`; `None` if one is missing.
    pub(super) fn follow(&self, keys: &[String]) -> Result<Option<&Self>, Ambiguous> {
        let mut node = self;
        for key in keys {
            match node.find(key)? {
                Some(found) => node = found.value,
                None => return Ok(None),
            }
        }
        Ok(Some(node))
    }

    fn is_named(&self, name: &str) -> bool {
        let named = |member: &Member| {
            member.key == "name"
                && match &member.value.content {
                    Content::Scalar(text) => {
                        text == name
                            || serde_json::from_str::<String>(text).is_ok_and(|text| text == name)
                            || text.trim_matches('\'') == name
                    }
                    Content::List(_) | Content::Map(_) => false,
                }
        };
        self.members()
            .is_some_and(|members| members.iter().any(named))
    }

    pub(super) fn outline(&self) -> Outline {
        match &self.content {
            Content::Scalar(text) => Outline::Scalar(text.clone()),
            Content::List(items) => Outline::List(items.iter().map(Self::outline).collect()),
            Content::Map(members) => Outline::Map(
                members
                    .iter()
                    .map(|member| (member.key.clone(), member.value.outline()))
                    .collect(),
            ),
        }
    }

    /// The outline without what `path` leads to, and without what is empty then.
    pub(super) fn outline_without(&self, path: &[&str]) -> Outline {
        let Some((key, rest)) = path.split_first() else {
            return Outline::Map(Vec::new());
        };
        // A section without a value is none.
        if self.is_null() {
            return Outline::Map(Vec::new());
        }
        match &self.content {
            Content::Scalar(text) => Outline::Scalar(text.clone()),
            Content::List(items) => {
                let items: Vec<Outline> = items
                    .iter()
                    .filter(|item| !item.is_named(key))
                    .map(Self::outline)
                    .collect();
                if items.is_empty() {
                    Outline::Map(Vec::new())
                } else {
                    Outline::List(items)
                }
            }
            Content::Map(members) => {
                let kept = |member: &Member| {
                    let outline = if member.key == *key {
                        Some(member.value.outline_without(rest))
                            .filter(|outline| *outline != Outline::Map(Vec::new()))?
                    } else {
                        member.value.outline()
                    };
                    Some((member.key.clone(), outline))
                };
                Outline::Map(members.iter().filter_map(kept).collect())
            }
        }
    }

    /// The value, if all of it has a form in JSON.
    pub(super) fn value(&self) -> Option<Value> {
        Some(match &self.content {
            Content::Scalar(text) => serde_json::from_str(text).ok()?,
            Content::List(items) => items.iter().map(Self::value).collect::<Option<_>>()?,
            Content::Map(members) => {
                let members = members
                    .iter()
                    .map(|member| Some((member.key.clone(), member.value.value()?)));
                Value::Object(members.collect::<Option<_>>()?)
            }
        })
    }
}
