use std::time::Duration;

/// What clients of one server may hold, and for how long. A server overrides what it needs: `Limits {
/// connections_max: 64, ..Limits::default() }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time.
    pub connections_max: usize,
    /// How many of them may be unauthenticated. A server that authenticates no connection sets it to
    /// [`Limits::connections_max`].
    pub unauthenticated_max: usize,
    /// The time for a TLS handshake.
    pub handshake: Duration,
    /// The time for which a connection may have no request in flight.
    pub idle: Duration,
    /// The time for the whole body of a request, from the arrival of its head.
    pub body: Duration,
    /// The time for which a client may leave sent data unread or unacknowledged. Only Linux enforces it.
    pub stall: Duration,
    /// The time for requests in flight when the server stops.
    pub drain: Duration,
    /// Requests at a time on one HTTP/2 connection.
    pub streams_max: u32,
    /// Bytes that a client may send on one HTTP/2 stream before the service reads them.
    pub stream_window: u32,
    /// Bytes that a client may send on all streams of one HTTP/2 connection before the service reads them.
    pub connection_window: u32,
}

impl Limits {
    /// Limits for a server of a few clients that authenticates no connection.
    pub const DEFAULT: Self = Self {
        connections_max: 256,
        unauthenticated_max: 256,
        // A handshake takes milliseconds; a client that takes this long will not finish.
        handshake: Duration::from_secs(10),
        // Clients in Go close an idle connection after 90 s (kubernetes, staging/src/k8s.io/apimachinery/pkg/util/net/
        // http.go, `SetTransportDefaults`). The client has to be the first to close: a request that crosses the server's
        // close is lost.
        idle: Duration::from_secs(120),
        // As long as kube-apiserver gives a whole request (`--request-timeout`).
        body: Duration::from_secs(60),
        stall: Duration::from_secs(60),
        drain: Duration::from_secs(10),
        // Go's client assumes as many until it is told otherwise; Go's server allows as many.
        streams_max: 250,
        stream_window: 64 * 1024,
        connection_window: 1024 * 1024,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
