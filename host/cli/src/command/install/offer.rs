//! The text before an installation, and the question.

use std::collections::HashSet;

use serde_json::{Value, json};
use toolcell::Refusal;
use toolcell_engine::approval::{COLUMNS, PromptSheet, legible};
use toolcell_install::ceiling::{AccessCeiling, CeilingDifference};
use toolcell_install::declarations::DiffLine;
use toolcell_install::lock::LockEntry;
use toolcell_install::plan::{InstallChange, InstallPlan};
use toolcell_spec::ErrorCode;

use super::super::{show, terminal};
use super::options::Consent;
use super::report::Report;

const VALUE_ROWS_MAX: usize = 4;
const CEILING_ROWS_MAX: usize = 200;
const WORDS_ROWS_MAX: usize = 400;
const RECORDS_ROWS_MAX: usize = 100;

pub(super) struct Offer<'a> {
    pub(super) entry: &'a LockEntry,
    pub(super) before: Option<&'a LockEntry>,
    pub(super) ceiling: Option<&'a AccessCeiling>,
    pub(super) plan: &'a InstallPlan,
    pub(super) notes: &'a [String],
    pub(super) details: bool,
}

/// Does not ask again a user who has agreed. Fails if the user refuses, or without a terminal.
pub(super) fn agree(offer: &Offer<'_>, consent: &Consent, report: &Report) -> Result<(), Refusal> {
    if consent.yes {
        report.show(offer);
        return Ok(());
    }
    let name = &offer.entry.name;
    if !terminal::is_there() {
        report.show(offer);
        let message = format!(
            "`{name}` was not installed: there is no terminal to confirm at. Review the permissions above, then run again \
             with --yes"
        );
        return Err(Refusal::new(ErrorCode::InstallNeedsConsent, message));
    }
    let verb = if offer.before.is_some() {
        "Replace"
    } else {
        "Install"
    };
    if terminal::agrees(&format!("{verb} {name}?"), |sheet| offer.fill(sheet)) {
        Ok(())
    } else {
        let message =
            format!("`{name}` was not installed, because you did not agree; nothing has changed");
        Err(Refusal::new(ErrorCode::InstallDeclined, message))
    }
}

impl Offer<'_> {
    pub(super) fn text(&self) -> String {
        let mut sheet = PromptSheet::new(COLUMNS);
        self.fill(&mut sheet);
        sheet.into_text()
    }

    fn fill(&self, sheet: &mut PromptSheet) {
        let entry = self.entry;
        sheet.host(if self.before.is_some() {
            "This will replace the installed version:"
        } else {
            "This would be installed:"
        });
        sheet.value("name", &entry.name, VALUE_ROWS_MAX);
        sheet.value("from", &entry.reference, VALUE_ROWS_MAX);
        let version =
            |entry: &LockEntry| entry.version.clone().unwrap_or_else(|| "none".to_owned());
        match self.before {
            Some(before) if before.version != entry.version => {
                sheet.value(
                    "version",
                    &format!("{}, was {}", version(entry), version(before)),
                    VALUE_ROWS_MAX,
                );
            }
            _ => sheet.value("version", &version(entry), VALUE_ROWS_MAX),
        }
        sheet.value("size", &show::counted(entry.size, "byte"), VALUE_ROWS_MAX);
        digests(sheet, entry);
        sheet.value(
            "signer",
            &super::signer(entry.signer.as_ref()),
            VALUE_ROWS_MAX,
        );
        sheet.value("tools", &entry.tools.join(", "), VALUE_ROWS_MAX);
        for note in self.notes {
            sheet.value("note", note, VALUE_ROWS_MAX);
        }
        if let Some(ceiling) = self.ceiling {
            sheet.host("The most it can ask for; a call gets only what you grant:");
            let said = |(tool, lines): (String, Vec<String>)| {
                let lines: String = lines.iter().map(|line| format!("\n  {line}")).collect();
                format!("{tool}{lines}\n")
            };
            sheet.lines(
                &ceiling.lines().into_iter().map(said).collect::<String>(),
                CEILING_ROWS_MAX,
            );
        }
        // What matters last, because it stays on the screen.
        let mut changes: Vec<&InstallChange> = self.plan.changes.iter().collect();
        changes.sort_by_key(|change| weight(change));
        changes
            .into_iter()
            .for_each(|change| self.say(sheet, change));
    }

    fn only_in<'e>(one: Option<&'e LockEntry>, other: Option<&LockEntry>) -> Vec<&'e str> {
        let has = |entry: Option<&LockEntry>, tool: &String| {
            entry.is_some_and(|entry| entry.tools.contains(tool))
        };
        one.into_iter()
            .flat_map(|one| &one.tools)
            .filter(|tool| !has(other, tool))
            .map(String::as_str)
            .collect()
    }

    /// Which tools were added and removed, descriptions of added ones, and each value that differs in the others. A
    /// model reads all of it.
    fn say_words(&self, sheet: &mut PromptSheet, lines: &[DiffLine]) {
        let before = self.before;
        let after = Some(self.entry);
        let added = Self::only_in(after, before);
        let removed = Self::only_in(before, after);
        for (tools, what) in [(&added, "added"), (&removed, "removed")] {
            if !tools.is_empty() {
                sheet.host(&format!(
                    "{} {what}:",
                    show::counted(tools.len() as u64, "tool")
                ));
                sheet.lines(&tools.join("\n"), CEILING_ROWS_MAX);
            }
        }
        let shown = if self.details {
            lines.to_vec()
        } else {
            in_short(lines, &added, &removed)
        };
        if !shown.is_empty() {
            sheet.host("ITS DESCRIPTIONS, NAMES OR SCHEMAS CHANGED. A model reads them:");
            sheet.lines(&diff(&shown), WORDS_ROWS_MAX);
        }
        if shown.len() < lines.len() {
            sheet.host("Schemas of added and removed tools are left out; --details shows them.");
        }
    }

    pub(super) fn json(&self) -> Value {
        json!({ "asks": self.plan.asks(), "changes": self.plan.changes, "ceiling": self.ceiling })
    }
}

/// Values of tools that both versions have, and the descriptions of added tools.
fn in_short(lines: &[DiffLine], added: &[&str], removed: &[&str]) -> Vec<DiffLine> {
    let mut shown: Vec<DiffLine> = Vec::new();
    let mut known: HashSet<(&str, &str, &[DiffLine])> = HashSet::new();
    for group in lines.chunk_by(|_, next| !matches!(next, DiffLine::Place(_))) {
        let Some((DiffLine::Place(place), values)) = group.split_first() else {
            continue;
        };
        let (tool, value) = place.split_once(' ').unwrap_or((place, ""));
        // An interface repeats the schemas of its declaration.
        let last = value.rsplit('.').next().unwrap_or_default();
        let is_shown = match (added.contains(&tool), removed.contains(&tool)) {
            (_, true) => false,
            (true, _) => value == "declaration.description",
            _ => known.insert((tool, last, values)) || !value.starts_with("interface."),
        };
        if is_shown {
            shown.extend_from_slice(group);
        }
    }
    shown
}

fn digests(sheet: &mut PromptSheet, entry: &LockEntry) {
    let mut lines = format!("component, the code that runs:\n  {}", entry.component);
    if entry.digest != entry.component {
        lines += &format!(
            "\nmanifest in the registry, which is what is signed:\n  {}",
            entry.digest
        );
    }
    sheet.lines(&lines, CEILING_ROWS_MAX);
}

/// Changes that matter most are shown last.
fn weight(change: &InstallChange) -> u8 {
    match change {
        InstallChange::First
        | InstallChange::SmallerCeiling(_)
        | InstallChange::Tag { is_named: true, .. } => 0,
        InstallChange::Records { .. } => 1,
        InstallChange::Words { .. } => 2,
        InstallChange::Unknown
        | InstallChange::Older { .. }
        | InstallChange::Unordered { .. }
        | InstallChange::Unversioned { .. } => 3,
        InstallChange::MayBeUnsigned
        | InstallChange::Reference { .. }
        | InstallChange::Tag { .. }
        | InstallChange::Signer { .. } => 4,
        InstallChange::Ceiling(_) => 5,
    }
}

fn access(difference: &CeilingDifference) -> String {
    let gone = difference.shrunk.iter().map(|line| format!("- {line}\n"));
    let more = difference.grown.iter().map(|line| format!("+ {line}\n"));
    gone.chain(more).collect()
}

fn diff(lines: &[DiffLine]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

impl Offer<'_> {
    fn say(&self, sheet: &mut PromptSheet, change: &InstallChange) {
        // On one line each, because a certificate or a publisher could write a line of its own.
        let two =
            |before: &str, after: &str| format!("- {}\n+ {}", legible(before), legible(after));
        let known =
            |signer: &Option<String>| signer.clone().unwrap_or_else(|| super::UNSIGNED.to_owned());
        let (said, lines) = match change {
            InstallChange::First => return,
            InstallChange::Words { lines } => return self.say_words(sheet, lines),
            InstallChange::Reference { before, after } => {
                ("THE SOURCE CHANGED:", two(before, after))
            }
            InstallChange::Signer { before, after } => {
                ("THE SIGNER CHANGED:", two(&known(before), &known(after)))
            }
            InstallChange::Tag {
                before,
                after,
                is_named,
                ..
            } => {
                let said = if *is_named {
                    "Another tag of the same workflow signed it; a [[signer]] entry names both:"
                } else {
                    "ANOTHER TAG OF THE SAME WORKFLOW SIGNED IT:"
                };
                (said, two(before, after))
            }
            InstallChange::Ceiling(difference) => ("IT ASKS FOR MORE ACCESS:", access(difference)),
            InstallChange::SmallerCeiling(difference) => {
                ("It asks for less access:", access(difference))
            }
            InstallChange::Records { lines } if self.details => {
                sheet.host("ITS OTHER RECORDS DIFFER, which no model reads:");
                return sheet.lines(&diff(lines), RECORDS_ROWS_MAX);
            }
            InstallChange::Records { lines } => {
                let is_value = |line: &&DiffLine| matches!(line, DiffLine::Place(_));
                let values = lines.iter().filter(is_value).count() as u64;
                let values = show::counted(values, "value");
                return sheet.host(&format!(
                    "{values} of its other records changed, which no model reads; --details shows them."
                ));
            }
            InstallChange::Unknown => {
                let said = "WHAT DIFFERS IS NOT KNOWN: the earlier component is not in the store.";
                return sheet.host(said);
            }
            InstallChange::Older { before, after } => {
                ("IT IS OLDER than what is installed:", two(before, after))
            }
            InstallChange::Unordered { before, after } => (
                "IT MAY BE OLDER than what is installed: these versions cannot be compared:",
                two(before, after),
            ),
            InstallChange::Unversioned { before } => (
                "IT HAS NO VERSION, and what is installed has one:",
                format!("- {}", legible(before)),
            ),
            InstallChange::MayBeUnsigned => {
                return sheet.host("IT MAY BE UNSIGNED from now on, also after updates.");
            }
        };
        sheet.host(said);
        sheet.lines(&lines, CEILING_ROWS_MAX);
        if let InstallChange::Tag {
            identity,
            issuer,
            is_named: false,
            ..
        } = change
        {
            sheet.host(
                "Name it in a [[signer]] entry to agree to all of its tags, and to no branch:",
            );
            let entry = format!("identity = \"{identity}\"\nissuer = \"{issuer}\"");
            sheet.lines(&entry, CEILING_ROWS_MAX);
        }
    }
}
