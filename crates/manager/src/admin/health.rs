use std::fmt::Write as _;

use axum::{
    Router,
    extract::{RawQuery, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use nephele_kit::Readiness;

/// `/healthz`: the process answers. `/readyz`: every gate is open, so the caches are filled and the cloud runs.
/// Both give details with `?verbose`, in the format of Kubernetes' components.
pub(crate) fn router(readiness: Readiness) -> Router {
    Router::new().route("/healthz", get(healthz)).route("/readyz", get(readyz)).with_state(readiness)
}

async fn healthz() -> &'static str {
    // A task that ends also ends the process, so any answer means that all tasks run.
    "ok"
}

async fn readyz(State(readiness): State<Readiness>, RawQuery(query): RawQuery) -> Response {
    let verbose =
        query.is_some_and(|query| query.split('&').any(|part| part.split('=').next() == Some("verbose")));
    let (status, body) = report(&readiness.states(), verbose);
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], body).into_response()
}

fn report(gates: &[(String, bool)], verbose: bool) -> (StatusCode, String) {
    let ready = gates.iter().all(|(_, open)| *open);
    if ready && !verbose {
        return (StatusCode::OK, "ok".to_owned());
    }
    let mut body = String::new();
    for (name, open) in gates {
        let line = if *open { format!("[+]{name} ok") } else { format!("[-]{name} failed: not ready yet") };
        writeln!(body, "{line}").expect("a string takes every text");
    }
    body.push_str(if ready { "readyz check passed" } else { "readyz check failed" });
    (if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(cloud: bool) -> [(String, bool); 2] {
        [("cache Cluster".to_owned(), true), ("cloud".to_owned(), cloud)]
    }

    #[test]
    fn ready_is_one_word_unless_asked_for_more() {
        assert_eq!(report(&gates(true), false), (StatusCode::OK, "ok".to_owned()));
        assert_eq!(
            report(&gates(true), true),
            (StatusCode::OK, "[+]cache Cluster ok\n[+]cloud ok\nreadyz check passed".to_owned())
        );
    }

    #[test]
    fn not_ready_names_what_is_missing() {
        let expected = "[+]cache Cluster ok\n[-]cloud failed: not ready yet\nreadyz check failed";
        assert_eq!(report(&gates(false), false), (StatusCode::SERVICE_UNAVAILABLE, expected.to_owned()));
    }
}
