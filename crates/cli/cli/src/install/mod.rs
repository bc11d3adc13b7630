//! `nephele install` and `nephele uninstall`: the manager on a management cluster, from this program alone.
//!
//! ```text
//!  this program ─▶ image (one layer) ─▶ kind, containerd, registry ─▶ nodes
//!       │                                                              │
//!       └─▶ objects (pure) ──server-side apply──▶ management cluster ──▶ manager's pod
//! ```

mod decide;
mod delivery;
mod kept;
mod leftovers;
pub(crate) mod management;
pub(crate) mod objects;
pub(crate) mod ready;
pub(crate) mod uninstall;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context as _, bail};
use serde_json::Value;

use self::{
    delivery::Destination,
    management::Management,
    objects::{NAMESPACE, Wanted, objects},
};
use crate::{access::TargetArgs, image};

/// The flags of `nephele install`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,
    /// How the nodes get an image of this program: kind[:CLUSTER], containerd[:SOCKET] or registry:HOST/REPOSITORY
    /// [default: kind, for a context of kind]
    #[arg(long, value_name = "DESTINATION", conflicts_with = "image")]
    load: Option<Destination>,
    /// Make the image from this static program for Linux, instead of from the running one.
    #[arg(long, value_name = "FILE", conflicts_with = "image")]
    program: Option<PathBuf>,
    /// Use this image of a registry, instead of making one.
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// How long to wait until the manager is ready.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = nephele_go_duration::parse)]
    time_limit: Duration,
}

/// Installs the manager, or upgrades it.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let management = Management::open_to_change(&args.target).await?;
    let roles = decide::roles(&management.look().await?)?;
    if let Some(note) = &roles.note {
        println!("The manager is not an IPAM provider: {note}.");
    }
    let wanted = match args.image {
        Some(image) => Wanted {
            image,
            on_nodes: false,
            ipam: roles.ipam,
        },
        None => {
            let destination = destination(args.load, args.target.context())?;
            let image = image::make(args.program.as_deref())?;
            println!(
                "Delivering the image {} ({} MB)",
                image.name,
                image.content.len() / 1_000_000
            );
            let delivered = destination.deliver(&image)?;
            Wanted {
                image: delivered.name,
                on_nodes: delivered.is_on_nodes,
                ipam: roles.ipam,
            }
        }
    };
    let objects = objects(&wanted, &|name| {
        std::env::var(name).ok().filter(|value| !value.is_empty())
    })?;
    println!("Applying {} objects", objects.len());
    apply(&management, &objects).await?;
    println!("Waiting until the manager is ready");
    let ready = ready::wait(&management, wanted.ipam, args.time_limit).await;
    ready.context("the objects are applied, and stay until `nephele uninstall` removes them")?;
    print!("{}", next_steps());
    Ok(ExitCode::SUCCESS)
}

/// Applies the objects, after all of them were asked about. A failure halfway leaves what was applied: the same command
/// continues.
async fn apply(management: &Management, objects: &[Value]) -> anyhow::Result<()> {
    for object in objects {
        if !leftovers::is_in_the_way(management, object).await? {
            management.rehearse(object).await?;
        }
    }
    for (number, object) in objects.iter().enumerate() {
        let applied = async {
            leftovers::clear(management, object).await?;
            management.apply(object).await
        };
        applied.await.with_context(|| {
            format!(
                "{number} of {} objects are applied; run the command again to continue",
                objects.len()
            )
        })?;
    }
    Ok(())
}

/// The chosen destination, or the one that the context stands for.
fn destination(chosen: Option<Destination>, context: Option<String>) -> anyhow::Result<Destination> {
    if let Some(chosen) = chosen {
        return Ok(chosen);
    }
    let context = context.unwrap_or_default();
    match Destination::of_context(&context) {
        Some(destination) => Ok(destination),
        None => bail!(
            "the context {context:?} is not one of kind, so nodes need the image in another way: name a \
             containerd or a registry with --load, or an image that nodes can pull with --image"
        ),
    }
}

fn next_steps() -> String {
    format!(
        "Nephele is installed in the namespace {NAMESPACE}.\n\n\
         Create a cluster:\n  \
         nephele template topology | clusterctl generate cluster demo --from - --kubernetes-version v1.36.3 \\\n    \
         --control-plane-machine-count 1 --worker-machine-count 2 | kubectl apply -f -\n\
         Reach it:\n  \
         nephele connect --all\n\
         Remove everything:\n  \
         kubectl delete cluster demo && nephele uninstall\n"
    )
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{ResourceExt, api::ListParams};
    use nephele_testkit::ManagementApi;
    use serde_json::json;

    use super::*;

    fn map(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}})
    }

    /// The names of the ConfigMaps that are there.
    async fn maps(api: &ManagementApi) -> Vec<String> {
        let list = api
            .api::<ConfigMap>()
            .list(&ListParams::default())
            .await
            .expect("a list");
        list.items.iter().map(ResourceExt::name_any).collect()
    }

    #[tokio::test]
    async fn nothing_is_applied_when_one_object_would_be_refused_and_a_failure_halfway_says_so() {
        let api = ManagementApi::start();
        let asked = Arc::new(AtomicUsize::new(0));
        for (passed, expected, there) in [
            (0, "failed to apply ConfigMap b; nothing was changed", vec![]),
            (
                1,
                "1 of 2 objects are applied; run the command again to continue",
                vec!["a".to_owned()],
            ),
        ] {
            asked.store(0, Ordering::Relaxed);
            let count = asked.clone();
            let client = api.forbidding(move |method, path| {
                method == "PATCH" && path.ends_with("/b") && count.fetch_add(1, Ordering::Relaxed) >= passed
            });
            let error = apply(&Management::of(client), &[map("a"), map("b")])
                .await
                .expect_err("refused");
            assert!(error.to_string().starts_with(expected), "{error:#}");
            assert_eq!(maps(&api).await, there);
        }
    }

    #[test]
    fn nodes_of_kind_get_the_image_without_being_asked_and_others_need_a_destination() {
        let containerd = Destination::Containerd { socket: None };
        assert_eq!(
            destination(Some(containerd.clone()), None).expect("chosen"),
            containerd
        );
        let kind = destination(None, Some("kind-lab".to_owned())).expect("kind");
        assert_eq!(
            kind,
            Destination::Kind {
                cluster: "lab".to_owned()
            }
        );
        assert!(destination(None, Some("prod".to_owned())).is_err());
    }
}
