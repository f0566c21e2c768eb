use serde_json::{Value, json};
use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    Fields, FutureIncomingResponse, IncomingBody, IncomingResponse, Method, OutgoingBody,
    OutgoingRequest, RequestOptions, Scheme,
};
use wasip2::io::streams::StreamError;

/// Maximum part of a body that is reported, in bytes.
const SHOWN_BYTES_MAX: usize = 4_000;
const CHUNK_BYTES: usize = 32 << 10;

/// Sends the requests one after the other.
pub(crate) fn in_turn(requests: &[Value]) -> Vec<Value> {
    requests
        .iter()
        .map(|request| told(start(request).and_then(|sent| finish(sent, request))))
        .collect()
}

/// Sends all requests before it reads any response.
pub(crate) fn at_once(requests: &[Value]) -> Vec<Value> {
    let started: Vec<_> = requests
        .iter()
        .map(|request| (start(request), request))
        .collect();
    started
        .into_iter()
        .map(|(sent, request)| told(sent.and_then(|sent| finish(sent, request))))
        .collect()
}

/// `error` begins with the name of the step that failed.
fn told(answer: Result<Value, String>) -> Value {
    answer.unwrap_or_else(|error| json!({ "error": error }))
}

struct Sent {
    answer: FutureIncomingResponse,
    /// The outcome of the upload, if the request has a body.
    uploaded: Option<Value>,
    unfinished: Option<OutgoingBody>,
}

fn start(request: &Value) -> Result<Sent, String> {
    let text = |name: &str| request[name].as_str();
    let number = |name: &str| request[name].as_u64();
    let headers = Fields::new();
    for pair in request["headers"].as_array().into_iter().flatten() {
        let name = pair[0].as_str().unwrap_or_default();
        let value = pair[1].as_str().unwrap_or_default();
        headers
            .append(name, value.as_bytes())
            .map_err(|error| format!("header {name}: {error:?}"))?;
    }
    let outgoing = OutgoingRequest::new(headers);
    let scheme = match text("scheme").unwrap_or("http") {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => Scheme::Other(other.to_owned()),
    };
    outgoing
        .set_scheme(Some(&scheme))
        .map_err(|()| "scheme".to_owned())?;
    outgoing
        .set_authority(text("authority"))
        .map_err(|()| "authority".to_owned())?;
    outgoing
        .set_path_with_query(Some(text("path").unwrap_or("/")))
        .map_err(|()| "path".to_owned())?;
    outgoing
        .set_method(&method(text("method").unwrap_or("GET")))
        .map_err(|()| "method".to_owned())?;
    let options = RequestOptions::new();
    let ms = |name: &str| number(name).map(|ms| ms * 1_000_000);
    let _ = options.set_connect_timeout(ms("connect_ms"));
    let _ = options.set_first_byte_timeout(ms("first_byte_ms"));
    let _ = options.set_between_bytes_timeout(ms("between_bytes_ms"));
    let wanted = number("body_bytes");
    let body = wanted
        .map(|_| outgoing.body().map_err(|()| "body".to_owned()))
        .transpose()?;
    let answer = outgoing_handler::handle(outgoing, Some(options))
        .map_err(|error| format!("handle: {error:?}"))?;
    let mut sent = Sent {
        answer,
        uploaded: None,
        unfinished: None,
    };
    if let (Some(body), Some(bytes)) = (body, wanted) {
        sent.uploaded = Some(match upload(&body, bytes) {
            Ok(()) => json!("sent"),
            Err((after, error)) => json!({ "after": after, "error": format!("{error:?}") }),
        });
        if request["finish"].as_bool() == Some(false) {
            sent.unfinished = Some(body);
        } else if let Err(error) = OutgoingBody::finish(body, None) {
            sent.uploaded = Some(json!({ "error": format!("finish: {error:?}") }));
        }
    }
    Ok(sent)
}

fn upload(body: &OutgoingBody, bytes: u64) -> Result<(), (u64, StreamError)> {
    let stream = body.write().map_err(|()| (0, StreamError::Closed))?;
    let chunk = [b'u'; CHUNK_BYTES];
    let mut left = bytes;
    while left > 0 {
        let error = |error| (bytes - left, error);
        let ready = loop {
            match stream.check_write().map_err(error)? {
                0 => stream.subscribe().block(),
                ready => break ready,
            }
        };
        let now = left.min(ready).min(CHUNK_BYTES as u64);
        stream.write(&chunk[..now as usize]).map_err(error)?;
        left -= now;
    }
    Ok(())
}

fn finish(sent: Sent, request: &Value) -> Result<Value, String> {
    sent.answer.subscribe().block();
    let uploaded = sent.uploaded;
    let failed = |error: String| match &uploaded {
        Some(uploaded) => format!("{error} (body: {uploaded})"),
        None => error,
    };
    let response = match sent.answer.get() {
        Some(Ok(Ok(response))) => response,
        Some(Ok(Err(error))) => return Err(failed(format!("answer: {error:?}"))),
        other => return Err(failed(format!("answer: {other:?}"))),
    };
    drop(sent.unfinished);
    let mut seen = json!({
        "status": response.status(),
        "headers": response.headers().entries().into_iter()
            .map(|(name, value)| json!([name, String::from_utf8_lossy(&value)])).collect::<Vec<_>>(),
    });
    if request["leave_body"].as_bool() != Some(true) {
        let (bytes, text, error) = read(
            &response,
            request["read_bytes_max"].as_u64().unwrap_or(u64::MAX),
        );
        seen["bytes"] = bytes.into();
        seen["body"] = text.into();
        seen["body_error"] = error.map_or(Value::Null, Value::String);
    }
    Ok(seen)
}

fn read(response: &IncomingResponse, most: u64) -> (u64, String, Option<String>) {
    let mut bytes = 0;
    let mut shown = Vec::new();
    let Ok(body) = response.consume() else {
        return (0, String::new(), Some("consume".to_owned()));
    };
    let error = {
        let Ok(stream) = body.stream() else {
            return (0, String::new(), Some("stream".to_owned()));
        };
        loop {
            match stream.blocking_read(64 << 10) {
                Ok(chunk) => {
                    bytes += chunk.len() as u64;
                    let room = SHOWN_BYTES_MAX.saturating_sub(shown.len());
                    shown.extend_from_slice(&chunk[..chunk.len().min(room)]);
                    if bytes >= most {
                        break None;
                    }
                }
                Err(StreamError::Closed) => break None,
                Err(StreamError::LastOperationFailed(error)) => {
                    break Some(match wasip2::http::types::http_error_code(&error) {
                        Some(code) => format!("{code:?}"),
                        None => error.to_debug_string(),
                    });
                }
            }
        }
    };
    drop::<IncomingBody>(body);
    (bytes, String::from_utf8_lossy(&shown).into_owned(), error)
}

fn method(word: &str) -> Method {
    match word {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "CONNECT" => Method::Connect,
        "OPTIONS" => Method::Options,
        "TRACE" => Method::Trace,
        "PATCH" => Method::Patch,
        other => Method::Other(other.to_owned()),
    }
}
