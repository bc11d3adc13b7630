//! A pool of addresses. Pure.

use nephele_api::ipam::v1alpha2::InClusterIPPool;

/// An InClusterIPPool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolView {
    /// The ranges, as its spec has them.
    pub addresses: String,
    /// How many addresses are in use, in words. Empty before a manager has counted them.
    pub usage: String,
}

impl PoolView {
    pub(crate) fn new(pool: &InClusterIPPool) -> Self {
        let counted = pool
            .status
            .as_ref()
            .and_then(|status| status.ip_addresses.as_ref());
        let usage = counted.map(|counted| match counted.total {
            // A total this large is not exact, so it is not shown.
            i64::MAX => format!("{} in use", counted.used),
            total => format!("{} of {total} in use", counted.used),
        });
        Self {
            addresses: pool.spec.addresses.join(" "),
            usage: usage.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pool_says_how_many_of_its_addresses_are_in_use() {
        for (status, usage) in [
            (json!(null), ""),
            (
                json!({ "ipAddresses": { "total": 9, "used": 2, "free": 7, "outOfRange": 0 } }),
                "2 of 9 in use",
            ),
            (
                json!({ "ipAddresses": { "total": i64::MAX, "used": 2, "free": i64::MAX, "outOfRange": 0 } }),
                "2 in use",
            ),
        ] {
            let pool = json!({
                "metadata": { "name": "p" }, "spec": { "addresses": ["10.0.0.1-10.0.0.9", "10.0.1.1"], "prefix": 24 },
                "status": status,
            });
            let pool = PoolView::new(&serde_json::from_value(pool).expect("a pool"));
            assert_eq!(
                (&*pool.addresses, &*pool.usage),
                ("10.0.0.1-10.0.0.9 10.0.1.1", usage)
            );
        }
    }
}
