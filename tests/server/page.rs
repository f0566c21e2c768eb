//! The page at `/` of a server, for its principals and approvers.
//!
//! Promise: A principal sees what is its own, on the page, too.

use std::io::Read;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http_api::Said;
use super::principals::{ANNA, BERT, PLAIN, PLAIN_APPROVES, ROOT, Served};
use crate::support::{Browser, Web, encoded};

const PAGES: &str = r#"
[[rule]]
behavior = "ask"
tool = "probe.list"

[[principal]]
name = "anna"
tokens = ["ANNA"]
page = true
tools = ["probe.read", "probe.list", "probe.echo"]
quotas = { calls_at_once = 9, bytes_per_day = "1GiB" }
[principal.grants]
read = ["DATA/anna"]

[[principal]]
name = "bert"
tokens = ["BERT"]
page = true
approves = ["anna", "bert"]
[principal.workspace]
per = "principal"
"#;

fn browser(web: &Web) -> Browser {
    Browser::at(&web.address.to_string())
}

/// Signed in with a token.
fn signed_in(served: &Served, token: &str) -> Browser {
    let mut browser = browser(served.web());
    let entered = browser.post("/enter", &format!("token={token}")).is(303);
    assert_eq!(entered.header("location"), Some("/"));
    browser.keep_cookie(&entered);
    browser
}

fn until<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(began.elapsed().as_secs() < 30, "it does not happen");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Begins a call that has to be approved, over the API.
fn ask(served: &Served, token: &str, tool: &str, input: &Value) -> String {
    let body = json!({ "tool": tool, "input": input, "wait": false }).to_string();
    let begun = served.ask(token, "POST /v1/calls", &body).value();
    begun["invocation_id"].as_str().unwrap().to_owned()
}

#[test]
fn a_token_of_whoever_may_see_the_page_lets_a_browser_in() {
    let served = Served::new(PAGES).started();
    let stranger = browser(served.web());
    for path in [
        "/",
        "/approvals",
        "/tools",
        "/workspaces",
        "/changes",
        "/calls/X",
        "/principal",
    ] {
        let refused = stranger.get(path).is(401);
        assert!(
            refused.text().contains("name=\"token\""),
            "{}",
            refused.text()
        );
    }
    stranger.get("/page.css").is(200);
    // What is no path of the page is as before.
    stranger.get("/nothing").is(404);
    for (token, why) in [
        ("wrong-token-0123456789", "unauthorized"),
        (PLAIN, "page = true"),
        (ROOT, "page = true"),
    ] {
        let refused = stranger.post("/enter", &format!("token={token}")).is(401);
        assert!(refused.header("set-cookie").is_none());
        let text = refused.text();
        assert!(why == "unauthorized" || text.contains(why), "{text}");
        assert!(!text.contains(token), "{text}");
    }
    for form in ["", "token=", "tok=1"] {
        stranger.post("/enter", form).is(401);
    }
    stranger
        .post("/enter", &format!("token={}", "x".repeat(40_000)))
        .is(401);
    let entered = stranger.post("/enter", &format!("token={ANNA}")).is(303);
    let cookie = entered.header("set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains(ANNA), "{cookie}");
    let anna = signed_in(&served, ANNA);
    let first = anna.get("/").is(200);
    for (name, value) in [
        ("x-frame-options", "DENY"),
        ("x-content-type-options", "nosniff"),
        ("cache-control", "no-store"),
    ] {
        assert_eq!(first.header(name), Some(value), "{}", first.head);
    }
    assert!(
        first
            .header("content-security-policy")
            .unwrap()
            .contains("script-src 'self'")
    );
    assert!(first.text().contains("token:anna"));
    // A cookie is no token of the API.
    anna.get("/v1/tools").is(401);
    anna.post("/leave", "").is(303);
    anna.get("/").is(401);
}

#[test]
fn a_form_of_another_page_has_no_effect() {
    let served = Served::new(PAGES).started();
    let anna = signed_in(&served, ANNA);
    let form = "tool=echo&input=%7B%22text%22%3A%22x%22%7D";
    for headers in [
        "",
        "origin: http://evil.example\r\n",
        "origin: null\r\n",
        "origin: http://127.0.0.1:1\r\n",
    ] {
        anna.post_with("/tools/probe_echo", form, headers).is(403);
    }
    let own = format!("origin: http://{}\r\n", anna.address);
    anna.post_with(
        "/tools/probe_echo",
        form,
        &format!("{own}sec-fetch-site: cross-site\r\n"),
    )
    .is(403);
    let list = anna.get("/").is(200).text();
    assert!(list.contains("No call is on record yet"), "{list}");
    anna.post("/tools/probe_echo", form).is(303);
}

#[test]
fn each_sees_its_own_calls_tools_and_workspaces() {
    let served = Served::new(PAGES).started_with(&["--workspace"]);
    let a = json!({ "path": served.data.join("anna/a.txt") });
    let id = |token| {
        let called = served.call(token, "read", &a);
        called["invocation_id"].as_str().unwrap().to_owned()
    };
    let (of_anna, of_bert, of_root) = (id(ANNA), id(BERT), id(ROOT));
    let (anna, bert) = (signed_in(&served, ANNA), signed_in(&served, BERT));
    let list = anna.get("/").is(200).text();
    assert!(list.contains(&of_anna) && !list.contains(&of_bert) && !list.contains(&of_root));
    // Filters find no others, and an end of an id tells of none.
    for path in [
        format!("/?text={of_bert}"),
        "/?text=token%3Abert".to_owned(),
        format!("/?before=2099-01-01T00%3A00%3A00.000Z~{of_bert}"),
    ] {
        let list = anna.get(&path).is(200).text();
        assert!(!list.contains(&format!("/calls/{of_bert}")), "{list}");
    }
    for part in [
        "",
        "/whole/record",
        "/whole/arguments",
        "/media/0",
        "/artifacts/sha256%3A00",
    ] {
        anna.get(&format!("/calls/{of_bert}{part}")).is(404);
    }
    anna.get(&format!("/calls/{}", &of_anna[10..])).is(404);
    let call = anna.get(&format!("/calls/{of_anna}")).is(200).text();
    assert!(
        call.contains("probe.read") && !call.contains("Replay"),
        "{call}"
    );
    anna.post(&format!("/calls/{of_anna}/replay"), "").is(404);
    let tools = anna.get("/tools").is(200).text();
    assert!(
        tools.contains("probe_read") && !tools.contains("probe_write"),
        "{tools}"
    );
    anna.get("/tools/probe_write").is(404);
    assert!(bert.get("/tools").is(200).text().contains("probe_write"));
    // One that is tried has the grants and rules of the principal.
    let b = served.data.join("bert/b.txt");
    let form = format!("tool=read&arg-string-path={}", encoded(b.to_str().unwrap()));
    let tried = anna.post("/tools/probe_read", &form).is(303);
    let at = tried.header("location").unwrap().to_owned();
    let shown = anna.get(&at).is(200).text();
    assert!(
        shown.contains("token:anna") && !shown.contains("&quot;bert&quot;"),
        "{shown}"
    );
    bert.get(&at).is(404);
    anna.post("/tools/probe_write", "tool=write&input=%7B%7D")
        .is(303);
    let own = anna.get("/principal").is(200).text();
    for words in [
        "token:anna",
        "<dd><span class=\"said\">3</span></dd>",
        "anna",
        "calls at once: 0 of 9",
        "bytes per day: ",
    ] {
        assert!(own.contains(words), "{words}: {own}");
    }
    assert!(!own.contains("bert"), "{own}");
    // Files.
    served.ask(BERT, "PUT /v1/workspaces/own", "");
    let form = "/workspaces/own/upload";
    bert.upload(form, "one.txt", "of bert").is(303);
    let large = "x".repeat(5 << 20);
    bert.upload(form, "large.txt", &large).is(413);
    bert.get("/workspaces/own/file?path=large.txt").is(404);
    let file = "/workspaces/own/file?path=one.txt";
    assert_eq!(bert.get(file).is(200).text(), "of bert");
    anna.get(file).is(404);
    assert!(!anna.get("/workspaces").is(200).text().contains("own"));
}

#[test]
fn an_approver_answers_on_the_page_and_a_late_answer_is_told() {
    let served = Served::new(PAGES).started();
    let (anna, bert) = (signed_in(&served, ANNA), signed_in(&served, BERT));
    let folder = served.data.join("anna");
    let id = ask(&served, ANNA, "list", &json!({ "path": served.data }));
    let of_root = served.call(ROOT, "echo", &json!({ "text": "x" }));
    let path = format!("/approvals/{id}");
    let question = until(|| Some(bert.get(&path)).filter(|answer| answer.status == 200)).text();
    assert!(question.contains("name=\"edit\""), "{question}");
    assert!(bert.get("/approvals").is(200).text().contains(&id));
    // A question of a caller for whom nobody here may answer does not exist.
    let others = ask(&served, ROOT, "list", &json!({ "path": served.data }));
    let approver = signed_in(&served, PLAIN_APPROVES);
    let of_others = format!("/approvals/{others}");
    until(|| Some(()).filter(|()| approver.get(&of_others).status == 200));
    for browser in [&anna, &bert] {
        browser.get(&of_others).is(404);
        browser.get(&format!("{of_others}/arguments")).is(404);
        browser.post(&of_others, "answer=approve").is(404);
        let list = browser.get("/approvals").is(200).text();
        assert!(
            !list.contains(&others) && !list.contains("<title>(2)"),
            "{list}"
        );
    }
    // Its caller sees the question, and cannot answer it.
    let own = anna.get(&path).is(200).text();
    assert!(
        !own.contains("name=\"edit\"") && own.contains("waits for an approver"),
        "{own}"
    );
    anna.post(&path, "answer=approve").is(403);
    // The record of the call is its caller's.
    bert.get(&format!("/calls/{id}")).is(404);
    let wrong = bert
        .post(&path, "answer=approve&edit=%7B%22path%22%3A1%7D&shown=")
        .is(422);
    assert!(wrong.text().contains("still open"), "{}", wrong.text());
    let edit = encoded(&json!({ "path": folder }).to_string());
    bert.post(
        &path,
        &format!("answer=approve&edit={edit}&shown=&feedback=only+yours"),
    )
    .is(303);
    let answered = bert.get(&path).is(200).text();
    for words in [
        "Approved by",
        "token:bert",
        "through page",
        "Edited arguments",
        "only yours",
    ] {
        assert!(answered.contains(words), "{words}: {answered}");
    }
    let mut second = browser(served.web());
    let entered = second
        .post("/enter", &format!("token={PLAIN_APPROVES}"))
        .is(303);
    second.keep_cookie(&entered);
    let late = second.post(&path, "answer=deny").is(409).text();
    assert!(late.contains("not open any more"), "{late}");
    let call = until(|| {
        let text = anna.get(&format!("/calls/{id}")).is(200).text();
        text.contains("succeeded").then_some(text)
    });
    assert!(call.contains("Changed before the call"), "{call}");
    // An approver without calls has no other views.
    assert_eq!(
        second.get("/").is(303).header("location"),
        Some("/approvals")
    );
    second.get("/tools").is(404);
    second.get("/workspaces").is(404);
    let root = of_root["invocation_id"].as_str().unwrap();
    second.get(&format!("/calls/{root}")).is(404);
}

#[test]
fn a_session_ends_with_the_right_to_it() {
    let mut served = Served::new(PAGES).started();
    let (anna, bert) = (signed_in(&served, ANNA), signed_in(&served, BERT));
    anna.get("/").is(200);
    let less = PAGES
        .replacen("page = true\n", "", 1)
        .replacen("tokens = [\"BERT\"]\n", "", 1);
    served.write(&less);
    until(|| (anna.get("/").status == 401 && bert.get("/").status == 401).then_some(()));
    // What came back begins anew.
    served.write(PAGES);
    until(|| {
        let again = browser(served.web()).post("/enter", &format!("token={ANNA}"));
        (again.status == 303).then_some(())
    });
    anna.get("/").is(401);
}

#[test]
fn the_oldest_of_many_sessions_ends() {
    let served = Served::new(PAGES).started();
    let first = signed_in(&served, ANNA);
    let of_bert = signed_in(&served, BERT);
    let later: Vec<Browser> = (0..8).map(|_| signed_in(&served, ANNA)).collect();
    first.get("/").is(401);
    for browser in later.iter().chain([&of_bert]) {
        browser.get("/").is(200);
    }
}

#[test]
fn it_works_below_a_path_of_a_proxy() {
    let served = Served::new(PAGES).started_with(&["--public-url=https://tools.example/a/cell"]);
    let mut anna = browser(served.web());
    let origin = "origin: https://tools.example\r\n";
    let form = format!("token={ANNA}");
    let entered = anna.post_with("/a/cell/enter", &form, origin).is(303);
    assert_eq!(entered.header("location"), Some("/a/cell/"));
    let cookie = entered.header("set-cookie").unwrap();
    assert!(
        cookie.starts_with("__Secure-")
            && cookie.contains("Path=/a/cell;")
            && cookie.contains("; Secure"),
        "{cookie}"
    );
    anna.keep_cookie(&entered);
    anna.get("/a/cell").is(200);
    // What looks like a link in foreign text is none.
    let said = anna
        .get("/a/cell/?text=%22%20href%3D%22%2Fx")
        .is(200)
        .text();
    assert!(said.contains("&quot; href=&quot;/x"), "{said}");
    let page = anna.get("/a/cell/").is(200).text();
    assert!(
        page.contains("href=\"/a/cell/page.css\"") && page.contains("href=\"/a/cell/tools\""),
        "{page}"
    );
    assert!(
        !page.contains("=\"/tools") && page.contains("action=\"/a/cell/leave\""),
        "{page}"
    );
    anna.get("/a/cell/page.js").is(200);
}

#[test]
fn an_open_page_hears_of_its_own_calls_alone() {
    let served = Served::new(PAGES).started();
    let anna = signed_in(&served, ANNA);
    let mut stream = anna.open("/changes");
    let mut heard = |wait: Duration| -> usize {
        let until = Instant::now() + wait;
        let mut text = String::new();
        stream
            .set_read_timeout(Some(Duration::from_millis(100)))
            .unwrap();
        while Instant::now() < until {
            let mut bytes = [0; 4 << 10];
            let read = stream.read(&mut bytes).unwrap_or(0);
            text.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
        text.matches("data: ").count()
    };
    assert!(heard(Duration::from_secs(3)) >= 1);
    let echo = json!({ "text": "x" });
    for _ in 0..3 {
        served.call(ROOT, "echo", &echo);
        served.call(BERT, "echo", &echo);
    }
    assert_eq!(heard(Duration::from_secs(3)), 0);
    served.call(ANNA, "echo", &echo);
    assert!(heard(Duration::from_secs(3)) >= 1);
}

#[test]
fn the_one_workspace_of_a_server_is_the_only_one_on_the_page() {
    let served = Served::new(PAGES).started_with(&["--workspace=shared"]);
    for name in ["shared", "private"] {
        let file = served.data.join("anna/a.txt");
        let file = file.to_str().unwrap();
        served.run(&["workspace", "put", name, file]).exits(0);
    }
    let anna = signed_in(&served, ANNA);
    let list = anna.get("/workspaces").is(200).text();
    assert!(
        list.contains("shared") && !list.contains("private"),
        "{list}"
    );
    assert_eq!(
        anna.get("/workspaces/shared/file?path=a.txt")
            .is(200)
            .text(),
        "anna"
    );
    anna.get("/workspaces/private").is(404);
    anna.get("/workspaces/private/file?path=a.txt").is(404);
}

#[test]
fn without_anybody_who_may_see_it_there_is_no_page() {
    let web = Web::with(&["probe#echo"], [""; 0]);
    let stranger = browser(&web);
    stranger.get("/").is(404);
    stranger.get("/page.css").is(404);
    stranger.post("/enter", "token=x").is(404);
}
