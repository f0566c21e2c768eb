use std::fmt::Write as _;

use crate::policy::{Brief, Capability, Mount};
use crate::record::{Content, Input, InvocationId, RiskLevel, Timestamp};

use super::{Whitespace, visible};

/// Characters of the arguments that a prompt shows.
const ARGUMENTS_CHARS_MAX: usize = 2_000;
/// Characters of any other value.
const VALUE_CHARS_MAX: usize = 300;

/// What somebody is asked.
#[derive(Clone, Debug)]
pub struct Prompt {
    invocation_id: InvocationId,
    arguments: Input,
    can_remember: bool,
    expires_at: Timestamp,
    text: String,
}

/// What a prompt is made of.
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
    pub fn new(facts: Facts<'_>) -> Self {
        Self {
            invocation_id: facts.invocation_id,
            arguments: facts.arguments.clone(),
            can_remember: facts.can_remember,
            expires_at: facts.expires_at,
            text: text(&facts),
        }
    }

    /// Changes the text, before anybody sees it: some values must not be shown.
    pub fn rewrite(&mut self, change: impl FnOnce(&mut String)) {
        change(&mut self.text);
    }

    pub fn invocation_id(&self) -> InvocationId {
        self.invocation_id
    }

    /// The whole question, for people: lines that nothing in the call can forge.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What the decision's record says was shown (AT-DEC-15): [`Self::text`].
    pub fn content_blocks(&self) -> Vec<Content> {
        vec![Content::text(self.text.clone())]
    }

    /// The input that is asked about, for whoever wants to change it.
    pub fn arguments(&self) -> &Input {
        &self.arguments
    }

    pub fn can_remember(&self) -> bool {
        self.can_remember
    }

    pub fn expires_at(&self) -> Timestamp {
        self.expires_at
    }
}

/// Each line begins with words of ours; a value never begins one.
fn text(facts: &Facts<'_>) -> String {
    let brief = facts.brief;
    let mut text = String::from("May this tool run?\n");
    let mut line = |name: &str, value: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {name:<10} {value}");
    };
    line("tool", &value(&brief.tool_id));
    line("component", &value(&facts.component.chars().take(19).collect::<String>()));
    let touches = touches(brief, facts.capability);
    for (at, touched) in touches.iter().enumerate() {
        line(if at == 0 { "could" } else { "" }, touched);
    }
    line("risk", risk(brief.risk));
    line("because", &value(&brief.reason));
    if !brief.rule_refs.is_empty() {
        line("rules", &value(&brief.rule_refs.join(", ")));
    }
    line("arguments", &arguments(facts.arguments));
    line("caller", &facts.actor.map_or_else(|| "not named".to_owned(), value));
    line("until", &facts.expires_at.to_string());
    line("id", &facts.invocation_id.to_string());
    text
}

fn value(text: &str) -> String {
    cut(text, VALUE_CHARS_MAX).0
}

/// The first `max` characters, made visible, and how many more there are.
fn cut(text: &str, max: usize) -> (String, usize) {
    let shown: String = text.chars().take(max).collect();
    let more = text.chars().count() - shown.chars().count();
    let shown = if guard!("prompt_escapes") { visible(&shown, Whitespace::WrittenOut) } else { shown };
    match more {
        0 => (shown, 0),
        more => (format!("{shown}[{more} more characters]"), more),
    }
}

fn arguments(input: &Input) -> String {
    let (shown, more) = cut(input.text(), ARGUMENTS_CHARS_MAX);
    let of = format!("{} bytes, {}", input.text().len(), input.reference());
    match more {
        0 => format!("{shown} ({of})"),
        _ => format!("{shown} ({of}; NOT ALL IS SHOWN, see `toolcell approvals show --full ID`)"),
    }
}

fn touches(brief: &Brief, capability: &Capability) -> Vec<String> {
    let touches = &brief.touches;
    let folder = |verb: &str, mount: &Mount| {
        let host = mount.host.display().to_string();
        let alias = if host == mount.guest { String::new() } else { format!(" (as {})", value(&mount.guest)) };
        format!("{verb} {}{alias}", value(&host))
    };
    let each =
        |verb: &str, names: &[String]| names.iter().map(|name| format!("{verb} {}", value(name))).collect::<Vec<_>>();
    let mut lines: Vec<String> = touches.writes.iter().map(|mount| folder("read and change files in", mount)).collect();
    lines.extend(touches.reads.iter().map(|mount| folder("read files in", mount)));
    lines.extend(capability.denials.iter().map(|denial| {
        let verb = if denial.read { "but not open" } else { "but not change" };
        format!("{verb} {}", value(denial.what.text()))
    }));
    if let Some(scratch) = &capability.scratch {
        lines.push(format!("write drafts in {}, gone afterwards", value(scratch)));
    }
    lines.extend(each("connect to", &touches.network));
    lines.extend(capability.network.denied().iter().map(|rule| format!("but not to {}", value(&rule.to_string()))));
    lines.extend(capability.closed_urls.iter().map(|url| format!("but not to {}", value(url.text()))));
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
