use std::fmt;

use data_encoding::{BASE64, HEXLOWER};
use serde::{Deserialize, Serialize};

use super::InvocationId;

const READINGS_MAX: usize = 4_096;
const SEED_BYTES: usize = 32;

/// One clock's readings in one call, in nanoseconds: at most 4,096. An extension.
///
/// ```
/// use toolcell_spec::ClockReadings;
///
/// let mut readings = ClockReadings::default();
/// [7, 1_000, 900].into_iter().for_each(|reading| readings.push(reading));
/// assert_eq!(readings.iter().collect::<Vec<u64>>(), [7, 1_000, 900]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "StoredReadings", into = "StoredReadings")]
pub struct ClockReadings {
    /// Differences as zigzag LEB128, because most take two or three bytes.
    steps: Vec<u8>,
    count: usize,
    last: u64,
    exceeded: bool,
}

impl ClockReadings {
    /// The first reading beyond the limit drops all.
    pub fn push(&mut self, nanoseconds: u64) {
        if self.count == READINGS_MAX {
            *self = Self {
                exceeded: true,
                ..Self::default()
            };
        }
        if self.exceeded {
            return;
        }
        let step = nanoseconds.wrapping_sub(self.last).cast_signed();
        let mut rest = ((step << 1) ^ (step >> 63)).cast_unsigned();
        while rest >= 0x80 {
            let [low, ..] = rest.to_le_bytes();
            self.steps.push(low | 0x80);
            rest >>= 7;
        }
        let [low, ..] = rest.to_le_bytes();
        self.steps.push(low);
        self.count += 1;
        self.last = nanoseconds;
    }

    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let mut at = 0;
        let mut last = 0;
        std::iter::from_fn(move || {
            let (reading, end) = self.read(at, last)?;
            (at, last) = (end, reading);
            Some(reading)
        })
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0 && !self.exceeded
    }

    /// `true` if there were too many; then none is kept.
    pub fn is_exceeded(&self) -> bool {
        self.exceeded
    }

    fn read(&self, at: usize, last: u64) -> Option<(u64, usize)> {
        let mut step = 0_u64;
        let mut end = at;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = *self.steps.get(end)?;
            end += 1;
            step |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                let signed = (step >> 1).cast_signed() ^ -((step & 1).cast_signed());
                return Some((last.wrapping_add(signed.cast_unsigned()), end));
            }
        }
        None
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredReadings {
    count: usize,
    /// Base64.
    steps: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    exceeded: bool,
}

impl From<ClockReadings> for StoredReadings {
    fn from(readings: ClockReadings) -> Self {
        Self {
            count: readings.count,
            steps: BASE64.encode(&readings.steps),
            exceeded: readings.exceeded,
        }
    }
}

impl TryFrom<StoredReadings> for ClockReadings {
    type Error = &'static str;

    fn try_from(stored: StoredReadings) -> Result<Self, Self::Error> {
        let steps = BASE64
            .decode(stored.steps.as_bytes())
            .map_err(|_| "the steps of a clock are not base64")?;
        let readings = Self {
            steps,
            count: stored.count,
            last: 0,
            exceeded: stored.exceeded,
        };
        let (found, last) = readings
            .iter()
            .take(READINGS_MAX + 1)
            .fold((0, 0), |(found, _), last| (found + 1, last));
        if found != readings.count || found > READINGS_MAX {
            return Err("a clock has another number of readings than its record says");
        }
        Ok(Self { last, ..readings })
    }
}

/// Seed of a call's random numbers, which reveals them, so `Debug` does not show it. An extension.
///
/// ```
/// use toolcell_spec::RandomSeed;
///
/// let seed = RandomSeed::new([7; 32]);
/// assert_eq!(format!("{seed:?}"), "RandomSeed");
/// assert_eq!(serde_json::to_value(&seed)?, "07".repeat(32));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RandomSeed([u8; SEED_BYTES]);

impl RandomSeed {
    pub fn new(bytes: [u8; SEED_BYTES]) -> Self {
        Self(bytes)
    }

    pub fn bytes(&self) -> &[u8; SEED_BYTES] {
        &self.0
    }
}

impl fmt::Debug for RandomSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RandomSeed")
    }
}

impl From<RandomSeed> for String {
    fn from(seed: RandomSeed) -> Self {
        HEXLOWER.encode(&seed.0)
    }
}

impl TryFrom<String> for RandomSeed {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let bytes = HEXLOWER
            .decode(text.as_bytes())
            .ok()
            .and_then(|bytes| bytes.try_into().ok());
        bytes
            .map(Self)
            .ok_or("a random seed is not 64 hexadecimal digits")
    }
}

/// An extension.
///
/// ```
/// use toolcell_spec::{ReplayBlocker, ReplayData};
///
/// let data = ReplayData { blocked_by: vec![ReplayBlocker::NetworkUsed], ..ReplayData::default() };
/// assert_eq!(serde_json::to_value(&data)?, serde_json::json!({ "blocked_by": ["network_used"] }));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayData {
    pub component_file: Option<String>,
    /// Unrecorded inputs that the call could use. If any, other fields are empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked_by: Vec<ReplayBlocker>,
    pub random_seed: Option<RandomSeed>,
    pub wall_clock: Option<ClockReadings>,
    pub monotonic_clock: Option<ClockReadings>,
}

/// A call as the replay of another.
///
/// ```
/// use toolcell_spec::{InvocationId, Replay, ReplayData};
///
/// let replay = Replay { of: InvocationId::new(), data: ReplayData::default() };
/// assert!(replay.data.random_seed.is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    /// The guest sees this id as its own, because its output may contain it.
    pub of: InvocationId,
    pub data: ReplayData,
}

/// An extension.
///
/// ```
/// use toolcell_spec::ReplayBlocker;
///
/// assert!(ReplayBlocker::FilesUsed.message().contains("files"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayBlocker {
    FilesUsed,
    DraftsUsed,
    NetworkUsed,
    SecretsUsed,
    EnvironmentUsed,
    /// Sensitive arguments are not recorded.
    InputRedacted,
    /// The recorded arguments are not byte for byte what ran.
    InputNotExact,
    ToolsUsed,
    SettingsUsed,
    UserInfoUsed,
    QuestionsAsked,
    /// The output may be on no disk, so there is nothing to compare with.
    OutputNotKept,
    AttemptRepeated,
    ClockReadingsExceeded,
    Canceled,
    /// Call or replay ran out of wall time.
    StoppedByClock,
    NeverRan,
    StillRunning,
    IsAReplay,
    /// `[log] replay` was off.
    NotRecorded,
    LogDamaged,
    ComponentMissing,
    ComponentChanged,
    RefusedNow,
    CanceledNow,
    /// A hook, or a default of the contract, changed it.
    InputChanged,
}

impl ReplayBlocker {
    pub fn message(self) -> &'static str {
        match self {
            Self::FilesUsed => "the call could use files, which are not recorded",
            Self::DraftsUsed => "the call had a folder for drafts, whose state is not recorded",
            Self::NetworkUsed => {
                "the call could send requests, and their responses are not recorded"
            }
            Self::SecretsUsed => {
                "the requests of the call could carry secrets, which are not recorded"
            }
            Self::EnvironmentUsed => "the call saw environment variables, which are not recorded",
            Self::InputRedacted => {
                "arguments of the call are sensitive, and so they are not recorded"
            }
            Self::InputNotExact => "the recorded arguments are not exactly those that ran",
            Self::ToolsUsed => "the call could call other tools, whose answers are not recorded",
            Self::SettingsUsed => "the tool had settings of the operator, which are not recorded",
            Self::UserInfoUsed => "the tool got what its caller's client said of its user",
            Self::OutputNotKept => {
                "the output of the call was not kept, because it may be on no disk"
            }
            Self::AttemptRepeated => {
                "an attempt failed and was repeated, and only the last one is recorded"
            }
            Self::QuestionsAsked => "the tool asked its user, and the answers are not recorded",
            Self::ClockReadingsExceeded => {
                "the tool read a clock more often than the 4096 times that are recorded"
            }
            Self::Canceled => "the call was canceled, and the moment is not recorded",
            Self::StoppedByClock => {
                "the time ran out, and where that stops a tool differs each time"
            }
            Self::NeverRan => "the call ended before its tool ran",
            Self::StillRunning => {
                "the call has not ended; replay it when `toolcell calls` says that it has"
            }
            Self::IsAReplay => {
                "the call is a replay itself; replay the call that `replay_of` in its record names"
            }
            Self::NotRecorded => {
                "what differs in each run was not recorded; [log] replay = \"on\" in your own toolcell.toml \
                 records it for later calls"
            }
            Self::LogDamaged => {
                "the record of the call is not as it was written; see `toolcell log verify`"
            }
            Self::ComponentMissing => {
                "the component of the call cannot be found; name a copy with --component"
            }
            Self::ComponentChanged => {
                "the component has changed since the call; --component runs the call with the new one, or with a copy \
                 of the old one"
            }
            Self::RefusedNow => "the replay was refused",
            Self::CanceledNow => "the replay was canceled",
            Self::InputChanged => "a hook or a default changed the arguments of the replay",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(of: &[u64]) -> ClockReadings {
        let mut readings = ClockReadings::default();
        of.iter().for_each(|reading| readings.push(*reading));
        readings
    }

    #[test]
    fn readings_come_back_as_they_were_whatever_their_distance() {
        let values = [
            0,
            5,
            5,
            4,
            u64::MAX,
            0,
            1 << 63,
            1_764_000_000_000_000_000,
            127,
            128,
        ];
        let written = serde_json::to_string(&readings(&values)).unwrap();
        let read: ClockReadings = serde_json::from_str(&written).unwrap();
        assert_eq!(read.iter().collect::<Vec<_>>(), values);
        assert_eq!(read, readings(&values));
    }

    #[test]
    fn a_reading_too_many_drops_all() {
        let mut kept = readings(&vec![9; READINGS_MAX]);
        assert!(!kept.is_exceeded() && kept.iter().count() == READINGS_MAX);
        kept.push(9);
        assert!(kept.is_exceeded() && !kept.is_empty() && kept.iter().next().is_none());
        kept.push(9);
        assert_eq!(kept.iter().next(), None);
        let read: ClockReadings =
            serde_json::from_str(&serde_json::to_string(&kept).unwrap()).unwrap();
        assert!(read.is_exceeded());
    }

    #[test]
    fn what_nobody_wrote_is_not_read() {
        let written = serde_json::to_value(readings(&[1, 2, 3])).unwrap();
        for (field, value) in [
            ("count", 2.into()),
            ("steps", "?".into()),
            ("steps", "".into()),
            ("odd", 1.into()),
        ] {
            let mut changed = written.clone();
            changed[field] = value;
            assert!(
                serde_json::from_value::<ClockReadings>(changed).is_err(),
                "{field}"
            );
        }
        for seed in ["", "07", &"zz".repeat(32), &"07".repeat(33)] {
            assert!(
                serde_json::from_value::<RandomSeed>(seed.into()).is_err(),
                "{seed}"
            );
        }
    }
}
