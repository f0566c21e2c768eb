use std::time::Duration;

/// How much clients over HTTP may take, and how long. What follows no choice is a constant where it is used.
#[derive(Clone, Debug)]
pub struct HttpLimits {
    /// Connections at once of clients that have shown a token, or need none. Where there are several principals, each has
    /// its share of them, an eighth at the least; a request beyond it waits for `place_time` and is refused then.
    pub connections: u32,
    /// Connections at once that have shown no token yet, beside those. When all are taken, one that was silent for 100 ms,
    /// or sent no request within a second, is closed for the next.
    pub strangers: u32,
    /// How long a request waits until its principal has a connection left.
    pub place_time: Duration,
    /// How long a connection may send nothing at all after it was accepted.
    pub first_byte_time: Duration,
    /// How long a client may take to send the head of a request, also the first one of a connection.
    pub head_time: Duration,
    /// How long it may take to send the body.
    pub body_time: Duration,
    /// How long a client may take nothing of what it was sent, or be gone without a word.
    pub stalled_time: Duration,
    /// Sessions of one principal at once; others are refused.
    pub sessions: usize,
    /// How long a session lasts of which no request is open.
    pub session_idle: Duration,
    /// How long running calls may go on after the server was told to end.
    pub drain_time: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connections: 192,
            strangers: 64,
            place_time: Duration::from_secs(5),
            first_byte_time: Duration::from_secs(2),
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(30),
            stalled_time: Duration::from_secs(60),
            sessions: 64,
            session_idle: Duration::from_secs(600),
            drain_time: Duration::from_secs(5),
        }
    }
}
