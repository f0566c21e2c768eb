//! A hostile tool with a server that echoes its requests must not learn a secret.
//!
//! Promise: Secrets stay outside the guest.
//! Promise: Secrets are shown nowhere.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use toolcell::{Home, Host, NetworkSettings, Resolver};
use toolcell_policy::secret::{SecretStore, SecretValue};
use toolcell_system::BoxFuture;

use crate::pipeline::doubles::{home_with_own_payloads, own_host};
use crate::support::{Called, Canary, Mirror, Test, response, scratch};

const CANARY: Canary = Canary::new("sk-live/4f9+aB~cD\"eF0123=xyz");

/// A resolver for which every name is this machine.
#[derive(Debug)]
struct Here;

impl Resolver for Here {
    fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async { Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]) })
    }
}

/// A host with one secret, and a server.
struct World {
    _guard: tempfile::TempDir,
    folder: PathBuf,
    host: Arc<Host>,
    mirror: Mirror,
}

impl World {
    fn new(mirror: Mirror) -> Self {
        let (guard, folder) = scratch();
        let home: Home = home_with_own_payloads(&folder);
        let store = SecretStore::new(home.secrets(), home.secret_key());
        store
            .set("API_KEY", &SecretValue::new(CANARY.value().to_owned()))
            .unwrap();
        let host = own_host(|settings| {
            settings
                .home(home)
                .inline_bytes_max(4 << 20)
                .network(NetworkSettings {
                    resolver: Arc::new(Here),
                    ..NetworkSettings::default()
                })
        });
        Self {
            _guard: guard,
            folder,
            host,
            mirror,
        }
    }

    /// Calls a tool of `courier`; the secret is granted for `origin`, and the network for this machine under any name.
    async fn send(&self, tool: &str, origin: &str, url: &str, input: Value) -> Called {
        let mut arguments = json!({ "url": url });
        arguments
            .as_object_mut()
            .unwrap()
            .extend(input.as_object().unwrap().clone());
        let port = self.mirror.port();
        let test = Test::new(&format!("courier#{tool}"))
            .on(&self.host)
            .grant(|grants| {
                grants
                    .allow_net(&format!("http://127.0.0.1:{port}"))
                    .unwrap();
                for host in [
                    "example.com",
                    "*.example.com",
                    "notexample.com",
                    "example.com.evil.test",
                    "localhost",
                ] {
                    grants.allow_net(&format!("http://{host}:{port}")).unwrap();
                }
                grants.allow_secret(&format!("API_KEY@{origin}")).unwrap();
            });
        let called = test.call(arguments).await;
        CANARY.is_not_in("the record", &called.record().to_string());
        called
    }

    async fn send_home(&self, tool: &str, input: Value) -> Called {
        let origin = self.mirror.origin();
        self.send(tool, &origin, &format!("{origin}/"), input).await
    }
}

fn answer(called: &Called) -> Value {
    called.succeeded()["answer"].clone()
}

#[tokio::test]
async fn a_secret_goes_to_its_very_origin_and_to_nothing_that_looks_like_it() {
    let world = World::new(Mirror::reflecting());
    let port = world.mirror.port();
    let here = world.mirror.origin();
    for (granted, url) in [
        (
            "https://example.com".to_owned(),
            format!("http://example.com:{port}/"),
        ),
        (
            format!("https://example.com:{port}"),
            format!("http://example.com:{port}/"),
        ),
        (
            format!("https://example.com:{port}"),
            format!("http://notexample.com:{port}/"),
        ),
        (
            format!("https://example.com:{port}"),
            format!("http://example.com.evil.test:{port}/"),
        ),
        (
            format!("https://example.com:{port}"),
            format!("http://sub.example.com:{port}/"),
        ),
        (format!("http://localhost:{port}"), format!("{here}/")),
        (here.clone(), format!("http://localhost:{port}/")),
        ("http://127.0.0.1".to_owned(), format!("{here}/")),
        (
            format!("http://127.0.0.1:{}", port.wrapping_add(1).max(1)),
            format!("{here}/"),
        ),
        (format!("https://127.0.0.1:{port}"), format!("{here}/")),
        (format!("http://[::1]:{port}"), format!("{here}/")),
    ] {
        let before = world.mirror.seen().len();
        let called = world.send("bearer", &granted, &url, json!({})).await;
        // Some of these names are not reached at all, because their address is not granted for them.
        for request in &world.mirror.seen()[before..] {
            assert!(
                !request.to_lowercase().contains("authorization"),
                "{granted} for {url}: {request}"
            );
            CANARY.is_not_in("a request to elsewhere", request);
        }
        drop(called);
    }
    let before = world.mirror.seen().len();
    assert!(before >= 5, "the requests themselves were sent: {before}");
    let called = world.send_home("bearer", json!({})).await;
    assert_eq!(answer(&called)["status"], 200);
    let request = world.mirror.seen().pop().unwrap();
    assert!(
        request.contains(&format!("\r\nauthorization: Bearer {}\r\n", CANARY.value())),
        "{request}"
    );
}

#[tokio::test]
async fn a_server_that_gives_the_value_back_gives_it_to_nobody() {
    let value = CANARY.value();
    let base64 = |text: String| data_encoding::BASE64.encode(text.as_bytes());
    let percent: String = value.bytes().map(|b| format!("%{b:02x}")).collect();
    let bodies = [
        value.to_owned(),
        format!("before {value} and {value}{value} after"),
        base64(format!("user:{value}")),
        base64(format!("use:{value}:more")),
        base64(format!("us:{value}")),
        data_encoding::BASE64URL.encode(format!("x{value}").as_bytes()),
        data_encoding::HEXLOWER.encode(value.as_bytes()),
        data_encoding::HEXUPPER.encode(value.as_bytes()),
        percent,
        url::form_urlencoded::byte_serialize(value.as_bytes()).collect(),
        json!({ "headers": { "authorization": format!("Bearer {value}") } }).to_string(),
        value.chars().rev().collect(),
        value.to_uppercase(),
        format!(
            "first {} second {}",
            &value[..value.len() / 2],
            &value[value.len() / 2..]
        ),
        format!("{}{value}{}", "x".repeat(70_000), "y".repeat(70_000)),
    ];
    for body in bodies {
        let kept = body.clone();
        let header = if body.len() < 1_000 {
            body.clone()
        } else {
            String::new()
        };
        let world = World::new(Mirror::new(move |_| {
            response(&[("x-echo", &header)], kept.as_bytes())
        }));
        let called = world.send_home("bearer", json!({})).await;
        let shown = answer(&called);
        assert!(
            shown["body"].to_string().contains("[secret API_KEY]"),
            "{body}: {shown}"
        );
        assert_eq!(called.0.result.redaction_state, "partial");
        let told: Vec<_> = called
            .0
            .events
            .iter()
            .filter(|e| e.event_type.as_str() == "tool.result.redacted")
            .collect();
        assert_eq!((told.len(), &told[0].data["responses"]), (1, &json!(true)));
        assert!(CANARY.is_nowhere_below(&world.folder) > 0);
    }
}

#[tokio::test]
async fn what_a_server_says_of_itself_stays_as_it_is() {
    let text = "plain text, {\"a\": [1, 2]}, sk-live-of-somebody-else, \u{e4}\u{1f600}";
    let world = World::new(Mirror::new(move |_| {
        response(&[("x-echo", "kept")], text.as_bytes())
    }));
    let called = world.send_home("bearer", json!({})).await;
    assert_eq!(answer(&called)["body"], text);
    assert!(
        answer(&called)["headers"]
            .to_string()
            .contains("[\"x-echo\",\"kept\"]")
    );
    assert_eq!(called.0.result.redaction_state, "none");
    assert!(!called.events().contains(&"tool.result.redacted"));
}

#[tokio::test]
async fn a_header_is_hidden_by_its_value_and_gone_if_its_name_is_a_value() {
    let name = "x-k-0123456789abcdef";
    let (_guard, folder) = scratch();
    let home = home_with_own_payloads(&folder);
    let store = SecretStore::new(home.secrets(), home.secret_key());
    store
        .set("API_KEY", &SecretValue::new("0123456789abcdef".to_owned()))
        .unwrap();
    let host = own_host(|settings| settings.home(home));
    let mirror = Mirror::new(move |_| {
        response(
            &[(name, "v"), ("set-cookie", "k=0123456789ABCDEF; Secure")],
            b"",
        )
    });
    let origin = mirror.origin();
    let test = Test::new("courier#bearer").on(&host).grant(|grants| {
        grants.allow_net(&origin).unwrap();
        grants.allow_secret(&format!("API_KEY@{origin}")).unwrap();
    });
    let called = test.call(json!({ "url": origin })).await;
    let headers = answer(&called)["headers"].to_string();
    assert!(
        headers.contains("k=[secret API_KEY]; Secure") && !headers.contains("x-k-"),
        "{headers}"
    );
}

#[tokio::test]
async fn a_body_in_which_no_value_could_be_found_is_refused() {
    for coding in ["gzip", "br", "identity, gzip"] {
        let world = World::new(Mirror::new(move |_| {
            response(&[("content-encoding", coding)], b"\x1f\x8b\x08\x00")
        }));
        let called = world.send_home("bearer", json!({})).await;
        let error = answer(&called)["error"].as_str().unwrap().to_owned();
        assert!(error.contains("ContentCoding"), "{coding}: {error}");
    }
    // The host did not request a content coding, whatever header the tool set.
    let world = World::new(Mirror::reflecting());
    let asked = json!({ "headers": [["accept-encoding", "gzip"], ["range", "bytes=0-3"], ["x-mine", "1"]] });
    world.send_home("bearer", asked).await.succeeded();
    let request = world.mirror.seen().pop().unwrap().to_lowercase();
    assert!(
        request.contains("accept-encoding: identity\r\n") && request.contains("x-mine: 1\r\n"),
        "{request}"
    );
    assert!(
        !request.contains("gzip") && !request.contains("range:"),
        "{request}"
    );
}

#[tokio::test]
async fn what_a_tool_writes_where_a_secret_goes_gives_way() {
    let world = World::new(Mirror::reflecting());
    let mine = json!({ "headers": [["x-custom-key", "mine"], ["X-Custom-Key", "mine too"]] });
    world.send_home("header", mine).await.succeeded();
    let request = world.mirror.seen().pop().unwrap();
    assert_eq!(request.matches("x-custom-key").count(), 1, "{request}");
    assert!(
        request.contains(&format!("x-custom-key: k={}\r\n", CANARY.value())),
        "{request}"
    );

    let origin = world.mirror.origin();
    world
        .send(
            "query",
            &origin,
            &format!("{origin}/p?key=mine&k%65y=mine&b=1"),
            json!({}),
        )
        .await
        .succeeded();
    let request = world.mirror.seen().pop().unwrap();
    assert!(
        request.starts_with("GET /p?b=1&key=sk-live%2F4f9") && !request.contains("mine"),
        "{request}"
    );
}

#[tokio::test]
async fn a_tool_has_no_way_to_know_what_it_carries() {
    let world = World::new(Mirror::new(|_| response(&[], b"nothing of it")));
    let called = world.send_home("bearer", json!({})).await;
    let surroundings = &called.succeeded()["surroundings"];
    assert_eq!(surroundings["environment"], json!([]));
    assert!(
        !surroundings.to_string().contains("API_KEY"),
        "{surroundings}"
    );
}

#[tokio::test]
async fn only_what_a_tool_declares_as_a_credential_is_carried() {
    let world = World::new(Mirror::reflecting());
    for tool in ["plain", "undeclared"] {
        world.send_home(tool, json!({})).await.succeeded();
        let request = world.mirror.seen().pop().unwrap();
        assert!(!request.contains("authorization"), "{tool}: {request}");
    }
    let sent = world.mirror.seen().len();
    world
        .send_home("unnamed", json!({}))
        .await
        .failed("permission_denied", "not_granted")
        .never_ran();
    // One of two secrets is not enough.
    let called = world.send_home("two", json!({})).await;
    called
        .failed("permission_denied", "not_granted")
        .never_ran();
    assert!(
        called.message().contains("OTHER_KEY"),
        "{}",
        called.message()
    );
    assert_eq!(world.mirror.seen().len(), sent);
}

#[tokio::test]
async fn two_secrets_go_to_their_own_places_and_origins() {
    let world = World::new(Mirror::reflecting());
    let home = Home::at(&world.folder);
    let store = SecretStore::new(home.secrets(), home.secret_key());
    store
        .set(
            "OTHER_KEY",
            &SecretValue::new("other-value-0815".to_owned()),
        )
        .unwrap();
    let origin = world.mirror.origin();
    let port = world.mirror.port();
    let call = |url: String| {
        let test = Test::new("courier#two").on(&world.host).grant(|grants| {
            grants.allow_net(&origin).unwrap();
            grants
                .allow_net(&format!("http://localhost:{port}"))
                .unwrap();
            grants.allow_secret(&format!("API_KEY@{origin}")).unwrap();
            grants
                .allow_secret(&format!("OTHER_KEY@http://localhost:{port}"))
                .unwrap();
        });
        test.call(json!({ "url": url }))
    };
    let called = call(format!("{origin}/")).await;
    let request = world.mirror.seen().pop().unwrap();
    assert!(
        request.contains(CANARY.value()) && !request.contains("other"),
        "{request}"
    );
    assert!(called.record().to_string().contains("[secret API_KEY]"));
    call(format!("http://localhost:{port}/")).await.succeeded();
    let request = world.mirror.seen().pop().unwrap();
    assert!(
        request.starts_with("GET /?other=other-value-0815 ") && !request.contains(CANARY.value()),
        "{request}"
    );
}

#[tokio::test]
async fn a_profile_that_would_put_a_secret_where_it_frames_a_request_does_not_load() {
    for (uses, why) in [
        (
            json!([{ "ref": "A", "header": "Host" }]),
            "belongs to the connection",
        ),
        (
            json!([{ "ref": "A", "header": "content-length" }]),
            "belongs to the connection",
        ),
        (
            json!([{ "ref": "A", "header": "a b" }]),
            "is not a header name",
        ),
        (
            json!([{ "ref": "A", "header": "x-a", "prefix": "a\r\nx-b: " }]),
            "no header has",
        ),
        (
            json!([{ "ref": "A", "header": "x-a", "query": "a" }]),
            "not both",
        ),
        (json!([{ "ref": "A", "query": "" }]), "no name"),
        (json!([{ "ref": "B" }]), "credential_refs does not"),
    ] {
        let bytes = crate::pipeline::doubles::echoing("misplaced", |toolkit| {
            toolkit["declarations"][0]["permission_profile_ref"] = json!("p");
            toolkit["permission_profiles"] = json!([{
                "schema_version": "0.2.0", "permission_profile_id": "p", "risk_level": "low",
                "access_kinds": ["credential"], "credential_refs": ["A"], "credential_uses": uses,
            }]);
        });
        let refusal = Test::of_bytes(bytes, None).load().await.unwrap_err();
        assert!(refusal.message.contains(why), "{why}: {}", refusal.message);
    }
}
