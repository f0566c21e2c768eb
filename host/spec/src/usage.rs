use serde::{Deserialize, Serialize};

use super::TouchList;

/// Use, and its limit.
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
    pub used: u64,
    pub limit: u64,
}

/// ```
/// use toolcell_spec::{FileUsage, MeteredUsage};
///
/// let files = FileUsage { disk_bytes: MeteredUsage { used: 512, limit: 1 << 30 }, ..FileUsage::default() };
/// assert_eq!(files.files_created.used, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileUsage {
    /// Bytes written, or by which files grew.
    pub disk_bytes: MeteredUsage,
    /// Includes folders and links.
    pub files_created: MeteredUsage,
}

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
    /// Includes refused ones.
    pub requests: MeteredUsage,
    /// On the wire, with TLS and headers.
    pub sent_bytes: MeteredUsage,
    /// Likewise.
    pub received_bytes: MeteredUsage,
    /// Open connections; further requests wait. The number in use is not measured.
    pub connections_limit: u64,
}

/// Artifacts, kept or not.
///
/// ```
/// use toolcell_spec::{ArtifactUsage, MeteredUsage};
///
/// let artifacts = ArtifactUsage { created: MeteredUsage { used: 1, limit: 100 }, ..ArtifactUsage::default() };
/// assert_eq!(artifacts.bytes.used, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactUsage {
    pub bytes: MeteredUsage,
    pub created: MeteredUsage,
}

/// Usage even of a failed call. Fuel, CPU time, files, network and artifacts include calls below. An extension.
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
    /// wasmtime fuel: deterministic for the same component, input and grants, without clock and random numbers. A lower
    /// bound if a guest was stopped during a computation. A guest that is metered by CPU time uses none itself.
    pub fuel: MeteredUsage,
    /// CPU time. Present if the guest, or a call below, is metered by it.
    pub cpu_ms: Option<MeteredUsage>,
    pub wall_ms: MeteredUsage,
    /// Peak of all linear memories together.
    pub memory_bytes: MeteredUsage,
    /// Peak of all tables together.
    pub table_elements: MeteredUsage,
    /// Returned content and structured output.
    pub output_bytes: MeteredUsage,
    /// Stdout, stderr and log messages; `used` includes dropped bytes.
    pub log_bytes: MeteredUsage,
    /// Core instances; more are refused. The number in use is not measured.
    pub instances_limit: u64,
    /// Open files, streams and pollables.
    pub handles_limit: u64,
    /// Open files and folders of the host.
    pub descriptors_limit: u64,
    /// Present if the guest tried to change files.
    pub files: Option<FileUsage>,
    /// Present if the guest tried to send a request.
    pub network: Option<NetworkUsage>,
    /// Present if the guest tried to create an artifact.
    pub artifacts: Option<ArtifactUsage>,
    /// Present if anything was touched; calls below have their own.
    pub touched: Option<TouchList>,
    /// Wasm stack; overflow is a trap. The depth in use is not measured.
    pub stack_bytes_limit: u64,
}

impl MeteredUsage {
    /// Takes the limit of `earlier`, which applied to both.
    fn add(&mut self, earlier: Self) {
        *self = Self {
            used: self.used.saturating_add(earlier.used),
            limit: earlier.limit,
        };
    }

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
    /// Adds `earlier` instances of the call, which left only the rest of each limit; peaks take the maximum.
    pub fn add(&mut self, earlier: &Self) {
        self.fuel.add(earlier.fuel);
        if let Some(before) = earlier.cpu_ms {
            self.cpu_ms.get_or_insert_default().add(before);
        }
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

    /// Adds a call below, as far as it counts for both.
    pub fn charge(&mut self, below: &Self) {
        self.fuel.charge(below.fuel);
        if let Some(used) = below.cpu_ms {
            self.cpu_ms.get_or_insert(used.unused()).charge(used);
        }
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
