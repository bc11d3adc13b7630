//! `nephele workshop class`: a namespace, rights and a kubeconfig for each person of a class.
//!
//! ```text
//!  people ──▶ plan (pure): objects of each ──apply──▶ API server ──tokens──▶ folder: kubeconfigs, tokens, sheet
//! ```
//!
//! All that is known of a class is in the management cluster: its namespaces and its rights have a label with its name.

mod files;
mod plan;
mod remove;
mod sheet;
mod token;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::{core::v1::Namespace, rbac::v1::ClusterRole};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
};
use nephele_manager::DIAGNOSTICS_AUDIENCE;
use tokio_util::sync::CancellationToken;

use self::{
    plan::{Class, TENANT_ROLE},
    sheet::sheet,
    token::Token,
};
use crate::{
    access::TargetArgs,
    embedded::Folder,
    exit::{Exit, Problem},
    output::print,
    process::INTERRUPTED,
    provider::{self, NamespaceArgs},
};

pub(super) const AFTER_HELP: &str = "\
Each person gets a namespace, the rights of a tenant there, and the way to the manager: the commands
`workshop`, `fault`, `scenario`, `page`, `top`, `journal` and `connect` work in this namespace.
Print the sheet in the folder, and hand out the files.

Examples:
  nephele workshop class --people 30
  nephele workshop class --people 12 --name monday --valid 4h --folder monday
  nephele workshop class --remove --name monday";

/// The manager of the fields that are applied.
const FIELDS: &str = "nephele-workshop";
/// People whose objects are created at a time.
const AT_A_TIME: usize = 8;

/// Who the people are, and where.
#[derive(Debug, Args)]
pub(crate) struct ClassArgs {
    /// How many people there are
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=200), required_unless_present = "remove")]
    people: Option<u16>,
    /// Name of the class, with which the namespaces begin
    #[arg(long, value_name = "NAME", default_value = "workshop", value_parser = plan::name)]
    name: String,
    /// How long the kubeconfigs are valid; the API server may allow less
    #[arg(long, value_name = "DURATION", default_value = "12h", value_parser = nephele_go_duration::parse)]
    valid: Duration,
    /// Folder for the kubeconfigs, the tokens and the sheet [default: the name of the class]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Remove the class: its clusters, namespaces and rights
    #[arg(long, conflicts_with_all = ["people", "valid", "folder"])]
    remove: bool,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    provider: NamespaceArgs,
}

/// Makes or removes a class.
pub(super) async fn run(args: ClassArgs, shutdown: CancellationToken) -> anyhow::Result<ExitCode> {
    let done = shutdown.run_until_cancelled(carry_out(args)).await;
    match done {
        Some(done) => done.map(|()| ExitCode::SUCCESS),
        None => Ok(ExitCode::from(INTERRUPTED)),
    }
}

async fn carry_out(args: ClassArgs) -> anyhow::Result<()> {
    let ClassArgs {
        people,
        name,
        valid,
        folder,
        target,
        provider,
        ..
    } = args;
    let client = target.open().await?.client;
    let manager_namespace = provider::namespace(&client, &provider).await?;
    let class = Class {
        name,
        people: people.unwrap_or_default(),
        manager_namespace,
    };
    let Some(_) = people else {
        return remove::remove(&client, &class).await;
    };
    let server = target.server().await?.config;
    is_possible(&client, &class).await?;
    for object in class.shared() {
        apply(&client, &object).await?;
    }
    let wanted = folder.unwrap_or_else(|| PathBuf::from(&class.name));
    let folder = Folder::open(Some(&wanted), "nephele-class")?;
    let made = stream::iter(class.everyone()).map(async |person| {
        for object in class.of(&person) {
            apply(&client, &object).await?;
        }
        let usual = Token::request(&client, &person, None, valid).await?;
        let diagnostics = Token::request(&client, &person, Some(DIAGNOSTICS_AUDIENCE), valid).await?;
        files::write(&folder, &person, &server, &usual, &diagnostics)?;
        anyhow::Ok(usual.until.min(diagnostics.until))
    });
    let ends: Vec<_> = made.buffer_unordered(AT_A_TIME).try_collect().await?;
    let until = ends.into_iter().min().flatten();
    folder.write("sheet.html", &sheet(&class, until).into_string())?;
    print(&class.made(&wanted, server.cluster_url.host().unwrap_or_default(), until))?;
    Ok(())
}

/// Whether the rights of a tenant are there, and no namespace is in the way.
async fn is_possible(client: &Client, class: &Class) -> anyhow::Result<()> {
    let role = Api::<ClusterRole>::all(client.clone()).get_opt(TENANT_ROLE).await;
    let role =
        role.map_err(|error| Problem::request("find the rights of a tenant", "get clusterroles", error))?;
    if role.is_none() {
        let message = format!(
            "the management cluster has no ClusterRole {TENANT_ROLE}; is the provider installed there?"
        );
        return Err(Problem::new(Exit::NotFound, message).into());
    }
    let namespaces = Api::<Namespace>::all(client.clone());
    for person in class.everyone() {
        let found = namespaces.get_opt(&person.namespace).await;
        let found =
            found.map_err(|error| Problem::request("look for namespaces", "get namespaces", error))?;
        if let Some(found) = found.filter(|found| !class.has(&found.metadata)) {
            let name = found.metadata.name.unwrap_or_default();
            let message = format!("namespace {name} is there and not of this class; choose another --name");
            return Err(Problem::new(Exit::Failed, message).into());
        }
    }
    Ok(())
}

/// Creates an object, or makes it as it should be.
async fn apply(client: &Client, object: &DynamicObject) -> anyhow::Result<()> {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let types = object.types.clone().unwrap_or_default();
    let (group, version) = types
        .api_version
        .split_once('/')
        .unwrap_or(("", &types.api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &types.kind));
    let api: Api<DynamicObject> = match object.metadata.namespace.as_deref() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let applied = api
        .patch(name, &PatchParams::apply(FIELDS).force(), &Patch::Apply(object))
        .await;
    applied.map(drop).map_err(|error| {
        let what = format!("create {} {name}", types.kind);
        Problem::request(&what, &format!("patch {}", resource.plural), error).into()
    })
}
