//! The definitions of our kinds.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// The folders of definitions, one for each components file, because kustomize reads no files outside a folder.
pub(crate) const DEFINITIONS: [(&str, Definitions); 2] = [
    ("config/crd", nephele_api::infrastructure::crds),
    ("config/crd/ipam", nephele_api::ipam::crds),
];

type Definitions = fn() -> Vec<CustomResourceDefinition>;

/// All released definitions.
pub(crate) fn definitions() -> impl Iterator<Item = CustomResourceDefinition> {
    DEFINITIONS.into_iter().flat_map(|(_, definitions)| definitions())
}
