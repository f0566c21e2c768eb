use std::time::Duration;

/// How much clients over HTTP may take, and how long. What follows no choice is a constant where it is used.
#[derive(Clone, Debug)]
pub struct HttpLimits {
    /// Connections at once; others wait to be accepted.
    pub connections: u32,
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
            connections: 256,
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(30),
            stalled_time: Duration::from_secs(60),
            sessions: 64,
            session_idle: Duration::from_secs(600),
            drain_time: Duration::from_secs(5),
        }
    }
}
