use serde_json::{Value, json};
use toolcell_policy::secret::REDACTED;
use toolcell_spec::{EventType, JSON_VALUES_MAX, read_json};

use super::Trail;

/// Lines of one call that are events. The result has all of its log as a block.
const LOGGED_MAX: usize = 1_000;

impl Trail {
    /// A redacted line. After too many, one last event says so.
    pub fn logged(&self, level: &str, message: &str, fields: Option<&str>) {
        let (redactor, is_silent, mut meter) = {
            let mut kept = self.kept();
            if kept.logged > LOGGED_MAX {
                return;
            }
            kept.logged += 1;
            if kept.logged > LOGGED_MAX {
                let message = format!("more than {LOGGED_MAX} lines; the rest is in the result");
                drop(kept);
                return self.log_event("warn", &message, None);
            }
            (
                kept.redactor.clone(),
                kept.is_silent || kept.logs_silently,
                std::mem::take(&mut kept.meter),
            )
        };
        let (message, fields) = if is_silent || redactor.is_silent() {
            (REDACTED.to_owned(), None)
        } else {
            let mut fields: Option<Value> =
                fields.and_then(|fields| read_json(fields, JSON_VALUES_MAX).ok());
            fields
                .as_mut()
                .map(|fields| redactor.redact_spoken(fields, &mut meter));
            let mut message = message.to_owned();
            redactor.redact_spoken_text(&mut message, &mut meter);
            (message, fields)
        };
        self.kept().meter = meter;
        self.log_event(level, &message, fields);
    }

    fn log_event(&self, level: &str, message: &str, fields: Option<Value>) {
        let mut kept = self.kept();
        let data = json!({ "level": level, "message": message, "fields": fields });
        let event = self.plain_event(kept.tool_id.clone(), EventType::Logged, data);
        self.publish(&mut kept, event);
    }
}
