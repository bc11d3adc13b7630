//! `SimulatedClouds`.

use jiff::Timestamp;
use nephele_api::{
    cloud::v1alpha1::{CloudClockStatus, LimitUsage, SimulatedCloud},
    conditions::types,
};

use crate::inspect::{
    found::Found,
    listing::{Listing, columns, message, row, status},
    text::{age, or_dash},
};

/// How the name of a stock begins, unlike that of a quota.
const STOCK: &str = "capacity/";

pub(super) fn listing(found: &Found, now: Timestamp) -> Listing {
    let columns = columns(
        &[
            "NAME", "ZONES", "TYPES", "MACHINES", "WAITING", "QUOTAS", "CLOCK", "PER HOUR", "LEAKED",
            "READY", "AGE",
        ],
        &[
            "REGIONS",
            "ZONE NAMES",
            "TYPE NAMES",
            "IMAGE NAMES",
            "STOCK",
            "COST",
            "LEAKED PORTS",
            "MESSAGE",
        ],
    );
    let rows = found.parsed::<SimulatedCloud>().into_iter().map(|cloud| {
        let spec = &cloud.spec;
        let status_of = cloud.status.clone().unwrap_or_default();
        let conditions = status_of.conditions;
        let cost = status_of.cost;
        let number = |number: Option<i64>| number.unwrap_or_default().to_string();
        let names = |names: &mut dyn Iterator<Item = &str>| or_dash(&names.collect::<Vec<_>>().join(","));
        let ports = status_of
            .leaked_load_balancers
            .iter()
            .filter_map(|leaked| leaked.port);
        let ports: Vec<_> = ports.map(|port| port.to_string()).collect();
        // Without a list of its own, a cloud has the built-in types.
        let types_of = match spec.instance_types.len() {
            0 => "built-in".to_owned(),
            count => count.to_string(),
        };
        let cells = vec![
            cloud.metadata.name.clone().unwrap_or_default(),
            spec.zones().count().to_string(),
            types_of,
            number(status_of.instances),
            number(status_of.waiting),
            used(&status_of.usage, false),
            status_of.clock.as_ref().map_or_else(|| "-".to_owned(), clock),
            cost.as_ref()
                .map_or_else(|| "-".to_owned(), |cost| cost.per_hour.as_str().to_owned()),
            number(status_of.leaked),
            status(&conditions, types::READY),
            age(cloud.metadata.creation_timestamp.as_ref(), now),
            names(&mut spec.regions.iter().map(|region| region.name.as_str())),
            names(&mut spec.zones().map(|(_, zone)| zone.name.as_str())),
            names(&mut spec.instance_types.iter().map(|one| one.name.as_str())),
            names(&mut spec.images.iter().map(|image| image.name.as_str())),
            used(&status_of.usage, true),
            cost.as_ref()
                .map_or_else(|| "-".to_owned(), |cost| cost.total.as_str().to_owned()),
            or_dash(&ports.join(",")),
            message(&conditions, types::READY),
        ];
        row(&cloud.metadata, cells)
    });
    Listing {
        columns,
        rows: rows.collect(),
    }
}

/// How much of each quota is used, or of each stock.
fn used(usage: &[LimitUsage], of_stock: bool) -> String {
    let limits = usage.iter().filter_map(
        |LimitUsage {
             name, used, limit, ..
         }| {
            let stock = name.strip_prefix(STOCK);
            let name = stock.unwrap_or(name);
            (stock.is_some() == of_stock).then(|| format!("{name} {used}/{limit}"))
        },
    );
    or_dash(&limits.collect::<Vec<_>>().join(","))
}

/// How the time of the cloud passes.
fn clock(clock: &CloudClockStatus) -> String {
    match &clock.rate {
        _ if clock.paused == Some(true) => "paused".to_owned(),
        Some(rate) => format!("{}x", rate.as_str()),
        None => "1x".to_owned(),
    }
}
