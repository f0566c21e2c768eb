//! Requests over `wasi:http`. Only in WebAssembly.

use std::time::Duration;

use wasip2::{
    http::{
        outgoing_handler,
        types::{
            ErrorCode, Fields, IncomingBody, Method, OutgoingBody, OutgoingRequest, RequestOptions,
            Scheme, http_error_code,
        },
    },
    io::streams::{InputStream, StreamError},
};

use super::{Error, Request, Response};

/// Maximum size of one read or write, in bytes.
const CHUNK: usize = 64 << 10;

/// The unread rest of a response body.
#[derive(Debug)]
pub(crate) struct Body {
    // Declared first, because a child resource must be dropped before its parent.
    stream: InputStream,
    _body: IncomingBody,
}

pub(crate) fn send(request: Request) -> Result<Response, Error> {
    let outgoing = outgoing(&request)?;
    let body = match &request.body {
        Some(_) => Some(outgoing.body().map_err(|()| invalid("its body"))?),
        None => None,
    };
    let options = request.timeout.map(options);
    let answer = outgoing_handler::handle(outgoing, options).map_err(error)?;
    if let (Some(body), Some(bytes)) = (body, &request.body) {
        // A server may respond before it has read everything, so a failed upload is not an error.
        let _ = upload(&body, bytes);
        let _ = OutgoingBody::finish(body, None);
    }
    answer.subscribe().block();
    let response = match answer.get() {
        Some(Ok(response)) => response.map_err(error)?,
        _ => return Err(Error::Broken("nothing came".to_owned())),
    };
    let headers = response.headers().entries();
    let headers = headers
        .into_iter()
        .filter_map(|(name, value)| Some((name, String::from_utf8(value).ok()?)));
    let body = response
        .consume()
        .map_err(|()| Error::Broken("it has no body".to_owned()))?;
    let stream = body
        .stream()
        .map_err(|()| Error::Broken("it has no body".to_owned()))?;
    Ok(Response {
        status: response.status(),
        headers: headers.collect(),
        body: Body {
            stream,
            _body: body,
        },
    })
}

fn outgoing(request: &Request) -> Result<OutgoingRequest, Error> {
    let (scheme, rest) = request
        .url
        .split_once("://")
        .ok_or_else(|| invalid("its URL is not absolute"))?;
    let rest = rest.split('#').next().unwrap_or_default();
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    };
    let headers = Fields::new();
    for (name, value) in &request.headers {
        headers
            .append(name, value.as_bytes())
            .map_err(|_| Error::Invalid(format!("the header {name}")))?;
    }
    if let Some(body) = &request.body {
        let length = body.len().to_string();
        headers
            .append("content-length", length.as_bytes())
            .map_err(|_| invalid("its length"))?;
    }
    let outgoing = OutgoingRequest::new(headers);
    let scheme = match scheme {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        _ => return Err(invalid("its URL is neither http nor https")),
    };
    outgoing
        .set_scheme(Some(&scheme))
        .map_err(|()| invalid("its scheme"))?;
    outgoing
        .set_authority(Some(authority))
        .map_err(|()| invalid("its host"))?;
    outgoing
        .set_path_with_query(Some(&path))
        .map_err(|()| invalid("its path"))?;
    outgoing
        .set_method(&method(&request.method))
        .map_err(|()| invalid("its method"))?;
    Ok(outgoing)
}

fn options(timeout: Duration) -> RequestOptions {
    let nanoseconds = u64::try_from(timeout.as_nanos()).ok();
    let options = RequestOptions::new();
    // A host without a kind of timeout keeps its own.
    let _ = options.set_connect_timeout(nanoseconds);
    let _ = options.set_first_byte_timeout(nanoseconds);
    let _ = options.set_between_bytes_timeout(nanoseconds);
    options
}

fn upload(body: &OutgoingBody, bytes: &[u8]) -> Result<(), StreamError> {
    let stream = body.write().map_err(|()| StreamError::Closed)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        let room = match stream.check_write()? {
            0 => {
                stream.subscribe().block();
                continue;
            }
            room => usize::try_from(room)
                .unwrap_or(CHUNK)
                .min(CHUNK)
                .min(rest.len()),
        };
        let (now, later) = rest.split_at(room);
        stream.write(now)?;
        rest = later;
    }
    Ok(())
}

impl Body {
    pub(crate) fn chunk(&mut self) -> Result<Option<Vec<u8>>, Error> {
        match self.stream.blocking_read(CHUNK as u64) {
            Ok(chunk) => Ok(Some(chunk)),
            Err(StreamError::Closed) => Ok(None),
            Err(StreamError::LastOperationFailed(failed)) => Err(match http_error_code(&failed) {
                Some(code) => error(code),
                None => Error::Broken(failed.to_debug_string()),
            }),
        }
    }
}

fn method(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "OPTIONS" => Method::Options,
        "PATCH" => Method::Patch,
        other => Method::Other(other.to_owned()),
    }
}

fn invalid(what: &str) -> Error {
    Error::Invalid(what.to_owned())
}

fn error(code: ErrorCode) -> Error {
    match code {
        ErrorCode::HttpRequestDenied | ErrorCode::DestinationIpProhibited => Error::NotAllowed,
        ErrorCode::ConnectionLimitReached
        | ErrorCode::HttpResponseBodySize(_)
        | ErrorCode::HttpRequestBodySize(_)
        | ErrorCode::HttpResponseHeaderSectionSize(_) => Error::Limit,
        ErrorCode::ConnectionTimeout
        | ErrorCode::ConnectionReadTimeout
        | ErrorCode::ConnectionWriteTimeout
        | ErrorCode::HttpResponseTimeout
        | ErrorCode::DnsTimeout => Error::Timeout,
        ErrorCode::DnsError(_) | ErrorCode::DestinationNotFound => {
            Error::Unreachable("no such host".to_owned())
        }
        ErrorCode::ConnectionRefused => Error::Unreachable("the connection was refused".to_owned()),
        ErrorCode::TlsCertificateError => {
            Error::Unreachable("it cannot prove to be who it says".to_owned())
        }
        ErrorCode::DestinationUnavailable
        | ErrorCode::ConnectionTerminated
        | ErrorCode::TlsProtocolError => Error::Unreachable(format!("{code:?}")),
        code => Error::Broken(format!("{code:?}")),
    }
}
