//! The request of a call, from its arguments: spelled out by the caller, or placed by a route.

use std::collections::BTreeMap;
use std::fmt::Write;

use bytes::Bytes;
use data_encoding::BASE64;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::Full;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use toolcell_spec::dialect::routes::{
    METHOD_BYTES_MAX, ParameterPlace, ParameterStyle, PathPart, RouteRequest, is_reserved_header,
};
use toolcell_spec::{ErrorCode, JSON_VALUES_MAX, read_json};

use super::Outcome;
use crate::bindings::tool::toolcell::tool::types::ErrorClass;
use crate::egress::escaped;
use crate::world::answer;

/// No server is reached by a name: this one is for libraries that need one.
const AUTHORITY: &str = "localhost";
const TARGET_BYTES_MAX: usize = 8 << 10;
/// All that a path or a query can hold unescaped, in any place.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

const TEXT_TYPE: &str = "text/plain; charset=utf-8";
const BYTES_TYPE: &str = "application/octet-stream";
const JSON_TYPE: &str = "application/json";
const FORM_TYPE: &str = "application/x-www-form-urlencoded";

type ServerRequest = Request<Full<Bytes>>;

pub(super) fn refused(why: String) -> Outcome {
    let code = ErrorCode::RequestInvalid.as_str();
    answer::failure(ErrorClass::InvalidArguments, code, why)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SpelledRequest {
    method: Option<String>,
    path: Option<String>,
    query: Option<SpelledQuery>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// As it was written, because a number may have more digits than a float.
    body: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum SpelledQuery {
    Text(String),
    Fields(Map<String, Value>),
}

pub(super) fn spelled_out(input: &str, header_bytes: usize) -> Result<ServerRequest, String> {
    let unread = |error| format!("cannot read the arguments: {error}");
    let spelled: SpelledRequest = read_json(input, JSON_VALUES_MAX).map_err(unread)?;
    let mut draft = RequestDraft::new(spelled.method.as_deref().unwrap_or("GET"))?;
    let path = spelled.path.as_deref().unwrap_or("/");
    if !path.starts_with('/') || path.contains('#') {
        return Err(format!(
            "the path {path:?} does not begin with /, or has a fragment"
        ));
    }
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    draft.path = escaped(path);
    draft.add_text(query);
    match spelled.query {
        Some(SpelledQuery::Text(text)) => draft.add_text(text.trim_start_matches('?')),
        Some(SpelledQuery::Fields(fields)) => {
            for (name, value) in &fields {
                draft.add(name, value, ParameterStyle::Repeated)?;
            }
        }
        None => {}
    }
    for (name, value) in &spelled.headers {
        draft.add_header(name, value)?;
    }
    if let Some(body) = &spelled.body {
        draft.set_body(body.get(), None)?;
    }
    draft.finish(header_bytes)
}

pub(super) fn routed(
    route: &RouteRequest,
    input: &str,
    header_bytes: usize,
) -> Result<ServerRequest, String> {
    let unread = |error| format!("cannot read the arguments: {error}");
    let mut arguments: BTreeMap<String, Box<RawValue>> =
        read_json(input, JSON_VALUES_MAX).map_err(unread)?;
    let mut draft = RequestDraft::new(&route.method)?;
    for part in route.path_parts()? {
        match part {
            PathPart::Text(text) => draft.path.push_str(text),
            PathPart::Argument(name) => {
                let value = arguments
                    .remove(name)
                    .map(|value| value_of(&value))
                    .transpose()?;
                draft.path += &path_segment(name, value.as_ref())?;
            }
        }
    }
    for (argument, parameter) in &route.parameters {
        let Some(value) = arguments.remove(argument) else {
            continue;
        };
        let value = value_of(&value)?;
        let name = parameter.name.as_ref().unwrap_or(argument);
        match parameter.place {
            ParameterPlace::Query => draft.add(name, &value, parameter.style)?,
            ParameterPlace::Header if value.is_null() => {}
            ParameterPlace::Header => draft.add_header(name, &comma_list(name, &value)?)?,
        }
    }
    if let Some(body) = &route.body
        && let Some(value) = arguments.remove(&body.argument)
    {
        draft.set_body(value.get(), Some(&body.media_type))?;
    }
    match arguments.keys().next() {
        Some(name) => Err(format!("the argument {name:?} has no place in the request")),
        None => draft.finish(header_bytes),
    }
}

fn value_of(raw: &RawValue) -> Result<Value, String> {
    serde_json::from_str(raw.get()).map_err(|error| error.to_string())
}

/// A value leads to no other route: it is one segment, and not one that a server could take for a step upwards.
fn path_segment(name: &str, value: Option<&Value>) -> Result<String, String> {
    let value = value.ok_or_else(|| format!("the argument {name:?} is missing"))?;
    let text = comma_list(name, value)?;
    if matches!(text.as_str(), "" | "." | "..") && guard!("route_paths") {
        return Err(format!(
            "the argument {name:?} cannot be {text:?}, because it is a part of the path"
        ));
    }
    Ok(encoded(&text))
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// A text, a number, true or false.
fn scalar(name: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        _ => Err(format!(
            "the value of {name:?} is not a text, a number, true or false"
        )),
    }
}

fn comma_list(name: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::Array(items) => {
            let items = items.iter().map(|item| scalar(name, item));
            Ok(items.collect::<Result<Vec<_>, _>>()?.join(","))
        }
        _ => scalar(name, value),
    }
}

struct RequestDraft {
    method: Method,
    path: String,
    query: String,
    headers: HeaderMap,
    body: Option<Bytes>,
}

impl RequestDraft {
    fn new(method: &str) -> Result<Self, String> {
        let method = method.to_ascii_uppercase();
        let known = Method::from_bytes(method.as_bytes()).ok();
        let known =
            known.filter(|known| *known != Method::CONNECT && method.len() <= METHOD_BYTES_MAX);
        Ok(Self {
            method: known.ok_or_else(|| format!("{method:?} is not a method of requests"))?,
            path: String::new(),
            query: String::new(),
            headers: HeaderMap::new(),
            body: None,
        })
    }

    /// Text that is a query already.
    fn add_text(&mut self, text: &str) {
        if !text.is_empty() {
            self.begin();
            self.query += &escaped(text);
        }
    }

    fn begin(&mut self) {
        if !self.query.is_empty() {
            self.query.push('&');
        }
    }

    fn add_one(&mut self, name: &str, text: &str) {
        self.begin();
        // Writing to a String cannot fail.
        let _ = write!(self.query, "{}={}", encoded(name), encoded(text));
    }

    fn add(&mut self, name: &str, value: &Value, style: ParameterStyle) -> Result<(), String> {
        match value {
            Value::Null => {}
            Value::Array(items) if style != ParameterStyle::Comma => {
                for item in items {
                    self.add_one(name, &scalar(name, item)?);
                }
            }
            Value::Object(fields) => {
                for (field, value) in fields {
                    let name = match style {
                        ParameterStyle::Deep => format!("{name}[{field}]"),
                        _ => field.clone(),
                    };
                    self.add_one(&name, &comma_list(&name, value)?);
                }
            }
            value => self.add_one(name, &comma_list(name, value)?),
        }
        Ok(())
    }

    fn add_header(&mut self, name: &str, value: &str) -> Result<(), String> {
        if is_reserved_header(name) && guard!("request_headers") {
            return Err(format!(
                "no call may send the header {name:?}: it belongs to the connection, or is a credential, and all arguments are on \
                 record"
            ));
        }
        let invalid = || format!("the header {name:?} is not valid");
        let header = HeaderName::try_from(name).map_err(|_| invalid())?;
        let value = HeaderValue::from_str(value).map_err(|_| invalid())?;
        self.headers
            .try_append(header, value)
            .map_err(|_| invalid())?;
        Ok(())
    }

    /// `media_type`: of a route; otherwise the value says it.
    fn set_body(&mut self, json: &str, media_type: Option<&str>) -> Result<(), String> {
        let value: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let is_json = media_type.is_some_and(|kind| kind.ends_with("json"));
        let (bytes, kind) = match (value, base64(json)) {
            (Value::Null, _) if !is_json => return Ok(()),
            (_, Some(data)) if !is_json => (data?, BYTES_TYPE),
            (Value::Object(fields), _) if media_type == Some(FORM_TYPE) => {
                let mut form = Self::new("GET")?;
                for (name, value) in &fields {
                    form.add(name, value, ParameterStyle::Repeated)?;
                }
                (form.query.into(), FORM_TYPE)
            }
            (Value::String(text), _) if !is_json => (text.into(), TEXT_TYPE),
            _ => (Bytes::copy_from_slice(json.as_bytes()), JSON_TYPE),
        };
        self.body = Some(bytes);
        if !self.headers.contains_key(CONTENT_TYPE) {
            let kind = media_type.unwrap_or(kind);
            let kind =
                HeaderValue::from_str(kind).map_err(|_| format!("{kind:?} is not a media type"))?;
            self.headers.insert(CONTENT_TYPE, kind);
        }
        Ok(())
    }

    fn finish(mut self, header_bytes: usize) -> Result<ServerRequest, String> {
        let size = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len();
        if self.headers.iter().map(size).sum::<usize>() > header_bytes {
            return Err(format!("the headers have more than {header_bytes} bytes"));
        }
        let mut target = self.path;
        if !self.query.is_empty() {
            target = format!("{target}?{}", self.query);
        }
        if target.len() > TARGET_BYTES_MAX {
            return Err(format!(
                "path and query have more than {TARGET_BYTES_MAX} bytes"
            ));
        }
        if !target.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("path and query have a character that must be escaped".to_owned());
        }
        let uri = Uri::builder()
            .scheme("http")
            .authority(AUTHORITY)
            .path_and_query(target)
            .build()
            .map_err(|error| format!("path and query are not valid: {error}"))?;
        if let Some(body) = &self.body {
            self.headers
                .insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        }
        let mut request = Request::new(Full::new(self.body.unwrap_or_default()));
        *request.method_mut() = self.method;
        *request.uri_mut() = uri;
        *request.headers_mut() = self.headers;
        Ok(request)
    }
}

/// `None` if the value is not marked as data.
fn base64(json: &str) -> Option<Result<Bytes, String>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Data {
        base64: String,
    }
    // An array would be read as one, too.
    let data: Data = serde_json::from_str(json)
        .ok()
        .filter(|_| json.trim_start().starts_with('{'))?;
    let decoded = BASE64.decode(data.base64.as_bytes()).map(Bytes::from);
    Some(
        decoded
            .map_err(|error| format!("cannot decode the body: {error}; write base64 with padding")),
    )
}

#[cfg(test)]
mod tests;
