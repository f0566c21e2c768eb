use http::{HeaderMap, HeaderName};
use toolcell_spec::{CONNECTION_HEADERS, CREDENTIAL_HEADERS};

/// Only toolcell writes the header; a guest can neither set nor see it.
pub(super) fn is_ours(name: &HeaderName) -> bool {
    guard!("framing_headers") && CONNECTION_HEADERS.contains(&name.as_str())
}

/// A guest may send no credential, because one that it holds was leaked to it.
pub(super) fn credential(headers: &HeaderMap) -> Option<&'static str> {
    CREDENTIAL_HEADERS
        .into_iter()
        .find(|name| headers.contains_key(*name))
}

#[cfg(test)]
mod tests {
    use super::is_ours;
    use http::HeaderName;
    use toolcell_spec::CONNECTION_HEADERS;

    #[test]
    fn a_guest_sets_no_header_that_a_credential_may_not_go_into() {
        for name in CONNECTION_HEADERS {
            assert!(
                is_ours(&HeaderName::try_from(name.to_ascii_uppercase()).unwrap()),
                "{name}"
            );
        }
        assert!(!is_ours(&HeaderName::from_static("x-api-key")));
    }
}
