//! Issuers: how their keys are found, kept and replaced, and what those achieve that fail or attack.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Issuer, Serving, Signer, now};
use crate::cli::install::proxies::{OPEN, relay};
use crate::support::{Browser, Coming, Home, Identity, Server, Web};

/// Longer than the pause between two requests for the keys of an issuer.
const PAUSE: Duration = Duration::from_millis(5_500);

#[test]
fn keys_rotate_while_tokens_are_used() {
    let issuer = Issuer::new();
    let serving = Serving::for_anna(&issuer, "");
    let old = issuer.token(&serving.web, "anna");
    serving.takes(&old);
    assert_eq!(issuer.fetches(), 1);
    let next = Signer::ed();
    issuer.has_keys(&[issuer.signer.jwk("one"), next.jwk("two")]);
    let header = json!({ "alg": "EdDSA", "typ": "at+jwt", "kid": "two" });
    let new = next.token(&header, &issuer.claims(&serving.web, "anna"));
    // The keys were fetched a moment ago.
    serving.refuses(&new, 401, "an unknown key");
    std::thread::sleep(PAUSE);
    let calls: Vec<_> = (0..8).map(|_| serving.begin(&new)).collect();
    for call in calls {
        assert_eq!(Coming::head(call).whole().status, 200);
    }
    assert_eq!(issuer.fetches(), 2);
    serving.takes(&old);
    // The issuer takes its first key back, and the server learns it with the next keys.
    issuer.has_keys(&[next.jwk("two")]);
    std::thread::sleep(PAUSE);
    let mut header = header.clone();
    header["kid"] = json!("three");
    let unknown = next.token(&header, &issuer.claims(&serving.web, "anna"));
    serving.refuses(&unknown, 401, "an unknown key");
    serving.refuses(&old, 401, "an unknown key");
    serving.takes(&new);
    assert_eq!(issuer.fetches(), 3);
}

#[test]
fn a_flood_of_unknown_keys_asks_the_issuer_once() {
    let issuer = Issuer::new();
    let serving = Serving::for_anna(&issuer, "");
    serving.takes(&issuer.token(&serving.web, "anna"));
    std::thread::sleep(PAUSE);
    let began = Instant::now();
    for at in 0..200 {
        let mut header = issuer.header();
        header["kid"] = json!(format!("key {at}"));
        let token = issuer
            .signer
            .token(&header, &issuer.claims(&serving.web, "anna"));
        serving.refuses(&token, 401, "an unknown key");
    }
    let more = 1 + usize::try_from(began.elapsed().as_secs() / 5).unwrap();
    assert!(
        (2..=1 + more).contains(&issuer.fetches()),
        "{}",
        issuer.fetches()
    );
}

#[test]
fn known_keys_are_used_while_the_issuer_is_away() {
    let issuer = Issuer::new();
    let serving = Serving::for_anna(&issuer, "");
    serving.takes(&issuer.token(&serving.web, "anna"));
    issuer.says_keys("{}".to_owned());
    std::thread::sleep(PAUSE);
    let mut header = issuer.header();
    header["kid"] = json!("two");
    let unknown = issuer
        .signer
        .token(&header, &issuer.claims(&serving.web, "anna"));
    serving.refuses(&unknown, 503, "it has no list of keys");
    let reply = serving.call(&unknown);
    assert_eq!(
        reply.header("retry-after").as_deref(),
        Some("5"),
        "{reply:?}"
    );
    serving.takes(&issuer.token(&serving.web, "anna"));
    let line = serving.web.says("cannot fetch the keys of the issuer");
    assert!(line.contains(&issuer.url()), "{line}");
}

#[test]
fn an_issuer_that_does_not_answer_holds_up_its_own_tokens_alone() {
    let issuer = Issuer::new();
    issuer.says_keys(String::new());
    let serving = Serving::for_anna(&issuer, "");
    let began = Instant::now();
    let token = issuer.token(&serving.web, "anna");
    let waiting: Vec<_> = (0..4).map(|_| serving.begin(&token)).collect();
    std::thread::sleep(Duration::from_secs(1));
    serving.takes(&serving.web.token);
    assert!(began.elapsed() < Duration::from_secs(8));
    for call in waiting {
        let reply = Coming::head(call).whole();
        assert_eq!(reply.status, 503, "{reply:?}");
        assert!(reply.body.contains("does not answer in 10 s"), "{reply:?}");
    }
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(issuer.fetches(), 1);
    // It comes back.
    issuer.has_keys(&[issuer.signer.jwk("one")]);
    std::thread::sleep(PAUSE);
    serving.takes(&issuer.token(&serving.web, "anna"));
}

#[test]
fn what_an_issuer_answers_is_bounded_and_checked() {
    let issuer = Issuer::new();
    let good = issuer.signer.jwk("one");
    let with = |name: &str, value: &str| {
        let mut key = good.clone();
        key[name] = json!(value);
        json!({ "keys": [key] }).to_string()
    };
    let padding = "x".repeat(10 << 20);
    let large = json!({ "keys": [good], "padding": padding }).to_string();
    let many = json!({ "keys": vec![good.clone(); 65] }).to_string();
    let nested = format!(
        "{{\"keys\":{}{}}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let off_curve = with("x", good["y"].as_str().unwrap());
    for (keys, status, told) in [
        (large, 503, "more than 1 MiB"),
        (many, 503, "more than 64 keys"),
        (nested, 503, "is no set of keys"),
        ("<html>".to_owned(), 503, "is no set of keys"),
        (
            "{\"keys\":[],\"keys\":[]}".to_owned(),
            503,
            "is no set of keys",
        ),
        (
            "{\"keys\":[1,null,{\"kty\":\"oct\",\"k\":\"AAAA\"}]}".to_owned(),
            401,
            "an unknown key",
        ),
        (with("use", "enc"), 401, "an unknown key"),
        (with("alg", "RS256"), 401, "an unknown key"),
        (with("crv", "P-384"), 401, "an unknown key"),
        (with("x", "AAAA"), 401, "an unknown key"),
        (off_curve, 401, "the signature"),
    ] {
        issuer.says_keys(keys);
        let serving = Serving::for_anna(&issuer, "");
        serving.refuses(&issuer.token(&serving.web, "anna"), status, told);
        serving.takes(&serving.web.token);
    }
}

#[test]
fn metadata_names_its_own_issuer_and_keys_that_it_may_name() {
    let issuer = Issuer::new();
    let inside = Server::hello_at("127.0.0.1:0");
    for (metadata, told) in [
        (
            json!({ "issuer": "https://other.example", "jwks_uri": issuer.server.url("/keys") }),
            "for another issuer",
        ),
        (
            json!({ "jwks_uri": issuer.server.url("/keys") }),
            "for another issuer",
        ),
        (json!({ "issuer": issuer.url() }), "names no keys"),
        (
            json!({ "issuer": issuer.url(), "jwks_uri": "file:///etc/passwd" }),
            "not https",
        ),
        (
            json!({ "issuer": issuer.url(), "jwks_uri": "http://192.0.2.1/keys" }),
            "not https",
        ),
        (
            json!({ "issuer": issuer.url(), "jwks_uri": "keys" }),
            "is not a URL",
        ),
        (
            json!({ "issuer": issuer.url(), "jwks_uri": inside.url("/") }),
            "is no set of keys",
        ),
    ] {
        issuer.says_metadata(metadata);
        let serving = Serving::for_anna(&issuer, "");
        serving.refuses(&issuer.token(&serving.web, "anna"), 503, told);
    }
    // The settings name the keys, and the metadata does not matter.
    let keys = format!("jwks = \"{}\"", issuer.server.url("/keys"));
    let serving = Serving::for_anna(&issuer, &keys);
    serving.takes(&issuer.token(&serving.web, "anna"));
}

/// Tries to start a server, and returns what it says instead.
fn told(settings: &str, options: &[&str]) -> String {
    let home = Home::new();
    home.configure(settings);
    let arguments = Web::arguments(&["probe#invocation"], options);
    let arguments: Vec<&str> = arguments.iter().filter_map(|word| word.to_str()).collect();
    home.toolcell(&arguments).run().exits(3).stderr
}

#[test]
fn settings_that_contradict_themselves_are_told_at_the_start() {
    let issuer = Issuer::new();
    let section = issuer.section("");
    let anna = issuer.principal("anna", "{ sub = \"anna\" }");
    let nameless = "[[principal]]\nname = \"anna\"\nclaims = { sub = \"anna\" }\n";
    let all = issuer.principal("all", "{}");
    let same = issuer.principal("bert", "{ sub = \"anna\", groups = \"ops\" }");
    for (settings, options, meant) in [
        (anna.clone(), &[][..], "no [[issuer]] has that url"),
        (nameless.to_owned(), &[], "claims are those of an issuer"),
        (anna.replace("\"anna\" }", "[] }"), &[], "has no text"),
        (
            format!("{section}{same}{anna}"),
            &[],
            "one token can always have",
        ),
        (
            format!("{section}{anna}{all}"),
            &[],
            "one token can always have",
        ),
        (
            format!("{section}{anna}{same}"),
            &[],
            "one token can always have",
        ),
        (
            format!("{section}{anna}"),
            &["--no-token"],
            "leave out one of them",
        ),
        (
            format!("{section}{section}"),
            &[],
            "two [[issuer]] have the url",
        ),
        (
            section.replace("http://127.0.0.1", "http://192.0.2.1"),
            &[],
            "give https://",
        ),
    ] {
        let told = told(&settings, options);
        assert!(told.contains(meant), "{meant}: {told}");
    }
}

#[test]
fn issuers_follow_the_configuration() {
    let issuer = Issuer::new();
    let serving = Serving::of("");
    let token = issuer.token(&serving.web, "anna");
    serving.refuses(&token, 401, "unauthorized");
    let anna = issuer.principal("anna", "{ sub = \"anna\" }");
    let configure = |settings: String, token: &str, status: u16| {
        serving.home.configure(&settings);
        let end = Instant::now() + Duration::from_secs(30);
        while serving.call(token).status != status && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    configure(format!("{}{anna}", issuer.section("")), &token, 200);
    serving.takes(&token);
    // Issuers that stay keep their keys.
    let bert = issuer.principal("bert", "{ sub = \"bert\" }");
    configure(format!("{}{bert}", issuer.section("")), &token, 403);
    serving.refuses(&token, 403, "no_principal");
    serving.takes(&issuer.token(&serving.web, "bert"));
    assert_eq!(issuer.fetches(), 1);
    configure(String::new(), &token, 401);
    serving.refuses(&token, 401, "unauthorized");
}

#[test]
fn a_token_that_names_no_key_is_verified_by_new_keys() {
    let issuer = Issuer::new();
    let serving = Serving::for_anna(&issuer, "");
    serving.takes(&issuer.token(&serving.web, "anna"));
    let next = Signer::ec();
    issuer.has_keys(&[next.jwk("two")]);
    let header = json!({ "alg": "ES256", "typ": "at+jwt" });
    let new = next.token(&header, &issuer.claims(&serving.web, "anna"));
    std::thread::sleep(PAUSE);
    serving.takes(&new);
    assert_eq!(issuer.fetches(), 2);
    // One that no key verifies asks as rarely as one with an unknown key.
    let wrong = Signer::ec().token(&header, &issuer.claims(&serving.web, "anna"));
    let began = Instant::now();
    for _ in 0..50 {
        serving.refuses(&wrong, 401, "the signature of the token is wrong");
    }
    let more = 1 + usize::try_from(began.elapsed().as_secs() / 5).unwrap();
    assert!(issuer.fetches() <= 2 + more, "{}", issuer.fetches());
}

#[test]
fn keys_are_fetched_through_the_proxy_and_with_the_certificates_of_the_options() {
    let identity = Identity::of(&["auth.example"]);
    let signer = Signer::ec();
    let keys = json!({ "keys": [signer.jwk("one")] }).to_string();
    let server = Server::secure(&identity, move |visit| {
        if visit.head().is_some() {
            let length = keys.len();
            visit.say(&format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{keys}"
            ));
        }
    });
    let settings = "[[issuer]]\nurl = \"https://auth.example\"\njwks = \"https://auth.example/keys\"\n\
                    [[principal]]\nname = \"anna\"\nissuer = \"https://auth.example\"\nclaims = { sub = \"anna\" }\n";
    let called = |has_roots: bool| {
        let proxy = relay(server.port, OPEN);
        let home = Home::new();
        home.configure(settings);
        let roots = identity.authority_in(home.path());
        let roots = format!("--tls-ca={}", roots.display());
        let roots = has_roots.then_some(roots.as_str());
        let arguments = Web::arguments(&["probe#invocation"], roots);
        let arguments: Vec<&str> = arguments.iter().filter_map(|word| word.to_str()).collect();
        let program = home.toolcell(&arguments);
        let web = Web::run(program.env("HTTPS_PROXY", &proxy.url()));
        let claims = json!({
            "iss": "https://auth.example",
            "aud": format!("http://{}/mcp", web.address),
            "sub": "anna",
            "iat": now(),
            "exp": now() + 300,
        });
        let header = json!({ "alg": "ES256", "typ": "at+jwt", "kid": "one" });
        let reply = Serving { web, home }.call(&signer.token(&header, &claims));
        (reply, proxy.heads())
    };
    let (reply, heads) = called(true);
    assert_eq!(reply.status, 200, "{reply:?}");
    let is_tunnel = |head: &String| head.starts_with("CONNECT auth.example:443 ");
    assert!(
        !heads.is_empty() && heads.iter().all(is_tunnel),
        "{heads:?}"
    );
    let (reply, heads) = called(false);
    assert_eq!(reply.status, 503, "{reply:?}");
    assert!(heads.iter().all(is_tunnel), "{heads:?}");
}

#[test]
fn a_check_fetches_the_keys_of_each_issuer() {
    let issuer = Issuer::new();
    let home = Home::new();
    let anna = issuer.principal("anna", "{ sub = \"anna\" }");
    home.configure(&format!("{}{anna}", issuer.section("")));
    let arguments = Web::arguments(&["probe#invocation"], ["--check"]);
    let arguments: Vec<&str> = arguments.iter().filter_map(|word| word.to_str()).collect();
    let check = || home.toolcell(&arguments).run();
    let subject = format!("issuer {}", issuer.url());
    let good = check().exits(0).stdout;
    let line = format!("ready    {subject}: 1 key that can verify tokens");
    assert!(good.contains(&line), "{good}");
    let mut key = issuer.signer.jwk("one");
    key["alg"] = json!("ES512");
    issuer.has_keys(&[key]);
    let bad = check().exits(1).stdout;
    let line = format!("missing  {subject}: it has no key of an accepted algorithm");
    assert!(bad.contains(&line), "{bad}");
    issuer.says_keys("<html>".to_owned());
    let bad = check().exits(1).stdout;
    assert!(
        bad.contains(&subject) && bad.contains("is no set of keys"),
        "{bad}"
    );
}

#[test]
fn the_page_takes_an_access_token_until_it_ends() {
    let issuer = Issuer::new();
    let anna = issuer.principal("anna", "{ sub = \"anna\" }") + "page = true\n";
    let serving = Serving::of(&(issuer.section("skew = \"1s\"") + &anna));
    let mut browser = Browser::at(&serving.web.address.to_string());
    let mut claims = issuer.claims(&serving.web, "anna");
    claims["exp"] = json!(now() + 10);
    let token = issuer.signer.token(&issuer.header(), &claims);
    let entered = browser.post("/enter", &format!("token={token}")).is(303);
    browser.keep_cookie(&entered);
    assert!(browser.get("/").is(200).text().contains("token:anna"));
    let unknown = issuer.token(&serving.web, "bert");
    browser.post("/enter", &format!("token={unknown}")).is(401);
    // Whoever cannot be verified now is told to come back.
    issuer.says_keys("{}".to_owned());
    std::thread::sleep(PAUSE);
    let mut header = issuer.header();
    header["kid"] = json!("two");
    let other = issuer
        .signer
        .token(&header, &issuer.claims(&serving.web, "anna"));
    let away = browser.post("/enter", &format!("token={other}")).is(503);
    assert_eq!(away.header("retry-after"), Some("5"), "{}", away.head);
    browser.get("/").is(200);
    let began = Instant::now();
    while browser.get("/").status == 200 {
        assert!(began.elapsed() < Duration::from_secs(20), "it does not end");
        std::thread::sleep(Duration::from_millis(200));
    }
    browser.get("/").is(401);
}
