//! Limits of an extension.

use std::time::Duration;

/// Limits of an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest body of a request, in bytes. Cluster API's own limit is 20 MiB.
    pub body_bytes_max: usize,
    /// The most bytes that the parse of a body may allocate.
    pub parsed_bytes_max: usize,
    /// The most bytes of all calls: their bodies as they arrive, and what is parsed of them. When there is no room, the
    /// call whose body has been silent for longest is answered with 503.
    pub calls_bytes_max: usize,
    /// The most bytes of the calls that come from one address.
    pub peer_bytes_max: usize,
    /// How long a body may take to arrive. A slower body is answered with 408.
    pub body_time_max: Duration,
    /// The most connections at a time. Beyond that, a new connection replaces the least recently used one.
    pub connections_max: usize,
}

impl Limits {
    /// 20 MiB for a body, 64 MiB for what is parsed of it, 96 MiB for the calls from an address, 160 MiB for all calls, 10 s
    /// for a body to arrive, and 1024 connections. Cluster API needs only a few connections.
    pub const DEFAULT: Self = Self {
        body_bytes_max: 20 << 20,
        parsed_bytes_max: 64 << 20,
        calls_bytes_max: 160 << 20,
        peer_bytes_max: 96 << 20,
        body_time_max: Duration::from_secs(10),
        connections_max: 1024,
    };
}

impl Default for Limits {
    /// [`Limits::DEFAULT`].
    fn default() -> Self {
        Self::DEFAULT
    }
}
