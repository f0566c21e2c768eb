//! The id of a call as a person types it: whole, or its last letters. An id begins with its time, so ids of one moment
//! differ only at their end.

use std::str::FromStr;

use toolcell_spec::{ApprovalState, InvocationId};

use super::{ApprovalCommands, unknown};
use crate::exit::BadRequest;

const LETTERS_MIN: usize = 4;
/// More than a mistyped id is likely to hit.
const LETTERS_SHOWN_MIN: usize = 6;
const LETTERS: usize = 26;
const CANDIDATES_MAX: usize = 5;

/// A whole id, or its last letters, in capitals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CallId(String);

impl FromStr for CallId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let letters = text.len();
        if !text.chars().all(|c| c.is_ascii_alphanumeric())
            || !(LETTERS_MIN..=LETTERS).contains(&letters)
        {
            return Err(format!(
                "an id has {LETTERS} letters and digits, and its last {LETTERS_MIN} or more name it too: see `toolcell \
                approvals list`"
            ));
        }
        if letters == LETTERS {
            text.parse::<InvocationId>()
                .map_err(|error| format!("not an id: {error}; see `toolcell approvals list`"))?;
        }
        Ok(Self(text.to_ascii_uppercase()))
    }
}

impl ApprovalCommands {
    /// Calls that have ended count too, so that an id names the same call before and after its end.
    pub(super) fn find(&self, CallId(letters): &CallId) -> anyhow::Result<InvocationId> {
        if let Ok(whole) = letters.parse() {
            return Ok(whole);
        }
        let unknown = || unknown(format!("..{letters}"));
        if !self.journal.exists() {
            return Err(unknown());
        }
        let all = self.journal.with(|store| store.list(true))?;
        let all: Vec<_> = all
            .iter()
            .map(|call| (call.invocation_id, call.state))
            .collect();
        only(letters, &all).map_err(BadRequest)?.ok_or_else(unknown)
    }
}

fn only(
    letters: &str,
    all: &[(InvocationId, ApprovalState)],
) -> Result<Option<InvocationId>, String> {
    let found: Vec<_> = all
        .iter()
        .filter(|(id, _)| id.to_string().ends_with(letters))
        .collect();
    if let [] | [_] = found.as_slice() {
        return Ok(found.first().map(|(id, _)| *id));
    }
    let listed = found
        .iter()
        .take(CANDIDATES_MAX)
        .map(|(id, state)| format!("\n  {id} {state}"));
    let listed: String = listed.collect();
    let more = match found.len().saturating_sub(CANDIDATES_MAX) {
        0 => String::new(),
        more => format!("\n  and {more} more: toolcell approvals list --all"),
    };
    Err(format!(
        "{letters} is the end of {} ids; type more letters of one:{listed}{more}",
        found.len()
    ))
}

/// The result has at least [`LETTERS_SHOWN_MIN`] letters.
pub(super) fn short<'a>(id: &'a str, all: &[String]) -> &'a str {
    let end = |letters: usize| id.get(id.len().saturating_sub(letters)..).unwrap_or(id);
    let names = |letters: &usize| {
        all.iter()
            .filter(|other| other.ends_with(end(*letters)))
            .count()
            <= 1
    };
    end((LETTERS_SHOWN_MIN..LETTERS).find(names).unwrap_or(LETTERS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_whole_or_its_end() {
        let whole = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
        assert_eq!(whole.parse(), Ok(CallId(whole.to_owned())));
        assert_eq!("g5fav".parse(), Ok(CallId("G5FAV".to_owned())));
        for wrong in [
            "",
            "FAV",
            "G5F V",
            "..G5FAV",
            "\u{c4}bcd",
            &format!("{whole}0"),
            "U1ARZ3NDEKTSV4RRFFQ69G5FAV",
        ] {
            assert!(wrong.parse::<CallId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_id_is_printed_as_short_as_it_names_one_call() {
        let all = [
            "01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "01ARZ3NDEKTSV4RRFFQ69G5FAW",
            "01BX5ZZKBKACTAV9WEFQ69G5FAV",
        ];
        let all: Vec<String> = all.into_iter().map(str::to_owned).collect();
        let shown: Vec<&str> = all.iter().map(|id| short(id, &all)).collect();
        assert_eq!(shown, ["FFQ69G5FAV", "9G5FAW", "EFQ69G5FAV"]);
    }

    #[test]
    fn an_end_of_several_ids_lists_some_of_them() {
        let ids = |count: usize| -> Vec<(InvocationId, ApprovalState)> {
            let id = |at| format!("01ARZ3NDEKTSV4RRFF{at:04}G5FA").parse().unwrap();
            (0..count)
                .map(|at| (id(at), ApprovalState::Pending))
                .collect()
        };
        assert_eq!(only("G5FA", &ids(0)), Ok(None));
        assert_eq!(only("G5FA", &ids(1)), Ok(Some(ids(1)[0].0)));
        assert_eq!(only("1G5FA", &ids(9)), Ok(Some(ids(9)[1].0)));
        let error = only("G5FA", &ids(9)).unwrap_err();
        assert!(
            error.starts_with("G5FA is the end of 9 ids") && error.lines().count() == 7,
            "{error}"
        );
        assert!(
            error.contains("\n  01ARZ3NDEKTSV4RRFF0004G5FA pending\n  and 4 more"),
            "{error}"
        );
        assert!(!only("G5FA", &ids(5)).unwrap_err().contains("and "));
    }
}
