//! `toolcell serve --check`: what a deployment asks before it replaces a server.

use toolcell::Home;
use toolcell_toolchain::SurveyFinding as Check;

use super::listening::{ListenPlace, PassedSocket, listen_at, listen_in};
use super::{Serve, TokenSource};
use crate::command::doctor;
use crate::exit::{Exit, Stop};
use crate::runtime::Runtime;

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

fn wrong(subject: &str, detail: String) -> Check {
    Check::missing(subject, detail, "correct what the message names")
}
