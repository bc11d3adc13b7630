//! `nephele fault heal`.

use std::{fmt::Debug, process::ExitCode};

use clap::Args;
use kube::{
    Api, Resource, ResourceExt as _,
    api::{DeleteParams, ListParams},
};
use nephele_api::cloud::{
    CLUSTER_FAULT_LABEL,
    v1alpha1::{ClusterFault, Fault},
};
use serde::de::DeserializeOwned;

use crate::{
    access::AccessArgs,
    exit::{Exit, Problem},
    output::print,
};

/// Which faults.
#[derive(Debug, Args)]
pub(crate) struct HealArgs {
    /// Names of Faults.
    #[arg(required_unless_present = "all")]
    names: Vec<String>,
    /// All Faults of the namespace
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// ClusterFaults instead, with their Faults in all namespaces
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    #[command(flatten)]
    access: AccessArgs,
}

/// Deletes the Faults.
pub(super) async fn run(args: HealArgs) -> anyhow::Result<ExitCode> {
    let HealArgs {
        names,
        all,
        all_namespaces,
        access,
    } = args;
    let access = access.open().await?;
    let names = Some(names).filter(|_| !all);
    let (called, healed) = if all_namespaces {
        let api: Api<ClusterFault> = Api::all(access.client);
        ("ClusterFault ".to_owned(), heal(&api, None, names).await?)
    } else {
        let api: Api<Fault> = Api::namespaced(access.client, &access.namespace);
        (
            format!("Fault {}/", access.namespace),
            heal(&api, Some(&access.namespace), names).await?,
        )
    };
    for name in healed {
        print(&format!("{called}{name} is deleted\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Deletes Faults by name, or all of them. Returns their names. Those of a ClusterFault are left out, because they would be made
/// again.
pub(crate) async fn heal<K>(
    api: &Api<K>,
    namespace: Option<&str>,
    names: Option<Vec<String>>,
) -> anyhow::Result<Vec<String>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let kind = K::kind(&());
    let plural = K::plural(&());
    let place = namespace
        .map(|namespace| format!(" in namespace {namespace}"))
        .unwrap_or_default();
    let is_all = names.is_none();
    let failed = |what: String, verb: &str, error| {
        Problem::request(&what, &format!("{verb} {plural}.cloud.nephele.dev"), error)
    };
    let found = match names {
        None => {
            let listed = api.list(&ListParams::default()).await;
            let listed = listed.map_err(|error| failed(format!("list the {kind}s{place}"), "list", error))?;
            listed
                .items
                .into_iter()
                .filter(|fault| cluster_fault(fault).is_none())
                .collect()
        }
        Some(names) => {
            let mut found = Vec::new();
            for name in names {
                let read = api.get_opt(&name).await;
                let read =
                    read.map_err(|error| failed(format!("read {kind} {name}{place}"), "get", error))?;
                found.push(read.ok_or_else(|| {
                    Problem::new(Exit::NotFound, format!("there is no {kind} {name}{place}"))
                })?);
            }
            found
        }
    };
    let mut healed = Vec::new();
    for fault in found {
        let name = fault.name_any();
        if let Some(cluster_fault) = cluster_fault(&fault) {
            let message = format!(
                "{kind} {name}{place} is of the ClusterFault {cluster_fault} and would be made again; heal that with \
                 `nephele fault heal --all-namespaces {cluster_fault}`"
            );
            return Err(Problem::new(Exit::Failed, message).into());
        }
        match api.delete(&name, &DeleteParams::default()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 && is_all => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {
                return Err(Problem::new(Exit::NotFound, format!("there is no {kind} {name}{place}")).into());
            }
            Err(error) => return Err(failed(format!("delete {kind} {name}{place}"), "delete", error).into()),
        }
        healed.push(name);
    }
    Ok(healed)
}

/// The ClusterFault that has made a Fault.
fn cluster_fault<K: Resource<DynamicType = ()>>(fault: &K) -> Option<&str> {
    let is_made = fault
        .owner_references()
        .iter()
        .any(|owner| owner.kind == ClusterFault::kind(&()));
    fault
        .labels()
        .get(CLUSTER_FAULT_LABEL)
        .filter(|_| is_made)
        .map(String::as_str)
}

#[cfg(test)]
mod tests {
    use kube::api::PostParams;
    use nephele_testkit::ManagementApi;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn named_faults_or_all_are_deleted() {
        let management = ManagementApi::start();
        for name in ["a", "b", "c"] {
            let fault = json!({ "metadata": { "name": name, "namespace": "default" }, "spec": { "effect": { "freeze": {} } } });
            management
                .create(&serde_json::from_value::<Fault>(fault).expect("a Fault"))
                .await;
        }
        let api: Api<Fault> = management.api();
        let named = |name: &str| Some(vec![name.to_owned()]);
        let place = Some("default");
        let healed = heal(&api, place, named("b")).await.expect("it is there");
        assert_eq!(healed, ["b"]);
        let exit = |error: anyhow::Error| error.downcast_ref::<Problem>().expect("a problem").exit;
        assert_eq!(
            exit(heal(&api, place, named("b")).await.expect_err("it is gone")),
            Exit::NotFound
        );
        assert_eq!(heal(&api, place, None).await.expect("they are there"), ["a", "c"]);
        assert_eq!(api.list(&ListParams::default()).await.expect("a list").items, []);
    }

    #[tokio::test]
    async fn a_fault_of_a_cluster_fault_is_healed_with_it() {
        let management = ManagementApi::start();
        let cluster_faults: Api<ClusterFault> = Api::all(management.client());
        let object = json!({ "metadata": { "name": "all" }, "spec": { "effect": { "freeze": {} } } });
        let object = serde_json::from_value(object).expect("a ClusterFault");
        let made = cluster_faults
            .create(&PostParams::default(), &object)
            .await
            .expect("it is taken");
        let owner = json!({
            "apiVersion": "cloud.nephele.dev/v1alpha1", "kind": "ClusterFault", "name": "all", "uid": made.uid(),
        });
        let fault = json!({
            "metadata": {
                "name": "cluster-fault-all", "namespace": "default", "ownerReferences": [owner],
                "labels": { CLUSTER_FAULT_LABEL: "all" },
            },
            "spec": { "effect": { "freeze": {} } },
        });
        management
            .create(&serde_json::from_value::<Fault>(fault).expect("a Fault"))
            .await;
        let faults: Api<Fault> = management.api();
        let refused = heal(
            &faults,
            Some("default"),
            Some(vec!["cluster-fault-all".to_owned()]),
        )
        .await;
        let message = refused.expect_err("it would be made again").to_string();
        assert!(
            message.contains("nephele fault heal --all-namespaces all"),
            "{message}"
        );
        assert_eq!(
            heal(&faults, Some("default"), None)
                .await
                .expect("none of its own"),
            [""; 0]
        );
        assert_eq!(
            heal(&cluster_faults, None, None).await.expect("it is there"),
            ["all"]
        );
        management.eventually_gone::<Fault>("cluster-fault-all").await;
    }
}
