use crate::{Finding, escaped_step};

/// Maximum number of listed errors. The description is untrusted: it must not decide how long a message is.
const ERRORS_MAX: usize = 32;
/// Maximum number of kept notes: several for each of the tools that one component may have.
const NOTES_MAX: usize = 1_024;
/// Maximum number of unknown fields that are checked. Each is compared with every name that limits a call.
const UNKNOWN_MAX: usize = 1_000;

/// A place in the toolkit. Its pointer is built only for a finding.
#[derive(Clone, Copy)]
pub(super) struct ToolkitPlace<'a> {
    outer: Option<&'a ToolkitPlace<'a>>,
    step: PlaceStep<'a>,
}

#[derive(Clone, Copy)]
enum PlaceStep<'a> {
    Top,
    Field(&'a str),
    Item(usize),
}

impl<'a> ToolkitPlace<'a> {
    pub(super) const TOP: Self = Self {
        outer: None,
        step: PlaceStep::Top,
    };

    pub(super) fn field(&'a self, name: &'a str) -> Self {
        Self {
            outer: Some(self),
            step: PlaceStep::Field(name),
        }
    }

    pub(super) fn item(&'a self, at: usize) -> Self {
        Self {
            outer: Some(self),
            step: PlaceStep::Item(at),
        }
    }

    /// The JSON Pointer (RFC 6901).
    pub(super) fn pointer(&self) -> String {
        let mut pointer = self.outer.map(ToolkitPlace::pointer).unwrap_or_default();
        match self.step {
            PlaceStep::Top => {}
            PlaceStep::Field(name) => {
                pointer.push('/');
                pointer.push_str(&escaped_step(name));
            }
            PlaceStep::Item(at) => pointer.push_str(&format!("/{at}")),
        }
        pointer
    }
}

/// All findings of one toolkit.
#[derive(Default)]
pub(super) struct Findings {
    errors: FindingList,
    notes: FindingList,
    /// Demands that cannot be met; each is a note too.
    gaps: FindingList,
    unknown: usize,
}

#[derive(Default)]
struct FindingList {
    listed: Vec<Finding>,
    left_out: usize,
}

impl FindingList {
    fn add(&mut self, place: &ToolkitPlace<'_>, message: &str, listed_max: usize) {
        if self.listed.len() < listed_max {
            self.listed.push(Finding::new(&place.pointer(), message));
        } else {
            self.left_out += 1;
        }
    }

    fn finish(mut self) -> Vec<Finding> {
        if self.left_out > 0 {
            self.listed.push(Finding::new(
                "",
                &format!("{} more are not listed", self.left_out),
            ));
        }
        self.listed
    }
}

impl Findings {
    /// Adds a finding that keeps the component from being loaded.
    pub(super) fn error(&mut self, place: &ToolkitPlace<'_>, message: impl AsRef<str>) {
        self.errors.add(place, message.as_ref(), ERRORS_MAX);
    }

    /// Adds a finding about something that has no effect, and whose loss lifts no limit.
    pub(super) fn note(&mut self, place: &ToolkitPlace<'_>, message: impl AsRef<str>) {
        self.notes.add(place, message.as_ref(), NOTES_MAX);
    }

    /// Adds a finding about a demand that this host does not meet: calls of the tools that it is about are refused. If there
    /// are too many, the one that stands for the rest is about all tools.
    pub(super) fn gap(&mut self, place: &ToolkitPlace<'_>, advice: &str) {
        let message =
            format!("this host does not honour it, and refuses calls of the tool: {advice}");
        self.note(place, &message);
        self.gaps.add(place, &message, NOTES_MAX);
    }

    /// Counts one more unknown field. Returns `false` beyond the maximum, which is reported as one error.
    pub(super) fn count_unknown(&mut self, place: &ToolkitPlace<'_>) -> bool {
        self.unknown += 1;
        if self.unknown == UNKNOWN_MAX + 1 {
            self.error(
                place,
                format!("more than {UNKNOWN_MAX} unknown fields in one toolkit; remove some"),
            );
        }
        self.unknown <= UNKNOWN_MAX
    }

    /// Adds the findings of derived records. `placed` gives their errors another place, or drops them; one that is there
    /// already is dropped too.
    pub(super) fn add(&mut self, derived: Self, placed: fn(Finding) -> Option<Finding>) {
        for error in derived.errors.listed.into_iter().filter_map(placed) {
            let errors = &mut self.errors;
            match errors.listed.len() < ERRORS_MAX {
                true if errors.listed.contains(&error) => {}
                true => errors.listed.push(error),
                false => errors.left_out += 1,
            }
        }
        self.errors.left_out += derived.errors.left_out;
        self.notes = derived.notes;
        self.gaps = derived.gaps;
    }

    pub(super) fn has_errors(&self) -> bool {
        !self.errors.listed.is_empty()
    }

    /// The errors, in the order in which they were found.
    pub(super) fn into_errors(self) -> Vec<Finding> {
        self.errors.finish()
    }

    /// The notes, and the gaps, each in the order in which they were found.
    pub(super) fn into_notes(self) -> (Vec<Finding>, Vec<Finding>) {
        (self.notes.finish(), self.gaps.finish())
    }
}
