//! Cluster API's variable `builtin` (Cluster API, `topologymutation_variable_types.go`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Declares structures whose fields may all be absent.
macro_rules! builtins {
    ($($(#[$attribute:meta])* pub struct $name:ident {
        $($(#[$note:meta])* pub $field:ident: $type:ty,)*
    })*) => {
        $(
            $(#[$attribute])*
            #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
            #[serde(rename_all = "camelCase", default)]
            pub struct $name {
                $(
                    $(#[$note])*
                    #[serde(skip_serializing_if = "Option::is_none")]
                    pub $field: Option<$type>,
                )*
            }
        )*
    };
}

builtins! {
    /// The variable `builtin` of a template. Read it with `variables.decode::<Builtins>("builtin")`.
    ///
    /// Cluster API sends only one of the control plane, the MachineDeployment and the MachinePool: the one that the
    /// template is for. It omits the parts that a patch has no variables for.
    pub struct Builtins {
        /// The Cluster.
        pub cluster: ClusterBuiltins,
        /// The control plane, in its templates.
        pub control_plane: ControlPlaneBuiltins,
        /// The `MachineDeployment`, in its templates.
        pub machine_deployment: MachineDeploymentBuiltins,
        /// The `MachinePool`, in its templates.
        pub machine_pool: MachinePoolBuiltins,
    }

    /// Labels and annotations.
    pub struct BuiltinMetadata {
        /// Labels.
        pub labels: BTreeMap<String, String>,
        /// Annotations.
        pub annotations: BTreeMap<String, String>,
    }

    /// The builtin variables of a Cluster.
    pub struct ClusterBuiltins {
        /// Its name.
        pub name: String,
        /// Its namespace.
        pub namespace: String,
        /// Its uid.
        pub uid: String,
        /// Its labels and annotations.
        pub metadata: BuiltinMetadata,
        /// Its topology.
        pub topology: ClusterTopologyBuiltins,
        /// Its network.
        pub network: ClusterNetworkBuiltins,
    }

    /// The builtin variables of a Cluster's topology.
    pub struct ClusterTopologyBuiltins {
        /// The desired Kubernetes version.
        pub version: String,
        /// Its class.
        pub class_ref: ClassReferenceBuiltins,
        /// The name of its class, as it was sent before `classRef` existed.
        pub class: String,
        /// The namespace of its class, as it was sent before `classRef` existed.
        pub class_namespace: String,
    }

    /// The class of a cluster.
    pub struct ClassReferenceBuiltins {
        /// Its name.
        pub name: String,
        /// Its namespace.
        pub namespace: String,
    }

    /// The builtin variables of a Cluster's network.
    pub struct ClusterNetworkBuiltins {
        /// The domain of services.
        pub service_domain: String,
        /// Ranges of services, as CIDRs.
        pub services: Vec<String>,
        /// Ranges of pods, as CIDRs.
        pub pods: Vec<String>,
    }

    /// The builtin variables of a control plane.
    pub struct ControlPlaneBuiltins {
        /// The Kubernetes version that it should have now. During an upgrade this may be an intermediate version.
        pub version: String,
        /// Its labels and annotations.
        pub metadata: BuiltinMetadata,
        /// Its name.
        pub name: String,
        /// The desired number of machines.
        pub replicas: i32,
        /// The template of its machines.
        pub machine_template: ControlPlaneMachineTemplateBuiltins,
    }

    /// The template of a control plane's machines.
    pub struct ControlPlaneMachineTemplateBuiltins {
        /// The template of their infrastructure.
        pub infrastructure_ref: NamedBuiltins,
    }

    /// The builtin variables of a `MachineDeployment`.
    pub struct MachineDeploymentBuiltins {
        /// The Kubernetes version that it should have now.
        pub version: String,
        /// Its labels and annotations.
        pub metadata: BuiltinMetadata,
        /// Its class.
        pub class: String,
        /// Its name.
        pub name: String,
        /// Its name in the topology.
        pub topology_name: String,
        /// The desired number of machines.
        pub replicas: i64,
        /// The template of its bootstrap configs.
        pub bootstrap: BootstrapBuiltins,
        /// The template of its infrastructure.
        pub infrastructure_ref: NamedBuiltins,
    }

    /// The builtin variables of a `MachinePool`.
    pub struct MachinePoolBuiltins {
        /// The Kubernetes version that it should have now.
        pub version: String,
        /// Its labels and annotations.
        pub metadata: BuiltinMetadata,
        /// Its class.
        pub class: String,
        /// Its name.
        pub name: String,
        /// Its name in the topology.
        pub topology_name: String,
        /// The desired number of machines.
        pub replicas: i64,
        /// Its bootstrap config.
        pub bootstrap: BootstrapBuiltins,
        /// Its infrastructure.
        pub infrastructure_ref: NamedBuiltins,
    }

    /// The bootstrap configuration of machines.
    pub struct BootstrapBuiltins {
        /// The config, or its template.
        pub config_ref: NamedBuiltins,
    }

    /// An object by its name.
    pub struct NamedBuiltins {
        /// The name.
        pub name: String,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{hooks::Variable, topology::Variables};

    #[test]
    fn builtins_are_read_by_type() {
        let value = json!({
            "cluster": {
                "name": "c", "namespace": "n", "uid": "u", "metadata": { "labels": { "a": "b" } },
                "topology": { "version": "v1.36.0", "classRef": { "name": "k", "namespace": "n" }, "classNamespace": "n" },
                "network": { "serviceDomain": "cluster.local", "services": ["10.0.0.0/16"], "pods": ["10.1.0.0/16"] },
            },
            "controlPlane": {
                "version": "v1.36.0", "replicas": 3, "machineTemplate": { "infrastructureRef": { "name": "i" } },
            },
            "machineDeployment": {
                "topologyName": "md-0", "replicas": 5_000_000_000_i64, "bootstrap": { "configRef": { "name": "b" } },
            },
        });
        let variable = Variable {
            name: "builtin".to_owned(),
            value: value.clone(),
        };
        let builtins: Builtins = Variables::merged(&[variable], &[])
            .unwrap()
            .decode("builtin")
            .unwrap();
        assert_eq!(serde_json::to_value(&builtins).unwrap(), value);
        assert_eq!(
            builtins.machine_deployment.and_then(|it| it.replicas),
            Some(5_000_000_000)
        );
    }
}
