//! Creates an IPAddress.

use kube::{
    Client,
    api::{Api, ApiResource, DynamicObject, PostParams},
};
use nephele_api::ipam::{GROUP, v1beta2::IPAddress};
use serde_json::json;

/// The version in which a reference to a pool may have no group.
const OLD_VERSION: &str = "v1beta1";

/// Creates an IPAddress, as `v1beta1` if its reference to the pool has no group. Cluster API's webhook requires the
/// same reference as in the claim, and `v1beta2` accepts only references with a group.
///
/// # Errors
/// When the management API refuses, or cannot be reached.
pub(crate) async fn create(client: &Client, address: &IPAddress) -> Result<IPAddress, kube::Error> {
    let namespace = address.metadata.namespace.as_deref().unwrap_or_default();
    if !address.spec.pool_ref.api_group.is_empty() {
        let api = Api::<IPAddress>::namespaced(client.clone(), namespace);
        return api.create(&PostParams::default(), address).await;
    }
    let resource = ApiResource {
        group: GROUP.to_owned(),
        version: OLD_VERSION.to_owned(),
        api_version: format!("{GROUP}/{OLD_VERSION}"),
        kind: "IPAddress".to_owned(),
        plural: "ipaddresses".to_owned(),
    };
    let mut old = DynamicObject::new("", &resource);
    old.metadata = address.metadata.clone();
    old.data = json!({ "spec": address.spec });
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &resource);
    let made = api.create(&PostParams::default(), &old).await?;
    // The two versions differ in nothing else.
    made.try_parse()
        .map_err(|error| kube::Error::SerdeError(serde::de::Error::custom(error)))
}

/// Whether the response tells the result of the request. Without a response, or when the API server itself failed,
/// the IPAddress may still be created.
pub(crate) fn is_answered(created: &Result<IPAddress, kube::Error>) -> bool {
    match created {
        Ok(_) => true,
        Err(kube::Error::Api(status)) => status.code < 500,
        Err(_) => false,
    }
}
