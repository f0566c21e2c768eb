use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use toolcell_dialect::otc::{Authorization, AuthorizationStatus, OtcToolName, Requirement};
use toolcell_dialect::visible;
use toolcell_spec::{Refusal, Timestamp};

use crate::random_name;

use crate::executions::ExecutionKey;

const PENDING_TIME: Duration = Duration::from_mins(10);
/// Limit of one principal; a new authorization displaces the oldest.
const AUTHORIZATIONS_MAX: usize = 100;

pub(super) struct Authorizations {
    base: String,
    of_principals: Mutex<HashMap<Arc<str>, VecDeque<PendingAuthorization>>>,
}

/// The access that a tool waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecretAccess {
    Given,
    Awaited,
    /// The operator withdrew the grant, or denies or removed the tool.
    Refused,
}

struct PendingAuthorization {
    id: String,
    tool: OtcToolName,
    /// `None` if the execution's request had no id.
    execution: Option<ExecutionKey>,
    credential: String,
    scopes: Vec<String>,
    status: AuthorizationStatus,
    opened: Timestamp,
}

impl PendingAuthorization {
    fn expire(&mut self, now: Timestamp) {
        if self.status == AuthorizationStatus::Pending && now > self.opened.plus(PENDING_TIME) {
            self.status = AuthorizationStatus::Expired;
        }
    }

    fn settle(&mut self, now: Timestamp, access: impl FnOnce(&OtcToolName, &str) -> SecretAccess) {
        self.expire(now);
        if self.status == AuthorizationStatus::Pending {
            self.status = match access(&self.tool, &self.credential) {
                SecretAccess::Given => AuthorizationStatus::Completed,
                SecretAccess::Awaited => AuthorizationStatus::Pending,
                SecretAccess::Refused => AuthorizationStatus::Failed,
            };
        }
    }

    /// For the person who can give the access. Without a secret: whoever has the address can read it.
    fn page(&self) -> String {
        let credential = visible(&self.credential);
        let tool = visible(&self.tool.qualified_name());
        let scopes = match self.scopes.as_slice() {
            [] => String::new(),
            scopes => visible(&format!(", with the scopes {}", scopes.join(", "))),
        };
        let minutes = PENDING_TIME.as_secs() / 60;
        let status = self.status.into_str();
        let head = format!(
            "Authorization: {status}\n\nA call of the tool {tool} needs the secret {credential}{scopes}.\n"
        );
        match self.status {
            AuthorizationStatus::Pending => format!(
                "{head}The operator of this toolcell server sets it on the server's machine:\n\n    \
                 toolcell secrets set {credential}\n\nTo refuse it, the operator takes the grant of the secret back, or \
                 denies the tool with a rule.\nOnce this page says completed, the same request can be sent again. After \
                 {minutes} minutes it expires.\n"
            ),
            AuthorizationStatus::Completed => {
                format!("{head}It is set: the same request can be sent again.\n")
            }
            AuthorizationStatus::Failed => format!("{head}The operator does not give it.\n"),
            AuthorizationStatus::Expired => format!(
                "{head}Nobody set it within {minutes} minutes: the same request asks for it again.\n"
            ),
        }
    }
}

impl Authorizations {
    pub(super) fn new(base: String) -> Self {
        Self {
            base,
            of_principals: Mutex::default(),
        }
    }

    fn shown(&self, pending: &PendingAuthorization) -> Authorization {
        Authorization {
            id: pending.id.clone(),
            url: format!("{}{}", self.base, pending.id),
            scopes: pending.scopes.clone(),
            status: pending.status,
        }
    }

    /// The same authorization each time the same request comes.
    pub(super) fn open(
        &self,
        principal: &Arc<str>,
        execution: Option<&ExecutionKey>,
        (tool, requirement): (&OtcToolName, &Requirement),
        now: Timestamp,
    ) -> Result<Authorization, Refusal> {
        let id = random_name::<16>()?;
        let mut of_principals = self.of_principals.lock();
        let known = of_principals.entry(Arc::clone(principal)).or_default();
        known.iter_mut().for_each(|pending| pending.expire(now));
        let is_same = |pending: &&PendingAuthorization| {
            pending.status == AuthorizationStatus::Pending
                && execution.is_some()
                && pending.execution.as_ref() == execution
        };
        if let Some(pending) = known.iter().find(is_same) {
            return Ok(self.shown(pending));
        }
        if known.len() >= AUTHORIZATIONS_MAX {
            known.pop_front();
        }
        let pending = PendingAuthorization {
            id,
            tool: tool.clone(),
            execution: execution.cloned(),
            credential: requirement.credential.clone(),
            scopes: requirement.scopes.clone(),
            status: AuthorizationStatus::Pending,
            opened: now,
        };
        let shown = self.shown(&pending);
        known.push_back(pending);
        Ok(shown)
    }

    /// `None` for another principal's id. `access` says whether the host has the credential for the tool.
    pub(super) fn poll(
        &self,
        principal: &str,
        id: &str,
        now: Timestamp,
        access: impl FnOnce(&OtcToolName, &str) -> SecretAccess,
    ) -> Option<Authorization> {
        let mut of_principals = self.of_principals.lock();
        let mut known: Vec<&mut PendingAuthorization> = if guard!("otc_owner") {
            of_principals.get_mut(principal)?.iter_mut().collect()
        } else {
            of_principals.values_mut().flatten().collect()
        };
        let pending = known.iter_mut().find(|pending| pending.id == id)?;
        pending.settle(now, access);
        Some(self.shown(pending))
    }

    pub(super) fn has(&self, id: &str) -> bool {
        let of_principals = self.of_principals.lock();
        let mut known = of_principals.values().flatten();
        known.any(|pending| pending.id == id)
    }

    /// For anybody who has the id, which nobody can guess.
    pub(super) fn page(
        &self,
        id: &str,
        now: Timestamp,
        access: impl FnOnce(&OtcToolName, &str) -> SecretAccess,
    ) -> Option<String> {
        let mut of_principals = self.of_principals.lock();
        let mut known = of_principals.values_mut().flatten();
        let pending = known.find(|pending| pending.id == id)?;
        pending.settle(now, access);
        Some(pending.page())
    }

    /// The execution no longer lacked the credential.
    pub(super) fn complete(&self, principal: &str, execution: &ExecutionKey) {
        let mut of_principals = self.of_principals.lock();
        for pending in of_principals.get_mut(principal).into_iter().flatten() {
            if pending.execution.as_ref() == Some(execution)
                && pending.status == AuthorizationStatus::Pending
            {
                pending.status = AuthorizationStatus::Completed;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use toolcell_spec::Timestamp;

    use super::super::samples::{Sample, TOKEN};
    use super::{
        AUTHORIZATIONS_MAX, AuthorizationStatus, Authorizations, ExecutionKey, OtcToolName,
        PENDING_TIME, Requirement, SecretAccess,
    };

    #[test]
    fn an_authorization_is_seen_by_its_principal_only_and_ends_once() {
        let requirement = Requirement::from_profile(&Sample::new().permission).unwrap();
        let authorizations =
            Authorizations::new("https://tools.example.com/authorizations/".to_owned());
        let anna = Arc::from("anna");
        let now = Timestamp::now();
        let key = |id: &str| ExecutionKey {
            run_id: "r".to_owned(),
            execution_id: id.to_owned(),
        };
        let tool = OtcToolName {
            toolkit: "issues".to_owned(),
            name: "find".to_owned(),
            version: "sha256:00".to_owned(),
        };
        let open = |execution: Option<&ExecutionKey>| {
            authorizations
                .open(&anna, execution, (&tool, &requirement), now)
                .unwrap()
        };
        let access = |has: bool| {
            let tool = &tool;
            move |named: &OtcToolName, name: &str| {
                if has && named == tool && name == TOKEN {
                    SecretAccess::Given
                } else {
                    SecretAccess::Awaited
                }
            }
        };
        let poll = |principal: &str, id: &str, now, has: bool| {
            authorizations
                .poll(principal, id, now, access(has))
                .map(|authorization| authorization.status)
        };
        let first = open(Some(&key("1")));
        assert_eq!(first, open(Some(&key("1"))));
        assert_eq!(
            first.url,
            format!("https://tools.example.com/authorizations/{}", first.id)
        );
        assert!(
            first.id.len() == 32
                && first.id != open(Some(&key("2"))).id
                && open(None).id != open(None).id
        );
        assert_eq!(
            poll("anna", &first.id, now, false),
            Some(AuthorizationStatus::Pending)
        );
        assert_eq!(
            (
                poll("bert", &first.id, now, true),
                poll("anna", "no id", now, true)
            ),
            (None, None)
        );
        assert_eq!(
            poll("anna", &first.id, now, true),
            Some(AuthorizationStatus::Completed)
        );
        let second = open(Some(&key("2")));
        let late = now.plus(PENDING_TIME + Duration::from_secs(1));
        assert_eq!(
            poll("anna", &second.id, late, true),
            Some(AuthorizationStatus::Expired)
        );
        let third = open(Some(&key("3")));
        authorizations.complete("anna", &key("3"));
        assert_eq!(
            poll("anna", &third.id, now, false),
            Some(AuthorizationStatus::Completed)
        );
        let refused = open(Some(&key("4")));
        let page = |id: &str| authorizations.page(id, now, |_, _| SecretAccess::Refused);
        assert!(page(&refused.id).unwrap().contains("failed"));
        assert_eq!(
            poll("anna", &refused.id, now, true),
            Some(AuthorizationStatus::Failed)
        );
        assert_eq!(page("no id"), None);
        for _ in 0..2 * AUTHORIZATIONS_MAX {
            open(None);
        }
        assert!(poll("anna", &third.id, now, false).is_none());
        assert_eq!(
            authorizations.of_principals.lock()["anna"].len(),
            AUTHORIZATIONS_MAX
        );
    }
}
