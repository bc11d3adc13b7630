//! Clouds: what each offers, what has happened in it, and what of that is put back after a restart.

use jiff::Timestamp;
use nephele_engine::{CapacityUsage, CloudSpec, Leaked, MistakesByCaller, Request};
use nephele_model::{Capacity, Quota, ResourceId};

use crate::{clock::ClockObservation, cloud::Cloud, cost::CostObservation, error::CallError};

/// What has happened in a cloud. A status shows it, and the next manager puts it back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloudRecord {
    /// Its clock. None if it was never changed.
    pub clock: Option<ClockObservation>,
    /// Its leaked instances and load balancers, the oldest first.
    pub leaked: Vec<Leaked<Timestamp>>,
    /// What its machines have cost, and cost in an hour. None if they cost nothing.
    pub cost: Option<CostObservation>,
    /// What was found about its callers.
    pub caller_mistakes: MistakesByCaller,
}

/// A cloud as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloudObservation {
    /// The number of its machines, including those from before a restart that are not back yet.
    pub machines: u64,
    /// Its limits, in a fixed order.
    pub limits: Vec<CapacityUsage>,
    /// What has happened in it.
    pub record: CloudRecord,
}

impl Cloud {
    /// Sets a cloud of a namespace. New machines use it; existing machines keep their hardware. Its limits hold at
    /// once for what is created from then on, and its clock for all its machines. `previous` is what was published about it
    /// before a restart.
    ///
    /// # Errors
    /// When the cloud refuses.
    pub fn put_cloud(
        &self,
        namespace: &str,
        name: &str,
        cloud_spec: CloudSpec,
        previous: CloudRecord,
    ) -> Result<(), CallError> {
        let id = ResourceId::cloud(namespace, name);
        let CloudRecord {
            clock,
            leaked,
            cost,
            caller_mistakes,
        } = previous;
        let cost = cost.map(|cost| Box::new(cost.record()));
        let clock = clock.map(|previous| previous.record(self.clock()));
        let leaked = self.unpublished(leaked);
        self.ask(Request::PutCloud {
            id,
            cloud_spec: Box::new(cloud_spec),
            clock,
            leaked,
            cost,
            caller_mistakes,
        })
    }

    /// A cloud of a namespace, at one instant.
    #[must_use]
    pub fn observe_cloud(&self, namespace: &str, name: &str) -> CloudObservation {
        let id = ResourceId::cloud(namespace, name);
        let now = self.now();
        let (mut observed, leaked) = self.look(|engine| {
            let clock = engine.clock(&id).zip(engine.clock_setting(&id));
            let record = CloudRecord {
                clock: clock.map(|(clock, setting)| ClockObservation::new(setting, clock, self.clock())),
                cost: engine.cost(&id, now).map(CostObservation::of),
                caller_mistakes: engine.caller_mistakes(&id).cloned().unwrap_or_default(),
                ..CloudRecord::default()
            };
            let machines = engine.taken(&Capacity::CloudQuota {
                cloud_spec: id.clone(),
                of: Quota::Instances,
            });
            let observed = CloudObservation {
                machines,
                limits: engine.usage(&id),
                record,
            };
            (observed, engine.leaked(&id).cloned().collect())
        });
        observed.record.leaked = self.published(leaked);
        observed
    }

    /// Deletes a cloud. No new machine can use it.
    ///
    /// # Errors
    /// When the cloud refuses.
    pub fn delete_cloud(&self, namespace: &str, name: &str) -> Result<(), CallError> {
        self.ask(Request::Delete(ResourceId::cloud(namespace, name)))
    }
}
