//! The namespaces of managers, from definitions and webhook configurations: both have no namespace themselves, and name
//! the Service of their manager.

use std::collections::BTreeSet;

use k8s_openapi::{
    api::admissionregistration::v1::{
        MutatingWebhookConfiguration, ServiceReference, ValidatingWebhookConfiguration,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, Client, api::ListParams};

use crate::{
    exit::{Exit, Problem},
    install::objects::NAMESPACE,
};

/// A definition of ours that has a conversion.
const DEFINITION: &str = "inmemoryclusters.infrastructure.cluster.x-k8s.io";
/// The label of webhook configurations of providers.
const PROVIDER: &str = "cluster.x-k8s.io/provider";
const OURS: &str = "cluster.x-k8s.io/provider=infrastructure-in-memory";

/// Flags that say where the manager is.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct NamespaceArgs {
    /// Namespace of the manager [default: that of the Service which the definitions and webhooks of Nephele name;
    /// nephele-system if you may not read these]
    #[arg(long, value_name = "NAMESPACE")]
    pub(crate) manager_namespace: Option<String>,
}

/// Flags that say where the manager is, and how its pod is known.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ProviderArgs {
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
    /// Trust the only pod in that namespace where it elects no leader and so publishes no certificate.
    #[arg(long)]
    pub(crate) insecure_manager: bool,
}

/// The namespace of the manager.
///
/// # Errors
/// When no object names it, or several different ones are named, or the API server does not answer.
pub(crate) async fn namespace(client: &Client, args: &NamespaceArgs) -> Result<String, Problem> {
    if let Some(namespace) = &args.manager_namespace {
        return Ok(namespace.clone());
    }
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let definition = match definitions.get_opt(DEFINITION).await {
        // Tenants may not look: the manager of most installations has its usual place.
        Err(kube::Error::Api(status)) if status.code == 403 => return Ok(NAMESPACE.to_owned()),
        read => read.map_err(|error| refused("get customresourcedefinitions", error))?,
    };
    let of_definition = definition.as_ref().and_then(of_conversion);
    match of_definition {
        Some(namespace) => Ok(namespace),
        None => only(of_webhooks(client, OURS).await?),
    }
}

/// The namespaces of the managers of all providers.
///
/// # Errors
/// When the objects that name them cannot be read.
pub(crate) async fn namespaces_of_all(client: &Client) -> Result<BTreeSet<String>, Problem> {
    of_webhooks(client, PROVIDER).await
}

fn refused(permission: &str, error: kube::Error) -> Problem {
    let permission = format!("{permission} (or set --manager-namespace)");
    Problem::request("find the manager's namespace", &permission, error)
}

fn of_conversion(definition: &CustomResourceDefinition) -> Option<String> {
    let webhook = definition.spec.conversion.as_ref()?.webhook.as_ref()?;
    Some(
        webhook
            .client_config
            .as_ref()?
            .service
            .as_ref()?
            .namespace
            .clone(),
    )
}

/// The namespaces of the Services that webhook configurations with these labels name.
async fn of_webhooks(client: &Client, labels: &str) -> Result<BTreeSet<String>, Problem> {
    let params = ListParams::default().labels(labels);
    let validating = Api::<ValidatingWebhookConfiguration>::all(client.clone())
        .list(&params)
        .await;
    let validating =
        unless_missing(validating).map_err(|error| refused("list validatingwebhookconfigurations", error))?;
    let mutating = Api::<MutatingWebhookConfiguration>::all(client.clone())
        .list(&params)
        .await;
    let mutating =
        unless_missing(mutating).map_err(|error| refused("list mutatingwebhookconfigurations", error))?;
    let services = |service: Option<ServiceReference>| service.map(|service| service.namespace);
    let validating = validating
        .into_iter()
        .flat_map(|one| one.webhooks.unwrap_or_default());
    let mutating = mutating
        .into_iter()
        .flat_map(|one| one.webhooks.unwrap_or_default());
    let clients = validating.map(|webhook| webhook.client_config);
    let clients = clients.chain(mutating.map(|webhook| webhook.client_config));
    Ok(clients.filter_map(|client| services(client.service)).collect())
}

/// An API server that serves no such kind has no object of it.
fn unless_missing<K: Clone>(listed: kube::Result<kube::core::ObjectList<K>>) -> kube::Result<Vec<K>> {
    match listed {
        Ok(listed) => Ok(listed.items),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn only(namespaces: BTreeSet<String>) -> Result<String, Problem> {
    let mut all = namespaces.iter();
    match (all.next(), all.next()) {
        (Some(namespace), None) => Ok(namespace.clone()),
        (None, _) => Err(Problem::new(
            Exit::NotFound,
            "neither a definition nor a webhook configuration names the manager's namespace; is the infrastructure \
             provider installed in this cluster? --manager-namespace names one",
        )),
        (Some(_), Some(_)) => {
            let names = namespaces.into_iter().collect::<Vec<_>>().join(", ");
            let message =
                format!("there are managers in the namespaces {names}; choose one with --manager-namespace");
            Err(Problem::new(Exit::Failed, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use nephele_testkit::ManagementApi;

    use super::*;

    #[test]
    fn one_namespace_is_taken_and_several_need_the_flag() {
        let of = |names: &[&str]| only(names.iter().map(|&name| name.to_owned()).collect());
        assert_eq!(of(&["nephele-system"]).expect("one"), "nephele-system");
        assert!(
            of(&[])
                .expect_err("none")
                .to_string()
                .contains("--manager-namespace names one")
        );
        assert_eq!(
            of(&["a", "b"]).expect_err("two").to_string(),
            "there are managers in the namespaces a, b; choose one with --manager-namespace"
        );
    }

    #[tokio::test]
    async fn who_may_not_look_takes_the_usual_namespace() {
        let management = ManagementApi::start();
        let tenant = management.forbidding(|_, path| path.contains("customresourcedefinitions"));
        let found = namespace(&tenant, &NamespaceArgs::default()).await;
        assert_eq!(found.expect("the usual one"), NAMESPACE);
        let named = NamespaceArgs {
            manager_namespace: Some("cloud".to_owned()),
        };
        assert_eq!(namespace(&tenant, &named).await.expect("the named one"), "cloud");
    }

    #[test]
    fn our_definitions_name_the_namespace_of_the_installation() {
        let definition = nephele_api::crds()
            .into_iter()
            .find(|one| one.metadata.name.as_deref() == Some(DEFINITION));
        assert_eq!(
            definition.as_ref().and_then(of_conversion).as_deref(),
            Some("nephele-system")
        );
    }
}
