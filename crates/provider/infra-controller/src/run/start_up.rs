//! What the cloud has to know before the first object of a kind is reconciled. Of SimulatedClouds it is told by
//! [`Clouds`](crate::clouds::Clouds), which the controllers wait for.

use std::sync::{Arc, Once};

use kube::runtime::reflector::Store;
use nephele_api::infrastructure::v1beta2::{InMemoryCluster, InMemoryMachine};
use nephele_controller::{Kind, Listed, Runner};

use crate::{context::Context, restore_addresses};

/// A step of the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The ports of all clusters are reserved, before one gets a port.
    Endpoints,
    /// What all machines have is reserved, before one is created.
    Machines,
    /// All Faults are in the cloud: nothing is created past them.
    Faults,
}

/// The order of the steps. Each is taken once, when the first object is reconciled that needs it.
const ORDER: [Step; 3] = [Step::Endpoints, Step::Machines, Step::Faults];

/// What clusters need.
pub(super) const CLUSTERS: &[Step] = &[Step::Endpoints, Step::Faults];
/// What machines need. One that is put back before its load balancer is reserved loses its place behind it.
pub(super) const MACHINES: &[Step] = &[Step::Endpoints, Step::Machines, Step::Faults];
/// What SimulatedClouds need: until then a cloud counts too little.
pub(super) const CLOUDS: &[Step] = &[Step::Endpoints, Step::Machines];
/// What the other kinds need.
pub(super) const NOTHING: &[Step] = &[];

/// The start of the controllers. A step is taken when the first lists that it reads are complete: a controller that needs it waits
/// for them.
pub(super) struct StartUp {
    context: Arc<Context>,
    clusters: Objects<InMemoryCluster>,
    machines: Objects<InMemoryMachine>,
    /// Whether other managers may have clusters, too.
    filtered: bool,
    taken: [(Step, Once); 3],
}

/// What a step reads.
struct Objects<K: Kind> {
    store: Store<K>,
    listed: Listed,
}

impl<K: Kind> Objects<K> {
    fn of(runner: &Runner<K>) -> Self {
        Self {
            store: runner.store(),
            listed: runner.listed(),
        }
    }
}

impl StartUp {
    pub(super) fn new(
        context: Arc<Context>,
        clusters: &Runner<InMemoryCluster>,
        machines: &Runner<InMemoryMachine>,
        filtered: bool,
    ) -> Self {
        Self {
            context,
            clusters: Objects::of(clusters),
            machines: Objects::of(machines),
            filtered,
            taken: ORDER.map(|step| (step, Once::new())),
        }
    }

    /// Lets the controller begin when all is listed that these steps read.
    pub(super) fn waited_for<K: Kind>(&self, needed: &[Step], runner: Runner<K>) -> Runner<K> {
        needed.iter().fold(runner, |runner, step| match step {
            Step::Endpoints => runner.follows(self.clusters.listed.clone()),
            Step::Machines => runner.follows(self.machines.listed.clone()),
            Step::Faults => runner.reads(self.context.faults.cache()),
        })
    }

    /// Takes those of `needed` that were not taken before, and waits for those that another thread takes now.
    pub(super) fn take(&self, needed: &[Step]) {
        for (step, once) in self.taken.iter().filter(|(step, _)| needed.contains(step)) {
            once.call_once(|| self.carry_out(*step));
        }
    }

    fn carry_out(&self, step: Step) {
        let Self {
            context,
            clusters,
            machines,
            filtered,
            taken: _,
        } = self;
        match step {
            Step::Endpoints => restore_addresses::endpoints(context, &clusters.store, *filtered),
            Step::Machines => restore_addresses::machines(context, &machines.store),
            Step::Faults => context.faults.put_all(),
        }
    }
}
