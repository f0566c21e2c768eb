use serde::{Deserialize, Serialize};

/// One meter of a call: what it used, what it was allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metered {
    pub used: u64,
    pub limit: u64,
}

/// What a call wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileUsage {
    /// Bytes written to files, or by which files grew.
    pub disk_bytes: Metered,
    /// Files, folders and links that were made.
    pub files_created: Metered,
}

/// What the requests of a call consumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkUsage {
    /// Requests, refused ones among them.
    pub requests: Metered,
    /// Bytes on the wire, TLS and heads included.
    pub sent_bytes: Metered,
    pub received_bytes: Metered,
    /// Connections open at once; more requests wait, how many there were is not measured.
    pub connections_limit: u64,
}

/// What a call consumed, also when it failed. An extension of `tool_result`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Units of wasmtime fuel: deterministic for the same component, input and grants, as long as the guest looks at no
    /// clock and no randomness. A lower bound where a guest was stopped in the middle of a computation.
    pub fuel: Metered,
    pub wall_ms: Metered,
    /// Bytes of all linear memories together, at their peak.
    pub memory_bytes: Metered,
    /// Elements of all tables together, at their peak.
    pub table_elements: Metered,
    /// Bytes of content and structured output that the guest returned.
    pub output_bytes: Metered,
    /// Bytes of stdout, stderr and log messages; `used` counts what was dropped, too.
    pub log_bytes: Metered,
    /// Core instances of one component; more is refused, how many there are is not measured.
    pub instances_limit: u64,
    /// Host handles (files, streams, pollables) open at once.
    pub handles_limit: u64,
    /// Files and folders of the host open at once.
    pub descriptors_limit: u64,
    /// There if the guest changed files, or tried to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<FileUsage>,
    /// There if the guest sent a request, or tried to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkUsage>,
    /// Bytes of wasm stack; overflow is a trap, the depth in use is not measured.
    pub stack_bytes_limit: u64,
}

impl Metered {
    /// Both together, of a limit that was there for both.
    fn add(&mut self, earlier: Self) {
        *self = Self { used: self.used.saturating_add(earlier.used), limit: earlier.limit };
    }
}

impl Usage {
    /// Adds what `earlier` instances of the same call consumed, which left only the rest of each limit. What is measured
    /// at its peak stays the highest of all.
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
    }
}
