//! The error codes that the sources of the host can emit, found by their place. A code is a literal or a constant in one of
//! these places:
//!
//! - the second argument of `Refusal::new` and `Problem::new`; what stands there otherwise must be called `code`
//! - the argument of a function or closure whose parameter is called `code`
//! - the value of a field, a variable or a function called `code`
//! - beside an `ErrorClass` or a status, in a tuple or a call
//! - in a tuple, where another tuple of the same file has a `code`
//! - the first element of a tuple in an `Err`
//! - in brackets, at the end of a message

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use toolcell_core::record::ErrorClass;

use super::source::{Node, each, elements, parse};
use crate::support::root;

/// Where errors are not those of toolcell: the interface of another host, whose codes its guests read.
const FOREIGN: &str = "import/near.rs";
/// The pages themselves.
const PAGES: &str = "inspect/src/explain";

/// What the sources emit, and what cannot be followed.
#[derive(Debug, Default)]
pub(super) struct Emitted {
    /// Codes, and a file that emits each.
    pub(super) codes: BTreeMap<String, PathBuf>,
    pub(super) unclear: Vec<String>,
    /// Classes, each beside a code that errors of the class have.
    pub(super) classes: Vec<(ErrorClass, String)>,
}

/// A parameter called `code`: the name of its function, and its place.
type Parameters = HashMap<String, Option<usize>>;

struct Source {
    path: PathBuf,
    nodes: Vec<Node>,
    /// Of each function and closure of the file.
    parameters: Parameters,
}

pub(super) fn emitted() -> Emitted {
    let sources = sources();
    let mut constants = HashMap::new();
    let mut shared: HashMap<PathBuf, Parameters> = HashMap::new();
    for source in &sources {
        each(&source.nodes, &mut |nodes| {
            constants.extend(constant(nodes))
        });
        let known = shared.entry(package(&source.path)).or_default();
        let taking = source
            .parameters
            .iter()
            .filter(|(name, place)| place.is_some() && *name != "new");
        known.extend(taking.map(|(name, place)| (name.clone(), *place)));
    }
    let mut emitted = Emitted::default();
    for source in &sources {
        let mut seen = Seen {
            source,
            constants: &constants,
            shared: &shared[&package(&source.path)],
            emitted: &mut emitted,
        };
        each(&source.nodes, &mut |nodes| seen.look(nodes));
        seen.tuples();
    }
    emitted
}

/// The crate that a file belongs to: `host/core`.
fn package(path: &Path) -> PathBuf {
    path.components().take(2).collect()
}

fn sources() -> Vec<Source> {
    let mut folders = vec![PathBuf::from("host")];
    let mut sources = Vec::new();
    let mut tests = HashSet::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root().join(&folder)).unwrap() {
            let name = entry.unwrap().file_name();
            let path = folder.join(&name);
            let is_code = path.components().count() != 3 || path.ends_with("src");
            if root().join(&path).is_dir() && is_code && !path.ends_with(PAGES) {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && path.components().count() > 3
            {
                let (nodes, modules) = parse(&std::fs::read_to_string(root().join(&path)).unwrap());
                let inside = match name.to_str() {
                    Some("mod.rs" | "lib.rs" | "main.rs") => folder.clone(),
                    _ => path.with_extension(""),
                };
                tests.extend(
                    modules
                        .iter()
                        .map(|module| inside.join(module).with_extension("rs")),
                );
                let parameters = parameters(&nodes);
                sources.push(Source {
                    path,
                    nodes,
                    parameters,
                });
            }
        }
    }
    assert!(
        root().join("host").join(PAGES).is_dir(),
        "the pages are not in {PAGES}"
    );
    assert!(
        sources.iter().any(|source| source.path.ends_with(FOREIGN)),
        "there is no {FOREIGN}"
    );
    sources.retain(|source| !tests.contains(&source.path) && !source.path.ends_with(FOREIGN));
    assert!(
        sources.len() > 200,
        "only {} sources were found",
        sources.len()
    );
    sources
}

/// The place of the parameter `code` in each function and closure.
fn parameters(nodes: &[Node]) -> Parameters {
    let mut found = HashMap::new();
    let place = |list: &[&[Node]]| {
        list.iter()
            .position(|element| element.first().is_some_and(|first| first.token() == "code"))
    };
    each(nodes, &mut |nodes| {
        for (at, node) in nodes.iter().enumerate() {
            let Some(name) = nodes
                .get(at + 1)
                .map(Node::token)
                .filter(|name| !name.is_empty())
            else {
                continue;
            };
            let rest = &nodes[at + 2..];
            if node.token() == "fn" {
                let list = rest
                    .iter()
                    .find_map(|node| node.group('('))
                    .map(elements)
                    .unwrap_or_default();
                let own =
                    |element: &&&[Node]| !element.iter().take(4).any(|node| node.token() == "self");
                let list: Vec<&[Node]> = list.iter().filter(own).copied().collect();
                let is_text = |at: usize| list[at].iter().any(|node| node.token() == "str");
                found.insert(name.to_owned(), place(&list).filter(|at| is_text(*at)));
            }
            let skipped = rest
                .iter()
                .take_while(|node| matches!(node.token(), "=" | "move"))
                .count();
            let rest = &rest[skipped..];
            if node.token() == "let"
                && skipped > 0
                && rest.first().is_some_and(|node| node.token() == "|")
            {
                let list = rest[1..].split(|node| node.token() == "|").next().unwrap();
                found.insert(name.to_owned(), place(&elements(list)));
            }
        }
    });
    found
}

/// The constants among these nodes whose value could be a code.
fn constant(nodes: &[Node]) -> Vec<(String, String)> {
    let starts = (0..nodes.len()).filter(|at| nodes[*at].token() == "const");
    let value = |at: usize| {
        let name = nodes.get(at + 1)?.token().to_owned();
        let length = nodes[at..]
            .iter()
            .position(|node| matches!(node.token(), "=" | ";"))?;
        let value = nodes
            .get(at + length + 1)
            .filter(|_| nodes[at + length].token() == "=")?;
        Some((name, literal(std::slice::from_ref(value))?))
    };
    starts.filter_map(value).collect()
}

/// The text of an element that is one literal in the form of a code; in a format, `N` for what is put in.
fn literal(element: &[Node]) -> Option<String> {
    if let [
        Node::Token(and),
        Node::Token(format),
        Node::Token(_),
        arguments,
    ] = element
        && (and == "&" && format == "format")
        && let Some([Node::Token(text)]) = arguments.group('(')
    {
        let (start, rest) = text.trim_matches('"').split_once('{')?;
        return rest.ends_with('}').then(|| format!("{start}N"));
    }
    let [Node::Token(token)] = element else {
        return None;
    };
    let text = token.strip_prefix('"')?.strip_suffix('"')?;
    let is_code = text.starts_with(|c: char| c.is_ascii_lowercase())
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    is_code.then(|| text.to_owned())
}

/// The class that an element names by its variant.
fn variant(element: &[Node]) -> Option<ErrorClass> {
    let last = element.last()?.token();
    ErrorClass::ALL
        .into_iter()
        .find(|class| format!("{class:?}") == last)
}

/// Whether an element is an error class, or the status of an answer.
fn is_class(element: &[Node]) -> bool {
    let Some(last) = element.last().map(Node::token) else {
        return false;
    };
    let has = |word: &str| element.iter().any(|node| node.token() == word);
    let is_variant = variant(element).is_some();
    let is_alone = element.len() == 1;
    let is_status = last.len() == 3
        && last
            .parse::<u16>()
            .is_ok_and(|status| (400..600).contains(&status));
    (is_variant && (is_alone || has("ErrorClass")))
        || has("StatusCode")
        || (is_alone && (last == "class" || last == "status" || is_status))
}

/// Whether a bracket after `previous` has the arguments of a call, and is no tuple.
fn is_call(previous: &str) -> bool {
    let keywords = ["return", "else", "in", "match", "if", "let"];
    previous.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '!' | '>'))
        && !keywords.contains(&previous)
}

struct Seen<'a> {
    source: &'a Source,
    constants: &'a HashMap<String, String>,
    /// Of the whole crate.
    shared: &'a Parameters,
    emitted: &'a mut Emitted,
}

impl Seen<'_> {
    /// The code that an element has, as a literal or a constant.
    fn code(&self, element: &[Node]) -> Option<String> {
        let last = element.last().map_or("", Node::token);
        let is_constant = last.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        literal(element).or_else(|| self.constants.get(last).filter(|_| is_constant).cloned())
    }

    /// Takes an element where a code stands. Returns whether it is understood.
    fn take(&mut self, element: &[Node]) -> bool {
        let Some(code) = self.code(element) else {
            return element.last().is_some_and(|last| last.token() == "code");
        };
        self.emitted
            .codes
            .entry(code)
            .or_insert_with(|| self.source.path.clone());
        true
    }

    fn look(&mut self, nodes: &[Node]) {
        let token = |at: usize| nodes.get(at).map_or("", Node::token);
        for (at, node) in nodes.iter().enumerate() {
            let before = |count: usize| at.checked_sub(count).map_or("", token);
            if let Some(content) = node.group('(')
                && before(2) != "fn"
            {
                self.bracket(&elements(content), [before(3), before(2), before(1)]);
            }
            // In brackets at the end of a message.
            let quoted = node
                .token()
                .strip_suffix("]\"")
                .and_then(|text| text.rsplit_once('['));
            if let Some((_, code)) =
                quoted.filter(|(start, code)| start.starts_with('"') && code.contains('_'))
            {
                self.take(&[Node::Token(format!("\"{code}\""))]);
            }
            if node.token() == "code" && token(at + 1) == ":" && matches!(before(1), "" | ",") {
                self.take(nodes.get(at + 2..at + 3).unwrap_or_default());
            }
            if node.token() == "fn" && token(at + 1) == "code" {
                let end = nodes[at..]
                    .iter()
                    .position(|node| node.group('{').is_some())
                    .map_or(at, |length| at + length);
                if nodes[at..end].iter().any(|node| node.token() == "str") {
                    self.values(nodes[end].group('{').unwrap_or_default());
                }
            }
            if node.token() == "let" && token(at + 1) == "code" && token(at + 2) == "=" {
                self.values(
                    nodes[at + 3..]
                        .split(|node| node.token() == ";")
                        .next()
                        .unwrap(),
                );
            }
        }
    }

    /// Takes the codes among the elements of a bracket, which the tokens `before` precede.
    fn bracket(&mut self, elements: &[&[Node]], before: [&str; 3]) {
        let name = before[2];
        let is_error =
            name == "new" && before[1] == "::" && matches!(before[0], "Refusal" | "Problem");
        if is_error && !self.take(elements.get(1).copied().unwrap_or_default()) {
            self.emitted.unclear.push(format!(
                "{}: {:?}",
                self.source.path.display(),
                elements.get(1)
            ));
        }
        for pair in elements.windows(2) {
            let is_tuple = !is_call(name);
            let is_answer = pair[0].iter().any(|node| node.token() == "StatusCode");
            if is_class(pair[0]) && (elements.len() >= 3 || (is_tuple && !is_answer)) {
                self.take(pair[1]);
                self.emitted
                    .classes
                    .extend(variant(pair[0]).zip(self.code(pair[1])));
            }
        }
        let place = self
            .source
            .parameters
            .get(name)
            .or_else(|| self.shared.get(name))
            .copied()
            .flatten();
        // A constructor of another type has other codes, such as those of findings.
        if let Some(element) = place
            .and_then(|place| elements.get(place))
            .filter(|_| name != "new")
        {
            self.take(element);
        }
    }

    /// Takes the literals that an expression can have as its value: those outside of calls, and not of patterns.
    fn values(&mut self, nodes: &[Node]) {
        for (at, node) in nodes.iter().enumerate() {
            let before = at.checked_sub(1).map_or("", |at| nodes[at].token());
            let is_pattern = nodes
                .get(at + 1)
                .is_some_and(|next| matches!(next.token(), "=>" | "|"));
            match node {
                Node::Group('(', _) if is_call(before) => {}
                Node::Group(_, content) => self.values(content),
                Node::Token(_) if !is_pattern && literal(std::slice::from_ref(node)).is_some() => {
                    self.take(std::slice::from_ref(node));
                }
                Node::Token(_) => {}
            }
        }
    }

    /// Takes the codes of tuples that have the shape of another one in the same file, in which a name says where the code is.
    fn tuples(&mut self) {
        let mut tuples: Vec<Vec<&[Node]>> = Vec::new();
        let mut errors = Vec::new();
        let source = self.source;
        collect_tuples(&source.nodes, ' ', &mut tuples, &mut errors);
        let is_code = |element: &[Node]| matches!(element, [Node::Token(token)] if token == "code");
        let mut shapes = BTreeSet::new();
        for tuple in tuples.iter().filter(|tuple| tuple.len() > 1) {
            shapes.extend(
                tuple
                    .iter()
                    .position(|element| is_code(element))
                    .map(|at| (tuple.len(), at)),
            );
        }
        for tuple in &tuples {
            let [first, second, _] = tuple.as_slice() else {
                continue;
            };
            if literal(first).is_some() && is_class(second) && variant(second).is_some() {
                self.take(first);
            }
        }
        let shaped = tuples.iter().flat_map(|tuple| {
            shapes
                .iter()
                .filter(move |shape| shape.0 == tuple.len())
                .map(move |shape| tuple[shape.1])
        });
        for element in shaped.chain(errors) {
            if literal(element).is_some_and(|code| code.contains('_')) {
                self.take(element);
            }
        }
    }
}

/// Adds the tuples among `nodes`, except for those in lists, and the first element of each tuple in an `Err`, or in a `Some`
/// of at least three.
fn collect_tuples<'a>(
    nodes: &'a [Node],
    open: char,
    tuples: &mut Vec<Vec<&'a [Node]>>,
    errors: &mut Vec<&'a [Node]>,
) {
    for (at, node) in nodes.iter().enumerate() {
        let Node::Group(bracket, content) = node else {
            continue;
        };
        let before = at.checked_sub(1).map_or("", |at| nodes[at].token());
        if *bracket == '(' && open != '[' && !is_call(before) {
            tuples.push(elements(content));
        }
        if matches!(before, "Err" | "Some")
            && let [Node::Group('(', inner)] = content.as_slice()
        {
            let inner = elements(inner);
            if inner.len() > 2 || (inner.len() == 2 && before == "Err") {
                errors.push(inner[0]);
            }
        }
        collect_tuples(content, *bracket, tuples, errors);
    }
}
