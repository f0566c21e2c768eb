//! The header `Accept` of a client that takes anything, which the MCP library would refuse.

use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Method};

const JSON: &str = "application/json";
const STREAM: &str = "text/event-stream";

/// Applies if the client takes MCP's answers without naming their media types.
pub(super) fn name_answers(method: &Method, headers: &mut HeaderMap) {
    let (meant, types): (_, &[&str]) = match *method {
        Method::POST => (
            HeaderValue::from_static("application/json, text/event-stream"),
            &[JSON, STREAM],
        ),
        Method::GET => (HeaderValue::from_static(STREAM), &[STREAM]),
        _ => return,
    };
    if types.iter().all(|media_type| takes(headers, media_type)) {
        headers.insert(ACCEPT, meant);
    }
}

/// A client without the header accepts all (RFC 9110, 12.5.1).
fn takes(headers: &HeaderMap, media_type: &str) -> bool {
    let group = media_type.split('/').next().unwrap_or_default();
    let is_meant = |range: &str| {
        let mut parts = range.split(';').map(str::trim);
        let essence = parts.next().unwrap_or_default().to_ascii_lowercase();
        let is_refused = parts.any(|part| {
            let weight = part.strip_prefix("q=").or_else(|| part.strip_prefix("Q="));
            weight.and_then(|weight| weight.parse::<f32>().ok()) == Some(0.0)
        });
        let is_in_group = || {
            essence
                .strip_suffix("/*")
                .is_some_and(|known| known == group || known == "*")
        };
        !is_refused && (essence == media_type || is_in_group())
    };
    if !headers.contains_key(ACCEPT) {
        return true;
    }
    let ranges = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok());
    ranges.flat_map(|ranges| ranges.split(',')).any(is_meant)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(method: Method, accept: &[&str]) -> Vec<String> {
        let values = accept
            .iter()
            .map(|value| (ACCEPT, HeaderValue::from_str(value).unwrap()));
        let mut headers: HeaderMap = values.collect();
        name_answers(&method, &mut headers);
        headers
            .get_all(ACCEPT)
            .iter()
            .map(|value| value.to_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn who_takes_anything_takes_the_answers_of_mcp() {
        let both = ["application/json, text/event-stream"];
        for accept in [
            &[][..],
            &["*/*"],
            &["text/html, */*;q=0.8"],
            &["application/*", "text/event-stream"],
        ] {
            assert_eq!(named(Method::POST, accept), both, "{accept:?}");
        }
        for accept in ["text/html", "application/json", "*/*;q=0", "application/*"] {
            assert_eq!(named(Method::POST, &[accept]), [accept]);
        }
        assert_eq!(
            (named(Method::GET, &[]), named(Method::DELETE, &[])),
            (vec![STREAM.to_owned()], Vec::new())
        );
    }
}
