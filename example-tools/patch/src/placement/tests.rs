use super::*;
use crate::{
    apply::{Applied, apply},
    parse::parse,
};

fn patched(text: &str, hunks: &str) -> Result<Applied, String> {
    let patch = parse(&format!("--- a/x\n+++ b/x\n{hunks}")).unwrap();
    apply("x", text, &patch[0].hunks, &mut Work::new())
        .map_err(|error| format!("{} {}", error.code, error.message))
}

fn text(text: &str, hunks: &str) -> String {
    patched(text, hunks).unwrap().text
}

fn refused(text: &str, hunks: &str) -> String {
    patched(text, hunks).unwrap_err()
}

#[test]
fn without_numbers_a_hunk_goes_to_the_only_place_that_fits() {
    for header in ["@@", "@@ @@", "@@ ... @@", "@@ fn b()", "@@ -x +y @@"] {
        let applied = patched("a\nb\nc\n", &format!("{header}\n b\n-c\n+C\n")).unwrap();
        assert_eq!((applied.text.as_str(), applied.moved), ("a\nb\nC\n", 0));
        assert_eq!(applied.diff, "@@ -2,2 +2,2 @@\n b\n-c\n+C\n");
    }
    // The counts of the second hunk are wrong as well.
    let several = "@@\n-a\n+A\n@@ -1,9 +1,9 @@\n-c\n+C\n@@\n-d\n+D\n";
    assert_eq!(text("a\nb\nc\nd\n", several), "A\nb\nC\nD\n");
}

#[test]
fn wrong_numbers_do_not_matter_if_one_place_fits() {
    let far = format!("{}a\nb\n", "0\n".repeat(5000));
    for header in [
        "@@ -1 +1 @@",
        "@@ -1,7 +1,7 @@",
        "@@ -99999999,2 +1,2 @@",
        "@@ -0,0 +0,0 @@",
    ] {
        let applied = patched(&far, &format!("{header}\n a\n-b\n+B\n")).unwrap();
        assert!(
            applied.text.ends_with("0\na\nB\n") && applied.moved == 1,
            "{header}"
        );
        assert!(applied.diff.starts_with("@@ -5001,2 +5001,2 @@\n"));
    }
}

#[test]
fn several_places_are_refused_with_their_lines_unless_the_numbers_decide() {
    let twice = "x\na\nb\nx\nx\nx\nx\na\nb\n";
    let hunk = " a\n-b\n+B\n";
    let one = "x\na\nB\nx\nx\nx\nx\na\nb\n";
    let other = "x\na\nb\nx\nx\nx\nx\na\nB\n";
    let said = refused(twice, &format!("@@\n{hunk}"));
    assert_eq!(
        said,
        "hunk_ambiguous x: hunk 1: its lines are in more than one place, at lines 2, 8; give more context; nothing was \
         changed"
    );
    for (line, expected) in [
        (1, one),
        (2, one),
        (3, one),
        (4, one),
        (6, other),
        (8, other),
        (9, other),
    ] {
        let header = format!("@@ -{line},9 +{line},9 @@\n");
        assert_eq!(text(twice, &format!("{header}{hunk}")), expected, "{line}");
    }
    // Line 5 is as far from the one as from the other, and line 0 is far from both.
    for line in [5, 20, 500] {
        let header = format!("@@ -{line},2 +{line},2 @@\n");
        assert!(
            refused(twice, &format!("{header}{hunk}")).starts_with("hunk_ambiguous"),
            "{line}"
        );
    }
    let many = refused(&"a\n".repeat(50), "@@\n-a\n+b\n");
    assert!(
        many.contains("at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 40 more;"),
        "{many}"
    );
}

#[test]
fn a_place_far_from_the_stated_line_is_no_better_than_another() {
    let far = format!(
        "{}a\n{}a\n",
        "0\n".repeat(DISTANCE_MAX + 1),
        "0\n".repeat(5000)
    );
    assert!(refused(&far, "@@ -1 +1 @@\n-a\n+b\n").starts_with("hunk_ambiguous"));
    assert!(text(&far, "@@ -2 +2 @@\n-a\n+b\n").starts_with("0\n"));
}

#[test]
fn after_a_hunk_that_had_moved_the_stated_line_proves_nothing() {
    // Two lines were inserted above. The second hunk matches line 5 by chance; its true place is line 7.
    let inserted = "new\nnew\na\nb\nx\nc\nx\n";
    let hunks = "@@ -1,2 +1,2 @@\n a\n-b\n+B\n@@ -5,1 +5,1 @@\n-x\n+X\n";
    assert!(refused(inserted, hunks).starts_with("hunk_ambiguous x: hunk 2"));
}

#[test]
fn hunks_are_in_order_and_do_not_overlap() {
    let again = refused(
        "a\nb\nc\n",
        "@@ -1,2 +1,2 @@\n a\n-b\n+B\n@@ -2,2 +2,2 @@\n-b\n+BB\n c\n",
    );
    assert!(
        again.starts_with("hunk_out_of_order x: hunk 2: its lines are at line 2, above"),
        "{again}"
    );
    for header in ["@@", "@@ -1 +1 @@"] {
        let back = refused("a\nb\nc\n", &format!("@@\n-c\n+C\n{header}\n-a\n+A\n"));
        assert!(
            back.starts_with("hunk_out_of_order x: hunk 2: its lines are at line 1,"),
            "{back}"
        );
    }
    // Without numbers, the place above is as good as the one below, unless the hunk before has it.
    let either = refused("a\nb\na\n", "@@\n-b\n+B\n@@\n-a\n+A\n");
    assert!(
        either.contains("hunk 2: its lines are in more than one place, at lines 1, 3;"),
        "{either}"
    );
    assert_eq!(
        text("a\nb\na\n", "@@\n a\n-b\n+B\n@@\n-a\n+A\n"),
        "a\nB\nA\n"
    );
}

#[test]
fn what_differs_is_shown_where_most_is_as_expected() {
    let other = refused("a\nX\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n");
    assert!(
        other.contains("x: hunk 1: it expects \"b\" in line 2, which has \"X\""),
        "{other}"
    );
    let short = refused("a\n", "@@ -1,2 +1,1 @@\n a\n-b\n");
    assert!(short.contains("in line 2, which does not exist"), "{short}");
    for header in ["@@", "@@ -1,3 +1,3 @@"] {
        let elsewhere = refused("0\n0\na\nb\nX\n", &format!("{header}\n a\n b\n-c\n"));
        assert!(
            elsewhere.contains("it expects \"c\" in line 5, which has \"X\""),
            "{elsewhere}"
        );
    }
    let nowhere = refused("a\n", "@@\n-z\n");
    assert!(
        nowhere.contains("no line of the file is \"z\""),
        "{nowhere}"
    );
    let beyond = refused("a\n", "@@ -100000000 +1 @@\n-z\n");
    assert!(
        beyond.contains("in line 100000000, which does not exist"),
        "{beyond}"
    );
}

#[test]
fn a_hunk_that_only_adds_needs_a_line_that_shows_where() {
    for header in ["@@", "@@ -1,0 +2,1 @@", "@@ -0,0 +1 @@"] {
        let blind = refused("a\nb\n", &format!("{header}\n+new\n"));
        assert!(blind.starts_with("no_context"), "{blind}");
        assert_eq!(text("", &format!("{header}\n+new\n")), "new\n");
    }
}

#[test]
fn line_ends_and_characters_are_kept_without_numbers() {
    assert_eq!(text("a\r\nb\r\n", "@@\n a\n-b\n+B\n"), "a\r\nB\r\n");
    assert_eq!(
        text(
            "\u{feff}é\n漢\n🙂",
            "@@\n 漢\n-🙂\n+字\n\\ No newline at end of file\n"
        ),
        "\u{feff}é\n漢\n字"
    );
    assert_eq!(text("a\n\nb\n", "@@\n a\n\n-b\n+B\n"), "a\n\nB\n");
}

#[test]
fn hostile_files_and_hunks_take_bounded_work() {
    // A long hunk that almost fits everywhere.
    let same = "a\n".repeat(1 << 18);
    let hunk = format!("@@\n{}-b\n", " a\n".repeat(1 << 16));
    assert!(refused(&same, &hunk).starts_with("hunk_mismatch"));
    // A hunk that fits everywhere.
    let everywhere = refused(&same, "@@ -300000 +1 @@\n-a\n+b\n");
    assert!(everywhere.contains("and 262134 more"), "{everywhere}");
    // Many hunks, each of which needs a search of its own.
    let lines: String = (0..1 << 10).map(|line| format!("{line}\n")).collect();
    let hunks: String = (0..1 << 10).map(|line| format!("@@\n-{line}\n")).collect();
    let patch = parse(&format!("--- a/x\n+++ b/x\n{hunks}")).unwrap();
    let with = |steps| apply("x", &lines, &patch[0].hunks, &mut Work::at_most(steps));
    assert_eq!(with(1 << 19).unwrap_err().code, "patch_too_complex");
    assert_eq!(with(1 << 24).unwrap().text, "");
}
