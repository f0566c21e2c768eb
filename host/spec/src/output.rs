//! The output of a call as a type of its caller.

use serde::de::DeserializeOwned;
use thiserror::Error;

use super::{CallRecord, Content};

/// Reason why a call has no output of the expected type.
///
/// ```
/// use toolcell_spec::{CallRecord, OutputError};
///
/// /// The number of matches, if the tool ran.
/// fn matches(record: &CallRecord) -> Option<u64> {
///     match record.output() {
///         Ok(count) => Some(count),
///         Err(OutputError::Empty) => Some(0),
///         Err(_) => None,
///     }
/// }
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OutputError {
    #[error("the call ended without an output: {message} [{code}]")]
    Failed { message: String, code: String },
    #[error("the tool returned neither structured content nor text")]
    Empty,
    /// The output is larger than a result may be; `Host::payload` returns it by its `digest`.
    #[error("the output is not in the result because of its size; read the payload {digest}")]
    Persisted { digest: String },
    #[error("the structured content is not of the expected type: {0}")]
    Structured(#[source] serde_json::Error),
    #[error(
        "the tool returned no structured content, and its text is not JSON of the expected type: {0}"
    )]
    Text(#[source] serde_json::Error),
}

impl CallRecord {
    /// Reads the structured output, or else the text as JSON.
    ///
    /// # Errors
    ///
    /// A call that failed, an output that is missing or too large for the result, and one of another type.
    pub fn output<T: DeserializeOwned>(&self) -> Result<T, OutputError> {
        let result = &self.result;
        if let Some(error) = result.error.as_ref().filter(|_| result.is_error) {
            return Err(OutputError::Failed {
                message: error.message.clone(),
                code: error.error_code.clone(),
            });
        }
        if let Some(structured) = &result.structured_content {
            return T::deserialize(structured).map_err(OutputError::Structured);
        }
        let texts: Vec<&str> = result
            .content
            .iter()
            .filter(|block| block.is_model_facing())
            .filter_map(Content::as_text)
            .collect();
        let error = if texts.is_empty() {
            OutputError::Empty
        } else {
            match serde_json::from_str(&texts.concat()) {
                Ok(output) => return Ok(output),
                Err(error) => OutputError::Text(error),
            }
        };
        // What is left of an output that was moved is no JSON.
        let moved = self
            .persistence
            .iter()
            .find_map(|decision| decision.persisted_ref.as_ref());
        Err(moved.map_or(error, |reference| OutputError::Persisted {
            digest: reference.digest.clone(),
        }))
    }
}
