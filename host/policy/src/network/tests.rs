use super::*;
use toolcell_spec::WriteEffect;

fn profile(scope: &str, effects: &[WriteEffect]) -> PermissionProfile {
    PermissionProfile {
        access_kinds: vec![AccessKind::Network],
        write_effects: effects.to_vec(),
        network_scope: Some(scope.to_owned()),
        ..PermissionProfile::none("t")
    }
}

fn grants(allow: &[&str], deny: &[&str]) -> NetworkGrants {
    let mut grants = NetworkGrants::default();
    let source = RuleSource::CliArg;
    let allow = allow
        .iter()
        .map(|spec| NetworkRule::allow(spec, spec, source).unwrap());
    grants.allow.extend(allow);
    let deny = deny
        .iter()
        .map(|spec| NetworkRule::deny(spec, spec, source).unwrap());
    grants.deny.extend(deny);
    grants
}

fn reading(scope: &str, allow: &[&str], deny: &[&str]) -> Network {
    Network::effective(
        &profile(scope, &[WriteEffect::None]),
        &grants(allow, deny),
        &[],
        &[],
    )
}

fn origin_of(url: &str) -> Option<Origin> {
    Origin::of_url(&url::Url::parse(url).unwrap())
}

fn decided(network: &Network, origin: &str, address: &str) -> Result<(), &'static str> {
    let origin = origin_of(origin).unwrap();
    let request = NetworkRequest {
        origin: &origin,
        method: "GET",
        path: "/",
    };
    let checked = network
        .check(&request)
        .and_then(|()| network.check_address(&request, address.parse().unwrap(), false));
    checked.map_err(|error| error.code.as_str())
}

#[test]
fn only_what_is_declared_and_granted_remains() {
    let allowed = |network: Network| {
        network
            .allowed()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let network = reading(
        "https://*.ex.test, http://127.0.0.1:80",
        &["https://*:*", "other.test"],
        &[],
    );
    assert_eq!(allowed(network), ["GET+HEAD+OPTIONS@https://*.ex.test:443"],);
    assert!(reading("none", &["ex.test"], &[]).is_empty() && reading("any", &[], &[]).is_empty());
    assert!(reading("ftp://x", &["ex.test"], &[]).is_empty());
    let mutating = profile("any", &[WriteEffect::RemoteMutation]);
    let network = Network::effective(&mutating, &grants(&["POST@ex.test"], &[]), &[], &[]);
    assert_eq!(allowed(network), ["POST@https://ex.test:443"]);
    assert!(reading("any", &["POST@ex.test"], &[]).is_empty());
    // A scope alone declares nothing.
    let silent = PermissionProfile {
        access_kinds: Vec::new(),
        ..mutating
    };
    assert!(Network::effective(&silent, &grants(&["ex.test"], &[]), &[], &[]).is_empty());
}

#[test]
fn the_arguments_of_a_call_narrow_it() {
    let named: Vec<Origin> = ["https://a.ex.test/x", "http://b.test"]
        .iter()
        .filter_map(|url| origin_of(url))
        .collect();
    let profile = profile("argument", &[WriteEffect::None]);
    let network = Network::effective(
        &profile,
        &grants(&["*.ex.test", "c.test"], &[]),
        &named,
        &[],
    );
    assert_eq!(decided(&network, "https://a.ex.test", "1.1.1.1"), Ok(()));
    for other in ["https://b.ex.test", "https://c.test", "http://b.test"] {
        assert_eq!(decided(&network, other, "1.1.1.1"), Err("not_granted"));
    }
    assert!(Network::effective(&profile, &grants(&["*.ex.test"], &[]), &[], &[]).is_empty());
}

#[test]
fn a_special_address_must_be_granted_as_an_address() {
    let by_name = reading("any", &["http://ex.test", "http://*:*"], &[]);
    assert_eq!(decided(&by_name, "http://ex.test", "93.184.215.14"), Ok(()));
    for address in [
        "127.0.0.1",
        "10.0.0.1",
        "::1",
        "::ffff:1.1.1.1",
        "64:ff9b::a00:1",
        "169.254.169.254",
    ] {
        assert_eq!(
            decided(&by_name, "http://ex.test", address),
            Err("special_address"),
            "{address}"
        );
    }
    assert_eq!(
        decided(&by_name, "http://127.0.0.1", "127.0.0.1"),
        Err("special_address")
    );

    let by_address = reading("any", &["http://ex.test", "http://10.0.0.1"], &[]);
    assert_eq!(decided(&by_address, "http://ex.test", "10.0.0.1"), Ok(()));
    assert_eq!(
        decided(&by_address, "http://ex.test", "10.0.0.2"),
        Err("special_address")
    );
    assert_eq!(
        decided(&by_address, "http://[::ffff:10.0.0.1]", "::ffff:10.0.0.1"),
        Err("not_granted")
    );
}

#[test]
fn a_tool_cannot_name_a_special_address_for_its_operator() {
    let network = reading("http://127.0.0.1:80, http://localhost", &["http://*"], &[]);
    assert_eq!(
        decided(&network, "http://127.0.0.1", "127.0.0.1"),
        Err("special_address")
    );
    assert_eq!(
        decided(&network, "http://localhost", "127.0.0.1"),
        Err("special_address")
    );
}

#[test]
fn localhost_is_this_machine_and_nothing_else() {
    let network = reading("any", &["http://localhost:81"], &[]);
    assert_eq!(
        decided(&network, "http://localhost:81", "127.0.0.1"),
        Ok(())
    );
    assert_eq!(decided(&network, "http://localhost:81", "::1"), Ok(()));
    assert_eq!(
        decided(&network, "http://localhost:81", "10.0.0.1"),
        Err("special_address")
    );
    assert_eq!(
        decided(&network, "http://127.0.0.1:81", "127.0.0.1"),
        Err("not_granted")
    );
    assert_eq!(
        decided(&network, "http://localhost:82", "127.0.0.1"),
        Err("not_granted")
    );
}

#[test]
fn a_denial_wins_by_name_and_by_address() {
    let network = reading(
        "any",
        &["https://*:*", "http://10.0.0.1"],
        &["evil.test", "10.0.0.1", "1.2.3.4"],
    );
    assert_eq!(decided(&network, "https://ex.test", "1.1.1.1"), Ok(()));
    assert_eq!(
        decided(&network, "https://evil.test", "1.1.1.1"),
        Err("denied_by_rule")
    );
    assert_eq!(
        decided(&network, "https://ex.test", "1.2.3.4"),
        Err("denied_by_rule")
    );
    assert_eq!(
        decided(&network, "http://10.0.0.1", "10.0.0.1"),
        Err("denied_by_rule")
    );
    assert!(reading("any", &["ex.test"], &["*"]).check_is_denied());
}

impl Network {
    fn check_is_denied(&self) -> bool {
        let request = NetworkRequest {
            origin: &origin_of("https://ex.test").unwrap(),
            method: "GET",
            path: "/",
        };
        self.check(&request).is_err()
    }
}

#[test]
fn an_address_of_this_machine_is_reached_only_where_it_was_named() {
    let decided = |allow: &str, here: bool| {
        let network = reading("any", &[allow], &[]);
        let origin = origin_of("http://a.test:80").unwrap();
        let request = NetworkRequest {
            origin: &origin,
            method: "GET",
            path: "/",
        };
        network
            .check_address(&request, "93.184.215.14".parse().unwrap(), here)
            .map_err(|error| error.rule)
    };
    assert_eq!(decided("http://*:*", false), Ok(()));
    assert_eq!(
        decided("http://*:*", true),
        Err("this machine's own address".to_owned())
    );
    assert_eq!(decided("http://93.184.215.14:80", true), Ok(()));
}

#[test]
fn a_network_within_another_has_what_both_have_and_is_closed_where_either_is() {
    let within = |own: &[&str], most: &[&str], denied: &[&str]| {
        let mut own = reading("any", own, &[]);
        own.limit(&reading("any", most, denied));
        own
    };
    let both = within(
        &["*.ex.test", "c.test"],
        &["a.ex.test", "b.ex.test/docs", "d.test"],
        &["b.ex.test"],
    );
    assert_eq!(decided(&both, "https://a.ex.test", "1.1.1.1"), Ok(()));
    assert_eq!(
        decided(&both, "https://b.ex.test", "1.1.1.1"),
        Err("denied_by_rule")
    );
    for other in ["https://c.test", "https://d.test", "https://e.ex.test"] {
        assert_eq!(
            decided(&both, other, "1.1.1.1"),
            Err("not_granted"),
            "{other}"
        );
    }
    assert!(
        within(&["a.test"], &["b.test"], &[]).is_empty()
            && within(&["a.test"], &[], &[]).is_empty()
    );
    let local = "http://127.0.0.1:80";
    assert_eq!(
        decided(&within(&[local], &[local], &[]), local, "127.0.0.1"),
        Ok(())
    );
    // The address was not written out for the caller.
    let unnamed = within(&[local], &["http://*:80"], &[]);
    assert_eq!(
        decided(&unnamed, local, "127.0.0.1"),
        Err("special_address")
    );
}
