use toolcell_guest::{
    ErrorClass, Outcome, http,
    serde_json::{Value, json},
    testing::{self, Served},
};

use super::*;

/// URL, status, headers and body.
type Page<'a> = (&'static str, u16, &'a [(&'a str, &'a str)], &'a str);

/// Sets up a server that has only `pages`.
fn serving(pages: &[Page<'_>]) {
    testing::reset();
    let pages: Vec<(&str, Served)> = pages
        .iter()
        .map(|(url, status, headers, body)| {
            let headers = headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            (
                *url,
                Served {
                    status: *status,
                    headers,
                    body: body.as_bytes().chunks(1_000).map(<[u8]>::to_vec).collect(),
                },
            )
        })
        .collect();
    testing::serve(move |request| {
        let page = pages.iter().find(|(url, _)| *url == request.url);
        page.map(|(_, served)| served.clone())
            .ok_or(http::Error::NotAllowed)
    });
}

fn call(input: Value) -> Outcome {
    testing::invoke::<Toolkit>("fetch", input)
}

fn fetched(url: &str) -> (String, Value) {
    match call(json!({ "url": url })) {
        Outcome::Success(output) => {
            let content = json!(output.content);
            (
                content[0]["text"].as_str().unwrap_or_default().to_owned(),
                output.structured.unwrap_or_default(),
            )
        }
        other => panic!("{other:?}"),
    }
}

fn failed(input: Value) -> (ErrorClass, String) {
    match call(input) {
        Outcome::Failure(error) => (error.class, error.code),
        other => panic!("{other:?}"),
    }
}

const HTML: &[(&str, &str)] = &[("Content-Type", "text/html; charset=utf-8")];

#[test]
fn a_page_becomes_markdown_without_what_surrounds_it() {
    let page = "<!doctype html><html><head><title> A\n page </title><style>p {}</style></head><body><nav>Menu</nav>
        <main><h1>Head</h1><p>Some <b>bold</b> text, a <a href='../b?c#d'>link</a>.</p>
        <ul><li>one<li>two</ul><pre><code>let a = 1;</code></pre><img alt='Pic' src='/p.png'>
        <table><tr><th>K</th><th>V</th></tr><tr><td>a</td><td>1</td></tr></table></main>
        <script>alert(1)</script><footer>Imprint</footer></body></html>";
    serving(&[("https://ex.test/x/a", 200, HTML, page)]);
    let (text, structured) = fetched("https://ex.test/x/a#part");
    for part in [
        "# Head",
        "**bold**",
        "[link](https://ex.test/b?c#d)",
        "one",
        "let a = 1;",
        "![Pic](https://ex.test/p.png)",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(text.contains("| K") && text.contains("| a"), "{text}");
    for noise in ["Menu", "alert", "Imprint", "p {}"] {
        assert!(!text.contains(noise), "{noise} is in {text}");
    }
    let expected = json!({"url": "https://ex.test/x/a", "title": "A page", "content_type": "text/html", "bytes": page.len()});
    assert_eq!(structured, expected);
    assert_eq!(
        testing::progress().last().map(|update| update.bytes_read),
        Some(Some(page.len() as u64))
    );
}

#[test]
fn text_and_json_come_as_they_are() {
    serving(&[
        (
            "https://ex.test/t",
            200,
            &[("content-type", "text/plain")],
            "a < b\n",
        ),
        (
            "https://ex.test/j",
            200,
            &[("content-type", "application/problem+json")],
            "{\"a\":[1]}",
        ),
    ]);
    assert_eq!(fetched("https://ex.test/t").0, "a < b\n");
    assert_eq!(
        fetched("https://ex.test/j").0,
        "```json\n{\n  \"a\": [\n    1\n  ]\n}\n```"
    );
}

#[test]
fn a_page_is_read_in_the_encoding_that_it_names() {
    testing::reset();
    testing::serve(|_| {
        let body = b"<meta charset=\"iso-8859-1\"><body>caf\xe9</body>".to_vec();
        Ok(Served {
            status: 200,
            headers: Vec::new(),
            body: vec![body],
        })
    });
    assert_eq!(fetched("https://ex.test/").0, "caf\u{e9}");
}

#[test]
fn redirects_are_followed_a_few_times_and_only_to_the_web() {
    let to = |location: &'static str| -> Vec<(&'static str, &'static str)> {
        vec![("Location", location)]
    };
    serving(&[
        ("https://ex.test/1", 302, &to("2?x"), ""),
        ("https://ex.test/2?x", 308, &to("//ex.test/3"), ""),
        ("https://ex.test/3", 200, HTML, "<p>there"),
        ("https://ex.test/loop", 301, &to("/loop"), ""),
        ("https://ex.test/file", 301, &to("file:///etc/passwd"), ""),
        ("https://ex.test/none", 301, &[], ""),
        ("https://ex.test/away", 301, &to("https://other.test/"), ""),
    ]);
    let (text, structured) = fetched("https://ex.test/1");
    assert_eq!(
        (text.as_str(), &structured["url"]),
        ("there", &json!("https://ex.test/3"))
    );
    let code = |url: &str| failed(json!({ "url": url })).1;
    assert_eq!(code("https://ex.test/loop"), "too_many_redirects");
    assert_eq!(code("https://ex.test/file"), "bad_redirect");
    assert_eq!(code("https://ex.test/none"), "bad_redirect");
    assert_eq!(code("https://ex.test/away"), "not_allowed");
}

#[test]
fn what_cannot_be_given_back_is_an_error_with_its_reason() {
    let long = "x".repeat(5_000);
    serving(&[
        (
            "https://ex.test/png",
            200,
            &[("content-type", "image/png")],
            "\u{0}",
        ),
        (
            "https://ex.test/zero",
            200,
            &[("content-type", "text/plain")],
            "a\u{0}b",
        ),
        ("https://ex.test/long", 200, HTML, &long),
        (
            "https://ex.test/said",
            200,
            &[("content-type", "text/plain"), ("content-length", "99999")],
            "x",
        ),
        ("https://ex.test/gone", 404, HTML, ""),
        ("https://ex.test/busy", 429, &[("retry-after", "7")], ""),
        ("https://ex.test/teapot", 418, HTML, ""),
    ]);
    let of = |url: &str| failed(json!({ "url": url, "max_bytes": 4_000 }));
    assert_eq!(
        of("https://ex.test/png"),
        (ErrorClass::CapabilityGap, "not_text".to_owned())
    );
    assert_eq!(of("https://ex.test/zero").1, "not_text");
    assert_eq!(
        of("https://ex.test/long"),
        (ErrorClass::ResultTooLarge, "too_large".to_owned())
    );
    assert_eq!(of("https://ex.test/said").1, "too_large");
    assert_eq!(of("https://ex.test/gone").1, "not_found");
    assert_eq!(of("https://ex.test/teapot").1, "http_status");
    assert_eq!(of("https://other.test/").1, "not_allowed");
    assert_eq!(of("ftp://ex.test/").1, "invalid_url");
    assert_eq!(of("ex.test").1, "invalid_url");
    let Outcome::Failure(busy) = call(json!({ "url": "https://ex.test/busy" })) else {
        panic!("it worked")
    };
    assert_eq!(
        (busy.class, busy.retry_after),
        (
            ErrorClass::RateLimited,
            Some(std::time::Duration::from_secs(7))
        )
    );
}

#[test]
fn a_page_that_is_made_to_exhaust_its_reader_is_refused() {
    let deep = format!("<body>{}", "<div>".repeat(2_000));
    serving(&[("https://ex.test/", 200, HTML, &deep)]);
    assert_eq!(failed(json!({ "url": "https://ex.test/" })).1, "too_deep");
}
