use toolcell_guest::{data, tool, toolkit};

#[data]
struct Text {
    /// The text to count in.
    text: String,
}

/// Counts the words of a text.
#[tool(read_only, concurrency_safe)]
fn count(input: Text) -> String {
    format!("{} words", input.text.split_whitespace().count())
}

toolkit! { namespace: "{{name}}", tools: [count] }

#[test]
fn words_are_counted() {
    assert_eq!(
        count(Text {
            text: "one two".into()
        }),
        "2 words"
    );
}
