//! A check that should see nothing, and looks for everything.

use std::net::{TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};

use fixture::{Attempts, Input};
use wasip2::filesystem::preopens;
use wasip2::http::outgoing_handler;
use wasip2::http::types::{Fields, OutgoingRequest, Scheme};

use crate::toolcell::tool::{artifacts, log};
use crate::{ErrorClass, ToolError, error};

static CHECKS: AtomicU64 = AtomicU64::new(0);

pub(crate) fn count_check() {
    CHECKS.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn checks_seen() -> u64 {
    CHECKS.load(Ordering::Relaxed)
}

/// Fails with the attempts that succeeded, one `attempt target` per line of the detail. In an empty world none does.
pub(crate) fn look_around(input: &Input) -> Result<(), ToolError> {
    let marker = input.text_or("marker", "/ws/marker");
    let file = input.text_or("file", "/ws/secret");
    let address = input.text_or("address", "127.0.0.1:9");
    let mut attempts = Attempts::default();
    attempts.record(
        "write",
        marker,
        std::fs::write(marker, "a check was here").map(|()| String::new()),
    );
    attempts.record("read", file, std::fs::read_to_string(file));
    attempts.record(
        "tcp",
        address,
        TcpStream::connect(address).map(|_| String::new()),
    );
    attempts.record(
        "udp",
        address,
        UdpSocket::bind("0.0.0.0:0")
            .and_then(|socket| socket.send_to(b"check", address))
            .map(|sent| sent.to_string()),
    );
    let found = |count: usize, what: String| match count {
        0 => Err("nothing there"),
        _ => Ok(what),
    };
    let names: Vec<_> = std::env::vars().map(|(name, _)| name).collect();
    attempts.record(
        "environment",
        "variables",
        found(names.len(), names.join(" ")),
    );
    let arguments = std::env::args().collect::<Vec<_>>();
    attempts.record(
        "environment",
        "arguments",
        found(arguments.len(), arguments.join(" ")),
    );
    let folders = preopens::get_directories();
    let paths: Vec<_> = folders.iter().map(|(_, path)| path.as_str()).collect();
    attempts.record("preopens", "folders", found(paths.len(), paths.join(" ")));
    let created = artifacts::create("a", "text/plain").map(|_| String::new());
    attempts.record(
        "artifact",
        "a",
        created.map_err(|_| "not outside of a call"),
    );
    if attempts.succeeded().is_empty() {
        return Ok(());
    }
    Err(ToolError {
        detail: Some(attempts.succeeded().join("\n")),
        ..error(
            ErrorClass::ExecutionFailed,
            "world_not_empty",
            &format!(
                "Worked, and should not: {}",
                attempts.succeeded().join(", ")
            ),
        )
    })
}

/// Fails if the request leaves the check.
pub(crate) fn send(input: &Input) -> Result<(), ToolError> {
    log::log(log::Level::Info, "a check looks around", None);
    let request = OutgoingRequest::new(Fields::new());
    let told = request.set_scheme(Some(&Scheme::Http));
    told.and(request.set_authority(Some(input.text("address"))))
        .and(request.set_path_with_query(Some("/")))
        .map_err(|()| sent("the request could not be made"))?;
    match outgoing_handler::handle(request, None) {
        Err(_) => Ok(()),
        Ok(answer) => {
            answer.subscribe().block();
            match answer.get() {
                Some(Ok(Err(_))) => Ok(()),
                other => Err(sent(&format!("{other:?}"))),
            }
        }
    }
}

fn sent(what: &str) -> ToolError {
    error(ErrorClass::ExecutionFailed, "sent", what)
}
