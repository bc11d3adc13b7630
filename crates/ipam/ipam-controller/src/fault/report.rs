//! The status of a Fault of addresses. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use nephele_api::{
    cloud::v1alpha1::{AFFECTED_MAX, AffectedClaim, Fault, FaultStatus},
    ipam::PoolKind,
};
use nephele_fault::number;

use super::address_faults::{ClaimKey, History, Hit, Observation};
use crate::pool::{Block, PoolKey};

/// What the status says that the Fault has done, for a process that does not know it.
pub(super) fn history(object: &Fault, namespace: &str) -> History {
    let Some(status) = &object.status else {
        return History::default();
    };
    let FaultStatus {
        start_time,
        matched,
        hits,
        windows,
        claims,
        ..
    } = status;
    let known = |claim: &AffectedClaim| {
        let AffectedClaim {
            name,
            uid,
            pool_kind,
            pool,
            address,
            until,
        } = claim;
        let kind = PoolKind::ALL
            .into_iter()
            .find(|kind| kind.as_str() == pool_kind)?;
        let namespace = if kind.is_namespaced() {
            namespace.to_owned()
        } else {
            String::new()
        };
        let pool = PoolKey {
            kind,
            namespace,
            name: pool.clone(),
        };
        let block = read(kind, address);
        let hit = Hit {
            pool,
            block,
            until: until.as_ref().map(|until| until.0),
            recorded: true,
        };
        Some(((name.clone(), uid.as_str().into()), hit))
    };
    History {
        began: start_time.as_ref().map(|time| time.0),
        matched: number(*matched),
        hits: number(*hits),
        windows: number(*windows),
        claims: claims.iter().filter_map(known).collect(),
    }
}

/// The status of a Fault, or the mistake for which it has no effect.
pub(super) fn status(
    object: &Fault,
    seen: Result<Option<&Observation>, String>,
    now: Timestamp,
) -> FaultStatus {
    match seen {
        Err(mistake) => {
            let mut status = nephele_fault::status(object, Err(mistake), now);
            status.claims = Vec::new();
            status
        }
        Ok(None) => nephele_fault::status(object, Ok(None), now),
        Ok(Some(Observation { progress, hits, .. })) => {
            let mut status = nephele_fault::status(object, Ok(Some(progress.clone())), now);
            status.claims = listed(hits);
            // It may have been about machines before: the cloud has deleted what leaked.
            status.affected = Vec::new();
            status.skipped = Vec::new();
            status.leaked_instances = Vec::new();
            status.leaked_load_balancers = Vec::new();
            status
        }
    }
}

/// The claims of a status: the first ones by name.
fn listed(hits: &BTreeMap<ClaimKey, Hit>) -> Vec<AffectedClaim> {
    let named = |((name, uid), hit): (&ClaimKey, &Hit)| AffectedClaim {
        name: name.clone(),
        uid: uid.to_string(),
        pool_kind: hit.pool.kind.as_str().to_owned(),
        pool: hit.pool.name.clone(),
        address: hit.block.map(written).unwrap_or_default(),
        until: hit.until.map(MicroTime),
    };
    hits.iter().map(named).take(AFFECTED_MAX).collect()
}

fn written(block: Block) -> String {
    match block.length() {
        None => block.address().to_string(),
        Some(length) => format!("{}/{length}", block.address()),
    }
}

fn read(kind: PoolKind, address: &str) -> Option<Block> {
    match address.split_once('/') {
        None => Block::read(kind, address, None),
        Some((address, length)) => Block::read(kind, address, Some(length.parse().ok()?)),
    }
}

#[cfg(test)]
mod tests {
    use nephele_fault::Progress;
    use nephele_model::FaultPhase;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    #[test]
    fn what_a_fault_has_done_outlives_a_restart() {
        let pool = |kind: PoolKind, namespace: &str| PoolKey {
            kind,
            namespace: namespace.into(),
            name: "p".into(),
        };
        let address = Block::read(PoolKind::InClusterIPPool, "10.0.0.1", None);
        let prefix = Block::read(PoolKind::GlobalInClusterPrefixPool, "fd00::", Some(64));
        let hit = |pool, block, until| Hit {
            pool,
            block,
            until,
            recorded: true,
        };
        let hits: BTreeMap<ClaimKey, Hit> = [
            (
                ("a".to_owned(), "1".into()),
                hit(pool(PoolKind::InClusterIPPool, "ns"), address, Some(at(9))),
            ),
            (
                ("b".to_owned(), "2".into()),
                hit(pool(PoolKind::GlobalInClusterPrefixPool, ""), prefix, None),
            ),
        ]
        .into();
        let progress = Progress {
            phase: FaultPhase::Active,
            began: at(1),
            matched: 5,
            hits: 2,
            windows: 0,
            last_hits: vec![],
        };
        let seen = Observation {
            progress,
            hits: hits.clone(),
            next: None,
        };
        let mut object = Fault::default();
        object.status = Some(status(&object, Ok(Some(&seen)), at(5)));
        let expected = History {
            began: Some(at(1)),
            matched: 5,
            hits: 2,
            windows: 0,
            claims: hits,
        };
        assert_eq!(history(&object, "ns"), expected);
        assert_eq!(history(&Fault::default(), "ns"), History::default());
        let invalid = status(&object, Err("spec.effect: no".into()), at(6));
        assert_eq!(
            (invalid.phase.as_str(), invalid.hits, invalid.claims),
            ("Invalid", Some(2), vec![])
        );
    }
}
