use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::full_text::{RANKED_MAX, expression};
use super::words;
use super::{QUERY_CHARS_MAX, QueryKind, RESULTS, RESULTS_MAX, ToolFinder, ToolQuery};
use crate::catalog::{ComponentFacts, Surface, Tool};
use toolcell_spec::dialect::agent_tool;
use toolcell_spec::{ErrorCode, LoadingState, NextAction, QueryType, ToolSearchResult};

const COMPONENT: usize = 256;

pub(super) fn declared(namespace: &str, name: &str, more: Value) -> Value {
    let mut declaration = json!({
        "schema_version": "0.2.0", "namespace": namespace, "name": name, "description": "does something",
        "lifecycle": "available", "tool_kind": "function",
    });
    declaration
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    declaration
}

fn tools(declarations: &[Value]) -> Vec<Arc<Tool>> {
    let load = |(at, declarations): (usize, &[Value])| {
        let described =
            agent_tool::toolkit(&json!({ "declarations": declarations }).to_string()).unwrap();
        let component = format!("sha256:{at:064x}").into();
        let facts = ComponentFacts {
            component,
            ..ComponentFacts::default()
        };
        Tool::from_toolkit(
            described.toolkit,
            &described.notes,
            &facts,
            Duration::from_secs(60),
        )
        .unwrap()
    };
    let components = declarations.chunk_by(|one, next| one["namespace"] == next["namespace"]);
    components
        .flat_map(|component| component.chunks(COMPONENT))
        .enumerate()
        .flat_map(load)
        .collect()
}

pub(super) fn finder(declarations: &[Value], budget: usize) -> ToolFinder {
    let tools = tools(declarations);
    let names = tools
        .iter()
        .map(|tool| tool.declaration().qualified_name())
        .collect();
    ToolFinder::new(&Surface::new(tools, budget), names).unwrap()
}

fn search(finder: &ToolFinder, query: &str, limit: usize) -> ToolSearchResult {
    finder
        .search(&ToolQuery::parse(query).unwrap(), limit, |_| false)
        .unwrap()
}

fn found(finder: &ToolFinder, query: &str) -> Vec<String> {
    search(finder, query, RESULTS_MAX)
        .matches
        .into_iter()
        .map(|tool| tool.name)
        .collect()
}

#[test]
fn each_of_a_thousand_tools_is_found_first_by_its_own_word() {
    let own = |n: usize| format!("zq{n:04}x");
    let declarations: Vec<Value> = (0..1_000)
        .map(|n| {
            let description = format!("Reads, writes and searches records of the {} kind", own(n));
            declared(
                "many",
                &format!("t{n}"),
                json!({ "description": description }),
            )
        })
        .collect();
    let finder = finder(&declarations, 10);
    for n in 0..1_000 {
        let result = search(
            &finder,
            &format!("which tool reads {} records?", own(n)),
            RESULTS,
        );
        assert_eq!(result.matches[0].name, format!("many.t{n}"), "{result:#?}");
        assert_eq!(
            (result.matches.len(), result.total_deferred_tools),
            (RESULTS, 990)
        );
    }
}

#[test]
fn words_that_most_tools_have_fill_up_a_result_in_the_order_of_the_tools() {
    let declarations: Vec<Value> = (0..RANKED_MAX + 10)
        .map(|n| {
            let own = if [1, 100, 200].contains(&n) {
                "zebras"
            } else {
                "horses"
            };
            let lifecycle = if n == 0 || n == 100 {
                "deprecated"
            } else {
                "available"
            };
            let description = format!("Reads the names of {own}");
            declared(
                "many",
                &format!("t{n}"),
                json!({ "description": description, "lifecycle": lifecycle }),
            )
        })
        .collect();
    let finder = finder(&declarations, 10);
    let names = |query: &str, limit| -> Vec<String> {
        search(&finder, query, limit)
            .matches
            .into_iter()
            .map(|tool| tool.name)
            .collect()
    };
    assert_eq!(
        names("read the zebra", 4),
        ["many.t1", "many.t200", "many.t2", "many.t3"]
    );
    assert_eq!(names("read the zebra", 1), ["many.t1"]);
    assert_eq!(
        names("zebra", RESULTS),
        ["many.t1", "many.t200", "many.t100"]
    );
    assert_eq!(names("read nothing", 2), ["many.t1", "many.t2"]);
    let last = words_of_all(&finder, "read the zebra");
    assert_eq!(last, ["many.t100", "many.t0"], "deprecated tools come last");
}

/// The last two tools that the words rank, of all.
fn words_of_all(finder: &ToolFinder, query: &str) -> Vec<String> {
    let QueryKind::Keyword(words) = ToolQuery::parse(query).unwrap().kind else {
        panic!()
    };
    let ranked = finder.index.ranked(&words, usize::MAX / 2).unwrap();
    assert_eq!(ranked.len(), finder.entries.len());
    ranked
        .iter()
        .rev()
        .take(2)
        .rev()
        .map(|(at, _)| finder.entries[*at].name.clone())
        .collect()
}

/// More tools than every word ranks. `t7` has another word, and `t250` repeats the last.
fn common(words: &[String]) -> ToolFinder {
    let declarations: Vec<Value> = (0..RANKED_MAX + 10)
        .map(|n| {
            let mut description = words.join(" ");
            match n {
                7 => description += " zebras",
                250 => (0..9).for_each(|_| description += &format!(" {}", words.last().unwrap())),
                _ => {}
            }
            declared(
                "many",
                &format!("t{n}"),
                json!({ "description": description }),
            )
        })
        .collect();
    finder(&declarations, 10)
}

#[test]
fn a_word_of_a_long_query_is_common_or_rare_wherever_it_is() {
    let words: Vec<String> = (0..40).map(|n| format!("w{n}")).collect();
    let finder = common(&words);
    for query in [
        format!("{} zebra", words.join(" ")),
        format!("zebra {}", words.join(" ")),
    ] {
        let result = search(&finder, &query, 3);
        let names: Vec<&str> = result
            .matches
            .iter()
            .map(|tool| tool.name.as_str())
            .collect();
        assert_eq!(
            names,
            ["many.t7", "many.t0", "many.t1"],
            "common words rank nothing beside a rare one"
        );
    }
}

#[test]
fn a_query_of_hundreds_of_common_words_has_its_rare_word_and_fills_up_its_result() {
    let words: Vec<String> = ('a'..='z')
        .flat_map(|c| (0..10).map(move |n| format!("{c}{n}")))
        .collect();
    let finder = common(&words);
    let result = search(&finder, &format!("zebra {}", words.join(" ")), RESULTS);
    assert_eq!(
        (result.matches[0].name.as_str(), result.matches.len()),
        ("many.t7", RESULTS)
    );
    assert_eq!(
        search(&finder, &words.join(" "), RESULTS).matches.len(),
        RESULTS
    );
}

#[test]
fn a_word_is_found_in_every_field() {
    let finder = finder(
        &[
            declared(
                "alpha",
                "bravo",
                json!({ "title": "Charlie", "description": "Speaks of delta_wings." }),
            ),
            declared("other", "one", json!({ "search_hint": "echo foxtrot" })),
            declared(
                "other",
                "two",
                json!({ "aliases": ["golf"], "tool_kind": "web_search" }),
            ),
        ],
        9,
    );
    for (name, words) in [
        (
            "alpha.bravo",
            &[
                ("alpha", "namespace"),
                ("bravo", "name"),
                ("charlie", "title"),
                ("DELTA", "description"),
                ("wing", "description"),
                ("delta_wings", "description"),
            ][..],
        ),
        (
            "other.one",
            &[("echo", "search_hint"), ("foxtrots", "search_hint")],
        ),
        ("other.two", &[("golf", "aliases"), ("web", "tool_kind")]),
    ] {
        for (word, reason) in words {
            let matches = search(&finder, word, RESULTS).matches;
            assert_eq!(matches.len(), 1, "{word}");
            assert_eq!(matches[0].name, name, "{word}");
            assert_eq!(matches[0].match_reasons, [*reason], "{word}");
        }
    }
    let several = &search(&finder, "golf two", RESULTS).matches[0];
    assert_eq!(several.match_reasons, ["name", "aliases"]);
    let named = &search(&finder, "select:other.two", RESULTS).matches[0];
    assert!(named.match_reasons.is_empty());
    assert_eq!(found(&finder, "other").len(), 2);
}

#[test]
fn names_count_most_deprecated_tools_come_last_and_the_order_stays() {
    let deprecated = json!({ "lifecycle": "deprecated" });
    let finder = finder(
        &[
            declared("a", "grep", deprecated),
            declared(
                "a",
                "fetch",
                json!({ "description": "a page that may hold grep, and much else" }),
            ),
            declared("b", "grep", json!({})),
            declared("c", "grep", json!({})),
            declared("c", "unrelated", json!({})),
        ],
        2,
    );
    let expected = ["b.grep", "c.grep", "a.fetch", "a.grep"];
    assert_eq!(found(&finder, "grep"), expected);
    assert_eq!(found(&finder, "grep"), expected);
    let result = search(&finder, "grep", 3);
    let states: Vec<LoadingState> = result
        .matches
        .iter()
        .map(|tool| tool.loading_state)
        .collect();
    assert_eq!(
        states,
        [
            LoadingState::Loaded,
            LoadingState::Deferred,
            LoadingState::Loaded
        ]
    );
    assert!(result.matches[0].score >= result.matches[1].score);
}

#[test]
fn exact_names_are_case_sensitive_and_missing_ones_are_named() {
    let finder = finder(
        &[
            declared("a", "read", json!({ "aliases": ["cat"] })),
            declared("b", "read", json!({ "aliases": ["cat"] })),
            declared("b", "off", json!({ "lifecycle": "disabled" })),
            declared("b", "gone", json!({ "lifecycle": "retired" })),
        ],
        0,
    );
    assert_eq!(found(&finder, "select:a.read"), ["a.read"]);
    assert_eq!(
        found(&finder, " select: b.read , a.read,b.read"),
        ["b.read", "a.read"]
    );
    assert_eq!(found(&finder, "select:read"), ["a.read", "b.read"]);
    assert_eq!(
        found(&finder, "select:cat"),
        ["a.read", "b.read"],
        "an alias of both"
    );
    let result = search(&finder, "select:A.read,a.read,b.gone", 1);
    assert_eq!(result.missing_names, ["A.read", "b.gone"]);
    assert_eq!(
        (result.query_type, result.next_action),
        (QueryType::Select, NextAction::Load)
    );
    assert_eq!(result.matches[0].selection_ref, "select:a.read");
    let off = search(&finder, "select:off", 1);
    assert_eq!(
        (off.matches[0].loading_state, off.next_action),
        (LoadingState::Unavailable, NextAction::None)
    );
    let reason = serde_json::to_value(off.matches[0].reason).unwrap();
    assert_eq!(
        (reason, off.total_deferred_tools),
        (json!("feature_disabled"), 2)
    );
    assert!(
        found(&finder, "off").is_empty(),
        "words find what can be called"
    );
}

#[test]
fn what_was_loaded_is_no_longer_deferred() {
    let finder = finder(
        &[
            declared("a", "one", json!({})),
            declared("a", "two", json!({})),
        ],
        0,
    );
    let query = ToolQuery::parse("something").unwrap();
    let result = finder
        .search(&query, RESULTS, |name| name == "a.two")
        .unwrap();
    let state = |at: usize| {
        (
            result.matches[at].name.as_str(),
            result.matches[at].loading_state,
        )
    };
    assert_eq!(
        [state(0), state(1)],
        [
            ("a.one", LoadingState::Deferred),
            ("a.two", LoadingState::Loaded)
        ]
    );
    assert_eq!(
        (result.total_deferred_tools, result.next_action),
        (1, NextAction::Load)
    );
}

#[test]
fn no_query_is_read_as_syntax() {
    let finder = finder(
        &[
            declared("a", "read", json!({})),
            declared("a", "near", json!({})),
        ],
        9,
    );
    for query in [
        "\"",
        "\"\"",
        "read\"",
        "\" OR name : \"",
        "*",
        "rea*",
        "^read",
        "name:read",
        "{name title}: read",
        "(",
        ")",
        "read AND",
        "NOT read",
        "NEAR(read, 2)",
        "read NEAR/2 x",
        "-read",
        "+",
        "'; DROP TABLE tools; --",
        "read\0x",
        "\0",
        "tools MATCH 'x'",
        "\u{201c}read\u{201d}",
        "\u{301}",
        "\\",
        "%",
        "read;read",
        "\n\r\t.",
        "\u{202e}",
    ] {
        match ToolQuery::parse(query) {
            Ok(parsed) => _ = finder.search(&parsed, RESULTS, |_| false).unwrap(),
            Err(refusal) => assert_eq!(refusal.code, ErrorCode::QueryEmpty, "{query:?}"),
        }
    }
    assert_eq!(found(&finder, "NEAR"), ["a.near"], "an operator is a word");
    assert_eq!(found(&finder, "name:read"), ["a.read"]);
    assert!(found(&finder, "rea*").is_empty());
    assert_eq!(
        expression(&words("a\"b  OR-c\u{0}d")),
        "\"a\" OR \"b\" OR \"OR\" OR \"c\" OR \"d\""
    );
    assert_eq!(words("a b A a"), ["a", "b"], "each word once");
    // Words that are found nowhere, and the longest query.
    let none = search(&finder, "zebra", RESULTS);
    assert!(none.matches.is_empty() && none.next_action == NextAction::SearchAgain);
    assert!(found(&finder, &"x ".repeat(QUERY_CHARS_MAX / 2)).is_empty());
}

#[test]
fn a_query_is_bounded_and_not_empty() {
    for (query, code) in [
        ("x".repeat(QUERY_CHARS_MAX + 1), "query_too_long"),
        (" ".to_owned(), "query_empty"),
        ("select: ,".to_owned(), "query_empty"),
    ] {
        assert_eq!(ToolQuery::parse(&query).unwrap_err().code.as_str(), code);
    }
}

#[test]
fn a_result_holds_no_internal_name_and_no_long_text() {
    let contract = json!({
        "model_input_schema": { "type": "object", "properties": { "zz_secret_9": {}, "zz_open_9": {} } },
        "internal_only_fields": ["zz_secret_9"],
    });
    let description = format!("Takes zz_secret_9. {}", "long ".repeat(1_000));
    let more = json!({ "input_contract": contract, "description": description, "search_hint": "zz_secret_9 too" });
    let finder = finder(&[declared("a", "one", more)], 0);
    assert!(found(&finder, "zz_secret_9").is_empty());
    let text = serde_json::to_string(&search(&finder, "long", RESULTS)).unwrap();
    assert!(
        !text.contains("zz_") && text.contains("[internal]") && text.len() < 2_000,
        "{text}"
    );
}
