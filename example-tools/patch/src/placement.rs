//! Decides where in a file a hunk goes.

use std::ops::Range;

use toolcell_guest::ToolError;

use crate::{
    parse::Hunk,
    search::{Start, Work, search},
};

/// How far from its stated line a hunk may be found that fits several places, in lines.
const DISTANCE_MAX: usize = 200;
/// Maximum number of places that an error names.
const PLACES_SHOWN: usize = 10;

/// A hunk that needs a place.
pub(crate) struct Place<'h> {
    file: &'h str,
    hunk: usize,
    /// The index of its first line by its header, if that has numbers.
    pub(crate) stated: Option<usize>,
    wanted: &'h [&'h str],
    /// The lines of the hunks before, in order.
    taken: &'h [Range<usize>],
}

impl<'h> Place<'h> {
    pub(crate) fn new(
        file: &'h str,
        number: usize,
        hunk: &Hunk,
        wanted: &'h [&'h str],
        taken: &'h [Range<usize>],
    ) -> Self {
        // Without old lines, the number is that of the line before.
        let stated = hunk.old_start.map(|start| match wanted {
            [] => start,
            _ => start.saturating_sub(1),
        });
        Self {
            file,
            hunk: number,
            stated,
            wanted,
            taken,
        }
    }

    /// The first line after the hunks before.
    pub(crate) fn first(&self) -> usize {
        self.taken.last().map_or(0, |range| range.end)
    }

    /// The index in `lines` at which the hunk goes.
    ///
    /// `drift` is the distance of the last hunk with numbers from its stated line: lines that were inserted above moved
    /// this hunk too.
    pub(crate) fn find(
        &self,
        lines: &[&str],
        drift: isize,
        work: &mut Work,
    ) -> Result<usize, ToolError> {
        if self.wanted.is_empty() {
            return if lines.is_empty() {
                Ok(0)
            } else {
                Err(self.refuse(
                    "no_context",
                    "it only adds, and has no line that shows where",
                ))
            };
        }
        // After a hunk that moved, the lines at the stated place may only look the same.
        if let Some(stated) = self.stated
            && drift == 0
            && stated >= self.first()
            && lines
                .get(stated..)
                .is_some_and(|rest| rest.starts_with(self.wanted))
        {
            return Ok(stated);
        }
        let guess = self.stated.map(|stated| Guess {
            by_header: Nearest::new(stated),
            by_drift: Nearest::new(stated.saturating_add_signed(drift)),
        });
        let mut found = Candidates {
            guess,
            ..Candidates::default()
        };
        let longest = search(lines, self.wanted, work, |at| self.sort(at, &mut found))?;
        match found.count {
            0 if found.above.is_some() => Err(self.out_of_order(&found)),
            0 => Err(self.mismatch(lines, longest)),
            1 if found.only_above(self.first()) => Err(self.out_of_order(&found)),
            1 => Ok(found.first[0]),
            _ => found
                .guess
                .as_ref()
                .and_then(Guess::decide)
                .ok_or_else(|| self.ambiguous(&found)),
        }
    }

    /// Adds a place that fits to the candidates, unless it is among the lines of the hunks before.
    ///
    /// Numbers say that hunks are in order. Without them, a place above the hunk before may be the right one.
    fn sort(&self, at: usize, found: &mut Candidates) {
        let end = at + self.wanted.len();
        if at < self.first() {
            found.above.get_or_insert(at);
            let next = self.taken.partition_point(|range| range.end <= at);
            let is_taken = self.taken.get(next).is_some_and(|range| range.start < end);
            if self.stated.is_some() || is_taken {
                return;
            }
        }
        found.add(at);
    }

    fn ambiguous(&self, found: &Candidates) -> ToolError {
        let lines: Vec<String> = found.first.iter().map(|at| (at + 1).to_string()).collect();
        let more = match found.count - found.first.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let what = format!(
            "its lines are in more than one place, at lines {}{more}; give more context",
            lines.join(", ")
        );
        self.refuse("hunk_ambiguous", &what)
    }

    fn out_of_order(&self, found: &Candidates) -> ToolError {
        let line = found.above.unwrap_or_default() + 1;
        let what = format!(
            "its lines are at line {line}, above the end of the hunk before; hunks must be in the order of the file and \
             not overlap"
        );
        self.refuse("hunk_out_of_order", &what)
    }

    /// Shows the first line that differs, at the place where most lines from the first on are as wanted.
    fn mismatch(&self, lines: &[&str], longest: Start) -> ToolError {
        let matching = |at: usize| {
            let pairs = lines.iter().skip(at).zip(self.wanted);
            pairs.take_while(|(has, wants)| has == wants).count()
        };
        let start = match self.stated {
            Some(at) if matching(at) >= longest.lines => Start {
                at,
                lines: matching(at),
            },
            _ if longest.lines > 0 => longest,
            _ => {
                let what = format!("no line of the file is {:?}", self.wanted[0]);
                return self.refuse("hunk_mismatch", &what);
            }
        };
        let at = start.at.saturating_add(start.lines);
        let expected = self.wanted.get(start.lines).copied().unwrap_or_default();
        let found = match lines.get(at) {
            Some(found) => format!("has {found:?}"),
            None => "does not exist".to_owned(),
        };
        let what = format!(
            "it expects {expected:?} in line {}, which {found}",
            at.saturating_add(1)
        );
        self.refuse("hunk_mismatch", &what)
    }

    pub(crate) fn refuse(&self, code: &str, what: &str) -> ToolError {
        ToolError::invalid_arguments(
            code,
            format!(
                "{}: hunk {}: {what}; nothing was changed",
                self.file, self.hunk
            ),
        )
    }
}

/// The places that a hunk fits. There can be millions, so only some are kept.
#[derive(Default)]
struct Candidates {
    count: usize,
    first: Vec<usize>,
    /// The first place above the end of the hunk before.
    above: Option<usize>,
    guess: Option<Guess>,
}

impl Candidates {
    fn add(&mut self, at: usize) {
        self.count += 1;
        if self.first.len() < PLACES_SHOWN {
            self.first.push(at);
        }
        if let Some(guess) = &mut self.guess {
            guess.by_header.add(at);
            guess.by_drift.add(at);
        }
    }

    fn only_above(&self, first: usize) -> bool {
        self.count == 1 && self.first[0] < first
    }
}

/// The places nearest to the stated line, and to the same line moved as far as the hunk before.
struct Guess {
    by_header: Nearest,
    by_drift: Nearest,
}

impl Guess {
    /// The place on which both agree.
    fn decide(&self) -> Option<usize> {
        let place = self.by_header.decide()?;
        (self.by_drift.decide() == Some(place)).then_some(place)
    }
}

/// The two places that are nearest to a line.
struct Nearest {
    to: usize,
    best: Option<usize>,
    second: Option<usize>,
}

impl Nearest {
    const fn new(to: usize) -> Self {
        Self {
            to,
            best: None,
            second: None,
        }
    }

    fn add(&mut self, at: usize) {
        let to = self.to;
        let is_nearer =
            |than: Option<usize>| than.is_none_or(|than| at.abs_diff(to) < than.abs_diff(to));
        if is_nearer(self.best) {
            self.second = self.best.replace(at);
        } else if is_nearer(self.second) {
            self.second = Some(at);
        }
    }

    /// The nearest place, if it is at most half as far as any other one. A header that is a little wrong decides so; one
    /// that is made up seldom does.
    fn decide(&self) -> Option<usize> {
        let best = self.best?;
        let distance = best.abs_diff(self.to);
        let other = self.second.map_or(usize::MAX, |at| at.abs_diff(self.to));
        (distance <= DISTANCE_MAX && distance < other && distance <= other / 2).then_some(best)
    }
}

#[cfg(test)]
mod tests;
