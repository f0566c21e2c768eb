//! A component that panics before it describes itself.

wit_bindgen::generate!({
    inline: "
        package toolcell:test-guests;
        world crasher {
            include toolcell:tool/tool@0.2.0;
        }
    ",
    path: "../../../wit",
    generate_all,
});

use exports::toolcell::tool::guest::{Call, Guest, Outcome};

struct Crasher;

impl Guest for Crasher {
    fn describe() -> String {
        panic!("no schema for `when`\u{1b}[2J")
    }

    fn invoke(_: Call) -> Outcome {
        unreachable!("`describe` panics before this tool is known")
    }
}

export!(Crasher);
