//! What the stand-in takes from where it runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::ByteString;
use kube::{Client, Config};
use nephele_kit::Clock;

/// Short enough for people who watch.
const POLL: Duration = Duration::from_millis(250);

/// Makes a client of a cluster from its kubeconfig.
pub type Connect = Arc<dyn Fn(Config) -> Result<Client, kube::Error> + Send + Sync>;

/// Where the key pairs of clusters come from.
#[derive(Clone)]
pub enum KeyPairs {
    /// Each cluster gets new ones.
    Generated,
    /// All clusters share these, by purpose (`ca`, `etcd`, `proxy`, `sa`): the data of their Secrets. For simulations,
    /// which would else spend most of their time on finding keys.
    Shared(Arc<BTreeMap<String, BTreeMap<String, ByteString>>>),
}

/// What the stand-in takes from where it runs: the time, the network and the keys.
#[derive(Clone)]
pub struct Surroundings {
    /// What time it is.
    pub clock: Clock,
    /// How long until a cluster is asked again whether its Nodes are there. Only machines that boot are waited for so.
    pub poll: Duration,
    /// How clusters are reached.
    pub connect: Connect,
    /// Where key pairs come from.
    pub key_pairs: KeyPairs,
}

impl Surroundings {
    /// Clusters are reached over the network, and get keys of their own.
    #[must_use]
    pub fn real(clock: Clock) -> Self {
        Self { clock, poll: POLL, connect: Arc::new(Client::try_from), key_pairs: KeyPairs::Generated }
    }
}
