//! The pods of a manager, and the decision which of them serves a workload cluster. Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt as _;
use nephele_manager::{LEADER_ELECTION_ID, go_bool};

use crate::args;

/// The labels of the manager's pods, however it was installed.
pub(crate) const MANAGER_PODS: &str =
    "cluster.x-k8s.io/provider=infrastructure-in-memory,control-plane=controller-manager";

/// A lease: namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LeaseId {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// A pod of a manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ManagerPod {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    address: String,
    /// Whether it runs and is not being deleted.
    pub(super) usable: bool,
    /// The lease for which it competes; None without leader election.
    pub(crate) lease: Option<LeaseId>,
}

/// All pods of managers, and who holds their leases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Managers {
    pub(crate) pods: Vec<ManagerPod>,
    pub(crate) holders: BTreeMap<LeaseId, String>,
}

impl ManagerPod {
    pub(crate) fn of(pod: &Pod) -> Self {
        let namespace = pod.namespace().unwrap_or_default();
        let status = pod.status.as_ref();
        let running = status.and_then(|status| status.phase.as_deref()) == Some("Running");
        Self {
            lease: lease_of(pod, &namespace),
            name: pod.name_any(),
            uid: pod.uid().unwrap_or_default(),
            address: status
                .and_then(|status| status.pod_ip.clone())
                .unwrap_or_default(),
            usable: running && pod.metadata.deletion_timestamp.is_none(),
            namespace,
        }
    }
}

/// Why a command finds no pod of the manager in its namespace.
pub(crate) fn no_pod(namespace: &str) -> String {
    format!(
        "found no running pod of Nephele's manager in namespace {namespace}; is the infrastructure provider installed in \
         this cluster? Its pods have the labels {MANAGER_PODS}, and --manager-namespace names another namespace"
    )
}

/// The lease for which a manager's pod competes, from its arguments and environment.
fn lease_of(pod: &Pod, namespace: &str) -> Option<LeaseId> {
    let containers = pod.spec.as_ref()?.containers.iter();
    let values = |flag: &str, variable: &str| {
        containers
            .clone()
            .find_map(|container| argument(container, flag).or_else(|| environment(container, variable)))
    };
    let elects = values("leader-elect", "NEPHELE_LEADER_ELECT")?;
    if !elects.is_empty() && go_bool(&elects) != Ok(true) {
        return None;
    }
    let id = values("leader-election-id", "NEPHELE_LEADER_ELECTION_ID");
    let id = id.unwrap_or_else(|| LEADER_ELECTION_ID.to_owned());
    let (namespace, name) = id.split_once('/').unwrap_or((namespace, &id));
    Some(LeaseId {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

fn argument(container: &Container, flag: &str) -> Option<String> {
    args::value(container.args.as_deref().unwrap_or_default(), flag).map(str::to_owned)
}

fn environment(container: &Container, variable: &str) -> Option<String> {
    let variables = container.env.as_deref().unwrap_or_default();
    variables
        .iter()
        .find(|other| other.name == variable)?
        .value
        .clone()
}

impl Managers {
    /// The pods to try for the cluster with this endpoint, the best first. Usually there is one. None means: wait.
    pub(crate) fn candidates(&self, host: &str) -> Vec<&ManagerPod> {
        let usable: Vec<_> = self
            .of_endpoint(host)
            .into_iter()
            .filter(|pod| pod.usable)
            .collect();
        // A single replica leads, or will in a moment.
        if usable.len() <= 1 {
            return usable;
        }
        let rivals = |pod: &ManagerPod| usable.iter().filter(|other| other.lease == pod.lease).count();
        let serves = |pod: &ManagerPod| match &pod.lease {
            Some(lease) if rivals(pod) > 1 => self.holders.get(lease) == Some(&pod.name),
            Some(_) | None => true,
        };
        usable.iter().copied().filter(|pod| serves(pod)).collect()
    }

    /// The leases whose holders matter: more than one pod competes for them.
    pub(crate) fn contested(&self) -> BTreeSet<LeaseId> {
        let leases = || {
            self.pods
                .iter()
                .filter(|pod| pod.usable)
                .filter_map(|pod| pod.lease.as_ref())
        };
        leases()
            .filter(|lease| leases().filter(|other| other == lease).count() > 1)
            .cloned()
            .collect()
    }

    pub(crate) fn has(&self, uid: &str) -> bool {
        self.pods.iter().any(|pod| pod.uid == uid)
    }

    /// An endpoint is usually the name of a Service beside the manager, or the address of its pod. Any other name can
    /// lead to any manager.
    fn of_endpoint(&self, host: &str) -> Vec<&ManagerPod> {
        let all = || self.pods.iter();
        let beside = service_namespace(host);
        let by_address: Vec<_> = all()
            .filter(|pod| !host.is_empty() && pod.address == host)
            .collect();
        let by_namespace: Vec<_> = all()
            .filter(|pod| Some(pod.namespace.as_str()) == beside)
            .collect();
        [by_address, by_namespace]
            .into_iter()
            .find(|pods| !pods.is_empty())
            .unwrap_or_else(|| all().collect())
    }
}

/// The namespace in `<service>.<namespace>.svc`, with or without a domain.
fn service_namespace(host: &str) -> Option<&str> {
    let mut labels = host.split('.');
    let _service = labels.next()?;
    let namespace = labels.next()?;
    (labels.next()? == "svc").then_some(namespace)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(namespace: &str, name: &str, phase: &str, args: &[&str]) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"namespace": namespace, "name": name, "uid": format!("uid-{name}")},
            "spec": {"containers": [{"name": "manager", "args": args}]},
            "status": {"phase": phase, "podIP": format!("10.0.0.{}", name.len())},
        }))
        .expect("a Pod")
    }

    fn managers(pods: &[Pod], holders: &[(&str, &str, &str)]) -> Managers {
        let lease = |namespace: &str, name: &str| LeaseId {
            namespace: namespace.into(),
            name: name.into(),
        };
        Managers {
            pods: pods.iter().map(ManagerPod::of).collect(),
            holders: holders
                .iter()
                .map(|(ns, name, pod)| (lease(ns, name), (*pod).to_owned()))
                .collect(),
        }
    }

    fn chosen(managers: &Managers, host: &str) -> Vec<String> {
        managers
            .candidates(host)
            .iter()
            .map(|pod| pod.name.clone())
            .collect()
    }

    const ELECT: &[&str] = &["--roles=infrastructure", "--leader-elect"];
    const HOST: &str = "nephele-workload.nephele-system.svc";

    #[test]
    fn only_pod_serves_whoever_holds_the_lease() {
        let one = managers(&[pod("nephele-system", "a", "Running", ELECT)], &[]);
        assert_eq!(chosen(&one, HOST), ["a"]);
        assert!(one.contested().is_empty());
    }

    #[test]
    fn of_several_replicas_the_holder_of_the_lease_serves() {
        let pods = [
            pod("nephele-system", "a", "Running", ELECT),
            pod("nephele-system", "b", "Running", ELECT),
        ];
        let of = |holders: &[_]| chosen(&managers(&pods, holders), HOST);
        assert_eq!(of(&[("nephele-system", LEADER_ELECTION_ID, "b")]), ["b"]);
        assert_eq!(of(&[("nephele-system", LEADER_ELECTION_ID, "gone")]), [""; 0]);
        assert_eq!(of(&[]), [""; 0]);
        assert_eq!(managers(&pods, &[]).contested().len(), 1);
    }

    #[test]
    fn lease_of_another_name_and_namespace_is_in_the_arguments() {
        let args = ["--leader-elect=true", "--leader-election-id=there/other"];
        let pods = [pod("n", "a", "Running", &args), pod("n", "b", "Running", &args)];
        assert_eq!(
            chosen(&managers(&pods, &[("there", "other", "a")]), "example.com"),
            ["a"]
        );
        assert_eq!(
            ManagerPod::of(&pod("n", "a", "Running", &["--leader-elect=false"])).lease,
            None
        );
    }

    #[test]
    fn pods_that_start_or_end_do_not_serve() {
        let mut ending = pod("nephele-system", "a", "Running", ELECT);
        ending.metadata.deletion_timestamp =
            serde_json::from_value(json!("2026-03-04T05:06:07Z")).expect("a time");
        let starting = pod("nephele-system", "b", "Pending", ELECT);
        let managers = managers(&[ending, starting], &[]);
        assert_eq!(chosen(&managers, HOST), [""; 0]);
        assert!(managers.has("uid-a") && !managers.has("uid-c"));
    }

    #[test]
    fn manager_beside_the_service_of_the_endpoint_serves() {
        let pods = [
            pod("nephele-system", "a", "Running", ELECT),
            pod("other", "bb", "Running", ELECT),
        ];
        let managers = managers(&pods, &[]);
        assert_eq!(chosen(&managers, HOST), ["a"]);
        assert_eq!(
            chosen(&managers, "nephele-workload.other.svc.cluster.local"),
            ["bb"]
        );
        assert_eq!(chosen(&managers, "10.0.0.2"), ["bb"]);
        // Any of them may serve an endpoint of another name.
        assert_eq!(chosen(&managers, "clusters.example.com"), ["a", "bb"]);
    }
}
