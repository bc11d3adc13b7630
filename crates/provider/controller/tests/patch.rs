//! Writes to an API server in this process.

use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use nephele_api::core::{Machine, MachineStatus};
use nephele_controller::{Deleted, PatchError, Precondition, ReconcileError, Retry, patch};
use nephele_testkit::{ManagementApi, objects};
use serde_json::json;

async fn with_config_map(api: &ManagementApi) -> ConfigMap {
    let object = ConfigMap {
        metadata: ObjectMeta {
            name: Some("c".into()),
            namespace: Some("default".into()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    api.api::<ConfigMap>()
        .create(&kube::api::PostParams::default(), &object)
        .await
        .expect("made")
}

fn finalizers(object: &ConfigMap) -> Vec<&str> {
    object
        .metadata
        .finalizers
        .iter()
        .flatten()
        .map(String::as_str)
        .collect()
}

fn conflict(error: &PatchError) -> bool {
    error.category() == "api_conflict" && matches!(error.retry(), Retry::After(_))
}

#[tokio::test]
async fn finalizers_come_and_go_one_by_one() {
    let management = ManagementApi::start();
    let api = management.api::<ConfigMap>();
    let made = with_config_map(&management).await;
    let one = patch::add_finalizer(&api, &made, "example.org/a")
        .await
        .expect("patched")
        .expect("changed");
    let two = patch::add_finalizer(&api, &one, "example.org/b")
        .await
        .expect("patched")
        .expect("changed");
    assert_eq!(finalizers(&two), ["example.org/a", "example.org/b"]);
    assert_eq!(
        patch::add_finalizer(&api, &two, "example.org/a")
            .await
            .expect("nothing to do"),
        None
    );
    let left = patch::remove_finalizer(&api, &two, "example.org/a")
        .await
        .expect("patched")
        .expect("changed");
    assert_eq!(finalizers(&left), ["example.org/b"]);
    assert_eq!(
        patch::remove_finalizer(&api, &left, "example.org/a")
            .await
            .expect("nothing to do"),
        None
    );
}

#[tokio::test]
async fn a_finalizer_is_never_written_over_that_of_another() {
    let management = ManagementApi::start();
    let api = management.api::<ConfigMap>();
    let stale = with_config_map(&management).await;
    patch::add_finalizer(&api, &stale, "example.org/a")
        .await
        .expect("patched");
    let error = patch::add_finalizer(&api, &stale, "example.org/b")
        .await
        .expect_err("stale");
    assert!(conflict(&error), "{error:?}");
    let now = management.get::<ConfigMap>("c").await;
    assert_eq!(finalizers(&now), ["example.org/a"]);
}

#[tokio::test]
async fn only_a_patch_with_a_precondition_minds_other_writers() {
    let management = ManagementApi::start();
    let api = management.api::<ConfigMap>();
    let stale = with_config_map(&management).await;
    management
        .patch::<ConfigMap>("c", &json!({ "data": { "theirs": "1" } }))
        .await;
    let mut wanted = stale.clone();
    wanted.data = Some([("ours".to_owned(), "2".to_owned())].into());
    let error = patch::object(&api, &stale, &wanted, Precondition::ResourceVersion)
        .await
        .expect_err("stale");
    assert!(conflict(&error), "{error:?}");
    let merged = patch::object(&api, &stale, &wanted, Precondition::None)
        .await
        .expect("patched");
    let data = merged.expect("changed").data.expect("both");
    assert_eq!(
        data.into_iter().collect::<Vec<_>>(),
        [
            ("ours".to_owned(), "2".to_owned()),
            ("theirs".to_owned(), "1".to_owned())
        ]
    );
}

#[tokio::test]
async fn a_patch_never_changes_a_later_object_of_the_same_name() {
    let management = ManagementApi::start();
    let api = management.api::<ConfigMap>();
    let earlier = with_config_map(&management).await;
    patch::delete(&api, &earlier).await.expect("deleted");
    let later = with_config_map(&management).await;
    let mut wanted = earlier.clone();
    wanted.data = Some([("ours".to_owned(), "2".to_owned())].into());
    let error = patch::object(&api, &earlier, &wanted, Precondition::None)
        .await
        .expect_err("the wrong object");
    assert_eq!(
        error.to_string(),
        "failed to patch ConfigMap default/c: another object has its name"
    );
    assert!(error.is_not_found(), "{error:?}");
    assert!(conflict(&error), "{error:?}");
    assert_eq!(management.get::<ConfigMap>("c").await, later);
}

#[tokio::test]
async fn a_status_patch_never_changes_a_later_object_of_the_same_name() {
    let management = ManagementApi::start();
    let api = management.api::<Machine>();
    management.create(&objects::worker("c", "m")).await;
    let earlier = management
        .patch_status::<Machine>("m", &json!({ "phase": "Pending" }))
        .await;
    let mut wanted = earlier.clone();
    wanted.status = Some(MachineStatus {
        phase: "Running".into(),
        ..MachineStatus::default()
    });
    let written = patch::status(&api, &earlier, &wanted, Precondition::None)
        .await
        .expect("patched");
    assert_eq!(written.expect("changed").status, wanted.status);
    patch::delete(&api, &earlier).await.expect("deleted");
    let later = management.create(&objects::worker("c", "m")).await;
    for precondition in [Precondition::None, Precondition::ResourceVersion] {
        let refused = patch::status(&api, &earlier, &wanted, precondition).await;
        let error = refused.expect_err("the wrong object");
        assert!(conflict(&error), "{precondition:?}: {error:?}");
        assert_eq!(management.get::<Machine>("m").await, later, "{precondition:?}");
    }
}

#[tokio::test]
async fn a_status_patch_leaves_what_another_writer_has_added() {
    let management = ManagementApi::start();
    let api = management.api::<Machine>();
    let mut stale = management.create(&objects::worker("c", "m")).await;
    for known in [
        json!({ "initialization": { "bootstrapDataSecretCreated": true } }),
        json!({ "phase": "Old" }),
    ] {
        management.patch_status::<Machine>("m", &known).await;
        let mut wanted = stale.clone();
        wanted.status.get_or_insert_default().phase = "Running".into();
        let written = patch::status(&api, &stale, &wanted, Precondition::None)
            .await
            .expect("patched");
        stale = written.clone().expect("changed");
        let status = stale.status.clone().expect("a status");
        assert_eq!(status.phase, "Running");
        assert_eq!(
            status
                .initialization
                .and_then(|done| done.bootstrap_data_secret_created),
            Some(true)
        );
        stale.status.as_mut().expect("a status").phase = "Older".into();
        stale.status.as_mut().expect("a status").initialization = None;
    }
}

#[tokio::test]
async fn a_status_can_be_removed() {
    let management = ManagementApi::start();
    management.create(&objects::worker("c", "m")).await;
    let reported = management
        .patch_status::<Machine>("m", &json!({ "phase": "Pending" }))
        .await;
    let wanted = Machine {
        status: None,
        ..reported.clone()
    };
    let written = patch::status(&management.api(), &reported, &wanted, Precondition::None).await;
    assert_eq!(written.expect("patched").expect("changed").status, None);
}

#[tokio::test]
async fn deleting_waits_for_finalizers_and_does_not_mind_absence() {
    let management = ManagementApi::start();
    let api = management.api::<ConfigMap>();
    let made = with_config_map(&management).await;
    let held = patch::add_finalizer(&api, &made, "example.org/a")
        .await
        .expect("patched")
        .expect("changed");
    assert_eq!(
        patch::delete(&api, &held).await.expect("asked"),
        Deleted::InProgress
    );
    let going = management.get::<ConfigMap>("c").await;
    patch::remove_finalizer(&api, &going, "example.org/a")
        .await
        .expect("patched");
    management.eventually_gone::<ConfigMap>("c").await;
    assert_eq!(patch::delete(&api, &held).await.expect("gone"), Deleted::Gone);
    // A later object of the same name stays.
    with_config_map(&management).await;
    assert_eq!(
        patch::delete(&api, &held)
            .await
            .expect("the one that was meant is gone"),
        Deleted::Gone
    );
    management.get::<ConfigMap>("c").await;
}
