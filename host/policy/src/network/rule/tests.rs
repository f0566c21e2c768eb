use super::super::{HostName, NetworkRequest, Origin, Scheme, SplitUrl};
use super::NetworkRule;
use toolcell_spec::RuleSource;

fn covers(rule: &NetworkRule, url: &str, method: &str) -> bool {
    let SplitUrl {
        scheme,
        authority,
        path,
    } = SplitUrl::parse(url);
    let origin = Origin::of_parts(scheme.unwrap(), authority).unwrap();
    let path = if path.is_empty() { "/" } else { path };
    rule.covers(
        &NetworkRequest {
            origin: &origin,
            method,
            path,
        },
        &origin.host,
    )
}

fn allow(spec: &str) -> NetworkRule {
    NetworkRule::allow(spec, spec, RuleSource::CliArg).unwrap()
}

#[test]
fn a_bare_host_means_https_on_its_own_port() {
    for spec in [
        "api.ex.test",
        "api.ex.test:443",
        "https://api.ex.test",
        "https://API.ex.test./",
    ] {
        let rule = allow(spec);
        assert_eq!(rule.to_string(), "https://api.ex.test:443");
        assert!(covers(&rule, "https://api.ex.test/any/path", "DELETE"));
        let others = [
            "http://api.ex.test",
            "https://api.ex.test:444",
            "http://api.ex.test:443",
            "https://ex.test",
        ];
        assert!(
            others.iter().all(|url| !covers(&rule, url, "GET")),
            "{spec}"
        );
    }
}

#[test]
fn hosts_that_only_look_like_the_named_one_are_others() {
    let rule = allow("https://api.ex.test");
    let others = [
        "api.ex.test.evil.test",
        "evilapi.ex.test",
        "a.api.ex.test",
        "xn--pi-7ia.ex.test",
        "apixex.test",
    ];
    assert!(
        others
            .iter()
            .all(|host| !covers(&rule, &format!("https://{host}/"), "GET"))
    );
}

#[test]
fn a_wildcard_covers_what_is_below_and_not_the_name_itself() {
    let rule = allow("*.ex.test");
    assert!(
        covers(&rule, "https://a.ex.test", "GET") && covers(&rule, "https://a.b.ex.test", "GET")
    );
    let others = [
        "https://ex.test",
        "https://evilex.test",
        "https://ex.test.evil.test",
        "https://127.0.0.1",
    ];
    assert!(others.iter().all(|url| !covers(&rule, url, "GET")));
}

#[test]
fn methods_and_paths_narrow() {
    let rule = allow("GET+HEAD@https://ex.test:8443/v1");
    assert_eq!(rule.to_string(), "GET+HEAD@https://ex.test:8443/v1");
    assert!(
        covers(&rule, "https://ex.test:8443/v1", "GET")
            && covers(&rule, "https://ex.test:8443/v1/a", "HEAD")
    );
    assert!(!covers(&rule, "https://ex.test:8443/v1", "POST"));
    let outside = [
        "/v10",
        "/",
        "/v1/../admin",
        "/v1/%2e%2e/admin",
        "/v1/..%2fadmin",
        "/v1/%252e%252e/x",
        "/v1/..;/x",
    ];
    assert!(outside.iter().all(|path| !covers(
        &rule,
        &format!("https://ex.test:8443{path}"),
        "GET"
    )));
}

#[test]
fn a_denial_means_everything_that_it_does_not_say() {
    let rule = NetworkRule::deny("ex.test", "", RuleSource::CliArg).unwrap();
    assert_eq!(rule.to_string(), "*://ex.test:*");
    let path = NetworkRule::deny("ex.test/admin", "", RuleSource::CliArg).unwrap();
    let origin = Origin {
        scheme: Scheme::Http,
        host: HostName::parse("ex.test").unwrap(),
        port: 1,
    };
    let touches = |path_of: &str| {
        path.touches(
            &NetworkRequest {
                origin: &origin,
                method: "GET",
                path: path_of,
            },
            &origin.host,
        )
    };
    assert!(
        touches("/admin/x") && touches("/a/../admin") && touches("/%2fadmin") && !touches("/a")
    );
}

#[test]
fn what_two_rules_share_is_the_narrower_of_each_part() {
    let meet = |a: &str, b: &str| allow(a).meet(&allow(b)).map(|rule| rule.to_string());
    assert_eq!(
        meet("*.ex.test", "api.ex.test"),
        Some("https://api.ex.test:443".to_owned())
    );
    assert_eq!(
        meet("*.ex.test", "*.a.ex.test"),
        Some("https://*.a.ex.test:443".to_owned())
    );
    assert_eq!(
        meet("https://*:*", "ex.test:8443/v1/a"),
        Some("https://ex.test:8443/v1/a".to_owned())
    );
    assert_eq!(
        meet("GET+PUT@ex.test/v1", "POST+PUT@ex.test/v1/b"),
        Some("PUT@https://ex.test:443/v1/b".to_owned())
    );
    for (a, b) in [
        ("ex.test", "http://ex.test"),
        ("GET@ex.test", "PUT@ex.test"),
        ("ex.test/a", "ex.test/b"),
    ] {
        assert_eq!(meet(a, b), None);
    }
}

#[test]
fn a_pattern_that_could_mean_two_things_is_refused() {
    let wrong = [
        "",
        "ftp://ex.test",
        "user@ex.test",
        "https://user@ex.test",
        "ex.test:0",
        "ex.test:99999",
        "ex.test:x",
        "ex.test:+80",
        "127.1",
        "0.0.0.0",
        "[::]",
        "[::ffff:127.0.0.1]",
        "*.127.0.0.1",
        "a*.test",
        "ex.test/a?b",
        "ex.test/%2e",
        "ex.test/../a",
        "GET+@ex.test",
        "@ex.test",
        "https://",
        "http:/ex.test",
        "::1",
    ];
    for spec in wrong {
        assert!(
            NetworkRule::allow(spec, spec, RuleSource::CliArg).is_err(),
            "{spec}"
        );
    }
}
