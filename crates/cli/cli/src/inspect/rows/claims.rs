//! Claims for addresses.

use std::collections::BTreeMap;

use jiff::Timestamp;
use nephele_api::{
    conditions::types,
    ipam::v1beta2::{IPAddress, IPAddressClaim, IPAddressSpec},
};

use crate::inspect::{
    found::{Found, Surroundings, parsed},
    listing::{Listing, columns, message, row, status},
    text::{age, or_dash},
};

pub(super) fn listing(found: &Found, around: &Surroundings, now: Timestamp) -> Listing {
    let columns = columns(
        &["NAME", "CLUSTER", "POOL", "ADDRESS", "READY", "AGE"],
        &["POOL KIND", "GATEWAY", "MESSAGE"],
    );
    let addresses = parsed::<IPAddress>(&around.addresses).into_iter();
    let addresses: BTreeMap<_, _> = addresses
        .map(|address| {
            let metadata = address.metadata;
            ((metadata.namespace, metadata.name), address.spec)
        })
        .collect();
    let rows = found.parsed::<IPAddressClaim>().into_iter().map(|claim| {
        let name = claim.address_name().map(str::to_owned);
        let address = addresses.get(&(claim.metadata.namespace.clone(), name));
        let conditions = claim.status.unwrap_or_default().conditions;
        let cells = vec![
            claim.metadata.name.clone().unwrap_or_default(),
            or_dash(&claim.spec.cluster_name),
            claim.spec.pool_ref.name.clone(),
            address.map_or_else(|| "-".to_owned(), with_prefix),
            status(&conditions, types::READY),
            age(claim.metadata.creation_timestamp.as_ref(), now),
            claim.spec.pool_ref.kind.clone(),
            or_dash(address.map_or("", |address| &address.gateway)),
            message(&conditions, types::READY),
        ];
        row(&claim.metadata, cells)
    });
    Listing {
        columns,
        rows: rows.collect(),
    }
}

fn with_prefix(IPAddressSpec { address, prefix, .. }: &IPAddressSpec) -> String {
    match prefix {
        Some(prefix) => format!("{address}/{prefix}"),
        None => address.clone(),
    }
}
