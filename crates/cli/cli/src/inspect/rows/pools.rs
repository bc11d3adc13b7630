//! Pools of addresses.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use nephele_api::{
    conditions::types,
    ipam::{PoolKind, v1alpha2::PoolStatus, v1beta2::IPAddressClaim},
};
use serde_json::Value;

use crate::inspect::{
    found::{Found, Surroundings, parsed},
    listing::{Listing, columns, message, row},
    text::{age, or_dash},
};

pub(super) fn listing(found: &Found, around: &Surroundings, now: Timestamp) -> Listing {
    let narrow = [
        "NAME",
        "KIND",
        "ADDRESSES",
        "USED",
        "FREE",
        "TOTAL",
        "WAITING",
        "AGE",
    ];
    let columns = columns(&narrow, &["GATEWAY", "MESSAGE"]);
    let rows = found.objects.iter().map(|pool| {
        let metadata: ObjectMeta = serde_json::from_value(pool["metadata"].clone()).unwrap_or_default();
        let status: PoolStatus = serde_json::from_value(pool["status"].clone()).unwrap_or_default();
        let counts = status.ip_addresses;
        let count = |of: fn(&_) -> i64| {
            counts
                .as_ref()
                .map_or_else(|| "-".to_owned(), |counts| number(of(counts)))
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let cells = vec![
            metadata.name.clone().unwrap_or_default(),
            text(&pool["kind"]),
            or_dash(&ranges(&pool["spec"]).join(",")),
            count(|counts: &nephele_api::ipam::v1alpha2::IPAddressCounts| counts.used),
            count(|counts| counts.free),
            count(|counts| counts.total),
            waiting(pool, around).len().to_string(),
            age(metadata.creation_timestamp.as_ref(), now),
            or_dash(&text(&pool["spec"]["gateway"])),
            message(&status.conditions, types::READY),
        ];
        row(&metadata, cells)
    });
    Listing {
        columns,
        rows: rows.collect(),
    }
}

/// The claims of a pool that have no address.
pub(in crate::inspect) fn waiting(pool: &Value, around: &Surroundings) -> Vec<IPAddressClaim> {
    let claims = parsed::<IPAddressClaim>(&around.claims).into_iter();
    claims
        .filter(|claim| is_of(claim, pool) && claim.address_name().is_none())
        .collect()
}

fn is_of(claim: &IPAddressClaim, pool: &Value) -> bool {
    let Some(kind) = PoolKind::of(&claim.spec.pool_ref) else {
        return false;
    };
    let reachable = !kind.is_namespaced()
        || claim.metadata.namespace.as_deref() == pool["metadata"]["namespace"].as_str();
    reachable
        && pool["kind"] == kind.as_str()
        && pool["metadata"]["name"] == claim.spec.pool_ref.name.as_str()
}

/// The addresses or prefixes of a pool, as its spec has them.
fn ranges(spec: &Value) -> Vec<String> {
    let listed = ["addresses", "prefixes"]
        .into_iter()
        .filter_map(|field| spec[field].as_array())
        .flatten();
    listed.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Larger counts than the largest number are cut, so those that are close to it mean nothing.
fn number(count: i64) -> String {
    if count > i64::MAX / 2 {
        "many".to_owned()
    } else {
        count.to_string()
    }
}
