//! Quotas of single callers: calls at once and a minute, CPU time and bytes a day.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use toolcell_spec::{ErrorCode, Refusal, Usage};
use toolcell_system::pool::STORE;
use toolcell_system::private::{self, OnDisk};

const DAY_SECONDS: u64 = 24 * 60 * 60;
const MINUTE: Duration = Duration::from_secs(60);
/// What a process that is killed may lose of its counts.
const WRITTEN_EACH: Duration = Duration::from_secs(1);
/// Units of fuel that count as a millisecond, for tools that are not metered by CPU time.
const FUEL_PER_MS: u64 = 25_000_000;
/// Of a call that has to wait until others end.
const RETRY_SECONDS: f64 = 1.0;

/// The quota of one caller; `None` for each part that has no bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Calls that run or wait.
    pub calls_at_once: Option<u32>,
    /// Calls that may begin in a minute.
    pub calls_per_minute: Option<u32>,
    /// CPU time of a day, which begins at 00:00 UTC. Of tools that are metered by fuel, 25 million units are 1 ms.
    pub cpu_per_day: Option<Duration>,
    /// Bytes that calls of a day return, write to files, send and receive.
    pub bytes_per_day: Option<u64>,
}

/// What callers with a quota have used. Clones are the same quotas.
#[derive(Clone, Debug, Default)]
pub struct Quotas(Arc<Mutex<QuotaState>>);

#[derive(Debug, Default)]
struct QuotaState {
    quotas: HashMap<String, Quota>,
    calls: HashMap<String, CallCount>,
    used: DayUse,
    file: Option<PathBuf>,
    written: Option<Instant>,
}

/// Use of one caller, now and of each part of its quota.
#[derive(Clone, Debug, PartialEq)]
pub struct CallerQuotas {
    pub caller: String,
    /// Calls that run or wait.
    pub calls: u32,
    pub quotas: Vec<QuotaUsage>,
}

/// A part of a quota, in the unit of its name.
#[derive(Clone, Debug, PartialEq)]
pub struct QuotaUsage {
    /// Such as `calls_at_once`.
    pub name: &'static str,
    pub used: f64,
    pub limit: f64,
    /// Calls that were refused for it since the start.
    pub refused: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum QuotaPart {
    CallsAtOnce,
    CallsPerMinute,
    CpuPerDay,
    BytesPerDay,
}

#[derive(Debug)]
struct CallCount {
    open: u32,
    refused: BTreeMap<QuotaPart, u64>,
    /// Calls that may begin at once, refilled over a minute.
    free: f64,
    at: Instant,
}

/// Kept in a file: a restart gives nobody a second day.
#[derive(Debug, Default, Serialize, Deserialize)]
struct DayUse {
    /// Since the first of January 1970.
    day: u64,
    callers: HashMap<String, CallerUse>,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct CallerUse {
    cpu_ms: u64,
    bytes: u64,
}

/// Counts a call as one that runs, until it is dropped.
#[derive(Debug)]
pub struct QuotaPlace {
    quotas: Quotas,
    caller: String,
}

impl Drop for QuotaPlace {
    fn drop(&mut self) {
        if let Some(count) = self.quotas.state().calls.get_mut(&self.caller) {
            count.open = count.open.saturating_sub(1);
        }
    }
}

impl Quotas {
    /// Goes on with the counts in `file`, and keeps them there.
    pub fn keep_in(&self, file: &Path) {
        let mut state = self.state();
        let text = std::fs::read(file).unwrap_or_default();
        state.used = serde_json::from_slice(&text).unwrap_or_default();
        state.file = Some(file.to_owned());
    }

    /// Sets the quotas by the callers' names, also of callers that are counted and have none. What was used counts on.
    pub fn set(&self, quotas: HashMap<String, Quota>) {
        let mut state = self.state();
        state
            .calls
            .retain(|caller, count| count.open > 0 || quotas.contains_key(caller));
        state.quotas = quotas;
    }

    fn state(&self) -> MutexGuard<'_, QuotaState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The use of each caller, sorted by name.
    pub fn usage(&self) -> Vec<CallerQuotas> {
        let mut state = self.state();
        state.turn(now());
        let mut all: Vec<_> = state.quotas.keys().map(|name| state.usage(name)).collect();
        all.sort_unstable_by(|one, other| one.caller.cmp(&other.caller));
        all
    }

    /// The use of one caller; `None` if it is not counted.
    pub fn usage_of(&self, caller: &str) -> Option<CallerQuotas> {
        let mut state = self.state();
        state.turn(now());
        let is_known = state.quotas.contains_key(caller);
        is_known.then(|| state.usage(caller))
    }

    /// Counts a call that begins; `None` for a caller that is not counted.
    ///
    /// # Errors
    ///
    /// `quota_exceeded` with the time after which a call can succeed.
    pub fn begin(&self, caller: Option<&str>) -> Result<Option<QuotaPlace>, Refusal> {
        let mut state = self.state();
        let Some(caller) = caller.filter(|caller| state.quotas.contains_key(*caller)) else {
            return Ok(None);
        };
        if guard!("quotas") {
            let checked = state.check(caller, now());
            checked.map_err(|(part, refusal)| {
                *state.calls_of(caller).refused.entry(part).or_default() += 1;
                refusal
            })?;
        }
        state.calls_of(caller).open += 1;
        Ok(Some(QuotaPlace {
            quotas: self.clone(),
            caller: caller.to_owned(),
        }))
    }

    /// Counts what a call used, and from time to time writes all counts down.
    pub async fn charge(&self, caller: &str, usage: &Usage) {
        if let Some(write) = self.count(caller, usage) {
            // A disk that fails must not end calls: the counts in memory hold.
            let _ = STORE.run(write).await;
        }
    }

    fn count(&self, caller: &str, usage: &Usage) -> Option<impl FnOnce() + Send + use<>> {
        let mut state = self.state();
        if !state.quotas.get(caller).is_some_and(is_bounded) {
            return None;
        }
        state.turn(now());
        let used = state.used.callers.entry(caller.to_owned()).or_default();
        used.cpu_ms = used.cpu_ms.saturating_add(cpu_ms(usage));
        used.bytes = used.bytes.saturating_add(bytes(usage));
        let is_due = |at: Instant| at.elapsed() >= WRITTEN_EACH;
        let due = state.written.is_none_or(is_due);
        if due { state.write() } else { None }
    }

    /// Writes the counts, before the process ends.
    pub fn close(&self) {
        let mut state = self.state();
        let has_any = state.quotas.values().any(is_bounded);
        let write = if has_any { state.write() } else { None };
        drop(state);
        if let Some(write) = write {
            write();
        }
    }
}

impl QuotaState {
    fn usage(&self, caller: &str) -> CallerQuotas {
        let quota = self.quotas.get(caller).cloned().unwrap_or_default();
        let used = self.used.callers.get(caller).copied().unwrap_or_default();
        let count = self.calls.get(caller);
        let open = count.map_or(0, |count| count.open);
        let begun = |most: u32| count.map_or(0.0, |count| f64::from(most) - count.free_of(most));
        let at_once = quota.calls_at_once.map(|most| (open.into(), most.into()));
        let minute = quota
            .calls_per_minute
            .map(|most| (begun(most), most.into()));
        let cpu = Duration::from_millis(used.cpu_ms).as_secs_f64();
        let cpu = quota.cpu_per_day.map(|most| (cpu, most.as_secs_f64()));
        let bytes = quota.bytes_per_day;
        let bytes = bytes.map(|most| (approximately(used.bytes), approximately(most)));
        let parts = [
            ("calls_at_once", QuotaPart::CallsAtOnce, at_once),
            ("calls_per_minute", QuotaPart::CallsPerMinute, minute),
            ("cpu_seconds_per_day", QuotaPart::CpuPerDay, cpu),
            ("bytes_per_day", QuotaPart::BytesPerDay, bytes),
        ];
        let known = |(name, part, both): (_, QuotaPart, Option<(f64, f64)>)| {
            both.map(|(used, limit)| QuotaUsage {
                name,
                used,
                limit,
                refused: count.map_or(0, |count| count.refused_for(part)),
            })
        };
        CallerQuotas {
            caller: caller.to_owned(),
            calls: open,
            quotas: parts.into_iter().filter_map(known).collect(),
        }
    }

    fn check(&mut self, caller: &str, now: Duration) -> Result<(), (QuotaPart, Refusal)> {
        self.turn(now);
        let quota = self.quotas.get(caller).cloned().unwrap_or_default();
        let used = self.used.callers.get(caller).copied().unwrap_or_default();
        let tomorrow = DAY_SECONDS - now.as_secs() % DAY_SECONDS;
        let cpu = quota.cpu_per_day.map(|cpu| cpu.as_millis());
        if let Some(cpu) = cpu.filter(|cpu| u128::from(used.cpu_ms) >= *cpu) {
            let what = format!("{cpu} ms of CPU time a day");
            let refusal = exceeded(&what, approximately(tomorrow));
            return Err((QuotaPart::CpuPerDay, refusal));
        }
        if let Some(bytes) = quota.bytes_per_day.filter(|bytes| used.bytes >= *bytes) {
            let refusal = exceeded(&format!("{bytes} bytes a day"), approximately(tomorrow));
            return Err((QuotaPart::BytesPerDay, refusal));
        }
        let count = self.calls_of(caller);
        if let Some(most) = quota.calls_at_once.filter(|most| count.open >= *most) {
            let refusal = exceeded(&format!("{most} calls at once"), RETRY_SECONDS);
            return Err((QuotaPart::CallsAtOnce, refusal));
        }
        let Some(most) = quota.calls_per_minute else {
            return Ok(());
        };
        count.free = count.free_of(most);
        count.at = Instant::now();
        if count.free < 1.0 {
            let after = (1.0 - count.free) * seconds_of_one(most);
            let refusal = exceeded(&format!("{most} calls a minute"), after);
            return Err((QuotaPart::CallsPerMinute, refusal));
        }
        count.free -= 1.0;
        Ok(())
    }

    fn calls_of(&mut self, caller: &str) -> &mut CallCount {
        let most = self
            .quotas
            .get(caller)
            .and_then(|quota| quota.calls_per_minute);
        self.calls
            .entry(caller.to_owned())
            .or_insert_with(|| CallCount {
                open: 0,
                refused: BTreeMap::new(),
                free: most.map_or(0.0, f64::from),
                at: Instant::now(),
            })
    }

    fn turn(&mut self, now: Duration) {
        let day = now.as_secs() / DAY_SECONDS;
        // A clock that goes back gives no second day.
        if day > self.used.day {
            self.used = DayUse {
                day,
                ..DayUse::default()
            };
        }
    }

    fn write(&mut self) -> Option<impl FnOnce() + Send + use<>> {
        self.written = Some(Instant::now());
        let file = self.file.clone()?;
        let text = serde_json::to_vec(&self.used).ok()?;
        Some(move || _ = private::write_atomically(&file, &[&text], OnDisk::Later))
    }
}

impl CallCount {
    fn refused_for(&self, part: QuotaPart) -> u64 {
        self.refused.get(&part).copied().unwrap_or_default()
    }

    /// Calls that may begin at once now, if so many may in a minute.
    fn free_of(&self, most: u32) -> f64 {
        let refilled = self.at.elapsed().as_secs_f64() / seconds_of_one(most);
        (self.free + refilled).min(f64::from(most))
    }
}

fn is_bounded(quota: &Quota) -> bool {
    *quota != Quota::default()
}

/// Until another of so many calls a minute may begin.
fn seconds_of_one(most: u32) -> f64 {
    MINUTE.as_secs_f64() / f64::from(most.max(1))
}

fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "what is shown or waited for need not be exact"
)]
fn approximately(whole: u64) -> f64 {
    whole as f64
}

fn cpu_ms(usage: &Usage) -> u64 {
    let measured = usage.cpu_ms.map(|cpu| cpu.used);
    measured.unwrap_or(usage.fuel.used / FUEL_PER_MS)
}

fn bytes(usage: &Usage) -> u64 {
    let files = usage.files.as_ref().map(|files| files.disk_bytes.used);
    let network = usage.network.as_ref();
    let network = network.map(|network| network.sent_bytes.used + network.received_bytes.used);
    [Some(usage.output_bytes.used), files, network]
        .into_iter()
        .flatten()
        .fold(0, u64::saturating_add)
}

fn exceeded(what: &str, after: f64) -> Refusal {
    let message = format!("your quota is used up: {what}; call again later");
    Refusal {
        retry_after: Some(after),
        ..Refusal::new(ErrorCode::QuotaExceeded, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quotas(quota: Quota) -> Quotas {
        let quotas = Quotas::default();
        quotas.set(HashMap::from([("anna".to_owned(), quota)]));
        quotas
    }

    fn charge(quotas: &Quotas, fuel: u64, output: u64) {
        let mut usage = Usage::default();
        usage.fuel.used = fuel;
        usage.output_bytes.used = output;
        if let Some(write) = quotas.count("anna", &usage) {
            write();
        }
    }

    #[test]
    fn calls_at_once_are_counted_until_they_end() {
        let quotas = quotas(Quota {
            calls_at_once: Some(2),
            ..Quota::default()
        });
        let first = quotas.begin(Some("anna")).unwrap();
        assert_eq!(quotas.usage()[0].calls, 1);
        let _second = quotas.begin(Some("anna")).unwrap().unwrap();
        let refused = quotas.begin(Some("anna")).unwrap_err();
        assert_eq!(refused.code, ErrorCode::QuotaExceeded);
        assert!(quotas.begin(Some("bert")).unwrap().is_none());
        let at_once = QuotaUsage {
            name: "calls_at_once",
            used: 2.0,
            limit: 2.0,
            refused: 1,
        };
        assert_eq!(quotas.usage()[0].quotas, [at_once]);
        drop(first);
        assert!(quotas.begin(Some("anna")).is_ok());
    }

    #[test]
    fn a_minute_has_its_calls_and_no_more() {
        let quotas = quotas(Quota {
            calls_per_minute: Some(3),
            ..Quota::default()
        });
        for _ in 0..3 {
            drop(quotas.begin(Some("anna")).unwrap());
        }
        let refused = quotas.begin(Some("anna")).unwrap_err();
        let after = refused.retry_after.unwrap();
        assert!((15.0..=20.0).contains(&after), "{after}");
    }

    #[test]
    fn a_day_has_its_cpu_time_and_bytes_over_restarts() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("quotas.json");
        let quota = Quota {
            cpu_per_day: Some(Duration::from_secs(1)),
            bytes_per_day: Some(1_000),
            ..Quota::default()
        };
        let begun = |quota: &Quota| {
            let quotas = quotas(quota.clone());
            quotas.keep_in(&file);
            quotas
        };
        let quotas = begun(&quota);
        charge(&quotas, 500 * FUEL_PER_MS, 10);
        assert!(quotas.begin(Some("anna")).is_ok());
        charge(&quotas, 500 * FUEL_PER_MS, 0);
        assert!(quotas.begin(Some("anna")).is_err());
        quotas.close();
        let refused = begun(&quota).begin(Some("anna")).unwrap_err();
        assert!(refused.message.contains("CPU time"), "{refused:?}");
        assert!(refused.retry_after.unwrap() <= 86_400.0);
        let more = Quota {
            cpu_per_day: None,
            ..quota
        };
        let quotas = begun(&more);
        charge(&quotas, 0, 990);
        assert!(quotas.begin(Some("anna")).is_err());
        let mut state = quotas.state();
        let tomorrow = now() + Duration::from_secs(DAY_SECONDS);
        assert!(state.check("anna", tomorrow).is_ok());
        assert!(
            state.check("anna", now()).is_ok(),
            "yesterday does not come back"
        );
    }
}
