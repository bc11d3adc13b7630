//! `SimulatedClouds`.

use jiff::Timestamp;
use nephele_api::{cloud::v1alpha1::SimulatedCloud, conditions::types};

use crate::inspect::{
    found::Found,
    listing::{Listing, columns, message, row, status},
    text::{age, or_dash},
};

pub(super) fn listing(found: &Found, now: Timestamp) -> Listing {
    let columns = columns(
        &[
            "NAME", "REGIONS", "ZONES", "TYPES", "IMAGES", "LEAKED", "READY", "AGE",
        ],
        &[
            "ZONE NAMES",
            "TYPE NAMES",
            "IMAGE NAMES",
            "LEAKED PORTS",
            "MESSAGE",
        ],
    );
    let rows = found.parsed::<SimulatedCloud>().into_iter().map(|cloud| {
        let spec = &cloud.spec;
        let status_of = cloud.status.clone().unwrap_or_default();
        let conditions = status_of.conditions;
        let ports = status_of
            .leaked_load_balancers
            .iter()
            .filter_map(|leaked| leaked.port);
        let ports: Vec<_> = ports.map(|port| port.to_string()).collect();
        let zones: Vec<_> = spec
            .regions
            .iter()
            .flat_map(|region| &region.zones)
            .map(|zone| zone.name.as_str())
            .collect();
        let types_of: Vec<_> = spec.instance_types.iter().map(|one| one.name.as_str()).collect();
        let images: Vec<_> = spec.images.iter().map(|image| image.name.as_str()).collect();
        // Without a list of its own, a cloud has the built-in types, and accepts any image.
        let count = |names: &[&str], none: &str| {
            if names.is_empty() {
                none.to_owned()
            } else {
                names.len().to_string()
            }
        };
        let cells = vec![
            cloud.metadata.name.clone().unwrap_or_default(),
            spec.regions.len().to_string(),
            zones.len().to_string(),
            count(&types_of, "built-in"),
            count(&images, "any"),
            status_of.leaked.unwrap_or(0).to_string(),
            status(&conditions, types::READY),
            age(cloud.metadata.creation_timestamp.as_ref(), now),
            or_dash(&zones.join(",")),
            or_dash(&types_of.join(",")),
            or_dash(&images.join(",")),
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
