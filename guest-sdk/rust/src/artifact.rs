use std::{error, fmt, io};

use crate::{Content, ErrorClass, ToolError, host};

/// Maximum size of one write, in bytes.
const CHUNK_BYTES_MAX: usize = 1 << 20;

/// A file that belongs to the result, written in chunks, so that neither the tool nor the host holds all of it in memory.
///
/// The result has to contain the block that [`Self::finish`] returns; otherwise the host removes the file. It also removes
/// a file that is dropped before it is finished, and every file of a call that fails.
///
/// ```
/// use std::io::Write;
///
/// use toolcell_guest::{Artifact, Output, ToolError, testing, tool};
///
/// /// Lists the squares.
/// #[tool]
/// fn squares() -> Result<Output, ToolError> {
///     let mut artifact = Artifact::create("squares.csv", "text/csv")?;
///     for n in 1_u64..=3 {
///         writeln!(artifact, "{n},{}", n * n)?;
///     }
///     Ok(Output::new().text("3 squares").block(artifact.finish()?))
/// }
///
/// # fn main() {
/// let output = squares().unwrap();
/// assert_eq!(output.content[1].kind(), "artifact_ref");
/// assert_eq!(testing::artifacts()[0].bytes, b"1,1\n2,4\n3,9\n");
/// # }
/// ```
pub struct Artifact(host::ArtifactDraft);

impl Artifact {
    /// Begins a file. `name` can be in folders, such as `a/b.csv`. `media_type` is for example `text/csv`.
    ///
    /// # Errors
    ///
    /// Too many artifacts, a media type that is not valid, or a call that may not write artifacts.
    pub fn create(
        name: impl AsRef<str>,
        media_type: impl AsRef<str>,
    ) -> Result<Self, ArtifactError> {
        host::create_artifact(name.as_ref(), media_type.as_ref()).map(Self)
    }

    /// Ends the file, and returns the block for the result.
    ///
    /// # Errors
    ///
    /// A file that the host could not store.
    pub fn finish(self) -> Result<Content, ArtifactError> {
        Ok(Content::new("artifact_ref").field("reference", self.0.finish()?))
    }
}

/// Each write is a call of the host, which gathers small ones.
impl io::Write for Artifact {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let chunk = &bytes[..bytes.len().min(CHUNK_BYTES_MAX)];
        self.0.write(chunk)?;
        Ok(chunk.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Why an artifact cannot be written, with the host's sentence about it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArtifactError {
    /// The call may not write artifacts.
    Denied(String),
    /// The call may not write more bytes, or not more artifacts.
    QuotaExceeded(String),
    /// An argument is not valid.
    Invalid(String),
    /// The host could not store the file.
    Failed(String),
}

impl fmt::Display for ArtifactError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Denied(why) | Self::QuotaExceeded(why) | Self::Invalid(why) | Self::Failed(why)) =
            self;
        f.write_str(why)
    }
}

impl error::Error for ArtifactError {}

impl From<ArtifactError> for io::Error {
    fn from(error: ArtifactError) -> Self {
        Self::other(error)
    }
}

impl From<ArtifactError> for ToolError {
    fn from(error: ArtifactError) -> Self {
        let (class, code) = match &error {
            ArtifactError::Denied(_) => (ErrorClass::CapabilityGap, "artifact_denied"),
            ArtifactError::QuotaExceeded(_) => (ErrorClass::ResultTooLarge, "artifact_quota"),
            ArtifactError::Invalid(_) => (ErrorClass::ExecutionFailed, "artifact_invalid"),
            ArtifactError::Failed(_) => (ErrorClass::DependencyUnavailable, "artifact_failed"),
        };
        Self::new(class, code, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::testing;

    #[test]
    fn an_artifact_is_recorded_with_whether_it_was_finished() {
        testing::reset();
        let mut first = Artifact::create("a.txt", "text/plain").unwrap();
        let mut second = Artifact::create("b.bin", "application/octet-stream").unwrap();
        first.write_all(b"one ").unwrap();
        second
            .write_all(&vec![7_u8; 3 * CHUNK_BYTES_MAX + 1])
            .unwrap();
        first.write_all(b"two").unwrap();
        let block = first.finish().unwrap();
        assert_eq!(
            block,
            Content::new("artifact_ref").field("reference", "toolcell:artifact/1")
        );
        let written = testing::artifacts();
        assert_eq!(
            (written[0].name.as_str(), written[0].bytes.as_slice()),
            ("a.txt", &b"one two"[..])
        );
        assert_eq!(
            (written[1].media_type.as_str(), written[1].bytes.len()),
            ("application/octet-stream", 3_145_729)
        );
        assert!(written[0].is_finished && !written[1].is_finished);
    }

    #[test]
    fn a_quota_ends_the_tool_with_the_words_of_the_host() {
        testing::reset();
        testing::set_artifact_bytes_max(4);
        let mut artifact = Artifact::create("a", "text/plain").unwrap();
        artifact.write_all(b"1234").unwrap();
        let error = ToolError::from(artifact.write_all(b"5").unwrap_err());
        assert_eq!(
            (error.class, error.code.as_str()),
            (ErrorClass::ResultTooLarge, "artifact_quota")
        );
        assert!(error.message.contains("4 are allowed"), "{}", error.message);
    }
}
