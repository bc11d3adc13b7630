//! Conversion of a whole object: its spec and status, and the annotation with data of the other version.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{super::GROUP, parts::Part};

/// The name of the annotation in Cluster API and its providers (`util/conversion`).
const CONVERSION_DATA: &str = "cluster.x-k8s.io/conversion-data";

/// The content of the annotation: the spec and status of the object in the other version, each only if needed.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept<Spec, Status> {
    api_version: String,
    kind: String,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    spec: Option<Spec>,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
}

fn none<T>() -> Option<T> {
    None
}

impl<Spec: DeserializeOwned, Status: DeserializeOwned> Kept<Spec, Status> {
    /// Removes the annotation and parses it. Content that cannot be parsed is dropped.
    fn take(metadata: &mut ObjectMeta, api_version: &str, kind: &str) -> Option<Self> {
        let annotations = metadata.annotations.as_mut()?;
        let text = annotations.remove(CONVERSION_DATA)?;
        if annotations.is_empty() {
            metadata.annotations = None;
        }
        let kept: Self = serde_json::from_str(&text).ok()?;
        (kept.api_version == api_version && kept.kind == kind).then_some(kept)
    }
}

impl<Spec: Serialize, Status: Serialize> Kept<Spec, Status> {
    fn put(self, metadata: &mut ObjectMeta) {
        let text = serde_json::to_string(&self).expect("a spec and a status are JSON");
        metadata
            .annotations
            .get_or_insert_default()
            .insert(CONVERSION_DATA.to_owned(), text);
    }
}

/// Converts an object of one version to the other.
pub(super) fn converted<Spec, Status>(
    mut metadata: ObjectMeta,
    spec: Spec,
    status: Option<Status>,
    kind: &str,
    [from, to]: [&str; 2],
) -> (ObjectMeta, Spec::Other, Option<Status::Other>)
where
    Spec: Part + Serialize,
    Spec::Other: DeserializeOwned,
    Status: Part + Serialize,
    Status::Other: DeserializeOwned,
{
    let [from, to] = [from, to].map(|version| format!("{GROUP}/{version}"));
    let kept = Kept::<Spec::Other, Status::Other>::take(&mut metadata, &to, kind);
    let (kept_spec, kept_status) = kept.map_or((None, None), |kept| (kept.spec, kept.status));
    let other_spec = spec.with(kept_spec);
    let other_status = status.as_ref().map(|status| status.with(kept_status));
    let spec = (other_spec.plainly() != spec).then_some(spec);
    let status = status.filter(|status| {
        other_status
            .as_ref()
            .is_none_or(|other_status| other_status.plainly() != *status)
    });
    if spec.is_some() || status.is_some() {
        Kept {
            api_version: from,
            kind: kind.to_owned(),
            spec,
            status,
        }
        .put(&mut metadata);
    }
    (metadata, other_spec, other_status)
}
