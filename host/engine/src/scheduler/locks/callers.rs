use std::collections::HashMap;
use std::sync::Arc;

/// Number of all calls without a caller.
const NO_CALLER: u64 = 0;

#[derive(Debug, Default)]
pub(super) struct CallerNumbers {
    /// Counts running calls too. Callers without calls are removed, because their number is unlimited in a library.
    known: HashMap<Arc<str>, (u64, usize)>,
    last: u64,
}

impl CallerNumbers {
    pub(super) fn enter(&mut self, name: Option<&str>) -> (u64, Option<Arc<str>>) {
        let Some(name) = name else {
            return (NO_CALLER, None);
        };
        let name: Arc<str> = name.into();
        let (number, calls) = self.known.entry(Arc::clone(&name)).or_insert_with(|| {
            self.last += 1;
            (self.last, 0)
        });
        *calls += 1;
        (*number, Some(name))
    }

    pub(super) fn leave(&mut self, name: Option<&str>) {
        let Some(name) = name else { return };
        if let Some((_, calls)) = self.known.get_mut(name) {
            *calls -= 1;
            if *calls == 0 {
                self.known.remove(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_keeps_its_number_while_it_has_calls_and_is_forgotten_after_that() {
        let mut callers = CallerNumbers::default();
        let (number, name) = callers.enter(Some("anna"));
        let [other, again] = ["bert", "anna"].map(|name| callers.enter(Some(name)).0);
        assert!(other != number && again == number);
        callers.leave(name.as_deref());
        assert_eq!(callers.enter(Some("anna")).0, number);
        for _ in 0..2 {
            callers.leave(name.as_deref());
        }
        callers.leave(Some("bert"));
        assert!(callers.known.is_empty());
        assert_eq!(callers.enter(None), (NO_CALLER, None));
    }
}
