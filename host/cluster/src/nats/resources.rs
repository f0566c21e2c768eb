//! Streams and buckets of a cluster. The version of the protocol is in the names of those that calls go through: two versions
//! share none of them.

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::object_store::{self, ObjectStore};
use async_nats::jetstream::stream::{self, DiscardPolicy, RetentionPolicy};
use async_nats::jetstream::{Context, kv};

use super::{ClusterError, ClusterSettings};

/// The version of the protocol. A worker takes the calls of the one before, too, and a gateway speaks the oldest one that a
/// worker has: so machines are upgraded one by one, workers first.
pub const PROTOCOL: u32 = 1;
/// The longest time for which a question is open.
const ASKED: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// For so long, an ended call is found again by its id.
const KEPT: Duration = Duration::from_secs(2 * 60 * 60);

pub(super) struct Resources {
    pub(super) calls: kv::Store,
    pub(super) objects: ObjectStore,
    pub(super) queue: PullConsumer,
    /// By the name of the worker.
    pub(super) workers: kv::Store,
    /// By the id of the call in its worker's records.
    pub(super) approvals: kv::Store,
}

pub(super) fn queue_name(protocol: u32) -> String {
    format!("toolcell-{protocol}-queue")
}

pub(super) fn queue_subject(protocol: u32) -> String {
    format!("toolcell.{protocol}.queue")
}

pub(super) fn events_subject(protocol: u32, call: &str) -> String {
    format!("toolcell.{protocol}.events.{call}")
}

/// The streams of a protocol, and those of all.
pub(super) fn stream_names(protocol: u32) -> [String; 5] {
    [
        queue_name(protocol),
        format!("KV_toolcell-{protocol}-calls"),
        format!("OBJ_toolcell-{protocol}-objects"),
        "KV_toolcell-workers".to_owned(),
        "KV_toolcell-approvals".to_owned(),
    ]
}

impl Resources {
    pub(super) async fn open(
        context: &Context,
        settings: &ClusterSettings,
    ) -> Result<Self, ClusterError> {
        let calls = calls(context, settings).await?;
        let objects = objects(context, settings).await?;
        let queue = queue(context, settings).await?;
        let workers = workers(context, settings).await?;
        let approvals = bucket(context, settings, "toolcell-approvals", ASKED).await;
        let approvals = approvals.map_err(|error| failed("the bucket of approvals", error))?;
        Ok(Self {
            workers,
            approvals,
            calls,
            objects,
            queue,
        })
    }
}

async fn calls(context: &Context, settings: &ClusterSettings) -> Result<kv::Store, ClusterError> {
    let name = format!("toolcell-{}-calls", settings.protocol);
    bucket(context, settings, &name, KEPT)
        .await
        .map_err(|error| failed("the bucket of calls", error))
}

async fn workers(context: &Context, settings: &ClusterSettings) -> Result<kv::Store, ClusterError> {
    bucket(context, settings, "toolcell-workers", super::workers::KEPT)
        .await
        .map_err(|error| failed("the bucket of workers", error))
}

/// A bucket that the leader answers for: a replica may not have the latest value yet, and a call that seems not to be there
/// is over. The client's own function lets any replica answer.
async fn bucket(
    context: &Context,
    settings: &ClusterSettings,
    bucket: &str,
    max_age: Duration,
) -> Result<kv::Store, async_nats::Error> {
    let config = stream::Config {
        name: format!("KV_{bucket}"),
        subjects: vec![format!("$KV.{bucket}.>")],
        max_messages_per_subject: 1,
        max_age,
        discard: DiscardPolicy::New,
        allow_rollup: true,
        deny_delete: true,
        allow_direct: false,
        num_replicas: settings.replicas,
        ..stream::Config::default()
    };
    // Another process may have made it, with other settings: those of the first one hold.
    let stream = context.get_or_create_stream(config).await?;
    if stream.cached_info().config.allow_direct {
        return Err("any replica answers for it: remove it, so that it is made anew".into());
    }
    Ok(context.get_key_value(bucket).await?)
}

async fn objects(
    context: &Context,
    settings: &ClusterSettings,
) -> Result<ObjectStore, ClusterError> {
    let bucket = format!("toolcell-{}-objects", settings.protocol);
    if let Ok(store) = context.get_object_store(&bucket).await {
        return Ok(store);
    }
    let config = object_store::Config {
        bucket,
        description: Some("Large arguments and results, by digest".to_owned()),
        max_age: KEPT,
        num_replicas: settings.replicas,
        ..object_store::Config::default()
    };
    context
        .create_object_store(config)
        .await
        .map_err(|error| failed("the bucket of objects", error))
}

async fn queue(
    context: &Context,
    settings: &ClusterSettings,
) -> Result<PullConsumer, ClusterError> {
    let config = stream::Config {
        name: queue_name(settings.protocol),
        subjects: vec![queue_subject(settings.protocol)],
        retention: RetentionPolicy::WorkQueue,
        // The newest is refused, and its caller told so; none is dropped.
        discard: DiscardPolicy::New,
        max_messages: settings.queue_max,
        max_age: KEPT,
        num_replicas: settings.replicas,
        ..stream::Config::default()
    };
    let queue = context
        .get_or_create_stream(config)
        .await
        .map_err(|error| failed("the queue", error))?;
    let lease = settings.lease.time;
    // The time is in the name: an existing consumer keeps its own.
    let name = format!("workers-{}", lease.as_millis());
    let config = pull::Config {
        durable_name: Some(name.clone()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: lease,
        // The claims count; a message is delivered until its call has ended.
        max_deliver: -1,
        // Each worker asks for as many as it has places.
        max_ack_pending: -1,
        max_waiting: 16_384,
        ..pull::Config::default()
    };
    queue
        .get_or_create_consumer(&name, config)
        .await
        .map_err(|error| {
            let why = format!("{error}; all processes of a cluster have the same `lease`");
            failed("the consumer of the queue", why)
        })
}

fn failed(what: &'static str, error: impl std::fmt::Display) -> ClusterError {
    let error = error.to_string();
    ClusterError::Resource { what, error }
}
