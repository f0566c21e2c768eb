//! Rust sources as trees of tokens: as much of the language as is needed to find literals by their place.

/// A token, or what is between two brackets.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Token(String),
    /// The opening bracket, and the content.
    Group(char, Vec<Node>),
}

impl Node {
    pub(super) fn token(&self) -> &str {
        match self {
            Self::Token(token) => token,
            Self::Group(..) => "",
        }
    }

    pub(super) fn group(&self, open: char) -> Option<&[Self]> {
        match self {
            Self::Group(bracket, content) if *bracket == open => Some(content),
            _ => None,
        }
    }
}

/// Parses a source file, without its unit tests. The second value names the modules that are unit tests in other files.
pub(super) fn parse(text: &str) -> (Vec<Node>, Vec<String>) {
    let mut stack = vec![(' ', Vec::new())];
    for token in tokens(text) {
        match token.as_str() {
            "(" | "[" | "{" => stack.push((token.chars().next().unwrap(), Vec::new())),
            ")" | "]" | "}" => {
                let (open, content) = stack.pop().unwrap();
                stack.last_mut().unwrap().1.push(Node::Group(open, content));
            }
            _ => stack.last_mut().unwrap().1.push(Node::Token(token)),
        }
    }
    assert_eq!(stack.len(), 1, "brackets that are not closed");
    let mut tests = Vec::new();
    let nodes = without_tests(stack.pop().unwrap().1, &mut tests);
    (nodes, tests)
}

/// Leaves out the items that are compiled for tests alone, and adds the names of modules among them to `tests`.
fn without_tests(nodes: Vec<Node>, tests: &mut Vec<String>) -> Vec<Node> {
    let of_test = tokens("cfg(test)");
    let mut kept = Vec::new();
    let mut nodes = nodes.into_iter().peekable();
    while let Some(node) = nodes.next() {
        let is_test = node.token() == "#"
            && nodes
                .peek()
                .and_then(|next| next.group('['))
                .is_some_and(|content| flat(content) == of_test);
        if is_test {
            let mut item = Vec::new();
            for node in nodes.by_ref() {
                let is_end = node.token() == ";" || node.group('{').is_some();
                item.push(node);
                if is_end {
                    break;
                }
            }
            let names = item
                .windows(3)
                .filter(|part| part[0].token() == "mod" && part[2].token() == ";");
            tests.extend(names.map(|part| part[1].token().to_owned()));
            continue;
        }
        kept.push(match node {
            Node::Group(open, content) => Node::Group(open, without_tests(content, tests)),
            token => token,
        });
    }
    kept
}

/// The tokens of `nodes`, with their brackets.
fn flat(nodes: &[Node]) -> Vec<String> {
    let close = |open: &char| match open {
        '(' => ")",
        '[' => "]",
        _ => "}",
    };
    let each = |node: &Node| match node {
        Node::Token(token) => vec![token.clone()],
        Node::Group(open, content) => [
            vec![open.to_string()],
            flat(content),
            vec![close(open).to_owned()],
        ]
        .concat(),
    };
    nodes.iter().flat_map(each).collect()
}

/// Calls `see` with the content of every bracket, and with that of the file.
pub(super) fn each<'a>(nodes: &'a [Node], see: &mut dyn FnMut(&'a [Node])) {
    see(nodes);
    for node in nodes {
        if let Node::Group(_, content) = node {
            each(content, see);
        }
    }
}

/// The elements between the commas of a list.
pub(super) fn elements(content: &[Node]) -> Vec<&[Node]> {
    let mut found: Vec<&[Node]> = content.split(|node| node.token() == ",").collect();
    if found.last().is_some_and(|last| last.is_empty()) {
        found.pop();
    }
    found
}

fn tokens(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            _ if first.is_whitespace() => first.len_utf8(),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").unwrap() + 2,
            _ => {
                let length = token(rest, first);
                found.push(rest[..length].to_owned());
                length
            }
        };
        rest = &rest[length..];
    }
    found
}

/// The length of the token at the start of `rest`, in bytes.
fn token(rest: &str, first: char) -> usize {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let word = |text: &str| text.find(|c| !is_word(c)).unwrap_or(text.len());
    let after_b = rest.strip_prefix('b').unwrap_or(rest);
    let skipped = rest.len() - after_b.len();
    if let Some(raw) = after_b.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let content = &raw[hashes + 1..];
            return skipped + 1 + hashes + 1 + content.find(&end).unwrap() + end.len();
        }
    }
    if let Some(content) = after_b.strip_prefix('"') {
        return skipped + 1 + quoted(content, '"');
    }
    if let Some(content) = after_b.strip_prefix('\'') {
        let mut chars = content.chars();
        let one = chars.next();
        let two = chars.next();
        return match one {
            Some('\\') => skipped + 1 + quoted(content, '\''),
            Some(one) if two == Some('\'') => skipped + 1 + one.len_utf8() + 1,
            // A lifetime.
            _ => skipped + 1 + word(content),
        };
    }
    match first {
        _ if is_word(first) => word(rest),
        _ if ["::", "=>", "->"].iter().any(|two| rest.starts_with(two)) => 2,
        _ => first.len_utf8(),
    }
}

/// The length of `content` up to the closing `quote`, which is included, in bytes.
fn quoted(content: &str, quote: char) -> usize {
    let mut escaped = false;
    let end = content.char_indices().find(|(_, c)| {
        let is_end = *c == quote && !escaped;
        escaped = *c == '\\' && !escaped;
        is_end
    });
    end.unwrap().0 + 1
}

#[test]
fn a_source_is_read_without_its_tests() {
    let text = "fn a<'x>() { b(\"c)\", 'd', r#\"e\"f\"#); /* ) */ } // (\n#[cfg(test)]\nmod tests { g } #[cfg(test)] mod h;";
    let (nodes, tests) = parse(text);
    assert_eq!(tests, ["h"]);
    assert_eq!(
        flat(&nodes),
        [
            "fn",
            "a",
            "<",
            "'x",
            ">",
            "(",
            ")",
            "{",
            "b",
            "(",
            "\"c)\"",
            ",",
            "'d'",
            ",",
            "r#\"e\"f\"#",
            ")",
            ";",
            "}"
        ]
    );
}
