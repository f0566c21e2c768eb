use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::policy::{Brief, Capability, Mount};
use crate::record::{Content, Input, InvocationId, RiskLevel, Timestamp};

use super::sheet::{COLUMNS, Sheet};

/// Maximum rows of the arguments that a question shows at once.
const ARGUMENTS_ROWS_MAX: usize = 30;
/// Minimum rows of the arguments, on a display that is too low for more.
const ARGUMENTS_ROWS_MIN: usize = 3;
/// Rows below a question: the choices, and the input.
const CHOICES_ROWS: usize = 3;
/// Maximum rows of any other value.
const VALUE_ROWS_MAX: usize = 2;
/// Maximum rows of why the last answer was invalid.
const PROBLEM_ROWS_MAX: usize = 4;
/// Maximum number of places that a question names at once. With the other lines of the host they fit on a display of 24
/// rows, so that the text above cannot scroll the host's facts away.
const TOUCHES_MAX: usize = 4;

/// Checks arguments that an approver edited. The error says what is wrong with them.
pub type EditCheck = Arc<dyn Fn(String) -> Checked + Send + Sync>;

/// The result of an [`EditCheck`].
pub type Checked = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// The question to an approver.
#[derive(Clone)]
pub struct Prompt {
    invocation_id: InvocationId,
    arguments: Input,
    can_remember: bool,
    expires_at: Timestamp,
    entries: Vec<Entry>,
    text: String,
    cut: bool,
    check: Option<EditCheck>,
    /// Why the last answer was invalid.
    problem: Option<String>,
}

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt").field("text", &self.text).field("cut", &self.cut).finish_non_exhaustive()
    }
}

/// A value under its name.
#[derive(Clone)]
struct Entry {
    name: &'static str,
    value: String,
    rows_max: usize,
    /// Left out of the question, but shown in the full text.
    spare: bool,
}

/// The contents of a prompt.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    pub invocation_id: InvocationId,
    /// `sha256:<hex>`.
    pub component: &'a str,
    pub brief: &'a Brief,
    pub capability: &'a Capability,
    pub arguments: &'a Input,
    pub actor: Option<&'a str>,
    /// Whether there is a session that an answer could be remembered for.
    pub can_remember: bool,
    pub expires_at: Timestamp,
}

impl Prompt {
    /// Creates a prompt. `hide` redacts each value before it is wrapped, because afterwards a secret might not be
    /// found.
    pub fn new(facts: Facts<'_>, mut hide: impl FnMut(&mut String)) -> Self {
        let mut entries = entries(&facts);
        entries.iter_mut().for_each(|entry| hide(&mut entry.value));
        let (text, cut) = rendered(&entries, None, COLUMNS, false);
        Self {
            invocation_id: facts.invocation_id,
            arguments: facts.arguments.clone(),
            can_remember: facts.can_remember,
            expires_at: facts.expires_at,
            entries,
            text,
            cut,
            check: None,
            problem: None,
        }
    }

    /// The same question, with a check of edits before they become an answer.
    #[must_use]
    pub fn checking(self, check: EditCheck) -> Self {
        Self { check: Some(check), ..self }
    }

    /// The same question again: `problem` is why the last answer was invalid.
    #[must_use]
    pub fn again(&self, problem: &str) -> Self {
        let problem = Some(problem.to_owned());
        let (text, cut) = rendered(&self.entries, problem.as_deref(), COLUMNS, false);
        Self { text, cut, problem, ..self.clone() }
    }

    pub fn invocation_id(&self) -> InvocationId {
        self.invocation_id
    }

    /// The question, in rows of at most [`COLUMNS`]: nothing in the call can forge a row of the host. [`Self::is_cut`]
    /// tells whether all of the call is shown.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the question for a display of `columns` and `rows`, with room for the choices below it, and whether it
    /// shows only part of the call: arguments that would scroll are cut.
    pub fn on_display(&self, columns: usize, rows: usize) -> (String, bool) {
        let draw = |entries: &[Entry]| rendered(entries, self.problem.as_deref(), columns, false);
        let (text, cut) = draw(&self.entries);
        if text.lines().count() + CHOICES_ROWS <= rows || !guard!("question_cuts") {
            return (text, cut && guard!("question_cuts"));
        }
        let mut entries = self.entries.clone();
        if let Some((arguments, others)) = entries.split_first_mut() {
            // One row more, which says that the question is cut.
            let taken = draw(others).0.lines().count() + CHOICES_ROWS + 1;
            arguments.rows_max = rows.saturating_sub(taken).max(ARGUMENTS_ROWS_MIN);
        }
        (draw(&entries).0, true)
    }

    /// The question with everything that [`Self::text`] leaves out; as long as the arguments are.
    pub fn full_text(&self, columns: usize) -> String {
        rendered(&self.entries, self.problem.as_deref(), columns, true).0
    }

    /// Whether the question shows only part of the call. An approval then takes an extra step.
    pub fn is_cut(&self) -> bool {
        self.cut && guard!("question_cuts")
    }

    /// What the decision's record lists as shown (AT-DEC-15): [`Self::text`].
    pub fn content_blocks(&self) -> Vec<Content> {
        vec![Content::text(self.text.clone())]
    }

    /// The input in question, for an approver who wants to edit it.
    pub fn arguments(&self) -> &Input {
        &self.arguments
    }

    /// Checks `edit` as the arguments that should run instead. The error says what is wrong with it.
    pub async fn check_edit(&self, edit: &str) -> Result<(), String> {
        match &self.check {
            Some(check) => check(edit.to_owned()).await,
            None => Ok(()),
        }
    }

    pub fn can_remember(&self) -> bool {
        self.can_remember
    }

    pub fn expires_at(&self) -> Timestamp {
        self.expires_at
    }
}

/// Puts the host's lines last: what the caller and the tool wrote scrolls away before them.
fn rendered(entries: &[Entry], problem: Option<&str>, columns: usize, full: bool) -> (String, bool) {
    let mut sheet = Sheet::new(columns);
    sheet.host("A call waits for a yes or a no.");
    if let Some(problem) = problem {
        sheet.host("The last answer cannot be used:");
        sheet.aside(problem, PROBLEM_ROWS_MAX);
    }
    let mut spare = entries.iter().filter(|entry| entry.spare && !full).count();
    let left_out = spare > 0;
    for entry in entries {
        match entry.spare && !full {
            false => sheet.value(entry.name, &entry.value, if full { usize::MAX } else { entry.rows_max }),
            true if spare > 0 => {
                sheet.value("", &format!("[not all: {spare} more]"), 1);
                spare = 0;
            }
            true => {}
        }
    }
    let cut = sheet.is_cut() || left_out;
    if cut {
        sheet.host("NOT ALL IS SHOWN of what this tool would be called with, or could do.");
    }
    sheet.host("May this tool run?");
    (sheet.into_text(), cut)
}

/// What the caller and the tool say, then what the host knows.
fn entries(facts: &Facts<'_>) -> Vec<Entry> {
    let brief = facts.brief;
    let entry = |name, value: &str, rows_max| Entry { name, value: value.to_owned(), rows_max, spare: false };
    let mut entries = vec![
        entry("arguments", facts.arguments.text(), ARGUMENTS_ROWS_MAX),
        entry("because", &brief.reason, VALUE_ROWS_MAX),
        entry("caller", facts.actor.unwrap_or("not named"), VALUE_ROWS_MAX),
        entry("tool", &brief.tool_id, VALUE_ROWS_MAX),
        entry("component", &facts.component.chars().take(19).collect::<String>(), 1),
    ];
    for (at, touched) in touches(brief, facts.capability).into_iter().enumerate() {
        let name = if at == 0 { "could" } else { "" };
        entries.push(Entry { name, value: touched, rows_max: VALUE_ROWS_MAX, spare: at >= TOUCHES_MAX });
    }
    entries.push(entry("risk", risk(brief.risk), 1));
    if !brief.rule_refs.is_empty() {
        entries.push(entry("rules", &brief.rule_refs.join(", "), VALUE_ROWS_MAX));
    }
    let (kind, digest) = match facts.arguments.reference().split_once(':') {
        Some(("sha256", digest)) => ("sha256", digest),
        _ => ("digest", facts.arguments.reference()),
    };
    entries.extend([
        entry("size", &format!("arguments of {} bytes", facts.arguments.text().len()), 1),
        entry(kind, digest, 2),
        entry("until", &facts.expires_at.to_string(), 1),
        entry("id", &facts.invocation_id.to_string(), 1),
    ]);
    entries
}

fn touches(brief: &Brief, capability: &Capability) -> Vec<String> {
    let touches = &brief.touches;
    let folder = |verb: &str, mount: &Mount| {
        let host = mount.host.display().to_string();
        let alias = if host == mount.guest { String::new() } else { format!(" (as {})", mount.guest) };
        format!("{verb} {host}{alias}")
    };
    let each = |verb: &str, names: &[String]| names.iter().map(|name| format!("{verb} {name}")).collect::<Vec<_>>();
    let mut lines: Vec<String> = touches.writes.iter().map(|mount| folder("read and change files in", mount)).collect();
    lines.extend(touches.reads.iter().map(|mount| folder("read files in", mount)));
    lines.extend(capability.denials.iter().map(|denial| {
        let verb = if denial.read { "but not open" } else { "but not change" };
        format!("{verb} {}", denial.what.text())
    }));
    if let Some(scratch) = &capability.scratch {
        lines.push(format!("write drafts in {}, gone afterwards", scratch));
    }
    lines.extend(each("connect to", &touches.network));
    lines.extend(capability.network.denied().iter().map(|rule| format!("but not to {rule}")));
    lines.extend(capability.closed_urls.iter().map(|url| format!("but not to {}", url.text())));
    lines.extend(each("have the host use the secret", &touches.secrets));
    lines.extend(each("see the environment variable", &touches.environment));
    if lines.is_empty() {
        lines.push("touch nothing outside its sandbox".to_owned());
    }
    lines
}

fn risk(risk: RiskLevel) -> &'static str {
    match risk {
        RiskLevel::Low => "low",
        RiskLevel::Medium => "medium",
        RiskLevel::High => "high",
        RiskLevel::Critical => "critical",
    }
}
