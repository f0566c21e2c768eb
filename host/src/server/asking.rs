//! Asking somebody about a call, or for what its tool wants to know: through its client, or by saying where else to
//! answer.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult,
    MetaObject, ProtocolVersion, RequestId, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestContext};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::dialect::mcp::{self, Said};
use crate::host::{Approver, COLUMNS, Inquiry, Prompt, Reply, Requested, Respondent, visible_json};
use crate::record::{InputResponse, InputResponses};

use super::ApprovalSettings;
use super::call::revision;

/// Tells whoever runs the server what waits for them.
pub type Announcer = Arc<dyn Fn(&Prompt) + Send + Sync>;

/// What becomes of a call that needs an approval where the client cannot ask its user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Away {
    /// It waits for an answer of `toolcell approvals`.
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
pub(super) enum Ask {
    /// Whether the call may run.
    Approval { prompt: Prompt, reply: oneshot::Sender<Reply> },
    /// What the tool wants to know.
    Input { inquiry: Inquiry, responses: oneshot::Sender<InputResponses> },
}

/// How long somebody who comes back for a call waits for an answer that was given elsewhere to be heard of.
const HEARD: Duration = Duration::from_millis(300);

impl Ask {
    /// Whether nobody has answered yet, in whatever way.
    pub(super) async fn is_open(&mut self) -> bool {
        let closed = async {
            match self {
                Self::Approval { reply, .. } => reply.closed().await,
                Self::Input { responses, .. } => responses.closed().await,
            }
        };
        tokio::time::timeout(HEARD, closed).await.is_err()
    }

    /// Takes what a client answers, if it answers this: otherwise the question stays open.
    pub(super) fn answer(self, given: Option<&rmcp::model::InputResponses>) -> Result<(), Self> {
        match self {
            Self::Approval { prompt, reply } => {
                let Some(said) = mcp::response(given) else { return Err(Self::Approval { prompt, reply }) };
                decide(&prompt, reply, said);
            }
            Self::Input { inquiry, responses } => {
                let mut found = InputResponses::new();
                for request in &inquiry.requests {
                    let response = mcp::input_response(given, request.key());
                    found.extend(response.map(|response| (request.key().to_owned(), response)));
                }
                if found.is_empty() {
                    return Err(Self::Input { inquiry, responses });
                }
                // What is missing is asked again. Nobody may be waiting any more.
                let _ = responses.send(found);
            }
        }
        Ok(())
    }

    /// Ends the question without an answer.
    pub(super) fn refuse(self, why: String) {
        match self {
            Self::Approval { prompt, reply } => decide(&prompt, reply, Said::refused(why)),
            Self::Input { inquiry, responses } => {
                let cancel = |request: &Requested| (request.key().to_owned(), InputResponse::Cancel);
                let _ = responses.send(inquiry.requests.iter().map(cancel).collect());
            }
        }
    }
}

fn decide(prompt: &Prompt, reply: oneshot::Sender<Reply>, said: Said) {
    let said = match said.approved && prompt.is_cut() && !said.although_cut {
        true => Said::refused(
            "the question showed a part of the call only, and the yes does not say that it knows".to_owned(),
        ),
        false => said,
    };
    let Said { approved, always, edit, note, .. } = said;
    let always = always && prompt.can_remember();
    // Somebody else may have answered meanwhile.
    let _ = reply.send(Reply { approved, edit, feedback: note, always });
}

/// Hands the questions of one call over.
pub(super) struct Messenger {
    principal: String,
    questions: mpsc::Sender<Ask>,
    outdated: CancellationToken,
}

/// Whom a call asks, and where its questions come out.
pub(super) fn messenger(caller: &str, outdated: CancellationToken) -> (Arc<Messenger>, mpsc::Receiver<Ask>) {
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
            let ask = Ask::Approval { prompt: prompt.clone(), reply };
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

impl Respondent for Messenger {
    fn respond<'a>(
        &'a self,
        inquiry: &'a Inquiry,
    ) -> Pin<Box<dyn Future<Output = Option<InputResponses>> + Send + 'a>> {
        Box::pin(async move {
            let asks = |request: &Requested| input_question(inquiry, request).is_some();
            let (requests, others): (Vec<_>, Vec<_>) = inquiry.requests.iter().cloned().partition(asks);
            // What the protocol has no words for reaches nobody.
            let mut found: InputResponses =
                others.iter().map(|other| (other.key().to_owned(), InputResponse::Cancel)).collect();
            if !requests.is_empty() {
                let (responses, said) = oneshot::channel();
                let ask = Ask::Input { inquiry: Inquiry { requests, ..inquiry.clone() }, responses };
                self.questions.send(ask).await.ok()?;
                found.extend(said.await.ok()?);
            }
            Some(found)
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
    match ask {
        Ask::Approval { prompt, reply } => {
            let said = match send(&peer, question(&prompt)).await {
                Ok(result) => mcp::said(&result),
                Err(why) => Said::refused(why),
            };
            decide(&prompt, reply, said);
        }
        Ask::Input { inquiry, responses } => {
            let mut found = InputResponses::new();
            for request in &inquiry.requests {
                let response = match input_question(&inquiry, request) {
                    Some(form) => send(&peer, form).await.map_or(InputResponse::Cancel, |result| mcp::filled(&result)),
                    None => InputResponse::Cancel,
                };
                found.insert(request.key().to_owned(), response);
            }
            let _ = responses.send(found);
        }
    }
}

/// The user's answer, or why there is none.
async fn send(peer: &Peer<RoleServer>, question: ElicitRequestParams) -> Result<ElicitResult, String> {
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(question));
    let sent = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
    let handle = sent.map_err(|error| format!("the client could not be asked: {error}"))?;
    let mut open = Open { peer: handle.peer.clone(), id: Some(handle.id.clone()) };
    let answer = handle.rx.await;
    open.id = None;
    match answer {
        Ok(Ok(ClientResult::ElicitResult(result))) => Ok(result),
        Ok(Ok(_)) => Err("the client's answer is none to this question".to_owned()),
        Ok(Err(error)) => Err(format!("the client's user could not be asked: {error}")),
        Err(_) => Err("the client went away".to_owned()),
    }
}

impl Ask {
    /// What an answer that asks this says beside it.
    pub(super) fn meta(&self) -> MetaObject {
        match self {
            Self::Approval { prompt, .. } => mcp::approval_meta(&prompt.invocation_id(), &prompt.expires_at()),
            Self::Input { inquiry, .. } => mcp::input_meta(&inquiry.invocation_id, &inquiry.expires_at),
        }
    }

    /// What is asked, as the protocol says it: each question by the key of its answer.
    pub(super) fn questions(&self) -> BTreeMap<String, ElicitRequestParams> {
        match self {
            Self::Approval { prompt, .. } => BTreeMap::from([(mcp::APPROVAL.to_owned(), question(prompt))]),
            Self::Input { inquiry, .. } => {
                let asked = inquiry.requests.iter();
                asked.filter_map(|one| Some((one.key().to_owned(), input_question(inquiry, one)?))).collect()
            }
        }
    }
}

fn question(prompt: &Prompt) -> ElicitRequestParams {
    // What a form offers for a change is read, too.
    let arguments = visible_json(prompt.arguments().text());
    mcp::question(prompt.text(), &arguments, prompt.can_remember(), prompt.is_cut())
}

fn input_question(inquiry: &Inquiry, request: &Requested) -> Option<ElicitRequestParams> {
    mcp::form(&request.text(&inquiry.tool_id, COLUMNS), request.schema())
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
