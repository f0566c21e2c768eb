use serde::{Deserialize, Serialize};

use super::TouchList;

/// One meter of a call: what it used, and its limit.
///
/// ```
/// use toolcell_spec::MeteredUsage;
///
/// fn is_exhausted(meter: &MeteredUsage) -> bool {
///     meter.used >= meter.limit
/// }
/// assert!(!is_exhausted(&MeteredUsage { used: 1, limit: 2 }));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeteredUsage {
    /// Amount used.
    pub used: u64,
    /// Amount allowed.
    pub limit: u64,
}

/// File writes of a call.
///
/// ```
/// use toolcell_spec::{FileUsage, MeteredUsage};
///
/// let files = FileUsage { disk_bytes: MeteredUsage { used: 512, limit: 1 << 30 }, ..FileUsage::default() };
/// assert_eq!(files.files_created.used, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileUsage {
    /// Bytes written to files, or by which files grew.
    pub disk_bytes: MeteredUsage,
    /// Files, folders and links that were created.
    pub files_created: MeteredUsage,
}

/// Network usage of a call.
///
/// ```
/// use toolcell_spec::{NetworkUsage, Usage};
///
/// fn received(usage: &Usage) -> u64 {
///     usage.network.as_ref().map_or(0, |network: &NetworkUsage| network.received_bytes.used)
/// }
/// assert_eq!(received(&Usage::default()), 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkUsage {
    /// Requests, including refused ones.
    pub requests: MeteredUsage,
    /// Bytes on the wire, including TLS and headers.
    pub sent_bytes: MeteredUsage,
    /// Bytes received on the wire, including TLS and headers.
    pub received_bytes: MeteredUsage,
    /// Maximum number of open connections; further requests wait. The number in use is not measured.
    pub connections_limit: u64,
}

/// Artifact writes of a call, kept or not.
///
/// ```
/// use toolcell_spec::{ArtifactUsage, MeteredUsage};
///
/// let artifacts = ArtifactUsage { created: MeteredUsage { used: 1, limit: 100 }, ..ArtifactUsage::default() };
/// assert_eq!(artifacts.bytes.used, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactUsage {
    /// Bytes of all artifacts together, as the tool wrote them.
    pub bytes: MeteredUsage,
    /// Artifacts that were created.
    pub created: MeteredUsage,
}

/// Usage of a call, even if it failed. An extension of `tool_result`. Fuel, files, network and artifacts include the
/// calls that it made.
///
/// ```
/// use toolcell_spec::ToolResult;
///
/// /// Milliseconds and units of fuel that a call took; `None` if no guest ran.
/// fn cost(result: &ToolResult) -> Option<(u64, u64)> {
///     let usage = result.usage.as_ref()?;
///     Some((usage.wall_ms.used, usage.fuel.used))
/// }
/// ```
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Units of wasmtime fuel: deterministic for the same component, input and grants, as long as the guest reads no
    /// clock and no random numbers. A lower bound if a guest was stopped during a computation.
    pub fuel: MeteredUsage,
    /// Wall time, in milliseconds.
    pub wall_ms: MeteredUsage,
    /// Peak size of all linear memories together, in bytes.
    pub memory_bytes: MeteredUsage,
    /// Peak number of elements of all tables together.
    pub table_elements: MeteredUsage,
    /// Bytes of content and structured output that the guest returned.
    pub output_bytes: MeteredUsage,
    /// Bytes of stdout, stderr and log messages; `used` includes dropped bytes.
    pub log_bytes: MeteredUsage,
    /// Maximum number of core instances of one component; more are refused. The number in use is not measured.
    pub instances_limit: u64,
    /// Maximum number of open host handles (files, streams, pollables).
    pub handles_limit: u64,
    /// Maximum number of open files and folders of the host.
    pub descriptors_limit: u64,
    /// Present if the guest changed files, or tried to.
    pub files: Option<FileUsage>,
    /// Present if the guest sent a request, or tried to.
    pub network: Option<NetworkUsage>,
    /// Present if the guest created an artifact, or tried to.
    pub artifacts: Option<ArtifactUsage>,
    /// Present if the guest opened or changed a file, listed a folder, or sent a request. What calls that it made touched is
    /// in their own results.
    pub touched: Option<TouchList>,
    /// Maximum size of the wasm stack, in bytes; overflow is a trap. The depth in use is not measured.
    pub stack_bytes_limit: u64,
}

impl MeteredUsage {
    /// Adds the use of `earlier` and takes its limit, which applied to both.
    fn add(&mut self, earlier: Self) {
        *self = Self {
            used: self.used.saturating_add(earlier.used),
            limit: earlier.limit,
        };
    }

    /// Adds the use of a call `below` this one, and keeps the limit.
    fn charge(&mut self, below: Self) {
        self.used = self
            .used
            .saturating_add(below.used)
            .min(self.limit.max(self.used));
    }

    fn unused(self) -> Self {
        Self { used: 0, ..self }
    }
}

impl Usage {
    /// Adds what `earlier` instances of the same call consumed, which left only the rest of each limit. For a peak, the
    /// highest value of all counts.
    pub fn add(&mut self, earlier: &Self) {
        self.fuel.add(earlier.fuel);
        self.wall_ms.add(earlier.wall_ms);
        self.log_bytes.add(earlier.log_bytes);
        self.memory_bytes.used = self.memory_bytes.used.max(earlier.memory_bytes.used);
        self.table_elements.used = self.table_elements.used.max(earlier.table_elements.used);
        if let Some(before) = &earlier.files {
            let files = self.files.get_or_insert_default();
            files.disk_bytes.add(before.disk_bytes);
            files.files_created.add(before.files_created);
        }
        if let Some(before) = &earlier.network {
            let network = self.network.get_or_insert_default();
            network.connections_limit = before.connections_limit;
            network.requests.add(before.requests);
            network.sent_bytes.add(before.sent_bytes);
            network.received_bytes.add(before.received_bytes);
        }
        if let Some(before) = &earlier.touched {
            let later = self.touched.replace(before.clone());
            self.touched
                .get_or_insert_default()
                .append(later.unwrap_or_default());
        }
    }

    /// Adds what a call consumed that this one made, as far as it counts for both.
    pub fn charge(&mut self, below: &Self) {
        self.fuel.charge(below.fuel);
        // A call that consumed nothing itself passed its whole limit on.
        if let Some(used) = &below.files {
            let disk_bytes = used.disk_bytes.unused();
            let files_created = used.files_created.unused();
            let files = self.files.get_or_insert(FileUsage {
                disk_bytes,
                files_created,
            });
            files.disk_bytes.charge(used.disk_bytes);
            files.files_created.charge(used.files_created);
        }
        if let Some(used) = &below.network {
            let network = self.network.get_or_insert(NetworkUsage {
                requests: used.requests.unused(),
                sent_bytes: used.sent_bytes.unused(),
                received_bytes: used.received_bytes.unused(),
                connections_limit: used.connections_limit,
            });
            network.requests.charge(used.requests);
            network.sent_bytes.charge(used.sent_bytes);
            network.received_bytes.charge(used.received_bytes);
        }
    }
}
