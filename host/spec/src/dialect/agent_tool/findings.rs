use crate::{Finding, escaped_step};

/// The untrusted description must not decide how long a message is.
const ERRORS_MAX: usize = 32;
/// Several for each tool of a component.
const NOTES_MAX: usize = 1_024;
/// Each unknown field is compared with every name that limits a call.
const UNKNOWN_MAX: usize = 1_000;

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

#[derive(Default)]
pub(super) struct Findings {
    errors: FindingList,
    notes: FindingList,
    /// Unmet demands; each is a note too.
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
    /// Keeps the component from being loaded.
    pub(super) fn error(&mut self, place: &ToolkitPlace<'_>, message: impl AsRef<str>) {
        self.errors.add(place, message.as_ref(), ERRORS_MAX);
    }

    /// Something has no effect, and its loss lifts no limit.
    pub(super) fn note(&mut self, place: &ToolkitPlace<'_>, message: impl AsRef<str>) {
        self.notes.add(place, message.as_ref(), NOTES_MAX);
    }

    /// Calls of the tools concerned are refused. If there are too many gaps, the last is about all tools.
    pub(super) fn gap(&mut self, place: &ToolkitPlace<'_>, advice: &str) {
        let message =
            format!("this host does not honour it, and refuses calls of the tool: {advice}");
        self.note(place, &message);
        self.gaps.add(place, &message, NOTES_MAX);
    }

    /// Returns `false` beyond the maximum, which is one error.
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

    /// Adds findings of derived records. `placed` moves or drops errors; duplicates are dropped.
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

    pub(super) fn into_errors(self) -> Vec<Finding> {
        self.errors.finish()
    }

    pub(super) fn into_notes(self) -> (Vec<Finding>, Vec<Finding>) {
        (self.notes.finish(), self.gaps.finish())
    }
}
