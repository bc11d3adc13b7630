//! The environment of the stand-in.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::ByteString;
use kube::{Client, Config};
use nephele_controller::Clock;

/// Short enough for people who watch the demo.
const POLL: Duration = Duration::from_millis(250);
/// Often enough for a test that waits for a Node to become silent. Cluster API probes every 10 s, and watches Nodes.
const PROBE: Duration = Duration::from_secs(2);

/// Creates a client of a workload cluster from its kubeconfig.
pub type Connect = Arc<dyn Fn(Config) -> Result<Client, kube::Error> + Send + Sync>;

/// Where the key pairs of clusters come from.
#[derive(Clone)]
pub enum KeyPairs {
    /// Each cluster gets new key pairs.
    Generated,
    /// All clusters share these, by purpose (`ca`, `etcd`, `proxy`, `sa`): the data of their Secrets. For simulations,
    /// which would otherwise spend most of their time on generating keys.
    Shared(Arc<BTreeMap<String, BTreeMap<String, ByteString>>>),
}

/// The environment of the stand-in: the time, the network and the keys.
#[derive(Clone)]
pub struct Surroundings {
    pub clock: Clock,
    /// How often a workload cluster is polled for its Nodes while machines boot.
    pub poll: Duration,
    /// How often a workload cluster is asked whether it answers, and for its Nodes, while nothing happens.
    pub probe: Duration,
    /// Creates the clients of workload clusters.
    pub connect: Connect,
    /// Where key pairs come from.
    pub key_pairs: KeyPairs,
}

impl Surroundings {
    /// Connects to workload clusters over the network, and generates keys for each cluster.
    #[must_use]
    pub fn real(clock: Clock) -> Self {
        Self {
            clock,
            poll: POLL,
            probe: PROBE,
            connect: Arc::new(Client::try_from),
            key_pairs: KeyPairs::Generated,
        }
    }
}
