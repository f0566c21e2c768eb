use serde::{Deserialize, Serialize};

const LISTED_MAX: usize = 64;
const NAMES_BYTES_MAX: usize = 16 << 10;

/// Action on a file or a server.
///
/// ```
/// use toolcell_spec::Touch;
///
/// assert_eq!(serde_json::to_value(Touch::Removed)?, "removed");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Touch {
    Read,
    Listed,
    /// The thing was opened for writing, made or changed.
    Written,
    Removed,
    Requested,
}

/// ```
/// use toolcell_spec::{Touch, TouchList};
///
/// let mut touched = TouchList::default();
/// touched.note(Touch::Read, "/data/a.txt".to_owned());
/// assert_eq!(touched.listed[0].what, "/data/a.txt");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TouchedThing {
    pub how: Touch,
    /// Guest path, or method, origin and path without the query.
    pub what: String,
    /// `None` without a response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

/// Files and servers of a call, as the sandbox saw it.
///
/// ```
/// use toolcell_spec::{Touch, TouchList};
///
/// let mut touched = TouchList::default();
/// for _ in 0..2 {
///     touched.note(Touch::Written, "/data/a.txt".to_owned());
/// }
/// assert_eq!((touched.listed.len(), touched.more), (1, 0));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TouchList {
    /// The first files, then requests.
    pub listed: Vec<TouchedThing>,
    /// Number of unlisted touches.
    pub more: u64,
}

impl TouchList {
    /// Lists a file once per action; returns the place of a request.
    pub fn note(&mut self, how: Touch, what: String) -> Option<usize> {
        let is_file = how != Touch::Requested;
        if is_file
            && self
                .listed
                .iter()
                .any(|thing| thing.how == how && thing.what == what)
        {
            return None;
        }
        let bytes = self
            .listed
            .iter()
            .map(|thing| thing.what.len())
            .sum::<usize>();
        if self.listed.len() >= LISTED_MAX || bytes.saturating_add(what.len()) > NAMES_BYTES_MAX {
            self.more = self.more.saturating_add(1);
            return None;
        }
        self.listed.push(TouchedThing {
            how,
            what,
            status: None,
        });
        self.listed.len().checked_sub(1)
    }

    pub fn answered(&mut self, place: usize, status: u16) {
        if let Some(thing) = self.listed.get_mut(place) {
            thing.status = Some(status);
        }
    }

    pub fn append(&mut self, later: Self) {
        let room = (2 * LISTED_MAX).saturating_sub(self.listed.len());
        let left_out = later.listed.len().saturating_sub(room) as u64;
        self.listed.extend(later.listed.into_iter().take(room));
        self.more = self
            .more
            .saturating_add(later.more)
            .saturating_add(left_out);
    }

    /// Keeps only the number, because the guest chose the names.
    pub fn hide(&mut self) {
        self.more = self
            .more
            .saturating_add(std::mem::take(&mut self.listed).len() as u64);
    }

    pub fn into_some(self) -> Option<Self> {
        (!self.listed.is_empty() || self.more > 0).then_some(self)
    }
}
