//! Open Tool Calling: definitions, requests and responses (requirements 1.34 to 1.36, 2.3, 3.4).
//!
//! An [`OtcMode`] is one of three formats with one meaning: the published JSON Schemas, the differing text of the RFC,
//! and Arcade's current messages. A tool has a [`definition`], is called by an [`OtcRequest`], and answers with a
//! [`result`]. Arguments are checked against the whole schema, although the format says less.

mod definition;
mod error;
#[cfg(test)]
#[path = "tests/import.rs"]
mod import;
mod name;
mod output;
mod request;
mod requirement;
mod response;
mod value_schema;

#[cfg(test)]
#[path = "tests/samples.rs"]
pub(crate) mod samples;
#[cfg(test)]
mod tests;

use serde::Deserialize;
use strum::IntoStaticStr;

#[cfg(test)]
use crate::ListedTool;
pub use definition::definition;
#[cfg(test)]
use import::{ImportedResponse, import};
pub use name::{OtcToolName, OtcToolNames, fully_qualified_name};
pub use request::{OtcRequest, ToolReference};
pub use requirement::{Requirement, secrets};
pub use response::{Authorization, AuthorizationStatus, OtcReply, refused, result};

/// A format of Open Tool Calling; its word is the name of its dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum OtcMode {
    /// The published schemas, with the repairs of `schemas/otc`.
    Otc,
    /// The text of the RFC: a definition has an `id`, and a request needs no `created_at`.
    OtcSeed,
    /// Messages of an Arcade engine and its workers (arcade-core 4).
    Arcade,
}

impl OtcMode {
    pub const ALL: [Self; 3] = [Self::Otc, Self::OtcSeed, Self::Arcade];
}
