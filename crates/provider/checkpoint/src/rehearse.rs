//! Asks the management API whether it would create the objects of a checkpoint, before anything is removed for them.
//!
//! A webhook of another provider that does not answer, a policy or a missing permission would else refuse the first creation
//! after everything was removed. A dry run changes nothing, and passes all that a creation passes but the write.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DynamicObject, PostParams},
    core::Status,
};
use nephele_controller::is_without_dry_run;

use crate::{
    error::RestoreError,
    kinds::{Kind, kind_of},
    order::{self, Part},
    restore::{AT_A_TIME, request},
};

/// Asks about all objects. Those of namespaces that do not exist cannot be asked about; nothing is removed there.
pub(crate) async fn rehearse(
    client: &Client,
    kinds: &[Kind],
    namespaces: &[String],
    objects: &[DynamicObject],
) -> Result<(), RestoreError> {
    let mut existing = BTreeSet::new();
    for name in namespaces {
        let found = Api::<Namespace>::all(client.clone()).get_opt(name).await;
        if found.map_err(request("read a namespace"))?.is_some() {
            existing.insert(name.as_str());
        }
    }
    let there = objects.iter().filter(|object| {
        object
            .metadata
            .namespace
            .as_deref()
            .is_some_and(|namespace| existing.contains(namespace))
    });
    let asked = stream::iter(there.map(|object| ask(client, kinds, object))).buffer_unordered(AT_A_TIME);
    asked.try_collect().await
}

async fn ask(client: &Client, kinds: &[Kind], object: &DynamicObject) -> Result<(), RestoreError> {
    let Some(kind) = kind_of(kinds, object) else {
        return Ok(());
    };
    let namespace = object.namespace().unwrap_or_default();
    let name = object.name_any();
    let prepared = order::prepared(object, Part::Clusters, &BTreeMap::new());
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    match kind.api(client, &namespace).create(&params, &prepared).await {
        Err(kube::Error::Api(status)) if is_passed(&status) => Ok(()),
        Err(source) => {
            let object = format!("{} {namespace}/{name}", kind.resource.kind);
            Err(RestoreError::Refused { object, source })
        }
        Ok(_) => Ok(()),
    }
}

/// Whether a refusal says nothing about the creation. The object of that name that is there is noticed last, and is removed
/// first; a quota that is used up has room again then. And a webhook with side effects cannot be asked by a dry run.
fn is_passed(status: &Status) -> bool {
    status.reason == "AlreadyExists"
        || status.message.contains("exceeded quota")
        || is_without_dry_run(status)
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, time::Duration};

    use bytes::Bytes;
    use kube::api::ListParams;
    use nephele_api::core::{Cluster, Machine};
    use nephele_testkit::{
        ManagementApi,
        objects::{self, NAMESPACE},
    };

    use super::*;
    use crate::{Checkpoint, Restore, Restored, Workloads};

    /// A manager without workload clusters.
    struct Nothing;

    impl Workloads for Nothing {
        type Error = Infallible;

        async fn read(&self, _: &str) -> Result<Vec<u8>, Infallible> {
            Ok(Vec::new())
        }

        async fn names(&self, _: &str) -> Result<BTreeSet<String>, Infallible> {
            Ok(BTreeSet::new())
        }

        async fn put_back(&self, _: Bytes) -> Result<bool, Infallible> {
            Ok(true)
        }

        async fn forget(&self) -> Result<(), Infallible> {
            Ok(())
        }
    }

    async fn saved(api: &ManagementApi) -> Checkpoint {
        let namespaces = [NAMESPACE.to_owned()];
        let now = jiff::Timestamp::UNIX_EPOCH;
        crate::save(&api.client(), &Nothing, &namespaces, now, "test")
            .await
            .expect("it answers")
    }

    async fn restore(client: &Client, checkpoint: Checkpoint) -> Result<Restored, RestoreError> {
        let workloads = &Nothing;
        let time_limit = Duration::from_secs(5);
        Restore {
            client,
            workloads,
            replace: true,
            time_limit,
            report: &|_| {},
        }
        .run(checkpoint)
        .await
    }

    /// What is there, by uid.
    async fn there(api: &ManagementApi) -> Vec<Option<String>> {
        let clusters = api
            .api::<Cluster>()
            .list(&ListParams::default())
            .await
            .expect("a list");
        let machines = api
            .api::<Machine>()
            .list(&ListParams::default())
            .await
            .expect("a list");
        let of_clusters = clusters.iter().map(kube::ResourceExt::uid);
        of_clusters
            .chain(machines.iter().map(kube::ResourceExt::uid))
            .collect()
    }

    async fn occupied() -> ManagementApi {
        let api = ManagementApi::start();
        let cluster = api.create(&objects::cluster("demo")).await;
        let mut machine = objects::worker("demo", "w");
        objects::own(&mut machine, &cluster);
        api.create(&machine).await;
        api
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_removed_when_a_creation_would_be_refused() {
        let api = occupied().await;
        let checkpoint = saved(&api).await;
        let before = there(&api).await;
        let refusing = api.forbidding(|method, path| method == "POST" && path.ends_with("/machines"));
        let error = restore(&refusing, checkpoint)
            .await
            .expect_err("it is refused")
            .to_string();
        assert_eq!(
            error,
            "the management API would not create the Machine default/w; nothing was removed"
        );
        assert_eq!(there(&api).await, before);
        assert_eq!(api.get::<Cluster>("demo").await.spec.paused, None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_there_does_not_stand_in_its_own_way() {
        let api = occupied().await;
        let checkpoint = saved(&api).await;
        let before = there(&api).await;
        let restored = restore(&api.client(), checkpoint).await.expect("it is restored");
        assert_eq!(
            restored,
            Restored {
                objects: 2,
                clusters: 0
            }
        );
        let after = there(&api).await;
        assert!(
            after.len() == 2 && after.iter().all(|uid| !before.contains(uid)),
            "{before:?} {after:?}"
        );
    }

    /// The first request of a kind is the dry run.
    #[tokio::test(start_paused = true)]
    async fn a_failure_halfway_says_what_is_there_and_how_to_continue() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let api = occupied().await;
        let checkpoint = saved(&api).await;
        let asked = AtomicUsize::new(0);
        let refusing = api.forbidding(move |method, path| {
            let is_it = method == "POST" && path.ends_with("/machines");
            is_it && asked.fetch_add(1, Ordering::Relaxed) > 0
        });
        let error = restore(&refusing, checkpoint).await.expect_err("it is refused");
        let told = nephele_controller::chain(&error);
        assert!(
            told.starts_with(
                "the restoration stopped with 1 of 2 objects created, which wait; the checkpoint is whole, and can be restored \
                 again: failed to create Machine w"
            ),
            "{told}"
        );
        assert_eq!(there(&api).await.len(), 1);
        let checkpoint = Checkpoint {
            objects: Vec::new(),
            ..saved(&api).await
        };
        restore(&api.client(), checkpoint).await.expect("it continues");
    }

    #[test]
    fn a_refusal_that_a_removal_would_end_is_none() {
        for (reason, message, expected) in [
            ("AlreadyExists", "machines \"w\" already exists", true),
            (
                "Forbidden",
                "machines \"w\" is forbidden: exceeded quota: q, requested: count/machines=1",
                true,
            ),
            (
                "BadRequest",
                "admission webhook \"a.example\" does not support dry run",
                true,
            ),
            (
                "Forbidden",
                "admission webhook \"a.example\" denied the request: no",
                false,
            ),
            (
                "InternalError",
                "failed calling webhook \"a.example\": connection refused",
                false,
            ),
            ("Conflict", "another client", false),
        ] {
            let status = Status {
                reason: reason.into(),
                message: message.into(),
                ..Status::default()
            };
            assert_eq!(is_passed(&status), expected, "{message}");
        }
    }
}
