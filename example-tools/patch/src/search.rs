//! Finds where the lines of a hunk are, in work that is linear in the file.

use toolcell_guest::ToolError;

/// Maximum work of one call: the lines compared, plus the bytes of those that have the same length.
const WORK_MAX: u64 = 1 << 30;

/// The work that a call has left. Each hunk that is not where the diff says costs a pass over its file, so that a diff of
/// many hunks could otherwise take hours.
#[derive(Debug)]
pub(crate) struct Work(u64);

impl Work {
    pub(crate) const fn new() -> Self {
        Self(WORK_MAX)
    }

    #[cfg(test)]
    pub(crate) const fn at_most(steps: u64) -> Self {
        Self(steps)
    }

    fn is_equal(&mut self, one: &str, other: &str) -> Result<bool, ToolError> {
        let bytes = if one.len() == other.len() {
            one.len()
        } else {
            0
        };
        match self.0.checked_sub(1 + bytes as u64) {
            Some(left) => self.0 = left,
            None => {
                return Err(ToolError::capability_gap(
                    "patch_too_complex",
                    "too many hunks are not where the diff says; split the diff, or correct its line numbers; nothing \
                     was changed",
                ));
            }
        }
        Ok(one == other)
    }
}

/// The longest start of the wanted lines that the file has, if it does not have all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Start {
    pub(crate) at: usize,
    pub(crate) lines: usize,
}

/// Calls `found` with each index at which `lines` has all of `wanted`, in order, also where they overlap. Returns the
/// longest start of `wanted`, the first if there are several.
///
/// This is the algorithm of Knuth, Morris and Pratt: it compares each line at most twice, whatever the lines are.
pub(crate) fn search(
    lines: &[&str],
    wanted: &[&str],
    work: &mut Work,
    mut found: impl FnMut(usize),
) -> Result<Start, ToolError> {
    let mut longest = Start::default();
    if wanted.is_empty() {
        return Ok(longest);
    }
    let borders = borders(wanted, work)?;
    let mut matched = 0;
    for (at, line) in lines.iter().enumerate() {
        while matched > 0 && !work.is_equal(line, wanted[matched])? {
            matched = borders[matched - 1];
        }
        // After a step back to a shorter start, the line has been compared with its next line already.
        if matched > 0 || work.is_equal(line, wanted[0])? {
            matched += 1;
        }
        if matched > longest.lines {
            longest = Start {
                at: at + 1 - matched,
                lines: matched,
            };
        }
        if matched == wanted.len() {
            found(at + 1 - matched);
            matched = borders[matched - 1];
        }
    }
    Ok(longest)
}

/// For each start of `wanted`, the length of the longest shorter start that is also its end.
fn borders(wanted: &[&str], work: &mut Work) -> Result<Vec<usize>, ToolError> {
    let mut borders = vec![0; wanted.len()];
    let mut matched = 0;
    for at in 1..wanted.len() {
        while matched > 0 && !work.is_equal(wanted[at], wanted[matched])? {
            matched = borders[matched - 1];
        }
        if matched > 0 || work.is_equal(wanted[at], wanted[0])? {
            matched += 1;
        }
        borders[at] = matched;
    }
    Ok(borders)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(lines: &[&str], wanted: &[&str]) -> (Vec<usize>, Start) {
        let mut places = Vec::new();
        let start = search(lines, wanted, &mut Work::new(), |at| places.push(at)).unwrap();
        (places, start)
    }

    #[test]
    fn every_place_is_found() {
        // All texts of up to seven lines over two kinds of lines, and all hunks of up to four.
        let texts = |max: u32| {
            (0..=max).flat_map(|length| {
                (0..1u32 << length).map(move |bits| {
                    let line = |at| if bits >> at & 1 == 1 { "a" } else { "b" };
                    (0..length).map(line).collect::<Vec<&str>>()
                })
            })
        };
        for lines in texts(7) {
            for wanted in texts(4).filter(|wanted| !wanted.is_empty()) {
                let naive: Vec<usize> = (0..lines.len())
                    .filter(|at| lines[*at..].starts_with(&wanted))
                    .collect();
                assert_eq!(places(&lines, &wanted).0, naive, "{wanted:?} in {lines:?}");
            }
        }
    }

    #[test]
    fn the_longest_start_is_told() {
        let lines = ["x", "a", "b", "a", "b", "c", "a"];
        let (found, start) = places(&lines, &["a", "b", "c", "d"]);
        assert_eq!((found.len(), start), (0, Start { at: 3, lines: 3 }));
        assert_eq!(places(&lines, &["z"]).1, Start::default());
        assert_eq!(places(&lines, &["a", "z"]).1, Start { at: 1, lines: 1 });
    }

    #[test]
    fn lines_that_almost_match_everywhere_take_linear_work() {
        let lines = vec!["a"; 1 << 20];
        let mut wanted = vec!["a"; 1 << 18];
        wanted.push("b");
        let mut work = Work::new();
        search(&lines, &wanted, &mut work, |_| {}).unwrap();
        let used = WORK_MAX - work.0;
        assert!(
            used <= 2 * 2 * (lines.len() + wanted.len()) as u64,
            "{used}"
        );
    }

    #[test]
    fn the_work_of_a_call_is_bounded() {
        let lines = vec!["xxxxxxxxxx"; 10];
        let used = |steps| search(&lines, &["xxxxxxxxx0"], &mut Work::at_most(steps), |_| {});
        assert_eq!(used(110).map(|start| start.lines), Ok(0));
        assert_eq!(used(109).unwrap_err().code, "patch_too_complex");
    }
}
