//! Network attacks: other spellings, other names, redirects, names that change their address.

use serde_json::{Value, json};
use toolcell_policy::secret::{SecretStore, SecretValue};

use crate::support::{Called, Mirror, SPECIAL_HOSTS, Server, Test};

use super::arena::Arena;

/// The only one of these hosts that is a name, and is looked up.
const METADATA: &str = "metadata.google.internal";

/// Hosts that only look like `api.ex.test`, or share a prefix or a suffix with it.
const LOOKALIKES: &[&str] = &[
    "api.ex.test.evil.test",
    "evilapi.ex.test",
    "sub.api.ex.test",
    "ex.test",
    "api-ex.test",
    "api.ex.test@127.0.0.1",
    "a:b@api.ex.test",
    "xn--pi-7ia.ex.test",
    "*.ex.test",
];

/// Not valid authorities: a guest cannot request them.
const UNSPEAKABLE: &[&str] = &[
    "127.0.0.1#@api.ex.test",
    "\u{430}pi.ex.test",
    "api%2eex%2etest",
    "api.ex.test/x",
    "api.ex.test\\@evil.test",
    "api.ex.test\r\nhost: evil.test",
    "api.ex.test evil.test",
    "",
];

async fn ask(arena: &Arena, test: Test, request: Value) -> Called {
    arena
        .call(test, json!({ "requests": [request], "fail": true }))
        .await
}

/// Checks that the record has a denial, which says what the guest tried.
fn denied(arena: &Arena, called: &Called, what: &str) {
    let denied = called.events().contains(&"tool.sandbox.denied");
    arena.holds(denied, format!("no record of what was denied: {what}"));
}

/// Under a grant for every host, no spelling reaches an address that is not public.
pub(super) async fn spellings(arena: &Arena) {
    arena.names.script(&[&["127.0.0.1"]]);
    for (host, scheme) in SPECIAL_HOSTS
        .iter()
        .chain([&METADATA])
        .flat_map(|host| [(host, "http"), (host, "https")])
    {
        let authority = format!("{host}:{}", arena.listeners.port);
        let test = arena
            .test("egress#ask")
            .net("http://*:*")
            .net("https://*:*");
        let called = ask(
            arena,
            test,
            json!({ "authority": authority, "scheme": scheme }),
        )
        .await;
        denied(arena, &called, &authority);
    }
    let asked = arena.names.asked();
    arena.holds(
        asked.iter().all(|name| name == METADATA),
        format!("E: looked up: {asked:?}"),
    );
}

/// Under a grant for one host, no other host is reached or even looked up; every spelling of that host is reached.
pub(super) async fn lookalikes(arena: &Arena) {
    let server = Server::hello();
    arena.names.script(&[&["127.0.0.1"]]);
    // Each name would resolve to the listener, or to the server.
    let granted = || {
        arena
            .test("egress#ask")
            .net("http://api.ex.test:*")
            .net(&server.url(""))
    };
    for host in LOOKALIKES {
        let request = json!({ "authority": format!("{host}:{}", arena.listeners.port) });
        denied(arena, &ask(arena, granted(), request).await, host);
    }
    for (authority, scheme) in [
        (format!("api.ex.test:{}", server.port), "https"),
        (format!("API.EX.TEST.:{}", server.port), "ftp"),
        ("api.ex.test:0".to_owned(), "http"),
        ("api.ex.test:99999".to_owned(), "http"),
        ("api.ex.test:".to_owned(), "http"),
    ] {
        let called = ask(
            arena,
            granted(),
            json!({ "authority": authority, "scheme": scheme }),
        )
        .await;
        denied(arena, &called, &format!("{scheme}://{authority}"));
    }
    for authority in UNSPEAKABLE {
        let called = arena
            .call(
                granted(),
                json!({ "requests": [{ "authority": authority }] }),
            )
            .await;
        let answer = &called.succeeded()["answers"][0];
        arena.holds(
            answer["error"] == "authority",
            format!("{authority:?} can be asked for: {answer}"),
        );
    }
    let narrow = arena
        .test("egress#ask")
        .net("http://api.ex.test")
        .net(&server.url(""));
    let request = json!({ "authority": format!("api.ex.test:{}", server.port) });
    denied(arena, &ask(arena, narrow, request).await, "another port");
    let asked = arena.names.asked();
    arena.holds(
        asked.is_empty() && server.connections() == 0,
        format!("E: {} {asked:?}", server.connections()),
    );
    for host in ["api.ex.test", "API.ex.TEST", "api.ex.test.", "API.EX.TEST."] {
        let request = json!({ "authority": format!("{host}:{}", server.port) });
        let called = arena
            .call(granted(), json!({ "requests": [request] }))
            .await;
        let answer = &called.succeeded()["answers"][0];
        arena.holds(
            answer["status"] == 200,
            format!("{host} is the host that was granted: {answer}"),
        );
    }
}

/// A granted server redirects a guest to denied hosts, to hosts without a grant for its secret, and in loops.
pub(super) async fn redirects(arena: &Arena) {
    let store = SecretStore::new(arena.home.secrets(), arena.home.secret_key());
    store
        .set("API_KEY", &SecretValue::new(arena.secret.clone()))
        .unwrap();
    let port = arena.listeners.port;
    for (status, location) in [
        (301, format!("http://127.0.0.1:{port}/")),
        (302, format!("http://[::1]:{port}/")),
        (303, format!("http://localhost:{port}/")),
        (307, format!("http://0.0.0.0:{port}/")),
        (308, format!("http://[::ffff:127.0.0.1]:{port}/")),
        (302, "http://169.254.169.254/latest/meta-data/".to_owned()),
        (302, "http://evil.test/".to_owned()),
        (302, format!("file://localhost{}", arena.canary().display())),
        (302, "gopher://127.0.0.1:70/".to_owned()),
    ] {
        let named = redirecting(status, location.clone());
        let called = follow(arena, &named, "fail").await;
        arena.holds(
            named.seen().len() == 1,
            format!("{location}: {} requests came", named.seen().len()),
        );
        denied(arena, &called, &location);
    }
    // A URL without a host is not a request.
    let called = follow(
        arena,
        &redirecting(302, format!("file://{}", arena.canary().display())),
        "answer",
    )
    .await;
    let answer = &called.succeeded()["answer"];
    arena.holds(
        answer["error"].is_string(),
        format!("a file was fetched: {answer}"),
    );
    let asked = arena.names.asked();
    arena.holds(asked.is_empty(), format!("E: looked up: {asked:?}"));

    // The redirect leads to another granted server; the secret is for the first.
    let other = Mirror::reflecting();
    let named = redirecting(302, format!("{}/", other.origin()));
    let test = carrying(arena, &named).net(&other.origin());
    let called = arena
        .call(
            test,
            json!({ "url": format!("{}/", named.origin()), "follow": 50 }),
        )
        .await;
    arena.holds(
        called.succeeded()["answer"]["followed"] == 1,
        "the redirect was not followed",
    );
    arena.holds(
        named.seen()[0].contains("authorization: Bearer "),
        "the secret went nowhere",
    );
    for request in other.seen() {
        arena.holds(!request.contains("authorization"), format!("Z: {request}"));
        arena.shown(&request);
    }

    let round = Mirror::new(|request| {
        let host = request
            .lines()
            .find_map(|line| line.strip_prefix("host: "))
            .unwrap();
        let location = format!("http://{host}/");
        format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").into()
    });
    follow(arena, &round, "fail")
        .await
        .failed("rate_limited", "network_request_limit");
    arena.holds(
        round.seen().len() <= 64,
        format!("{} requests came", round.seen().len()),
    );
}

fn redirecting(status: u16, location: String) -> Mirror {
    Mirror::new(move |_| {
        format!("HTTP/1.1 {status} Moved\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            .into()
    })
}

fn carrying(arena: &Arena, server: &Mirror) -> Test {
    let origin = server.origin();
    arena.test("courier#bearer").grant(|grants| {
        grants.allow_net(&origin).unwrap();
        grants.allow_secret(&format!("API_KEY@{origin}")).unwrap();
    })
}

async fn follow(arena: &Arena, server: &Mirror, then: &str) -> Called {
    let input = json!({ "url": format!("{}/", server.origin()), "follow": 1_000, "then": then });
    arena.call(carrying(arena, server), input).await
}

/// DNS rebinding: a name resolves to a good address first and a bad one next, or to both at once.
pub(super) async fn rebinding(arena: &Arena) {
    // The good address is granted, so it stands for a public one; the bad one is on this machine, too.
    let good = Server::hello();
    let bad = Server::hello_at(&format!("127.0.0.2:{}", good.port));
    let granted = || {
        arena
            .test("egress#ask")
            .net("http://api.ex.test:*")
            .net(&good.url(""))
    };
    let request = json!({ "authority": format!("api.ex.test:{}", good.port) });

    arena.names.script(&[&["127.0.0.1"], &["127.0.0.2"]]);
    let called = arena
        .call(granted(), json!({ "requests": [request.clone()] }))
        .await;
    let answer = &called.succeeded()["answers"][0];
    arena.holds(
        answer["status"] == 200,
        format!("the good address was not reached: {answer}"),
    );
    arena.holds(
        arena.names.asked().len() == 1,
        format!("looked up: {:?}", arena.names.asked()),
    );
    let called = ask(arena, granted(), request.clone()).await;
    denied(arena, &called, "the second answer");

    for spoiled in [
        &["127.0.0.1", "127.0.0.2"][..],
        &["127.0.0.2", "127.0.0.1"],
        &["93.184.215.14", "127.0.0.2"],
        &["::ffff:127.0.0.2", "127.0.0.1"],
        &["127.0.0.1", "169.254.169.254"],
        &["::1"],
        &["0.0.0.0"],
    ] {
        arena.names.script(&[spoiled]);
        let called = ask(arena, granted(), request.clone()).await;
        denied(arena, &called, &format!("{spoiled:?}"));
    }
    let came = (good.connections(), bad.connections());
    arena.holds(
        came == (1, 0),
        format!("E: connections to the good and the bad address: {came:?}"),
    );
}
