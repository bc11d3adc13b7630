//! Changes of the clocks of clouds.

use std::time::Duration;

use nephele_model::{ResourceId, ResourceKind, SimTime, count_step};

use super::{Engine, reschedule};
use crate::{
    clock::{Clock, ClockRecord, ClockSetting, CloudTime},
    resource::Resource,
};

impl Engine {
    /// The clock of a cloud. None if it was never changed: then it runs with the engine's time.
    #[must_use]
    pub fn clock(&self, cloud_spec: &ResourceId) -> Option<&Clock> {
        self.clouds.clock(cloud_spec)
    }

    /// The setting of the clock of a cloud. None if the cloud does not exist.
    #[must_use]
    pub fn clock_setting(&self, cloud_spec: &ResourceId) -> Option<ClockSetting> {
        self.clouds.put(cloud_spec).map(|cloud_spec| cloud_spec.clock)
    }

    /// Sets the clock of a cloud. `from` is the setting before. Deadlines are computed again, and the first step is
    /// taken.
    pub(crate) fn set_clock(
        &mut self,
        now: SimTime,
        id: &ResourceId,
        from: Option<ClockSetting>,
        previous: Option<&ClockRecord>,
        to: &ClockSetting,
    ) {
        let adopted = previous.filter(|_| from.is_none());
        let clock = |record: &ClockRecord| Clock {
            since: record.since.min(now),
            time: record.time,
            rate: record.setting.rate,
            is_paused: record.setting.is_paused,
            steps: 0,
        };
        if let Some(record) = adopted {
            self.clouds.change(id, |cloud| cloud.clock = Some(clock(record)));
        }
        // What a new cloud counts was done before, unless a record says how much of it.
        let before = from.or(adopted.map(|record| record.setting));
        let before = before.unwrap_or(ClockSetting {
            steps: to.steps,
            ahead: to.ahead,
            ..ClockSetting::default()
        });
        let changes = before != *to;
        if changes {
            self.clouds.change(id, |cloud| {
                cloud
                    .clock
                    .get_or_insert_with(|| Clock::new(now))
                    .set(now, &before, to);
            });
        }
        let Some(clock) = self
            .clouds
            .clock(id)
            .copied()
            .filter(|_| changes || adopted.is_some())
        else {
            return;
        };
        let ahead = to.ahead.saturating_sub(before.ahead);
        let mut leapt = clock;
        if !ahead.is_zero() {
            leapt.leap(ahead);
            self.clouds.change(id, |cloud| cloud.clock = Some(leapt));
        }
        self.of_cloud(id, |resource| {
            resource.set_ends(|ends| (leapt.when(clock.hold(ends)), clock.hold(ends)));
        });
        self.step(now, id);
    }

    /// Forgets the clock of a cloud that is gone: time passes at rate 1 from now on.
    pub(crate) fn forget_clock(&mut self, now: SimTime, id: &ResourceId) {
        let Some(clock) = self.clouds.change(id, |cloud| cloud.clock.take()) else {
            return;
        };
        let time = clock.time(now);
        self.of_cloud(id, |resource| {
            let due = |ends: CloudTime| {
                let left =
                    Duration::from_millis(ends.as_micros().saturating_sub(time.as_micros()).div_ceil(1000));
                let due = now + left;
                (Some(due), CloudTime::from(due))
            };
            resource.set_ends(due);
            resource.forget_own_time();
        });
    }

    /// Lets the next stage, update or deletion of a cloud end, if its clock stands still and a step is left.
    pub(crate) fn step(&mut self, now: SimTime, id: &ResourceId) {
        let Some(&Clock { time, steps, .. }) = self.clouds.clock(id).filter(|clock| clock.steps > 0) else {
            return;
        };
        let all = self
            .resources
            .range(first_of_namespace(id)..)
            .inspect(|_| count_step());
        let all = all
            .take_while(|(other, _)| other.namespace == id.namespace)
            .map(|(_, resource)| resource);
        let ours = all.filter(|resource| resource.is_of(id));
        let next = ours
            .filter_map(|resource| Some((resource.next_end()?, resource.spec.id.clone())))
            .min();
        // If nothing is under way, the steps are lost.
        let left = if next.is_some() { steps - 1 } else { 0 };
        self.clouds.change(id, |cloud| {
            cloud.clock = cloud.clock.map(|clock| Clock { steps: left, ..clock });
        });
        let Some((ends, resource)) = next else { return };
        let Some(found) = self.resources.get_mut(&resource) else {
            return;
        };
        let before = found.next_deadline();
        found.end_now(ends, now, time);
        reschedule(&mut self.deadlines, before, found);
    }

    /// Changes the instances of a cloud, with their deadlines.
    fn of_cloud(&mut self, id: &ResourceId, change: impl Fn(&mut Resource)) {
        let first = first_of_namespace(id);
        for (_, resource) in self
            .resources
            .range_mut(first..)
            .take_while(|(other, _)| other.namespace == id.namespace)
        {
            count_step();
            if resource.is_of(id) {
                let before = resource.next_deadline();
                change(resource);
                reschedule(&mut self.deadlines, before, resource);
            }
        }
    }
}

/// A name before all resources of a namespace.
fn first_of_namespace(id: &ResourceId) -> ResourceId {
    ResourceId::first(&id.namespace, "", ResourceKind::Instance)
}
