//! The kinds that a server serves.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use crate::store::GroupResource;

/// One served kind.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceType {
    /// API group, empty for the core group.
    pub group: String,
    /// Served versions, preferred first.
    pub versions: Vec<String>,
    /// Kind, as in `Pod`.
    pub kind: String,
    /// Kind of its list, as in `PodList`.
    pub list_kind: String,
    /// Plural, lower case.
    pub plural: String,
    /// Singular, lower case.
    pub singular: String,
    /// Short names for `kubectl`.
    pub short_names: Vec<String>,
    /// Categories for `kubectl get all`.
    pub categories: Vec<String>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Whether status can only be written through its subresource.
    pub status: bool,
    /// Whether `metadata.generation` counts changes of the desired state.
    pub generation: bool,
    /// Subresources besides status.
    pub subresources: &'static [&'static str],
    /// Extra printer columns, for kinds of a CustomResourceDefinition.
    pub columns: Vec<PrinterColumn>,
    /// Whether a CustomResourceDefinition added it.
    pub custom: bool,
}

/// A printer column of a CustomResourceDefinition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PrinterColumn {
    /// Heading.
    pub name: String,
    /// OpenAPI type.
    pub kind: String,
    /// JSONPath of the cell's value.
    pub json_path: String,
    /// Zero for the standard view, more for the wide one.
    pub priority: i64,
    /// Description of the column.
    pub description: String,
}

impl ResourceType {
    /// The collection.
    #[must_use]
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.plural)
    }

    /// Whether its objects define kinds.
    pub(crate) fn is_definition(&self) -> bool {
        self.group == "apiextensions.k8s.io" && self.kind == "CustomResourceDefinition"
    }

    /// `apiVersion` under one of its versions.
    #[must_use]
    pub fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() { version.to_owned() } else { format!("{}/{version}", self.group) }
    }
}

/// The built-in kinds of a server. Cloning shares them: all servers of a process have one table.
#[derive(Clone, Debug)]
pub struct Registry {
    types: Arc<BTreeMap<GroupResource, Arc<ResourceType>>>,
}

static KUBERNETES: LazyLock<Registry> = LazyLock::new(|| Registry { types: Arc::new(Table::kubernetes().0) });

const NONE: &[&str] = &[];
const NAMESPACED: bool = true;
const CLUSTER: bool = false;

impl Registry {
    /// The built-in kinds that Cluster API's controllers, `kubectl` and common add-ons use.
    #[must_use]
    pub fn kubernetes() -> Self {
        KUBERNETES.clone()
    }

    pub(crate) fn get(&self, resource: &GroupResource) -> Option<&Arc<ResourceType>> {
        self.types.get(resource)
    }

    pub(crate) fn types(&self) -> impl Iterator<Item = &Arc<ResourceType>> {
        self.types.values()
    }
}

/// The table from which a registry is built.
#[derive(Default)]
struct Table(BTreeMap<GroupResource, Arc<ResourceType>>);

impl Table {
    fn kubernetes() -> Self {
        let mut registry = Self::default();
        let core =
            |registry: &mut Self, plural: &str, kind: &str, short: &[&str], scope, status, subresources| {
                registry.add("", "v1", plural, kind, short, scope, status, false, subresources);
            };
        let r = &mut registry;
        core(r, "configmaps", "ConfigMap", &["cm"], NAMESPACED, false, NONE);
        core(r, "endpoints", "Endpoints", &["ep"], NAMESPACED, false, NONE);
        core(r, "events", "Event", &["ev"], NAMESPACED, false, NONE);
        core(r, "namespaces", "Namespace", &["ns"], CLUSTER, true, NONE);
        core(r, "nodes", "Node", &["no"], CLUSTER, true, NONE);
        core(r, "persistentvolumeclaims", "PersistentVolumeClaim", &["pvc"], NAMESPACED, true, NONE);
        core(r, "persistentvolumes", "PersistentVolume", &["pv"], CLUSTER, true, NONE);
        core(r, "pods", "Pod", &["po"], NAMESPACED, true, &["binding", "eviction", "log", "portforward"]);
        core(r, "resourcequotas", "ResourceQuota", &["quota"], NAMESPACED, true, NONE);
        core(r, "secrets", "Secret", &[], NAMESPACED, false, NONE);
        core(r, "serviceaccounts", "ServiceAccount", &["sa"], NAMESPACED, false, NONE);
        core(r, "services", "Service", &["svc"], NAMESPACED, true, NONE);
        let scale: &[&str] = &["scale"];
        r.add("apps", "v1", "daemonsets", "DaemonSet", &["ds"], NAMESPACED, true, true, NONE);
        r.add("apps", "v1", "deployments", "Deployment", &["deploy"], NAMESPACED, true, true, scale);
        r.add("apps", "v1", "replicasets", "ReplicaSet", &["rs"], NAMESPACED, true, true, scale);
        r.add("apps", "v1", "statefulsets", "StatefulSet", &["sts"], NAMESPACED, true, true, scale);
        r.add("batch", "v1", "cronjobs", "CronJob", &["cj"], NAMESPACED, true, true, NONE);
        r.add("batch", "v1", "jobs", "Job", &[], NAMESPACED, true, true, NONE);
        r.add("coordination.k8s.io", "v1", "leases", "Lease", &[], NAMESPACED, false, false, NONE);
        r.add(
            "discovery.k8s.io",
            "v1",
            "endpointslices",
            "EndpointSlice",
            &[],
            NAMESPACED,
            false,
            true,
            NONE,
        );
        r.add("events.k8s.io", "v1", "events", "Event", &["ev"], NAMESPACED, false, false, NONE);
        let (rbac, net, stor) = ("rbac.authorization.k8s.io", "networking.k8s.io", "storage.k8s.io");
        r.add(net, "v1", "ingresses", "Ingress", &["ing"], NAMESPACED, true, true, NONE);
        r.add(net, "v1", "networkpolicies", "NetworkPolicy", &["netpol"], NAMESPACED, false, true, NONE);
        let pdb = "PodDisruptionBudget";
        r.add("policy", "v1", "poddisruptionbudgets", pdb, &["pdb"], NAMESPACED, true, true, NONE);
        r.add(rbac, "v1", "clusterrolebindings", "ClusterRoleBinding", &[], CLUSTER, false, false, NONE);
        r.add(rbac, "v1", "clusterroles", "ClusterRole", &[], CLUSTER, false, false, NONE);
        r.add(rbac, "v1", "rolebindings", "RoleBinding", &[], NAMESPACED, false, false, NONE);
        r.add(rbac, "v1", "roles", "Role", &[], NAMESPACED, false, false, NONE);
        r.add(stor, "v1", "csidrivers", "CSIDriver", &[], CLUSTER, false, false, NONE);
        r.add(stor, "v1", "csinodes", "CSINode", &[], CLUSTER, false, false, NONE);
        r.add(stor, "v1", "storageclasses", "StorageClass", &["sc"], CLUSTER, false, false, NONE);
        r.add(stor, "v1", "volumeattachments", "VolumeAttachment", &[], CLUSTER, true, false, NONE);
        let crd = "CustomResourceDefinition";
        let group = "apiextensions.k8s.io";
        r.add(group, "v1", "customresourcedefinitions", crd, &["crd", "crds"], CLUSTER, true, true, NONE);
        let ac = "admissionregistration.k8s.io";
        let (mutating, validating) = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration");
        r.add(ac, "v1", "mutatingwebhookconfigurations", mutating, &[], CLUSTER, false, true, NONE);
        r.add(ac, "v1", "validatingwebhookconfigurations", validating, &[], CLUSTER, false, true, NONE);
        r.add(
            "scheduling.k8s.io",
            "v1",
            "priorityclasses",
            "PriorityClass",
            &["pc"],
            CLUSTER,
            false,
            false,
            NONE,
        );
        registry
    }

    #[expect(clippy::too_many_arguments, reason = "a row of the table above, read once")]
    fn add(
        &mut self,
        group: &str,
        version: &str,
        plural: &str,
        kind: &str,
        short_names: &[&str],
        namespaced: bool,
        status: bool,
        generation: bool,
        subresources: &'static [&'static str],
    ) {
        let all = [
            "pods",
            "services",
            "daemonsets",
            "deployments",
            "replicasets",
            "statefulsets",
            "jobs",
            "cronjobs",
        ];
        let kind = ResourceType {
            group: group.to_owned(),
            versions: vec![version.to_owned()],
            kind: kind.to_owned(),
            list_kind: format!("{kind}List"),
            plural: plural.to_owned(),
            singular: kind.to_lowercase(),
            short_names: short_names.iter().map(|&name| name.to_owned()).collect(),
            categories: if all.contains(&plural) { vec!["all".to_owned()] } else { Vec::new() },
            namespaced,
            status,
            generation,
            subresources,
            columns: Vec::new(),
            custom: false,
        };
        self.0.insert(kind.group_resource(), Arc::new(kind));
    }
}
