//! Tokens: which are taken, and which are refused.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use ring::hmac;
use serde_json::{Value, json};

use super::{Issuer, RSA_KEY, Serving, Signer, now, unsigned};

#[test]
fn tokens_with_each_kind_of_key_are_taken_and_calls_have_the_principals_name() {
    for signer in [Signer::rsa(), Signer::ec(), Signer::ed()] {
        let issuer = Issuer::with(signer);
        let serving = Serving::for_anna(&issuer, "");
        let web = &serving.web;
        serving.takes(&issuer.token(web, "anna"));
        // The token that the server made stays good.
        serving.takes(&web.token);
        let mut header = issuer.header();
        for kind in ["JWT", "application/at+jwt", "AT+JWT"] {
            header["typ"] = json!(kind);
            serving.takes(&issuer.signer.token(&header, &issuer.claims(web, "anna")));
        }
        let header = json!({ "alg": header["alg"] });
        let mut claims = issuer.claims(web, "anna");
        for audience in [
            json!(format!("http://{}", web.address)),
            json!(format!("http://{}/", web.address)),
            json!([
                "https://other.example",
                format!("http://{}/mcp", web.address)
            ]),
        ] {
            claims["aud"] = audience;
            serving.takes(&issuer.signer.token(&header, &claims));
        }
        if matches!(issuer.signer, Signer::Rsa(_)) {
            let header = json!({ "alg": "PS256" });
            serving.takes(&issuer.signer.token(&header, &issuer.claims(web, "anna")));
        }
        let records = serving.records_of(8);
        let actors = records
            .iter()
            .map(|record| &record["invocation"]["actor_ref"]);
        let (own, anna): (Vec<&Value>, Vec<&Value>) =
            actors.partition(|actor| **actor == json!("token:generated"));
        assert_eq!(own.len(), 1);
        assert!(anna.len() >= 7 && anna.iter().all(|actor| **actor == json!("token:anna")));
    }
}

/// A token that another program would take as signed.
fn with_secret(header: &Value, claims: &Value, secret: &[u8]) -> String {
    let signed = unsigned(header, claims);
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let tag = hmac::sign(&key, signed.as_bytes());
    format!("{signed}.{}", BASE64URL_NOPAD.encode(tag.as_ref()))
}

#[test]
fn a_token_does_not_choose_how_it_is_verified() {
    let issuer = Issuer::with(Signer::rsa());
    let serving = Serving::for_anna(&issuer, "algorithms = [\"RS256\"]");
    let claims = issuer.claims(&serving.web, "anna");
    let jwk = issuer.signer.jwk("one");
    let not_accepted = "the algorithm of the token is not accepted";
    for algorithm in ["none", "None", "NONE", "", "HS256", "HS512", "rs256"] {
        let header = json!({ "alg": algorithm, "typ": "at+jwt", "kid": "one" });
        let signed = unsigned(&header, &claims);
        serving.refuses(&format!("{signed}."), 401, not_accepted);
        let modulus = BASE64URL_NOPAD.decode(jwk["n"].as_str().unwrap().as_bytes());
        for secret in [
            modulus.unwrap(),
            jwk["n"].as_str().unwrap().into(),
            jwk.to_string().into_bytes(),
            RSA_KEY.into(),
            Vec::new(),
        ] {
            serving.refuses(&with_secret(&header, &claims, &secret), 401, not_accepted);
        }
    }
    // The key could verify these, and the settings do not allow them.
    for algorithm in ["PS256", "RS384"] {
        let header = json!({ "alg": algorithm, "kid": "one" });
        serving.refuses(&issuer.signer.token(&header, &claims), 401, not_accepted);
    }
    // The type of the key is not that of the algorithm.
    let other = Issuer::new();
    let header = json!({ "alg": "RS256", "kid": "one" });
    serving.refuses(&other.signer.token(&header, &claims), 401, "the signature");
    // Keys of the token's own, or from where it says.
    for (name, value) in [
        ("jwk", other.signer.jwk("one")),
        ("jku", json!(other.server.url("/keys"))),
        ("x5u", json!(other.server.url("/keys"))),
    ] {
        let mut header = json!({ "alg": "RS256", "kid": "one" });
        header[name] = value;
        serving.refuses(&other.signer.token(&header, &claims), 401, "the signature");
    }
    assert_eq!((other.fetches(), serving.records().len()), (0, 0));
}

#[test]
fn a_token_that_is_not_for_this_server_and_this_time_is_refused() {
    let issuer = Issuer::new();
    let serving = Serving::for_anna(&issuer, "");
    let good = issuer.claims(&serving.web, "anna");
    let token = |change: &dyn Fn(&mut Value, &mut Value)| {
        let (mut header, mut claims) = (issuer.header(), good.clone());
        change(&mut header, &mut claims);
        issuer.signer.token(&header, &claims)
    };
    let claim = |name: &str, value: Value| token(&|_, claims| claims[name] = value.clone());
    let without = |name: &str| token(&|_, claims| _ = claims.as_object_mut().unwrap().remove(name));
    let header = |name: &str, value: Value| token(&|header, _| header[name] = value.clone());
    let audience = "the token is for another audience";
    let expired = "the token has expired";
    let early = "the token is not valid yet";
    for (token, told) in [
        (claim("aud", json!("https://other.example/mcp")), audience),
        (claim("aud", json!("http://localhost/mcp")), audience),
        (claim("aud", json!([])), audience),
        (claim("aud", json!({ "a": good["aud"] })), audience),
        (
            claim(
                "aud",
                json!(format!("{}/more", good["aud"].as_str().unwrap())),
            ),
            audience,
        ),
        (without("aud"), audience),
        (
            claim("iss", json!("https://other.example")),
            "another issuer",
        ),
        (
            claim("iss", json!(format!("{}/", issuer.url()))),
            "another issuer",
        ),
        (without("iss"), "another issuer"),
        (claim("exp", json!(now() - 61)), expired),
        (claim("exp", json!(-1e300)), expired),
        (claim("exp", json!("2100")), "no time of expiry"),
        (without("exp"), "no time of expiry"),
        (claim("nbf", json!(now() + 90)), early),
        (claim("nbf", json!("soon")), early),
        (claim("iat", json!(now() + 90)), early),
        (header("kid", json!("two")), "an unknown key"),
        (header("kid", json!(1)), "not a JWT"),
        (header("typ", json!("dpop+jwt")), "not an access token"),
        (header("typ", json!("logout+jwt")), "not an access token"),
        (header("typ", json!(1)), "not an access token"),
        (header("crit", json!(["exp"])), "demands an extension"),
        (header("b64", json!(false)), "demands an extension"),
        (
            claim("big", json!("x".repeat(16 << 10))),
            "larger than 16 KiB",
        ),
        (claim("many", json!(vec![0; 3_000])), "not a JWT"),
    ] {
        serving.refuses(&token, 401, told);
    }
    let good = issuer.token(&serving.web, "anna");
    let [head, body, _] = good.split('.').collect::<Vec<_>>()[..] else {
        panic!("{good}")
    };
    let twice = format!(
        "{{\"sub\":\"x\",{}",
        &issuer.claims(&serving.web, "anna").to_string()[1..]
    );
    let twice = format!("{head}.{}", BASE64URL_NOPAD.encode(twice.as_bytes()));
    let other = issuer.token(&serving.web, "bert");
    for (token, told) in [
        (format!("{head}.{body}.{}", "A".repeat(86)), "the signature"),
        (format!("{head}.{body}."), "the signature"),
        (
            format!("{head}.{body}.{}", other.rsplit('.').next().unwrap()),
            "the signature",
        ),
        (format!("{head}.{body}.="), "not a JWT"),
        (format!("{head}.{body}"), "not a JWT"),
        (format!("{twice}.{}", "A".repeat(86)), "not a JWT"),
        (format!("{good}.{}", "A".repeat(86)), "not a JWT"),
        (format!(".{body}."), "not a JWT"),
        ("..".to_owned(), "not a JWT"),
        ("x".repeat(64), "not a JWT"),
    ] {
        serving.refuses(&token, 401, told);
    }
    assert_eq!(serving.records().len(), 0);
    serving.takes(&good);
    // Nothing of a token is said anywhere.
    let records = format!("{:?}", serving.records_of(1));
    let said = serving.web.end();
    for part in [head, body]
        .iter()
        .chain(&good.rsplit('.').take(1).collect::<Vec<_>>())
    {
        assert!(
            !said.contains(part) && !records.contains(part),
            "{part}: {said}"
        );
    }
}

#[test]
fn clocks_may_differ_by_as_much_as_the_settings_say() {
    let issuer = Issuer::new();
    for (more, skew) in [("", 60), ("skew = \"5s\"", 5)] {
        let serving = Serving::for_anna(&issuer, more);
        let at = |end: i64, start: i64| {
            let mut claims = issuer.claims(&serving.web, "anna");
            claims["exp"] = json!(now() + end);
            claims["nbf"] = json!(now() + start);
            issuer.signer.token(&issuer.header(), &claims)
        };
        serving.takes(&at(4 - skew, skew - 2));
        serving.refuses(&at(-skew - 1, 0), 401, "the token has expired");
        serving.refuses(&at(60, skew + 5), 401, "the token is not valid yet");
    }
}

#[test]
fn a_token_needs_each_scope() {
    let issuer = Issuer::new();
    let serving = Serving::for_anna(&issuer, "scopes = [\"tools\", \"tools:call\"]");
    let with = |name: &str, value: Value| {
        let mut claims = issuer.claims(&serving.web, "anna");
        claims[name] = value;
        issuer.signer.token(&issuer.header(), &claims)
    };
    for (name, scopes) in [
        ("scope", json!("openid tools:call tools")),
        ("scp", json!(["tools", "tools:call"])),
        ("scp", json!("tools tools:call")),
    ] {
        serving.takes(&with(name, scopes));
    }
    for (scopes, missing) in [
        (json!("tools"), "lacks the scope tools:call"),
        (json!("tools:calls tools"), "lacks the scope tools:call"),
        (json!(null), "lacks the scope tools tools:call"),
    ] {
        let token = with("scope", scopes);
        serving.refuses(&token, 403, missing);
        let reply = serving.greet(&format!("Bearer {token}"));
        let challenge = reply.header("www-authenticate").unwrap();
        assert_eq!(reply.status, 403);
        for part in [
            "Bearer error=\"insufficient_scope\", ",
            missing,
            "scope=\"tools tools:call\"",
            "resource_metadata=\"http://",
        ] {
            assert!(challenge.contains(part), "{part}: {challenge}");
        }
    }
}

#[test]
fn a_token_names_one_principal_of_its_own_issuer() {
    let (one, other) = (Issuer::new(), Issuer::new());
    let settings = [
        one.section(""),
        other.section(""),
        one.principal("anna", "{ sub = \"anna\" }"),
        one.principal("ops", "{ groups = [\"ops\", \"admins\"] }"),
        other.principal("bert", "{ sub = \"bert\" }"),
    ];
    let serving = Serving::of(&settings.concat());
    let token = |issuer: &Issuer, sub: &str, groups: Value| {
        let mut claims = issuer.claims(&serving.web, sub);
        claims["groups"] = groups;
        issuer.signer.token(&issuer.header(), &claims)
    };
    serving.takes(&token(&one, "anna", json!(["dev"])));
    serving.takes(&token(&one, "carl", json!(["dev", "admins"])));
    serving.takes(&token(&other, "bert", json!("ops")));
    for (issuer, sub) in [
        (&one, "bert"),
        (&other, "anna"),
        (&one, "carl"),
        (&one, "ANNA"),
    ] {
        serving.refuses(&token(issuer, sub, json!("dev")), 403, "no_principal");
    }
    serving.refuses(&token(&other, "carl", json!("ops")), 403, "no_principal");
    serving.refuses(
        &token(&one, "anna", json!("ops")),
        403,
        "several_principals",
    );
    // Signed by one issuer in the name of the other.
    let claims = other.claims(&serving.web, "bert");
    serving.refuses(
        &one.signer.token(&one.header(), &claims),
        401,
        "the signature",
    );
    let actors: Vec<Value> = serving
        .records_of(3)
        .iter()
        .map(|record| record["invocation"]["actor_ref"].clone())
        .collect();
    assert_eq!(actors, ["token:anna", "token:ops", "token:bert"]);
}

/// Reads one response, and leaves the connection open.
fn status(kept: &mut BufReader<TcpStream>) -> u16 {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(kept.read_line(&mut head).unwrap() > 0, "{head}");
    }
    let head = head.to_ascii_lowercase();
    let (_, length) = head.split_once("content-length: ").unwrap();
    let length = length.lines().next().unwrap().parse().unwrap();
    kept.read_exact(&mut vec![0; length]).unwrap();
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_token_ends_on_a_kept_connection_too() {
    let issuer = Issuer::new();
    let serving = Serving::for_anna(&issuer, "skew = \"1s\"");
    let mut claims = issuer.claims(&serving.web, "anna");
    claims["exp"] = json!(now() + 3);
    let token = issuer.signer.token(&issuer.header(), &claims);
    serving.takes(&token);
    let address = serving.web.address;
    let request = format!(
        "GET /v1/tools HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    let mut kept = BufReader::new(serving.web.connect());
    let mut statuses = Vec::new();
    let end = now() + 10;
    while !statuses.contains(&401) && now() < end {
        kept.get_mut().write_all(request.as_bytes()).unwrap();
        statuses.push(status(&mut kept));
        std::thread::sleep(Duration::from_millis(200));
    }
    let (last, before) = statuses.split_last().unwrap();
    assert_eq!(*last, 401, "{statuses:?}");
    assert!(
        before.len() > 2 && before.iter().all(|status| *status == 200),
        "{statuses:?}"
    );
    serving.refuses(&token, 401, "the token has expired");
}
