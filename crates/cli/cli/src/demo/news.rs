//! What changes, in lines, and what is not up yet. Pure.

use nephele_page::{MachineView, Model, Stage, State};

/// The changes of a model, a line each.
pub(super) fn news(before: &Model, now: &Model) -> Vec<String> {
    let mut news = Vec::new();
    for (key, pool) in &now.pools {
        let known = before.pools.get(key).map(|known| &known.usage);
        if known != Some(&pool.usage) && !pool.usage.is_empty() {
            news.push(format!("pool {}: {}", key.name, pool.usage));
        }
    }
    for (key, cluster) in &now.clusters {
        let known = before.clusters.get(key);
        let name = &key.name;
        if !cluster.endpoint.is_empty() && known.is_none_or(|known| known.endpoint != cluster.endpoint) {
            news.push(format!("{name}: endpoint https://{}", cluster.endpoint));
        }
    }
    for (key, machine) in &now.machines {
        let known = before.machines.get(key);
        news.extend(of_machine(known.map(|known| &**known), machine));
    }
    for (key, cluster) in &now.clusters {
        let was_available = before.clusters.get(key).is_some_and(|known| known.is_available);
        if was_available != cluster.is_available {
            let not = if cluster.is_available { "" } else { "not " };
            news.push(format!("{}: {not}available", key.name));
        }
    }
    let gone = before
        .machines
        .iter()
        .filter(|(key, _)| !now.machines.contains_key(key));
    news.extend(gone.map(|(key, machine)| format!("{}: {} is gone", machine.cluster, key.name)));
    let gone = before
        .clusters
        .keys()
        .filter(|key| !now.clusters.contains_key(key));
    news.extend(gone.map(|key| format!("{}: gone", key.name)));
    news
}

fn of_machine(known: Option<&MachineView>, machine: &MachineView) -> Vec<String> {
    let subject = format!("{}: {}", machine.cluster, machine.key.name);
    let mut news = Vec::new();
    if known.is_none() {
        news.push(format!("{subject} is new"));
    }
    let was = |name: &str| {
        let stages = known.into_iter().flat_map(MachineView::named_stages);
        stages
            .into_iter()
            .find(|(other, _)| *other == name)
            .map(|(_, stage)| stage)
    };
    for (name, stage) in machine.named_stages() {
        let words = match stage {
            Stage::Up => "is up",
            Stage::Failed => "failed",
            Stage::Waiting | Stage::Starting | Stage::Terminated => continue,
        };
        if was(name) != Some(stage) {
            news.push(format!("{subject}: {name} {words}"));
        }
    }
    let state = known.map_or(State::default(), |known| known.state);
    if state != machine.state {
        news.push(format!("{subject} is {}", machine.state.word()));
    }
    news
}

/// Whether all clusters of these names are available.
pub(super) fn are_available<'a>(model: &Model, mut names: impl Iterator<Item = &'a str>) -> bool {
    let is_available = |name: &str| {
        let mut clusters = model.clusters.iter();
        clusters.any(|(key, cluster)| key.name == name && cluster.is_available)
    };
    names.all(is_available)
}

/// The clusters and machines that are not up yet, with the reasons.
pub(super) fn what_is_missing(model: &Model) -> String {
    let mut missing = Vec::new();
    for (key, cluster) in model.clusters.iter().filter(|(_, cluster)| !cluster.is_available) {
        let message = if cluster.message.is_empty() {
            "no status yet"
        } else {
            &cluster.message
        };
        missing.push(format!("cluster {}: {message}", key.name));
    }
    let machines = model.machines.values();
    for machine in machines.filter(|machine| machine.state != State::Running) {
        let message = if machine.message.is_empty() {
            String::new()
        } else {
            format!(": {}", machine.message)
        };
        missing.push(format!("{}{message}", machine.label()));
    }
    if missing.is_empty() {
        return "there are no clusters".to_owned();
    }
    missing.join("; ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nephele_page::{ClusterView, Key, PoolView};

    use super::*;

    fn model(is_available: bool, vm: Stage, used: &str) -> Model {
        let cluster = ClusterView {
            is_available,
            endpoint: "127.0.0.1:20000".to_owned(),
            message: if is_available {
                String::new()
            } else {
                "0 of 1 machines are up".to_owned()
            },
            ..ClusterView::default()
        };
        let state = if vm == Stage::Up {
            State::Running
        } else {
            State::Starting
        };
        let machine = MachineView {
            key: Key::new("default", "small-x"),
            cluster: "small".to_owned(),
            state,
            stages: [Some(vm), Some(vm), None, None],
            ..MachineView::default()
        };
        let pool = PoolView {
            usage: used.to_owned(),
            ..PoolView::default()
        };
        Model {
            clusters: [(Key::new("default", "small"), cluster)].into(),
            machines: [(machine.key.clone(), Arc::new(machine))].into(),
            pools: [(Key::new("default", "v4"), pool)].into(),
            ..Model::default()
        }
    }

    #[test]
    fn news_are_what_changed() {
        let before = model(false, Stage::Starting, "1 of 9 in use");
        assert_eq!(news(&before, &before), Vec::<String>::new());
        assert_eq!(
            news(&Model::default(), &before),
            [
                "pool v4: 1 of 9 in use",
                "small: endpoint https://127.0.0.1:20000",
                "small: small-x is new",
                "small: small-x is starting",
            ]
        );
        let after = model(true, Stage::Up, "2 of 9 in use");
        assert_eq!(
            news(&before, &after),
            [
                "pool v4: 2 of 9 in use",
                "small: small-x: vm is up",
                "small: small-x: node is up",
                "small: small-x is running",
                "small: available",
            ]
        );
        assert_eq!(
            news(&after, &Model::default()),
            ["small: small-x is gone", "small: gone"]
        );
    }

    #[test]
    fn what_is_missing_names_clusters_and_machines() {
        let starting = model(false, Stage::Starting, "");
        assert_eq!(
            what_is_missing(&starting),
            "cluster small: 0 of 1 machines are up; worker small-x, starting: vm and node"
        );
        assert_eq!(what_is_missing(&Model::default()), "there are no clusters");
        let up = model(true, Stage::Up, "");
        assert!(are_available(&up, ["small"].into_iter()));
        assert!(!are_available(&up, ["small", "large"].into_iter()));
    }
}
