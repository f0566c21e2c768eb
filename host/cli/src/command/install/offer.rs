//! What the user reads before a tool is installed, and the question.

use serde_json::{Value, json};
use toolcell::Refusal;
use toolcell_core::approval::{COLUMNS, Sheet, legible};
use toolcell_core::record::ErrorClass;
use toolcell_install::ceiling::Ceiling;
use toolcell_install::lock::Entry;
use toolcell_install::plan::{Change, Plan};
use toolcell_install::words::Line;

use super::super::terminal;
use super::options::Consent;
use super::report::Report;

/// Maximum number of rows of a value, of what a tool could do, and of a difference.
const VALUE_ROWS_MAX: usize = 4;
const CEILING_ROWS_MAX: usize = 200;
const WORDS_ROWS_MAX: usize = 400;
const RECORDS_ROWS_MAX: usize = 100;

pub(super) struct Offer<'a> {
    pub(super) entry: &'a Entry,
    /// What the name stood for.
    pub(super) before: Option<&'a Entry>,
    pub(super) ceiling: Option<&'a Ceiling>,
    pub(super) plan: &'a Plan,
    pub(super) notes: &'a [String],
}

/// Asks the user at the terminal whether to install what `offer` says, unless they have agreed already.
///
/// # Errors
///
/// The refusal of the user, and of a process without a terminal.
pub(super) fn agree(offer: &Offer<'_>, consent: &Consent, report: &Report) -> Result<(), Refusal> {
    if consent.yes {
        report.show(offer);
        return Ok(());
    }
    let name = &offer.entry.name;
    if !terminal::is_there() {
        report.show(offer);
        let message = format!(
            "`{name}` was not installed, because there is no terminal to ask at: read what it could do, then run the \
             command again with --yes"
        );
        return Err(Refusal::new(ErrorClass::ApprovalRejected, "install_needs_consent", message));
    }
    let verb = if offer.before.is_some() { "Replace" } else { "Install" };
    match terminal::agrees(&format!("{verb} {name}?"), |sheet| offer.fill(sheet)) {
        true => Ok(()),
        false => {
            let message = format!("`{name}` was not installed, because you did not agree; nothing has changed");
            Err(Refusal::new(ErrorClass::ApprovalRejected, "install_declined", message))
        }
    }
}

impl Offer<'_> {
    /// The rows, for a stream.
    pub(super) fn text(&self) -> String {
        let mut sheet = Sheet::new(COLUMNS);
        self.fill(&mut sheet);
        sheet.into_text()
    }

    fn fill(&self, sheet: &mut Sheet) {
        let entry = self.entry;
        sheet.host(if self.before.is_some() {
            "This would be installed in place of what is:"
        } else {
            "This would be installed:"
        });
        sheet.value("name", &entry.name, VALUE_ROWS_MAX);
        sheet.value("from", &entry.reference, VALUE_ROWS_MAX);
        let version = |entry: &Entry| entry.version.clone().unwrap_or_else(|| "none".to_owned());
        match self.before {
            Some(before) if before.version != entry.version => {
                sheet.value("version", &format!("{}, was {}", version(entry), version(before)), VALUE_ROWS_MAX);
            }
            _ => sheet.value("version", &version(entry), VALUE_ROWS_MAX),
        }
        sheet.value("bytes", &format!("{} of {}", entry.size, entry.digest), VALUE_ROWS_MAX);
        sheet.value("signer", &super::signer(entry.signer.as_ref()), VALUE_ROWS_MAX);
        sheet.value("tools", &entry.tools.join(", "), VALUE_ROWS_MAX);
        for note in self.notes {
            sheet.value("note", note, VALUE_ROWS_MAX);
        }
        if let Some(ceiling) = self.ceiling {
            sheet.host("What it could ever ask for; a call gets what you grant of it, and no more:");
            let said = |(tool, lines): (String, Vec<String>)| {
                let lines: String = lines.iter().map(|line| format!("\n  {line}")).collect();
                format!("{tool}{lines}\n")
            };
            sheet.lines(&ceiling.lines().into_iter().map(said).collect::<String>(), CEILING_ROWS_MAX);
        }
        self.plan.changes.iter().for_each(|change| say(sheet, change));
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        json!({ "asks": self.plan.asks(), "changes": self.plan.changes, "ceiling": self.ceiling })
    }
}

fn diff(lines: &[Line]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Adds the rows about `change`.
fn say(sheet: &mut Sheet, change: &Change) {
    // On one line each, because a certificate or a publisher could write a line of its own.
    let two = |before: &str, after: &str| format!("- {}\n+ {}", legible(before), legible(after));
    let known = |signer: &Option<String>| signer.clone().unwrap_or_else(|| super::UNSIGNED.to_owned());
    match change {
        Change::First => {}
        Change::Reference { before, after } => {
            sheet.host("IT COMES FROM ELSEWHERE:");
            sheet.lines(&two(before, after), CEILING_ROWS_MAX);
        }
        Change::Signer { before, after } => {
            sheet.host("ANOTHER SIGNER VOUCHES FOR IT:");
            sheet.lines(&two(&known(before), &known(after)), CEILING_ROWS_MAX);
        }
        Change::Tag { before, after, is_named: true, .. } => {
            sheet.host("Another tag of the same workflow signed it; a [[trust]] entry names both:");
            sheet.lines(&two(before, after), CEILING_ROWS_MAX);
        }
        Change::Tag { before, after, identity, issuer, .. } => {
            sheet.host("ANOTHER TAG OF THE SAME WORKFLOW SIGNED IT:");
            sheet.lines(&two(before, after), CEILING_ROWS_MAX);
            sheet.host("Name it in a [[trust]] entry to agree to all of its tags, and to no branch:");
            sheet.lines(&format!("identity = \"{identity}\"\nissuer = \"{issuer}\""), CEILING_ROWS_MAX);
        }
        Change::Ceiling(difference) | Change::SmallerCeiling(difference) => {
            let is_larger = matches!(change, Change::Ceiling(_));
            sheet.host(if is_larger { "IT COULD ASK FOR MORE:" } else { "It could ask for less:" });
            let gone = difference.shrunk.iter().map(|line| format!("- {line}\n"));
            let more = difference.grown.iter().map(|line| format!("+ {line}\n"));
            sheet.lines(&gone.chain(more).collect::<String>(), CEILING_ROWS_MAX);
        }
        Change::Words { lines } => {
            sheet.host("IT SAYS OTHER THINGS OF ITSELF, which a model reads:");
            sheet.lines(&diff(lines), WORDS_ROWS_MAX);
        }
        Change::Records { lines } => {
            sheet.host("ITS OTHER RECORDS DIFFER, which no model reads:");
            sheet.lines(&diff(lines), RECORDS_ROWS_MAX);
        }
        Change::Unknown => {
            sheet.host("WHAT DIFFERS IS NOT KNOWN: the earlier component is not in the store.");
        }
        Change::Older { before, after } => {
            sheet.host("IT IS OLDER than what is installed:");
            sheet.lines(&two(before, after), VALUE_ROWS_MAX);
        }
        Change::Unordered { before, after } => {
            sheet.host("IT MAY BE OLDER than what is installed: these versions cannot be compared:");
            sheet.lines(&two(before, after), VALUE_ROWS_MAX);
        }
        Change::Unversioned { before } => {
            sheet.host("IT HAS NO VERSION, and what is installed has one:");
            sheet.lines(&format!("- {}", legible(before)), VALUE_ROWS_MAX);
        }
        Change::MayBeUnsigned => sheet.host("IT MAY BE UNSIGNED from now on, also after updates."),
    }
}
