#![allow(
    deprecated,
    reason = "log messages are on their way out of the protocol, and both revisions still have them"
)]

use rmcp::model::{
    LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken,
};
use serde_json::{Value, json};
use toolcell_spec::TypedFields;

/// Place among the protocol's eight levels, from `debug` on.
pub type Level = u8;

pub const INFO: Level = LoggingLevel::Info as Level;

pub fn log_level(level: LoggingLevel) -> Level {
    level as Level
}

/// From a `tool.invocation.logged` event; `None` if less severe than `least`.
pub fn log(logger: &str, data: &Value, least: Level) -> Option<LoggingMessageNotificationParam> {
    let word = match data.text("level") {
        Some("trace" | "debug") => LoggingLevel::Debug,
        Some("warn") => LoggingLevel::Warning,
        Some("error") => LoggingLevel::Error,
        _ => LoggingLevel::Info,
    };
    if log_level(word) < least {
        return None;
    }
    let message = data.get("message").cloned().unwrap_or_default();
    let said = match data.get("fields").filter(|fields| !fields.is_null()) {
        None => message,
        Some(fields) => json!({ "message": message, "fields": fields }),
    };
    let mut param = LoggingMessageNotificationParam::new(word, said);
    param.logger = Some(logger.to_owned());
    Some(param)
}

/// Numbers that only grow, as the protocol demands: percent if the first update has one, else the count of updates.
#[derive(Debug)]
pub struct ProgressSteps {
    token: ProgressToken,
    last: Option<f64>,
    in_percent: bool,
}

impl ProgressSteps {
    pub fn new(token: ProgressToken) -> Self {
        Self {
            token,
            last: None,
            in_percent: false,
        }
    }

    pub fn next(&mut self, data: &Value) -> ProgressNotificationParam {
        let field = |name: &str| data.get("progress").and_then(|progress| progress.get(name));
        let percent = field("percent").and_then(Value::as_f64);
        self.in_percent = if self.last.is_none() {
            percent.is_some()
        } else {
            self.in_percent
        };
        let now = if self.in_percent {
            percent.unwrap_or_default()
        } else {
            self.last.map_or(1.0, |last| last + 1.0)
        };
        // Progress must grow: a small step, if the tool stood still or went back.
        let step = |last: f64| (last + 0.001).max(last.next_up());
        let progress = self
            .last
            .map_or(now, |last| if now > last { now } else { step(last) });
        self.last = Some(progress);
        let mut param = ProgressNotificationParam::new(self.token.clone(), progress);
        param.total = self.in_percent.then_some(100.0);
        param.message = field("message")
            .or(field("current_step"))
            .and_then(Value::as_str)
            .map(str::to_owned);
        param
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::LoggingLevel;
    use rmcp::model::{NumberOrString, ProgressToken};
    use serde_json::{Value, json};

    use super::{INFO, ProgressSteps, log, log_level};

    fn steps() -> ProgressSteps {
        ProgressSteps::new(ProgressToken(NumberOrString::Number(7)))
    }

    #[test]
    fn progress_only_grows() {
        let mut percent = steps();
        let said: Vec<f64> = [
            json!(0.0),
            json!(50.0),
            json!(50.0),
            json!(20.0),
            Value::Null,
            json!(100.0),
        ]
        .into_iter()
        .map(|percent| json!({ "progress": { "percent": percent } }))
        .map(|data| percent.next(&data).progress)
        .collect();
        assert!(said.windows(2).all(|pair| pair[1] > pair[0]), "{said:?}");
        assert_eq!((said[0], said[1], said[5]), (0.0, 50.0, 100.0));
        // As a person reads it, not by the smallest number that is larger.
        let mut still = steps();
        let [zero, more] = [(), ()].map(|()| {
            still
                .next(&json!({ "progress": { "percent": 0.0 } }))
                .progress
        });
        assert_eq!((zero, more), (0.0, 0.001));
        let mut counted = steps();
        let first = counted.next(&json!({ "progress": { "message": "m" } }));
        assert_eq!(
            (first.progress, first.total, first.message.as_deref()),
            (1.0, None, Some("m"))
        );
        assert!(
            (counted
                .next(&json!({ "progress": { "percent": 1.0 } }))
                .progress
                - 2.0)
                .abs()
                < f64::EPSILON
        );
    }

    #[test]
    fn a_log_message_is_sent_from_its_level_on() {
        let data = json!({ "level": "warn", "message": "m", "fields": null });
        let sent = log("t", &data, INFO).unwrap();
        assert_eq!(
            serde_json::to_value(&sent).unwrap(),
            json!({ "level": "warning", "logger": "t", "data": "m" })
        );
        assert!(log("t", &data, log_level(LoggingLevel::Error)).is_none());
        let fields = json!({ "level": "trace", "message": "m", "fields": { "a": 1 } });
        assert_eq!(
            log("t", &fields, log_level(LoggingLevel::Debug))
                .unwrap()
                .data,
            json!({ "message": "m", "fields": { "a": 1 } })
        );
    }
}
