//! Reads the OpenAPI document of a server, in JSON or YAML.

use std::path::Path;

use anyhow::Context;
use toolcell_spec::dialect::openapi::{ApiRoutes, OPENAPI_BYTES_MAX, routes};
use toolcell_spec::{JSON_VALUES_MAX, read_unique_json};

use super::manifest::text;
use super::yaml;

/// Returns the routes of the OpenAPI document `file`.
///
/// # Errors
///
/// A file that is a link, not a regular file, too large, or not an OpenAPI document that names tools. The error names the file.
pub fn api_routes(file: &Path) -> anyhow::Result<ApiRoutes> {
    let read = || -> anyhow::Result<ApiRoutes> {
        let text = text(file, OPENAPI_BYTES_MAX)?;
        let document = if text.trim_start().starts_with('{') {
            read_unique_json(&text, JSON_VALUES_MAX)
        } else {
            yaml::read(&text, yaml::OPENAPI)
        };
        document
            .and_then(|document| routes(&document))
            .map_err(anyhow::Error::msg)
    };
    read().with_context(|| format!("cannot use the OpenAPI document {}", file.display()))
}
