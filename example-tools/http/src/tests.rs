use std::{cell::RefCell, env, fs, process, rc::Rc};

use toolcell_guest::{
    ErrorClass, Outcome, ToolError, http,
    serde_json::{Value, json},
    testing::{self, Served},
};

use crate::Toolkit;

type Seen = Rc<RefCell<Vec<http::Request>>>;

/// A path, and the status, the headers and the body of its response.
type Page = (
    &'static str,
    u16,
    &'static [(&'static str, &'static str)],
    &'static [u8],
);

/// Serves `https://ex.test/`. Returns the requests.
fn serving(pages: &'static [Page]) -> Seen {
    testing::reset();
    let seen = Seen::default();
    let requests = Rc::clone(&seen);
    testing::serve(move |request| {
        requests.borrow_mut().push(request.clone());
        let path = request.url.strip_prefix("https://ex.test");
        let page = pages.iter().find(|(known, ..)| Some(*known) == path);
        let (_, status, headers, body) = page.ok_or(http::Error::NotAllowed)?;
        let headers = headers.iter();
        Ok(Served {
            status: *status,
            headers: headers
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            body: body.chunks(10).map(<[u8]>::to_vec).collect(),
        })
    });
    seen
}

fn done(tool: &str, input: Value) -> Value {
    match testing::invoke::<Toolkit>(tool, input) {
        Outcome::Success(output) => output.structured.unwrap(),
        other => panic!("{other:?}"),
    }
}

fn refused(tool: &str, input: Value) -> ToolError {
    match testing::invoke::<Toolkit>(tool, input) {
        Outcome::Failure(error) => error,
        other => panic!("{other:?}"),
    }
}

const JSON: &[(&str, &str)] = &[
    ("Content-Type", "application/json"),
    ("X-A", "1"),
    ("x-a", "2"),
];

#[test]
fn status_headers_and_text_come_back() {
    serving(&[
        ("/a", 200, JSON, b"{\"a\": 1}"),
        ("/missing", 404, &[], b"no such page"),
        ("/empty", 204, &[], b""),
    ]);
    let answer = done("get", json!({"url": "https://ex.test/a#part"}));
    let expected = json!({
        "status": 200, "url": "https://ex.test/a", "bytes": 8, "text": "{\"a\": 1}",
        "headers": {"content-type": "application/json", "x-a": "1, 2"},
    });
    assert_eq!(answer, expected);
    let answer = done("get", json!({"url": "https://ex.test/missing"}));
    assert_eq!(
        (&answer["status"], &answer["text"]),
        (&json!(404), &json!("no such page"))
    );
    let answer = done("get", json!({"url": "https://ex.test/empty"}));
    assert_eq!((&answer["bytes"], answer.get("text")), (&json!(0), None));
    let answer = done("get", json!({"url": "https://ex.test/a", "method": "HEAD"}));
    assert_eq!((&answer["status"], answer.get("text")), (&json!(200), None));
}

#[test]
fn a_request_has_its_method_headers_and_body() {
    let seen = serving(&[("/", 201, &[], b"ok")]);
    let url = "https://ex.test/";
    done(
        "send",
        json!({"url": url, "json": {"a": [1]}, "headers": {"X-B": "c"}}),
    );
    done(
        "send",
        json!({"url": url, "method": "PUT", "body": "text", "headers": {"Content-Type": "text/csv"}}),
    );
    done("send", json!({"url": url, "method": "DELETE"}));
    let shown: Vec<String> = seen
        .borrow()
        .iter()
        .map(|request| format!("{request:?}"))
        .collect();
    for (at, parts) in [
        (
            0,
            &[
                "\"POST\"",
                "\"application/json\"",
                "(\"X-B\", \"c\")",
                "toolcell-http/",
            ][..],
        ),
        (1, &["\"PUT\"", "(\"Content-Type\", \"text/csv\")"]),
        (2, &["\"DELETE\"", "body: None"]),
    ] {
        for part in parts {
            assert!(shown[at].contains(part), "{part} is not in {}", shown[at]);
        }
    }
    assert!(!shown[1].contains("text/plain"), "{}", shown[1]);
    let error = refused("send", json!({"url": url, "body": "a", "json": 1}));
    assert_eq!(error.code, "two_bodies");
}

#[test]
fn urls_and_headers_are_checked_before_anybody_is_asked() {
    for url in [
        "",
        "ex.test",
        "/a",
        "file:///etc/passwd",
        "ftp://ex.test/",
        "https://user:pass@ex.test/",
        "https://",
    ] {
        let error = testing::validate::<Toolkit>("get", json!({"url": url})).unwrap_err();
        assert_eq!(error.code, "invalid_url", "{url}");
    }
    for (name, value) in [
        ("", "x"),
        ("a b", "x"),
        ("a:", "x"),
        ("x", "a\r\nhost: b"),
        ("x", "a\0"),
        ("Host", "other.test"),
        ("content-length", "1"),
        ("Transfer-Encoding", "chunked"),
        ("Authorization", "Bearer x"),
        ("Cookie", "a=b"),
        ("x", &"y".repeat(9_000)),
    ] {
        let input = json!({"url": "https://ex.test/", "headers": {name: value}});
        for tool in ["get", "send", "get_authorized", "send_authorized"] {
            let error = testing::validate::<Toolkit>(tool, input.clone()).unwrap_err();
            assert_eq!(error.code, "invalid_header", "{name}");
        }
    }
    let many: Value = (0..51)
        .map(|number| (format!("x{number}"), json!("y")))
        .collect::<Vec<_>>()
        .into_iter()
        .collect();
    let input = json!({"url": "https://ex.test/", "headers": many});
    assert!(testing::validate::<Toolkit>("get", input).is_err());
    assert_eq!(
        testing::validate::<Toolkit>("get", json!({"url": "https://ex.test/"})),
        Ok(())
    );
}

#[test]
fn redirects_are_reported_or_followed_on_the_same_host() {
    serving(&[
        ("/1", 302, &[("location", "2?x")], b""),
        ("/2?x", 308, &[("location", "/3#part")], b""),
        ("/3", 200, &[], b"there"),
        ("/away", 301, &[("location", "https://other.test/")], b""),
        ("/file", 301, &[("location", "file:///etc/passwd")], b""),
        ("/none", 301, &[], b""),
        ("/loop", 307, &[("location", "/loop")], b""),
    ]);
    let get = |path: &str, follow: bool| {
        done(
            "get",
            json!({"url": format!("https://ex.test{path}"), "follow": follow}),
        )
    };
    let answer = get("/1", false);
    assert_eq!(
        (&answer["status"], &answer["redirect"]),
        (&json!(302), &json!("https://ex.test/2?x"))
    );
    let answer = get("/1", true);
    assert_eq!(
        (&answer["url"], &answer["text"]),
        (&json!("https://ex.test/3"), &json!("there"))
    );
    assert_eq!(get("/away", true)["redirect"], "https://other.test/");
    for path in ["/file", "/none"] {
        assert_eq!(get(path, true).get("redirect"), None, "{path}");
    }
    let error = refused(
        "get",
        json!({"url": "https://ex.test/loop", "follow": true}),
    );
    assert_eq!(error.code, "too_many_redirects");
    let answer = done("send", json!({"url": "https://ex.test/1"}));
    assert_eq!(answer["status"], 302);
}

const MANY: &[(&str, &str)] = &[("a", "x"); 200];

#[test]
fn answers_are_bounded() {
    serving(&[
        (
            "/long",
            200,
            &[("content-type", "text/plain")],
            b"caf\xc3\xa9 au lait, and more",
        ),
        (
            "/png",
            200,
            &[("content-type", "image/png")],
            b"\x89PNG\0 and more of it",
        ),
        ("/headers", 200, MANY, b""),
    ]);
    let answer = done(
        "get",
        json!({"url": "https://ex.test/long", "max_bytes": 4}),
    );
    assert_eq!(
        (&answer["text"], &answer["truncated"]),
        (&json!("caf"), &json!(true))
    );
    let answer = done("get", json!({"url": "https://ex.test/png"}));
    assert_eq!((&answer["bytes"], answer.get("text")), (&json!(20), None));
    let answer = done("get", json!({"url": "https://ex.test/headers"}));
    assert_eq!(answer["headers_cut"], true);
    let error = refused("get", json!({"url": "https://other.test/"}));
    assert_eq!(
        (&error.class, error.code.as_str()),
        (&ErrorClass::ExecutionFailed, "not_allowed")
    );
    assert!(
        error.message.starts_with("https://other.test/: "),
        "{error}"
    );
}

#[test]
fn a_download_is_complete_or_nothing() {
    serving(&[
        ("/a.bin", 200, &[], b"\0\x01\x02 and twenty bytes"),
        ("/lies", 200, &[("content-length", "999999999")], b"x"),
        ("/missing", 404, &[], b"no"),
    ]);
    let folder = env::temp_dir().join(format!("toolcell-http-{}", process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("a.bin").display().to_string();
    let input = |page: &str| json!({"url": format!("https://ex.test{page}"), "save_to": path, "max_bytes": 100});
    assert_eq!(refused("download", input("/lies")).code, "too_large");
    let answer = done("download", input("/missing"));
    assert_eq!(
        (&answer["status"], answer.get("saved_to")),
        (&json!(404), None)
    );
    let mut small = input("/a.bin");
    small["max_bytes"] = json!(15);
    assert_eq!(refused("download", small).code, "too_large");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);

    let answer = done("download", input("/a.bin"));
    assert_eq!(
        (&answer["bytes"], &answer["saved_to"]),
        (&json!(20), &json!(path))
    );
    assert_eq!(fs::read(&path).unwrap(), b"\0\x01\x02 and twenty bytes");
    assert_eq!(refused("download", input("/a.bin")).code, "already_exists");
    let mut again = input("/a.bin");
    again["overwrite"] = json!(true);
    assert_eq!(done("download", again)["bytes"], 20);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    fs::remove_dir_all(folder).unwrap();
}
