//! Asking somebody about a call: through its client, or by saying where else to answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientResult, ElicitRequest, ProtocolVersion, RequestId,
    ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestContext};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::dialect::mcp::{self, Said};
use crate::host::{Approver, Prompt, Reply};

use super::ApprovalSettings;
use super::call::revision;

/// Tells whoever runs the server what waits for them.
pub type Announcer = Arc<dyn Fn(&Prompt) + Send + Sync>;

/// What becomes of a call that needs an approval where the client cannot ask its user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Away {
    /// It waits for an answer of `hotcell approvals`.
    #[default]
    Wait,
    /// The client is told at once how to have it approved; the same call made again gets the result.
    Return,
}

/// How somebody is asked about one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// By a request to the client, while the call waits (2025-11-25).
    Elicitation,
    /// By an answer that asks for input; the client calls again with it (2026-07-28).
    InputRequired,
    /// By a result that says where to answer.
    Return,
    /// By whoever runs the server.
    Wait,
}

impl Way {
    pub(super) fn of(settings: &ApprovalSettings, context: &RequestContext<RoleServer>) -> Self {
        let capability = || context.client_capabilities().and_then(|capabilities| capabilities.elicitation);
        // A client that names neither kind means forms.
        let by_form = || capability().is_some_and(|can| can.form.is_some() || can.url.is_none());
        match settings.elicitation && by_form() {
            true if revision(context) >= ProtocolVersion::V_2026_07_28 => Self::InputRequired,
            true => Self::Elicitation,
            false if settings.away == Away::Return => Self::Return,
            false => Self::Wait,
        }
    }
}

/// A question on its way to whoever sees to the request of its call.
pub(super) struct Ask {
    pub(super) prompt: Prompt,
    reply: oneshot::Sender<Reply>,
}

/// How long somebody who comes back for a call waits for an answer that was given elsewhere to be heard of.
const HEARD: Duration = Duration::from_millis(300);

impl Ask {
    /// Whether nobody has answered yet, in whatever way.
    pub(super) async fn is_open(&mut self) -> bool {
        tokio::time::timeout(HEARD, self.reply.closed()).await.is_err()
    }

    pub(super) fn answer(self, said: Said) {
        let Said { approved, always, edit, note } = said;
        let always = always && self.prompt.can_remember();
        // Somebody else may have answered meanwhile.
        let _ = self.reply.send(Reply { approved, edit, feedback: note, always });
    }
}

/// Hands the questions of one call over.
struct Messenger {
    principal: String,
    questions: mpsc::Sender<Ask>,
    outdated: CancellationToken,
}

/// Whom a call asks, and where its questions come out.
pub(super) fn messenger(caller: &str, outdated: CancellationToken) -> (Arc<dyn Approver>, mpsc::Receiver<Ask>) {
    let (questions, waiting) = mpsc::channel(1);
    // Never the name of the caller: nobody approves what they themselves asked for.
    let principal = format!("user at {caller}");
    (Arc::new(Messenger { principal, questions, outdated }), waiting)
}

impl Approver for Messenger {
    fn principal(&self) -> &str {
        &self.principal
    }

    fn channel(&self) -> &str {
        "mcp_elicitation"
    }

    fn ask<'a>(&'a self, prompt: &'a Prompt) -> Pin<Box<dyn Future<Output = Option<Reply>> + Send + 'a>> {
        Box::pin(async move {
            let (reply, said) = oneshot::channel();
            let ask = Ask { prompt: prompt.clone(), reply };
            if self.questions.send(ask).await.is_err() {
                return None;
            }
            tokio::select! {
                said = said => said.ok(),
                () = self.outdated.cancelled() => Some(changed()),
            }
        })
    }
}

/// Says on the server's side that a call waits, and leaves the answer to others.
pub(super) struct Announcing {
    pub(super) announcer: Announcer,
    pub(super) outdated: CancellationToken,
}

impl Approver for Announcing {
    fn principal(&self) -> &str {
        "server"
    }

    fn channel(&self) -> &str {
        "none"
    }

    fn ask<'a>(&'a self, prompt: &'a Prompt) -> Pin<Box<dyn Future<Output = Option<Reply>> + Send + 'a>> {
        Box::pin(async move {
            (self.announcer)(prompt);
            self.outdated.cancelled().await;
            Some(changed())
        })
    }
}

fn changed() -> Reply {
    let feedback = "the tools or their configuration changed while the question was open; call again to ask";
    Reply { approved: false, feedback: Some(feedback.to_owned()), ..Reply::default() }
}

/// Asks the client's user, and hands the answer over. Dropped before its end, it takes the question back.
pub(super) async fn elicit(ask: Ask, peer: Peer<RoleServer>) {
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(question(&ask.prompt)));
    let said = match peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await {
        Err(error) => Said::refused(format!("the client could not be asked: {error}")),
        Ok(handle) => {
            let mut open = Open { peer: handle.peer.clone(), id: Some(handle.id.clone()) };
            let answer = handle.rx.await;
            open.id = None;
            match answer {
                Ok(Ok(ClientResult::ElicitResult(result))) => mcp::said(&result),
                Ok(Ok(_)) => Said::refused("the client's answer is none to this question".to_owned()),
                Ok(Err(error)) => Said::refused(format!("the client's user could not be asked: {error}")),
                Err(_) => Said::refused("the client went away".to_owned()),
            }
        }
    };
    ask.answer(said);
}

/// What is asked, as the protocol says it.
pub(super) fn question(prompt: &Prompt) -> rmcp::model::ElicitRequestParams {
    mcp::question(prompt.text(), prompt.arguments().text(), prompt.can_remember())
}

/// A question that a client shows.
struct Open {
    peer: Peer<RoleServer>,
    id: Option<RequestId>,
}

impl Drop for Open {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current()) else { return };
        let peer = self.peer.clone();
        runtime.spawn(async move {
            let why = "the question is not open any more".to_owned();
            let param = CancelledNotificationParam::new(Some(id), Some(why));
            let _ = peer.send_notification(CancelledNotification::new(param).into()).await;
        });
    }
}
