use std::cell::{Cell, RefCell};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Notify;
use toolcell_dialect::otc::{OtcMode, OtcRequest, OtcToolName};
use toolcell_spec::{CallRecord, ErrorClass};

use super::samples::{COMPONENT, SECRET, Sample, TOKEN, check, failed, record};
use super::{ENGINE, OtcAnswer, OtcService, OtcTool, OtcTools, ParsedCall, SecretAccess};

const BASE: &str = "https://tools.example.com";

fn unstarted(mut record: CallRecord) -> CallRecord {
    let mut invocation = serde_json::to_value(&record.invocation).unwrap();
    invocation.as_object_mut().unwrap().remove("started_at");
    record.invocation = serde_json::from_value(invocation).unwrap();
    record
}

struct Service {
    service: OtcService,
    tools: OtcTools,
}

impl Service {
    async fn execute<R: Future<Output = Option<CallRecord>>>(
        &self,
        principal: &Arc<str>,
        request: OtcRequest,
        mode: OtcMode,
        call: impl FnOnce(ParsedCall) -> R,
    ) -> OtcAnswer {
        self.service
            .execute(&self.tools, principal, request, (mode, b""), call)
            .await
    }
}

fn service() -> Service {
    Service {
        service: OtcService::new(BASE),
        tools: OtcTools::new(vec![OtcTool::new(&Sample::new().listed())]),
    }
}

fn parsed(text: &Value, mode: OtcMode) -> OtcRequest {
    OtcRequest::read(&text.to_string(), mode).unwrap()
}

fn request() -> Value {
    json!({
        "run_id": "run-1", "execution_id": "exec-1", "created_at": "2026-01-01T00:00:00Z",
        "tool": { "name": "find", "toolkit": "issues", "version": COMPONENT }, "inputs": { "query": "q" },
        "context": {},
    })
}

/// Counts the calls, keeps the last one, and lacks the token if the call brings none.
#[derive(Default)]
struct Pipeline {
    calls: Cell<usize>,
    last: RefCell<Option<ParsedCall>>,
    /// The token is missed only after the tool began.
    runs_first: Cell<bool>,
}

impl Pipeline {
    fn call(&self, call: ParsedCall) -> CallRecord {
        self.calls.set(self.calls.get() + 1);
        let has_token = call.secrets.iter().any(|(name, _)| name == TOKEN);
        let change = match &call.tool {
            Err(refusal) => json!({ "is_error": true, "error": refusal.to_error() }),
            Ok(_) if !has_token => {
                let mut change = failed(ErrorClass::CredentialMissing);
                change["error"]["needs_authorization"] = json!({ "access_kind": "credential", "subject": TOKEN, "next_action": "toolcell secrets set" });
                change
            }
            Ok(_) => json!({ "structured_content": { "call": self.calls.get() } }),
        };
        *self.last.borrow_mut() = Some(call);
        if has_token || self.runs_first.get() {
            record(change)
        } else {
            unstarted(record(change))
        }
    }

    async fn answer(&self, service: &Service, request: &Value) -> (u16, Value) {
        read(
            &self.sent(service, "anna", request, OtcMode::Otc).await,
            OtcMode::Otc,
        )
    }

    async fn sent(
        &self,
        service: &Service,
        principal: &str,
        request: &Value,
        mode: OtcMode,
    ) -> OtcAnswer {
        let call = async |parsed| Some(self.call(parsed));
        let request = parsed(request, mode);
        service
            .execute(&Arc::from(principal), request, mode, call)
            .await
    }
}

#[track_caller]
fn read(answer: &OtcAnswer, mode: OtcMode) -> (u16, Value) {
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    check("response", mode, &body);
    (answer.status, body)
}

fn with_token(mut request: Value) -> Value {
    request["context"] = json!({ "authorization": { "token": "the-token" } });
    request
}

#[tokio::test]
async fn the_same_request_gets_the_same_answer_and_another_one_none() {
    let service = service();
    let pipeline = Pipeline::default();
    let sent = with_token(request());
    let (status, first) = pipeline.answer(&service, &sent).await;
    assert_eq!(
        (status, &first["output"]["value"]),
        (200, &json!({ "call": 1 }))
    );
    let mut again = sent.clone();
    again["created_at"] = json!("2026-01-01T00:00:09Z");
    assert_eq!(
        pipeline.answer(&service, &again).await,
        (200, first.clone())
    );
    let mut other = sent.clone();
    other["inputs"]["query"] = json!("r");
    let (status, refused) = pipeline.answer(&service, &other).await;
    assert_eq!((status, &refused["execution_id"]), (409, &json!("exec-1")));
    let mut another_token = sent.clone();
    another_token["context"]["authorization"]["token"] = json!("another");
    assert_eq!(pipeline.answer(&service, &another_token).await.0, 409);
    assert_eq!(pipeline.calls.get(), 1);
    let mut elsewhere = sent;
    elsewhere["run_id"] = json!("run-2");
    assert_eq!(
        pipeline.answer(&service, &elsewhere).await.1["output"]["value"],
        json!({ "call": 2 })
    );
}

#[tokio::test]
async fn two_that_arrive_at_once_are_one_execution() {
    let service = service();
    let pipeline = Pipeline::default();
    let go = Notify::new();
    let anna = Arc::from("anna");
    let sent = parsed(&with_token(request()), OtcMode::Otc);
    let slow = || {
        async |parsed| {
            go.notified().await;
            Some(pipeline.call(parsed))
        }
    };
    let released = async {
        tokio::task::yield_now().await;
        go.notify_one();
        // Only a second call would wait for it.
        go.notify_waiters();
        tokio::task::yield_now().await;
        go.notify_one();
    };
    let (one, other, ()) = tokio::join!(
        service.execute(&anna, sent.clone(), OtcMode::Otc, slow()),
        service.execute(&anna, sent, OtcMode::Otc, slow()),
        released
    );
    assert_eq!((&one, pipeline.calls.get()), (&other, 1));
}

#[tokio::test]
async fn a_call_that_was_dropped_is_not_repeated() {
    let service = service();
    let pipeline = Pipeline::default();
    let sent = with_token(request());
    let anna = Arc::from("anna");
    let read = parsed(&sent, OtcMode::Otc);
    let never = async |parsed: ParsedCall| {
        std::future::pending::<()>().await;
        Some(pipeline.call(parsed))
    };
    tokio::select! {
        biased;
        _ = service.execute(&anna, read, OtcMode::Otc, never) => unreachable!(),
        () = std::future::ready(()) => {}
    }
    let (status, refused) = pipeline.answer(&service, &sent).await;
    assert_eq!((status, pipeline.calls.get()), (409, 0));
    assert!(
        refused["output"]["error"]["additional_prompt_content"]
            .as_str()
            .unwrap()
            .contains("execution_lost")
    );
}

#[tokio::test]
async fn a_call_that_the_host_lost_is_answered_and_not_repeated() {
    let service = service();
    let pipeline = Pipeline::default();
    let sent = with_token(request());
    let read_request = parsed(&sent, OtcMode::Otc);
    let lost = service
        .execute(&Arc::from("anna"), read_request, OtcMode::Otc, async |_| {
            None
        })
        .await;
    assert_eq!(read(&lost, OtcMode::Otc).0, 500);
    assert_eq!(
        pipeline.answer(&service, &sent).await,
        read(&lost, OtcMode::Otc)
    );
    assert_eq!(pipeline.calls.get(), 0);
}

#[tokio::test]
async fn a_call_without_its_token_waits_and_runs_under_the_same_id() {
    let service = service();
    let pipeline = Pipeline::default();
    let (status, first) = pipeline.answer(&service, &request()).await;
    let asked = first["output"]["requires_authorization"].clone();
    let id = asked["id"].as_str().unwrap();
    assert_eq!(
        (status, &asked["status"], &asked["scopes"]),
        (200, &json!("pending"), &json!(["repo"]))
    );
    assert_eq!(asked["url"], json!(format!("{BASE}/authorizations/{id}")));
    let poll = |principal: &str, is_set: bool| {
        let access = |_: &OtcToolName, name: &str| {
            if is_set && name == TOKEN {
                SecretAccess::Given
            } else {
                SecretAccess::Awaited
            }
        };
        let service = &service.service;
        match service.authorization(principal, id, OtcMode::Otc, access) {
            Ok(body) => {
                check("authorization", OtcMode::Otc, &body);
                (200, body)
            }
            Err(problem) => (problem.status, Value::Null),
        }
    };
    assert_eq!(poll("anna", false), (200, asked.clone()));
    assert_eq!(poll("bert", true).0, 404);
    // The same request again waits for the same authorization, and a changed one for none.
    assert_eq!(
        pipeline.answer(&service, &request()).await.1["output"]["requires_authorization"],
        asked
    );
    let mut other = with_token(request());
    other["inputs"]["query"] = json!("r");
    assert_eq!(pipeline.answer(&service, &other).await.0, 409);
    let (status, done) = pipeline.answer(&service, &with_token(request())).await;
    assert_eq!(
        (status, &done["output"]["value"]),
        (200, &json!({ "call": 3 }))
    );
    assert_eq!(poll("anna", false).1["status"], json!("completed"));
    assert_eq!(
        pipeline.answer(&service, &with_token(request())).await,
        (200, done)
    );
}

#[tokio::test]
async fn a_tool_that_ran_before_it_lacked_its_token_is_not_repeated() {
    let service = service();
    let pipeline = Pipeline::default();
    pipeline.runs_first.set(true);
    let (_, first) = pipeline.answer(&service, &request()).await;
    assert_eq!(
        first["output"]["requires_authorization"]["status"],
        json!("pending")
    );
    assert_eq!(pipeline.answer(&service, &request()).await, (200, first));
    assert_eq!(
        pipeline.answer(&service, &with_token(request())).await.0,
        409
    );
    assert_eq!(pipeline.calls.get(), 1);
}

#[tokio::test]
async fn a_call_gets_the_secrets_that_its_tool_declares_and_no_others() {
    let service = service();
    let pipeline = Pipeline::default();
    let mut sent = with_token(request());
    sent["context"]["secrets"] = json!({ SECRET: "the-secret", "OTHER": "hunter2" });
    sent["context"]["user_id"] = json!("user-1");
    let (_, answer) = pipeline.answer(&service, &sent).await;
    let call = pipeline.last.take().unwrap();
    let given: Vec<_> = call
        .secrets
        .iter()
        .map(|(name, value)| (name.as_str(), value.expose()))
        .collect();
    assert_eq!(
        (given.as_slice(), call.ignored_secrets),
        (&[(SECRET, "the-secret"), (TOKEN, "the-token")][..], 1)
    );
    let asked = &call.request;
    assert_eq!(
        (asked.execution_id.as_deref(), asked.run_id.as_deref()),
        (Some("exec-1"), Some("run-1"))
    );
    assert_eq!(
        (asked.user_id.as_deref(), asked.inputs.as_str()),
        (Some("user-1"), r#"{"query":"q"}"#)
    );
    let told = format!("{call:?} {answer}");
    assert!(
        !told.contains("the-secret") && !told.contains("the-token") && !told.contains("hunter2"),
        "{told}"
    );
}

#[tokio::test]
async fn a_request_for_an_unknown_tool_is_a_call() {
    let service = service();
    let pipeline = Pipeline::default();
    for (field, wrong, code) in [
        ("name", "lose", "unknown_tool"),
        ("version", "sha256:11", "version_mismatch"),
    ] {
        let mut sent = request();
        sent["execution_id"] = json!(code);
        sent["tool"][field] = json!(wrong);
        let (status, answer) = pipeline.answer(&service, &sent).await;
        let prompt = answer["output"]["error"]["additional_prompt_content"]
            .as_str()
            .unwrap();
        assert_eq!(
            (
                status,
                prompt.starts_with(&format!("unknown_tool/{code}: "))
            ),
            (200, true),
            "{prompt}"
        );
        assert!(pipeline.last.take().unwrap().tool.is_err());
    }
    assert_eq!(pipeline.calls.get(), 2);
}

#[test]
fn tools_are_found_by_their_names() {
    let tools = service().tools;
    for mode in OtcMode::ALL {
        let definition = tools.all[0].definition(mode).unwrap();
        check("definition", mode, definition);
        let name = definition["fully_qualified_name"].as_str().unwrap();
        let found = tools.find(name).unwrap();
        assert_eq!(found.definition(mode), Some(definition));
    }
    assert!(tools.find("issues.lose").is_none());
}

#[tokio::test]
async fn an_arcade_engine_may_leave_out_the_ids() {
    let service = service();
    let pipeline = Pipeline::default();
    // Each request is a call then.
    let sent = json!({
        "tool": { "name": "find", "toolkit": "issues" }, "inputs": { "query": "q" },
        "context": { "authorization": { "token": "the-token" }, "secrets": [{ "key": SECRET, "value": "the-secret" }] },
    });
    for count in 1..=2 {
        let answer = pipeline
            .sent(&service, ENGINE, &sent, OtcMode::Arcade)
            .await;
        let (status, body) = read(&answer, OtcMode::Arcade);
        assert_eq!(
            (status, &body["output"]["value"]),
            (200, &json!({ "call": count }))
        );
        assert_eq!(body["execution_id"], json!("01ARZ3NDEKTSV4RRFFQ69G5FAV"));
    }
}
