//! A server of WASI 0.3: its path says what it does.

use wasip3::http::client;
use wasip3::http::types::{ErrorCode, Fields, Method, Request, Response, Scheme};
use wasip3::{wit_bindgen, wit_future, wit_stream};

wasip3::http::service::export!(Service);

struct Service;

const CHUNK: usize = 65_536;

impl wasip3::exports::http::handler::Guest for Service {
    async fn handle(request: Request) -> Result<Response, ErrorCode> {
        let target = request.get_path_with_query().unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        match path {
            "/echo" => {
                let method = request.get_method();
                let (_, ended) = wit_future::new(|| Ok(()));
                let (body, _) = Request::consume_body(request, ended);
                let body = body.collect().await;
                let is_post = matches!(method, Method::Post);
                let text = format!("{is_post} {query} {}", String::from_utf8_lossy(&body));
                Ok(answer(200, text.into_bytes(), 1))
            }
            "/missing" => Ok(answer(404, b"no such pet".to_vec(), 1)),
            "/fail" => Err(ErrorCode::InternalError(Some("no database".to_owned()))),
            "/panic" => panic!("before the response"),
            "/flood" => Ok(answer(200, vec![b'x'; CHUNK], usize::MAX)),
            "/hang" => {
                let (send, receive) = wit_stream::new();
                std::mem::forget(send);
                Ok(respond(200, receive))
            }
            "/fetch" => Ok(answer(200, fetch(query).await.into_bytes(), 1)),
            _ => Ok(answer(200, b"hello".to_vec(), 1)),
        }
    }
}

fn respond(status: u16, body: wit_bindgen::rt::async_support::StreamReader<u8>) -> Response {
    let (trailers, end) = wit_future::new(|| Ok(None));
    let (response, _) = Response::new(Fields::new(), Some(body), end);
    drop(trailers);
    response.set_status_code(status).unwrap();
    response
}

fn answer(status: u16, bytes: Vec<u8>, times: usize) -> Response {
    let (mut send, receive) = wit_stream::new();
    wit_bindgen::spawn_local(async move {
        for _ in 0..times {
            if !send.write_all(bytes.clone()).await.is_empty() {
                return;
            }
        }
    });
    respond(status, receive)
}

async fn fetch(authority: &str) -> String {
    let (trailers, end) = wit_future::new(|| Ok(None));
    let (request, _) = Request::new(Fields::new(), None, end, None);
    drop(trailers);
    request.set_scheme(Some(&Scheme::Http)).unwrap();
    request.set_path_with_query(Some("/")).unwrap();
    if request.set_authority(Some(authority)).is_err() {
        return "no authority".to_owned();
    }
    match client::send(request).await {
        Ok(response) => response.get_status_code().to_string(),
        Err(error) => format!("{error:?}"),
    }
}
