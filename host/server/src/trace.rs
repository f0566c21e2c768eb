//! The places of clients' calls in distributed traces (W3C Trace Context).

use http::HeaderMap;
use rmcp::RoleServer;
use rmcp::service::RequestContext;
use serde_json::Value;
use toolcell_spec::TraceContext;

use super::ServerTools;

const PARENT: &str = "traceparent";
const STATE: &str = "tracestate";

/// Reads the request's `_meta`, the HTTP request, or the `session`. Malformed values are ignored.
pub(super) fn of_mcp(
    offering: &ServerTools,
    session: Option<&str>,
    context: &RequestContext<RoleServer>,
) -> Option<TraceContext> {
    let word = |name: &str| context.meta.get(name).and_then(Value::as_str);
    let of_meta = word(PARENT).and_then(|parent| TraceContext::parse(parent, word(STATE)));
    let of_http = || of_headers(&context.extensions.get::<http::request::Parts>()?.headers);
    of_meta
        .or_else(of_http)
        .or_else(|| offering.telemetry.as_ref()?.trace(session))
}

pub(super) fn of_headers(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all(PARENT).iter();
    let (Some(parent), None) = (parents.next(), parents.next()) else {
        return None;
    };
    // Several headers are one list.
    let states = headers
        .get_all(STATE)
        .iter()
        .map(|state| state.to_str().ok())
        .collect::<Option<Vec<_>>>();
    let state = states
        .filter(|states| !states.is_empty())
        .map(|states| states.join(","));
    TraceContext::parse(parent.to_str().ok()?, state.as_deref())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_request_has_one_parent_and_its_states_are_one_list() {
        let parent =
            HeaderValue::from_static("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        let mut headers = HeaderMap::new();
        assert_eq!(of_headers(&headers), None);
        headers.append(PARENT, parent.clone());
        ["a=1", "b=2"]
            .into_iter()
            .for_each(|state| _ = headers.append(STATE, HeaderValue::from_static(state)));
        assert_eq!(of_headers(&headers).unwrap().state(), Some("a=1,b=2"));
        headers.append(PARENT, parent);
        assert_eq!(of_headers(&headers), None);
    }
}
