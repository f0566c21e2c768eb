use std::time::Duration;

/// Limits that can be chosen; fixed ones are constants where they are used.
#[derive(Clone, Debug)]
pub struct HttpLimits {
    /// Concurrent requests of clients that have authenticated, or need no token. Each of several principals has an equal
    /// part, and borrows what the others leave, but for an eighth of all. A request beyond that waits for `place_time` and
    /// is then refused. As many connections as requests may be open or wait are kept without one; beyond that, the longest
    /// idle one of the principal that has most is closed.
    pub requests: u32,
    /// Requests that wait for such a place, shared likewise; one beyond that is refused at once.
    pub waiting: u32,
    /// Concurrent connections that have not authenticated, in addition to those. When all are taken, one that
    /// sent no request within 1 s of its first byte, or within 100 ms if many wait, is closed for the next.
    pub strangers: u32,
    /// Wait for a free place of the principal.
    pub place_time: Duration,
    /// A connection may stay silent so long after it is accepted.
    pub first_byte_time: Duration,
    /// Time to send the head of a request, from its first byte on.
    pub head_time: Duration,
    /// Time without a request, longer than that of a proxy in front: who closes first must be the one that sends.
    pub keep_alive: Duration,
    /// Time to send the body of a request; also a call's wait for memory for its arguments.
    pub body_time: Duration,
    /// Time without acknowledging anything that was sent (`TCP_USER_TIMEOUT`, Linux only).
    pub stalled_time: Duration,
    /// Concurrent sessions of one principal; more are refused.
    pub sessions: usize,
    /// Lifetime of a session without an open request.
    pub session_idle: Duration,
    /// Time in which new requests are still taken after the server is told to stop, while `/readyz` answers 503.
    pub drain_delay: Duration,
    /// Time for running calls after that.
    pub drain_time: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            requests: 192,
            waiting: 512,
            strangers: 64,
            place_time: Duration::from_secs(5),
            first_byte_time: Duration::from_secs(2),
            head_time: Duration::from_secs(10),
            keep_alive: Duration::from_secs(75),
            body_time: Duration::from_secs(30),
            stalled_time: Duration::from_secs(60),
            sessions: 64,
            session_idle: Duration::from_secs(600),
            drain_delay: Duration::ZERO,
            drain_time: Duration::from_secs(5),
        }
    }
}
