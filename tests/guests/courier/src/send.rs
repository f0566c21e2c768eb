use serde_json::{Value, json};
use wasip2::http::outgoing_handler;
use wasip2::http::types::{Fields, IncomingBody, IncomingResponse, OutgoingRequest, Scheme};
use wasip2::io::streams::StreamError;

/// Returns `{status, headers, body}` or `{error}`, with the number of redirects followed, `follow` at most.
pub(crate) fn get(url: &str, headers: Option<&Vec<Value>>, follow: u64) -> Value {
    let mut url = url.to_owned();
    for followed in 0.. {
        let mut answer = ask(&url, headers).unwrap_or_else(|error| json!({ "error": error }));
        match location(&answer).filter(|_| followed < follow) {
            Some(location) => url = location,
            None => {
                answer["followed"] = followed.into();
                return answer;
            }
        }
    }
    Value::Null
}

/// The target of a redirect.
fn location(answer: &Value) -> Option<String> {
    let status = answer["status"].as_u64()?;
    let headers = answer["headers"].as_array()?;
    let location = headers.iter().find(|header| header[0] == "location")?;
    (300..400)
        .contains(&status)
        .then(|| location[1].as_str().map(str::to_owned))?
}

fn ask(url: &str, given: Option<&Vec<Value>>) -> Result<Value, String> {
    let (scheme, rest) = url.split_once("://").ok_or("no scheme")?;
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, "/"),
    };
    let headers = Fields::new();
    for pair in given.into_iter().flatten() {
        let name = pair[0].as_str().unwrap_or_default();
        let value = pair[1].as_str().unwrap_or_default();
        headers
            .append(name, value.as_bytes())
            .map_err(|error| format!("{error:?}"))?;
    }
    let request = OutgoingRequest::new(headers);
    let scheme = match scheme {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => Scheme::Other(other.to_owned()),
    };
    request.set_scheme(Some(&scheme)).map_err(|()| "scheme")?;
    request
        .set_authority(Some(authority).filter(|authority| !authority.is_empty()))
        .map_err(|()| "authority")?;
    request
        .set_path_with_query(Some(path))
        .map_err(|()| "path")?;
    let answer = outgoing_handler::handle(request, None).map_err(|error| format!("{error:?}"))?;
    answer.subscribe().block();
    let response = match answer.get() {
        Some(Ok(Ok(response))) => response,
        other => return Err(format!("{other:?}")),
    };
    let headers: Vec<(String, String)> = response
        .headers()
        .entries()
        .into_iter()
        .map(|(name, value)| (name, String::from_utf8_lossy(&value).into_owned()))
        .collect();
    Ok(json!({ "status": response.status(), "headers": headers, "body": body(&response)? }))
}

/// Reads in small pieces, so that a secret could arrive split across reads.
fn body(response: &IncomingResponse) -> Result<String, String> {
    let body: IncomingBody = response.consume().map_err(|()| "consume")?;
    let stream = body.stream().map_err(|()| "stream")?;
    let mut read = Vec::new();
    loop {
        match stream.blocking_read(5) {
            Ok(piece) => read.extend(piece),
            Err(StreamError::Closed) => return Ok(String::from_utf8_lossy(&read).into_owned()),
            Err(error) => return Err(format!("{error:?}")),
        }
    }
}
