//! Conversion between the versions of kinds in the embedded management API.
//!
//! On a real API server, webhooks of the manager and of Cluster API convert. Here the API server gets their functions: a
//! request costs the conversion alone, and the server stays without a client and without certificates of others.

use std::collections::BTreeMap;

use nephele_api::{
    core::{BOOTSTRAP_GROUP, CONTROL_PLANE_GROUP, GROUP},
    infrastructure, ipam,
};
use nephele_apiserver::Conversion;
use nephele_controller::chain;
use serde_json::Value;

/// The groups whose kinds have several versions.
const GROUPS: [&str; 5] = [
    GROUP,
    CONTROL_PLANE_GROUP,
    BOOTSTRAP_GROUP,
    infrastructure::GROUP,
    ipam::GROUP,
];

/// How objects are converted, by group.
pub(super) fn conversions() -> BTreeMap<String, Conversion> {
    GROUPS.map(|group| (group.to_owned(), Conversion(convert))).into()
}

fn convert(object: &Value, api_version: &str) -> Result<Value, String> {
    let is_pool = object["kind"].as_str().is_some_and(|kind| kind.ends_with("Pool"));
    match api_version.split('/').next() {
        Some(infrastructure::GROUP) => {
            infrastructure::conversion::convert(object.clone(), api_version).map_err(|error| chain(&error))
        }
        Some(ipam::GROUP) if is_pool => {
            ipam::conversion::convert(object.clone(), api_version).map_err(|error| chain(&error))
        }
        _ => Ok(nephele_fake_capi::convert(object, api_version)),
    }
}

#[cfg(test)]
mod tests;
