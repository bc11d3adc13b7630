use serde_json::json;

use super::*;
use crate::{act_error::ActError, model};

/// A cloud that matches machines by name and no zone, clusters for effects on API servers, and claims by their pools.
fn matcher(spec: &FaultSpec, candidates: &Candidates) -> Result<Selected, String> {
    let names = &spec.matches.names;
    if names.iter().any(|name| name == "wrong") {
        return Err("it cannot be used".to_owned());
    }
    if matches!(spec.effect, Some(FaultEffect::Addresses(_))) {
        let pools = &spec.matches.pools;
        let claims = candidates.claims.iter();
        let claims = claims.filter(|claim| pools.is_empty() || pools.contains(&claim.spec.pool_ref.name));
        return Ok(Selected {
            claims: claims.filter_map(|claim| claim.metadata.name.clone()).collect(),
            moment: "claims that wait",
            ..Selected::default()
        });
    }
    let is_selected =
        |name: &String| spec.matches.zones.is_empty() && (names.is_empty() || names.contains(name));
    let of_clusters = matches!(spec.effect, Some(FaultEffect::ApiServer(_)));
    let named = |names: Vec<Option<&String>>, wanted: bool| -> Vec<String> {
        let names = names.into_iter().flatten().filter(|name| is_selected(name));
        names.filter(|_| wanted).cloned().collect()
    };
    let clusters = candidates.owning_clusters.iter();
    let machines = candidates.machines.iter();
    Ok(Selected {
        clusters: named(
            clusters.map(|cluster| cluster.metadata.name.as_ref()).collect(),
            of_clusters,
        ),
        machines: named(
            machines.map(|machine| machine.metadata.name.as_ref()).collect(),
            !of_clusters,
        ),
        ..Selected::default()
    })
}

fn preview(query: &str) -> Preview {
    preview_of(query, &model::tests::objects())
}

fn preview_of(query: &str, objects: &Objects) -> Preview {
    let fields: Vec<_> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let draft = Draft::of(&fields).expect("a draft");
    Preview::new(&draft, objects, "team", Timestamp::UNIX_EPOCH, matcher)
}

fn share(selected: &[&str], kind: &str, of: usize) -> Share {
    let some = selected
        .iter()
        .map(|name| ((*name).to_owned(), format!("/{kind}/team/{name}")));
    Share {
        selected: selected.len(),
        of,
        some: some.collect(),
    }
}

#[test]
fn what_is_selected_is_named_and_marked() {
    let machines = Hits {
        machines: share(&["a-0", "a-2"], "machine", 3),
        clusters: share(&[], "cluster", 1),
        count: Some(1),
        ids: vec!["machine:team/a-0".to_owned(), "machine:team/a-2".to_owned()],
        ..Hits::default()
    };
    assert_eq!(
        preview("names=a-0,a-2&count=1"),
        Preview::Hits(Box::new(machines))
    );
    let clusters = Hits {
        machines: share(&[], "machine", 3),
        clusters: share(&["a"], "cluster", 1),
        ids: vec!["cluster:team/a".to_owned()],
        ..Hits::default()
    };
    assert_eq!(
        preview("effect=apiServer.down&cluster=a"),
        Preview::Hits(Box::new(clusters))
    );
}

#[test]
fn of_a_fault_that_hits_nothing_the_field_is_named_that_excludes_most() {
    let nothing = |query: &str| match preview(query) {
        Preview::Hits(hits) if hits.ids.is_empty() => hits.excluded_by,
        other => panic!("{other:?}"),
    };
    assert_eq!(nothing("zone=moon"), Some(("zone", 3)));
    assert_eq!(nothing("zone=moon&names=a-1"), Some(("zone", 1)));
    assert_eq!(nothing("names=b"), Some(("names", 3)));
    assert_eq!(
        nothing("zone=moon&names=b"),
        None,
        "each of them alone excludes all"
    );
}

#[test]
fn claims_are_named_and_counted_in_their_namespace() {
    let claim = |namespace: &str, name: &str, pool: &str| -> Arc<IPAddressClaim> {
        let claim = json!({
            "metadata": { "namespace": namespace, "name": name },
            "spec": { "poolRef": { "apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": pool } },
        });
        Arc::new(serde_json::from_value(claim).expect("a claim"))
    };
    let objects = Objects {
        claims: Some(vec![
            claim("team", "a", "v4"),
            claim("team", "b", "v6"),
            claim("other", "c", "v4"),
        ]),
        ..model::tests::objects()
    };
    let told = |query: &str| match preview_of(query, &objects) {
        Preview::Claims(claims) => *claims,
        other => panic!("{other:?}"),
    };
    let claims = |some: &[&str], count, excluded_by| Claims {
        selected: some.len(),
        of: 2,
        some: some.iter().map(|name| (*name).to_owned()).collect(),
        moment: "claims that wait",
        count,
        excluded_by,
    };
    let exhausted = "effect=addresses.exhausted";
    assert_eq!(told(exhausted), claims(&["a", "b"], None, None));
    assert_eq!(
        told(&format!("{exhausted}&names=v6&count=3")),
        claims(&["b"], Some(3), None)
    );
    assert_eq!(
        told(&format!("{exhausted}&names=v5")),
        claims(&[], None, Some(("names", 2)))
    );
}

#[test]
fn a_mistake_and_claims_that_cannot_be_listed_have_no_preview() {
    assert_eq!(
        preview("names=wrong"),
        Preview::Mistake("it cannot be used".to_owned())
    );
    assert_eq!(preview("for=soon"), Preview::Mistake(ActError::Time.to_string()));
    assert_eq!(preview("effect=addresses.exhausted"), Preview::NoClaims);
}
