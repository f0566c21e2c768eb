//! Native tests of a tool, with plain `cargo test`: what the tool tells the host is recorded for the thread of the
//! test, and time is simulated: only [`cancellation::sleep`](crate::cancellation::sleep) advances it.
//!
//! ```
//! use toolcell_guest::{progress, testing};
//!
//! progress::message("half way");
//! assert_eq!(testing::progress()[0].message.as_deref(), Some("half way"));
//! ```

use std::{cell::RefCell, collections::BTreeMap, time::Duration};

use serde_json::{Map, Value, json};

use crate::{
    ArtifactError, Context, ErrorClass, Outcome, ToolError,
    cancellation::AbortReason,
    context_modifiers::ModifyError,
    interaction::{Question, Response},
    log::Level,
    progress::Update,
    toolkit,
    toolkit::Toolkit,
    tools::{Answer, Callable},
};

/// One line that a tool logged.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The severity.
    pub level: Level,
    /// The message.
    pub message: String,
    /// The structured fields: a JSON object.
    pub fields: Option<Value>,
}

/// One artifact that a tool wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The name.
    pub name: String,
    /// The media type.
    pub media_type: String,
    /// Everything that was written.
    pub bytes: Vec<u8>,
    /// Whether the tool finished it. The host removes any other.
    pub is_finished: bool,
}

#[derive(Default)]
struct Recorded {
    progress: Vec<Update>,
    partials: Vec<Value>,
    logs: Vec<Line>,
    elapsed: Duration,
    cancel: Option<(Duration, AbortReason)>,
    acknowledged: bool,
    responses: Map<String, Value>,
    resume_state: Vec<u8>,
    artifacts: Vec<Written>,
    artifact_bytes_max: Option<u64>,
    modifiers: BTreeMap<String, Value>,
    modifiers_forbidden: bool,
}

thread_local! {
    static RECORDED: RefCell<Recorded> = RefCell::default();
}

#[cfg(feature = "http")]
type Server = Box<dyn Fn(&crate::http::Request) -> Result<Served, crate::http::Error>>;

#[cfg(feature = "http")]
thread_local! {
    static SERVER: RefCell<Option<Server>> = RefCell::default();
}

type Called = Box<dyn Fn(&Value) -> Result<Answer, ToolError>>;

thread_local! {
    static TOOLS: RefCell<Vec<(String, Called)>> = RefCell::default();
}

/// Clears everything that this thread recorded, its server, its tools, its settings, and its context.
pub fn reset() {
    RECORDED.take();
    crate::configuration::forget();
    TOOLS.take();
    #[cfg(feature = "http")]
    SERVER.take();
    crate::context::set(Context::default());
}

/// Every progress report so far, oldest first.
pub fn progress() -> Vec<Update> {
    RECORDED.with_borrow(|recorded| recorded.progress.clone())
}

/// Every partial result so far: JSON arrays of content blocks.
pub fn partials() -> Vec<Value> {
    RECORDED.with_borrow(|recorded| recorded.partials.clone())
}

/// Every logged line so far, oldest first.
pub fn logs() -> Vec<Line> {
    RECORDED.with_borrow(|recorded| recorded.logs.clone())
}

/// Every artifact so far, in the order in which they were created.
pub fn artifacts() -> Vec<Written> {
    RECORDED.with_borrow(|recorded| recorded.artifacts.clone())
}

/// Sets how many bytes the tool may write to artifacts, all together. By default there is no limit.
pub fn set_artifact_bytes_max(bytes: u64) {
    RECORDED.with_borrow_mut(|recorded| recorded.artifact_bytes_max = Some(bytes));
}

/// What the tool changed in the context of its caller, sorted by key.
pub fn context_modifiers() -> Vec<(String, Value)> {
    RECORDED.with_borrow(|recorded| {
        recorded
            .modifiers
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    })
}

/// Lets every change of the context fail from now on, as in a batch that forbids them.
pub fn forbid_context_modifiers() {
    RECORDED.with_borrow_mut(|recorded| recorded.modifiers_forbidden = true);
}

/// How long the tool has slept so far. No real time passes.
pub fn slept() -> Duration {
    RECORDED.with_borrow(|recorded| recorded.elapsed)
}

/// Whether the tool acknowledged a request to cancel.
pub fn acknowledged() -> bool {
    RECORDED.with_borrow(|recorded| recorded.acknowledged)
}

/// Requests cancellation now.
pub fn cancel(reason: AbortReason) {
    cancel_after(Duration::ZERO, reason);
}

/// Requests cancellation as soon as the tool has slept for `slept` in total.
pub fn cancel_after(slept: Duration, reason: AbortReason) {
    RECORDED.with_borrow_mut(|recorded| recorded.cancel = Some((slept, reason)));
}

/// Sets the answer to the question `key` of the tool. A question without an answer fails the test.
pub fn respond(key: &str, response: Response) {
    RECORDED.with_borrow_mut(|recorded| recorded.responses.insert(key.to_owned(), json!(response)));
}

/// Sets what [`interaction::remembered`](crate::interaction::remembered) returns.
pub fn set_remembered(state: impl Into<Vec<u8>>) {
    RECORDED.with_borrow_mut(|recorded| recorded.resume_state = state.into());
}

/// Offers a tool that the tested tool may call: `answer` gets the arguments.
pub fn offer(name: &str, answer: impl Fn(&Value) -> Result<Answer, ToolError> + 'static) {
    TOOLS.with_borrow_mut(|tools| tools.push((name.to_owned(), Box::new(answer))));
}

/// Sets what [`context`](crate::context()) returns.
pub fn set_context(context: Context) {
    crate::context::set(context);
}

/// Sets the function that answers every HTTP request from now on.
#[cfg(feature = "http")]
pub fn serve(
    answer: impl Fn(&crate::http::Request) -> Result<Served, crate::http::Error> + 'static,
) {
    SERVER.set(Some(Box::new(answer)));
}

/// A response of the test's server.
#[cfg(feature = "http")]
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// The status code, such as 200.
    pub status: u16,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The pieces in which the body comes.
    pub body: Vec<Vec<u8>>,
}

/// Returns what the host reads when it loads the toolkit.
pub fn describe<K: Toolkit>() -> Value {
    toolkit::describe::<K>()
}

/// Gives the tools of `K` settings, as the host would before each call.
pub fn configure<K: Toolkit>(config: Value) -> Result<(), ToolError> {
    K::configure(&config.to_string())
}

/// Calls a tool of `K` by its name, as the host would after it has checked the input.
pub fn invoke<K: Toolkit>(tool: &str, input: Value) -> Outcome {
    toolkit::invoke::<K>(tool, &input.to_string(), crate::context())
}

/// Runs the value checks of a tool of `K`.
pub fn validate<K: Toolkit>(tool: &str, input: Value) -> Result<(), ToolError> {
    toolkit::validate::<K>(tool, &input.to_string())
}

/// Returns what a tool of `K` says of a call.
pub fn classify<K: Toolkit>(tool: &str, input: Value) -> toolkit::Facts {
    toolkit::classify::<K>(tool, &input.to_string())
}

/// Runs the preflight of a tool of `K`.
pub fn preflight<K: Toolkit>(tool: &str, input: Value) -> Result<(), ToolError> {
    toolkit::preflight::<K>(tool, &input.to_string())
}

#[cfg(feature = "http")]
pub(crate) fn send(
    request: crate::http::Request,
) -> Result<crate::http::Response, crate::http::Error> {
    SERVER.with_borrow(|server| match server {
        Some(answer) => answer(&request).map(|served| crate::http::Response {
            status: served.status,
            headers: served.headers,
            body: Body(served.body.into()),
        }),
        None => Err(crate::http::Error::NotAllowed),
    })
}

/// The unread rest of a response body.
#[cfg(feature = "http")]
#[derive(Debug)]
pub struct Body(std::collections::VecDeque<Vec<u8>>);

#[cfg(feature = "http")]
impl Body {
    pub(crate) fn chunk(&mut self) -> Result<Option<Vec<u8>>, crate::http::Error> {
        Ok(self.0.pop_front())
    }
}

pub(crate) fn report(update: Update) {
    RECORDED.with_borrow_mut(|recorded| recorded.progress.push(update));
}

pub(crate) fn partial_result(content: String) -> String {
    RECORDED.with_borrow_mut(|recorded| {
        recorded
            .partials
            .push(serde_json::from_str(&content).unwrap_or_default());
        format!("partial-{}", recorded.partials.len())
    })
}

pub(crate) fn log(level: Level, message: &str, fields: Option<&Value>) {
    let line = Line {
        level,
        message: message.to_owned(),
        fields: fields.cloned(),
    };
    RECORDED.with_borrow_mut(|recorded| recorded.logs.push(line));
}

/// An artifact that is not finished, by its number.
pub(crate) struct ArtifactDraft(usize);

pub(crate) fn create_artifact(
    name: &str,
    media_type: &str,
) -> Result<ArtifactDraft, ArtifactError> {
    RECORDED.with_borrow_mut(|recorded| {
        let name = name.to_owned();
        let media_type = media_type.to_owned();
        recorded.artifacts.push(Written {
            name,
            media_type,
            bytes: Vec::new(),
            is_finished: false,
        });
        Ok(ArtifactDraft(recorded.artifacts.len()))
    })
}

impl ArtifactDraft {
    pub(crate) fn write(&mut self, chunk: &[u8]) -> Result<(), ArtifactError> {
        RECORDED.with_borrow_mut(|recorded| {
            let used = recorded
                .artifacts
                .iter()
                .map(|written| written.bytes.len())
                .sum::<usize>()
                + chunk.len();
            if let Some(max) = recorded.artifact_bytes_max.filter(|max| used as u64 > *max) {
                let why = format!(
                    "the artifacts of this call would have {used} bytes, {max} are allowed"
                );
                return Err(ArtifactError::QuotaExceeded(why));
            }
            recorded.artifacts[self.0 - 1]
                .bytes
                .extend_from_slice(chunk);
            Ok(())
        })
    }

    pub(crate) fn finish(self) -> Result<String, ArtifactError> {
        RECORDED.with_borrow_mut(|recorded| recorded.artifacts[self.0 - 1].is_finished = true);
        Ok(format!("toolcell:artifact/{}", self.0))
    }
}

pub(crate) fn modify_context(key: &str, value: &str) -> Result<(), ModifyError> {
    RECORDED.with_borrow_mut(|recorded| {
        if recorded.modifiers_forbidden {
            return Err(ModifyError::Forbidden(
                "cannot change the context: this test forbids it".to_owned(),
            ));
        }
        recorded.modifiers.insert(
            key.to_owned(),
            serde_json::from_str(value).unwrap_or_default(),
        );
        Ok(())
    })
}

pub(crate) fn responses() -> String {
    RECORDED.with_borrow(|recorded| json!(recorded.responses).to_string())
}

pub(crate) fn resume_state() -> Vec<u8> {
    RECORDED.with_borrow(|recorded| recorded.resume_state.clone())
}

pub(crate) fn ask(questions: &[Question<'_>], _state: &[u8]) -> ! {
    let asked: Vec<String> = questions
        .iter()
        .map(|Question { key, message, .. }| {
            format!(
                "the tool asks {message:?}; a test answers with `testing::respond({key:?}, ..)`"
            )
        })
        .collect();
    panic!("{}", asked.join("\n"))
}

pub(crate) fn callable() -> Vec<Callable> {
    let callable = |name: &String| Callable {
        name: name.clone(),
        description: String::new(),
    };
    TOOLS.with_borrow(|tools| tools.iter().map(|(name, _)| callable(name)).collect())
}

pub(crate) fn call_tool(tool: &str, input: &str) -> Result<Answer, ToolError> {
    let input = serde_json::from_str(input).unwrap_or_default();
    TOOLS.with_borrow(
        |tools| match tools.iter().rev().find(|(name, _)| name == tool) {
            Some((_, answer)) => answer(&input),
            None => {
                let class = ErrorClass::Other("permission_denied".to_owned());
                let message = format!(
                    "`{tool}` is no tool of this test; offer it with `testing::offer({tool:?}, ..)`"
                );
                Err(ToolError::new(class, "tool_not_callable", message))
            }
        },
    )
}

pub(crate) fn cancel_requested() -> Option<AbortReason> {
    RECORDED.with_borrow(|recorded| {
        recorded
            .cancel
            .and_then(|(at, reason)| (recorded.elapsed >= at).then_some(reason))
    })
}

pub(crate) fn acknowledge_cancel() {
    RECORDED.with_borrow_mut(|recorded| recorded.acknowledged = true);
}

/// Advances the clock, at most to the time of a requested cancellation.
pub(crate) fn sleep(duration: Duration) {
    RECORDED.with_borrow_mut(|recorded| {
        let end = recorded.elapsed.saturating_add(duration);
        recorded.elapsed = match recorded.cancel {
            Some((at, _)) => end.min(at.max(recorded.elapsed)),
            None => end,
        };
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cancellation, interaction, log, progress};

    #[test]
    fn what_a_tool_says_is_recorded_for_its_thread() {
        reset();
        progress::percent(50.0);
        log::warn("odd");
        let reference = progress::partial([crate::Content::text("half")]);
        assert_eq!(super::progress(), [Update::new().percent(50.0)]);
        assert_eq!(logs()[0].level, Level::Warn);
        assert_eq!(partials()[0][0]["text"], "half");
        assert_eq!(reference, "partial-1");
        assert!(std::thread::spawn(|| logs().is_empty()).join().unwrap());
    }

    #[test]
    fn a_question_gets_the_answer_of_the_test() {
        #[derive(serde::Deserialize, schemars::JsonSchema)]
        struct Name {
            name: String,
        }
        reset();
        let ask = || interaction::ask::<Name>("who", "Who are you?").unwrap();
        respond("who", Response::Decline);
        assert_eq!(
            ask().accepted().err().unwrap().class,
            crate::ErrorClass::Canceled
        );
        respond(
            "who",
            Response::Accept(Map::from_iter([("name".to_owned(), "Ada".into())])),
        );
        assert_eq!(ask().accepted().unwrap().name, "Ada");
    }

    #[test]
    fn questions_that_are_asked_together_get_their_answers_in_their_order() {
        reset();
        let schema = json!({ "type": "object", "properties": {} });
        let [first, second] = ["b", "a"].map(|key| Question {
            key,
            message: "?",
            schema: &schema,
        });
        respond("a", Response::Decline);
        respond("b", Response::Cancel);
        let answers = interaction::ask_forms(&[first, second]).unwrap();
        assert_eq!(answers, [Response::Cancel, Response::Decline]);
    }

    #[test]
    #[should_panic(
        expected = "the tool asks \"B?\"; a test answers with `testing::respond(\"b\", ..)`"
    )]
    fn a_question_without_an_answer_fails_the_test() {
        reset();
        let schema = json!({ "type": "object", "properties": {} });
        respond("a", Response::Decline);
        let [first, second] = [("a", "A?"), ("b", "B?")].map(|(key, message)| Question {
            key,
            message,
            schema: &schema,
        });
        let _ = interaction::ask_forms(&[first, second]);
    }

    #[test]
    fn a_sleep_ends_early_when_a_stop_is_requested() {
        reset();
        cancel_after(Duration::from_millis(150), AbortReason::UserInterruption);
        assert_eq!(cancellation::sleep(Duration::from_millis(100)), Ok(()));
        let stopped = cancellation::sleep(Duration::from_millis(100)).unwrap_err();
        assert_eq!(stopped.reason, AbortReason::UserInterruption);
        assert_eq!(slept(), Duration::from_millis(150));
        assert_eq!(ToolError::from(stopped).class, crate::ErrorClass::Canceled);
    }
}
