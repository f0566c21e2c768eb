//! One request to a server, and the whole response, which is read while the server still runs.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use http::response::Parts;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tokio::sync::oneshot::{self, Receiver};
use tokio::task::coop::unconstrained;
use wasmtime::Store;
use wasmtime::component::Accessor;
use wasmtime_wasi_http::p2::bindings::ProxyPre;
use wasmtime_wasi_http::p2::bindings::http::types::{ErrorCode, Scheme};
use wasmtime_wasi_http::p2::body::HyperOutgoingBody;
use wasmtime_wasi_http::p3::{self, bindings::ServicePre};
use wasmtime_wasi_http::{Error, WasiHttpView};

use crate::state::StoreState;
use crate::trap::ExceededLimit;

/// What a server gave until it returned.
pub(super) enum ServerAnswer {
    Response {
        head: Parts,
        body: Bytes,
        /// The body did not end.
        is_cut: bool,
    },
    /// The error in place of a response.
    Failed(String),
    Nothing,
}

type ServerResponse = Result<Response<HyperOutgoingBody>, ErrorCode>;

/// A server that goes on after its response is waited for, because it may still change something. Each of its errors is
/// the call's.
pub(super) async fn exchange(
    server: &ProxyPre<StoreState>,
    store: &mut Store<StoreState>,
    request: Request<Full<Bytes>>,
) -> wasmtime::Result<ServerAnswer> {
    let instance = server.instantiate_async(&mut *store).await?;
    let (send, receive) = oneshot::channel();
    let room = usize::try_from(store.data().partial_bytes_left).unwrap_or(usize::MAX);
    let request = request.map(|body| body.map_err(|never| -> Error { match never {} }));
    let request = (store.data_mut().http()).new_incoming_request(Scheme::Http, request)?;
    let answer = store.data_mut().http().new_response_outparam(send)?;
    let mut read = ResponseReader::new(room);
    {
        let handler = instance.wasi_http_incoming_handler();
        let mut handled = pin!(handler.call_handle(&mut *store, request, answer));
        // What the server has written must be read, whatever share of its turn it used up.
        let mut reading = pin!(unconstrained(read.read(receive)));
        tokio::select! {
            biased;
            failed = &mut reading => {
                failed?;
                handled.await?;
            }
            ended = &mut handled => {
                ended?;
                // It writes no more: what is not there now does not come.
                let mut context = Context::from_waker(Waker::noop());
                if let Poll::Ready(failed) = reading.as_mut().poll(&mut context) {
                    failed?;
                }
            }
        }
    }
    Ok(read.into_answer())
}

/// As above, but work that goes on after the response ends with the call, as in other asynchronous components.
pub(super) async fn concurrent_exchange(
    server: &ServicePre<StoreState>,
    store: &mut Store<StoreState>,
    request: Request<Full<Bytes>>,
) -> wasmtime::Result<ServerAnswer> {
    let service = server.instantiate_async(&mut *store).await?;
    let room = usize::try_from(store.data().partial_bytes_left).unwrap_or(usize::MAX);
    let request = request.map(|body| body.map_err(|never| -> Error { match never {} }));
    let (request, _) = p3::Request::from_http(store.data_mut().http().hooks, request);
    let mut reader = ResponseReader::new(room);
    let exchanged = async move |store: &Accessor<StoreState>| {
        match service.handle(store, request).await? {
            Ok(response) => {
                let none = std::future::ready(Ok(()));
                let response = store.with(|store| response.into_http(store, none))?;
                reader.keep(response).await?;
            }
            Err(code) => reader.head = Some(Err(format!("{code:?}"))),
        }
        wasmtime::error::Ok(reader)
    };
    let reader = store.run_concurrent(exchanged).await??;
    Ok(reader.into_answer())
}

/// Has what has come at any time. Trailers are dropped.
struct ResponseReader {
    head: Option<Result<Parts, String>>,
    body: BytesMut,
    is_ended: bool,
    room: usize,
}

impl ResponseReader {
    fn new(room: usize) -> Self {
        Self {
            head: None,
            body: BytesMut::new(),
            is_ended: false,
            room,
        }
    }

    /// Ends with the body, or if the server drops what it was to set.
    async fn read(&mut self, receive: Receiver<ServerResponse>) -> wasmtime::Result<()> {
        let Ok(given) = receive.await else {
            return Ok(());
        };
        match given {
            Ok(response) => self.keep(response).await,
            Err(code) => {
                self.head = Some(Err(format!("{code:?}")));
                Ok(())
            }
        }
    }

    async fn keep(&mut self, response: Response<HyperOutgoingBody>) -> wasmtime::Result<()> {
        let (head, mut body) = response.into_parts();
        self.head = Some(Ok(head));
        while let Some(frame) = body.frame().await {
            // It has another length than it declared.
            let Ok(frame) = frame else { return Ok(()) };
            let Ok(data) = frame.into_data() else {
                continue;
            };
            let room = self.room.checked_sub(data.len());
            self.room = match room {
                None if guard!("response_output") => return Err(ExceededLimit::Response.into()),
                room => room.unwrap_or_default(),
            };
            self.body.extend_from_slice(&data);
        }
        self.is_ended = true;
        Ok(())
    }

    fn into_answer(self) -> ServerAnswer {
        match self.head {
            Some(Ok(head)) => ServerAnswer::Response {
                head,
                body: self.body.freeze(),
                is_cut: !self.is_ended,
            },
            Some(Err(why)) => ServerAnswer::Failed(why),
            None => ServerAnswer::Nothing,
        }
    }
}
