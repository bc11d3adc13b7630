use std::{collections::VecDeque, io, net::SocketAddr, sync::Arc, time::Duration};

use nephele_budget::{Budget, Grant, Owner};
use nephele_poll_time::timed;
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::{TcpListener, TcpStream},
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{limits::Limits, open_files::explained};

/// The time without traffic after which the kernel probes whether a client still exists. Without probes, clients that
/// disappear without closing would keep their places. Unlike HTTP/2 pings, the kernel's probes cost this process
/// nothing.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// The pause after a failed accept, which most often means that the process has no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The time between two log lines about refused connections, or about failures to accept one.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// How many connections without a place are answered at a time, for each listener: with some 20 KiB for a handshake, a third
/// of a megabyte.
pub const REFUSALS_MAX: usize = 16;

/// How long the answer to a connection without a place may take, with the handshake.
pub const REFUSAL_TIME: Duration = Duration::from_secs(5);

/// Accepts connections until `stop`, and runs `connection` for each as a task. Each connection takes a place of
/// `places`. The place cannot be revoked any more once an authenticated connection has pinned it. A connection whose
/// place is revoked ends at once. For a connection that gets no place `refuse` runs; of more than [`REFUSALS_MAX`], the
/// oldest ends, so that clients that do not read their answer hold up no other one.
pub async fn accept<F, R, G, Q>(
    listener: &TcpListener,
    places: &Budget,
    limits: &Limits,
    tasks: &TaskTracker,
    stop: &CancellationToken,
    connection: F,
    refuse: G,
) where
    F: Fn(TcpStream, SocketAddr, Arc<Grant>) -> R,
    R: Future<Output = ()> + Send + 'static,
    G: Fn(TcpStream, SocketAddr) -> Q,
    Q: Future<Output = ()> + Send + 'static,
{
    // A refusal that is over has cancelled its token itself.
    let mut refusing = VecDeque::<CancellationToken>::new();
    let mut refusals = Refusals::default();
    let mut failures = Failures::default();
    loop {
        let (stream, peer) = match stop.run_until_cancelled(listener.accept()).await {
            None => return,
            Some(Ok(accepted)) => accepted,
            Some(Err(error)) => {
                // The client may be gone already, or the process may have no file descriptors left. The next attempt
                // may succeed.
                failures.count(error);
                if stop.run_until_cancelled(sleep(ACCEPT_PAUSE)).await.is_none() {
                    return;
                }
                continue;
            }
        };
        let Some(place) = places
            .share(Owner::peer(peer.ip()), usize::MAX)
            .take(1)
            .map(Arc::new)
        else {
            refusals.count(limits.connections_max);
            refusing.retain(|refusal| !refusal.is_cancelled());
            if refusing.len() >= REFUSALS_MAX
                && let Some(oldest) = refusing.pop_front()
            {
                oldest.cancel();
            }
            set_options(&stream, limits);
            let answer = Box::pin(timeout(REFUSAL_TIME, refuse(stream, peer)));
            let over = stop.child_token();
            refusing.push_back(over.clone());
            tasks.spawn(timed("refusal", async move {
                let _ = over.run_until_cancelled(answer).await;
                over.cancel();
            }));
            continue;
        };
        set_options(&stream, limits);
        // Without the box the task would take the future's size twice, for as long as the connection lives.
        let serving = Box::pin(connection(stream, peer, Arc::clone(&place)));
        tasks.spawn(timed("connection", async move {
            tokio::select! {
                () = serving => {}
                () = place.revoked() => tracing::debug!(%peer, "Ended a connection to make room for another"),
            }
        }));
    }
}

/// Each option may fail on a closed socket, which the first read reports.
fn set_options(stream: &TcpStream, limits: &Limits) {
    // Responses are short, so waiting for more data to send only delays them.
    let _ = stream.set_nodelay(true);
    let socket = SockRef::from(stream);
    let _ = socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE));
    // The kernel counts both the time that data stays unacknowledged and the time that the receiver's window stays
    // closed (tcp(7), `TCP_USER_TIMEOUT`).
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = socket.set_tcp_user_timeout(Some(limits.stall));
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = limits.stall;
}

/// Failures to accept a connection that were not yet logged. While the process has too many open files there is one at
/// each attempt of each listener, so they share log lines.
#[derive(Default)]
struct Failures {
    count: u64,
    logged: Option<Instant>,
}

impl Failures {
    fn count(&mut self, error: io::Error) {
        self.count += 1;
        if self.logged.is_none_or(|at| at.elapsed() >= LOG_INTERVAL) {
            let failed = self.count;
            let error = explained(error);
            tracing::warn!(failed, %error, "Failed to accept connections");
            *self = Self {
                count: 0,
                logged: Some(Instant::now()),
            };
        }
    }
}

/// Connections that were refused and not yet logged. A client can cause thousands of refusals a second, so they share
/// log lines.
#[derive(Default)]
struct Refusals {
    count: u64,
    logged: Option<Instant>,
}

impl Refusals {
    fn count(&mut self, connections_max: usize) {
        self.count += 1;
        if self.logged.is_none_or(|at| at.elapsed() >= LOG_INTERVAL) {
            tracing::warn!(
                refused = self.count,
                connections_max,
                "Refused connections: every place is taken"
            );
            *self = Self {
                count: 0,
                logged: Some(Instant::now()),
            };
        }
    }
}
