//! An approver's answer to a stored question, however it came.

use std::sync::Arc;

use toolcell_dialect::http::ApprovalAnswer;
use toolcell_journal::{AnswerOutcome, StoredApproval};
use toolcell_spec::{Answer, ApprovalState, ErrorCode, InvocationId, Refusal, Timestamp};

use super::Server;

const FEEDBACK_BYTES_MAX: usize = 16 << 10;

impl Server {
    /// The question about the call `id` of `caller`; `None` if there is none.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub async fn approval(
        &self,
        id: InvocationId,
        caller: Option<&str>,
    ) -> Result<Option<StoredApproval>, Refusal> {
        let callers: Vec<Arc<str>> = caller.into_iter().map(Arc::from).collect();
        self.question(id, &callers).await
    }

    /// Answers the question: the call runs once, or ends. `channel` is what brought the answer, for its record. Returns the
    /// state of the question.
    ///
    /// # Errors
    ///
    /// The answer cannot count: the question is closed, shows a part of the call only, or the arguments as they were changed
    /// cannot run; then it is still open.
    pub async fn answer_approval(
        self: &Arc<Self>,
        stored: StoredApproval,
        approver: &str,
        answer: ApprovalAnswer,
        channel: &str,
    ) -> Result<&'static str, Refusal> {
        let ApprovalAnswer {
            approved,
            accept_partial_view,
            edit,
            feedback,
        } = answer;
        let StoredApproval {
            approval, state, ..
        } = stored;
        let is_long = feedback
            .as_ref()
            .is_some_and(|feedback| feedback.len() > FEEDBACK_BYTES_MAX);
        if is_long {
            let why = format!("feedback has at most {FEEDBACK_BYTES_MAX} bytes");
            return Err(Refusal::new(ErrorCode::BodyInvalid, why));
        }
        if approved && approval.cut && !accept_partial_view && state == ApprovalState::Pending {
            let why = "the question shows a part of the call only";
            return Err(Refusal::new(ErrorCode::PromptTruncated, why));
        }
        let edit = edit.map(|edit| edit.get().to_owned());
        if let (true, Some(edit)) = (approved, &edit) {
            let offering = self.offering();
            let checked = offering.tools.host.check_edit(&approval, edit).await;
            let wrong = |why| {
                format!(
                    "the arguments as you changed them cannot run: {why}; the question is still open"
                )
            };
            checked.map_err(|why| Refusal::new(ErrorCode::EditInvalid, wrong(why)))?;
        }
        let id = approval.invocation_id;
        let answer = Answer {
            approved,
            approver: approver.to_owned(),
            channel: channel.to_owned(),
            edit,
            feedback,
            always: false,
            answered_at: Timestamp::now(),
        };
        let (code, why) = match self.answer_question(id, answer).await? {
            AnswerOutcome::Taken if approved => return Ok("approved"),
            AnswerOutcome::Taken => return Ok("rejected"),
            AnswerOutcome::TooLate(state) => (
                ErrorCode::RequestClosed,
                format!("the question is not open any more: it is {state}"),
            ),
            AnswerOutcome::OwnCall => {
                let why = format!("{approver} made the call, and so cannot approve it");
                (ErrorCode::OwnCall, why)
            }
            AnswerOutcome::Unknown => {
                let why = format!("there is no question about a call {id}");
                (ErrorCode::UnknownRequest, why)
            }
        };
        Err(Refusal::new(code, why))
    }
}
