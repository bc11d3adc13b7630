//! `nephele template`: the cluster templates of a release, for `clusterctl generate cluster --from -`.

use std::process::ExitCode;

use clap::ValueEnum;

use crate::output::print;

/// Which template to print.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The flavor of the template.
    #[arg(value_enum, default_value_t = Flavor::Plain)]
    flavor: Flavor,
}

/// A flavor, as clusterctl names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Flavor {
    /// A KubeadmControlPlane and a MachineDeployment: what clusterctl calls no flavor.
    Plain,
    /// A cluster of the ClusterClass `in-memory`, with the class.
    Topology,
    /// As topology, with machines that take time to start.
    Scale,
    /// A KubeadmControlPlane and a MachinePool.
    MachinePool,
    /// As plain, with addresses from a pool.
    Ipam,
    /// As plain, with workers that the cluster autoscaler scales.
    Autoscaler,
}

/// The class of the flavors that have one. clusterctl adds it to templates of a release, but not to one that it reads
/// from standard input.
const CLASS: &str = include_str!("../../../../config/templates/clusterclass-in-memory.yaml");

impl Flavor {
    /// The template of one cluster.
    pub(crate) fn cluster(self) -> &'static str {
        match self {
            Self::Plain => include_str!("../../../../config/templates/cluster-template.yaml"),
            Self::MachinePool => {
                include_str!("../../../../config/templates/cluster-template-machine-pool.yaml")
            }
            Self::Ipam => include_str!("../../../../config/templates/cluster-template-ipam.yaml"),
            Self::Autoscaler => include_str!("../../../../config/templates/cluster-template-autoscaler.yaml"),
            Self::Topology => include_str!("../../../../config/templates/cluster-template-topology.yaml"),
            Self::Scale => include_str!("../../../../config/templates/cluster-template-scale.yaml"),
        }
    }

    /// The class that all clusters of the flavor share.
    pub(crate) fn class(self) -> Option<&'static str> {
        match self {
            Self::Topology | Self::Scale => Some(CLASS),
            Self::Plain | Self::MachinePool | Self::Ipam | Self::Autoscaler => None,
        }
    }

    fn text(self) -> String {
        match self.class() {
            Some(class) => format!("{class}---\n{}", self.cluster()),
            None => self.cluster().to_owned(),
        }
    }
}

/// Prints the template.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    print(&args.flavor.text())?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize as _;
    use serde_yaml_ng::{Deserializer, Value};

    use super::*;

    #[test]
    fn every_template_has_one_cluster_and_the_class_that_it_names() {
        for flavor in Flavor::value_variants() {
            let text = flavor.text();
            let objects: Vec<_> = Deserializer::from_str(&text)
                .map(|document| Value::deserialize(document).expect("YAML"))
                .filter(|object| !object.is_null())
                .collect();
            let of = |kind: &str| {
                objects
                    .iter()
                    .filter(|object| object["kind"] == kind)
                    .collect::<Vec<_>>()
            };
            let [cluster] = of("Cluster")[..] else {
                panic!("{flavor:?} has not one Cluster")
            };
            let class = cluster["spec"]
                .get("topology")
                .map(|topology| &topology["classRef"]["name"]);
            let classes: Vec<_> = of("ClusterClass")
                .into_iter()
                .map(|class| &class["metadata"]["name"])
                .collect();
            assert_eq!(class.into_iter().collect::<Vec<_>>(), classes, "{flavor:?}");
        }
    }
}
