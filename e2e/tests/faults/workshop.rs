//! A workshop of thirty people on one manager: each has a namespace, a cluster and faults, and notices nothing of the
//! others.

use std::time::Instant;

use futures::future::try_join_all;
use nephele_e2e::{Cluster, Look, Management, Scope, Shape, cluster::Role, management::kinds, state};
use serde_json::json;

use super::tenants::{binding, silence};

const PEOPLE: usize = 30;

/// One of them.
struct Person {
    /// As an administrator.
    scope: Scope,
    cluster: Cluster,
    /// Whether this person tries a fault.
    is_bold: bool,
}

#[tokio::test]
async fn thirty_people_have_clusters_and_faults_and_notice_nothing_of_each_other() -> anyhow::Result<()> {
    let begun = Instant::now();
    let people = try_join_all((0..PEOPLE).map(arrive)).await?;
    let settled = async |people: &[Person]| -> anyhow::Result<()> {
        try_join_all(people.iter().map(|person| person.cluster.settled(1, 1)))
            .await
            .map(drop)
    };
    settled(&people).await?;
    println!(
        "{PEOPLE} people have a cluster after {} s",
        begun.elapsed().as_secs()
    );

    let (bold, others): (Vec<_>, Vec<_>) = people.into_iter().partition(|person| person.is_bold);
    try_join_all(bold.iter().map(|person| async {
        let Person { cluster, .. } = person;
        cluster.management.apply(&cluster.namespace, &[silence()]).await?;
        cluster
            .until("the worker to be silent", async || {
                let workers = cluster.machines(Some(Role::Worker)).await?;
                let silent = workers
                    .iter()
                    .all(|machine| state::is(machine, "NodeHealthy", "Unknown"));
                Ok(Look::when(silent, || workers.iter().map(state::line).collect()))
            })
            .await
    }))
    .await?;
    for Person { cluster, .. } in &bold {
        let fault = cluster
            .management
            .get(kinds::FAULT, &cluster.namespace, "silence")
            .await?;
        assert_eq!(
            fault["status"]["matched"],
            json!(2),
            "the two machines of this person: {}",
            fault["status"]
        );
    }
    for Person { cluster, .. } in &others {
        let machines = cluster.machines(None).await?;
        let healthy = machines
            .iter()
            .all(|machine| state::is(machine, "NodeHealthy", "True"));
        assert!(
            healthy,
            "{:?}",
            machines.iter().map(state::line).collect::<Vec<_>>()
        );
    }
    try_join_all(bold.iter().map(|Person { cluster, .. }| {
        cluster
            .management
            .delete(kinds::FAULT, &cluster.namespace, "silence")
    }))
    .await?;
    settled(&bold).await?;
    settled(&others).await?;
    try_join_all(bold.into_iter().chain(others).map(|person| person.scope.finish()))
        .await
        .map(drop)
}

/// A person gets a namespace, and makes a cluster there.
async fn arrive(number: usize) -> anyhow::Result<Person> {
    let user = format!("student-{number}");
    let scope = Scope::new("workshop").await?;
    scope
        .management
        .apply(&scope.namespace, &[binding(&scope.namespace, &user)])
        .await?;
    let management = Management::connect_as(&user).await?;
    let own = Scope {
        management,
        namespace: scope.namespace.clone(),
    };
    let cluster = own.plain("cluster", Shape::new(1, 1)).await?;
    Ok(Person {
        scope,
        cluster,
        is_bold: number.is_multiple_of(3),
    })
}
