use crate::database::Durability;
use toolcell_spec::InvocationId;

use super::*;

/// One line for each table that SQLite reads.
fn plan(index: &Connection, sql: &str, parameters: &[&str]) -> Vec<String> {
    let mut plan = index.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let rows = plan
        .query_map(rusqlite::params_from_iter(parameters), |row| {
            row.get::<_, String>(3)
        })
        .unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

fn add(index: &Connection, id: &str) {
    let sql = "INSERT INTO calls VALUES (?1, 1, 0, 0, NULL, NULL, NULL, 'a', 'succeeded', NULL, NULL, NULL, NULL, 0, 0)";
    index.execute(sql, [id]).unwrap();
}

#[test]
fn no_question_about_one_call_reads_all_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let index = database::open(folder.path(), Durability::Normal).unwrap();
    let ending = calls_by_ending();
    for (sql, parameters, used) in [
        (END_BY_ID, &["A"][..], "SEARCH calls USING PRIMARY KEY"),
        (
            ending.as_str(),
            &["A", "A~"][..],
            "SEARCH calls USING INDEX calls_by_ending",
        ),
        (OPEN_SEGMENTS, &[][..], "calls_without_end"),
    ] {
        let plan = plan(&index, sql, parameters);
        assert!(plan.len() == 1 && plan[0].contains(used), "{plan:?}");
    }
}

#[test]
fn a_call_is_found_by_its_id_and_by_the_end_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let index = database::open(folder.path(), Durability::Normal).unwrap();
    let ids: Vec<String> = (0..1_000)
        .map(|_| InvocationId::new().to_string())
        .collect();
    ids.iter().for_each(|id| add(&index, id));
    let found = |id: &str| {
        find(&index, id)
            .unwrap()
            .into_iter()
            .map(|call| call.id)
            .collect::<Vec<_>>()
    };
    for id in ids.iter().step_by(97) {
        assert_eq!(id.len(), 26);
        assert_eq!(found(id), [id.as_str()]);
        assert_eq!(found(&id[10..].to_lowercase()), [id.as_str()]);
    }
    // More than one ends so.
    assert_eq!(found(&ids[0][25..]).len(), ALIKE_MAX);
    for none in ["", "U", "~", "%", &format!("0{}", ids[0])] {
        assert!(found(none).is_empty(), "{none:?}");
    }
}
