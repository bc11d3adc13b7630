use std::{
    fmt::Write as _,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::{RawQuery, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use nephele_controller::Readiness;
use parking_lot::Mutex;
use tokio::runtime::Handle;

/// How long the threads of the other tasks may not come to run one more. A probe only asks whether the process is stuck
/// for good: being busy is no reason to restart it.
const STUCK: Duration = Duration::from_secs(60);

/// `/healthz`: the process answers, and so does `others`, the runtime of all other tasks. `/readyz`: every gate is
/// open, so the caches are filled and the cloud runs. Both give details with `?verbose`, in the format of Kubernetes'
/// components.
pub(crate) fn router(readiness: Readiness, others: Handle) -> Router {
    let echo = Echo {
        others,
        asked: Arc::default(),
    };
    let healthz = get(move || std::future::ready(healthz(&echo, Instant::now())));
    Router::new()
        .route("/healthz", healthz)
        .route("/readyz", get(readyz))
        .with_state(readiness)
}

/// Whether another runtime answers.
#[derive(Clone)]
struct Echo {
    others: Handle,
    /// When it was asked, while it does not answer.
    asked: Arc<Mutex<Option<Instant>>>,
}

fn healthz(echo: &Echo, now: Instant) -> (StatusCode, &'static str) {
    // A task that ends also ends the process, so any answer means that all tasks run.
    let mut asked = echo.asked.lock();
    match *asked {
        Some(since) if now.saturating_duration_since(since) > STUCK => {
            (StatusCode::INTERNAL_SERVER_ERROR, "no task has run for a minute")
        }
        Some(_) => (StatusCode::OK, "ok"),
        None => {
            *asked = Some(now);
            let answer = Arc::clone(&echo.asked);
            echo.others.spawn(async move { *answer.lock() = None });
            (StatusCode::OK, "ok")
        }
    }
}

async fn readyz(State(readiness): State<Readiness>, RawQuery(query): RawQuery) -> Response {
    let verbose = query.is_some_and(|query| {
        query
            .split('&')
            .any(|part| part.split('=').next() == Some("verbose"))
    });
    let (status, body) = report(&readiness.states(), verbose);
    (
        status,
        [(header::CONTENT_TYPE, "text/plain; charset=utf-8")],
        body,
    )
        .into_response()
}

fn report(gates: &[(String, bool)], verbose: bool) -> (StatusCode, String) {
    let ready = gates.iter().all(|(_, open)| *open);
    if ready && !verbose {
        return (StatusCode::OK, "ok".to_owned());
    }
    let mut body = String::new();
    for (name, open) in gates {
        let line = if *open {
            format!("[+]{name} ok")
        } else {
            format!("[-]{name} failed: not ready yet")
        };
        writeln!(body, "{line}").expect("a string takes every text");
    }
    body.push_str(if ready {
        "readyz check passed"
    } else {
        "readyz check failed"
    });
    (
        if ready {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        },
        body,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(cloud: bool) -> [(String, bool); 2] {
        [("cache Cluster".to_owned(), true), ("cloud".to_owned(), cloud)]
    }

    #[tokio::test]
    async fn only_a_runtime_that_does_not_answer_for_a_minute_is_unhealthy() {
        let echo = Echo {
            others: Handle::current(),
            asked: Arc::default(),
        };
        let now = Instant::now();
        let at = |seconds| healthz(&echo, now + Duration::from_secs(seconds)).0.as_u16();
        // The only thread is here, so nothing answers.
        assert_eq!([at(0), at(59), at(60), at(61)], [200, 200, 200, 500]);
        while echo.asked.lock().is_some() {
            tokio::task::yield_now().await;
        }
        assert_eq!([at(61), at(120)], [200, 200]);
    }

    #[test]
    fn ready_is_one_word_unless_asked_for_more() {
        assert_eq!(report(&gates(true), false), (StatusCode::OK, "ok".to_owned()));
        assert_eq!(
            report(&gates(true), true),
            (
                StatusCode::OK,
                "[+]cache Cluster ok\n[+]cloud ok\nreadyz check passed".to_owned()
            )
        );
    }

    #[test]
    fn not_ready_names_what_is_missing() {
        let expected = "[+]cache Cluster ok\n[-]cloud failed: not ready yet\nreadyz check failed";
        assert_eq!(
            report(&gates(false), false),
            (StatusCode::SERVICE_UNAVAILABLE, expected.to_owned())
        );
    }
}
