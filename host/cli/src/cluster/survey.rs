//! The checks of `toolcell doctor` on the cluster that a configuration names.

use std::time::Duration;

use toolcell::Home;
use toolcell_cluster::{
    ClusterError, ClusterSettings, JetStreamReport, ServerReport, public_key, report,
};
use toolcell_config::ClusterConfig;
use toolcell_toolchain::{PartState, SurveyFinding as Check};

use crate::runtime::Runtime;

/// In which a server says what it is.
const PATIENCE: Duration = Duration::from_secs(5);
/// The oldest one with what is needed.
const VERSION_MIN: (u32, u32) = (2, 11);
/// Of a message: arguments of 256 KiB, and what is around them.
const PAYLOAD_MIN: usize = 1 << 20;
/// Deadlines are times of gateways that workers compare with theirs.
const CLOCK_MILLIS_MAX: i64 = 1_000;

/// Nothing is asked if no server is named.
pub(crate) fn survey(home: &Home, config: Option<&ClusterConfig>) -> anyhow::Result<Vec<Check>> {
    let Some(config) = config.filter(|config| !config.servers.is_empty()) else {
        return Ok(Vec::new());
    };
    let mut checks = vec![key(home, config)];
    let settings = match super::settings(home, config, false) {
        Ok(settings) => settings,
        Err(error) => {
            let fix = "correct [cluster] of toolcell.toml";
            checks.push(Check::missing("cluster", format!("{error:#}"), fix));
            return Ok(checks);
        }
    };
    let answers = Runtime::on_all_processors()?.block_on(answers(&settings));
    for (address, answer) in settings.servers.iter().zip(&answers) {
        checks.push(server(address, answer));
    }
    if let Some(report) = answers.iter().find_map(|answer| answer.as_ref().ok()) {
        checks.extend(jetstream(report, config));
    }
    Ok(checks)
}

/// Each server is asked on its own.
async fn answers(settings: &ClusterSettings) -> Vec<Result<ServerReport, String>> {
    let asked = settings.servers.iter().map(|address| {
        let servers = vec![address.clone()];
        let settings = ClusterSettings {
            servers,
            ..settings.clone()
        };
        tokio::spawn(async move { tokio::time::timeout(PATIENCE, report(&settings)).await })
    });
    // All at once.
    let asked: Vec<_> = asked.collect();
    let mut answers = Vec::new();
    for answer in asked {
        answers.push(match answer.await {
            Ok(Ok(answer)) => answer.map_err(|error| said(&error)),
            _ => Err(format!("no answer in {} s", PATIENCE.as_secs())),
        });
    }
    answers
}

fn said(error: &ClusterError) -> String {
    match error {
        // The check names the server.
        ClusterError::Connect { error, .. } => error.clone(),
        error => error.to_string(),
    }
}

fn server(address: &str, answer: &Result<ServerReport, String>) -> Check {
    let subject = format!("cluster {address}");
    let report = match answer {
        Ok(report) => report,
        Err(error) => {
            let fix = "start it, or correct servers, ca, and credentials or nkey of [cluster]";
            return Check::missing(subject, error.as_str(), fix);
        }
    };
    let kib = report.max_payload >> 10;
    let detail = format!("NATS {}, messages of up to {kib} KiB", report.version);
    let mut numbers = report.version.split(['.', '-']).map(str::parse::<u32>);
    let mut number = || numbers.next().and_then(Result::ok).unwrap_or(0);
    if (number(), number()) < VERSION_MIN {
        let (major, minor) = VERSION_MIN;
        return Check::missing(
            subject,
            detail,
            format!("install NATS {major}.{minor} or later"),
        );
    }
    if report.max_payload < PAYLOAD_MIN {
        let fix = "write max_payload: 1MB into the configuration of the server";
        return Check::missing(subject, detail, fix);
    }
    Check::ready(subject, detail)
}

fn jetstream(report: &ServerReport, config: &ClusterConfig) -> Vec<Check> {
    let found = match &report.jetstream {
        Ok(found) => found,
        Err(error) => {
            let fix = "write jetstream { store_dir: FOLDER } into the configuration of the servers, and allow it to the account";
            return vec![Check::missing("cluster JetStream", error.as_str(), fix)];
        }
    };
    let mib = |bytes: u64| format!("{} MiB", bytes.div_ceil(1 << 20));
    let allowed = found.allowed.map(|bytes| format!(" of {}", mib(bytes)));
    let allowed = allowed.unwrap_or_default();
    let detail = format!("{}{allowed} in use", mib(found.used));
    let servers = report.servers.max(config.servers.len());
    let mut checks = vec![
        Check::ready("cluster JetStream", detail),
        replicas(found, config.replicas, servers),
    ];
    // Each answer took its time; the one that took least says most.
    let clock = found.streams.iter().map(|stream| stream.clock_ahead);
    checks.extend(clock.min_by_key(|ahead| ahead.abs()).map(clock_of));
    checks
}

fn replicas(found: &JetStreamReport, wanted: usize, servers: usize) -> Check {
    let subject = "cluster replicas";
    let warning =
        |detail: String, fix: &str| Check::new(subject, PartState::Warning, detail).fixed_by(fix);
    if wanted > servers {
        let detail = format!("{wanted} are wanted, of {servers} servers");
        return Check::missing(
            subject,
            detail,
            "start more servers, or lower replicas of [cluster]",
        );
    }
    let others = found
        .streams
        .iter()
        .find(|stream| stream.replicas != wanted);
    if let Some(stream) = others {
        let name = &stream.name;
        let replicas = stream.replicas;
        let detail = format!("{name} has {replicas}, and [cluster] says {wanted}");
        let fix = format!(
            "change `num_replicas` of the stream {name} to {wanted} with the `nats` program"
        );
        return warning(detail, &fix);
    }
    if let Some(stream) = found.streams.iter().find(|stream| stream.behind > 0) {
        let detail = format!(
            "{} of {} do not have everything yet",
            stream.behind, stream.name
        );
        return warning(detail, "look at the servers that do not keep up");
    }
    let detail = format!("{wanted} of each value, on {servers} servers");
    if wanted < 3 && servers >= 3 {
        return warning(
            detail,
            "write replicas = 3 into [cluster] of each process, before the first start",
        );
    }
    Check::ready(subject, detail)
}

fn clock_of(ahead: i64) -> Check {
    let subject = "cluster clock";
    let way = if ahead < 0 { "behind" } else { "ahead of" };
    let detail = format!("the servers' is {} ms {way} this one", ahead.abs());
    if ahead.abs() > CLOCK_MILLIS_MAX {
        let fix = "set the clocks of all machines by NTP: a call has its deadline from one and ends by another";
        return Check::new(subject, PartState::Warning, detail).fixed_by(fix);
    }
    Check::ready(subject, detail)
}

fn key(home: &Home, config: &ClusterConfig) -> Check {
    let subject = "cluster key";
    let file = config.key.clone().unwrap_or_else(|| home.cluster_key());
    if config.key.is_none() && !file.exists() {
        let detail = "none yet: a gateway makes its own when it first needs it";
        return Check::new(subject, PartState::Absent, detail).fixed_by("toolcell cluster key");
    }
    let public = super::seed(&file).and_then(|seed| Ok(public_key(&seed)?));
    match public {
        Ok(public) => Check::ready(subject, public),
        Err(error) => {
            let fix = format!("replace {}", file.display());
            Check::missing(subject, format!("{error:#}"), fix)
        }
    }
}
