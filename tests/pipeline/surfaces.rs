//! What those who follow a host hear of its surfaces.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use toolcell::Listener;
use toolcell_engine::catalog::{Surface, SurfaceConditions, ToolSelection};
use toolcell_engine::find::{ToolFinder, ToolQuery};
use toolcell_policy::Policy;
use toolcell_spec::ToolEvent;

use super::doubles::{crowd, own_host};
use crate::support::{Test, check_one};

/// Keeps all events, checked against their schema.
#[derive(Default)]
struct Heard(Mutex<Vec<Value>>);

impl Listener for Heard {
    fn event(&self, event: &ToolEvent) {
        let event = serde_json::to_value(event).unwrap();
        check_one("event", &event);
        self.0.lock().unwrap().push(event);
    }
}

#[tokio::test]
async fn a_surface_is_created_once_and_updated_only_by_changes() {
    let heard = Arc::new(Heard::default());
    let listener = Arc::clone(&heard);
    let host = own_host(|settings| settings.listener(listener));
    Test::of_bytes(crowd("surface_events", 3, |_| {}), Some("t0"))
        .on(&host)
        .load()
        .await
        .unwrap();
    heard.0.lock().unwrap().clear();
    let conditions = SurfaceConditions {
        policy: &Policy::default(),
        missing_secrets: &Default::default(),
        missing_folders: &[],
    };
    let build = |budget| {
        let selection = ToolSelection {
            budget,
            ..ToolSelection::default()
        };
        Surface::build(host.catalog().tools(), selection, &conditions)
    };
    let first = build(3);
    let same = build(3);
    let smaller = build(1);
    assert_eq!(
        host.announce_surface(&first, None).await.as_deref(),
        Some("created: the tools were loaded")
    );
    assert_eq!(host.announce_surface(&same, Some(&first)).await, None);
    assert_eq!(
        host.announce_surface(&smaller, Some(&first))
            .await
            .as_deref(),
        Some("updated: budget")
    );
    let names = host
        .catalog()
        .tools()
        .iter()
        .map(|tool| tool.declaration().qualified_name())
        .collect();
    let finder = ToolFinder::new(&smaller, names).unwrap();
    let found = finder
        .search(&ToolQuery::parse("select:t0,t1").unwrap(), 5, |_| false)
        .unwrap();
    host.announce_discovered(smaller.id(), &found, None).await;
    host.announce_loaded(smaller.id(), "surface_events.t1", "select:t1", None)
        .await;
    let heard = heard.0.lock().unwrap();
    let types: Vec<&str> = heard
        .iter()
        .map(|event| event["event_type"].as_str().unwrap())
        .collect();
    let expected = [
        "tool.surface.created",
        "tool.surface.updated",
        "tool.deferred.discovered",
        "tool.deferred.loaded",
    ];
    assert_eq!(types, expected);
    assert_eq!(heard[1]["data"]["before"], heard[0]["data"]["surface_id"]);
    assert_eq!(
        heard[2]["data"]["matches"],
        json!([{ "tool_id": "surface_events.t1", "score": null }])
    );
    assert_eq!(heard[3]["tool_id"], "surface_events.t1");
    let of_smaller = json!(smaller.id());
    assert!(
        heard[1..]
            .iter()
            .all(|event| event["data"]["surface_id"] == of_smaller),
        "{heard:#?}"
    );
}
