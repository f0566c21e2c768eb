//! Secrets that a request brings for its call alone: they go where the stored ones of the same names would go, and nothing
//! shows them.
//!
//! Promise: A secret of a request is for its call alone.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use toolcell::{CallRecord, Home, Host, Listener, ToolEvent};
use toolcell_policy::secret::{SecretStore, SecretValue};

use crate::pipeline::doubles::{home_with_own_payloads, own_host};
use crate::support::{Called, Canary, Mirror, Test, scratch};

const CANARY: Canary = Canary::new("sk-user/7d0+bC~eF\"gH4567=uvw");
const STORED: Canary = Canary::new("sk-host/5e1+dE~gH\"iJ8901=rst");

/// Keeps the text of all that a listener gets.
#[derive(Default)]
struct Heard(Mutex<String>);

impl Listener for Heard {
    fn event(&self, event: &ToolEvent) {
        self.0.lock().unwrap().push_str(&format!("{event:?}\n"));
    }

    fn ended(&self, record: &CallRecord) {
        self.0.lock().unwrap().push_str(&format!("{record:?}\n"));
    }
}

/// A host that listens to all calls, and a server.
struct World {
    _guard: tempfile::TempDir,
    folder: PathBuf,
    host: Arc<Host>,
    heard: Arc<Heard>,
    mirror: Mirror,
}

impl World {
    fn new() -> Self {
        let (guard, folder) = scratch();
        let home: Home = home_with_own_payloads(&folder);
        let heard = Arc::new(Heard::default());
        let listener = Arc::clone(&heard);
        let host = own_host(|settings| settings.home(home).listener(listener));
        Self {
            _guard: guard,
            folder,
            host,
            heard,
            mirror: Mirror::reflecting(),
        }
    }

    /// Stores the secret of the operator.
    fn store(&self) {
        let home = Home::at(&self.folder);
        let store = SecretStore::new(home.secrets(), home.secret_key());
        store
            .set("API_KEY", &SecretValue::new(STORED.value().to_owned()))
            .unwrap();
    }

    /// A call of `guest#tool` that may send requests to the server, and brings a value for `name`.
    fn test(&self, tool: &str, name: &str) -> Test {
        let origin = self.mirror.origin();
        let test = Test::new(tool)
            .on(&self.host)
            .secrets(&[(name, CANARY.value())]);
        test.grant(|grants| grants.allow_net(&origin).unwrap())
    }

    /// As [`Self::test`], with the secret granted for `origin`.
    fn granted(&self, tool: &str, name: &str, origin: &str) -> Test {
        self.test(tool, name)
            .grant(|grants| grants.allow_secret(&format!("API_KEY@{origin}")).unwrap())
    }

    fn input(&self) -> Value {
        json!({ "url": format!("{}/", self.mirror.origin()) })
    }

    /// Checks that the call left its value nowhere.
    fn is_discreet(&self, called: &Called) {
        CANARY.is_not_in("the record", &called.record().to_string());
        CANARY.is_not_in("the debug output", &format!("{:?}", called.0));
        CANARY.is_not_in("what listeners heard", &self.heard.0.lock().unwrap());
        assert!(CANARY.is_nowhere_below(&self.folder) > 0);
    }
}

#[tokio::test]
async fn the_value_of_a_request_goes_where_the_stored_one_would_and_the_tool_never_sees_it() {
    let world = World::new();
    for (tool, carried) in [
        (
            "courier#bearer",
            format!("\r\nauthorization: Bearer {}\r\n", CANARY.value()),
        ),
        (
            "courier#header",
            format!("\r\nx-custom-key: k={}\r\n", CANARY.value()),
        ),
    ] {
        for is_stored in [false, true] {
            if is_stored {
                world.store();
            }
            let called = world
                .granted(tool, "API_KEY", &world.mirror.origin())
                .call(world.input())
                .await;
            assert!(
                called.succeeded()["answer"]["body"]
                    .to_string()
                    .contains("[secret API_KEY]")
            );
            let request = world.mirror.seen().pop().unwrap();
            assert!(request.contains(&carried), "{tool}: {request}");
            STORED.is_not_in("a request with a value of its own", &request);
            assert_eq!(
                called.record()["invocation"]["request_secrets"],
                json!(["API_KEY"])
            );
            world.is_discreet(&called);
        }
    }
    // The next call brings none.
    let next = Test::new("courier#bearer").on(&world.host).grant(|grants| {
        grants.allow_net(&world.mirror.origin()).unwrap();
        grants
            .allow_secret(&format!("API_KEY@{}", world.mirror.origin()))
            .unwrap();
    });
    let called = next.call(world.input()).await;
    assert!(
        called.record()["invocation"]
            .get("request_secrets")
            .is_none()
    );
    assert!(world.mirror.seen().pop().unwrap().contains(STORED.value()));
}

#[tokio::test]
async fn a_value_goes_to_no_origin_without_a_grant_and_for_no_name_that_the_tool_does_not_declare()
{
    let world = World::new();
    let called = world
        .test("courier#bearer", "API_KEY")
        .call(world.input())
        .await;
    called
        .failed("permission_denied", "not_granted")
        .never_ran();
    world.is_discreet(&called);
    let called = world
        .granted("courier#bearer", "OTHER_KEY", &world.mirror.origin())
        .call(world.input())
        .await;
    called
        .failed("credential_missing", "secret_not_set")
        .never_ran();
    assert!(world.mirror.seen().is_empty());
    // Granted for another origin, or to a tool that does not declare it.
    for (tool, origin) in [
        ("courier#bearer", "https://example.com".to_owned()),
        (
            "courier#bearer",
            format!("http://localhost:{}", world.mirror.port()),
        ),
        ("courier#plain", world.mirror.origin()),
        ("courier#undeclared", world.mirror.origin()),
    ] {
        let called = world
            .granted(tool, "API_KEY", &origin)
            .call(world.input())
            .await;
        assert_eq!(
            called.succeeded()["answer"]["status"],
            200,
            "{tool} {origin}"
        );
        let request = world.mirror.seen().pop().unwrap();
        assert!(
            !request.contains("authorization"),
            "{tool} {origin}: {request}"
        );
        CANARY.is_not_in("a request to elsewhere", &request);
        world.is_discreet(&called);
    }
    assert_eq!(world.mirror.seen().len(), 4);
}

#[tokio::test]
async fn values_that_cannot_be_kept_out_of_records_end_the_call_before_the_tool() {
    let world = World::new();
    let long = "x".repeat(5_000);
    for (value, why) in [
        ("seven77", "shorter"),
        ("two\nlines here", "line breaks"),
        (long.as_str(), "5000 bytes together"),
    ] {
        let test = world.granted("courier#bearer", "API_KEY", &world.mirror.origin());
        let mut input = world.input();
        input["headers"] = json!([["x-mine", value]]);
        let called = test.secrets(&[("API_KEY", value)]).call(input).await;
        called
            .failed("invalid_arguments", "request_secret_invalid")
            .never_ran();
        assert!(called.message().contains(why), "{}", called.message());
        assert!(!called.record().to_string().contains(value), "{value}");
    }
    assert!(world.mirror.seen().is_empty());
}

#[tokio::test]
async fn a_tool_that_is_called_by_another_one_gets_the_values_of_the_same_request() {
    let world = World::new();
    world.store();
    Test::new("courier#bearer")
        .on(&world.host)
        .load()
        .await
        .unwrap();
    let origin = world.mirror.origin();
    let test = world.granted("caller#call_carrying", "API_KEY", &origin);
    let test = test.grant(|grants| grants.allow_tool("courier.*").unwrap());
    let called = test
        .call(json!({ "tool": "courier.bearer", "input": world.input() }))
        .await;
    let answer = called.succeeded()["answers"][0]["structured"]["answer"].clone();
    assert_eq!(answer["status"], 200, "{answer:#}");
    let request = world.mirror.seen().pop().unwrap();
    assert!(request.contains(CANARY.value()), "{request}");
    STORED.is_not_in("a request for a caller with a value of its own", &request);
    world.is_discreet(&called);
}
