//! Progress on standard error, results on standard output, and nothing while a question is open.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use toolcell::{BatchListener, CallRecord, ToolEvent};
use toolcell_spec::text::{Whitespace, visible};
use toolcell_spec::{ContextModifier, EventType};

use super::super::exit::{self, Exit};
use super::super::show::{self, Form};

/// Lines of progress kept while a question is open; later ones are not shown.
const LINES_MAX: usize = 1_000;

pub(in crate::command) struct Output {
    /// `None` if results are kept.
    form: Option<Form>,
    ids: Vec<String>,
    state: Mutex<State>,
    /// Locked while a result is printed, so that no question begins meanwhile.
    screen: Mutex<()>,
}

#[derive(Default)]
struct State {
    /// `true` while a question is open. A tool beside it must not write text that the reader takes for a part of it.
    paused: bool,
    waiting: VecDeque<OutputEvent>,
    exits: Vec<Option<Exit>>,
    /// By call, if results are kept.
    kept: BTreeMap<usize, CallRecord>,
    failure: Option<anyhow::Error>,
}

enum OutputEvent {
    Line(String),
    End(usize, Box<CallRecord>),
    Modified(usize, Vec<ContextModifier>),
}

impl Output {
    pub(in crate::command) fn new(form: Option<Form>, ids: Vec<String>) -> Self {
        let state = State {
            exits: vec![None; ids.len()],
            ..State::default()
        };
        Self {
            form,
            ids,
            state: Mutex::new(state),
            screen: Mutex::default(),
        }
    }

    /// The code of the first call that did not succeed.
    pub(in crate::command) fn exit(&self) -> anyhow::Result<Exit> {
        let mut state = self.state();
        if let Some(error) = state.failure.take() {
            return Err(error);
        }
        let failed = state
            .exits
            .iter()
            .find(|exit| **exit != Some(Exit::Succeeded));
        Ok(failed.map_or(Exit::Succeeded, |exit| exit.unwrap_or(Exit::HostFault)))
    }

    /// Later calls get none.
    pub(in crate::command) fn take_kept(&self) -> Vec<CallRecord> {
        std::mem::take(&mut self.state().kept)
            .into_values()
            .collect()
    }

    pub(super) fn pause(self: &Arc<Self>) -> Pause {
        let _screen = self.screen();
        self.state().paused = true;
        Pause(Arc::clone(self))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn screen(&self) -> MutexGuard<'_, ()> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn id(&self, at: usize) -> &str {
        self.ids.get(at).map_or("", String::as_str)
    }

    fn print(&self, said: OutputEvent) {
        match said {
            OutputEvent::Line(line) => show::say(&line),
            OutputEvent::End(at, record) => {
                let printed = match self.form {
                    Some(form) => show::record_of_batch(self.id(at), &record, form),
                    // The messages of a model have no place for them.
                    None => show::modifiers_of_batch(
                        self.id(at),
                        &record.result.context_modifiers,
                        Form::People,
                    )
                    .map(|()| exit::of_result(&record.result)),
                };
                let mut state = self.state();
                if self.form.is_none() {
                    state.kept.insert(at, *record);
                }
                match printed {
                    Ok(exit) => {
                        if let Some(known) = state.exits.get_mut(at) {
                            *known = Some(exit);
                        }
                    }
                    Err(error) => _ = state.failure.get_or_insert(error),
                }
            }
            OutputEvent::Modified(at, modifiers) => {
                if let Err(error) = show::modifiers_of_batch(
                    self.id(at),
                    &modifiers,
                    self.form.unwrap_or(Form::People),
                ) {
                    _ = self.state().failure.get_or_insert(error);
                }
            }
        }
    }

    /// Prints it, or keeps it while a question is open.
    fn tell(&self, said: OutputEvent) {
        let _screen = self.screen();
        let mut state = self.state();
        if state.paused {
            state.waiting.push_back(said);
            return;
        }
        drop(state);
        self.print(said);
    }

    fn next_waiting(&self) -> Option<OutputEvent> {
        let mut state = self.state();
        let said = state.waiting.pop_front();
        state.paused = said.is_some();
        said
    }
}

impl BatchListener for Output {
    fn event(&self, at: usize, event: &ToolEvent) {
        let Some(line) = line(self.id(at), event) else {
            return;
        };
        let mut state = self.state();
        if !state.paused {
            show::say(&line);
        } else if state.waiting.len() < LINES_MAX {
            state.waiting.push_back(OutputEvent::Line(line));
        }
    }

    fn ended(&self, at: usize, record: CallRecord) {
        self.tell(OutputEvent::End(at, Box::new(record)));
    }

    fn modified(&self, at: usize, modifiers: Vec<ContextModifier>) {
        self.tell(OutputEvent::Modified(at, modifiers));
    }
}

pub(super) struct Pause(Arc<Output>);

impl Drop for Pause {
    fn drop(&mut self) {
        let output = &self.0;
        let _screen = output.screen();
        while let Some(said) = output.next_waiting() {
            output.print(said);
        }
    }
}

fn line(id: &str, event: &ToolEvent) -> Option<String> {
    let word = |field: &str| event.data.get(field).and_then(Value::as_str);
    let said = match event.event_type {
        EventType::Queued => "waiting".to_owned(),
        EventType::Started => "started".to_owned(),
        EventType::Progress | EventType::PartialResult => progress(&event.data)?,
        EventType::Succeeded | EventType::Failed | EventType::Canceled | EventType::TimedOut => {
            let status = word("status")?;
            match (word("error_class"), word("error_code")) {
                (Some(class), Some(code)) => format!("{status} [{class}/{code}]"),
                _ => status.to_owned(),
            }
        }
        _ => return None,
    };
    // A tool must not begin a line of its own.
    let written_out = |text: &str| visible(text, Whitespace::WrittenOut);
    Some(format!("{}: {}", written_out(id), written_out(&said)))
}

/// `40% reading`, as far as the tool says both.
fn progress(data: &Value) -> Option<String> {
    let field = |name: &str| data.pointer(&format!("/progress/{name}"));
    let percent = field("percent")
        .and_then(Value::as_f64)
        .map(|percent| format!("{percent:.0}%"));
    let message = ["message", "current_step"]
        .iter()
        .find_map(|name| field(name)?.as_str())
        .map(str::to_owned);
    let said: Vec<String> = percent.into_iter().chain(message).collect();
    (!said.is_empty()).then(|| said.join(" "))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use toolcell::BatchListener;
    use toolcell_spec::{EventId, EventType, Extra, SchemaVersion, Timestamp};

    use super::{Exit, Form, LINES_MAX, Output, ToolEvent, progress};

    fn started() -> ToolEvent {
        ToolEvent {
            schema_version: SchemaVersion::default(),
            event_id: EventId::new(),
            event_type: EventType::Started,
            source: "toolcell/test".into(),
            subject: None,
            time: Timestamp::now(),
            invocation_id: None,
            tool_id: None,
            data: json!({}),
            trace_refs: Vec::new(),
            extra: Extra::new(),
        }
    }

    #[test]
    fn progress_waits_while_a_question_is_open_and_cannot_pile_up() {
        let output = Arc::new(Output::new(Some(Form::Result), vec!["a".to_owned()]));
        let waiting = || output.state().waiting.len();
        output.event(0, &started());
        assert_eq!(waiting(), 0);
        let pause = output.pause();
        (0..=LINES_MAX).for_each(|_| output.event(0, &started()));
        assert_eq!(waiting(), LINES_MAX);
        drop(pause);
        assert_eq!((waiting(), output.state().paused), (0, false));
    }

    #[test]
    fn a_call_without_a_result_is_a_fault() {
        let output = Output::new(Some(Form::Result), vec!["a".to_owned(), "b".to_owned()]);
        output.state().exits[0] = Some(Exit::Succeeded);
        assert_eq!(output.exit().unwrap(), Exit::HostFault);
        output.state().exits[1] = Some(Exit::Refused);
        assert_eq!(output.exit().unwrap(), Exit::Refused);
    }

    #[test]
    fn progress_is_what_the_tool_says() {
        let of = |said: serde_json::Value| progress(&json!({ "progress": said }));
        assert_eq!(
            of(json!({ "percent": 39.6, "message": "reading" })).as_deref(),
            Some("40% reading")
        );
        assert_eq!(
            of(json!({ "message": null, "current_step": "two" })).as_deref(),
            Some("two")
        );
        assert_eq!(of(json!({ "percent": 0 })).as_deref(), Some("0%"));
        assert_eq!(of(json!({ "bytes_read": 7 })), None);
    }
}
