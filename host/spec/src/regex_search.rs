//! Searches untrusted text with untrusted regular expressions, within a budget. Each byte may cost as much as the
//! automaton has states, and each match may scan the rest of the text.

use std::time::{Duration, Instant};

use anyhow::ensure;
use regex::Regex;
use regex_automata::hybrid::dfa;
use regex_automata::hybrid::regex::{Cache, Regex as Lazy};
use regex_automata::nfa::thompson::NFA;
use regex_automata::{Input, Match};

/// In bytes: about 80,000 states, which `^[\\w-]{1,255}$` has.
const PATTERN_BYTES_MAX: usize = 2 << 20;
/// In bytes, for each of the automata of a pattern: the one for backwards may take some times as much.
pub const ENGINE_BYTES_MAX: usize = 4 * PATTERN_BYTES_MAX;
const STATES_MAX: usize = 10_000;

/// Shorter texts are searched without a lazy automaton, until the searches of a meter take this many steps: some 250
/// us, as its set-up may.
const LAZY_BYTES_MIN: usize = 1 << 10;
const LAZY_STEPS_MIN: u64 = 50_000;
/// Also the bytes per state that a restarted automaton must search.
const LAZY_RESTARTS_MAX: usize = 3;
const LAZY_BYTES_PER_STATE_MIN: usize = 10;

/// Maximum steps (states times bytes, some 5 ns each) and time.
const INLINE: (u64, Duration) = (2_000_000, Duration::from_millis(100));
const ASIDE: (u64, Duration) = (200_000_000, Duration::from_secs(2));

/// Fails on an invalid pattern, or an automaton over `PATTERN_BYTES_MAX`.
pub fn states(pattern: &str) -> anyhow::Result<usize> {
    let config = NFA::config().nfa_size_limit(Some(PATTERN_BYTES_MAX));
    Ok(NFA::compiler()
        .configure(config)
        .build(pattern)?
        .states()
        .len())
}

#[derive(Clone, Debug)]
pub struct SearchPattern {
    regex: Regex,
    /// Faster, but gives up where it would be slow. `None` for unsupported patterns.
    lazy: Option<std::sync::Arc<Lazy>>,
    states: u64,
}

pub struct SearchMeter {
    steps: u64,
    spent: u64,
    until: Instant,
    paused: Option<Instant>,
    caches: Vec<(usize, Cache)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchExhausted;

impl SearchMeter {
    /// For text that is searched while other calls wait.
    pub fn inline() -> Self {
        Self::new(INLINE)
    }

    pub fn aside() -> Self {
        Self::new(ASIDE)
    }

    fn new((steps, time): (u64, Duration)) -> Self {
        Self {
            steps,
            spent: 0,
            until: Instant::now() + time,
            paused: None,
            caches: Vec::new(),
        }
    }

    pub fn pause(&mut self) {
        self.paused = Some(Instant::now());
    }

    pub fn go_on(&mut self) {
        if let Some(since) = self.paused.take() {
            self.until += since.elapsed();
        }
    }

    fn spend(&mut self, steps: u64) -> Result<(), SearchExhausted> {
        self.steps = self.steps.checked_sub(steps).ok_or(SearchExhausted)?;
        self.spent = self.spent.saturating_add(steps);
        if Instant::now() > self.until {
            Err(SearchExhausted)
        } else {
            Ok(())
        }
    }
}

impl SearchPattern {
    pub fn compile(pattern: &str) -> anyhow::Result<Self> {
        let states = states(pattern)?;
        ensure!(
            states <= STATES_MAX,
            "its automaton has {states} states, more than {STATES_MAX}; use smaller repetitions"
        );
        let regex = regex::RegexBuilder::new(pattern)
            .size_limit(ENGINE_BYTES_MAX)
            .build()?;
        let config = dfa::Config::new()
            .minimum_cache_clear_count(Some(LAZY_RESTARTS_MAX))
            .minimum_bytes_per_state(Some(LAZY_BYTES_PER_STATE_MIN))
            .unicode_word_boundary(true);
        let lazy = Lazy::builder()
            .dfa(config)
            .build(pattern)
            .ok()
            .map(std::sync::Arc::new);
        Ok(Self {
            regex,
            lazy,
            states: states as u64,
        })
    }

    /// Puts `label` for matches; `None` if nothing is replaced.
    pub fn replace(
        &self,
        text: &str,
        label: &str,
        meter: &mut SearchMeter,
    ) -> Result<Option<String>, SearchExhausted> {
        let mut replaced = None::<String>;
        let mut kept = 0;
        let mut at = 0;
        let mut lazy = self.lazy.as_deref();
        while at <= text.len() {
            let Some((start, end)) = self.find(text, at, &mut lazy, meter)? else {
                break;
            };
            if start < end {
                let out = replaced.get_or_insert_with(|| String::with_capacity(text.len()));
                out.push_str(text.get(kept..start).unwrap_or_default());
                out.push_str(label);
                (kept, at) = (end, end);
            } else {
                // An empty match replaces nothing.
                at = end
                    + text
                        .get(end..)
                        .and_then(|rest| rest.chars().next())
                        .map_or(1, char::len_utf8);
            }
        }
        if let Some(out) = &mut replaced {
            out.push_str(text.get(kept..).unwrap_or_default());
        }
        Ok(replaced)
    }

    fn find(
        &self,
        text: &str,
        at: usize,
        lazy: &mut Option<&Lazy>,
        meter: &mut SearchMeter,
    ) -> Result<Option<(usize, usize)>, SearchExhausted> {
        let cost = self.states.saturating_mul((text.len() - at) as u64);
        // Short texts cost little, but a result has many of them, and their sum can exhaust a budget.
        let pays_off =
            text.len() >= LAZY_BYTES_MIN || meter.spent.saturating_add(cost) > LAZY_STEPS_MIN;
        if pays_off && let Some(engine) = lazy {
            meter.spend(0)?;
            let found = engine.try_search(meter.cache(engine), &Input::new(text).range(at..));
            match found {
                Ok(found) => return Ok(found.map(|found: Match| (found.start(), found.end()))),
                // The lazy automaton gave up; the slower engine can search, within the budget.
                Err(_) => *lazy = None,
            }
        }
        meter.spend(cost)?;
        Ok(self
            .regex
            .find_at(text, at)
            .map(|found| (found.start(), found.end())))
    }
}

impl SearchMeter {
    fn cache(&mut self, engine: &Lazy) -> &mut Cache {
        let key = std::ptr::from_ref(engine) as usize;
        let at = self
            .caches
            .iter()
            .position(|(known, _)| *known == key)
            .unwrap_or_else(|| {
                self.caches.push((key, engine.create_cache()));
                self.caches.len() - 1
            });
        #[expect(clippy::indexing_slicing, reason = "found or pushed above")]
        &mut self.caches[at].1
    }
}

#[cfg(test)]
mod tests {
    use super::{INLINE, LAZY_STEPS_MIN, SearchExhausted, SearchMeter, SearchPattern};
    use std::time::Duration;

    fn replaced(pattern: &str, text: &str) -> Option<String> {
        SearchPattern::compile(pattern)
            .unwrap()
            .replace(text, "_", &mut SearchMeter::aside())
            .unwrap()
    }

    #[test]
    fn every_match_gives_way_whichever_engine_finds_it() {
        for filler in ["", "  lorem ipsum", "  caf\u{e9} au lait"] {
            let padding = filler.repeat(200);
            for (pattern, text, expected) in [
                (
                    r"\bkey-\d+\b",
                    "a key-12 and key-3, no monkey-4",
                    "a _ and _, no monkey-4",
                ),
                ("[a-z]+?", "ab", "__"),
                ("x*", "axxb", "a_b"),
                ("none", "of it", "of it"),
            ] {
                // Padding of another alphabet than the patterns'.
                let padding: String = padding
                    .chars()
                    .filter(|c| !c.is_ascii_lowercase())
                    .collect();
                let found = replaced(pattern, &format!("{text}{padding}"));
                assert_eq!(
                    found.unwrap_or_else(|| format!("{text}{padding}")),
                    format!("{expected}{padding}"),
                    "{pattern}"
                );
            }
        }
    }

    #[test]
    fn many_short_texts_are_searched_within_the_budget_of_one_small_result() {
        let pattern = SearchPattern::compile(r"\w+@\w+").unwrap();
        let (steps, _) = INLINE;
        // A long time limit, so that only the steps count on a busy machine.
        let mut meter = SearchMeter::new((steps, Duration::from_secs(60)));
        let each = "sixteen letters!";
        let texts =
            (4_096 / each.len() as u64).max(2 * steps / (pattern.states * each.len() as u64));
        for n in 0..texts {
            assert_eq!(
                pattern.replace(each, "_", &mut meter),
                Ok(None),
                "{n} of {texts}"
            );
        }
        assert_eq!(
            pattern.replace("to me@example or", "_", &mut meter),
            Ok(Some("to _ or".to_owned()))
        );
        assert!(meter.spent <= LAZY_STEPS_MIN, "{}", meter.spent);
    }

    #[test]
    fn a_search_that_costs_too_much_is_not_made() {
        let pattern = SearchPattern::compile("[a-c]*[a-b][a-d]{800}[e-g]").unwrap();
        let mut state = 1u64;
        let mut letter = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ['a', 'b', 'c', 'd'][(state >> 62) as usize]
        };
        let text: String = (0..2_000_000).map(|_| letter()).collect();
        let began = std::time::Instant::now();
        assert_eq!(
            pattern.replace(&text, "_", &mut SearchMeter::aside()),
            Err(SearchExhausted)
        );
        assert!(
            began.elapsed() < std::time::Duration::from_secs(5),
            "{:?}",
            began.elapsed()
        );
    }

    #[test]
    fn looking_for_all_matches_of_a_pattern_that_reads_ahead_ends() {
        // Each `a` matches, and each search reads to the end of the text first.
        let pattern = SearchPattern::compile(".*z|a").unwrap();
        let began = std::time::Instant::now();
        assert_eq!(
            pattern.replace(&"a".repeat(4 << 20), "_", &mut SearchMeter::aside()),
            Err(SearchExhausted)
        );
        assert!(
            began.elapsed() < std::time::Duration::from_secs(10),
            "{:?}",
            began.elapsed()
        );
    }

    #[test]
    fn an_automaton_that_is_too_large_does_not_compile() {
        SearchPattern::compile("(a{1000}){1000}").unwrap_err();
        SearchPattern::compile(r"\w{1000}").unwrap_err();
        SearchPattern::compile("(").unwrap_err();
    }
}
