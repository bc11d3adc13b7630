//! The fingerprint of a cloud's state.

use nephele_model::{Endpoint, SeedKey, SimTime};

use crate::{
    active_effect::ActiveEffect,
    clock::CloudTime,
    cloud_spec::Hardware,
    hasher::StableHasher,
    latency::Latency,
    leak::Leaked,
    resource::{Deletion, Due, Progress, Resource, StageState, Update, UpdateState},
    spec::{ResourceSpec, StageSpec},
    usage::Footprint,
};

/// Writes everything that decides what the resource will do from now on. The generation is left out: it counts the
/// changes seen, and adoption restarts it. An update that has ended is left out too, because it decides nothing any
/// more.
pub(crate) fn write_resource(hash: &mut StableHasher, resource: &Resource) {
    let Resource {
        spec,
        hardware,
        generation: _,
        created,
        deleting,
        update,
        backends,
        active_effects,
        notices,
        creator: _,
        unanswered,
        // It decides nothing.
        accepted: _,
        // It decides only whether a read is a call.
        adopted: _,
        progress,
    } = resource;
    write_spec(hash, spec);
    write_hardware(hash, hardware);
    // What is absent writes nothing, here and below: the text before what is there tells the two apart.
    if !backends.is_empty() {
        hash.text("backends");
        hash.list(backends, |hash, (instance, stage)| {
            hash.text(instance);
            hash.text(stage.as_str());
        });
    }
    if !active_effects.is_empty() {
        hash.text("afflictions");
        hash.list(active_effects, |hash, (fault, active_effect)| {
            hash.text(fault);
            write_active_effect(hash, active_effect);
        });
    }
    if !notices.is_empty() {
        hash.text("notices");
        hash.list(notices, |hash, (fault, Due { due, ends })| {
            hash.text(fault);
            write_end(hash, *due, *ends);
        });
    }
    if let Some(fault) = unanswered {
        hash.text("unanswered");
        hash.text(fault);
    }
    hash.time(*created);
    hash.list(
        deleting,
        |hash,
         Deletion {
             since: _,
             due,
             ends,
             accepted: _,
         }| write_end(hash, *due, *ends),
    );
    // An update under way counts as one more stage, so that a resource without one keeps the digest of earlier
    // releases.
    let updated = update
        .iter()
        .filter(|update| matches!(update.state, UpdateState::Running { .. }));
    let passing = progress
        .iter()
        .map(Passing::Stage)
        .chain(updated.map(Passing::Update));
    hash.list(passing.collect::<Vec<_>>(), |hash, passing| match passing {
        Passing::Stage(progress) => write_progress(hash, progress),
        Passing::Update(update) => write_update(hash, update),
    });
}

pub(crate) fn write_leaked(hash: &mut StableHasher, leaked: &Leaked) {
    let Leaked {
        id,
        since,
        fault,
        addresses: _,
        endpoint,
        footprint,
    } = leaked;
    let Footprint {
        zone,
        cloud_spec,
        instance_type,
        processors,
        market,
    } = footprint;
    hash.id(id);
    hash.time(*since);
    hash.text(fault);
    hash.text(cloud_spec);
    hash.list(zone, |hash, zone| hash.text(zone));
    hash.list(instance_type, |hash, instance_type| hash.text(instance_type));
    hash.number(u64::from(*processors));
    hash.text(market.as_str());
    // An instance has none.
    if let Some(endpoint) = endpoint {
        write_endpoint(hash, endpoint);
    }
}

fn write_endpoint(hash: &mut StableHasher, Endpoint { host, port }: &Endpoint) {
    hash.text("endpoint");
    hash.text(host);
    hash.number(u64::from(*port));
}

fn write_active_effect(hash: &mut StableHasher, active_effect: &ActiveEffect) {
    let ActiveEffect {
        of,
        among,
        before,
        after,
        visible_effect,
        holds,
        is_down,
        is_final,
        market,
        notice,
    } = active_effect;
    hash.text(of.as_str());
    hash.text(&visible_effect.text());
    hash.list(among, |hash, stage| hash.text(stage.as_str()));
    hash.list(holds, |hash, stage| hash.text(stage.as_str()));
    hash.number(u64::from(*is_down));
    hash.number(u64::from(*is_final));
    if let Some(stage) = before {
        hash.text("before");
        hash.text(stage.as_str());
    }
    if let Some(stage) = after {
        hash.text("after");
        hash.text(stage.as_str());
    }
    if let Some(market) = market {
        hash.text(market.as_str());
    }
    if let Some(notice) = notice {
        hash.duration(notice.lasts);
        write_active_effect(hash, &notice.then);
    }
}

/// A part of a resource that changes by itself over time.
enum Passing<'a> {
    Stage(&'a Progress),
    Update(&'a Update),
}

fn write_spec(hash: &mut StableHasher, spec: &ResourceSpec) {
    let ResourceSpec {
        id,
        seed_key,
        zone,
        region,
        cloud_spec,
        instance_type,
        market,
        image,
        version,
        endpoint,
        owner,
        labels,
        // They decide nothing.
        addresses: _,
        stages,
        deletion,
    } = spec;
    hash.id(id);
    // With or without it, the two cannot be confused: what follows is a list count of zero or one, which is never the length of
    // one of these texts.
    if let Some(SeedKey { owner_set, ordinal }) = seed_key {
        hash.text("draw key");
        hash.text(owner_set);
        hash.number(u64::from(*ordinal));
    }
    for (what, value) in [
        ("catalog", Some(cloud_spec)),
        ("region", region.as_ref()),
        ("image", image.as_ref()),
        ("version", version.as_ref()),
    ] {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            hash.text(what);
            hash.text(value);
        }
    }
    if !market.is_on_demand() {
        hash.text("market");
        hash.text(market.as_str());
    }
    if let Some(endpoint) = endpoint {
        write_endpoint(hash, endpoint);
    }
    hash.list(zone, |hash, zone| hash.text(zone));
    hash.list(instance_type, |hash, instance_type| hash.text(instance_type));
    hash.list(owner, StableHasher::id);
    hash.list(labels, |hash, (key, value)| {
        hash.text(key);
        hash.text(value);
    });
    hash.list(stages, write_stage);
    write_latency(hash, deletion.as_ref());
}

/// Default hardware writes nothing.
fn write_hardware(hash: &mut StableHasher, hardware: &Hardware) {
    if *hardware == Hardware::default() {
        return;
    }
    let Hardware {
        architecture,
        operating_system,
        capacity,
    } = hardware;
    for text in ["hardware", architecture, operating_system] {
        hash.text(text);
    }
    hash.list(capacity, |hash, (name, quantity)| {
        hash.text(name);
        hash.text(quantity);
    });
}

fn write_stage(hash: &mut StableHasher, stage: &StageSpec) {
    let StageSpec {
        name,
        after,
        latency,
        failure,
    } = stage;
    hash.text(name.as_str());
    hash.list(after, |hash, name| hash.text(name.as_str()));
    write_latency(hash, latency.as_ref());
    hash.number(failure.probability().to_bits());
}

fn write_update(hash: &mut StableHasher, update: &Update) {
    let Update { name, state } = update;
    hash.text("update");
    hash.text(name);
    match state {
        UpdateState::Running { since, due, ends } => {
            hash.time(*since);
            write_end(hash, *due, *ends);
        }
        UpdateState::Over { since, at } => {
            hash.time(*since);
            hash.time(*at);
        }
    }
}

fn write_latency(hash: &mut StableHasher, latency: Option<&Latency>) {
    let Some(latency) = latency else {
        return hash.text("of the catalog");
    };
    let (kind, durations, fraction) = latency.parts();
    hash.text(kind);
    match latency {
        // Its values may be of any number.
        Latency::Empirical(values) => hash.list(values, |hash, value| hash.duration(*value)),
        _ => durations.into_iter().for_each(|duration| hash.duration(duration)),
    }
    if let Some(bits) = fraction {
        hash.number(bits);
    }
}

/// An end where the cloud has no time of its own is written as a time.
fn write_end(hash: &mut StableHasher, due: Option<SimTime>, ends: Option<CloudTime>) {
    match due {
        Some(due) => hash.time(due),
        None => hash.text("the clock stands still"),
    }
    if let Some(ends) = ends {
        hash.text("time of the cloud");
        hash.number(ends.as_micros());
    }
}

fn write_progress(hash: &mut StableHasher, progress: &Progress) {
    let Progress { state, attempt, time } = progress;
    match state {
        StageState::Blocked => hash.text("blocked"),
        StageState::Running { since, due } => {
            hash.text("running");
            hash.number(u64::from(*attempt));
            hash.time(*since);
            write_end(hash, *due, *time);
        }
        // The number of attempts that the stage took does not count.
        StageState::Reached { at } => {
            hash.text("reached");
            hash.time(*at);
        }
        StageState::Failed { at, cause } => {
            hash.text("failed");
            hash.number(u64::from(*attempt));
            hash.time(*at);
            hash.text(cause);
        }
    }
}
