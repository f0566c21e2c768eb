//! The page of `toolcell inspect`, over HTTP as a browser speaks it, and as none would.
//!
//! Promise: The page is for one browser.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::ops::{Deref, DerefMut};
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::approvals::Place;
use super::guest;
use crate::support::{Browser, BrowserAnswer, Home, Toolcell, encoded, fixture, scratch};

/// A program that serves the page, and ends with its test.
struct Page {
    child: Child,
    browser: Browser,
    code: String,
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Page {
    /// Not opened yet.
    fn closed(command: Toolcell) -> Self {
        let mut child = command.spawn();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = lines.find(|line| line.as_ref().unwrap().starts_with("Page at "));
        let line = line.unwrap().unwrap();
        let url = line.strip_prefix("Page at http://").unwrap();
        let (address, code) = url.split_once("/enter?code=").unwrap();
        Self {
            child,
            browser: Browser::at(address),
            code: code.to_owned(),
        }
    }

    fn open(command: Toolcell) -> Self {
        let mut page = Self::closed(command);
        let entered = page.enter().is(200);
        page.keep_cookie(&entered);
        page
    }

    fn enter(&self) -> BrowserAnswer {
        self.send(&format!(
            "GET /enter?code={} HTTP/1.1\r\nhost: {}\r\n\r\n",
            self.code, self.address
        ))
    }
}

impl Deref for Page {
    type Target = Browser;

    fn deref(&self) -> &Browser {
        &self.browser
    }
}

impl DerefMut for Page {
    fn deref_mut(&mut self) -> &mut Browser {
        &mut self.browser
    }
}

fn id(record: &Value) -> String {
    let id = record["invocation"]["invocation_id"].as_str();
    id.unwrap().to_owned()
}

const HOSTILE: &str = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&\u{202e}\u{1b}[2J";
/// The same as text of a page.
const HARMLESS: &str = "&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror=alert(2)&gt;&quot;'&amp;\\u{202e}\\u{1b}[2J";

#[test]
fn the_address_lets_one_browser_in() {
    let home = Home::new();
    let page = Page::closed(home.toolcell(&["inspect"]));
    for path in [
        "/",
        "/approvals",
        "/tools",
        "/workspaces",
        "/changes",
        "/calls/X",
        "/nothing",
    ] {
        let refused = page.get(path).is(401);
        assert!(refused.text().contains("open the address"), "{path}");
    }
    let wrong = format!(
        "GET /enter?code=0 HTTP/1.1\r\nhost: {}\r\n\r\n",
        page.address
    );
    page.send(&wrong).is(403);
    let entered = page.enter().is(200);
    assert!(entered.text().contains("url=/\""), "{}", entered.text());
    let cookie = entered.header("set-cookie").unwrap().to_owned();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let again = page.enter().is(403);
    assert!(again.text().contains("was used") && again.header("set-cookie").is_none());
    let mut page = page;
    page.cookie = cookie.split(';').next().unwrap().to_owned();
    page.get("/").is(200);
    // A name of another port, and a token that nobody made.
    let forged = format!("{}0", page.cookie);
    let renamed = page.cookie.replacen("toolcell-page-", "toolcell-page-1", 1);
    for other in [forged, renamed, "toolcell-page=".to_owned()] {
        page.cookie = other;
        page.get("/").is(401);
    }
}

#[test]
fn every_answer_keeps_other_pages_out() {
    let home = Home::new();
    let page = Page::open(home.toolcell(&["inspect"]));
    for path in ["/", "/page.js", "/nothing", "/enter?code=1"] {
        let answer = page.get(path);
        let policy = answer.header("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("cache-control", "no-store"),
            ("referrer-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{path}");
        }
    }
    let body = page.get("/").text();
    assert!(
        !body.contains("style=") && !body.contains("<script>") && !body.contains(" onload="),
        "{body}"
    );
    // Names that point at this machine, and none.
    for host in ["evil.test", "localhost:1", "127.0.0.1", "0.0.0.0:80"] {
        let request = format!(
            "GET / HTTP/1.1\r\nhost: {host}\r\ncookie: {}\r\n\r\n",
            page.cookie
        );
        page.send(&request).is(421);
    }
    let (_, port) = page.address.split_once(':').unwrap();
    let request = format!(
        "GET / HTTP/1.1\r\nhost: localhost:{port}\r\ncookie: {}\r\n\r\n",
        page.cookie
    );
    page.send(&request).is(200);
    page.get_with("/", "origin: http://evil.test\r\n").is(403);
    // An image or script of a page at another port.
    let part = "sec-fetch-site: same-site\r\nsec-fetch-mode: no-cors\r\n";
    page.get_with("/tools", part).is(403);
    let link = "sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\n";
    page.get_with("/", link).is(200);
}

#[test]
fn calls_are_listed_filtered_and_paged() {
    let home = Home::new();
    let page = Page::open(home.toolcell(&["inspect"]));
    assert!(
        page.get("/")
            .is(200)
            .text()
            .contains("No call is on record yet")
    );
    let echoed = id(&home.call(
        &guest("probe#echo"),
        &json!({ "text": "one" }),
        &["--session=ours"],
    ));
    let failed = id(&home.call(&guest("probe#nowhere"), &json!({}), &[]));
    let all = page.get("/").is(200).text();
    assert!(all.contains(&echoed) && all.contains(&failed));
    for (query, found, left) in [
        ("tool=probe.ec*", &echoed, &failed),
        ("status=succeeded", &echoed, &failed),
        ("session=ours", &echoed, &failed),
        ("text=UNKNOWN_TOOL", &failed, &echoed),
        (&format!("text={}", &echoed[20..]), &echoed, &failed),
    ] {
        let some = page.get(&format!("/?{query}")).is(200).text();
        assert!(some.contains(found) && !some.contains(left), "{query}");
    }
    assert!(
        page.get("/?tool=none")
            .is(200)
            .text()
            .contains("No call matches")
    );
    let wrong = page.get("/?status=great").is(400).text();
    assert!(wrong.contains("there is no such status"), "{wrong}");
    page.get("/?before=yesterday").is(400);
    let batch: String = (0..150)
        .map(|at| {
            json!({ "id": at.to_string(), "tool": guest("probe#echo"), "input": {} }).to_string()
                + "\n"
        })
        .collect();
    home.toolcell(&["batch", "-", "--json"])
        .stdin(&batch)
        .run()
        .exits(0);
    let listed = |text: &str| -> Vec<String> {
        let links = text.split("href=\"/calls/").skip(1);
        links.map(|link| link[..26].to_owned()).collect()
    };
    let first = page.get("/").is(200).text();
    let older = first.split("rel=\"next\" href=\"").nth(1).unwrap();
    let older = older.split('"').next().unwrap().replace("&amp;", "&");
    let mut seen = listed(&first);
    assert_eq!(seen.len(), 100);
    seen.extend(listed(&page.get(&older).is(200).text()));
    let known: Vec<String> = home
        .calls(&["--limit=1000"])
        .iter()
        .map(|call| call["invocation_id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(seen, known);
}

#[test]
fn what_a_tool_says_stays_text_in_each_view() {
    let home = Home::new();
    let said = json!([
        { "type": "text", "text": HOSTILE },
        { "type": "text", "text": json!({ HOSTILE: [HOSTILE] }).to_string() },
        { "type": "diff", "path": HOSTILE, "diff": format!("-{HOSTILE}\n+b") },
        { "type": "image", "data": "PHN2Zz48L3N2Zz4=", "media_type": "image/svg+xml" },
        { "type": "resource_link", "uri": "javascript:alert(1)", "name": HOSTILE },
    ]);
    let input = json!({ "content": said, "structured": json!({ HOSTILE: HOSTILE }) });
    let record = home.call(&guest("probe#say"), &input, &[]);
    assert_eq!(record["result"]["status"], "succeeded", "{record}");
    let page = Page::open(home.toolcell(&["inspect"]));
    let path = format!("/calls/{}", id(&record));
    let text = page.get(&path).is(200).text();
    assert!(text.matches(HARMLESS).count() >= 5, "{text}");
    for raw in [
        "<script>alert",
        "<img",
        "javascript:alert(1)\"",
        "\u{202e}",
        "\u{1b}",
    ] {
        assert!(!text.contains(raw), "{raw:?}");
    }
    // The type that a tool names does not count, and a part of a call is no page.
    page.get(&format!("{path}/media/3")).is(404);
    let whole = page.get(&format!("{path}/whole/content-0")).is(200);
    assert_eq!(
        whole.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert!(
        whole
            .header("content-security-policy")
            .unwrap()
            .starts_with("sandbox")
    );
    assert_eq!(whole.text(), HOSTILE);
    let nothing = page
        .get(&format!("/calls/{}", encoded(HOSTILE)))
        .is(404)
        .text();
    assert!(!nothing.contains("<script>alert"));
}

#[test]
fn a_large_output_is_cut_and_all_of_it_is_behind_a_link() {
    let home = Home::new();
    let record = home.call(&guest("probe#big"), &json!({ "bytes": 60_000 }), &[]);
    let page = Page::open(home.toolcell(&["inspect"]));
    let path = format!("/calls/{}", id(&record));
    let shown = page.get(&path).is(200);
    assert!(shown.body.len() < 50_000, "{}", shown.body.len());
    let link = format!("{path}/whole/content-0");
    assert!(shown.text().contains(&link), "{}", shown.text());
    assert_eq!(page.get(&link).is(200).body.len(), 60_000);
    // More than a result holds is stored, and downloaded.
    let record = home.call(&guest("probe#big"), &json!({ "bytes": 8_000_000 }), &[]);
    let path = format!("/calls/{}", id(&record));
    let digest = record["result"]["resource_refs"][0]["digest"]
        .as_str()
        .unwrap();
    let link = format!("{path}/artifacts/{}", digest.replace(':', "%3A"));
    assert!(page.get(&path).is(200).text().contains(&link));
    let stored = page.get(&link).is(200);
    assert_eq!(stored.header("content-disposition"), Some("attachment"));
    assert!(
        stored
            .header("content-security-policy")
            .unwrap()
            .starts_with("sandbox")
    );
    assert!(stored.body.len() >= 8_000_000);
    let other = home.call(&guest("probe#echo"), &json!({}), &[]);
    let foreign = format!(
        "/calls/{}/artifacts/{}",
        id(&other),
        digest.replace(':', "%3A")
    );
    page.get(&foreign).is(404);
}

#[test]
fn an_approval_is_answered_with_other_arguments_and_a_late_answer_is_told_so() {
    let place = Place::of(&guest("probe#append_approved"));
    let (child, id) = place.waiting("asked", &[]);
    let page = Page::open(place.toolcell(&["inspect"]));
    let listed = page.get("/").is(200).text();
    assert!(
        listed.contains(&id) && listed.contains("<title>(1) "),
        "{listed}"
    );
    let path = format!("/approvals/{id}");
    let shown = page.get(&path).is(200).text();
    assert!(
        shown.contains("Run this call?") && shown.contains("Every line"),
        "{shown}"
    );
    let invalid = page.post(&path, "answer=approve&edit=%7B").is(400).text();
    assert!(invalid.contains("not valid JSON"), "{invalid}");
    page.post(&path, "answer=maybe").is(400);
    let edit = encoded(&place.input("edited"));
    page.post(&path, &format!("answer=approve&edit={edit}&feedback=fine"))
        .is(303);
    let ended = child.wait_with_output().unwrap();
    assert!(
        ended.status.success(),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    assert_eq!(place.lines(), ["edited"]);
    let shown = page.get(&path).is(200).text();
    assert!(
        shown.contains("Edited arguments") && shown.contains("fine"),
        "{shown}"
    );
    let late = page.post(&path, "answer=deny").is(409).text();
    assert!(late.contains("not open any more"), "{late}");
    page.get("/approvals/01ARZ3NDEKTSV4RRFFQ69G5FAV").is(404);
    assert_eq!(place.lines(), ["edited"]);
}

#[test]
fn a_call_without_its_process_runs_when_it_is_approved() {
    let place = Place::of(&guest("probe#append_approved"));
    let id = place.orphan("asked", &[]);
    let page = Page::open(place.toolcell(&["inspect"]));
    page.post(&format!("/approvals/{id}"), "answer=approve")
        .is(303);
    let begun = Instant::now();
    while place.lines().is_empty() && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(place.lines(), ["asked"]);
}

#[test]
fn a_form_of_another_page_changes_nothing() {
    let place = Place::of(&guest("probe#append_approved"));
    let (mut child, id) = place.waiting("asked", &[]);
    let page = Page::open(place.toolcell(&["inspect"]));
    let path = format!("/approvals/{id}");
    let (_, port) = page.address.split_once(':').unwrap();
    for origin in [
        "",
        "origin: null\r\n",
        "origin: http://evil.test\r\n",
        "origin: http://127.0.0.1\r\n",
        "origin: http://127.0.0.1:1\r\n",
        &format!("origin: https://{}\r\n", page.address),
        &format!("origin: http://{}.evil.test\r\n", page.address),
        &format!("origin: http://127.0.0.1:{port}\r\norigin: http://evil.test\r\n"),
    ] {
        let refused = page.post_with(&path, "answer=approve", origin);
        assert_eq!(refused.status, 403, "{origin}: {}", refused.text());
    }
    page.post(&format!("{path}?answer=approve"), "").is(422);
    let shown = page.get(&path).is(200).text();
    assert!(shown.contains("pending"), "{shown}");
    assert!(place.lines().is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_tool_is_shown_and_tried_with_the_grants_of_the_page_alone() {
    let home = Home::new();
    let probe = fixture("probe").display().to_string();
    let (_guard, folder) = scratch();
    std::fs::write(folder.join("a"), "content of a").unwrap();
    let path = folder.join("a").display().to_string();
    let tool = format!("/tools/{}", encoded(&probe));
    let form = format!("tool=read&arg-string-path={}", encoded(&path));
    let page = Page::open(home.toolcell(&["inspect", &probe]));
    assert!(page.get("/tools").is(200).text().contains("probe"));
    let shown = page.get(&tool).is(200).text();
    assert!(shown.contains("probe.read") && shown.contains("read files in folders that you grant"));
    assert!(shown.contains("Granted: nothing"));
    let tried = page.post(&tool, &form).is(303);
    let refused = page.get(tried.header("location").unwrap()).is(200).text();
    assert!(
        refused.contains("denied") && !refused.contains("content of a"),
        "{refused}"
    );
    page.post(&tool, "tool=read&input=%7B").is(400);
    page.get("/tools/%2Fetc%2Fpasswd").is(404);
    drop(page);
    let grant = format!("--allow-read={}", folder.display());
    let page = Page::open(home.toolcell(&["inspect", &probe, &grant]));
    let tried = page.post(&tool, &form).is(303);
    let shown = page.get(tried.header("location").unwrap()).is(200).text();
    assert!(shown.contains("content of a"), "{shown}");
}

#[test]
fn files_of_workspaces_are_shown_kept_and_put_back() {
    let home = Home::new();
    let put = |path: &str, text: &str| {
        let put = home.toolcell(&["workspace", "put", "ours", "-", path]);
        put.stdin(text).run().exits(0);
    };
    put("notes.txt", HOSTILE);
    put("<b>.svg", "<svg onload=alert(1)>");
    let page = Page::open(home.toolcell(&["inspect"]));
    assert!(
        page.get("/workspaces")
            .is(200)
            .text()
            .contains("/workspaces/ours")
    );
    let shown = page.get("/workspaces/ours").is(200).text();
    assert!(
        shown.contains("&lt;b&gt;.svg") && !shown.contains("<b>"),
        "{shown}"
    );
    let preview = page.get("/workspaces/ours/preview?path=notes.txt").is(200);
    assert!(preview.text().contains(HARMLESS), "{}", preview.text());
    let drawn = page
        .get("/workspaces/ours/preview?path=%3Cb%3E.svg")
        .is(200);
    assert!(drawn.text().contains("&lt;svg onload"));
    let file = page.get("/workspaces/ours/file?path=%3Cb%3E.svg").is(200);
    assert_eq!(file.header("content-disposition"), Some("attachment"));
    assert_eq!(file.text(), "<svg onload=alert(1)>");
    page.post("/workspaces/ours/snapshots", "").is(303);
    let upload = |name: &str| page.upload("/workspaces/ours/upload", name, "new");
    upload("added.txt").is(303);
    assert_ne!(upload("../outside").status, 303);
    let changes = page.get("/workspaces/ours/diff?id=s1").is(200).text();
    assert!(
        changes.contains("+ added.txt") && !changes.contains("outside"),
        "{changes}"
    );
    page.post("/workspaces/ours/restore", "id=s1").is(303);
    assert!(
        !page
            .get("/workspaces/ours")
            .is(200)
            .text()
            .contains("added.txt")
    );
    page.get("/workspaces/ours/preview?path=../../keys/calls")
        .is(422);
    page.get("/workspaces/theirs").is(404);
    page.get("/workspaces/..%2F..").is(404);
}

#[test]
fn an_open_page_is_told_of_calls_and_approvals() {
    let place = Place::of(&guest("probe#append_approved"));
    let page = Page::open(place.toolcell(&["inspect"]));
    let mut stream = TcpStream::connect(&page.address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let request = format!(
        "GET /changes HTTP/1.1\r\nhost: {}\r\ncookie: {}\r\n\r\n",
        page.address, page.cookie
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines();
    let mut next = |is_meant: &dyn Fn(&Value) -> bool| {
        loop {
            let line = lines.next().unwrap().unwrap();
            let change = line
                .strip_prefix("data: ")
                .map(|data| serde_json::from_str(data).unwrap());
            if change.is_some_and(|change: Value| is_meant(&change)) {
                return;
            }
        }
    };
    next(&|change| change["waiting"] == 0);
    let (mut child, id) = place.waiting("asked", &[]);
    next(&|change| change["waiting"] == 1);
    page.post(&format!("/approvals/{id}"), "answer=deny")
        .is(303);
    next(&|change| change["waiting"] == 0 && change["events"].as_u64() > Some(1));
    child.wait().unwrap();
}

#[test]
fn a_call_is_replayed_and_compared() {
    let home = Home::new();
    let record = home.call(&guest("probe#echo"), &json!({ "text": "one" }), &[]);
    let page = Page::open(home.toolcell(&["inspect"]));
    let path = format!("/calls/{}", id(&record));
    assert!(page.get(&path).is(200).text().contains("Replay"));
    let told = page.post(&format!("{path}/replay"), "").is(200).text();
    assert!(told.contains("is the same"), "{told}");
    assert_eq!(home.calls(&[]).len(), 2);
    page.post("/calls/01ARZ3NDEKTSV4RRFFQ69G5FAV/replay", "")
        .is(404);
}

#[test]
fn the_page_listens_on_this_machine_alone() {
    let home = Home::new();
    for address in ["0.0.0.0:0", "192.0.2.1:80", "localhost"] {
        let ran = home
            .toolcell(&["inspect", "--listen", address])
            .run()
            .exits(2);
        assert!(ran.stderr.contains("loopback address"), "{}", ran.stderr);
    }
}
