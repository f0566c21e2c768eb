use toolcell_guest::{
    Outcome,
    serde_json::{Value, json},
    testing,
};

use super::*;
use crate::{Toolkit, folder::Folder};

/// The text after the edits, or the code and the message of the error.
fn edited(text: &str, edits: Value) -> Result<String, String> {
    let folder = Folder::new(&[("a.txt", text)]);
    let path = folder.text("a.txt");
    let outcome = testing::invoke::<Toolkit>("edit", json!({"path": path, "edits": edits}));
    let [(_, after)] = folder.files().try_into().unwrap();
    match outcome {
        Outcome::Success(output) => {
            let value = output.structured.unwrap();
            assert_eq!(
                (&value["path"], &value["bytes"]),
                (&json!(path), &json!(after.len()))
            );
            assert_eq!(
                value["replaced"].as_array().unwrap().len(),
                edits.as_array().unwrap().len()
            );
            Ok(after)
        }
        Outcome::Failure(error) => {
            assert_eq!(after, text, "nothing may be written");
            let message = error.message.replace(&path, "a.txt");
            Err(format!("{} {message}", error.code))
        }
        other => panic!("{other:?}"),
    }
}

fn one(old: &str, new: &str) -> Value {
    json!([{"old": old, "new": new}])
}

#[test]
fn edits_apply_in_order_to_the_result_of_those_before() {
    let edits = json!([
        {"old": "one", "new": "two"},
        {"old": "two\ntwo", "new": "three"},
        {"old": "e", "new": "é", "all": true},
        {"old": "\nénd", "new": ""},
    ]);
    assert_eq!(edited("one\ntwo\nend", edits).unwrap(), "thréé");
}

#[test]
fn nothing_is_written_if_one_edit_fails() {
    let edits = json!([{"old": "one", "new": "1"}, {"old": "one", "new": "2"}]);
    assert_eq!(
        edited("one\ntwo\n", edits).unwrap_err(),
        "old_not_found a.txt: edit 2 of 2: `old` does not occur; no line is like it (in the text after the edits before it); \
         nothing was changed"
    );
    // The first edit changes a part of what the second expects.
    let overlapping = json!([{"old": "b\nc", "new": "x"}, {"old": "a\nb", "new": "y"}]);
    assert!(
        edited("a\nb\nc\n", overlapping)
            .unwrap_err()
            .starts_with("old_not_found a.txt: edit 2 of 2: ")
    );
}

#[test]
fn an_old_text_that_occurs_several_times_is_refused_with_the_lines() {
    assert_eq!(
        edited("x\ny\nx\nx", one("x", "z")).unwrap_err(),
        "old_ambiguous a.txt: `old` occurs 3 times, in lines 1, 3 and 4; add text around it, or set `all`; \
         nothing was changed"
    );
    let many = edited(&"x\n".repeat(50), one("x", "z")).unwrap_err();
    assert!(
        many.contains("occurs 50 times, in lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 40 more;"),
        "{many}"
    );
}

#[test]
fn occurrences_that_overlap_are_several() {
    let twice = edited("a\na\na", one("a\na", "b")).unwrap_err();
    assert!(
        twice.contains("occurs 2 times, in lines 1 and 2;"),
        "{twice}"
    );
    let all = json!([{"old": "aa", "new": "b", "all": true}]);
    assert_eq!(edited("aaa", all.clone()).unwrap(), "ba");
    assert_eq!(edited("aaaa", all).unwrap(), "bb");
    assert!(
        edited("ééé", one("éé", "x"))
            .unwrap_err()
            .starts_with("old_ambiguous")
    );
}

#[test]
fn edits_that_say_nothing_are_refused_before_the_file_is_read() {
    assert!(
        edited("", one("", "x"))
            .unwrap_err()
            .starts_with("old_empty")
    );
    assert!(
        edited("x", one("x", "x"))
            .unwrap_err()
            .starts_with("edit_changes_nothing")
    );
    let edits = json!([{"old": "a", "new": "b"}, {"old": "", "new": "b"}]);
    let error = testing::validate::<Toolkit>("edit", json!({"path": "no/such", "edits": edits}))
        .unwrap_err();
    assert_eq!(error.code, "old_empty");
    assert!(error.message.contains("edit 2 of 2: "), "{}", error.message);
}

#[test]
fn what_is_almost_there_is_shown() {
    let text = "fn a() {\n\tone();\n}\n";
    let said = edited(text, one("fn a() {\n    one();\n}", "")).unwrap_err();
    assert!(
        said.contains("the closest has \"\\tone();\" in line 2, where `old` has \"    one();\""),
        "{said}"
    );
    assert!(
        edited("", one("x", "y"))
            .unwrap_err()
            .contains("the file is empty")
    );
}

#[test]
fn line_ends_stay_what_they_are() {
    let edits = one("b\nc", "x\ny");
    assert_eq!(edited("a\r\nb\r\nc", edits.clone()).unwrap(), "a\r\nx\r\ny");
    // The lines of this file do not all end with `\r\n`, so an edit must say which of them do.
    assert!(
        edited("a\nb\r\nc", edits)
            .unwrap_err()
            .contains("the closest has \"b\\r\" in line 2, where `old` has \"b\"")
    );
    assert_eq!(
        edited("a\nb\r\nc", one("b\r\nc", "b\nc")).unwrap(),
        "a\nb\nc"
    );
    let unix = json!([{"old": "\r\n", "new": "\n", "all": true}]);
    assert_eq!(edited("a\r\nb\r\n", unix).unwrap(), "a\nb\n");
    assert_eq!(edited("a\r\r\nb", one("b", "c")).unwrap(), "a\r\r\nc");
}

#[test]
fn characters_and_the_end_of_the_file_are_kept_whole() {
    assert_eq!(
        edited("\u{feff}漢🙂z", one("🙂", "字")).unwrap(),
        "\u{feff}漢字z"
    );
    assert_eq!(edited("a\nb", one("b", "c")).unwrap(), "a\nc");
    assert_eq!(edited("a\nb\n", one("b\n", "c")).unwrap(), "a\nc");
    // The bytes of the old text are there, but not as these characters: é is one character in one, two in the other.
    assert!(edited("e\u{301}", one("é", "e")).is_err());
}

#[test]
fn a_file_that_is_not_text_is_left_as_it_is() {
    let folder = Folder::new(&[]);
    folder.write("image", b"PNG\n\x00\x01");
    let input = json!({"path": folder.text("image"), "edits": one("PNG", "GIF")});
    let Outcome::Failure(error) = testing::invoke::<Toolkit>("edit", input) else {
        panic!()
    };
    assert_eq!(error.code, "binary_file");
}

#[test]
fn a_text_that_would_grow_beyond_the_limit_is_refused_before_it_is_built() {
    let large = "a".repeat(FILE_BYTES_MAX as usize);
    let grown = json!([{"old": "a", "new": "a".repeat(1 << 20), "all": true}]);
    assert!(
        edited(&large, grown)
            .unwrap_err()
            .starts_with("file_too_large")
    );
    let same = json!([{"old": "a", "new": "b", "all": true}]);
    assert_eq!(edited(&large, same).unwrap(), large.replace('a', "b"));
    // Each line end takes a byte more in the file.
    let lines = "a\r\n".repeat(FILE_BYTES_MAX as usize / 3);
    let more = json!([{"old": "a\n", "new": "\n\n", "all": true}]);
    assert!(
        edited(&lines, more)
            .unwrap_err()
            .starts_with("file_too_large")
    );
}

#[test]
fn old_texts_that_almost_occur_everywhere_take_linear_work() {
    let large = "a".repeat(FILE_BYTES_MAX as usize);
    let old = format!("{}b", "a".repeat(1 << 20));
    let edits: Vec<Value> = (0..3)
        .map(|_| json!({"old": old, "new": "", "all": true}))
        .collect();
    assert!(
        edited(&large, json!(edits))
            .unwrap_err()
            .starts_with("old_not_found")
    );
    let half = "a".repeat(1 << 23);
    assert!(
        edited(&large, one(&half, "b"))
            .unwrap_err()
            .contains("occurs 2 times")
    );
}
