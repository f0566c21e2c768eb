//! Requests approvals and tool input: through the client, or by telling where else to answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::RoleServer;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientCapabilities, ClientResult,
    ElicitRequest, ElicitRequestParams, ElicitResult, MetaObject, ProtocolVersion, RequestId,
    ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use toolcell::{Approver, Inquiry, Prompt, Reply, RequestedInput, Respondent};
use toolcell_dialect::mcp::{self, UserDecision};
use toolcell_engine::approval::COLUMNS;
use toolcell_spec::text::visible_json;
use toolcell_spec::{InputResponse, InputResponses, InvocationId, Suspension};
use toolcell_system::BoxFuture;

use super::ApprovalSettings;

/// Tells the operator which call waits for an approval.
pub type AnnounceFn = Arc<dyn Fn(&Prompt) + Send + Sync>;

/// Applies if the client cannot ask its user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApprovalFallback {
    /// The answer comes through `toolcell approvals`.
    #[default]
    Wait,
    /// The client is told at once how to have the call approved; repeating the call gets the result.
    Return,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AskChannel {
    Elicitation,
    /// The client repeats the call with the input (2026-07-28).
    InputRequired,
    Return,
    Wait,
}

impl AskChannel {
    pub(super) fn choose(
        settings: &ApprovalSettings,
        revision: &ProtocolVersion,
        capabilities: Option<&ClientCapabilities>,
    ) -> Self {
        let capability = capabilities.and_then(|capabilities| capabilities.elicitation.as_ref());
        // A client that declares neither kind of elicitation supports forms.
        let by_form = capability.is_some_and(|can| can.form.is_some() || can.url.is_none());
        match settings.elicitation && by_form {
            true if *revision >= ProtocolVersion::V_2026_07_28 => Self::InputRequired,
            true => Self::Elicitation,
            false if settings.away == ApprovalFallback::Return => Self::Return,
            false => Self::Wait,
        }
    }
}

pub(super) enum CallQuestion {
    Approval {
        prompt: Prompt,
        reply: oneshot::Sender<Reply>,
    },
    Input {
        inquiry: Inquiry,
        responses: oneshot::Sender<InputResponses>,
    },
}

/// The answer was given elsewhere.
const HEARD: Duration = Duration::from_millis(300);

impl CallQuestion {
    pub(super) fn is_approval(&self) -> bool {
        matches!(self, Self::Approval { .. })
    }

    /// The client's call, or one that its tool makes.
    pub(super) fn approval_of(&self) -> Option<InvocationId> {
        match self {
            Self::Approval { prompt, .. } => Some(prompt.invocation_id()),
            Self::Input { .. } => None,
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        match self {
            Self::Approval { reply, .. } => reply.is_closed(),
            Self::Input { responses, .. } => responses.is_closed(),
        }
    }

    /// Waits for [`HEARD`]; `true` if still unanswered.
    pub(super) async fn is_open(&mut self) -> bool {
        let closed = async {
            match self {
                Self::Approval { reply, .. } => reply.closed().await,
                Self::Input { responses, .. } => responses.closed().await,
            }
        };
        tokio::time::timeout(HEARD, closed).await.is_err()
    }

    /// Returns the question if `given` does not answer it.
    pub(super) fn answer(self, given: Option<&rmcp::model::InputResponses>) -> Result<(), Self> {
        match self {
            Self::Approval { prompt, reply } => {
                let Some(said) = mcp::response(given) else {
                    return Err(Self::Approval { prompt, reply });
                };
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
                // Missing answers are requested again. Sending fails if the call no longer waits.
                let _ = responses.send(found);
            }
        }
        Ok(())
    }

    pub(super) fn refuse(self, why: String) {
        match self {
            Self::Approval { prompt, reply } => decide(&prompt, reply, UserDecision::refused(why)),
            Self::Input { inquiry, responses } => {
                let cancel =
                    |request: &RequestedInput| (request.key().to_owned(), InputResponse::Cancel);
                let _ = responses.send(inquiry.requests.iter().map(cancel).collect());
            }
        }
    }
}

fn decide(prompt: &Prompt, reply: oneshot::Sender<Reply>, said: UserDecision) {
    let UserDecision {
        approved,
        always,
        edit,
        note,
        ..
    } = heeding_cut(said, prompt.is_cut());
    let always = always && prompt.can_remember();
    // Sending fails if the question was answered elsewhere first.
    let _ = reply.send(Reply {
        approved,
        edit,
        feedback: note,
        always,
    });
}

/// A yes to a `cut` question is a no, unless it accepts that.
pub(super) fn heeding_cut(said: UserDecision, cut: bool) -> UserDecision {
    if said.approved && cut && !said.accept_partial_view {
        UserDecision::refused(
            "the question showed a part of the call only, and the yes does not say that it knows"
                .to_owned(),
        )
    } else {
        said
    }
}

pub(super) const CHANNEL: &str = "mcp_elicitation";

/// Never the caller's own name, because a caller cannot approve its own call.
pub(super) fn user_at(caller: Option<&str>) -> String {
    format!("user at {}", caller.unwrap_or("the client"))
}

pub(super) struct QuestionRelay {
    principal: String,
    earlier: Mutex<Option<oneshot::Receiver<InputResponses>>>,
    announcers: ApprovalAnnouncers,
    questions: mpsc::Sender<CallQuestion>,
    outdated: CancellationToken,
}

#[derive(Default)]
pub(super) struct ApprovalAnnouncers {
    /// Told of all approvals, besides the client.
    pub(super) always: Option<AnnounceFn>,
    /// The tool names another channel, which the client's user may not give. `None` if the client is told where to
    /// answer anyway.
    pub(super) elsewhere: Option<AnnounceFn>,
}

pub(super) fn messenger(
    caller: Option<&str>,
    announcers: ApprovalAnnouncers,
    outdated: CancellationToken,
) -> (QuestionRelay, mpsc::Receiver<CallQuestion>) {
    let (questions, waiting) = mpsc::channel(1);
    let relay = QuestionRelay {
        principal: user_at(caller),
        earlier: Mutex::default(),
        announcers,
        questions,
        outdated,
    };
    (relay, waiting)
}

/// The call's tool asked in an earlier process. Returns the respondent, that question and the receiver of later ones.
pub(super) fn reopen(
    suspension: &Suspension,
    outdated: CancellationToken,
) -> Option<(QuestionRelay, CallQuestion, mpsc::Receiver<CallQuestion>)> {
    let (responses, earlier) = oneshot::channel();
    let inquiry = expressible(&Inquiry::from_suspension(suspension).ok()?).0;
    let caller = suspension.actor_ref.as_deref();
    let (mut relay, waiting) = messenger(caller, ApprovalAnnouncers::default(), outdated);
    relay.earlier = Mutex::new(Some(earlier));
    Some((relay, CallQuestion::Input { inquiry, responses }, waiting))
}

/// Questions as the client was shown them.
pub(super) fn suspended(
    suspension: &Suspension,
) -> Option<(BTreeMap<String, ElicitRequestParams>, MetaObject)> {
    let inquiry = Inquiry::from_suspension(suspension).ok()?;
    let asked = inquiry.requests.iter();
    let named = asked.filter_map(|one| {
        Some((
            wire(one.key(), suspension.rounds + 1),
            input_question(&inquiry, one)?,
        ))
    });
    Some((
        named.collect(),
        mcp::input_meta(&inquiry.invocation_id, &inquiry.expires_at),
    ))
}

/// Later rounds number their keys, because none may return with another question. No tool can write such a key: keys
/// have no `~`.
pub(super) fn wire(key: &str, round: usize) -> String {
    match round {
        1 => key.to_owned(),
        number => format!("{key}~{number}"),
    }
}

fn expressible(inquiry: &Inquiry) -> (Inquiry, Vec<RequestedInput>) {
    let asks = |request: &RequestedInput| input_question(inquiry, request).is_some();
    let (requests, others): (Vec<_>, Vec<_>) = inquiry.requests.iter().cloned().partition(asks);
    (
        Inquiry {
            requests,
            ..inquiry.clone()
        },
        others,
    )
}

impl Approver for QuestionRelay {
    fn principal(&self) -> &str {
        &self.principal
    }

    fn channel(&self) -> &str {
        CHANNEL
    }

    fn ask<'a>(&'a self, prompt: &'a Prompt) -> BoxFuture<'a, Option<Reply>> {
        Box::pin(async move {
            if let Some(announcer) = &self.announcers.always {
                announcer(prompt);
            }
            let (reply, said) = oneshot::channel();
            let ask = CallQuestion::Approval {
                prompt: prompt.clone(),
                reply,
            };
            if self.questions.send(ask).await.is_err() {
                return None;
            }
            tokio::select! {
                said = said => said.ok(),
                () = self.outdated.cancelled() => Some(changed()),
            }
        })
    }

    fn announce<'a>(&'a self, prompt: &'a Prompt) -> BoxFuture<'a, Option<Reply>> {
        let Some(announcer) = &self.announcers.elsewhere else {
            return self.ask(prompt);
        };
        Box::pin(async move {
            announcer(prompt);
            self.outdated.cancelled().await;
            Some(changed())
        })
    }
}

impl Respondent for QuestionRelay {
    fn respond<'a>(&'a self, inquiry: &'a Inquiry) -> BoxFuture<'a, Option<InputResponses>> {
        Box::pin(async move {
            let (inquiry, others) = expressible(inquiry);
            // Requests that MCP cannot express are canceled.
            let mut found: InputResponses = others
                .iter()
                .map(|other| (other.key().to_owned(), InputResponse::Cancel))
                .collect();
            let earlier = self.earlier.lock().take();
            if let Some(said) = earlier {
                found.extend(said.await.ok()?);
            } else if !inquiry.requests.is_empty() {
                let (responses, said) = oneshot::channel();
                self.questions
                    .send(CallQuestion::Input { inquiry, responses })
                    .await
                    .ok()?;
                found.extend(said.await.ok()?);
            }
            Some(found)
        })
    }
}

pub(super) struct AnnouncingApprover {
    pub(super) announcer: AnnounceFn,
    pub(super) outdated: CancellationToken,
}

impl Approver for AnnouncingApprover {
    fn principal(&self) -> &str {
        "server"
    }

    fn channel(&self) -> &str {
        "none"
    }

    fn ask<'a>(&'a self, prompt: &'a Prompt) -> BoxFuture<'a, Option<Reply>> {
        Box::pin(async move {
            (self.announcer)(prompt);
            self.outdated.cancelled().await;
            Some(changed())
        })
    }
}

fn changed() -> Reply {
    let feedback =
        "the tools or their configuration changed while the question was open; call again to ask";
    Reply {
        approved: false,
        feedback: Some(feedback.to_owned()),
        ..Reply::default()
    }
}

/// Dropping the future withdraws the question.
pub(super) async fn elicit(ask: CallQuestion, peer: Peer<RoleServer>) {
    match ask {
        CallQuestion::Approval { prompt, reply } => {
            let said = match send(&peer, question(&prompt)).await {
                Ok(result) => mcp::said(&result),
                Err(why) => UserDecision::refused(why),
            };
            decide(&prompt, reply, said);
        }
        CallQuestion::Input { inquiry, responses } => {
            let mut found = InputResponses::new();
            for request in &inquiry.requests {
                let response = match input_question(&inquiry, request) {
                    Some(form) => send(&peer, form)
                        .await
                        .map_or(InputResponse::Cancel, |result| mcp::filled(&result)),
                    None => InputResponse::Cancel,
                };
                found.insert(request.key().to_owned(), response);
            }
            let _ = responses.send(found);
        }
    }
}

/// The error says why there is no answer.
async fn send(
    peer: &Peer<RoleServer>,
    question: ElicitRequestParams,
) -> Result<ElicitResult, String> {
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(question));
    let sent = peer
        .send_cancellable_request(request, PeerRequestOptions::no_options())
        .await;
    let handle = sent.map_err(|error| format!("the client could not be asked: {error}"))?;
    let mut open = OpenElicitation {
        peer: handle.peer.clone(),
        id: Some(handle.id.clone()),
    };
    let answer = handle.rx.await;
    open.id = None;
    match answer {
        Ok(Ok(ClientResult::ElicitResult(result))) => Ok(result),
        Ok(Ok(_)) => Err("the client's answer does not fit this question".to_owned()),
        Ok(Err(error)) => Err(format!("the client's user could not be asked: {error}")),
        Err(_) => Err("the client went away".to_owned()),
    }
}

impl CallQuestion {
    pub(super) fn meta(&self) -> MetaObject {
        match self {
            Self::Approval { prompt, .. } => {
                mcp::approval_meta(&prompt.invocation_id(), &prompt.expires_at())
            }
            Self::Input { inquiry, .. } => {
                mcp::input_meta(&inquiry.invocation_id, &inquiry.expires_at)
            }
        }
    }

    pub(super) fn questions(&self) -> BTreeMap<String, ElicitRequestParams> {
        match self {
            Self::Approval { prompt, .. } => {
                BTreeMap::from([(mcp::APPROVAL.to_owned(), question(prompt))])
            }
            Self::Input { inquiry, .. } => {
                let asked = inquiry.requests.iter();
                asked
                    .filter_map(|one| Some((one.key().to_owned(), input_question(inquiry, one)?)))
                    .collect()
            }
        }
    }
}

fn question(prompt: &Prompt) -> ElicitRequestParams {
    // The approver also reads the arguments that the form offers for editing.
    let arguments = visible_json(prompt.arguments().text());
    let form = mcp::question(
        prompt.text(),
        &arguments,
        prompt.can_remember(),
        prompt.is_cut(),
    );
    // A tool can ask a form of the same fields, and an answer to that approves nothing.
    mcp::marked(
        form,
        mcp::approval_meta(&prompt.invocation_id(), &prompt.expires_at()),
    )
}

fn input_question(inquiry: &Inquiry, request: &RequestedInput) -> Option<ElicitRequestParams> {
    let form = mcp::form(&request.text(&inquiry.tool_id, COLUMNS), request.schema())?;
    Some(mcp::marked(
        form,
        mcp::input_meta(&inquiry.invocation_id, &inquiry.expires_at),
    ))
}

/// Dropping it cancels the question.
struct OpenElicitation {
    peer: Peer<RoleServer>,
    id: Option<RequestId>,
}

impl Drop for OpenElicitation {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let peer = self.peer.clone();
        runtime.spawn(async move {
            let why = "the question is not open any more".to_owned();
            let param = CancelledNotificationParam::new(Some(id), Some(why));
            let _ = peer
                .send_notification(CancelledNotification::new(param).into())
                .await;
        });
    }
}
