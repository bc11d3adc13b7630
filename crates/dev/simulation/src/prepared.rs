//! What all worlds share, and what costs a process more than a quarter of a world: the definitions of the kinds, and the key
//! pairs of clusters. The process that starts worlds makes it once.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use jiff::Timestamp;
use k8s_openapi::ByteString;
use nephele_pki::{Authority, KeyAlgorithm};
use nephele_testkit::{Definitions, definitions, take_definitions};
use serde::{Deserialize, Serialize};

/// The data of the Secrets with key pairs, by purpose.
pub(crate) type Pairs = BTreeMap<String, BTreeMap<String, ByteString>>;

static KEY_PAIRS: OnceLock<Arc<Pairs>> = OnceLock::new();

/// What all worlds share, for another process of this program.
#[derive(Debug, Serialize, Deserialize)]
pub struct Prepared {
    definitions: Definitions,
    key_pairs: Pairs,
}

impl Prepared {
    /// What this process has, or makes now.
    #[must_use]
    pub fn of_this_process() -> Self {
        Self {
            definitions: definitions().clone(),
            key_pairs: Pairs::clone(&key_pairs()),
        }
    }

    /// Takes it over, unless this process has made it already.
    pub fn take(self) {
        take_definitions(self.definitions);
        drop(KEY_PAIRS.set(Arc::new(self.key_pairs)));
    }
}

/// The key pairs of all clusters of all worlds in this process: generating keys is the slow part of a cluster.
pub(crate) fn key_pairs() -> Arc<Pairs> {
    let make = || {
        let second = |second: i64| Timestamp::from_second(second).expect("in range");
        // From 2020 to 2100.
        let begin = second(1_577_836_800);
        let end = second(4_102_444_800);
        let pair = |purpose: &str| {
            let authority = Authority::generate("kubernetes", KeyAlgorithm::EcdsaP256, begin, end);
            let authority = authority.expect("an authority can be made");
            let data = [
                ("tls.crt", authority.certificate_pem()),
                ("tls.key", authority.key_pem()),
            ];
            let data = data.map(|(name, pem)| (name.to_owned(), ByteString(pem.into_bytes())));
            (purpose.to_owned(), data.into())
        };
        Arc::new(["ca", "etcd", "proxy", "sa"].map(pair).into())
    };
    Arc::clone(KEY_PAIRS.get_or_init(make))
}
