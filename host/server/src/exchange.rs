//! Tools in the terms of a model's API: `toolcell/export` lists them in a dialect, and `toolcell/respond` makes the
//! calls in a message of a model. In the dialect of MCP a message is an array of calls.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rmcp::RoleServer;
use rmcp::model::{CustomRequest, CustomResult, ErrorData, NumberOrString, ProgressToken};
use rmcp::service::RequestContext;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolcell::{Batch, BatchCall, CallSpec, Cancellation, ToolSet};
use toolcell_dialect::{
    CallTerms, Dialect, DialectNames, FinishedCall, ListedTool, MessageExchange, ModelCall, mcp,
    model_request,
};
use toolcell_spec::{AbortReason, CallRecord, ErrorCode, ExternalMapping, LoadingState, Refusal};

use super::asking::{AskChannel, elicit};
use super::batches::{BatchForwarder, BatchNews};
use super::call::{IncomingCall, PreparedCall, WaitingRequest, name_too_long};
use super::calls::CallPlace;
use super::exposed_tools::ExposedTool;
use super::loaded_tools::LoadedTools;
use super::notices::WantedNotices;
use super::results::ResultRoom;
use super::sent_arguments::SentArguments;
use super::session::ClientSession;
use super::{Server, ServerTools};

pub(super) const EXPORT: &str = "toolcell/export";
/// The message is in `arguments`, so that it has a call's limits of size and memory.
pub(super) const RUN: &str = "toolcell/respond";

/// Each call keeps its place of the server, and its result, until all have ended.
const CALLS_MAX: usize = 128;
/// The id is written into records, and some APIs put what a model thought into it.
const ID_BYTES_MAX: usize = 4 << 10;
const NAMES_MAX: usize = 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    dialect: String,
    #[serde(default)]
    form: AnswerFormat,
    #[serde(default, rename = "arguments")]
    _message: IgnoredAny,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum AnswerFormat {
    #[default]
    Messages,
    /// One for each call, for a client that makes the messages.
    Results,
}

impl Params {
    fn read(request: &CustomRequest) -> Result<Self, ErrorData> {
        let read = request
            .params_as::<Self>()
            .map_err(|error| invalid(format!("cannot read the params: {error}")))?;
        read.ok_or_else(|| invalid(format!("{} takes params with a dialect", request.method)))
    }

    fn dialect(&self) -> Result<Dialect, ErrorData> {
        let known = || {
            Dialect::ALL
                .iter()
                .map(|known| known.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let unknown = || {
            invalid(format!(
                "there is no dialect {:?}; choose one of: {}",
                self.dialect,
                known()
            ))
        };
        Dialect::named(&self.dialect).ok_or_else(unknown)
    }

    fn exchange(&self) -> Result<(Dialect, MessageExchange), ErrorData> {
        let dialect = self.dialect()?;
        if dialect == Dialect::Mcp {
            return Ok((dialect, mcp::PLAIN));
        }
        let none = || {
            invalid(format!(
                "the dialect {} carries no calls in messages; choose another one",
                self.dialect
            ))
        };
        Ok((dialect, dialect.exchange().ok_or_else(none)?))
    }
}

/// The message is refused as a whole.
fn too_much(calls: &[ModelCall]) -> Option<String> {
    if calls.len() > CALLS_MAX {
        let count = calls.len();
        return Some(format!(
            "the message has {count} calls; send at most {CALLS_MAX} at once"
        ));
    }
    calls.iter().find_map(|call| name_too_long(&call.name))
}

/// Refuses this call alone: the API chose the id, and the model cannot correct it.
fn id_too_long(id: &str) -> Option<Refusal> {
    let is_long = id.len() > ID_BYTES_MAX;
    is_long.then(|| {
        let message = format!(
            "the id of the call has {} bytes; send at most {ID_BYTES_MAX}",
            id.len()
        );
        Refusal::new(ErrorCode::CallIdTooLong, message)
    })
}

/// The part of the id that the record has.
fn recorded(id: &str) -> &str {
    id.get(..id.floor_char_boundary(ID_BYTES_MAX))
        .unwrap_or_default()
}

fn invalid(why: String) -> ErrorData {
    ErrorData::invalid_params(why, None)
}

struct ExportedTools<'a> {
    offering: &'a ServerTools,
    dialect: Dialect,
    names: DialectNames,
}

impl<'a> ExportedTools<'a> {
    fn new(offering: &'a ServerTools, dialect: Dialect) -> Self {
        let tools = offering.offers.offered();
        let tools = tools.map(|offer| {
            (
                offer.name.as_str(),
                offer.tool.declaration().tool_id.as_str(),
            )
        });
        Self {
            offering,
            dialect,
            names: DialectNames::new(dialect.rule(), tools),
        }
    }

    fn description(&self, offer: &ExposedTool, name: &str, is_deferred: bool) -> Value {
        offer.listed(|listed| {
            self.dialect
                .tool(&ListedTool { name, ..listed }, is_deferred)
        })
    }

    fn listed(&self, loads: &LoadedTools) -> impl Iterator<Item = (usize, &'a ExposedTool, bool)> {
        let defers = self.dialect.defers();
        let is_deferred = move |offer: &ExposedTool, is_loaded: bool| match offer.standing.state {
            LoadingState::Loaded => Some(false),
            LoadingState::Deferred | LoadingState::Discoverable if is_loaded => Some(false),
            LoadingState::Deferred if defers => Some(true),
            _ => None,
        };
        let listed = self.offering.offers.offered().enumerate();
        listed.filter_map(move |(at, offer)| {
            let deferred = is_deferred(offer, loads.has(&offer.qualified_name))?;
            Some((at, offer.as_ref(), deferred))
        })
    }

    fn described(&self, loads: &LoadedTools) -> Vec<Value> {
        let describe = |(at, offer, is_deferred): (usize, &ExposedTool, bool)| {
            self.description(offer, self.names.name(at).unwrap_or_default(), is_deferred)
        };
        self.listed(loads).map(describe).collect()
    }

    /// The fields of a request to a model (AT-SURF-11).
    fn request(&self, loads: &LoadedTools) -> Value {
        let tools = self.described(loads);
        let surface = self.offering.offers.surface();
        let listed = self.listed(loads).map(|(at, ..)| at);
        let choice = surface.choice(listed, |at| self.names.name(at));
        let parallel_calls = surface.selection().model.parallel_calls;
        model_request(self.dialect, &tools, &choice, parallel_calls)
            .unwrap_or_else(|| json!({ "tools": tools }))
    }

    /// `true` if the model has the tool's schema, as where the API can search.
    fn find(&self, name: &str, loads: &LoadedTools) -> Result<(&'a ExposedTool, bool), Refusal> {
        let offers = &self.offering.offers;
        let at = self.names.find(name).or_else(|| offers.position(name));
        let offered = at.and_then(|at| offers.offered().nth(at));
        let Some(offer) = offered else {
            return Err(self.unknown(name, loads));
        };
        Ok((offer, self.dialect.defers() || offer.is_loaded(loads)))
    }

    fn unknown(&self, name: &str, loads: &LoadedTools) -> Refusal {
        let names = self
            .listed(loads)
            .filter_map(|(at, ..)| self.names.name(at))
            .take(NAMES_MAX);
        let message = match names.collect::<Vec<_>>().as_slice() {
            [] => format!("no tool named `{name}`; no tools are available"),
            names => format!("no tool named `{name}`; available: {}", names.join(", ")),
        };
        Refusal::new(ErrorCode::UnknownTool, message)
    }
}

/// Runs in the request's task, by which rmcp knows the request of a question or a notification.
type SideTask = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Default)]
struct MessageCalls {
    calls: Vec<BatchCall>,
    asked: FuturesUnordered<SideTask>,
    told: FuturesUnordered<SideTask>,
    /// Held until all calls have ended.
    places: Vec<CallPlace>,
    ids: Vec<String>,
    is_serial: bool,
}

impl MessageCalls {
    fn add(
        &mut self,
        call: ModelCall,
        prepared: PreparedCall,
        (mapping, seen): (ExternalMapping, WaitingRequest<'_>),
        tools: &ToolSet,
    ) {
        let PreparedCall {
            spec,
            context,
            place,
            talk,
        } = prepared;
        let spec = CallSpec {
            mapping: Some(mapping),
            native_call_id: Some(recorded(&call.id).to_owned()),
            ..spec
        };
        self.ids.push(call.id);
        let wanted = seen.wanted;
        let peer = seen.context.peer.clone();
        if let Some(mut spoken) = talk.spoken {
            let peer = peer.clone();
            self.told.push(Box::pin(
                async move { spoken.pass_on(&wanted, &peer).await },
            ));
        }
        if let Some(mut questions) = talk.asks.questions {
            self.asked.push(Box::pin(async move {
                while let Some(ask) = questions.recv().await {
                    elicit(ask, peer.clone()).await;
                }
            }));
        }
        self.places.extend(place);
        // The place is the id in the batch, because a model can give two calls the same one.
        let id = self.calls.len().to_string();
        self.calls.push(tools.batch_call(id, spec, context));
    }

    /// The end of the request cancels them. Records are in the order of the calls.
    async fn run(
        mut self,
        server: &Server,
        seen: &WaitingRequest<'_>,
    ) -> Result<Vec<CallRecord>, Refusal> {
        let offering = &seen.offering;
        let count = self.calls.len();
        let (sender, mut ended) = mpsc::unbounded_channel();
        let interrupt = Cancellation::new();
        let calls = std::mem::take(&mut self.calls);
        let batch = Batch {
            policy: offering.batch_policy(self.is_serial),
            interrupt: interrupt.clone(),
            ..Batch::new(calls, Arc::new(BatchForwarder(sender)))
        };
        let batch = std::pin::pin!(offering.tools.host.batch(batch));
        let mut run = std::pin::pin!(server.until_stopped(&interrupt, || false, batch));
        let mut stopping = false;
        let mut records = Vec::new();
        let mut keeping = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                _ = &mut run => break,
                // Beside the calls, because a slow file of records must not hold up a cancellation.
                Some(news) = ended.recv() => keeping.extend(kept(server, seen, news)),
                Some(record) = keeping.next() => records.push(record),
                () = seen.ended(), if !stopping => {
                    stopping = true;
                    interrupt.cancel(AbortReason::UserInterruption);
                }
                Some(()) = self.asked.next() => {}
                Some(()) = self.told.next() => {}
            }
        }
        // The listeners were dropped with their calls, so the queues end. Open questions are withdrawn.
        while self.told.next().await.is_some() {}
        while let Ok(news) = ended.try_recv() {
            keeping.extend(kept(server, seen, news));
        }
        while let Some(record) = keeping.next().await {
            records.push(record);
        }
        records.sort_by_key(|(at, _)| *at);
        if records.len() == count {
            Ok(records.into_iter().map(|(_, record)| record).collect())
        } else {
            Err(Refusal::host_fault("the host lost a call of the message"))
        }
    }
}

/// Counts the memory of the result until the other calls have ended.
fn kept<'a>(
    server: &'a Server,
    seen: &'a WaitingRequest<'_>,
    news: BatchNews,
) -> Option<impl Future<Output = (usize, CallRecord)>> {
    let BatchNews::Ended(at, mut record) = news else {
        return None;
    };
    Some(async move {
        server.keep(&record).await;
        if let Some(room) = ResultRoom::from_context(seen.context) {
            room.collect(&mut record.result);
        }
        (at, *record)
    })
}

impl ClientSession {
    pub(super) async fn export(
        &self,
        request: CustomRequest,
        context: &RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        self.loaded(context, None).await?;
        let dialect = Params::read(&request)?.dialect()?;
        let offering = self.offering();
        let exported = ExportedTools::new(&offering, dialect);
        Ok(CustomResult::new(exported.request(self.loads(context))))
    }

    pub(super) async fn run_message(
        &self,
        request: CustomRequest,
        context: &RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        self.loaded(context, None).await?;
        let params = Params::read(&request)?;
        let (dialect, exchange) = params.exchange()?;
        let none = || {
            invalid(format!(
                "{RUN} takes the message of a model as its arguments"
            ))
        };
        let SentArguments {
            arguments: message,
            lease: _lease,
        } = SentArguments::with(context).ok_or_else(none)?;
        let terms = CallTerms::read(message.text());
        let calls = (exchange.read)(message.text()).map_err(|error| invalid(error.to_string()))?;
        if let Some(why) = too_much(&calls) {
            return Err(invalid(why));
        }
        let mut seen = self.seen(context);
        seen.workspace = self.workspace(context).await;
        let offering = Arc::clone(&seen.offering);
        let mut message = self.prepare_message((calls, &terms), &seen, dialect);
        let ids = std::mem::take(&mut message.ids);
        let lost = |refusal: Refusal| ErrorData::internal_error(refusal.message, None);
        let records = message.run(&self.server, &seen).await.map_err(lost)?;
        let mut records = self.readable(records, &offering);
        for (record, id) in records.iter_mut().zip(ids) {
            record.invocation.native_call_id = Some(id);
        }
        let ended: Vec<FinishedCall<'_>> = records
            .iter()
            .map(|record| (&record.invocation, &record.result))
            .collect();
        let (key, answers) = match params.form {
            AnswerFormat::Messages => ("messages", exchange.answers(&ended)),
            AnswerFormat::Results => (
                "results",
                ended
                    .iter()
                    .map(|(call, result)| (exchange.result)(call, result))
                    .collect(),
            ),
        };
        let facts: Vec<Value> = records.iter().map(facts).collect();
        Ok(CustomResult::new(json!({ "calls": facts, key: answers })))
    }

    fn prepare_message(
        &self,
        (calls, terms): (Vec<ModelCall>, &CallTerms),
        whole: &WaitingRequest<'_>,
        dialect: Dialect,
    ) -> MessageCalls {
        let WaitingRequest {
            offering, context, ..
        } = whole;
        let exported = ExportedTools::new(offering, dialect);
        let loads = self.loads(context);
        let surface = offering.surface_id(loads);
        let mut message = MessageCalls {
            is_serial: terms.is_serial(),
            ..MessageCalls::default()
        };
        for (at, call) in calls.into_iter().enumerate() {
            let seen = seen_by_call(at, whole);
            let found = exported.find(&call.name, loads);
            let loaded = found.as_ref().is_ok_and(|(_, loaded)| *loaded);
            let described = found
                .as_ref()
                .ok()
                .map(|(offer, _)| exported.description(offer, &call.name, !offer.is_loaded(loads)));
            let named = (recorded(&call.id), call.name.as_str());
            let mapping = terms.mapping(dialect.as_str(), named, described.as_ref());
            let offer = id_too_long(&call.id).map_or_else(|| found.map(|(offer, _)| offer), Err);
            let incoming = IncomingCall {
                name: &call.name,
                input: call.arguments.clone(),
                offer,
                loaded,
                surface: Arc::clone(&surface),
                seen: &seen,
            };
            let prepared = self.server.prepare(incoming);
            message.add(call, prepared, (mapping, seen), &offering.tools);
        }
        message
    }

    /// Makes readable what the records refer to.
    fn readable(&self, mut records: Vec<CallRecord>, offering: &ServerTools) -> Vec<CallRecord> {
        for record in &mut records {
            self.payloads()
                .put(&record.persistence, &record.result.provenance);
            self.payloads().name(&record.result.artifact_refs);
            offering.fit(&mut record.result);
        }
        records
    }
}

/// The call has a progress token of its own, `TOKEN/INDEX`, because the numbers of one token have to grow. It can only
/// wait for an answer, because its client cannot repeat it.
fn seen_by_call<'a>(at: usize, whole: &WaitingRequest<'a>) -> WaitingRequest<'a> {
    let channel = match whole.channel {
        AskChannel::Elicitation => AskChannel::Elicitation,
        AskChannel::InputRequired | AskChannel::Return | AskChannel::Wait => AskChannel::Wait,
    };
    let progress = whole.wanted.progress.clone().map(|ProgressToken(token)| {
        let token = match token {
            NumberOrString::Number(number) => format!("{number}/{at}"),
            NumberOrString::String(text) => format!("{text}/{at}"),
        };
        ProgressToken(NumberOrString::String(token.into()))
    });
    WaitingRequest {
        offering: Arc::clone(&whole.offering),
        channel,
        tasks: false,
        wanted: WantedNotices {
            progress,
            logs: whole.wanted.logs,
        },
        caller: whole.caller.clone(),
        workspace: whole.workspace.clone(),
        context: whole.context,
    }
}

fn facts(record: &CallRecord) -> Value {
    let result = &record.result;
    json!({
        "id": record.invocation.native_call_id,
        "invocation_id": result.invocation_id,
        "status": result.status,
        "is_error": result.is_error,
        "error": result.error.as_ref().map(mcp::error_facts),
    })
}
