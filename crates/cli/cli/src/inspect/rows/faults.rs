//! Faults.

use jiff::Timestamp;
use nephele_api::{
    cloud::v1alpha1::Fault,
    conditions::{find, types},
};
use nephele_page::effect_name;

use crate::inspect::{
    found::Found,
    listing::{Listing, columns, row},
    text::{age, or_dash},
};

pub(super) fn listing(found: &Found, now: Timestamp) -> Listing {
    let columns = columns(
        &["NAME", "EFFECT", "PHASE", "MATCHED", "HITS", "AFFECTED", "AGE"],
        &["LAST HIT", "MESSAGE"],
    );
    let rows = found.parsed::<Fault>().into_iter().map(|fault| {
        let status = fault.status.clone().unwrap_or_default();
        let number = |number: Option<i64>| number.unwrap_or_default().to_string();
        let last = status.last_hits.first().map(|hit| match hit.machine.as_str() {
            "" => format!("{} {}", hit.operation, hit.cluster),
            machine => format!("{} {machine}", hit.operation),
        });
        let message = find(&status.conditions, types::READY).map(|ready| ready.message.clone());
        let cells = vec![
            fault.metadata.name.clone().unwrap_or_default(),
            fault.spec.effect.as_ref().map(effect_name).unwrap_or_default(),
            or_dash(&status.phase),
            number(status.matched),
            number(status.hits),
            status.affected.len().to_string(),
            age(fault.metadata.creation_timestamp.as_ref(), now),
            or_dash(last.unwrap_or_default().trim()),
            message.unwrap_or_default(),
        ];
        row(&fault.metadata, cells)
    });
    Listing {
        columns,
        rows: rows.collect(),
    }
}
