//! Creates the clusters and watches them until all are available.

use std::{pin::pin, time::Duration};

use futures::{FutureExt as _, StreamExt as _};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{
    args::Checked,
    create, follow,
    management::Management,
    progress::{Counts, Progress},
    record::{ClusterStep, MachineStep, Record},
};

/// How often progress is shown.
const FRAME: Duration = Duration::from_millis(200);

/// What was measured.
pub(super) struct Measured {
    pub(super) record: Record,
    pub(super) elapsed: Duration,
    pub(super) ended: Ended,
    pub(super) watch_failures: usize,
}

/// Why the measurement ended.
pub(super) enum Ended {
    AllAvailable,
    /// Some clusters were deleted; all others were available.
    SomeGone,
    OutOfTime,
    Interrupted,
    /// An object could not be created.
    Refused(anyhow::Error),
}

/// Runs the measurement. It ends with whatever was seen; the caller deletes what was created.
pub(super) async fn run(
    management: &Management,
    checked: &Checked,
    start: Instant,
    shutdown: &CancellationToken,
) -> Measured {
    let mut measured = Measured {
        record: Record::default(),
        elapsed: Duration::ZERO,
        ended: Ended::AllAvailable,
        watch_failures: 0,
    };
    let progress = Progress::new(checked.shape.clusters);
    let shared = create::shared(management, &checked.shape);
    measured.ended = match shutdown.run_until_cancelled(shared).await {
        None => Ended::Interrupted,
        Some(Err(error)) => Ended::Refused(error),
        Some(Ok(())) => follow_all(management, checked, start, shutdown, &mut measured, progress).await,
    };
    measured.elapsed = start.elapsed();
    measured
}

async fn follow_all(
    management: &Management,
    checked: &Checked,
    start: Instant,
    shutdown: &CancellationToken,
    measured: &mut Measured,
    mut progress: Progress,
) -> Ended {
    let shape = &checked.shape;
    let names = shape.names();
    let deadline = Instant::now() + checked.time_limit;
    // Creation stops with the measurement, for whatever reason that ends.
    let stop = shutdown.child_token();
    let mut creations =
        pin!(create::clusters(management, shape, checked.parallel, start, stop.clone()).fuse());
    let mut seen = pin!(follow::run(management, shape, start));
    let mut frames = interval(FRAME);
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_created = false;
    let ended = loop {
        tokio::select! {
            created = creations.next(), if !is_created => match created {
                Some(Ok(observation)) => measured.record.apply(observation),
                Some(Err(error)) => break Ended::Refused(error),
                None => is_created = true,
            },
            Some(observation) = seen.next() => match observation {
                Ok(observation) => measured.record.apply(observation),
                Err(_) => measured.watch_failures += 1,
            },
            _ = frames.tick() => {
                progress.show(start.elapsed(), &counts(&measured.record, checked));
                // Looks at all clusters, so not at each event.
                if is_created && measured.record.is_over(&names) {
                    break match measured.record.clusters_at(ClusterStep::Available) == names.len() {
                        true => Ended::AllAvailable,
                        false => Ended::SomeGone,
                    };
                }
            }
            () = sleep_until(deadline) => break Ended::OutOfTime,
            () = shutdown.cancelled() => break Ended::Interrupted,
        }
    };
    stop.cancel();
    // Those that began have to exist before they can be deleted.
    while let Some(created) = creations.next().await {
        if let Ok(observation) = created {
            measured.record.apply(observation);
        }
    }
    // What the watches have already received counts.
    while let Some(Some(Ok(observation))) = seen.next().now_or_never() {
        measured.record.apply(observation);
    }
    progress.show(start.elapsed(), &counts(&measured.record, checked));
    progress.finish();
    ended
}

fn counts(record: &Record, checked: &Checked) -> Counts {
    Counts {
        clusters: checked.shape.clusters,
        created: record
            .clusters
            .values()
            .filter(|times| times.sent.is_some())
            .count(),
        initialized: record.clusters_at(ClusterStep::ControlPlaneInitialized),
        available: record.clusters_at(ClusterStep::Available),
        machines: checked.shape.machines(),
        running: record.machines_at(MachineStep::Running),
    }
}
