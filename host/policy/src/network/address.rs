use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A block of IANA's special-purpose registries: first address, prefix bits, purpose.
type Ipv4Block = (Ipv4Addr, u32, &'static str);
type Ipv6Block = ([u16; 8], u32, &'static str);

/// Clouds serve it with credentials to each program on a machine.
const METADATA: &str = "cloud metadata";

/// Cloud metadata, which may lie in another block, blocks that are not globally reachable, and multicast. The first
/// match counts.
const SPECIAL_4: [Ipv4Block; 22] = [
    (Ipv4Addr::new(100, 100, 100, 200), 32, METADATA),
    (Ipv4Addr::new(168, 63, 129, 16), 32, METADATA),
    (Ipv4Addr::new(169, 254, 169, 254), 32, METADATA),
    (Ipv4Addr::new(169, 254, 170, 2), 32, METADATA),
    (Ipv4Addr::new(169, 254, 170, 23), 32, METADATA),
    (Ipv4Addr::new(192, 0, 0, 192), 32, METADATA),
    (Ipv4Addr::new(0, 0, 0, 0), 8, "this network"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "private"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "shared"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "loopback"),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "link-local"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "private"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "protocol assignments"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "documentation"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "6to4 relay"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "private"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "benchmarking"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "documentation"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "documentation"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "multicast"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "reserved"),
    (Ipv4Addr::new(255, 255, 255, 255), 32, "broadcast"),
];

/// Cloud metadata and special-purpose blocks. The first match counts; outside of them, only global unicast (`2000::/3`)
/// is public.
const SPECIAL_6: [Ipv6Block; 18] = [
    ([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23], 128, METADATA),
    ([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128, METADATA),
    ([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128, METADATA),
    ([0, 0, 0, 0, 0, 0, 0, 0], 128, "unspecified"),
    ([0, 0, 0, 0, 0, 0, 0, 1], 128, "loopback"),
    ([0, 0, 0, 0, 0, 0xffff, 0, 0], 96, "IPv4-mapped"),
    ([0, 0, 0, 0, 0, 0, 0, 0], 96, "IPv4-compatible"),
    ([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, "local translation"),
    ([0x100, 0, 0, 0, 0, 0, 0, 0], 64, "discard"),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, "Teredo"),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, "protocol assignments"),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, "documentation"),
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, "6to4"),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, "documentation"),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, "private"),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, "link-local"),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, "site-local"),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, "multicast"),
];

/// NAT64 prefix for IPv4 hosts in a network without IPv4.
const TRANSLATED: Ipv6Block = ([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96, "translated");
const GLOBAL_UNICAST: Ipv6Block = ([0x2000, 0, 0, 0, 0, 0, 0, 0], 3, "global unicast");

/// `None` for an ordinary public address; all others need a grant that names them.
pub fn special(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => special_4(address),
        IpAddr::V6(address) => special_6(address),
    }
}

pub(super) fn is_metadata(address: IpAddr) -> bool {
    special(reached(address)) == Some(METADATA)
}

/// End of a connection: the embedded IPv4 address of an IPv4-mapped or NAT64 address.
pub fn reached(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(inner) if within(inner, TRANSLATED) => translated(inner).into(),
        canonical => canonical,
    }
}

fn special_4(address: Ipv4Addr) -> Option<&'static str> {
    let bits = u32::from(address);
    SPECIAL_4
        .iter()
        .find(|(first, prefix, _)| (bits ^ u32::from(*first)) >> (32 - prefix) == 0)
        .map(|block| block.2)
}

fn special_6(address: Ipv6Addr) -> Option<&'static str> {
    if within(address, TRANSLATED) {
        return special_4(translated(address));
    }
    let block = SPECIAL_6
        .iter()
        .find(|block| within(address, **block))
        .map(|block| block.2);
    block.or((!within(address, GLOBAL_UNICAST)).then_some("unassigned"))
}

fn translated(address: Ipv6Addr) -> Ipv4Addr {
    let [.., a, b, c, d] = address.octets();
    Ipv4Addr::new(a, b, c, d)
}

fn within(address: Ipv6Addr, (first, prefix, _): Ipv6Block) -> bool {
    (u128::from(address) ^ u128::from(Ipv6Addr::from(first))) >> (128 - prefix) == 0
}

#[cfg(test)]
mod tests {
    use super::{is_metadata, special};

    fn special_purpose(address: &str) -> Option<&'static str> {
        special(address.parse().unwrap())
    }

    #[test]
    fn hosts_of_the_internet_are_public() {
        let public = [
            "1.1.1.1",
            "8.8.8.8",
            "93.184.215.14",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
        ];
        let more = [
            "172.32.0.0",
            "192.0.1.0",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00::1",
            "2001:200::1",
        ];
        assert!(
            public
                .iter()
                .chain(&more)
                .all(|address| special_purpose(address).is_none())
        );
        assert_eq!(special_purpose("64:ff9b::808:808"), None);
    }

    #[test]
    fn every_block_of_the_registries_is_special_to_its_last_address() {
        let blocks = [
            ("0.0.0.0", "0.255.255.255"),
            ("10.0.0.0", "10.255.255.255"),
            ("100.64.0.0", "100.127.255.255"),
            ("127.0.0.0", "127.255.255.255"),
            ("168.63.129.16", "168.63.129.16"),
            ("169.254.0.0", "169.254.169.254"),
            ("172.16.0.0", "172.31.255.255"),
            ("192.0.0.0", "192.0.0.255"),
            ("192.0.2.0", "192.0.2.255"),
            ("192.88.99.0", "192.88.99.255"),
            ("192.168.0.0", "192.168.255.255"),
            ("198.18.0.0", "198.19.255.255"),
            ("198.51.100.0", "198.51.100.255"),
            ("203.0.113.0", "203.0.113.255"),
            ("224.0.0.0", "239.255.255.255"),
            ("240.0.0.0", "255.255.255.255"),
            ("::", "::ffff:ffff"),
            ("::1", "::1"),
            ("::ffff:0:0", "::ffff:8.8.8.8"),
            ("64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff"),
            ("100::", "100::ffff:ffff:ffff:ffff"),
            ("2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ];
        for (first, last) in blocks {
            assert!(
                special_purpose(first).is_some() && special_purpose(last).is_some(),
                "{first} to {last}"
            );
        }
    }

    #[test]
    fn a_translated_address_is_judged_by_what_it_leads_to() {
        assert_eq!(special_purpose("64:ff9b::7f00:1"), Some("loopback"));
        assert_eq!(
            special_purpose("64:ff9b::a9fe:a9fe"),
            Some("cloud metadata")
        );
        assert_eq!(special_purpose("2002:7f00:1::"), Some("6to4"));
        assert_eq!(special_purpose("2001:0:7f00:1::"), Some("Teredo"));
        assert_eq!(special_purpose("64:ff9b::a9fe:1"), Some("link-local"));
    }

    #[test]
    fn the_metadata_of_a_cloud_is_known_in_every_form_and_is_no_more_than_that() {
        let metadata = [
            "169.254.169.254",
            "168.63.129.16",
            "100.100.100.200",
            "fd00:ec2::254",
        ];
        let embedded = ["::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe"];
        assert!(
            metadata
                .iter()
                .chain(&embedded)
                .all(|address| is_metadata(address.parse().unwrap()))
        );
        assert!(
            metadata
                .iter()
                .all(|address| special_purpose(address) == Some("cloud metadata"))
        );
        for (beside, purpose) in [
            ("169.254.169.253", "link-local"),
            ("100.100.100.201", "shared"),
            ("fd00::1", "private"),
        ] {
            assert!(
                !is_metadata(beside.parse().unwrap()) && special_purpose(beside) == Some(purpose),
                "{beside}"
            );
        }
    }
}
