//! ClusterFaults.

use jiff::Timestamp;
use nephele_api::{
    cloud::v1alpha1::ClusterFault,
    conditions::{find, types},
};
use nephele_page::effect_name;

use crate::inspect::{
    found::Found,
    listing::{Listing, columns, row},
    text::{age, or_dash},
};

pub(super) fn listing(found: &Found, now: Timestamp) -> Listing {
    let narrow = [
        "NAME",
        "EFFECT",
        "PHASE",
        "NAMESPACES",
        "MATCHED",
        "HITS",
        "REFUSED",
        "AGE",
    ];
    let columns = columns(&narrow, &["MESSAGE"]);
    let rows = found.parsed::<ClusterFault>().into_iter().map(|fault| {
        let status = fault.status.clone().unwrap_or_default();
        let number = |number: Option<i64>| number.unwrap_or_default().to_string();
        let message = find(&status.conditions, types::READY).map(|ready| ready.message.clone());
        let cells = vec![
            fault.metadata.name.clone().unwrap_or_default(),
            fault
                .spec
                .fault
                .effect
                .as_ref()
                .map(effect_name)
                .unwrap_or_default(),
            or_dash(&status.phase),
            number(status.namespaces),
            number(status.matched),
            number(status.hits),
            status.refused.len().to_string(),
            age(fault.metadata.creation_timestamp.as_ref(), now),
            message.unwrap_or_default(),
        ];
        row(&fault.metadata, cells)
    });
    Listing {
        columns,
        rows: rows.collect(),
    }
}
