//! Cluster-scoped kinds that have the spec and the status of a namespaced one.

/// Makes the kind `$kind` from the namespaced `$local`, which `CustomResource` derives.
///
/// A spec can only be derived into one kind, and with two equal specs all code over them would be needed twice.
macro_rules! global_kind {
    ($(#[$doc:meta])* $kind:ident, $plural:literal, $description:literal, of $local:ident, $version:ident, $spec:ty, $status:ty) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, serde::Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        pub struct $kind {
            /// The object's metadata.
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            /// The desired state.
            pub spec: $spec,
            /// The observed state.
            pub status: Option<$status>,
        }

        impl $kind {
            /// An object of this name.
            #[must_use]
            pub fn new(name: &str, spec: $spec) -> Self {
                let mut pool = Self { spec, ..Self::default() };
                pool.metadata.name = Some(name.to_owned());
                pool
            }

            /// Its CRD with only this version.
            pub(crate) fn crd()
            -> k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition {
                let local = <$local as kube::CustomResourceExt>::crd();
                crate::ipam::global::cluster_scoped(local, stringify!($kind), $plural, $description)
            }
        }

        impl serde::Serialize for $kind {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeStruct as _;
                let fields = 4 + usize::from(self.status.is_some());
                let mut object = serializer.serialize_struct(stringify!($kind), fields)?;
                object.serialize_field("apiVersion", &<Self as kube::Resource>::api_version(&()))?;
                object.serialize_field("kind", stringify!($kind))?;
                object.serialize_field("metadata", &self.metadata)?;
                object.serialize_field("spec", &self.spec)?;
                if let Some(status) = &self.status {
                    object.serialize_field("status", status)?;
                }
                object.end()
            }
        }

        impl kube::Resource for $kind {
            type DynamicType = ();
            type Scope = kube::core::ClusterResourceScope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                stringify!($kind).into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                crate::ipam::group::GROUP.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                stringify!($version).into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }

        impl kube::core::object::HasSpec for $kind {
            type Spec = $spec;

            fn spec(&self) -> &Self::Spec {
                &self.spec
            }

            fn spec_mut(&mut self) -> &mut Self::Spec {
                &mut self.spec
            }
        }

        impl kube::core::object::HasStatus for $kind {
            type Status = $status;

            fn status(&self) -> Option<&Self::Status> {
                self.status.as_ref()
            }

            fn status_mut(&mut self) -> &mut Option<Self::Status> {
                &mut self.status
            }
        }
    };
}

pub(crate) use global_kind;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// The CRD of the cluster-scoped twin.
pub(crate) fn cluster_scoped(
    mut definition: CustomResourceDefinition,
    kind: &str,
    plural: &str,
    description: &str,
) -> CustomResourceDefinition {
    definition.metadata.name = Some(format!("{plural}.{}", definition.spec.group));
    definition.spec.scope = "Cluster".to_owned();
    definition.spec.names.kind = kind.to_owned();
    definition.spec.names.plural = plural.to_owned();
    definition.spec.names.singular = Some(kind.to_lowercase());
    for version in &mut definition.spec.versions {
        let schema = version
            .schema
            .as_mut()
            .and_then(|schema| schema.open_api_v3_schema.as_mut());
        schema.expect("the derive writes a schema").description = Some(description.to_owned());
    }
    definition
}
