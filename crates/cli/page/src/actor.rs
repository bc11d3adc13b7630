//! Carries out what a viewer wants, with the viewer's own rights: the client is that of whoever started the command, and the
//! API server decides.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    core::{NamespaceResourceScope, Status},
    runtime::wait::{self, await_condition, conditions::is_deleted},
};
use nephele_api::cloud::v1alpha1::{CloudClock, Fault, Scenario, SimulatedCloud};
use nephele_controller::{Kind, Readable};
use nephele_scenario::{
    again,
    clock::{self, ClockChange},
};
use parking_lot::Mutex;
use tokio::{sync::Semaphore, task::JoinError, time::timeout};

use crate::{
    act::{Act, Permission},
    library::SharedLibrary,
    objects::Key,
    outcome::Outcome,
};

/// Acts that are carried out at a time, of all viewers of a page.
const ACTS_MAX: usize = 4;
/// How long an act may take.
const ACT_TIMEOUT: Duration = Duration::from_secs(10);
/// Scenarios that run again and are not gone yet, of all viewers of a page.
const DELETIONS_MAX: usize = 4;
/// How long the deletion of a Scenario that runs again may take: without a manager it would never end.
const GONE_WITHIN: Duration = Duration::from_secs(60);
/// How long a viewer waits for it.
const GONE_SOON: Duration = Duration::from_secs(5);
/// How often a change of a clock is tried when another client changes the SimulatedCloud at the same moment.
const TRIES: usize = 3;
/// The code of a conflict.
const CONFLICT: u16 = 409;
/// How long the Drawer waits for an answer about a permission.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// How long an answer about a permission holds, or that there was none.
const ANSWER_HOLDS: SignedDuration = SignedDuration::from_secs(30);
/// Answers about permissions that are kept: three for each of some 300 namespaces.
const ANSWERS_MAX: usize = 1000;
/// Who has changed an object, in its managed fields.
const FIELD_MANAGER: &str = "nephele-page";

/// An act was not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RefusedAct {
    #[error("too much is being done at once; try again")]
    Busy,
    #[error("the management API did not answer within 10s")]
    Late,
    #[error("the clock of this SimulatedCloud is not in force yet; does a manager run?")]
    NoClock,
    #[error("the SimulatedCloud changes all the time; try again")]
    Conflict,
    /// What the API server said.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    #[error("failed to reach the management API")]
    Request(#[source] kube::Error),
    #[error("the recording is not so far, or another viewer has changed it")]
    Recording,
    /// What the library says.
    #[error("{0}")]
    Library(String),
    #[error("the Scenario waits for its deletion; if a manager ends that within a minute, it runs again")]
    NotGone,
    #[error("failed to see the deletion of the Scenario")]
    Deletion(#[from] wait::Error),
    #[error("failed to run the Scenario again")]
    Task(#[from] JoinError),
}

impl RefusedAct {
    /// The status of the answer.
    pub(crate) fn code(&self) -> StatusCode {
        match self {
            Self::Busy => StatusCode::TOO_MANY_REQUESTS,
            Self::Late | Self::NotGone => StatusCode::GATEWAY_TIMEOUT,
            Self::Request(_) | Self::Deletion(_) | Self::Library(_) => StatusCode::BAD_GATEWAY,
            Self::Task(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::NoClock | Self::Conflict | Self::Recording => StatusCode::CONFLICT,
            Self::Refused(status) => StatusCode::from_u16(status.code).unwrap_or(StatusCode::BAD_GATEWAY),
        }
    }
}

impl From<kube::Error> for RefusedAct {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused(status),
            other => Self::Request(other),
        }
    }
}

/// Acts for the viewers of a page.
pub(crate) struct Actor {
    client: Client,
    library: SharedLibrary,
    acts: Semaphore,
    deletions: Arc<Semaphore>,
    answers: Mutex<BTreeMap<(Permission, String), (Timestamp, bool)>>,
}

impl Actor {
    pub(crate) fn new(client: Client, library: SharedLibrary) -> Self {
        Self {
            client,
            library,
            acts: Semaphore::new(ACTS_MAX),
            deletions: Arc::new(Semaphore::new(DELETIONS_MAX)),
            answers: Mutex::default(),
        }
    }

    /// Whether the viewer has a permission in a namespace. One whose API server does not say may try.
    pub(crate) async fn may(&self, permission: &Permission, namespace: &str, now: Timestamp) -> bool {
        let asked = (permission.clone(), namespace.to_owned());
        let known = self.answers.lock().get(&asked).copied();
        if let Some((at, allowed)) = known
            && now.duration_since(at) < ANSWER_HOLDS
        {
            return allowed;
        }
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    namespace: Some(namespace.to_owned()),
                    verb: Some(permission.verb.to_owned()),
                    group: Some(permission.group.to_string()),
                    resource: Some(permission.resource.to_string()),
                    ..ResourceAttributes::default()
                }),
                non_resource_attributes: None,
            },
            ..SelfSubjectAccessReview::default()
        };
        let api: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let params = PostParams::default();
        let allowed = match timeout(ANSWER_TIMEOUT, api.create(&params, &review)).await {
            Ok(Ok(answer)) => answer.status.is_some_and(|status| status.allowed),
            Ok(Err(_)) | Err(_) => true,
        };
        let mut answers = self.answers.lock();
        if answers.len() >= ANSWERS_MAX {
            answers.clear();
        }
        answers.insert(asked, (now, allowed));
        allowed
    }

    /// Carries out an act.
    ///
    /// # Errors
    /// When too many are carried out, or when the API server refuses it.
    pub(crate) async fn carry_out(&self, act: Act) -> Result<Outcome, RefusedAct> {
        let _place = self.acts.try_acquire().map_err(|_| RefusedAct::Busy)?;
        timeout(ACT_TIMEOUT, self.send(act))
            .await
            .map_err(|_| RefusedAct::Late)?
    }

    async fn send(&self, act: Act) -> Result<Outcome, RefusedAct> {
        match act {
            Act::Create(fault) => Ok(Outcome::Created(self.create(&*fault).await?)),
            Act::Delete(key) => {
                self.delete::<Fault>(&key).await?;
                Ok(Outcome::Deleted(key))
            }
            Act::SetClock { namespace, change } => self.set_clock(&namespace, &change).await,
            Act::Stop(key) => {
                self.delete::<Scenario>(&key).await?;
                Ok(Outcome::Stopped(key))
            }
            Act::Run(scenario) => Ok(Outcome::Runs(self.create(&*scenario).await?)),
            Act::Make(key) => match self.library.make(&key.namespace, &key.name).await {
                Ok(()) => Ok(Outcome::Made(key)),
                Err(why) => Err(RefusedAct::Library(why)),
            },
            Act::RunAgain(key) => self.run_again(key).await,
        }
    }

    async fn create<K>(&self, object: &K) -> Result<Key, RefusedAct>
    where
        K: Kind + Resource<Scope = NamespaceResourceScope>,
    {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<K> = Api::namespaced(self.client.clone(), &namespace);
        let created = api.create(&post_params(false), object).await?;
        Ok(Key::of(created.meta()))
    }

    async fn delete<K>(&self, key: &Key) -> Result<(), RefusedAct>
    where
        K: Kind + Resource<Scope = NamespaceResourceScope>,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &key.namespace);
        api.delete(&key.name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Deletes a Scenario, and creates it again as it was.
    async fn run_again(&self, key: Key) -> Result<Outcome, RefusedAct> {
        let place = Arc::clone(&self.deletions).try_acquire_owned();
        let place = place.map_err(|_| RefusedAct::Busy)?;
        let api: Api<Scenario> = Api::namespaced(self.client.clone(), &key.namespace);
        let former = api.get(&key.name).await?;
        let wanted = again(&former);
        // Nothing else has it once it is deleted, so the API server says first whether it may be created.
        let mut trial = wanted.clone();
        trial.metadata.generate_name = trial.metadata.name.take().map(|name| format!("{name}-"));
        api.create(&post_params(true), &trial).await?;
        // A viewer who leaves ends the act, but not between these two requests.
        let replacing = async move {
            let _place = place;
            let uid = former.uid().unwrap_or_default();
            let only = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: former.uid(),
                    resource_version: None,
                }),
                ..DeleteParams::default()
            };
            api.delete(&key.name, &only).await?;
            let gone = await_condition(api.clone(), &key.name, is_deleted(&uid));
            timeout(GONE_WITHIN, gone)
                .await
                .map_err(|_| RefusedAct::NotGone)??;
            api.create(&post_params(false), &wanted).await?;
            Ok(Outcome::Runs(key))
        };
        match timeout(GONE_SOON, tokio::spawn(replacing)).await {
            Ok(replaced) => replaced?,
            Err(_) => Err(RefusedAct::NotGone),
        }
    }

    async fn set_clock(&self, namespace: &str, change: &ClockChange) -> Result<Outcome, RefusedAct> {
        let name = &change.cloud;
        let api: Api<Readable<SimulatedCloud>> = Api::namespaced(self.client.clone(), namespace);
        for _ in 0..TRIES {
            let cloud = api.get(name).await?.into_object();
            let in_force = clock::in_force(&cloud).ok_or(RefusedAct::NoClock)?;
            let wanted = clock::wanted(change, &cloud.spec.clock, &in_force);
            let missing = clock::missing(&wanted, &cloud.spec.clock);
            if missing == CloudClock::default() {
                return Ok(Outcome::Set(Key::new(namespace, name)));
            }
            let version = cloud.resource_version().unwrap_or_default();
            let patch = Patch::Merge(clock::patch(&version, &missing));
            let params = PatchParams {
                field_manager: Some(FIELD_MANAGER.to_owned()),
                ..PatchParams::default()
            };
            match api.patch(name, &params, &patch).await {
                Ok(_) => return Ok(Outcome::Set(Key::new(namespace, name))),
                Err(kube::Error::Api(status)) if status.code == CONFLICT => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(RefusedAct::Conflict)
    }
}

fn post_params(dry_run: bool) -> PostParams {
    PostParams {
        dry_run,
        field_manager: Some(FIELD_MANAGER.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use nephele_testkit::ManagementApi;
    use serde_json::{Value, json};
    use tokio::time::Instant;

    use super::*;
    use crate::library::tests::Two;

    fn actor(client: Client) -> Actor {
        Actor::new(client, Two::shared())
    }

    fn fault(name: &str) -> Box<Fault> {
        let object = json!({
            "metadata": { "generateName": name, "namespace": "default" },
            "spec": { "match": { "names": ["a"] }, "effect": { "freeze": {} } },
        });
        Box::new(serde_json::from_value(object).expect("a Fault"))
    }

    #[tokio::test]
    async fn a_fault_is_created_and_deleted_again() {
        let management = ManagementApi::start();
        let actor = actor(management.client());
        let created = actor
            .carry_out(Act::Create(fault("freeze-")))
            .await
            .expect("it is taken");
        let Outcome::Created(key) = created else {
            panic!("{created:?}")
        };
        let there = management.get::<Fault>(&key.name).await;
        assert_eq!(there.spec, fault("").spec);
        let deleted = actor
            .carry_out(Act::Delete(key.clone()))
            .await
            .expect("it is there");
        assert_eq!(deleted, Outcome::Deleted(key.clone()));
        let gone = actor
            .carry_out(Act::Delete(key.clone()))
            .await
            .expect_err("it is gone");
        assert_eq!(gone.code(), StatusCode::NOT_FOUND);
        assert!(
            gone.to_string().ends_with(&format!("\"{}\" not found", key.name)),
            "{gone}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_says_nothing_delays_the_drawer_once_and_an_act_until_it_is_late() {
        let silent = tower::service_fn(|_: http::Request<kube::client::Body>| {
            std::future::pending::<Result<http::Response<axum::body::Body>, std::convert::Infallible>>()
        });
        let actor = actor(Client::new(silent, "default"));
        let permission = Permission::of::<Fault>("create");
        let started = Instant::now();
        for second in [0, 29] {
            let now = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second);
            assert!(actor.may(&permission, "default", now).await);
            assert_eq!(started.elapsed().as_secs(), 1, "it was asked once");
        }
        let late = actor.carry_out(Act::Create(fault("freeze-"))).await;
        assert!(matches!(late, Err(RefusedAct::Late)), "{late:?}");
        assert_eq!(started.elapsed().as_secs(), 11);
    }

    /// Without a manager, the finalizer of a Scenario stays.
    #[tokio::test(start_paused = true)]
    async fn a_scenario_that_is_not_gone_keeps_its_place_for_a_minute() {
        let management = ManagementApi::start();
        let actor = actor(management.client());
        let scenario = json!({
            "metadata": { "name": "s", "namespace": "default", "finalizers": ["example.com/held"] },
            "spec": { "steps": [{ "say": "hello" }] },
        });
        let scenario: Scenario = serde_json::from_value(scenario).expect("a Scenario");
        management.create(&scenario).await;
        let again = || actor.carry_out(Act::RunAgain(Key::new("default", "s")));
        let started = Instant::now();
        for _ in 0..DELETIONS_MAX {
            let refused = again().await.expect_err("it is not gone");
            assert!(matches!(refused, RefusedAct::NotGone), "{refused}");
        }
        assert_eq!(started.elapsed().as_secs(), 5 * DELETIONS_MAX as u64);
        let refused = again().await.expect_err("all places are taken");
        assert!(matches!(refused, RefusedAct::Busy), "{refused}");
        tokio::time::sleep(GONE_WITHIN).await;
        let refused = again().await.expect_err("it is not gone");
        assert!(matches!(refused, RefusedAct::NotGone), "{refused}");
    }

    #[tokio::test]
    async fn a_clock_is_paused_and_counts_its_steps() {
        let management = ManagementApi::start();
        let actor = actor(management.client());
        let cloud = json!({ "metadata": { "name": "one", "namespace": "default" }, "spec": { "clock": { "steps": 3 } } });
        let cloud: SimulatedCloud = serde_json::from_value(cloud).expect("a SimulatedCloud");
        management.create(&cloud).await;
        let act = |paused, step| Act::SetClock {
            namespace: "default".to_owned(),
            change: ClockChange {
                cloud: "one".to_owned(),
                rate: None,
                paused,
                step,
                jump: None,
            },
        };
        let early = actor.carry_out(act(Some(true), None)).await;
        assert!(matches!(early, Err(RefusedAct::NoClock)), "{early:?}");
        let status = json!({ "clock": { "rate": "1", "paused": false, "steps": 3, "ahead": "0s" } });
        management.patch_status::<SimulatedCloud>("one", &status).await;
        let clock = async || -> Value {
            let cloud = management.get::<SimulatedCloud>("one").await;
            serde_json::to_value(cloud.spec.clock).expect("JSON")
        };
        actor.carry_out(act(Some(true), None)).await.expect("it is set");
        assert_eq!(clock().await, json!({ "paused": true, "steps": 3 }));
        for _ in 0..2 {
            actor.carry_out(act(None, Some(1))).await.expect("it is set");
        }
        assert_eq!(clock().await, json!({ "paused": true, "steps": 5 }));
    }

    #[tokio::test]
    async fn a_scenario_is_created_again_as_it_was_and_is_not_lost_when_that_is_refused() {
        let management = ManagementApi::start();
        let object = json!({
            "metadata": { "name": "s", "namespace": "default", "labels": { "a": "b" } }, "spec": { "steps": [{ "say": "hello" }] },
        });
        let scenario: Scenario = serde_json::from_value(object).expect("a Scenario");
        let former = management.create(&scenario).await;
        let key = Key::new("default", "s");
        let refusing =
            actor(management.forbidding(|method, path| method == "POST" && path.ends_with("/scenarios")));
        let refused = refusing.carry_out(Act::RunAgain(key.clone())).await;
        assert!(matches!(refused, Err(RefusedAct::Refused(_))), "{refused:?}");
        assert_eq!(management.get::<Scenario>("s").await.uid(), former.uid());
        let actor = actor(management.client());
        let outcome = actor
            .carry_out(Act::RunAgain(key.clone()))
            .await
            .expect("it is taken");
        assert_eq!(outcome, Outcome::Runs(key.clone()));
        let there = management.get::<Scenario>("s").await;
        assert_ne!(there.uid(), former.uid());
        assert_eq!(
            (&there.spec, &there.metadata.labels),
            (&former.spec, &former.metadata.labels)
        );
        let outcome = actor
            .carry_out(Act::Stop(key.clone()))
            .await
            .expect("it is there");
        assert_eq!(outcome, Outcome::Stopped(key));
        management.eventually_gone::<Scenario>("s").await;
    }

    #[tokio::test]
    async fn no_more_acts_than_the_bound_are_carried_out_at_a_time() {
        let management = ManagementApi::start();
        let actor = actor(management.client());
        let all = actor
            .acts
            .acquire_many(u32::try_from(ACTS_MAX).expect("few"))
            .await;
        let refused = actor.carry_out(Act::Create(fault("freeze-"))).await;
        assert!(matches!(refused, Err(RefusedAct::Busy)), "{refused:?}");
        drop(all);
        actor
            .carry_out(Act::Create(fault("freeze-")))
            .await
            .expect("there is a place");
    }
}
