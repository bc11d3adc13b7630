//! The decision which pod gets a token. Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::ResourceExt as _;
use nephele_manager::DIAGNOSTICS_CERTIFICATE;

use super::managers::{LeaseId, ManagerPod, no_pod};

/// The pod that holds the lease.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Leader {
    pub(crate) pod: Pod,
    /// The fingerprint of the certificate of its diagnostics; none where the person who asks trusts any.
    pub(crate) certificate: Option<String>,
}

/// Why no pod gets a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoLeader {
    #[error("{}", no_pod(.0))]
    NoPod(String),
    #[error(
        "no pod of the manager in namespace {0} holds its lease there; one is starting, or cannot take it"
    )]
    NotHeld(String),
    #[error(
        "the manager in namespace {0} elects no leader there, so no lease says which pod leads and which certificate it has; \
         --insecure-manager trusts its only pod"
    )]
    NoElection(String),
    #[error(
        "the manager's pod {0} publishes no certificate for its diagnostics in its lease: it is of an earlier release, or \
         serves them to everybody, without the journal and checkpoints"
    )]
    NoCertificate(String),
}

/// The leases in this namespace for which its pods compete.
pub(super) fn leases(namespace: &str, pods: &[Pod]) -> BTreeSet<LeaseId> {
    let leases = pods.iter().filter_map(|pod| ManagerPod::of(pod).lease);
    leases.filter(|lease| lease.namespace == namespace).collect()
}

/// The pod in this namespace that holds its lease there. `insecure` takes the only pod where none competes for a lease.
pub(super) fn leader(
    namespace: &str,
    pods: &[Pod],
    leases: &BTreeMap<LeaseId, Lease>,
    insecure: bool,
) -> Result<Leader, NoLeader> {
    let is_here = |pod: &&Pod| pod.namespace().as_deref() == Some(namespace) && ManagerPod::of(pod).usable;
    let pods: Vec<&Pod> = pods.iter().filter(is_here).collect();
    if pods.is_empty() {
        return Err(NoLeader::NoPod(namespace.to_owned()));
    }
    let mut elects = false;
    for &pod in &pods {
        let Some(id) = ManagerPod::of(pod).lease.filter(|id| id.namespace == namespace) else {
            continue;
        };
        elects = true;
        let Some(lease) = leases.get(&id) else { continue };
        let holder = lease
            .spec
            .as_ref()
            .and_then(|spec| spec.holder_identity.as_deref());
        if holder == Some(&*pod.name_any()) {
            let certificate = lease.annotations().get(DIAGNOSTICS_CERTIFICATE).cloned();
            let certificate = certificate.ok_or_else(|| NoLeader::NoCertificate(pod.name_any()))?;
            return Ok(Leader {
                pod: pod.clone(),
                certificate: Some(certificate),
            });
        }
    }
    match pods.as_slice() {
        &[pod] if insecure && !elects => Ok(Leader {
            pod: pod.clone(),
            certificate: None,
        }),
        _ if elects => Err(NoLeader::NotHeld(namespace.to_owned())),
        _ => Err(NoLeader::NoElection(namespace.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const LEASE: &str = nephele_manager::LEADER_ELECTION_ID;

    fn pod(namespace: &str, name: &str, phase: &str, args: &[&str]) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"namespace": namespace, "name": name},
            "spec": {"containers": [{"name": "manager", "args": args}]},
            "status": {"phase": phase},
        }))
        .expect("a Pod")
    }

    fn lease(holder: &str, certificate: Option<&str>) -> Lease {
        let annotations = certificate.map(|certificate| json!({DIAGNOSTICS_CERTIFICATE: certificate}));
        serde_json::from_value(json!({
            "metadata": {"annotations": annotations}, "spec": {"holderIdentity": holder},
        }))
        .expect("a Lease")
    }

    fn id(namespace: &str, name: &str) -> LeaseId {
        LeaseId {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// The chosen pod and certificate, or why there is none.
    fn chosen(pods: &[Pod], leases: &BTreeMap<LeaseId, Lease>, insecure: bool) -> Result<String, NoLeader> {
        let leader = leader("system", pods, leases, insecure)?;
        Ok(format!(
            "{} {}",
            leader.pod.name_any(),
            leader.certificate.unwrap_or_default()
        ))
    }

    #[test]
    fn holder_of_the_lease_leads_and_the_lease_has_its_certificate() {
        let pods = ["a", "b"].map(|name| pod("system", name, "Running", &["--leader-elect"]));
        let with = |lease: Lease| BTreeMap::from([(id("system", LEASE), lease)]);
        let system = || "system".to_owned();
        assert_eq!(
            chosen(&pods, &with(lease("b", Some("print"))), false),
            Ok("b print".to_owned())
        );
        assert_eq!(
            chosen(&pods, &with(lease("b", None)), true),
            Err(NoLeader::NoCertificate("b".to_owned()))
        );
        assert_eq!(
            chosen(&pods, &with(lease("c", Some("print"))), true),
            Err(NoLeader::NotHeld(system()))
        );
        assert_eq!(
            chosen(&pods, &BTreeMap::new(), true),
            Err(NoLeader::NotHeld(system()))
        );
        assert_eq!(
            chosen(&[], &BTreeMap::new(), true),
            Err(NoLeader::NoPod(system()))
        );
        let alone = [pod("system", "a", "Running", &[])];
        assert_eq!(
            chosen(&alone, &BTreeMap::new(), false),
            Err(NoLeader::NoElection(system()))
        );
        assert_eq!(chosen(&alone, &BTreeMap::new(), true), Ok("a ".to_owned()));
        let elsewhere = [pod(
            "system",
            "a",
            "Running",
            &["--leader-elect", "--leader-election-id=ada/x"],
        )];
        let leases = BTreeMap::from([(id("ada", "x"), lease("a", Some("print")))]);
        assert_eq!(
            chosen(&elsewhere, &leases, false),
            Err(NoLeader::NoElection(system()))
        );
    }

    fn any_pod() -> impl Strategy<Value = Pod> {
        let namespace = prop::sample::select(vec!["aaa", "system", "zzz"]);
        let args = prop::sample::select(vec![
            vec![],
            vec!["--leader-elect"],
            vec!["--leader-elect", "--leader-election-id=x"],
            vec!["--leader-elect", "--leader-election-id=aaa/x"],
            vec!["--leader-elect", "--leader-election-id=system/x"],
            vec!["--leader-elect=false", "--insecure-diagnostics=true"],
        ]);
        let phase = prop::sample::select(vec!["Running", "Pending"]);
        (namespace, prop::sample::select(vec!["a", "b"]), phase, args)
            .prop_map(|(namespace, name, phase, args)| pod(namespace, name, phase, &args))
    }

    fn any_leases() -> impl Strategy<Value = BTreeMap<LeaseId, Lease>> {
        let ids = (
            prop::sample::select(vec!["aaa", "system"]),
            prop::sample::select(vec![LEASE, "x"]),
        );
        let certificate = prop::option::of(Just("print"));
        let holder = prop::sample::select(vec!["a", "b"]);
        let one = (ids, holder, certificate).prop_map(|((namespace, name), holder, certificate)| {
            (id(namespace, name), lease(holder, certificate))
        });
        prop::collection::btree_map(0..4_u8, one, 0..4).prop_map(|all| all.into_values().collect())
    }

    proptest! {
        #[test]
        fn only_the_holder_of_a_lease_of_the_namespace_gets_a_token(
            pods in prop::collection::vec(any_pod(), 0..5), leases in any_leases(), insecure: bool,
        ) {
            let here: Vec<_> = pods.iter().filter(|pod| pod.namespace().as_deref() == Some("system")).collect();
            let own = leases.iter().filter(|(id, _)| id.namespace == "system");
            let own: BTreeMap<_, _> = own.map(|(id, lease)| (id.clone(), lease.clone())).collect();
            let found = leader("system", &pods, &leases, insecure);
            if let Ok(leader) = &found {
                prop_assert_eq!(leader.pod.namespace(), Some("system".to_owned()));
                match &leader.certificate {
                    Some(certificate) => {
                        let publishes = |lease: &Lease| {
                            let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
                            holder == Some(leader.pod.name_any())
                                && lease.annotations().get(DIAGNOSTICS_CERTIFICATE) == Some(certificate)
                        };
                        prop_assert!(own.values().any(publishes));
                    }
                    None => {
                        let usable = here.iter().filter(|pod| ManagerPod::of(pod).usable).count();
                        prop_assert!(insecure && usable == 1);
                    }
                }
            }
            // What is in other namespaces changes nothing.
            let here: Vec<_> = here.into_iter().cloned().collect();
            prop_assert_eq!(leader("system", &here, &own, insecure), found);
        }
    }
}
