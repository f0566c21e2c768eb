//! `near:agent/host`, for IronClaw's tools: same grants, limits and records as toolcell's interfaces and WASI.

use std::time::Duration;

use serde_json::{Map, Value};
use toolcell_executor::ChildOutput;
use toolcell_spec::read_json;
use wasmtime::StoreContextMut;
use wasmtime::component::Linker;
use wasmtime_wasi::clocks::WasiClocksView;
use wasmtime_wasi::p2::bindings::clocks::wall_clock;
use wasmtime_wasi_http::Error;

use super::tools;
use crate::bindings::near::near::agent::host::{
    HttpErrorKind, HttpFailure, HttpResponse, LogLevel,
};
use crate::egress::{RequestFailure, WholeRequest, WholeResponse};
use crate::filesystem::read_text;
use crate::state::StoreState;

const REQUEST_TIME: Duration = Duration::from_secs(30);
const HEADERS_MAX: usize = 256;

type HttpArguments = (String, String, String, Option<Vec<u8>>, Option<u32>);
type HttpResult = Result<HttpResponse, HttpFailure>;

/// Written by hand, because calling another tool takes fuel from the store.
pub(crate) fn add_to_linker(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    let mut host = linker.instance("near:agent/host@0.4.1")?;
    host.func_wrap(
        "log",
        |mut store: StoreContextMut<'_, StoreState>, (level, message): (LogLevel, String)| {
            log(store.data_mut(), level, &message);
            Ok(())
        },
    )?;
    host.func_wrap(
        "now-millis",
        |mut store: StoreContextMut<'_, StoreState>, (): ()| Ok((now_millis(store.data_mut())?,)),
    )?;
    host.func_wrap(
        "secret-exists",
        |store: StoreContextMut<'_, StoreState>, (name,): (String,)| {
            let gate = store.data().egress.gate();
            Ok((gate.is_some_and(|gate| gate.carries(&name)),))
        },
    )?;
    host.func_wrap_async(
        "workspace-read",
        |store: StoreContextMut<'_, StoreState>, (path,): (String,)| {
            Box::new(workspace_read(store, path))
        },
    )?;
    host.func_wrap_async(
        "tool-invoke",
        |store: StoreContextMut<'_, StoreState>, (alias, params): (String, String)| {
            Box::new(tool_invoke(store, alias, params))
        },
    )?;
    host.func_wrap_async(
        "http-request",
        |store: StoreContextMut<'_, StoreState>, request: HttpArguments| {
            Box::new(http_request(store, request))
        },
    )
}

fn log(state: &mut StoreState, level: LogLevel, message: &str) {
    let level = match level {
        LogLevel::Trace => "trace",
        LogLevel::Debug => "debug",
        LogLevel::Info => "info",
        LogLevel::Warn => "warn",
        LogLevel::Error => "error",
    };
    state.log_line(level, message, None);
}

fn now_millis(state: &mut StoreState) -> wasmtime::Result<u64> {
    let now = wall_clock::Host::now(&mut state.clocks())?;
    Ok(now
        .seconds
        .saturating_mul(1_000)
        .saturating_add(u64::from(now.nanoseconds / 1_000_000)))
}

async fn workspace_read(
    mut store: StoreContextMut<'_, StoreState>,
    path: String,
) -> wasmtime::Result<(Option<String>,)> {
    Ok((read_text(store.data_mut(), &path).await?,))
}

async fn tool_invoke(
    store: StoreContextMut<'_, StoreState>,
    alias: String,
    params: String,
) -> wasmtime::Result<(Result<String, String>,)> {
    let answered = tools::answered(store, alias, params).await?;
    Ok((answered
        .map(output)
        .map_err(|error| format!("{}: {}", error.error_code, error.message)),))
}

fn output(output: ChildOutput) -> String {
    output.structured.unwrap_or(output.content)
}

async fn http_request(
    store: StoreContextMut<'_, StoreState>,
    request: HttpArguments,
) -> wasmtime::Result<(HttpResult,)> {
    let state = store.data();
    let Some(gate) = state.egress.shared_gate() else {
        let message = "requests are sent during a call only";
        return Ok((Err(failure(
            HttpErrorKind::NetworkDenied,
            "no_network",
            message,
            false,
        )),));
    };
    // The body counts as memory of the call twice, because the host keeps it until the guest has its copy.
    let room = if guard!("whole_memory") {
        state.limiter.left() / 2
    } else {
        usize::MAX
    };
    let (method, url, headers, body, timeout_ms) = request;
    let headers = match named(&headers) {
        Ok(headers) => headers,
        Err(rule) => return Ok((Err(malformed(rule)),)),
    };
    let within = timeout_ms.map_or(REQUEST_TIME, |ms| Duration::from_millis(ms.into()));
    let ask = WholeRequest {
        method,
        url,
        headers,
        body: body.unwrap_or_default(),
        within,
        room,
    };
    Ok((ask.send(gate).await.map(response).map_err(unanswered),))
}

fn response(told: WholeResponse) -> HttpResponse {
    let headers: Map<String, Value> = told
        .headers
        .into_iter()
        .map(|(name, value)| (name, value.into()))
        .collect();
    HttpResponse {
        status: told.status,
        headers_json: Value::Object(headers).to_string(),
        body: told.body,
    }
}

fn named(headers: &str) -> Result<Vec<(String, String)>, &'static str> {
    if headers.trim().is_empty() {
        return Ok(Vec::new());
    }
    let headers: Map<String, Value> = read_json(headers, HEADERS_MAX)
        .map_err(|_| "the headers are not a JSON object of at most 256 values")?;
    let pair = |(name, value)| match value {
        Value::String(value) => Ok((name, value)),
        _ => Err("the value of a header is not a text"),
    };
    headers.into_iter().map(pair).collect()
}

fn malformed(rule: &'static str) -> HttpFailure {
    failure(HttpErrorKind::Input, "request_malformed", rule, false)
}

fn unanswered(why: RequestFailure) -> HttpFailure {
    match why {
        RequestFailure::Malformed(rule) => malformed(rule),
        RequestFailure::TooLarge(bytes) => {
            let message = format!("the body is larger than {bytes} bytes");
            failure(
                HttpErrorKind::OutputTooLarge,
                "body_too_large",
                &message,
                true,
            )
        }
        RequestFailure::Failed(error) => {
            let (kind, code, sent) = classed(&error);
            failure(kind, code, &error.to_string(), sent)
        }
    }
}

/// The flag: something may have been sent. The host records denials itself, whatever a guest makes of the kind.
fn classed(error: &Error) -> (HttpErrorKind, &'static str, bool) {
    match error {
        Error::HttpRequestDenied | Error::DestinationIpProhibited => {
            (HttpErrorKind::NetworkDenied, "denied", false)
        }
        Error::ConnectionLimitReached => (HttpErrorKind::NetworkDenied, "request_limit", false),
        Error::HttpRequestMethodInvalid
        | Error::HttpRequestUriInvalid
        | Error::HttpRequestUriTooLong => (HttpErrorKind::Input, "request_malformed", false),
        Error::HttpRequestBodySize(_) => (HttpErrorKind::Input, "request_too_large", true),
        Error::HttpResponseBodySize(_) | Error::HttpResponseHeaderSectionSize(_) => {
            (HttpErrorKind::OutputTooLarge, "response_too_large", true)
        }
        Error::DnsError { .. } | Error::DnsTimeout => {
            (HttpErrorKind::Client, "name_not_found", false)
        }
        Error::ConnectionRefused
        | Error::ConnectionTimeout
        | Error::DestinationUnavailable
        | Error::TlsCertificateError
        | Error::TlsProtocolError => (HttpErrorKind::Client, "not_connected", false),
        Error::HttpResponseTimeout | Error::ConnectionReadTimeout => {
            (HttpErrorKind::Client, "timeout", true)
        }
        Error::ConfigurationError => (HttpErrorKind::Executor, "host_fault", false),
        _ => (HttpErrorKind::Client, "request_failed", true),
    }
}

fn failure(kind: HttpErrorKind, code: &str, message: &str, request_sent: bool) -> HttpFailure {
    HttpFailure {
        kind,
        code: Some(code.to_owned()),
        message: Some(message.to_owned()),
        request_sent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_an_object_of_texts() {
        assert_eq!(named(" ").unwrap(), []);
        assert_eq!(named("{}").unwrap(), []);
        assert_eq!(
            named(r#"{"Accept": "a/b"}"#).unwrap(),
            [("Accept".to_owned(), "a/b".to_owned())]
        );
        let many = (0..300)
            .map(|n| format!("\"h{n}\": \"\""))
            .collect::<Vec<_>>()
            .join(",");
        for headers in [
            "[]",
            "null",
            r#"{"a": 1}"#,
            r#"{"a": ["b"]}"#,
            "{",
            &format!("{{{many}}}"),
        ] {
            assert!(named(headers).is_err(), "{headers}");
        }
    }

    #[test]
    fn what_was_not_sent_is_known() {
        let of = |error: Error| {
            let (kind, _, sent) = classed(&error);
            (
                format!("{kind:?}")
                    .to_lowercase()
                    .replace("httperrorkind::", ""),
                sent,
            )
        };
        for (error, kind, sent) in [
            (Error::HttpRequestDenied, "networkdenied", false),
            (Error::DestinationIpProhibited, "networkdenied", false),
            (Error::ConnectionRefused, "client", false),
            (Error::HttpResponseTimeout, "client", true),
            (Error::HttpResponseBodySize(Some(1)), "outputtoolarge", true),
            (Error::HttpProtocolError, "client", true),
        ] {
            assert_eq!(of(error), (kind.to_owned(), sent));
        }
    }
}
