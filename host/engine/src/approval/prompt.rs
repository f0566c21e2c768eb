use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use toolcell_policy::{ApprovalBrief, Capability, Mount, SecretUse};
use toolcell_spec::{Content, Input, InvocationId, SessionRule, Timestamp};

use super::layout;
use super::sheet::{COLUMNS, PromptSheet};

/// A question must stay short enough to be read.
const ARGUMENTS_ROWS_MAX: usize = 8;
const ARGUMENTS_ROWS_MIN: usize = 3;
const CHOICES_ROWS: usize = 3;
const VALUE_ROWS_MAX: usize = 2;
const LEAD_ROWS_MAX: usize = 4;
/// Words of the host, which are never cut.
const ALWAYS_ROWS_MAX: usize = 12;
const PROBLEM_ROWS_MAX: usize = 4;
/// With the other host lines these fit on 24 rows, so that the text above cannot scroll the host's facts away.
const TOUCHES_MAX: usize = 4;

/// Checks edited arguments; the error says what is wrong.
pub type EditCheck = Arc<dyn Fn(String) -> EditCheckFuture + Send + Sync>;

pub type EditCheckFuture = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// The question to an approver.
///
/// ```
/// use toolcell_engine::approval::{Prompt, Reply};
///
/// /// Approves the call with other arguments, if the tool can be called with them.
/// async fn edited(prompt: &Prompt, edit: String) -> Result<Reply, String> {
///     prompt.check_edit(&edit).await?;
///     Ok(Reply { approved: true, edit: Some(edit), ..Reply::default() })
/// }
/// ```
#[derive(Clone)]
pub struct Prompt {
    invocation_id: InvocationId,
    arguments: Input,
    can_remember: bool,
    expires_at: Timestamp,
    /// Redacted arguments.
    shown: String,
    lead: String,
    entries: Vec<NamedValue>,
    text: String,
    cut: bool,
    check: Option<EditCheck>,
    problem: Option<String>,
}

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt")
            .field("text", &self.text)
            .field("cut", &self.cut)
            .finish_non_exhaustive()
    }
}

struct PromptView {
    columns: usize,
    arguments_rows_max: usize,
    full: bool,
    how: &'static str,
}

#[derive(Clone)]
struct NamedValue {
    name: &'static str,
    value: String,
    rows_max: usize,
    /// Only in the full text.
    spare: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct PromptContent<'a> {
    pub invocation_id: InvocationId,
    /// `sha256:<hex>`.
    pub component: &'a str,
    pub brief: &'a ApprovalBrief,
    pub capability: &'a Capability,
    pub arguments: &'a Input,
    pub actor: Option<&'a str>,
    pub can_remember: bool,
    pub expires_at: Timestamp,
}

impl Prompt {
    /// `hide` redacts each value before it is wrapped, because a wrapped secret might not be found.
    pub fn new(facts: PromptContent<'_>, mut hide: impl FnMut(&mut String)) -> Self {
        let mut shown = facts.arguments.text().to_owned();
        let mut lead = lead(&facts);
        let mut entries = entries(&facts);
        hide(&mut shown);
        hide(&mut lead);
        entries.iter_mut().for_each(|entry| hide(&mut entry.value));
        Self {
            invocation_id: facts.invocation_id,
            arguments: facts.arguments.clone(),
            can_remember: facts.can_remember,
            expires_at: facts.expires_at,
            shown,
            lead,
            entries,
            text: String::new(),
            cut: false,
            check: None,
            problem: None,
        }
        .drawn()
    }

    fn drawn(self) -> Self {
        let view = PromptView {
            columns: COLUMNS,
            arguments_rows_max: ARGUMENTS_ROWS_MAX,
            full: false,
            how: "",
        };
        let (text, cut) = self.draw(&view);
        Self { text, cut, ..self }
    }

    #[must_use]
    pub fn checking(self, check: EditCheck) -> Self {
        Self {
            check: Some(check),
            ..self
        }
    }

    /// The same question, with the problem of the last answer.
    #[must_use]
    pub fn again(&self, problem: &str) -> Self {
        Self {
            problem: Some(problem.to_owned()),
            ..self.clone()
        }
        .drawn()
    }

    pub fn invocation_id(&self) -> InvocationId {
        self.invocation_id
    }

    /// The question, in rows of at most [`COLUMNS`]: nothing in the call can forge a row of the host. Can be cut:
    /// [`Self::is_cut`].
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the question for a display, with room for the choices below it, and whether it is cut: then the display
    /// offers `v` for all of it.
    pub fn on_display(&self, columns: usize, rows: usize) -> (String, bool) {
        let how = ", v shows all";
        let draw = |arguments_rows_max| {
            self.draw(&PromptView {
                columns,
                arguments_rows_max,
                full: false,
                how,
            })
        };
        let (text, cut) = draw(ARGUMENTS_ROWS_MAX);
        if text.lines().count() + CHOICES_ROWS <= rows || !guard!("prompt_truncateds") {
            return (text, cut && guard!("prompt_truncateds"));
        }
        // Without arguments, but with the rows that say so.
        let taken = draw(0).0.lines().count() + CHOICES_ROWS;
        let (text, _) = draw(
            rows.saturating_sub(taken)
                .clamp(ARGUMENTS_ROWS_MIN, ARGUMENTS_ROWS_MAX),
        );
        // On a display that is too low even for this, the first rows are gone.
        (text, true)
    }

    /// The question with everything that [`Self::text`] leaves out.
    pub fn full_text(&self, columns: usize) -> String {
        self.draw(&PromptView {
            columns,
            arguments_rows_max: usize::MAX,
            full: true,
            how: "",
        })
        .0
    }

    /// Returns whether only part of the call is shown; its approval then takes an extra step.
    pub fn is_cut(&self) -> bool {
        self.cut && guard!("prompt_truncateds")
    }

    /// Shown content for the decision's record (AT-DEC-15).
    pub fn content_blocks(&self) -> Vec<Content> {
        vec![Content::text(self.text.clone())]
    }

    pub fn arguments(&self) -> &Input {
        &self.arguments
    }

    /// Checks `edit` as the new arguments. The error says what is wrong.
    pub async fn check_edit(&self, edit: &str) -> Result<(), String> {
        match &self.check {
            Some(check) => check(edit.to_owned()).await,
            None => Ok(()),
        }
    }

    /// Returns whether [`super::Reply::always`] has an effect: the call has a session.
    pub fn can_remember(&self) -> bool {
        self.can_remember
    }

    /// A later answer does not count.
    pub fn expires_at(&self) -> Timestamp {
        self.expires_at
    }

    /// Such as `10 min left`, rounded up.
    pub fn time_left(&self) -> String {
        time_left(self.expires_at.millis_since(Timestamp::now()))
    }

    /// The caller's and the tool's words come before the host's summary, so that they scroll away first.
    fn draw(&self, view: &PromptView) -> (String, bool) {
        let mut sheet = PromptSheet::new(view.columns);
        sheet.host("Approval needed: a tool wants to run.");
        if let Some(problem) = &self.problem {
            sheet.host("Your last answer is not valid:");
            sheet.aside(problem, PROBLEM_ROWS_MAX);
        }
        sheet.value(
            "call",
            &self.lead,
            if view.full { usize::MAX } else { LEAD_ROWS_MAX },
        );
        let mut arguments = sheet.block("arguments", view.arguments_rows_max);
        layout::write(&mut arguments, &self.shown);
        arguments.end(view.how);
        let mut spare = self
            .entries
            .iter()
            .filter(|entry| entry.spare && !view.full)
            .count();
        let left_out = spare > 0;
        for entry in &self.entries {
            match entry.spare && !view.full {
                false => sheet.value(
                    entry.name,
                    &entry.value,
                    if view.full {
                        usize::MAX
                    } else {
                        entry.rows_max
                    },
                ),
                true if spare > 0 => {
                    sheet.value("", &format!("[not all: {spare} more]"), 1);
                    spare = 0;
                }
                true => {}
            }
        }
        let cut = sheet.is_cut() || left_out;
        if cut {
            sheet.host("WARNING: this view is incomplete. It leaves out arguments or permissions.");
        }
        sheet.host("Run this call?");
        (sheet.into_text(), cut)
    }
}

fn time_left(millis: u64) -> String {
    match millis.div_ceil(1_000) {
        seconds @ ..=90 => format!("{seconds} s left"),
        seconds @ ..=5_400 => format!("{} min left", seconds.div_ceil(60)),
        seconds => format!("{} h left", seconds.div_ceil(3_600)),
    }
}

fn entries(facts: &PromptContent<'_>) -> Vec<NamedValue> {
    let brief = facts.brief;
    let entry = |name, value: &str, rows_max| NamedValue {
        name,
        value: value.to_owned(),
        rows_max,
        spare: false,
    };
    let (kind, digest) = match facts.arguments.reference().split_once(':') {
        Some(("sha256", digest)) => ("sha256", digest),
        _ => ("digest", facts.arguments.reference()),
    };
    let component: String = facts.component.chars().take(19).collect();
    let mut entries = vec![
        entry(kind, digest, 2),
        entry(
            "id",
            &format!(
                "{}, arguments of {} bytes",
                facts.invocation_id,
                facts.arguments.text().len()
            ),
            1,
        ),
        entry("until", &facts.expires_at.to_string(), 1),
    ];
    if !brief.rule_refs.is_empty() {
        entries.push(entry("rules", &brief.rule_refs.join(", "), VALUE_ROWS_MAX));
    }
    if facts.can_remember {
        entries.push(entry("always", &always(&component), ALWAYS_ROWS_MAX));
    }
    entries.extend([
        entry("tool", &brief.tool_id, VALUE_ROWS_MAX),
        entry("component", &component, 1),
        entry("risk", brief.risk.as_str(), 1),
    ]);
    for (at, touched) in touches(facts.capability).into_iter().enumerate() {
        let name = if at == 0 { "access" } else { "" };
        entries.push(NamedValue {
            name,
            value: touched,
            rows_max: VALUE_ROWS_MAX,
            spare: at >= TOUCHES_MAX,
        });
    }
    entries.push(entry(
        "caller",
        facts.actor.unwrap_or("not named"),
        VALUE_ROWS_MAX,
    ));
    entries
}

/// Such as `files.read wants to read files in /data; a rule asks before this call`.
fn lead(facts: &PromptContent<'_>) -> String {
    let touched = touches(facts.capability);
    let more = match touched.len().saturating_sub(1) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let first = touched.first().map(String::as_str).unwrap_or_default();
    format!(
        "{} wants to {first}{more}; {}",
        facts.brief.tool_id, facts.brief.reason
    )
}

fn always(component: &str) -> String {
    let hours = SessionRule::LASTS.as_secs() / 3_600;
    format!(
        "would allow any call of this tool ({component}) within what is named below, for {hours} hours in this session"
    )
}

fn touches(capability: &Capability) -> Vec<String> {
    let folder = |mount: &Mount| {
        let verb = if mount.writable {
            "read and change files in"
        } else {
            "read files in"
        };
        let workspace = capability.workspace.as_ref();
        if let Some((_, name)) = workspace.filter(|(tree, _)| mount.host.starts_with(tree)) {
            return format!("{verb} {} of the workspace {name}", mount.guest);
        }
        let host = mount.host.display().to_string();
        let alias = if host == mount.guest {
            String::new()
        } else {
            format!(" (as {})", mount.guest)
        };
        format!("{verb} {host}{alias}")
    };
    let (writes, reads): (Vec<&Mount>, Vec<&Mount>) =
        capability.mounts.iter().partition(|mount| mount.writable);
    let mut lines: Vec<String> = writes.into_iter().chain(reads).map(folder).collect();
    let denials = capability.denials.iter().filter(|denial| !denial.by_host);
    lines.extend(denials.map(|denial| {
        let verb = if denial.read { "open" } else { "change" };
        format!("but not {verb} {}", denial.what.text())
    }));
    if let Some(scratch) = &capability.scratch {
        lines.push(format!(
            "write temporary files in {scratch}, deleted after the call"
        ));
    }
    let network = &capability.network;
    let mut secrets: Vec<String> = capability.secrets.iter().map(SecretUse::grant).collect();
    secrets.dedup();
    let targets = network.targets().into_iter();
    lines.extend(targets.map(|target| format!("connect to {target}")));
    let denied = network.denied().iter();
    lines.extend(denied.map(|rule| format!("but not to {rule}")));
    let closed = capability.closed_urls.iter();
    lines.extend(closed.map(|url| format!("but not to {}", url.text())));
    let secrets = secrets.into_iter();
    lines.extend(secrets.map(|secret| format!("send requests with the secret {secret}")));
    let environment = capability.environment.iter();
    lines.extend(environment.map(|(name, _)| format!("see the environment variable {name}")));
    let tools = capability.tools.patterns();
    lines.extend(tools.map(|pattern| format!("call the tool {pattern}")));
    if lines.is_empty() {
        lines.push("touch nothing outside its sandbox".to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::time_left;

    #[test]
    fn what_is_left_of_the_time_is_rounded_up() {
        for (millis, left) in [
            (0, "0 s left"),
            (1, "1 s left"),
            (90_000, "90 s left"),
            (90_001, "2 min left"),
            (599_990, "10 min left"),
            (5_400_000, "90 min left"),
            (5_400_001, "2 h left"),
            (86_400_000, "24 h left"),
        ] {
            assert_eq!(time_left(millis), left, "{millis}");
        }
    }
}
