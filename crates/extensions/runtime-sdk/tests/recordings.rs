//! Recorded calls of unmodified Cluster API 1.14.2. Each request is read and written again unchanged, and the calling
//! side accepts the recorded answer.
#![allow(clippy::unwrap_used, reason = "what fails here has failed the test")]

mod recorded;

use std::collections::BTreeSet;

use nephele_runtime_sdk::{
    catalog::Catalog,
    hooks::{self, GenerateUpgradePlanRequest, GenerateUpgradePlanResponse, Hook, PatchType},
    server::Recording,
    topology::judge_upgrade_plan,
    wire,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// Runs an expression for every hook.
macro_rules! with_every_hook {
    ($do:ident($($argument:expr),*)) => {
        with_every_hook!(
            $do($($argument),*): Discovery, BeforeClusterCreate, AfterControlPlaneInitialized, BeforeClusterUpgrade,
            BeforeControlPlaneUpgrade, AfterControlPlaneUpgrade, BeforeWorkersUpgrade, AfterWorkersUpgrade,
            AfterClusterUpgrade, BeforeClusterDelete, GeneratePatches, ValidateTopology, DiscoverVariables,
            CanUpdateMachine, CanUpdateMachineSet, UpdateMachine, GenerateUpgradePlan,
        )
    };
    ($do:ident $arguments:tt: $($hook:ident,)+) => {
        $(with_every_hook!(@ $do $arguments $hook);)+
    };
    (@ $do:ident($($argument:expr),*) $hook:ident) => {
        $do::<hooks::$hook>($($argument),*)
    };
}

fn of<H: Hook>(recordings: &[Recording]) -> impl Iterator<Item = &Recording> {
    let kind = format!("{}Request", H::NAME);
    recordings
        .iter()
        .filter(move |recording| recording.request["kind"] == kind)
}

#[test]
fn every_hook_was_recorded() {
    let recordings = recorded::all();
    let mut recorded = BTreeSet::new();
    fn note<H: Hook>(recordings: &[Recording], recorded: &mut BTreeSet<&'static str>) {
        if of::<H>(recordings).next().is_some() {
            recorded.insert(H::NAME);
        }
    }
    with_every_hook!(note(&recordings, &mut recorded));
    let expected = [
        "AfterClusterUpgrade",
        "AfterControlPlaneInitialized",
        "AfterControlPlaneUpgrade",
        "AfterWorkersUpgrade",
        "BeforeClusterCreate",
        "BeforeClusterDelete",
        "BeforeClusterUpgrade",
        "BeforeControlPlaneUpgrade",
        "BeforeWorkersUpgrade",
        "CanUpdateMachine",
        "CanUpdateMachineSet",
        "DiscoverVariables",
        "Discovery",
        "GeneratePatches",
        "GenerateUpgradePlan",
        "UpdateMachine",
        "ValidateTopology",
    ];
    assert_eq!(recorded, BTreeSet::from(expected));
    let known: usize = recordings.len();
    let mut read = 0;
    fn count<H: Hook>(recordings: &[Recording], read: &mut usize) {
        *read += of::<H>(recordings).count();
    }
    with_every_hook!(count(&recordings, &mut read));
    assert_eq!(read, known, "each is of a hook");
}

#[test]
fn what_was_sent_is_read_and_written_as_it_came() {
    fn again<T: Serialize + DeserializeOwned>(message: &Value) -> Value {
        let bytes = serde_json::to_vec(message).unwrap();
        serde_json::to_value(wire::from_slice::<T>(&bytes).unwrap()).unwrap()
    }
    fn check<H: Hook>(recordings: &[Recording]) {
        for recording in of::<H>(recordings) {
            let mut sent = recording.request.clone();
            // Cluster API adds these to the fields of the type.
            let fields = sent.as_object_mut().unwrap();
            let api_version = format!("{}/{}", H::GROUP, H::VERSION);
            assert_eq!(fields.remove("apiVersion"), Some(api_version.into()));
            assert_eq!(fields.remove("kind"), Some(format!("{}Request", H::NAME).into()));
            assert_eq!(again::<H::Request>(&sent), sent, "{}", H::NAME);
            assert_eq!(
                again::<H::Response>(&recording.response),
                recording.response,
                "{}",
                H::NAME
            );
            let response = serde_json::to_vec(&recording.response).unwrap();
            Catalog::cluster_api()
                .read_response::<H>(&response, &H::id())
                .unwrap();
        }
    }
    let recordings = recorded::all();
    with_every_hook!(check(&recordings));
}

/// Facts that the serving side relies on: the paths, the timeout and the headers of calls.
#[test]
fn calls_come_as_they_are_served() {
    fn check<H: Hook>(recordings: &[Recording]) {
        for recording in of::<H>(recordings) {
            let handler = recording.path.rsplit('/').next();
            let expected = H::id().path(handler.filter(|_| !H::SINGLETON));
            assert_eq!(
                (recording.path.as_str(), recording.status),
                (expected.as_str(), 200)
            );
            assert_eq!(recording.query, "timeout=10s");
            let headers: Vec<_> = recording
                .headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect();
            assert_eq!(
                (recording.method.as_str(), recording.protocol.as_str(), headers),
                (
                    "POST",
                    "HTTP/2.0",
                    vec![("accept-encoding", "gzip"), ("user-agent", "Go-http-client/2.0")]
                ),
            );
        }
    }
    let recordings = recorded::all();
    with_every_hook!(check(&recordings));
}

/// As in Cluster API: in order, to the template of the uid, and then only spec, labels and annotations are used.
#[test]
fn patches_can_be_applied_to_the_templates_that_were_sent() {
    let recordings = recorded::all();
    let mut changed = 0;
    for recording in of::<hooks::GeneratePatches>(&recordings) {
        let request: hooks::GeneratePatchesRequest = wire::from_value(recording.request.clone()).unwrap();
        let response: hooks::GeneratePatchesResponse = wire::from_value(recording.response.clone()).unwrap();
        for item in response.items {
            let template = request
                .items
                .iter()
                .find(|template| template.uid == item.uid)
                .unwrap();
            let before = serde_json::to_value(&template.object).unwrap();
            let mut after = before.clone();
            assert_eq!(item.patch_type, PatchType::JsonPatch);
            let patch: json_patch::Patch = serde_json::from_slice(&item.patch.0).unwrap();
            json_patch::patch(&mut after, &patch).unwrap();
            changed += usize::from(after != before);
            let kept = |mut object: Value| {
                object.as_object_mut().unwrap().remove("spec");
                object
            };
            assert_eq!(kept(after), kept(before), "specs are changed, and nothing else");
        }
    }
    assert!(changed > 0);
}

#[test]
fn plans_that_were_answered_are_taken() {
    let recordings = recorded::all();
    let mut upgrades = 0;
    for recording in of::<hooks::GenerateUpgradePlan>(&recordings) {
        let request: GenerateUpgradePlanRequest = wire::from_value(recording.request.clone()).unwrap();
        let response: GenerateUpgradePlanResponse = wire::from_value(recording.response.clone()).unwrap();
        judge_upgrade_plan(&request, &response).unwrap();
        upgrades += response.control_plane_upgrades.len();
    }
    assert!(upgrades > 1);
}
