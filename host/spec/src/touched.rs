use serde::{Deserialize, Serialize};

/// Maximum number of entries that are listed of the files of one run, and of its requests.
const LISTED_MAX: usize = 64;
/// Maximum bytes of their names together.
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
    /// Opened a file for reading.
    Read,
    /// Listed a folder.
    Listed,
    /// Opened a file for writing, or made or changed what has the name.
    Written,
    /// Removed a file or a folder, or gave it another name.
    Removed,
    /// Sent a request.
    Requested,
}

/// One thing that a tool touched.
///
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
    /// The path that the guest sees, or method, origin and path of a request, without its query.
    pub what: String,
    /// Status code of the response to a request; `None` if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

/// Files and servers that a call touched, as the sandbox saw it.
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
    /// The first things, in their order: files, then requests.
    pub listed: Vec<TouchedThing>,
    /// How often the call touched something that is not listed.
    pub more: u64,
}

impl TouchList {
    /// Adds what a guest did, and returns the place of a request in the list. A file is listed once for each thing that was
    /// done to it.
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

    /// Adds the status code of the response to the request at `place`.
    pub fn answered(&mut self, place: usize, status: u16) {
        if let Some(thing) = self.listed.get_mut(place) {
            thing.status = Some(status);
        }
    }

    /// Adds what was touched later, as far as there is room for it.
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

    /// `None` if nothing was touched.
    pub fn into_some(self) -> Option<Self> {
        (!self.listed.is_empty() || self.more > 0).then_some(self)
    }
}
