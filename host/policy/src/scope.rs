use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use toolcell_spec::digest;

use super::Capability;

/// Capability of a session's approval, in a form that can be stored and compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalScope {
    folders: Vec<ScopeFolder>,
    closed: Vec<ClosedPlace>,
    /// Canonical, such as `GET@https://example.com:443/docs`.
    requests: Vec<String>,
    /// Digest of everything else, which must stay unchanged.
    rest: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScopeFolder {
    path: String,
    writable: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClosedPlace {
    prefix: String,
    text: String,
    read: bool,
}

impl ApprovalScope {
    /// `None` for a path that is not UTF-8, which cannot be stored.
    pub fn from_capability(capability: &Capability, limits: &Value) -> Option<Self> {
        let text = |path: &Path| path.to_str().map(str::to_owned);
        let folders = capability.mounts.iter().map(|mount| {
            Some(ScopeFolder {
                path: text(&mount.host)?,
                writable: mount.writable,
            })
        });
        let closed = capability.denials.iter().map(|denial| {
            Some(ClosedPlace {
                prefix: text(denial.what.prefix())?,
                text: denial.what.text().to_owned(),
                read: denial.read,
            })
        });
        let folders = folders.collect::<Option<_>>()?;
        let closed = closed.collect::<Option<_>>()?;
        // What is taken out here is compared in parts; all that stays, and any new field, has to be equal.
        let mut rest = capability.canonical();
        let fields = rest.as_object_mut()?;
        fields.remove("mounts");
        fields.remove("denials");
        let network = fields.get_mut("network")?.as_object_mut()?;
        let requests = serde_json::from_value(network.remove("allow")?).ok()?;
        Some(Self {
            folders,
            closed,
            requests,
            rest: digest(json!([rest, limits]).to_string().as_bytes()),
        })
    }

    /// `true` if `other` permits nothing more: its folders and requests are the same or below, and every denial that
    /// could matter there still holds.
    pub fn covers(&self, other: &Self) -> bool {
        let within = |folder: &ScopeFolder| {
            let below = |own: &&ScopeFolder| Path::new(&folder.path).starts_with(&own.path);
            self.folders
                .iter()
                .filter(below)
                .any(|own| own.writable || !folder.writable)
        };
        let opened = |closed: &&ClosedPlace| {
            !other.closed.contains(closed) && closed.may_meet(&other.folders)
        };
        self.rest == other.rest
            && other.folders.iter().all(within)
            && !self.closed.iter().any(|closed| opened(&closed))
            && other
                .requests
                .iter()
                .all(|request| self.requests.iter().any(|own| is_below(request, own)))
    }
}

impl ClosedPlace {
    fn may_meet(&self, folders: &[ScopeFolder]) -> bool {
        let prefix = Path::new(&self.prefix);
        folders.iter().any(|folder| {
            prefix.starts_with(&folder.path) || Path::new(&folder.path).starts_with(prefix)
        })
    }
}

fn is_below(request: &str, own: &str) -> bool {
    // The word behind a rule permits special-purpose addresses, and follows the path.
    let split = |rule: &str| {
        rule.strip_suffix(" named")
            .map_or((rule.len(), false), |rule| (rule.len(), true))
    };
    let (end, named) = split(request);
    let (own_end, own_named) = split(own);
    let (Some(request), Some(own)) = (request.get(..end), own.get(..own_end)) else {
        return false;
    };
    let below = |rest: &str| rest.is_empty() || own.ends_with('/') || rest.starts_with('/');
    named == own_named && request.strip_prefix(own).is_some_and(below)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use serde_json::{Value, json};

    use super::{ApprovalScope, is_below};
    use crate::{Capability, Denial, Mount, PathPattern};

    fn mount(host: &str, writable: bool) -> Mount {
        Mount {
            host: PathBuf::from(host),
            guest: host.to_owned(),
            writable,
        }
    }

    fn denial(text: &str) -> Denial {
        Denial {
            what: PathPattern::compile(text, Path::new("/no-such-folder")).unwrap(),
            read: true,
            by_host: false,
        }
    }

    fn scope(mounts: &[(&str, bool)], denials: &[&str]) -> ApprovalScope {
        let mounts = mounts
            .iter()
            .map(|(host, writable)| mount(host, *writable))
            .collect();
        let denials = denials.iter().map(|text| denial(text)).collect();
        ApprovalScope::from_capability(
            &Capability {
                mounts,
                denials,
                ..Capability::default()
            },
            &Value::Null,
        )
        .unwrap()
    }

    #[test]
    fn a_folder_covers_what_lies_below_with_no_more_rights() {
        let own = scope(
            &[("/no-such-folder/a", true), ("/no-such-folder/r", false)],
            &[],
        );
        for (host, writable, covered) in [
            ("/no-such-folder/a", true, true),
            ("/no-such-folder/a/b/c", true, true),
            ("/no-such-folder/a/b", false, true),
            ("/no-such-folder/r/b", false, true),
            ("/no-such-folder/r/b", true, false),
            ("/no-such-folder/ab", true, false),
            ("/no-such-folder", true, false),
        ] {
            assert_eq!(
                own.covers(&scope(&[(host, writable)], &[])),
                covered,
                "{host} {writable}"
            );
        }
        let two = [("/no-such-folder/a", true), ("/no-such-folder/b", false)];
        assert!(!own.covers(&scope(&two, &[])) && own.covers(&scope(&[], &[])));
    }

    #[test]
    fn a_denial_inside_still_holds() {
        let own = scope(&[("/no-such-folder/a", true)], &["a/keys", "**/.env"]);
        assert!(
            own.covers(&scope(&[("/no-such-folder/a/b", true)], &["**/.env"])),
            "the keys lie elsewhere"
        );
        assert!(!own.covers(&scope(&[("/no-such-folder/a/b", true)], &[])));
        assert!(!own.covers(&scope(&[("/no-such-folder/a/keys/x", true)], &["**/.env"])));
        assert!(own.covers(&scope(
            &[("/no-such-folder/a", true)],
            &["a/keys", "**/.env", "a/more"]
        )));
    }

    #[test]
    fn everything_else_is_the_same() {
        let own = Capability {
            environment: vec![("A".to_owned(), "1".to_owned())],
            ..Capability::default()
        };
        let of = |capability: &Capability, limits: Value| {
            ApprovalScope::from_capability(capability, &limits).unwrap()
        };
        let other = Capability {
            environment: vec![("A".to_owned(), "2".to_owned())],
            ..Capability::default()
        };
        let covers = |other: ApprovalScope| of(&own, json!(1)).covers(&other);
        assert!(covers(of(&own, json!(1))));
        assert!(!covers(of(&own, json!(2))) && !covers(of(&other, json!(1))));
        assert!(!covers(of(&Capability::default(), json!(1))));
    }

    #[test]
    fn a_url_covers_itself_and_what_is_below() {
        let own = "GET@https://h.example:443/a";
        assert!(is_below(own, own) && is_below("GET@https://h.example:443/a/b", own));
        for other in [
            "GET@https://h.example:443",
            "GET@https://h.example:443/ab",
            "https://h.example:443/a",
            "GET@http://h.example:443/a",
            "GET@https://h.example:443/a named",
        ] {
            assert!(!is_below(other, own), "{other}");
        }
        assert!(is_below("https://h.example:443/x", "https://h.example:443"));
        assert!(!is_below("https://h.example:4430", "https://h.example:443"));
        assert!(is_below(
            "http://127.0.0.1:80/a named",
            "http://127.0.0.1:80 named"
        ));
    }
}
