use std::fmt;

use anyhow::Context;

use super::HostName;

/// One set of reasons for grants, secrets, and requests of guests and to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginError {
    Scheme,
    NoHost,
    /// User information can be mistaken for a host.
    User,
    /// Two programs could read the spelling differently.
    Host,
    Port,
    Path,
}

impl OriginError {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheme => "neither https nor http",
            Self::NoHost => "there is no host",
            Self::User => "a user name before the host",
            Self::Host => "the host is not in its one canonical form",
            Self::Port => "the port is not 1 to 65535",
            Self::Path => "there is a path after the host",
        }
    }
}

impl fmt::Display for OriginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for OriginError {}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Authority {
    pub host: HostName,
    pub port: Option<u16>,
}

impl Authority {
    /// Fails for a user name, and for what [`HostName::parse`] rejects.
    pub fn parse(text: &str) -> Result<Self, OriginError> {
        let (host, port) = host_and_port(text)?;
        let host = HostName::parse(host).ok_or(OriginError::Host)?;
        Ok(Self {
            host,
            port: port.map(self::port).transpose()?,
        })
    }
}

/// `[SCHEME://]AUTHORITY[/PATH]`, not yet interpreted.
pub(crate) struct SplitUrl<'a> {
    pub(crate) scheme: Option<&'a str>,
    pub(crate) authority: &'a str,
    pub(crate) path: &'a str,
}

impl<'a> SplitUrl<'a> {
    pub(crate) fn parse(text: &'a str) -> Self {
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (Some(scheme), rest),
            None => (None, text),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        Self {
            scheme,
            authority,
            path,
        }
    }
}

/// Colons in brackets belong to the host.
pub(crate) fn host_and_port(authority: &str) -> Result<(&str, Option<&str>), OriginError> {
    if authority.contains('@') {
        return Err(OriginError::User);
    }
    let end = if authority.starts_with('[') {
        authority.find(']').map_or(0, |end| end + 1)
    } else {
        0
    };
    Ok(match authority.get(end..).unwrap_or_default().find(':') {
        Some(colon) => {
            let (host, port) = authority.split_at(end + colon);
            (host, port.strip_prefix(':'))
        }
        None => (authority, None),
    })
}

/// `None` for `*`, every port.
pub(crate) fn port_pattern(text: &str) -> anyhow::Result<Option<u16>> {
    match text {
        "*" => Ok(None),
        text => port(text)
            .map(Some)
            .with_context(|| format!("`{text}` is not a port; `*` means every port")),
    }
}

/// Digits only, because some servers would accept a sign or a space.
fn port(text: &str) -> Result<u16, OriginError> {
    let digits = (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    digits
        .then(|| text.parse::<u16>().ok())
        .flatten()
        .filter(|port| *port != 0)
        .ok_or(OriginError::Port)
}

#[cfg(test)]
mod tests {
    use super::{Authority, OriginError, port_pattern};

    #[test]
    fn an_authority_is_a_host_and_perhaps_a_port() {
        let of =
            |text: &str| Authority::parse(text).map(|found| (found.host.to_string(), found.port));
        for (text, host, port) in [
            ("API.ex.test.", "api.ex.test", None),
            ("ex.test:8443", "ex.test", Some(8443)),
            ("[0:0::1]", "[::1]", None),
            ("[::1]:81", "[::1]", Some(81)),
        ] {
            assert_eq!(of(text), Ok((host.to_owned(), port)), "{text}");
        }
        for (text, why) in [
            ("user@ex.test", OriginError::User),
            ("ex.test:80@evil.test", OriginError::User),
            ("", OriginError::Host),
            (":80", OriginError::Host),
            ("::1", OriginError::Host),
            ("[::1", OriginError::Host),
            ("[::1]x:80", OriginError::Host),
            ("127.1", OriginError::Host),
            ("ex.test/", OriginError::Host),
            ("ex.test:", OriginError::Port),
            ("ex.test:0", OriginError::Port),
            ("ex.test:+80", OriginError::Port),
            ("ex.test:65536", OriginError::Port),
            ("ex.test:80:80", OriginError::Port),
        ] {
            assert_eq!(of(text), Err(why), "{text}");
        }
    }

    #[test]
    fn a_star_is_every_port_and_an_error_names_what_is_none() {
        assert_eq!(
            (port_pattern("*").unwrap(), port_pattern("81").unwrap()),
            (None, Some(81))
        );
        let error = format!("{:#}", port_pattern("http").unwrap_err());
        assert!(
            error.contains("`http`") && error.contains(OriginError::Port.as_str()),
            "{error}"
        );
    }
}
