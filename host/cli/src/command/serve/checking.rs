//! `toolcell serve --check`: what a deployment asks before it replaces a server.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use toolcell::Home;
use toolcell_config::ConfigLayers;
use toolcell_toolchain::{PartState, SurveyFinding as Check};

use super::listening::{ListenPlace, PassedSocket, listen_at, listen_in};
use super::{Serve, TokenSource, open_files};
use crate::command::doctor;
use crate::exit::{Exit, Stop};
use crate::runtime::Runtime;

/// Of a server that is asked who it is.
const PROBE_TIME: Duration = Duration::from_secs(2);
const PROBE_BYTES_MAX: u64 = 4 << 10;

impl Serve {
    /// Looks at everything that a start needs, and starts nothing.
    pub(super) fn check(self, passed: Option<PassedSocket>) -> anyhow::Result<Exit> {
        let as_json = self.deployment.json;
        let home = Home::find()?;
        let runtime = Runtime::on_all_processors()?;
        let mut checks = vec![doctor::writable(&home), doctor::journal(&home)];
        checks.push(self.access(passed.as_ref()));
        checks.extend(self.secret());
        checks.extend(self.addresses(passed, &runtime));
        // Faults of the files are told where the tools are loaded.
        if let Ok(settings) = self.serving.options.settings(&home) {
            checks.push(self.open_files(&settings.layers));
            checks.extend(self.issuers(&settings.layers, &runtime));
        }
        checks.push(match self.serving.counted(&runtime) {
            Ok(count) => {
                let plural = if count == 1 { "" } else { "s" };
                Check::ready("tools", format!("{count} tool{plural} can be served"))
            }
            Err(stop) => {
                let detail = match stop {
                    Stop::Refused(refusal) => format!("{} [{}]", refusal.message, refusal.code),
                    Stop::Failed(error) => format!("{error:#}"),
                };
                wrong("tools", detail)
            }
        });
        doctor::report(&checks, as_json)
    }

    fn access(&self, passed: Option<&PassedSocket>) -> Check {
        let tokens = self
            .place(passed)
            .and_then(|place| self.tokens(&place))
            .and_then(|(source, generated)| Ok((source.read()?, source, generated)));
        match tokens {
            Err(error) => wrong("tokens", format!("{error:#}")),
            Ok((tokens, TokenSource { files, .. }, generated)) => {
                let read: Vec<String> = files
                    .iter()
                    .flatten()
                    .map(|file| file.display().to_string())
                    .collect();
                let detail = match (generated, read.as_slice()) {
                    (Some(_), []) => "one is generated at the start".to_owned(),
                    (None, []) => "no token is required".to_owned(),
                    (_, files) => {
                        let callers = tokens.principals().len();
                        format!("{callers} of callers; read from {}", files.join(", "))
                    }
                };
                Check::ready("tokens", detail)
            }
        }
    }

    fn open_files(&self, layers: &ConfigLayers) -> Check {
        match open_files::provide(self.serving.started_with(layers)) {
            None => Check::ready("open files", "as many as the limits need"),
            Some(too_few) => wrong("open files", too_few),
        }
    }

    /// Fetches the keys of each.
    fn issuers(&self, layers: &ConfigLayers, runtime: &Runtime) -> Vec<Check> {
        let Ok(Some(issuers)) = self.serving.issuers(layers) else {
            return Vec::new();
        };
        let probed = runtime.block_on(issuers.probe()).into_iter();
        let check = |(issuer, keys): (String, Result<usize, String>)| {
            let subject = format!("issuer {issuer}");
            match keys {
                Ok(0) => wrong(
                    &subject,
                    "it has no key of an accepted algorithm".to_owned(),
                ),
                Ok(keys) => {
                    let plural = if keys == 1 { "" } else { "s" };
                    Check::ready(
                        subject,
                        format!("{keys} key{plural} that can verify tokens"),
                    )
                }
                Err(why) => wrong(&subject, format!("its keys cannot be fetched: {why}")),
            }
        };
        probed.map(check).collect()
    }

    fn secret(&self) -> Option<Check> {
        let file = self.arcade_secret_file.as_ref()?;
        Some(match self.worker() {
            Ok(_) => Check::ready("secret of the Arcade engine", file.display().to_string()),
            Err(error) => wrong("secret of the Arcade engine", format!("{error:#}")),
        })
    }

    /// Listens for a moment.
    fn addresses(&self, passed: Option<PassedSocket>, runtime: &Runtime) -> Vec<Check> {
        let own = match passed {
            Some(socket) => match socket.place() {
                Ok(place) => Check::ready("address", format!("{place}, passed by systemd")),
                Err(error) => wrong("address", format!("the passed socket has none: {error}")),
            },
            None => free(
                "address",
                &self.listen,
                self.deployment.listen_mode,
                runtime,
            ),
        };
        let metrics = self.deployment.metrics_listen.map(|address| {
            let place = ListenPlace::Address(address);
            free("address of metrics", &place, 0, runtime)
        });
        std::iter::once(own).chain(metrics).collect()
    }
}

fn free(subject: &str, place: &ListenPlace, mode: u32, runtime: &Runtime) -> Check {
    let listening = runtime.block_on(async {
        match place {
            ListenPlace::Address(address) => listen_at(*address).map(drop),
            ListenPlace::File(path) => listen_in(path, mode).map(drop),
        }
    });
    match listening {
        Ok(()) => Check::ready(subject, place.to_string()),
        // The service that is to be replaced, mostly.
        Err(error)
            if error.kind() == io::ErrorKind::AddrInUse && runtime.block_on(is_toolcell(place)) =>
        {
            let detail = format!(
                "{place} is in use by a server of toolcell; one starts there once it has ended"
            );
            Check::new(subject, PartState::Warning, detail)
        }
        Err(error) => {
            let what_to_do = "end the other server, or choose another address";
            Check::missing(
                subject,
                format!("cannot listen at {place}: {error}"),
                what_to_do,
            )
        }
    }
}

/// `true` if the server there answers a probe as this program does.
async fn is_toolcell(place: &ListenPlace) -> bool {
    let asked = async {
        match place {
            ListenPlace::Address(address) => probed(TcpStream::connect(address).await?).await,
            ListenPlace::File(path) => probed(UnixStream::connect(path).await?).await,
        }
    };
    let answer = tokio::time::timeout(PROBE_TIME, asked).await;
    let answer = answer.ok().and_then(Result::ok).unwrap_or_default();
    let answer = answer.to_ascii_lowercase();
    answer.lines().any(|line| line == "server: toolcell")
}

async fn probed(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<String> {
    let probe = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(probe).await?;
    let mut answer = Vec::new();
    let mut bounded = stream.take(PROBE_BYTES_MAX);
    bounded.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn wrong(subject: &str, detail: String) -> Check {
    Check::missing(subject, detail, "correct what the message names")
}
