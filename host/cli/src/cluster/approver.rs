//! A question about a call of the cluster, answered from elsewhere.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use toolcell::{Approver, Prompt, Reply};
use toolcell_cluster::{Cluster, OpenApproval};
use toolcell_dialect::http::ApprovalAnswer;
use toolcell_server::Server;

/// For the record: what brought the answer.
const CHANNEL: &str = "cluster";
/// Before a question is shown again.
const PAUSE: Duration = Duration::from_secs(1);

/// Asks the approvers that the configuration of this worker names. Their answers are stored as this machine's are,
/// each under its approver's name.
pub(super) struct ClusterApprover {
    pub(super) server: Arc<Server>,
    pub(super) cluster: Arc<Cluster>,
    pub(super) caller: Option<String>,
    /// Name and public key.
    pub(super) approvers: Arc<BTreeMap<String, String>>,
}

impl Approver for ClusterApprover {
    fn principal(&self) -> &str {
        CHANNEL
    }

    fn channel(&self) -> &str {
        CHANNEL
    }

    /// Never replies itself: the answer is in the store.
    fn ask<'a>(
        &'a self,
        prompt: &'a Prompt,
    ) -> Pin<Box<dyn Future<Output = Option<Reply>> + Send + 'a>> {
        Box::pin(async move {
            let id = prompt.invocation_id().to_string();
            let _open = OpenQuestion {
                cluster: Arc::clone(&self.cluster),
                id: id.clone(),
            };
            let mut asked = OpenApproval {
                invocation_id: id.clone(),
                worker: self.cluster.name().to_owned(),
                caller: self.caller.clone(),
                prompt: prompt.text().to_owned(),
                cut: prompt.is_cut(),
                expires_at: prompt.expires_at().to_string(),
                answer: None,
                refused: None,
            };
            let mut is_told = false;
            loop {
                if let Err(error) = self.cluster.ask_approvers(&asked).await
                    && !std::mem::replace(&mut is_told, true)
                {
                    self.cluster
                        .warn(&format!("approvers cannot be asked yet: {error}"));
                }
                let Some(answered) = self.cluster.approver_answered(&id).await else {
                    // A server was away, or the question was removed.
                    tokio::time::sleep(PAUSE).await;
                    continue;
                };
                match self.take(prompt, &asked, &answered).await {
                    Ok(()) => return None,
                    Err(why) => {
                        self.cluster
                            .warn(&format!("an answer was not taken: {why}"));
                        asked.refused = Some(why);
                    }
                }
            }
        })
    }
}

impl ClusterApprover {
    /// The error says why the answer does not count.
    async fn take(
        &self,
        prompt: &Prompt,
        asked: &OpenApproval,
        answered: &OpenApproval,
    ) -> Result<(), String> {
        // Only the answer is taken from there: the question is this worker's own.
        let asked = OpenApproval {
            answer: answered.answer.clone(),
            ..asked.clone()
        };
        let (key, answer) = asked
            .answer()
            .ok_or("it is not signed, or answers another question")?;
        let known = self
            .approvers
            .iter()
            .find(|(_, known)| known.as_str() == key);
        let (name, _) = known.ok_or("its key is not of an approver that this worker knows")?;
        let answer: ApprovalAnswer = serde_json::from_str(&answer.answer)
            .map_err(|error| format!("it cannot be read: {error}"))?;
        // A person has one role.
        let caller = self.caller.as_deref().unwrap_or_default();
        let caller = caller.split_once(':').map_or(caller, |(_, name)| name);
        if answer.approved && caller.eq_ignore_ascii_case(name) {
            return Err(format!("{name} made the call, and so cannot approve it"));
        }
        let id = prompt.invocation_id();
        let stored = self.server.approval(id, self.caller.as_deref()).await;
        let stored = stored.map_err(|refusal| refusal.message)?;
        let stored = stored.ok_or("the question is not open any more")?;
        let approver = format!("approver:{name}");
        let server = &self.server;
        let taken = server.answer_approval(stored, &approver, answer, CHANNEL);
        taken.await.map(drop).map_err(|refusal| refusal.message)
    }
}

/// Removed with the question.
struct OpenQuestion {
    cluster: Arc<Cluster>,
    id: String,
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        let cluster = Arc::clone(&self.cluster);
        let id = std::mem::take(&mut self.id);
        // There is none while the process ends; then the question expires.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { cluster.close_approval(&id).await });
        }
    }
}
