//! What this machine says of names: `/etc/resolv.conf` and `/etc/hosts`.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use super::ask::Patience;
use crate::sandbox::file_state::FileState;

const RESOLV_CONF: &str = "/etc/resolv.conf";
const HOSTS: &str = "/etc/hosts";
/// Larger files are cut: lists of hosts that block advertisements have a few megabytes.
const FILE_BYTES_MAX: u64 = 16 << 20;
const DNS_PORT: u16 = 53;
/// What the C library heeds of each.
const SERVERS_MAX: usize = 3;
const SEARCH_MAX: usize = 6;
const NDOTS_MAX: usize = 15;
const SECONDS_MAX: u64 = 30;
const ATTEMPTS_MAX: u32 = 5;

/// What the files said when they were read.
#[derive(Debug)]
pub(super) struct System {
    states: [Option<FileState>; 2],
    pub(super) servers: Vec<SocketAddr>,
    search: Vec<String>,
    ndots: usize,
    pub(super) patience: Patience,
    pub(super) hosts: HashMap<String, Vec<IpAddr>>,
}

impl System {
    /// What the files say now; `before`, if they did not change since.
    pub(super) fn read(before: Option<Arc<Self>>) -> Arc<Self> {
        let states = [RESOLV_CONF, HOSTS].map(|file| FileState::of(&File::open(file).ok()?));
        match before.filter(|before| before.states == states) {
            Some(before) => before,
            None => Arc::new(Self { states, ..Self::parse(&text(RESOLV_CONF), &text(HOSTS)) }),
        }
    }

    fn parse(resolv_conf: &str, hosts: &str) -> Self {
        let mut system = Self {
            states: [None, None],
            servers: Vec::new(),
            search: Vec::new(),
            ndots: 1,
            patience: Patience { each: Duration::from_secs(5), attempts: 2 },
            hosts: parse_hosts(hosts),
        };
        for line in resolv_conf.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") if system.servers.len() < SERVERS_MAX => {
                    // A scope such as `%eth0` names an interface, which is the kernel's to choose here.
                    let address = words.next().and_then(|word| word.split('%').next()?.parse().ok());
                    system.servers.extend(address.map(|address: IpAddr| SocketAddr::new(address, DNS_PORT)));
                }
                // The last one counts.
                Some("search" | "domain") => {
                    let names = words.map(|word| word.trim_end_matches('.').to_ascii_lowercase());
                    system.search = names.filter(|name| !name.is_empty()).take(SEARCH_MAX).collect();
                }
                Some("options") => words.for_each(|option| system.option(option)),
                _ => {}
            }
        }
        if system.servers.is_empty() {
            // As the C library does where none is named.
            system.servers.push(SocketAddr::from(([127, 0, 0, 1], DNS_PORT)));
        }
        system
    }

    fn option(&mut self, option: &str) {
        let Some((name, value)) = option.split_once(':') else { return };
        let Ok(value) = value.parse::<u32>() else { return };
        match name {
            "ndots" => self.ndots = usize::try_from(value).unwrap_or(NDOTS_MAX).min(NDOTS_MAX),
            "timeout" => self.patience.each = Duration::from_secs(u64::from(value).clamp(1, SECONDS_MAX)),
            "attempts" => self.patience.attempts = value.clamp(1, ATTEMPTS_MAX),
            _ => {}
        }
    }

    /// The names to ask for, one after the other: with the search list before or after the name as it is.
    pub(super) fn candidates(&self, name: &str) -> Vec<String> {
        let searched = self.search.iter().map(|domain| format!("{name}.{domain}"));
        let as_it_is = std::iter::once(name.to_owned());
        if name.matches('.').count() >= self.ndots {
            as_it_is.chain(searched).collect()
        } else {
            searched.chain(as_it_is).collect()
        }
    }
}

fn parse_hosts(text: &str) -> HashMap<String, Vec<IpAddr>> {
    let mut hosts: HashMap<String, Vec<IpAddr>> = HashMap::new();
    for line in text.lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(address) = words.next().and_then(|word| word.parse().ok()) else { continue };
        for name in words {
            hosts.entry(name.trim_end_matches('.').to_ascii_lowercase()).or_default().push(address);
        }
    }
    hosts
}

fn text(file: &str) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(file) {
        let _ = file.take(FILE_BYTES_MAX).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_read_as_the_c_library_reads_them() {
        let conf = "# by hand\nnameserver 10.0.0.1\nnameserver fe80::1%eth0\nnameserver nonsense\nsearch Old.example\n\
                    search corp.example. lab.example\noptions ndots:2 timeout:1 attempts:9 rotate\n";
        let hosts = "127.0.0.1 localhost\n10.1.1.1 Build.example build # here\n::2 build.example\nnonsense x\n";
        let system = System::parse(conf, hosts);
        assert_eq!(system.servers, ["10.0.0.1:53".parse().unwrap(), "[fe80::1]:53".parse().unwrap()]);
        assert_eq!((system.patience.each, system.patience.attempts), (Duration::from_secs(1), 5));
        assert_eq!(system.candidates("api"), ["api.corp.example", "api.lab.example", "api"]);
        assert_eq!(system.candidates("a.b.c")[0], "a.b.c");
        assert_eq!(system.hosts["build.example"].len(), 2);
        assert_eq!(System::parse("", "").servers, ["127.0.0.1:53".parse().unwrap()]);
    }
}
