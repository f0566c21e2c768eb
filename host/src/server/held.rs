//! Calls that wait for an answer while their client was answered already: it comes back for them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::record::{ErrorClass, Input, Refusal};

use super::asking::Ask;
use super::budget::Lease;
use super::call::Running;

/// Calls of one caller that are held at once: nobody reads more questions.
const HELD_MAX: usize = 32;
/// How long the result of a call is kept for a client that does not come back for it.
const KEPT: Duration = Duration::from_secs(600);

/// What tells a caller's call from any other: the same words from the same caller.
#[derive(Clone, Debug)]
pub(super) struct Words {
    /// Who called: the principal, or the connection where there is only one.
    pub(super) owner: Arc<str>,
    pub(super) tool: String,
    pub(super) arguments: Input,
    /// The memory that was set aside for them.
    pub(super) lease: Option<Arc<Lease>>,
}

impl Words {
    fn are(&self, other: &Self) -> bool {
        self.owner == other.owner && self.tool == other.tool && same(&self.arguments, &other.arguments)
    }
}

/// Whether both are the same value, however it is written. Values hold numbers with 15 digits exactly: with more of them,
/// two different texts can have one value.
fn same(one: &Input, other: &Input) -> bool {
    let long = |input: &Input| input.text().as_bytes().windows(16).any(|digits| digits.iter().all(u8::is_ascii_digit));
    match (one.value(), other.value()) {
        (Ok(value), Ok(of_other)) if value == of_other => one.text() == other.text() || !long(one) && !long(other),
        _ => false,
    }
}

/// A call that waits, or has ended meanwhile.
pub(super) struct HeldCall {
    pub(super) running: Running,
    /// The question, until it is answered.
    pub(super) ask: Ask,
    words: Words,
    since: Instant,
}

/// All of them, each under a name that cannot be guessed.
#[derive(Default)]
pub(super) struct HeldCalls(Mutex<HashMap<String, HeldCall>>);

impl HeldCalls {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, HeldCall>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this caller may have one more call held.
    pub(super) fn has_room(&self, owner: &str) -> Result<(), Refusal> {
        let mut held = self.lock();
        held.retain(|_, call| !(call.running.has_ended() && call.since.elapsed() > KEPT));
        if held.values().filter(|call| *call.words.owner == *owner).count() < HELD_MAX {
            return Ok(());
        }
        let message = format!("{HELD_MAX} calls wait for an approval already; answer those first");
        Err(Refusal::new(ErrorClass::RateLimited, "too_many_approvals", message))
    }

    /// Keeps a call, and answers the name that it has from now on.
    pub(super) fn hold(&self, running: Running, ask: Ask, words: Words) -> Result<String, Refusal> {
        let mut bytes = [0; 24];
        getrandom(&mut bytes, GetRandomFlags::empty())
            .map_err(|error| Refusal::host_fault(format!("draw a random name: {error}")))?;
        let name = HEXLOWER.encode(&bytes);
        self.lock().insert(name.clone(), HeldCall { running, ask, words, since: Instant::now() });
        Ok(name)
    }

    /// Takes the call `name`, if it is one of these words: nobody else's name means anything, and no name is for two.
    pub(super) fn take(&self, name: &str, words: &Words) -> Option<HeldCall> {
        let mut held = self.lock();
        held.get(name).is_some_and(|call| call.words.are(words)).then(|| held.remove(name)).flatten()
    }

    /// Takes the call of these words.
    pub(super) fn take_same(&self, words: &Words) -> Option<HeldCall> {
        let mut held = self.lock();
        let name = held.iter().find(|(_, call)| call.words.are(words)).map(|(name, _)| name.clone())?;
        held.remove(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::same;
    use crate::record::Input;

    #[test]
    fn words_are_the_same_only_if_their_numbers_are() {
        let same = |one: &str, other: &str| same(&Input::from_text(one), &Input::from_text(other));
        assert!(same(r#"{"a":1, "b":[]}"#, r#"{"b":[],"a":1}"#));
        assert!(same("[12345678901234567890123]", "[12345678901234567890123]"));
        assert!(!same("[12345678901234567890123]", "[12345678901234567890124]"));
        assert!(!same("[1]", "[2]") && !same("[", "["));
    }
}
