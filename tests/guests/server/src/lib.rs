//! A server that answers what it got, and breaks every promise of `wasi:http/incoming-handler`, by path.

use std::io::Read;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, IncomingBody, IncomingRequest, Method, OutgoingBody, OutgoingRequest,
    OutgoingResponse, ResponseOutparam, Scheme,
};

wasip2::http::proxy::export!(Server);

struct Server;

const CHUNK: usize = 4_096;

impl wasip2::exports::http::incoming_handler::Guest for Server {
    fn handle(request: IncomingRequest, answer: ResponseOutparam) {
        let target = request.path_with_query().unwrap_or_default();
        let path = target.split('?').next().unwrap_or_default();
        let (first, rest) = path
            .trim_start_matches('/')
            .split_once('/')
            .unwrap_or((path.trim_start_matches('/'), ""));
        match first {
            "echo" => send(
                answer,
                200,
                &[("content-type", b"application/json")],
                echo(&request).to_string().as_bytes(),
            ),
            "count" => send(answer, 200, &[], counted().to_string().as_bytes()),
            "status" => send(
                answer,
                rest.parse().unwrap_or(200),
                &[
                    ("content-type", b"application/problem+json"),
                    ("retry-after", b"7"),
                ],
                br#"{"detail":"no such pet"}"#,
            ),
            "json" => send(
                answer,
                200,
                &[("content-type", b"application/json")],
                br#"{"n":1.10,"pets":["Rex"]}"#,
            ),
            "not-json" => send(answer, 200, &[("content-type", b"application/json")], b"{"),
            "bytes" => send(
                answer,
                200,
                &[("content-type", b"image/png")],
                &vec![0xff; rest.parse().unwrap_or(1)],
            ),
            "headers" => send(
                answer,
                200,
                &[("x-a", b"1"), ("x-a", b"2"), ("x-b", b"\xff")],
                b"",
            ),
            "invalid-headers" => send(answer, 200, &[], invalid_headers().to_string().as_bytes()),
            "many-headers" => many_headers(answer),
            "fetch" => send(answer, 200, &[], fetch(&target).as_bytes()),
            "file" => send(answer, 200, &[], file(rest).as_bytes()),
            "env" => send(
                answer,
                200,
                &[],
                format!("{:?}", std::env::vars().collect::<Vec<_>>()).as_bytes(),
            ),
            "print" => {
                println!("printed");
                send(answer, 200, &[], b"done");
            }
            "silent" => drop(answer),
            "leak" => std::mem::forget(answer),
            "error" => ResponseOutparam::set(
                answer,
                Err(ErrorCode::InternalError(Some("no database".to_owned()))),
            ),
            "panic" => panic!("before the response"),
            "panic-after-head" => {
                std::mem::forget(begin(answer, 200, &[]));
                panic!("after the head");
            }
            "unfinished" => {
                let body = begin(answer, 200, &[]);
                write(&body, b"half of it");
                std::mem::forget(body);
            }
            "hanging" => {
                let body = begin(answer, 200, &[]);
                write(&body, b"half of it");
                std::thread::sleep(Duration::from_secs(3_600));
            }
            "short" => {
                let body = begin(answer, 200, &[("content-length", b"100")]);
                write(&body, b"too short");
                let _ = OutgoingBody::finish(body, None);
            }
            "endless" => endless(&begin(answer, 200, &[])),
            "trailers" => trailers(answer),
            "spin" => loop {
                std::hint::spin_loop();
            },
            "after" => {
                send(answer, 200, &[], b"answered");
                println!("after the answer");
            }
            "spin-after" => {
                send(answer, 200, &[], b"answered");
                loop {
                    std::hint::spin_loop();
                }
            }
            _ => send(answer, 404, &[], b""),
        }
    }
}

fn fields(headers: &[(&str, &[u8])]) -> Fields {
    let fields = Fields::new();
    for (name, value) in headers {
        fields.append(name, value).unwrap();
    }
    fields
}

fn begin(answer: ResponseOutparam, status: u16, headers: &[(&str, &[u8])]) -> OutgoingBody {
    let response = OutgoingResponse::new(fields(headers));
    response.set_status_code(status).unwrap();
    let body = response.body().unwrap();
    ResponseOutparam::set(answer, Ok(response));
    body
}

fn write(body: &OutgoingBody, bytes: &[u8]) {
    let stream = body.write().unwrap();
    for chunk in bytes.chunks(CHUNK) {
        stream.blocking_write_and_flush(chunk).unwrap();
    }
}

fn send(answer: ResponseOutparam, status: u16, headers: &[(&str, &[u8])], bytes: &[u8]) {
    let body = begin(answer, status, headers);
    write(&body, bytes);
    OutgoingBody::finish(body, None).unwrap();
}

fn counted() -> u32 {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    CALLS.fetch_add(1, Ordering::Relaxed) + 1
}

fn echo(request: &IncomingRequest) -> Value {
    let headers: serde_json::Map<String, Value> = request
        .headers()
        .entries()
        .into_iter()
        .map(|(name, value)| (name, String::from_utf8_lossy(&value).into()))
        .collect();
    let body = request.consume().unwrap();
    let mut bytes = Vec::new();
    body.stream().unwrap().read_to_end(&mut bytes).unwrap();
    drop(IncomingBody::finish(body));
    let method = match request.method() {
        Method::Other(name) => name,
        known => format!("{known:?}"),
    };
    json!({
        "method": method,
        "target": request.path_with_query(),
        "authority": request.authority(),
        "headers": headers,
        "body": String::from_utf8_lossy(&bytes),
    })
}

/// Headers that no response may have: each is refused where it is set.
fn invalid_headers() -> Value {
    let fields = Fields::new();
    let set = |name: &str, value: &[u8]| fields.append(name, value).is_ok();
    json!([
        set("a b", b"1"),
        set("x", b"1\r\nset-cookie: 2"),
        set("transfer-encoding", b"chunked"),
        set("connection", b"close"),
        set("fine", b"1"),
    ])
}

/// Until the host ends it.
fn many_headers(answer: ResponseOutparam) {
    let fields = Fields::new();
    loop {
        if fields.append("x-many", &[b'x'; 1_000]).is_err() {
            return send(answer, 500, &[], b"refused");
        }
    }
}

fn trailers(answer: ResponseOutparam) {
    let body = begin(answer, 200, &[]);
    write(&body, b"with trailers");
    OutgoingBody::finish(body, Some(fields(&[("x-sum", b"1")]))).unwrap();
}

fn endless(body: &OutgoingBody) {
    let stream = body.write().unwrap();
    loop {
        if stream.blocking_write_and_flush(&[b'x'; CHUNK]).is_err() {
            return;
        }
    }
}

/// A GET request to the authority that is the query.
fn fetch(target: &str) -> String {
    let request = OutgoingRequest::new(Fields::new());
    let authority = target
        .split_once('?')
        .map_or("", |(_, authority)| authority);
    request.set_scheme(Some(&Scheme::Http)).unwrap();
    request.set_path_with_query(Some("/")).unwrap();
    if request.set_authority(Some(authority)).is_err() {
        return "no authority".to_owned();
    }
    let pending = match outgoing_handler::handle(request, None) {
        Ok(pending) => pending,
        Err(error) => return format!("{error:?}"),
    };
    pending.subscribe().block();
    match pending.get() {
        Some(Ok(Ok(response))) => response.status().to_string(),
        other => format!("{:?}", other.and_then(Result::ok).and_then(Result::err)),
    }
}

fn file(path: &str) -> String {
    std::fs::read_to_string(format!("/{path}")).unwrap_or_else(|error| error.kind().to_string())
}
