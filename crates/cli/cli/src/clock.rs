//! `nephele clock`: shows or changes the clock of a SimulatedCloud.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
    runtime::wait::await_condition,
};
use nephele_api::cloud::v1alpha1::{CLOCK_STEPS_MAX, CloudClock, CloudClockStatus, SimulatedCloud};
use nephele_controller::Readable;
use nephele_model::ClockRate;
use nephele_scenario::clock::{self, ClockChange};
use tokio::time::timeout;

use crate::{
    access::AccessArgs,
    exit::{Exit, Problem},
    output::print,
};

/// How long it may take until a changed clock is in force.
const IN_FORCE_MAX: Duration = Duration::from_secs(30);
/// How often the change is tried when another client changes the SimulatedCloud at the same moment.
const TRIES: usize = 10;
/// The code of a conflict.
const CONFLICT: u16 = 409;

/// Which clock, and how it changes. Without a change it is shown.
#[derive(Debug, Args)]
pub(crate) struct ClockArgs {
    /// The name of the SimulatedCloud [default: the only one of the namespace; without a change, all of them]
    name: Option<String>,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    change: ChangeArgs,
}

/// The change of a clock.
#[derive(Debug, Clone, Default, PartialEq, Args)]
struct ChangeArgs {
    /// Let the clock stand still
    #[arg(long, conflicts_with = "resume")]
    pause: bool,
    /// Let the clock run again
    #[arg(long)]
    resume: bool,
    /// How much time passes in the cloud for each second, from 0.01 to 1000
    #[arg(long, value_name = "NUMBER", value_parser = ClockRate::parse)]
    rate: Option<ClockRate>,
    /// End so many stages, updates and deletions, while the clock stands still
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i64).range(1..=CLOCK_STEPS_MAX))]
    step: Option<i64>,
    /// Let so much time pass at once
    #[arg(long, value_name = "DURATION", value_parser = nephele_go_duration::parse)]
    jump: Option<Duration>,
}

impl ChangeArgs {
    fn of(self, cloud: &str) -> ClockChange {
        let Self {
            pause,
            resume,
            rate,
            step,
            jump,
        } = self;
        let paused = (pause || resume).then_some(pause);
        ClockChange {
            cloud: cloud.to_owned(),
            rate,
            paused,
            step,
            jump,
        }
    }
}

/// Shows or changes the clock.
pub(crate) async fn run(args: ClockArgs) -> anyhow::Result<ExitCode> {
    let ClockArgs { name, access, change } = args;
    let access = access.open().await?;
    let namespace = access.namespace.as_str();
    let api: Api<Readable<SimulatedCloud>> = Api::namespaced(access.client, namespace);
    let names = match name {
        Some(name) => vec![name],
        None => meant(names(&api).await?, namespace, change != ChangeArgs::default())?,
    };
    for name in names {
        let status = changed(&api, namespace, &change.clone().of(&name)).await?;
        print(&format!("SimulatedCloud {namespace}/{name}: {}\n", told(&status)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The names of all SimulatedClouds of a namespace.
async fn names(api: &Api<Readable<SimulatedCloud>>) -> Result<Vec<String>, Problem> {
    let listed = api.list_metadata(&ListParams::default()).await;
    let listed = listed.map_err(|error| {
        Problem::request(
            "list SimulatedClouds",
            "list simulatedclouds.cloud.nephele.dev",
            error,
        )
    })?;
    Ok(listed.items.iter().map(ResourceExt::name_any).collect())
}

/// The clouds of a command without a name: all are shown, and the only one is changed.
fn meant(known: Vec<String>, namespace: &str, is_change: bool) -> Result<Vec<String>, Problem> {
    match (known.len(), is_change) {
        (0, _) => Err(Problem::new(
            Exit::NotFound,
            format!("there is no SimulatedCloud in namespace {namespace}; only a SimulatedCloud has a clock"),
        )),
        (1, _) | (_, false) => Ok(known),
        (_, true) => Err(Problem::new(
            Exit::Failed,
            format!(
                "namespace {namespace} has several SimulatedClouds; name one of {}",
                known.join(", ")
            ),
        )),
    }
}

/// Changes the clock if there is a change, and returns it once the change is in force.
async fn changed(
    api: &Api<Readable<SimulatedCloud>>,
    namespace: &str,
    change: &ClockChange,
) -> anyhow::Result<CloudClockStatus> {
    let name = &change.cloud;
    for _ in 0..TRIES {
        let read = api.get(name).await.map_err(|error| {
            let what = format!("read SimulatedCloud {namespace}/{name}");
            Problem::request(&what, "get simulatedclouds.cloud.nephele.dev", error)
        })?;
        let read = read.into_object();
        // A manager takes the first count that it sees of a SimulatedCloud as one that was carried out.
        let in_force = in_force(api, name, |_| true).await?;
        let wanted = clock::wanted(change, &read.spec.clock, &in_force);
        let missing = clock::missing(&wanted, &read.spec.clock);
        if missing != CloudClock::default() {
            let version = read.resource_version().unwrap_or_default();
            let patch = Patch::Merge(clock::patch(&version, &missing));
            match api.patch(name, &PatchParams::default(), &patch).await {
                Err(kube::Error::Api(status)) if status.code == CONFLICT => continue,
                Err(error) => {
                    let what = format!("change SimulatedCloud {namespace}/{name}");
                    let right = "patch simulatedclouds.cloud.nephele.dev";
                    return Err(Problem::request(&what, right, error).into());
                }
                Ok(_) => {}
            }
        }
        return in_force_of(api, &wanted, name).await;
    }
    let message = format!("SimulatedCloud {namespace}/{name} changes all the time; try again");
    Err(Problem::new(Exit::Failed, message).into())
}

async fn in_force_of(
    api: &Api<Readable<SimulatedCloud>>,
    wanted: &CloudClock,
    name: &str,
) -> anyhow::Result<CloudClockStatus> {
    in_force(api, name, |status| clock::is_in_force(wanted, status)).await
}

/// Waits until the clock in the status is as it should be.
async fn in_force(
    api: &Api<Readable<SimulatedCloud>>,
    name: &str,
    is_right: impl Fn(&CloudClockStatus) -> bool,
) -> anyhow::Result<CloudClockStatus> {
    let clock_of = |cloud: Option<&Readable<SimulatedCloud>>| clock::in_force(cloud?.object());
    let waited = await_condition(api.clone(), name, |cloud: Option<&Readable<SimulatedCloud>>| {
        clock_of(cloud).is_some_and(|status| is_right(&status))
    });
    let late = || {
        let limit = nephele_go_duration::format(IN_FORCE_MAX);
        let message =
            format!("the clock of SimulatedCloud {name} is not in force after {limit}; does a manager run?");
        Problem::new(Exit::Failed, message)
    };
    let cloud = timeout(IN_FORCE_MAX, waited).await.map_err(|_| late())??;
    clock_of(cloud.as_ref()).ok_or_else(|| late().into())
}

/// A clock for people.
fn told(status: &CloudClockStatus) -> String {
    let CloudClockStatus {
        rate,
        paused,
        steps,
        ahead,
        since: _,
        time,
    } = status.clone();
    let time = time.map(|time| format!(", time {}", time.0)).unwrap_or_default();
    format!(
        "{}{time}",
        clock::told(&CloudClock {
            rate,
            paused,
            steps,
            ahead
        })
    )
}

#[cfg(test)]
mod tests {
    use nephele_testkit::ManagementApi;
    use serde_json::json;

    use super::*;

    #[test]
    fn without_a_name_all_clocks_are_shown_and_the_only_one_is_changed() {
        let of = |known: &[&str], is_change| {
            let known = known.iter().map(|name| (*name).to_owned()).collect();
            meant(known, "team", is_change).map_err(|problem| problem.to_string())
        };
        let names = |names: &[&str]| Ok(names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(of(&["a", "b"], false), names(&["a", "b"]));
        assert_eq!(of(&["a"], true), names(&["a"]));
        let several = "namespace team has several SimulatedClouds; name one of a, b";
        assert_eq!(of(&["a", "b"], true), Err(several.to_owned()));
        let none = "there is no SimulatedCloud in namespace team; only a SimulatedCloud has a clock";
        for is_change in [false, true] {
            assert_eq!(of(&[], is_change), Err(none.to_owned()));
        }
    }

    #[tokio::test]
    async fn a_clock_is_shown_and_changed_and_counts_on() {
        let api = ManagementApi::start();
        let cloud: SimulatedCloud = serde_json::from_value(json!({
            "metadata": { "name": "default", "namespace": "default" },
            "spec": { "clock": { "rate": "2", "steps": 3 } },
        }))
        .expect("a SimulatedCloud");
        api.create(&cloud).await;
        let in_force = async |clock: serde_json::Value| {
            api.patch_status::<SimulatedCloud>("default", &json!({ "clock": clock }))
                .await;
        };
        in_force(json!({ "rate": "2", "paused": false, "steps": 3, "ahead": "0s" })).await;
        let clouds = api.api::<Readable<SimulatedCloud>>();
        let none = ChangeArgs::default().of("default");
        let shown = changed(&clouds, "default", &none).await.expect("a clock");
        assert_eq!(told(&shown), "rate 2, paused false, steps 3, ahead 0s");
        assert_eq!(api.get::<SimulatedCloud>("default").await.spec, cloud.spec);
        let change = ChangeArgs {
            pause: true,
            step: Some(2),
            jump: Some(Duration::from_secs(60)),
            ..ChangeArgs::default()
        };
        let changing = tokio::spawn(async move { changed(&clouds, "default", &change.of("default")).await });
        let is_set = |cloud: &SimulatedCloud| cloud.spec.clock.paused == Some(true);
        let set = api
            .eventually::<SimulatedCloud>("default", "to be set", is_set)
            .await
            .spec
            .clock;
        let expected = json!({ "rate": "2", "paused": true, "steps": 5, "ahead": "60s" });
        assert_eq!(serde_json::to_value(&set).expect("JSON"), expected);
        in_force(expected).await;
        let shown = changing.await.expect("no panic").expect("a clock");
        assert_eq!(told(&shown), "rate 2, paused true, steps 5, ahead 60s");
    }

    #[tokio::test]
    async fn a_cloud_that_is_not_there_is_told() {
        let api = ManagementApi::start();
        let change = ChangeArgs {
            resume: true,
            ..ChangeArgs::default()
        }
        .of("none");
        assert_eq!(change.paused, Some(false));
        let error = changed(&api.api(), "default", &change)
            .await
            .expect_err("there is none");
        assert_eq!(
            error.downcast_ref::<Problem>().expect("a problem").exit,
            Exit::NotFound
        );
    }
}
