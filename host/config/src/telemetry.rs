use std::fmt;
use std::net::IpAddr;

use anyhow::{Context, bail, ensure};
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING};
use http::{HeaderName, HeaderValue, Uri};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use toolcell::Home;
use toolcell_spec::RuleSource;

use super::ConfigText;
use super::file::ConfigFile;

/// The address of a collector on this machine, as the OTLP specification has it.
const ENDPOINT: &str = "http://localhost:4318";
/// Headers that say how a request is framed.
const OWN: [HeaderName; 5] = [
    CONNECTION,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    HOST,
    TRANSFER_ENCODING,
];
/// Maximum number of headers for the collector.
const HEADERS_MAX: usize = 16;

/// `[telemetry]`: an error in a project's file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetrySection {
    /// If `true`, toolcell sends spans and metrics to a collector.
    pub export: Option<bool>,
    /// Its URL [default: `OTEL_EXPORTER_OTLP_ENDPOINT`, or `http://localhost:4318`].
    pub endpoint: Option<ConfigText>,
    /// Headers for it [default: `OTEL_EXPORTER_OTLP_HEADERS`].
    pub headers: SecretHeaders,
    /// If `true`, spans have arguments and results, redacted as in records.
    pub arguments: Option<bool>,
    /// If `true`, `toolcell serve` answers at `/metrics`.
    pub metrics: Option<bool>,
}

/// Headers whose values are secrets: no message and no `Debug` shows them.
#[derive(Clone, Default, PartialEq)]
pub struct SecretHeaders(Vec<(HeaderName, HeaderValue)>);

/// Telemetry settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TelemetrySettings {
    /// `None`: nothing is sent.
    pub collector: Option<Collector>,
    /// If `true`, spans have arguments and results.
    pub arguments: bool,
    /// If `true`, `toolcell serve` answers at `/metrics`.
    pub metrics: bool,
}

/// Where spans and metrics are sent.
#[derive(Clone, PartialEq)]
pub struct Collector {
    /// `http` or `https`, with a host, and without a query.
    pub endpoint: Uri,
    pub headers: SecretHeaders,
}

impl SecretHeaders {
    /// Each header with its value.
    pub fn iter(&self) -> impl Iterator<Item = &(HeaderName, HeaderValue)> {
        self.0.iter()
    }

    fn from_pairs(pairs: impl Iterator<Item = (String, Option<String>)>) -> Result<Self, String> {
        let header = |(at, (name, value)): (usize, (String, Option<String>))| {
            // Not by its name: where the name is missing, a part of the value would be taken for it.
            let why = |why: &str| format!("telemetry: header number {} {why}", at + 1);
            let known = HeaderName::try_from(&name)
                .map_err(|_| why("has no name that a header can have"))?;
            if OWN.contains(&known) {
                return Err(why("is one that toolcell writes itself"));
            }
            let mut value = value
                .and_then(|value| HeaderValue::try_from(value).ok())
                .ok_or_else(|| why("has no value that a header can have"))?;
            value.set_sensitive(true);
            Ok((known, value))
        };
        let headers = pairs
            .enumerate()
            .map(header)
            .collect::<Result<Vec<_>, String>>()?;
        if headers.len() > HEADERS_MAX {
            Err(format!("telemetry: more than {HEADERS_MAX} headers"))
        } else {
            Ok(Self(headers))
        }
    }

    /// Parses `OTEL_EXPORTER_OTLP_HEADERS`: `name=value`, with commas between them, and values in percent-encoding.
    fn of_variable(text: &str) -> Result<Self, String> {
        let pairs = text
            .split(',')
            .map(str::trim)
            .filter(|pair| !pair.is_empty());
        Self::from_pairs(pairs.map(|pair| match pair.split_once('=') {
            Some((name, value)) => (name.trim().to_owned(), decoded(value.trim())),
            // The text may be a value whose name is missing.
            None => (String::new(), None),
        }))
    }
}

impl<'de> Deserialize<'de> for SecretHeaders {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Read as any value, because serde's own errors quote what they did not expect.
        let read = toml::Value::deserialize(deserializer)?;
        let toml::Value::Table(table) = read else {
            return Err(D::Error::custom(
                "telemetry: headers are a table: { name = \"value\" }",
            ));
        };
        let text = |value: toml::Value| value.as_str().map(str::to_owned);
        Self::from_pairs(table.into_iter().map(|(name, value)| (name, text(value))))
            .map_err(D::Error::custom)
    }
}

impl fmt::Debug for SecretHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(name, _)| name.as_str()))
            .finish()
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A path can hold a key.
        f.debug_struct("Collector")
            .field("host", &self.endpoint.host())
            .finish_non_exhaustive()
    }
}

/// Replaces `known` by the `[telemetry]` of `file`, unless it is empty.
///
/// # Errors
///
/// Fails for the file of a project: it would choose where the calls of its user are told.
pub(super) fn read(
    known: &mut TelemetrySettings,
    source: RuleSource,
    file: &ConfigFile,
) -> anyhow::Result<()> {
    if file.telemetry == TelemetrySection::default() {
        return Ok(());
    }
    ensure!(
        !source.is_in_checkout() || !guard!("telemetry_source"),
        "{}: [telemetry] is for your own toolcell.toml, because it says where all your calls are told; remove it here",
        file.path.display()
    );
    *known = settings(file, |name| {
        std::env::var(name).ok().filter(|value| !value.is_empty())
    })
    .with_context(|| file.path.display().to_string())?;
    Ok(())
}

/// Parses the `[telemetry]` of `file`. `variable` reads the environment.
fn settings(
    file: &ConfigFile,
    variable: impl Fn(&str) -> Option<String>,
) -> anyhow::Result<TelemetrySettings> {
    let section = &file.telemetry;
    let mut settings = TelemetrySettings {
        collector: None,
        arguments: section.arguments.unwrap_or_default(),
        metrics: section.metrics.unwrap_or_default(),
    };
    if !section.export.unwrap_or_default() {
        return Ok(settings);
    }
    let endpoint = match &section.endpoint {
        Some(word) => parsed(word)
            .with_context(|| format!("[telemetry] endpoint in line {}", file.line_of(word)))?,
        None => match variable("OTEL_EXPORTER_OTLP_ENDPOINT") {
            Some(text) => parsed(&text).context("OTEL_EXPORTER_OTLP_ENDPOINT")?,
            None => parsed(ENDPOINT)?,
        },
    };
    let headers = match variable("OTEL_EXPORTER_OTLP_HEADERS")
        .filter(|_| section.headers == SecretHeaders::default())
    {
        Some(text) => SecretHeaders::of_variable(&text)
            .map_err(anyhow::Error::msg)
            .context("OTEL_EXPORTER_OTLP_HEADERS: give name=value, with commas between them")?,
        None => section.headers.clone(),
    };
    ensure!(
        headers == SecretHeaders::default() || is_private(&endpoint) || !guard!("telemetry_clear"),
        "cannot send headers to a collector over http:// to another machine, because they are secrets; give an endpoint with \
         https://, or leave the headers out"
    );
    settings.collector = Some(Collector { endpoint, headers });
    Ok(settings)
}

/// Returns what the user's own file says about telemetry, for commands that read nothing else of it.
pub fn configured_telemetry(home: &Home) -> anyhow::Result<TelemetrySettings> {
    let mut settings = TelemetrySettings::default();
    if let Some(file) = ConfigFile::read(&home.user_file()?)? {
        read(&mut settings, RuleSource::UserSettings, &file)?;
    }
    Ok(settings)
}

/// `true` if no other machine sees what is sent there.
pub(super) fn is_private(endpoint: &Uri) -> bool {
    let host = endpoint.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    endpoint.scheme_str() == Some("https") || is_here
}

/// Parses the URL of a collector. Messages leave it out, because it may hold a password or a key.
fn parsed(text: &str) -> anyhow::Result<Uri> {
    let endpoint: Uri = text.trim().parse().context("not a URL")?;
    let is_known = matches!(endpoint.scheme_str(), Some("http" | "https"));
    let Some(authority) = endpoint.authority().filter(|_| is_known) else {
        bail!("give a URL with http:// or https://");
    };
    ensure!(
        !authority.as_str().contains('@') && endpoint.query().is_none(),
        "a URL with a password or a query; put credentials into headers"
    );
    Ok(endpoint)
}

/// Decodes percent-encoding. `None` if it is malformed.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        bytes.push(match first {
            b'%' => {
                let (digits, after) = rest.split_at_checked(2)?;
                rest = after;
                let digits = std::str::from_utf8(digits)
                    .ok()
                    .filter(|digits| !digits.starts_with('+'))?;
                u8::from_str_radix(digits, 16).ok()?
            }
            other => *other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn of(text: &str, variables: &[(&str, &str)]) -> anyhow::Result<TelemetrySettings> {
        let variable = |name: &str| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        };
        settings(&ConfigFile::parse(text, Path::new("/home"))?, variable)
    }

    #[test]
    fn nothing_is_sent_unless_one_line_says_so() {
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector:1"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=b"),
        ];
        let off = of("telemetry.endpoint = \"http://collector:2\"", &variables).unwrap();
        assert_eq!(off, TelemetrySettings::default());
        let endpoint = |text: &str, variables: &[_]| {
            let collector = of(text, variables).unwrap().collector.unwrap();
            (collector.endpoint.to_string(), collector.headers.0.len())
        };
        assert_eq!(
            endpoint("telemetry.export = true", &[]),
            ("http://localhost:4318/".to_owned(), 0)
        );
        assert_eq!(
            endpoint("telemetry.export = true", &variables),
            ("https://collector:1/".to_owned(), 1)
        );
        let said = "[telemetry]\nexport = true\nendpoint = \"https://c.example/otlp\"\nheaders = { a = \"1\", b = \"2\" }";
        assert_eq!(
            endpoint(said, &variables),
            ("https://c.example/otlp".to_owned(), 2)
        );
    }

    #[test]
    fn no_message_repeats_a_secret() {
        let secret = "s3cret-value";
        for text in [
            format!("[telemetry]\nheaders = \"Authorization={secret}\""),
            format!("[telemetry]\nheaders = {{ Authorization = [\"{secret}\"] }}"),
            format!("[telemetry]\nheaders = {{ Authorization = \"{secret}\\n\" }}"),
            format!("[telemetry]\nheaders = {{ Authorization = \"{secret} }}"),
            format!("[telemetry]\nexport = true\nendpoint = \"http://me:{secret}@c.example\""),
            format!("[telemetry]\nexport = true\nendpoint = \"http://c.example/?key={secret}\""),
            format!("[telemetry]\nexport = true\nendpoint = \"{secret} {secret}\""),
        ] {
            let error = format!("{:#}", of(&text, &[]).unwrap_err());
            assert!(!error.contains(secret) && !error.contains("me:"), "{error}");
        }
        for variable in [
            format!("a={secret}%zz"),
            secret.to_owned(),
            format!("Bearer {secret}=="),
        ] {
            let variables = [("OTEL_EXPORTER_OTLP_HEADERS", variable.as_str())];
            let error = format!(
                "{:#}",
                of("telemetry.export = true", &variables).unwrap_err()
            );
            assert!(
                error.contains("OTEL_EXPORTER_OTLP_HEADERS") && !error.contains(secret),
                "{error}"
            );
        }
        let read = of(
            &format!("[telemetry]\nexport = true\nheaders = {{ a = \"{secret}\" }}"),
            &[],
        )
        .unwrap();
        assert!(!format!("{read:?}").contains(secret), "{read:?}");
    }

    #[test]
    fn headers_are_sent_in_clear_to_this_machine_alone() {
        let headers = [("OTEL_EXPORTER_OTLP_HEADERS", "authorization=s3cret-value")];
        let endpoint = |url: &str| format!("[telemetry]\nexport = true\nendpoint = \"{url}\"\n");
        for url in [
            "https://c.example",
            "http://localhost:4318",
            "http://127.0.0.1:1",
            "http://[::1]:1",
            "http://LOCALHOST",
        ] {
            assert!(of(&endpoint(url), &headers).is_ok(), "{url}");
        }
        for url in [
            "http://c.example",
            "http://10.0.0.1:4318",
            "http://localhost.example",
            "http://[::2]",
            "http://127.0.0.1.example",
        ] {
            let written = format!("{}headers = {{ a = \"s3cret-value\" }}", endpoint(url));
            for refused in [of(&endpoint(url), &headers), of(&written, &[])] {
                let error = format!("{:#}", refused.unwrap_err());
                assert!(
                    error.contains("cannot send headers") && !error.contains("s3cret"),
                    "{url}: {error}"
                );
            }
            assert!(of(&endpoint(url), &[]).is_ok(), "without headers: {url}");
            let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", url), headers[0]];
            assert!(of("telemetry.export = true", &variables).is_err(), "{url}");
        }
    }

    #[test]
    fn a_value_in_percent_encoding_is_read() {
        let headers =
            SecretHeaders::of_variable("authorization=Bearer%20abc, x-team = a=b").unwrap();
        let values: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .collect();
        assert_eq!(values, [("authorization", "Bearer abc"), ("x-team", "a=b")]);
    }

    #[test]
    fn the_file_of_a_project_says_nothing_of_it() {
        let file = ConfigFile::parse("telemetry.export = true", Path::new("/project")).unwrap();
        let mut known = TelemetrySettings::default();
        assert!(read(&mut known, RuleSource::ProjectSettings, &file).is_err());
        assert_eq!(known.collector, None);
        read(&mut known, RuleSource::UserSettings, &file).unwrap();
        assert!(known.collector.is_some());
    }
}
