//! What the cloud of a resource decides about the resource while it exists, not only when it is created.

use std::time::Duration;

use nephele_model::SimTime;

use crate::{
    clock::{Clock, CloudTime},
    cloud_spec::Latencies,
    latency::Latency,
    seed::Seed,
    spec::{ResourceSpec, StageSpec},
};

/// An instant on the engine's line of time, and in the time of a cloud.
#[derive(Clone, Copy)]
pub(crate) struct Instant {
    pub(crate) at: SimTime,
    pub(crate) time: CloudTime,
}

/// What everything that happens to a resource depends on besides the resource itself.
#[derive(Clone, Copy)]
pub(crate) struct Environment<'a> {
    /// The key of its draws.
    pub(crate) seed: &'a Seed,
    /// How long parts of its life take that its specification leaves open.
    pub(crate) latencies: Option<&'a Latencies>,
    /// Its clock. None if it runs with the engine's time, and was never changed.
    pub(crate) clock: Option<Clock>,
}

impl<'a> Environment<'a> {
    /// The time of the cloud at an instant.
    pub(crate) fn time(self, at: SimTime) -> CloudTime {
        self.clock.map_or_else(|| at.into(), |clock| clock.time(at))
    }

    /// The end of something that takes a while: its deadline, and the time of the cloud then. The latter is None where
    /// the cloud has no time of its own.
    pub(crate) fn end(self, since: Instant, takes: Duration) -> (Option<SimTime>, Option<CloudTime>) {
        let Some(clock) = self.clock else {
            return (Some(since.at + takes), None);
        };
        let ends = since.time.after(takes);
        (clock.when(ends), Some(ends))
    }

    /// As [`Environment::end`], for something that begins now.
    pub(crate) fn end_of_new(self, since: SimTime, takes: Duration) -> (Option<SimTime>, Option<CloudTime>) {
        let Some(clock) = self.clock else {
            return (Some(since + takes), None);
        };
        let ends = clock.hold(clock.time(since).after(takes));
        (clock.when(ends), Some(ends))
    }

    /// As [`Environment::end`], for an end that is known.
    pub(crate) fn when(self, ends: CloudTime) -> (Option<SimTime>, Option<CloudTime>) {
        match self.clock {
            None => (Some(SimTime::from_millis(ends.as_micros().div_ceil(1000))), None),
            Some(clock) => (clock.when(ends), Some(ends)),
        }
    }

    /// How long a stage takes.
    pub(crate) fn of_stage<'b>(self, stage: &'b StageSpec) -> &'b Latency
    where
        'a: 'b,
    {
        let of_cloud = || self.latencies?.stages.get(&stage.name);
        stage.latency.as_ref().or_else(of_cloud).unwrap_or(&Latency::ZERO)
    }

    /// How long a deletion takes.
    pub(crate) fn of_deletion<'b>(self, spec: &'b ResourceSpec) -> &'b Latency
    where
        'a: 'b,
    {
        let of_cloud = || self.latencies?.deletion.as_ref();
        spec.deletion.as_ref().or_else(of_cloud).unwrap_or(&Latency::ZERO)
    }
}
