//! Callers with rules of their own: each has its own view of the server's tools.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use toolcell_policy::{TOKEN_CALLER, WordPattern, token_caller};

use crate::{Server, ServerTools, Tokens};

/// Makes the tools of a caller from its server's.
pub type NarrowFn = Box<dyn Fn(&ServerTools) -> ServerTools + Send + Sync>;

/// A caller with rules of its own.
pub struct PrincipalTools {
    pub name: String,
    /// SHA-256 of each of its tokens, as hexadecimal digits.
    pub tokens: Vec<String>,
    /// Callers whose questions it may answer.
    pub approves: Vec<WordPattern>,
    /// `true` if the page is for it, too.
    pub sees_page: bool,
    pub narrow: NarrowFn,
    /// Made by its first request: of many callers, few are there.
    tools: OnceLock<Arc<ServerTools>>,
}

impl PrincipalTools {
    /// The caller `name`, known by `tokens`, with the tools that `narrow` makes.
    pub fn new(name: String, tokens: Vec<String>, narrow: NarrowFn) -> Self {
        Self {
            name,
            tokens,
            approves: Vec::new(),
            sees_page: false,
            narrow,
            tools: OnceLock::new(),
        }
    }

    /// `all` are its server's.
    pub(super) fn tools(&self, all: &ServerTools) -> Arc<ServerTools> {
        let made = self.tools.get_or_init(|| Arc::new((self.narrow)(all)));
        Arc::clone(made)
    }
}

/// By the names of the callers in records.
#[derive(Clone, Default)]
pub struct Principals(Arc<HashMap<Arc<str>, Arc<PrincipalTools>>>);

impl FromIterator<PrincipalTools> for Principals {
    fn from_iter<T: IntoIterator<Item = PrincipalTools>>(principals: T) -> Self {
        let named = principals.into_iter().map(|principal| {
            let caller: Arc<str> = token_caller(&principal.name).into();
            (caller, Arc::new(principal))
        });
        Self(Arc::new(named.collect()))
    }
}

impl Principals {
    pub(super) fn get(&self, caller: &str) -> Option<&Arc<PrincipalTools>> {
        self.0.get(caller)
    }

    pub(super) fn callers(&self) -> impl Iterator<Item = Arc<str>> {
        self.0.keys().cloned()
    }

    /// The digest of each token, and whose it is.
    pub(super) fn tokens(&self) -> impl Iterator<Item = (String, Arc<str>)> {
        self.0.iter().flat_map(|(caller, principal)| {
            let own = principal.tokens.iter();
            own.map(|digest| (digest.clone(), Arc::clone(caller)))
        })
    }

    /// `true` if each that has called sees the same tools as in `new`, the principals of `all`.
    pub(super) fn list_as(&self, new: &Self, all: &ServerTools) -> bool {
        let is_same = |(caller, own): (&Arc<str>, &Arc<PrincipalTools>)| {
            let (Some(own), Some(new)) = (own.tools.get(), new.get(caller)) else {
                return true;
            };
            own.lists_as(&new.tools(all))
        };
        self.0.iter().all(is_same)
    }
}

impl Server {
    /// `true` if a principal, or an approver of `tokens`, may see the page at `/`.
    pub fn has_page(&self, tokens: &Tokens) -> bool {
        let offering = self.offering();
        let mut principals = offering.principals.0.values();
        principals.any(|principal| principal.sees_page) || !tokens.approvers().is_empty()
    }

    /// `callers` without the principal that has the name of `approver`: a person has one role.
    pub(super) fn callers_beside(&self, approver: &str, callers: &[Arc<str>]) -> Arc<[Arc<str>]> {
        let offering = self.offering();
        let name = approver.split_once(':').map_or(approver, |(_, name)| name);
        let is_person = |caller: &Arc<str>| {
            let own = offering.principals.get(caller);
            own.is_some_and(|own| own.name.eq_ignore_ascii_case(name))
        };
        let others = callers.iter().filter(|caller| !is_person(caller));
        others.cloned().collect()
    }

    /// Those of `callers` whose questions `approver`, a caller itself, may answer; `None` if it is no approver.
    pub(super) fn callers_to_approve(
        &self,
        approver: &str,
        callers: &[Arc<str>],
    ) -> Option<Arc<[Arc<str>]>> {
        let offering = self.offering();
        let own = offering.principals.get(approver);
        if !guard!("approver_role") {
            return Some(callers.into());
        }
        let own = own.filter(|own| !own.approves.is_empty())?;
        let callers = callers.iter().filter(|caller| own.may_approve(caller));
        Some(callers.cloned().collect())
    }
}

impl PrincipalTools {
    pub(super) fn may_approve(&self, caller: &str) -> bool {
        let name = caller.strip_prefix(TOKEN_CALLER).unwrap_or(caller);
        name != self.name && self.approves.iter().any(|pattern| pattern.matches(name))
    }
}
