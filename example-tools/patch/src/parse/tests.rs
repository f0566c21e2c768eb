use super::*;

fn refusal(diff: &str) -> String {
    parse(diff)
        .err()
        .map(|error| error.message)
        .unwrap_or_default()
}

#[test]
fn several_files_with_text_around_them() {
    let patches = parse(concat!(
        "From: somebody\n\nA message.\n\ndiff --git a/x.txt b/x.txt\nindex 1..2 100644\n",
        "--- a/x.txt\n+++ b/x.txt\n@@ -1,2 +1,2 @@ fn x()\n one\n-two\n+2\n",
        "--- /dev/null\t1970-01-01\n+++ b/new.txt\t2026-01-01\n@@ -0,0 +1 @@\n+new\n\\ No newline at end of file\n",
        "diff --git a/old.txt b/old.txt\ndeleted file mode 100644\n--- a/old.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n",
    ))
    .unwrap();
    let seen: Vec<_> = patches
        .iter()
        .map(|patch| (patch.path.as_str(), patch.action))
        .collect();
    let expected = [
        ("x.txt", Action::Modified),
        ("new.txt", Action::Created),
        ("old.txt", Action::Deleted),
    ];
    assert_eq!(seen, expected);
    assert_eq!(patches[0].hunks[0].old(), ["one", "two"]);
    assert!(patches[1].hunks[0].open_end);
}

#[test]
fn empty_files_come_and_go_by_their_git_header() {
    let patches = parse(concat!(
        "diff --git a/m/__init__.py b/m/__init__.py\nnew file mode 100644\nindex 0..1\n",
        "diff --git a/gone b/gone\ndeleted file mode 100644\n",
    ))
    .unwrap();
    let seen: Vec<_> = patches
        .iter()
        .map(|patch| (patch.path.as_str(), patch.action))
        .collect();
    assert_eq!(
        seen,
        [
            ("m/__init__.py", Action::Created),
            ("gone", Action::Deleted)
        ]
    );
}

#[test]
fn a_line_that_looks_like_a_header_is_a_line_of_the_hunk() {
    let patches =
        parse("--- a/q.sql\n+++ b/q.sql\n@@ -1,2 +1,1 @@\n--- comment\n select\n").unwrap();
    assert_eq!(
        patches[0].hunks[0].lines[0],
        Line::Removed("-- comment".to_owned())
    );
}

#[test]
fn what_is_no_diff_is_refused_with_the_line() {
    assert!(refusal("hello").starts_with("the diff changes no file"));
    assert!(
        refusal("--- a/x\n@@ -1 +1 @@\n")
            .starts_with("line 2 of the diff: expected a line that begins with `+++`")
    );
    assert!(refusal("--- a/x\n+++ b/x\n").contains("x has no hunks"));
    assert!(refusal("--- a/x\n+++ b/x\n@@ -1 +1 @@\n").contains("a hunk without lines"));
    assert!(
        refusal("--- a/x\n+++ b/x\n@@\n-a\nb\n+c\n")
            .starts_with("line 5 of the diff: a line of a hunk must begin with")
    );
    assert!(refusal("@@ -1 +1 @@\n-a\n+b\n").contains("a hunk without"));
    assert!(refusal("--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n").contains("a rename cannot"));
    assert!(
        refusal("diff --git a/x b/y\nrename from x\nrename to y\n").contains("a rename or a copy")
    );
    let twice = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n".repeat(2);
    assert!(refusal(&twice).contains("x is changed twice"));
}

fn hunks(hunks: &str) -> Vec<Hunk> {
    let mut patches = parse(&format!("--- a/x\n+++ b/x\n{hunks}")).unwrap();
    patches.remove(0).hunks
}

#[test]
fn headers_have_numbers_or_none() {
    let parsed = |line| {
        let Header { old_start, counts } = Header::parse(line);
        (old_start, counts)
    };
    for (line, start, counts) in [
        ("@@ -1,2 +3,4 @@ fn x()", Some(1), Some((2, 4))),
        ("@@ -7 +8 @@", Some(7), Some((1, 1))),
        ("@@-7,2 +8,3@@", Some(7), Some((2, 3))),
        ("@@ -7,2 @@", Some(7), None),
        ("@@", None, None),
        ("@@ @@", None, None),
        ("@@ ... @@", None, None),
        ("@@ -x,y +x,y @@", None, None),
        ("@@ fn x(-1 +1)", None, None),
        ("@@ -99999999999999999 +1 @@", None, None),
        ("@@ -\u{663c} +\u{1f642} @@", None, None),
    ] {
        assert_eq!(parsed(line), (start, counts), "{line}");
    }
}

#[test]
fn a_hunk_whose_counts_are_wrong_ends_where_its_lines_end() {
    let expected = hunks("@@ -5,2 +5,3 @@\n a\n-b\n+c\n+d\n");
    for header in [
        "@@ -5 +5 @@",
        "@@ -5,9 +5,9 @@",
        "@@ -5,2 +5,2 @@",
        "@@ -5,0 +5,0 @@",
    ] {
        let body = format!("{header}\n a\n-b\n+c\n+d\n");
        assert_eq!(hunks(&body), expected, "{header}");
        // Blank lines between hunks and the end of a fence are not lines of the hunk.
        let twice = hunks(&format!("{body}\n{body}\n```\n\n"));
        assert_eq!(twice, [expected.clone(), expected.clone()].concat());
        let files = parse(&format!(
            "--- a/x\n+++ b/x\n{body}--- a/y\n+++ b/y\n{body}diff --git a/z b/z\n--- a/z\n+++ b/z\n{body}"
        ))
        .unwrap();
        assert!(
            files.len() == 3 && files.iter().all(|file| file.hunks == expected),
            "{header}: {files:?}"
        );
    }
}

#[test]
fn no_line_of_a_miscounted_hunk_is_left_out() {
    // The counts fit the first three lines, but more follow.
    let all = hunks("@@ -1,2 +1,2 @@\n a\n-b\n+c\n\n+d\n");
    assert_eq!(all[0].lines.len(), 5);
    assert_eq!(all[0].old(), ["a", "b", ""]);
    // The signature of a mail is no line of the hunk.
    let mail = hunks("@@ -1,2 +1,2 @@\n a\n-b\n+c\n-- \n2.43.0\n");
    assert_eq!(mail[0].lines.len(), 3);
    // A fence in the middle is a line that lost its space.
    assert!(refusal("--- a/x\n+++ b/x\n@@\n-a\n```\n+c\n").contains("must begin with a space"));
}

#[test]
fn the_end_of_a_file_is_known_without_counts() {
    let open = hunks("@@\n-a\n\\ No newline at end of file\n+b\n");
    assert!(!open[0].open_end);
    let open = hunks("@@\n-a\n+b\n\\ No newline at end of file\n");
    assert!(open[0].open_end);
    assert!(refusal("--- a/x\n+++ b/x\n@@\n\\ No newline\n").contains("that is not there"));
}

#[test]
fn hostile_diffs_take_linear_work() {
    // Each hunk says that all lines of the diff belong to it.
    let many = "@@ -1,9999999 +1,9999999 @@\n-a\n\n".repeat(50_000);
    assert_eq!(hunks(&many).len(), 50_000);
    let blank = format!("@@\n-a\n{}", "\n".repeat(1 << 20));
    assert_eq!(hunks(&blank)[0].lines.len(), 1);
    let files: String = (0..50_000)
        .map(|number| format!("--- a/{number}\n+++ b/{number}\n@@\n-a\n+b\n"))
        .collect();
    assert_eq!(parse(&files).unwrap().len(), 50_000);
}
