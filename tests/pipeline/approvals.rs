//! Phase 7 with an approver in this process: what an approval is bound to.
//!
//! Promise: A call that needs an approval waits for it.
//! Promise: An approval is for one thing.
//! Promise: No caller approves its own call.
//! Promise: A secret of a request is for its call alone.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolcell::{Home, Host, Listener, Request};
use toolcell_engine::approval::{Approver, Prompt, Reply, Session};
use toolcell_engine::pipeline::Background;
use toolcell_executor::hook::{Hook, HookOutput, Registration};
use toolcell_journal::{ApprovalRequest, History, StoredApproval};
use toolcell_journal::{Journal, Role, RoleLock};
use toolcell_policy::Grants;
use toolcell_spec::{AbortReason, ApprovalState, EventType, InvocationId, ToolEvent};

use crate::support::{Called, Test, scratch};

use super::doubles::{RecordingHook, RecordingListener, home_with_own_payloads, own_host};

/// Gives a fixed reply, and keeps its questions with the state of the journal at that moment.
pub(super) struct Sayer {
    reply: Option<Reply>,
    pub(super) journal: Journal,
    pub(super) asked: Mutex<Vec<(Prompt, StoredApproval)>>,
}

impl Approver for Sayer {
    fn principal(&self) -> &str {
        "user:test"
    }

    fn channel(&self) -> &str {
        "test"
    }

    fn ask<'a>(
        &'a self,
        prompt: &'a Prompt,
    ) -> Pin<Box<dyn Future<Output = Option<Reply>> + Send + 'a>> {
        let kept = kept(&self.journal, prompt.invocation_id());
        self.asked.lock().unwrap().push((prompt.clone(), kept));
        Box::pin(async { self.reply.clone() })
    }
}

fn kept(journal: &Journal, id: InvocationId) -> StoredApproval {
    journal.with(|store| store.kept(id)).unwrap().unwrap()
}

/// A separate home beside `folder`, so that no grant reaches the host's files.
fn home_beside(folder: &Path) -> Home {
    let home = folder.with_file_name("home");
    std::fs::create_dir(&home).unwrap();
    home_with_own_payloads(&home)
}

/// A folder that tools may write to, inside a temporary folder.
pub(super) fn place() -> (tempfile::TempDir, PathBuf) {
    let (guard, path) = scratch();
    let folder = path.join("work");
    std::fs::create_dir(&folder).unwrap();
    (guard, folder)
}

/// A host whose approver gives `reply`, with its own journal beside `folder`.
pub(super) fn asked(folder: &Path, reply: Option<Reply>) -> (Arc<Host>, Arc<Sayer>) {
    asked_with(folder, reply, Vec::new())
}

pub(super) fn asked_with(
    folder: &Path,
    reply: Option<Reply>,
    hooks: Vec<Arc<dyn Hook>>,
) -> (Arc<Host>, Arc<Sayer>) {
    let home = home_beside(folder);
    let journal = Journal::new(home.journal(), home.journal_key());
    let sayer = Arc::new(Sayer {
        reply,
        journal,
        asked: Mutex::default(),
    });
    let approver = Arc::clone(&sayer);
    let host = own_host(|settings| {
        settings
            .home(home)
            .hooks(hooks.into_iter().map(Registration::new).collect())
            .approvals(true)
            .approver(approver)
    });
    (host, sayer)
}

fn yes() -> Option<Reply> {
    Some(Reply {
        approved: true,
        ..Reply::default()
    })
}

/// A call that adds a line to a file in `folder`.
pub(super) fn appending(host: &Arc<Host>, folder: &Path) -> Test {
    Test::new("probe#append_approved").on(host).write(folder)
}

pub(super) fn input(folder: &Path) -> Value {
    json!({ "path": folder.join("lines"), "text": "line\n" })
}

pub(super) fn lines(folder: &Path) -> usize {
    std::fs::read_to_string(folder.join("lines")).map_or(0, |text| text.lines().count())
}

fn passed(called: &Called) -> Vec<&'static str> {
    called
        .0
        .invocation
        .status_transitions()
        .iter()
        .map(|step| step.to.as_str())
        .collect()
}

#[tokio::test]
async fn a_secret_of_the_request_hides_nothing_of_the_question() {
    let (_guard, folder) = place();
    let (host, sayer) = asked(&folder, yes());
    for value in ["read and change files in", "probe.append_approved"] {
        let called = appending(&host, &folder)
            .secrets(&[("API_KEY", value)])
            .call(input(&folder))
            .await;
        called
            .failed("invalid_arguments", "request_secret_repeated")
            .never_ran();
    }
    assert_eq!((sayer.asked.lock().unwrap().len(), lines(&folder)), (0, 0));
    let called = appending(&host, &folder)
        .secrets(&[("API_KEY", "of-this-caller-alone")])
        .call(input(&folder))
        .await;
    assert_eq!(
        (called.succeeded()["ok"].clone(), lines(&folder)),
        (json!(true), 1)
    );
}

#[tokio::test]
async fn everything_is_stored_before_anybody_is_asked_and_the_prompt_is_on_record() {
    let (_guard, folder) = place();
    let (host, sayer) = asked(&folder, yes());
    let called = appending(&host, &folder)
        .actor("agent:7")
        .call(input(&folder))
        .await;
    assert_eq!(
        (called.succeeded()["ok"].clone(), lines(&folder)),
        (json!(true), 1)
    );
    assert_eq!(
        passed(&called),
        [
            "selected",
            "arguments_ready",
            "awaiting_approval",
            "approved",
            "running",
            "succeeded"
        ]
    );
    let asked = sayer.asked.lock().unwrap();
    let (prompt, stored) = &asked[0];
    assert_eq!(stored.state, ApprovalState::Pending);
    assert_eq!(stored.invocation.status().as_str(), "awaiting_approval");
    assert!(stored.invocation.started_at().is_none());
    assert_eq!(
        stored.history.events.last().unwrap().event_type.as_str(),
        "tool.permission.requested"
    );
    assert_eq!(stored.history.decisions.len(), 1);
    let requested = &stored.history.events.last().unwrap().data;
    assert_eq!(
        (&requested["decision_id"], &requested["channel"]),
        (
            &json!(stored.history.decisions[0].decision_id),
            &json!(sayer.channel())
        )
    );
    let [ask, answer] = &called.0.decisions[..] else {
        panic!("{:?}", called.0.decisions)
    };
    assert_eq!(ask.content_blocks, prompt.content_blocks());
    assert_eq!(ask.content_blocks[0].as_text(), Some(prompt.text()));
    assert_eq!(answer.content_blocks, ask.content_blocks);
    assert!(prompt.text().contains("agent:7"));
    let reason = serde_json::to_value(&answer.reason).unwrap();
    assert_eq!(
        (&reason["type"], &reason["approver"]),
        (&json!("permission_prompt_tool"), &json!("user:test"))
    );
    let events = called.events();
    let at = |name: &str| events.iter().position(|event| *event == name).unwrap();
    assert!(at("tool.permission.requested") < at("tool.invocation.started"));
    assert_eq!(
        events
            .iter()
            .filter(|event| **event == "tool.permission.decided")
            .count(),
        2
    );
}

/// Says at each event whether its call can be left to another process.
struct Leaves(Background, Mutex<Vec<(&'static str, bool)>>);

impl Listener for Leaves {
    fn event(&self, event: &ToolEvent) {
        self.1
            .lock()
            .unwrap()
            .push((event.event_type.as_str(), self.0.can_be_left()));
    }
}

#[tokio::test]
async fn a_call_can_be_left_from_its_question_on_until_its_approval_is_used() {
    for approved in [true, false] {
        let (_guard, folder) = place();
        let (host, _sayer) = asked(
            &folder,
            Some(Reply {
                approved,
                ..Reply::default()
            }),
        );
        appending(&host, &folder).load().await.unwrap();
        let leaves = Arc::new(Leaves(Background::default(), Mutex::default()));
        let mut grants = Grants::default();
        grants.allow_write(folder.to_str().unwrap()).unwrap();
        let mut request = Request::new("probe.append_approved", input(&folder)).grants(grants);
        request.background = Some(leaves.0.clone());
        request.listener = Some(Arc::clone(&leaves) as Arc<dyn Listener>);
        assert_eq!(host.call(request).await.result.is_error, !approved);
        let seen = leaves.1.lock().unwrap();
        let at = |name: &str| {
            seen.iter()
                .filter(|(of, _)| *of == name)
                .map(|(_, can)| *can)
                .collect::<Vec<bool>>()
        };
        assert_eq!(at("tool.invocation.planned"), [false]);
        assert_eq!(at("tool.permission.requested"), [true]);
        assert_eq!(
            at("tool.permission.decided"),
            [false, true],
            "the answer is on disk, and not used yet"
        );
        assert_eq!(
            at("tool.invocation.started"),
            vec![false; usize::from(approved)]
        );
        assert_eq!(at("tool.result.created"), [false]);
    }
}

#[tokio::test]
async fn a_no_ends_the_call_and_the_note_says_why() {
    let (_guard, folder) = place();
    let no = Reply {
        feedback: Some("too dear".to_owned()),
        ..Reply::default()
    };
    let (host, _sayer) = asked(&folder, Some(no));
    let called = appending(&host, &folder).call(input(&folder)).await;
    called
        .failed("approval_rejected", "approval_rejected")
        .ended("rejected", "denied")
        .never_ran();
    assert!(called.message().contains("too dear"));
    assert_eq!(lines(&folder), 0);
}

#[tokio::test]
async fn nobody_approves_what_they_themselves_asked_for() {
    let (_guard, folder) = place();
    let (host, _sayer) = asked(&folder, yes());
    let called = appending(&host, &folder)
        .actor("user:test")
        .call(input(&folder))
        .await;
    called
        .failed("permission_denied", "self_approval")
        .ended("denied", "denied")
        .never_ran();
    assert_eq!(lines(&folder), 0);
}

#[tokio::test]
async fn an_edit_is_decided_again_and_a_denial_still_denies() {
    let (_guard, folder) = place();
    let edit = |value: Value| {
        Some(Reply {
            approved: true,
            edit: Some(value.to_string()),
            ..Reply::default()
        })
    };
    let (host, _sayer) = asked(
        &folder,
        edit(json!({ "path": folder.join("lines"), "text": "a\nb\n" })),
    );
    let called = appending(&host, &folder).call(input(&folder)).await;
    assert_eq!(
        (called.succeeded()["ok"].clone(), lines(&folder)),
        (json!(true), 2)
    );
    let mutation = &called.0.result.input_mutations[0];
    assert_eq!(
        (mutation.source_ref.as_str(), &mutation.changed_fields[..]),
        ("user:test", &["/text".to_owned()][..])
    );

    // The guest's own checks run before the decision, also for an edited input.
    let (_guard, folder) = place();
    let (host, _sayer) = asked(&folder, edit(json!({ "path": "x", "text": 7 })));
    let called = appending(&host, &folder).call(input(&folder)).await;
    called
        .failed("approval_rejected", "edit_invalid")
        .ended("rejected", "denied")
        .never_ran();
    let told = |event: &&ToolEvent| event.event_type == EventType::ValidationFailed;
    let told = &called.0.events.iter().find(told).unwrap().data;
    assert_eq!(
        (&told["which"], &told["pointers"]),
        (&json!("schema"), &json!(["/text"]))
    );
    assert_eq!(
        told["input_ref"],
        called.0.result.input_mutations[0].to_input_ref
    );
}

#[tokio::test]
async fn a_call_that_waits_takes_no_place_from_others_and_can_be_canceled() {
    let (_guard, folder) = place();
    let listener = Arc::new(RecordingListener::default());
    let heard = Arc::clone(&listener);
    let host = own_host(|settings| {
        settings
            .home(home_beside(&folder))
            .calls_at_once(1)
            .approvals(true)
            .listener(heard)
    });
    let waits = appending(&host, &folder);
    let cancellation = waits.cancellation();
    let other = async {
        listener
            .wait_for("append_approved", "tool.permission.requested")
            .await;
        let other = Test::new("probe#counter").on(&host).call(json!({})).await;
        cancellation.cancel(AbortReason::SiblingError);
        other
    };
    let (waited, other) = tokio::join!(waits.call(input(&folder)), other);
    assert_eq!(other.succeeded(), json!({"count": 1}));
    assert!(!passed(&other).contains(&"queued"));
    waited
        .failed("sibling_canceled", "sibling_canceled")
        .never_ran();
    assert_eq!(passed(&waited).last(), Some(&"canceled"));
    let home = Home::at(folder.with_file_name("home"));
    let journal = Journal::new(home.journal(), home.journal_key());
    assert_eq!(
        kept(&journal, waited.0.invocation.invocation_id).state,
        ApprovalState::Canceled
    );
}

#[tokio::test]
async fn always_is_written_only_where_it_was_said_and_asks_again_for_more() {
    let (_guard, folder) = place();
    let always = Reply {
        approved: true,
        always: true,
        ..Reply::default()
    };
    let (host, sayer) = asked(&folder, Some(always));
    let session = |test: Test, name: &str| {
        test.asking(|terms| terms.session = Session::Named(name.to_owned()))
    };
    for _ in 0..3 {
        session(appending(&host, &folder), "a")
            .call(input(&folder))
            .await
            .succeeded();
    }
    assert_eq!((sayer.asked.lock().unwrap().len(), lines(&folder)), (1, 3));
    session(appending(&host, &folder), "b")
        .call(input(&folder))
        .await
        .succeeded();
    session(appending(&host, &folder), "a")
        .limit(|limits| limits.fuel += 1)
        .call(input(&folder))
        .await
        .succeeded();
    let (_more, wider) = scratch();
    session(appending(&host, &folder).read(&wider), "a")
        .call(input(&folder))
        .await
        .succeeded();
    // Without a session, an `always` is not remembered.
    for _ in 0..2 {
        appending(&host, &folder)
            .call(input(&folder))
            .await
            .succeeded();
    }
    assert_eq!(sayer.asked.lock().unwrap().len(), 6);
}

#[tokio::test]
async fn a_question_has_an_end_even_where_nobody_looks() {
    let (_guard, folder) = place();
    let (host, _sayer) = asked(&folder, None);
    let called = appending(&host, &folder)
        .asking(|terms| terms.expire = Duration::from_millis(50))
        .call(input(&folder))
        .await;
    called
        .failed("approval_rejected", "approval_expired")
        .ended("rejected", "denied")
        .never_ran();
}

/// An orphaned call that was approved: its stored state, and a host to resume it in.
pub(super) async fn approved(folder: &Path, actor: &str) -> (Arc<Host>, Journal, StoredApproval) {
    let rewriter = RecordingHook::new("rewriter")
        .before([HookOutput::UpdatedInput(input(folder))])
        .shared();
    let (host, sayer) = asked_with(folder, None, vec![rewriter]);
    // The task is dropped at its question, as if its process were killed.
    let test = appending(&host, folder).actor(actor);
    let call = tokio::spawn(test.call(json!({ "path": "elsewhere", "text": "never" })));
    let asked = async {
        while sayer.asked.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), asked)
        .await
        .unwrap();
    call.abort();
    assert!(call.await.is_err());
    let id = sayer.asked.lock().unwrap()[0].0.invocation_id();
    let journal = sayer.journal.clone();
    let answer = toolcell_spec::Answer {
        approved: true,
        approver: "user:other".to_owned(),
        channel: "test".to_owned(),
        edit: None,
        feedback: None,
        always: false,
        answered_at: toolcell_spec::Timestamp::now(),
    };
    journal.with(|store| store.answer(id, &answer)).unwrap();
    let kept = kept(&journal, id);
    (host, journal, kept)
}

pub(super) fn again(folder: &Path, actor: &str) -> Request {
    let mut grants = Grants::default();
    grants.allow_write(folder.to_str().unwrap()).unwrap();
    Request::new("", "{}")
        .grants(grants)
        .actor(actor.to_owned())
}

/// A thread may still write for the call that was dropped, which holds it until then.
async fn held(journal: &Journal, kept: &StoredApproval) -> RoleLock {
    let began = Instant::now();
    loop {
        let id = kept.invocation.invocation_id;
        if let Some(held) = journal.hold(id, Role::Runner).unwrap() {
            return held;
        }
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "it is still held"
        );
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

pub(super) async fn resume(
    host: &Host,
    journal: &Journal,
    kept: &StoredApproval,
    request: Request,
) -> Called {
    let held = held(journal, kept).await;
    let called = Called(host.resume(request, kept, held).await.unwrap());
    crate::support::check_record(&called.record());
    called
}

#[tokio::test]
async fn a_call_goes_on_where_it_was_with_what_hooks_made_of_its_input() {
    let (_guard, folder) = place();
    let (host, journal, kept) = approved(&folder, "agent:7").await;
    let called = resume(&host, &journal, &kept, again(&folder, "agent:7")).await;
    assert_eq!(
        (called.succeeded()["ok"].clone(), lines(&folder)),
        (json!(true), 1)
    );
    assert_eq!(
        called.0.invocation.invocation_id,
        kept.invocation.invocation_id
    );
    let record = called.record();
    let invocation = &record["invocation"];
    assert_eq!(invocation["model_input"]["text"], "never");
    assert_eq!(invocation["call_input"], input(&folder));
    assert_eq!(
        record["result"]["input_mutations"][0]["source_ref"],
        "rewriter"
    );
    // The same stored state again: the run is already claimed.
    let called = resume(&host, &journal, &kept, again(&folder, "agent:7")).await;
    called
        .failed("approval_rejected", "approval_not_open")
        .never_ran();
    assert_eq!(lines(&folder), 1);
}

#[tokio::test]
async fn two_who_go_on_at_once_are_one_run() {
    let (_guard, folder) = place();
    let (host, journal, kept) = approved(&folder, "agent:7").await;
    let held = held(&journal, &kept).await;
    assert!(
        journal
            .hold(kept.invocation.invocation_id, Role::Runner)
            .unwrap()
            .is_none(),
        "one runner at a time"
    );
    // Even if both believe to hold the lock.
    let (_other, elsewhere) = scratch();
    let stray = Journal::new(elsewhere.clone(), elsewhere.join("key"))
        .hold(kept.invocation.invocation_id, Role::Runner)
        .unwrap()
        .unwrap();
    let first = host.resume(again(&folder, "agent:7"), &kept, held);
    let second = host.resume(again(&folder, "agent:7"), &kept, stray);
    let (first, second) = tokio::join!(first, second);
    let failed = [first, second].map(|record| record.unwrap().result.is_error);
    assert_ne!(failed[0], failed[1]);
    assert_eq!(lines(&folder), 1);
}

#[tokio::test]
async fn for_another_actor_or_in_another_world_nothing_runs() {
    for (what, change) in [
        (
            "the caller",
            (|request: &mut Request| request.actor_ref = Some("agent:8".to_owned()))
                as fn(&mut Request),
        ),
        ("what the call would be able to do", |request| {
            request.limits.memory_bytes *= 2
        }),
    ] {
        let (_guard, folder) = place();
        let (host, journal, kept) = approved(&folder, "agent:7").await;
        let mut request = again(&folder, "agent:7");
        change(&mut request);
        let called = resume(&host, &journal, &kept, request).await;
        called
            .failed("approval_rejected", "approval_outdated")
            .ended("rejected", "denied")
            .never_ran();
        assert!(
            called
                .message()
                .contains(&format!("since the approval was requested: {what};")),
            "{}",
            called.message()
        );
        assert_eq!(lines(&folder), 0);
        let called = resume(&host, &journal, &kept, again(&folder, "agent:7")).await;
        called
            .failed("approval_rejected", "approval_not_open")
            .never_ran();
    }
}

#[tokio::test]
async fn what_policy_denies_by_now_does_not_run_though_it_was_approved() {
    let (_guard, folder) = place();
    let (host, journal, kept) = approved(&folder, "agent:7").await;
    let mut request = again(&folder, "agent:7");
    request.grants = Arc::default();
    let called = resume(&host, &journal, &kept, request).await;
    called
        .failed("permission_denied", "not_granted")
        .never_ran();
    assert_eq!(
        called.0.decisions.last().unwrap().behavior,
        toolcell_spec::Behavior::Deny
    );
    assert_eq!(lines(&folder), 0);
}

#[tokio::test]
async fn more_questions_than_somebody_could_answer_are_refused_unasked() {
    let (_guard, folder) = place();
    let (host, journal, kept) = approved(&folder, "agent:7").await;
    let asking = |id| {
        let mut asking = ApprovalRequest {
            approval: kept.approval.clone(),
            invocation: kept.invocation.clone(),
            history: History::default(),
        };
        asking.approval.invocation_id = id;
        asking.invocation.invocation_id = id;
        asking
    };
    for _ in 0..200 {
        journal
            .with(|store| store.ask(&asking(InvocationId::new())))
            .unwrap();
    }
    let called = appending(&host, &folder).call(input(&folder)).await;
    called
        .failed("rate_limited", "too_many_questions")
        .never_ran();
    assert_eq!(passed(&called).last(), Some(&"denied"));
    // Calls that were stored before can still be resumed.
    assert!(
        !resume(&host, &journal, &kept, again(&folder, "agent:7"))
            .await
            .0
            .result
            .is_error
    );
}
