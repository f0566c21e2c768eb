use std::time::Duration;

use serde::Serialize;

use toolcell_spec::Usage;

/// Limits of one call, which the sandbox enforces and reports.
///
/// ```
/// use std::time::Duration;
///
/// use toolcell_policy::Limits;
///
/// let limits = Limits { wall: Duration::from_secs(5), memory_bytes: 64 << 20, ..Limits::default() };
/// assert_eq!(limits.with_timeout_ms(Some(100)).wall, Duration::from_millis(100));
/// ```
// An approval is bound to all fields of these limits and of `NetworkLimits`, so serde may skip none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Units of wasmtime fuel, which are deterministic. Default: 500,000,000,000.
    pub fuel: u64,
    /// CPU time of the threads that run the guest, for a component that is metered by it in place of fuel. Default: 30 s.
    pub cpu: Duration,
    /// From instantiation to the end of post-return, host calls included, and loading code at a component's first call;
    /// checks that load it before wait as long. Default: 60 s.
    pub wall: Duration,
    /// Bytes of all linear memories. Default: 256 MiB.
    pub memory_bytes: u64,
    /// Elements of all tables. Default: 100,000.
    pub table_elements: u64,
    /// Core instances. Default: 64.
    pub instances: u64,
    /// Open files, streams and pollables. Default: 1,024.
    pub handles: u64,
    /// Open files and folders of the host. Default: 256.
    pub descriptors: u64,
    /// Written bytes. Extending a file counts, holes included; deleting gives nothing back. Default: 1 GiB.
    pub disk_bytes: u64,
    /// Files, folders and links; deleting gives nothing back. Default: 10,000.
    pub files_created: u64,
    /// Bytes of all artifacts. Default: 1 GiB.
    pub artifact_bytes: u64,
    /// Dropping artifacts gives nothing back. Default: 100.
    pub artifacts: u64,
    /// Bytes of content and structured output. Default: 8 MiB.
    pub output_bytes: u64,
    /// Bytes of stdout, stderr and log messages; the excess is dropped. Default: 256 KiB.
    pub log_bytes: u64,
    /// Further updates are coalesced. Default: 1,000.
    pub progress_updates: u64,
    pub network: NetworkLimits,
}

/// Request limits of one call.
///
/// ```
/// use toolcell_policy::{Limits, NetworkLimits};
///
/// let network = NetworkLimits { requests: 1, ..NetworkLimits::default() };
/// let one_request = Limits { network, ..Limits::default() };
/// assert_eq!(one_request.network.requests, 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NetworkLimits {
    /// Includes refused ones. Default: 64.
    pub requests: u64,
    /// Connections open at once; further requests wait. Default: 8.
    pub connections: u32,
    /// Bytes on the wire, all connections. Default: 16 MiB.
    pub sent_bytes: u64,
    /// Bytes on the wire, all connections. Default: 64 MiB.
    pub received_bytes: u64,
    /// Bytes of the headers of a request, or of status line and headers of a response. Default: 32 KiB.
    pub header_bytes: u32,
    /// Name lookup, connecting and TLS handshake. Default: 10 s.
    pub connect: Duration,
    /// From a ready connection to the response head. Default: 30 s.
    pub first_byte: Duration,
    /// Between pieces of a response body. Default: 15 s.
    pub between_bytes: Duration,
    /// From the wait for a connection to the end of the body. Default: 60 s.
    pub total: Duration,
}

impl Default for NetworkLimits {
    fn default() -> Self {
        Self {
            requests: 64,
            connections: 8,
            sent_bytes: 16 << 20,
            received_bytes: 64 << 20,
            header_bytes: 32 << 10,
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(30),
            between_bytes: Duration::from_secs(15),
            total: Duration::from_secs(60),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // 15 to 35 million units are about a millisecond of CPU: this is around 15 to 30 s.
            fuel: 500_000_000_000,
            cpu: Duration::from_secs(30),
            wall: Duration::from_secs(60),
            memory_bytes: 256 << 20,
            table_elements: 100_000,
            instances: 64,
            handles: 1_024,
            descriptors: 256,
            disk_bytes: 1 << 30,
            files_created: 10_000,
            artifact_bytes: 1 << 30,
            artifacts: 100,
            output_bytes: 8 << 20,
            log_bytes: 256 << 10,
            progress_updates: 1_000,
            network: NetworkLimits::default(),
        }
    }
}

/// Stack and records of a call, in bytes.
const HOST_BYTES: u64 = 6 << 20;
const TABLE_ELEMENT_BYTES: u64 = 8;

impl Limits {
    /// Maximum host memory of such a call: memories, tables, output as written and as parsed, logs, and the host's own
    /// needs.
    pub fn host_bytes(&self) -> u64 {
        let tables = self.table_elements.saturating_mul(TABLE_ELEMENT_BYTES);
        let output = self.output_bytes.saturating_mul(2);
        [
            self.memory_bytes,
            tables,
            output,
            self.log_bytes,
            HOST_BYTES,
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }

    /// At most `timeout_ms`, if set (AT-EXEC-14: the lowest of all wins).
    #[must_use]
    pub fn with_timeout_ms(mut self, timeout_ms: Option<u64>) -> Self {
        if let Some(timeout_ms) = timeout_ms {
            self.wall = self.wall.min(Duration::from_millis(timeout_ms));
        }
        self
    }

    #[must_use]
    pub fn less(&self, spent: &Usage) -> Self {
        let mut left = self.clone();
        left.fuel = left.fuel.saturating_sub(spent.fuel.used);
        let cpu_ms = spent.cpu_ms.map_or(0, |cpu| cpu.used);
        left.cpu = left.cpu.saturating_sub(Duration::from_millis(cpu_ms));
        left.wall = left
            .wall
            .saturating_sub(Duration::from_millis(spent.wall_ms.used));
        left.log_bytes = left.log_bytes.saturating_sub(spent.log_bytes.used);
        if let Some(files) = &spent.files {
            left.disk_bytes = left.disk_bytes.saturating_sub(files.disk_bytes.used);
            left.files_created = left.files_created.saturating_sub(files.files_created.used);
        }
        if let Some(network) = &spent.network {
            let of = &mut left.network;
            let used = network;
            of.requests = of.requests.saturating_sub(used.requests.used);
            of.sent_bytes = of.sent_bytes.saturating_sub(used.sent_bytes.used);
            of.received_bytes = of.received_bytes.saturating_sub(used.received_bytes.used);
        }
        left
    }

    /// At most `left`, for quotas shared with calls below.
    #[must_use]
    pub fn quotas_within(mut self, left: &Self) -> Self {
        self.disk_bytes = self.disk_bytes.min(left.disk_bytes);
        self.files_created = self.files_created.min(left.files_created);
        self.artifact_bytes = self.artifact_bytes.min(left.artifact_bytes);
        self.artifacts = self.artifacts.min(left.artifacts);
        let own = &mut self.network;
        let left = &left.network;
        own.requests = own.requests.min(left.requests);
        own.sent_bytes = own.sent_bytes.min(left.sent_bytes);
        own.received_bytes = own.received_bytes.min(left.received_bytes);
        self
    }

    /// For exports that only examine input: validation, classification, description.
    #[must_use]
    pub fn for_checks(&self) -> Self {
        Self {
            fuel: self.fuel.min(5_000_000_000),
            wall: self.wall.min(Duration::from_secs(2)),
            output_bytes: self.output_bytes.min(4 << 20),
            log_bytes: self.log_bytes.min(16 << 10),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use toolcell_spec::{FileUsage, MeteredUsage, NetworkUsage, Usage};

    use super::*;

    fn used(used: u64) -> MeteredUsage {
        MeteredUsage { used, limit: 100 }
    }

    fn spent() -> Usage {
        Usage {
            fuel: used(1),
            wall_ms: used(2),
            log_bytes: used(3),
            memory_bytes: used(9),
            files: Some(FileUsage {
                disk_bytes: used(4),
                files_created: used(5),
            }),
            network: Some(NetworkUsage {
                requests: used(6),
                sent_bytes: used(7),
                received_bytes: used(8),
                ..NetworkUsage::default()
            }),
            ..Usage::default()
        }
    }

    #[test]
    fn what_was_spent_is_not_there_again() {
        let all = Limits::default();
        let left = Limits::default().less(&spent());
        assert_eq!(
            (all.fuel - left.fuel, all.log_bytes - left.log_bytes),
            (1, 3)
        );
        assert_eq!(all.wall - left.wall, Duration::from_millis(2));
        assert_eq!(
            (
                all.disk_bytes - left.disk_bytes,
                all.files_created - left.files_created
            ),
            (4, 5)
        );
        let all = all.network;
        let left = left.network;
        assert_eq!(all.requests - left.requests, 6);
        assert_eq!(
            (
                all.sent_bytes - left.sent_bytes,
                all.received_bytes - left.received_bytes
            ),
            (7, 8)
        );
        let none = Limits {
            fuel: 0,
            ..Limits::default()
        };
        assert_eq!(none.less(&spent()).fuel, 0);
    }

    #[test]
    fn what_a_call_below_used_counts_under_the_limits_of_the_call_above() {
        let mut own = Usage {
            fuel: used(98),
            files: spent().files,
            ..Usage::default()
        };
        own.charge(&spent());
        assert_eq!(own.fuel, used(99));
        assert_eq!(
            own.files,
            Some(FileUsage {
                disk_bytes: used(8),
                files_created: used(10)
            })
        );
        assert_eq!(
            (own.network, own.wall_ms.used, own.log_bytes.used),
            (spent().network, 0, 0)
        );
        own.charge(&spent());
        assert_eq!(
            own.network
                .map(|network| (network.requests, network.received_bytes)),
            Some((used(12), used(16)))
        );
        own.charge(&spent());
        assert_eq!(
            own.fuel,
            used(100),
            "a call that was stopped used no more than its limit"
        );
    }

    #[test]
    fn the_bill_is_for_all_instances_under_the_first_limits() {
        let mut last = Usage {
            fuel: MeteredUsage {
                used: 10,
                limit: 99,
            },
            memory_bytes: used(4),
            ..Usage::default()
        };
        last.add(&spent());
        assert_eq!(last.fuel, used(11));
        assert_eq!(last.memory_bytes.used, 9);
        assert_eq!((last.files, last.network), (spent().files, spent().network));
        last.add(&spent());
        assert_eq!(last.network.map(|network| network.requests), Some(used(12)));
    }
}
