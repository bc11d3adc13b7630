use std::time::Duration;

/// Limits on the resources that clients of one server may hold, and for how long. A server overrides single limits:
/// `Limits { connections_max: 64, ..Limits::default() }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most connections at a time.
    pub connections_max: usize,
    /// The most unauthenticated connections at a time. A server that authenticates no connection sets it to
    /// [`Limits::connections_max`].
    pub unauthenticated_max: usize,
    /// The time for a TLS handshake.
    pub handshake: Duration,
    /// How long a connection may have no request in flight.
    pub idle: Duration,
    /// The time for the whole body of a request, from the arrival of its head.
    pub body: Duration,
    /// How long a client may leave sent data unread or unacknowledged, on the connection (which only Linux enforces) or in
    /// a stream.
    pub stall: Duration,
    /// The bytes of responses that may wait to be written, on all connections. One counts as at most half of them.
    pub responses_bytes_max: usize,
    /// How long requests in flight may take to end when the server stops.
    pub drain: Duration,
    /// The most requests at a time on one HTTP/2 connection.
    pub streams_max: u32,
    /// The bytes that a client may send on one HTTP/2 stream before the service reads them.
    pub stream_window: u32,
    /// The bytes that a client may send on all streams of one HTTP/2 connection before the service reads them.
    pub connection_window: u32,
}

impl Limits {
    /// Limits for a server of a few clients that authenticates no connection.
    pub const DEFAULT: Self = Self {
        connections_max: 256,
        unauthenticated_max: 256,
        // A handshake takes milliseconds; a client that takes this long will not finish.
        handshake: Duration::from_secs(10),
        // Go clients close an idle connection after 90 s (kubernetes,
        // staging/src/k8s.io/apimachinery/pkg/util/net/http.go, `SetTransportDefaults`). The client has to close first:
        // a request that is sent while the server closes the connection is lost.
        idle: Duration::from_secs(120),
        // The default of kube-apiserver for a whole request (`--request-timeout`).
        body: Duration::from_secs(60),
        stall: Duration::from_secs(60),
        responses_bytes_max: 32 * 1024 * 1024,
        drain: Duration::from_secs(10),
        // The number that Go's server allows, and that Go's client assumes until it gets the server's settings.
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
