//! What `nephele up --cluster-api` and the processes beside it use, for `nephele load`: there, no pod has metrics.
//!
//! ```text
//!  GET /processes               names of the processes, as JSON
//!  GET /processes/NAME/metrics  CPU seconds and memory, in the format of Prometheus
//! ```

use std::{collections::BTreeMap, fs, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{Path, State},
    routing::get,
};
use http::StatusCode;

/// The ids of the processes by their names.
type Ids = Arc<BTreeMap<String, u32>>;

/// The routes, for processes that run until this one ends.
pub(crate) fn routes(processes: BTreeMap<String, u32>) -> Router {
    Router::new()
        .route("/processes", get(names))
        .route("/processes/{name}/metrics", get(metrics))
        .with_state(Arc::new(processes))
}

async fn names(State(ids): State<Ids>) -> Json<Vec<String>> {
    Json(ids.keys().cloned().collect())
}

async fn metrics(State(ids): State<Ids>, Path(name): Path<String>) -> Result<String, StatusCode> {
    let id = ids.get(&name).ok_or(StatusCode::NOT_FOUND)?;
    // Only Linux has this file.
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).map_err(|_| StatusCode::NOT_FOUND)?;
    let usage = Usage::read(&stat).ok_or(StatusCode::INTERNAL_SERVER_ERROR)?;
    let milliseconds = usage.ticks.saturating_mul(1000) / rustix::param::clock_ticks_per_second().max(1);
    let seconds = Duration::from_millis(milliseconds).as_secs_f64();
    let bytes = usage.pages.saturating_mul(rustix::param::page_size());
    Ok(format!(
        "process_cpu_seconds_total {seconds}\nprocess_resident_memory_bytes {bytes}\n"
    ))
}

/// What a process has used, in units of the kernel.
#[derive(Debug, PartialEq, Eq)]
struct Usage {
    /// CPU time of user and kernel.
    ticks: u64,
    /// Memory that is resident now.
    pages: usize,
}

impl Usage {
    /// Reads `/proc/ID/stat`: the name of the program stands in parentheses and may have any characters, then come the fields from the
    /// third one on (proc(5)).
    fn read(stat: &str) -> Option<Self> {
        let (_, fields) = stat.rsplit_once(") ")?;
        let field = |number: usize| fields.split(' ').nth(number - 3);
        let ticks = |number| field(number)?.parse::<u64>().ok();
        Some(Self {
            ticks: ticks(14)?.checked_add(ticks(15)?)?,
            pages: field(24)?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_may_have_any_name() {
        let fields = "S 1 2 3 4 5 6 7 8 9 10 250 50 13 14 15 16 17 18 19 20 777 22";
        let used = Usage {
            ticks: 300,
            pages: 777,
        };
        for name in ["etcd", "a) b", "a b)", ") 1 2 3"] {
            assert_eq!(
                Usage::read(&format!("1234 ({name}) {fields}")),
                Some(Usage { ..used }),
                "{name}"
            );
        }
        for broken in [
            "",
            "1 (a)",
            "1 (a) S 1",
            "1 (a) S 1 2 3 4 5 6 7 8 9 10 x 50 1 2 3 4 5 6 7 8 9",
        ] {
            assert_eq!(Usage::read(broken), None, "{broken}");
        }
    }
}
