//! The finalizers of this provider, one per kind.

/// Holds an `InMemoryCluster` until its simulated cluster is gone.
pub const CLUSTER: &str = "inmemorycluster.infrastructure.cluster.x-k8s.io";

/// Holds an `InMemoryMachine` until its simulated machine is gone.
pub const MACHINE: &str = "inmemorymachine.infrastructure.cluster.x-k8s.io";

/// Holds an `InMemoryMachinePool` until its machines are gone.
pub const MACHINE_POOL: &str = "inmemorymachinepool.infrastructure.cluster.x-k8s.io";

/// Holds a `Scenario` until its Faults are gone. A scenario that is over does not have it.
pub const SCENARIO: &str = "scenario.cloud.nephele.dev";
