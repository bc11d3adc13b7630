//! `cargo xtask bench --peer`: Cluster API's in-memory provider and the in-cluster IPAM provider do the same work as
//! ours, in turn, on the same node.
//!
//! ```text
//!  clusters: ours 1 ─▶ peer 1 ─▶ ours 20 ─▶ peer 20      claims: ours ─▶ peer      ─▶ docs/figures.json
//! ```

use anyhow::Context;
use jiff::Zoned;
use nephele_e2e::{
    Management, Scope, Shape,
    manager::Provider::{Infrastructure, Ipam},
    templates,
};
use serde_json::{Value, json};

use super::{
    claims, clusters,
    processors::{Processors, resident_mib},
    quantiles::middle,
};
use crate::{
    cluster::{self, Cluster, ClusterApi, Peer},
    figures::{self, Claims, Clusters, Figures, Peers, Program},
    provider::Profile,
    target::Target,
};

/// Clusters that come up at once.
const CLUSTERS: usize = 20;
/// Claims on one pool.
const CLAIMS: usize = 2000;
/// The programs that serve both providers.
const SERVERS: [&str; 2] = ["kube-apiserver", "etcd"];

pub(super) fn run(target: &Target) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("failed to start a runtime")?;
    target.work_beside(Profile::Dist, |cluster| {
        let management = runtime.block_on(Management::of(&cluster.layout.kubeconfig()))?;
        let clusters = cluster::beside(cluster, Peer::InMemory, |_| {
            runtime.block_on(of_clusters(&management))
        })?;
        let ours = runtime.block_on(of_claims(&management, Ipam.namespace()))?;
        let theirs = cluster::beside(cluster, Peer::InCluster, |_| {
            runtime.block_on(of_claims(&management, Peer::InCluster.namespace()))
        })?;
        put_back(cluster)?;
        let mut figures = Figures::read()?;
        figures.peers = Some(Peers {
            date: Zoned::now().date(),
            cluster_api: ClusterApi::default().version().to_owned(),
            processors: std::thread::available_parallelism()
                .context("failed to count processors")?
                .get(),
            in_memory: Peer::InMemory.version()?,
            in_cluster: Peer::InCluster.version()?,
            clusters,
            claims: [ours, theirs],
        });
        for table in figures.tables()?.values() {
            println!("\n{table}");
        }
        figures.write()?;
        figures::fill_tables()
    })
}

/// Installs our IPAM provider again, which the peer of the same kinds has replaced.
fn put_back(cluster: &Cluster) -> anyhow::Result<()> {
    let clusterctl = cluster.tools.program("clusterctl");
    cluster::clusterctl(&cluster.layout, clusterctl, &["init", "--ipam", "in-cluster"]).map(drop)
}

async fn of_clusters(management: &Management) -> anyhow::Result<[Clusters; 2]> {
    let ours = async |scope: &Scope, name: &str| scope.of_class(name, Shape::new(1, 1)).await.map(drop);
    let theirs = async |scope: &Scope, name: &str| {
        let mut objects = development_class()?;
        objects.extend(templates::topology(&scope.namespace, name, Shape::new(1, 1))?);
        scope.management.apply(&scope.namespace, &objects).await
    };
    let round = |number| clusters::round(management.clone(), Infrastructure.namespace(), number, ours);
    let of_peer = |number| clusters::round(management.clone(), Peer::InMemory.namespace(), number, theirs);
    let alone = [round(1).await?, of_peer(1).await?];
    let first = figures(&alone[0], &round(CLUSTERS).await?)?;
    let second = figures(&alone[1], &of_peer(CLUSTERS).await?)?;
    Ok([first, second])
}

fn figures(alone: &clusters::Round, together: &clusters::Round) -> anyhow::Result<Clusters> {
    Ok(Clusters {
        number: CLUSTERS,
        seconds_alone: middle(&alone.available).as_secs_f64(),
        seconds_together: together
            .available
            .last()
            .copied()
            .unwrap_or_default()
            .as_secs_f64(),
        cpu_seconds_per_cluster: together.cpu_seconds() / CLUSTERS as f64,
        mib_per_cluster: together.mib_per_cluster(),
        servers: servers(&together.processors, |seconds| seconds / CLUSTERS as f64)?,
    })
}

async fn of_claims(management: &Management, namespace: &str) -> anyhow::Result<Claims> {
    let round = claims::round(management, namespace, CLAIMS, 1).await?;
    let binding = &round.binding;
    let releasing = &round.releasing;
    Ok(Claims {
        number: CLAIMS,
        bound_per_second: binding.per_second(),
        released_per_second: releasing.per_second(),
        cpu_ms_per_claim: binding.ms_per_claim(binding.processors.seconds("manager").unwrap_or_default()),
        servers: servers(&binding.processors, |seconds| binding.ms_per_claim(seconds))?,
    })
}

/// What the servers used, for each cluster or claim, and their memory now.
fn servers(used: &Processors, each: impl Fn(f64) -> f64) -> anyhow::Result<Vec<Program>> {
    let program = |name: &&str| {
        let cpu = each(used.seconds(name).unwrap_or_default());
        Ok(Program {
            name: (*name).to_owned(),
            cpu,
            resident_mib: resident_mib(name)?,
        })
    };
    SERVERS.iter().map(program).collect()
}

/// The released ClusterClass with the machines of Cluster API's in-memory provider, which start without delay, too. It has
/// no variables, because its patches are of our kinds.
fn development_class() -> anyhow::Result<Vec<Value>> {
    let ours = templates::class()?
        .into_iter()
        .filter(|object| object["kind"] != "InMemoryMachinePoolTemplate");
    Ok(ours.map(of_development).collect())
}

fn of_development(mut object: Value) -> Value {
    for template in ["InMemoryClusterTemplate", "InMemoryMachineTemplate"] {
        if object["kind"] == template {
            object["kind"] = json!(template.replace("InMemory", "Dev"));
            object["spec"] = json!({"template": {"spec": {"backend": {"inMemory": {}}}}});
        }
    }
    if object["kind"] == "ClusterClass" {
        let spec = &mut object["spec"];
        for left_out in ["variables", "patches"] {
            spec.as_object_mut().map(|spec| spec.remove(left_out));
        }
        spec["workers"]
            .as_object_mut()
            .map(|workers| workers.remove("machinePools"));
        rename(spec);
    }
    object
}

/// Renames the kinds of references.
fn rename(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field
                    .as_str()
                    .filter(|_| name == "kind")
                    .and_then(|kind| kind.strip_prefix("InMemory"))
                {
                    Some(kind) => *field = json!(format!("Dev{kind}")),
                    None => rename(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(rename),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_of_the_peer_has_no_kind_of_ours() {
        let objects = development_class().expect("a class");
        let text = Value::from(objects.clone()).to_string();
        assert!(!text.contains("\"InMemory"), "{text}");
        let kinds: Vec<_> = objects
            .iter()
            .filter_map(|object| object["kind"].as_str())
            .collect();
        for kind in [
            "ClusterClass",
            "DevClusterTemplate",
            "DevMachineTemplate",
            "KubeadmControlPlaneTemplate",
        ] {
            assert!(kinds.contains(&kind), "{kinds:?}");
        }
    }
}
