//! `nephele fault heal`.

use std::process::ExitCode;

use clap::Args;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt as _};
use nephele_api::cloud::v1alpha1::Fault;

use crate::access::AccessArgs;
use crate::exit::{Exit, Problem};
use crate::output::print;

/// Which faults.
#[derive(Debug, Args)]
pub(crate) struct HealArgs {
    /// Names of Faults.
    #[arg(required_unless_present = "all")]
    names: Vec<String>,
    /// All Faults of the namespace
    #[arg(long, conflicts_with = "names")]
    all: bool,
    #[command(flatten)]
    access: AccessArgs,
}

/// Deletes the Faults.
pub(super) async fn run(args: HealArgs) -> anyhow::Result<ExitCode> {
    let HealArgs { names, all, access } = args;
    let access = access.open().await?;
    let api: Api<Fault> = Api::namespaced(access.client, &access.namespace);
    for name in heal(&api, &access.namespace, names, all).await? {
        print(&format!("Fault {}/{name} is deleted\n", access.namespace))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Deletes Faults by name, or all of them. Returns their names.
async fn heal(
    api: &Api<Fault>,
    namespace: &str,
    names: Vec<String>,
    all: bool,
) -> anyhow::Result<Vec<String>> {
    let names = if all {
        let listed = api.list(&ListParams::default()).await.map_err(|error| {
            let what = format!("list the Faults of namespace {namespace}");
            Problem::request(&what, "list faults.cloud.nephele.dev", error)
        })?;
        listed.iter().map(Fault::name_any).collect()
    } else {
        names
    };
    for name in &names {
        match api.delete(name, &DeleteParams::default()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 && all => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {
                let message = format!("there is no Fault {name} in namespace {namespace}");
                return Err(Problem::new(Exit::NotFound, message).into());
            }
            Err(error) => {
                let what = format!("delete Fault {namespace}/{name}");
                return Err(Problem::request(&what, "delete faults.cloud.nephele.dev", error).into());
            }
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use nephele_testkit::ManagementApi;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn named_faults_or_all_are_deleted() {
        let management = ManagementApi::start();
        for name in ["a", "b", "c"] {
            let fault =
                json!({ "metadata": { "name": name, "namespace": "default" }, "spec": { "effect": {} } });
            management.create(&serde_json::from_value::<Fault>(fault).expect("a Fault")).await;
        }
        let api: Api<Fault> = management.api();
        let healed = heal(&api, "default", vec!["b".to_owned()], false).await.expect("it is there");
        assert_eq!(healed, ["b"]);
        let again = heal(&api, "default", vec!["b".to_owned()], false).await.expect_err("it is gone");
        assert_eq!(again.downcast_ref::<Problem>().expect("a problem").exit, Exit::NotFound);
        assert_eq!(heal(&api, "default", Vec::new(), true).await.expect("they are there"), ["a", "c"]);
        assert_eq!(api.list(&ListParams::default()).await.expect("a list").items, []);
    }
}
