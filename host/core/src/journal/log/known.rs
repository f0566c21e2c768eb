use crate::record::InvocationId;

use super::CallLog;

impl CallLog {
    /// Whether the call `id` is on record. A log that cannot be read knows no call.
    pub async fn knows(&self, id: InvocationId) -> bool {
        let log = self.clone();
        self.aside(move || log.record(&id.to_string())).await.is_ok_and(|record| record.is_some())
    }
}
