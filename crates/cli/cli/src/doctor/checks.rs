//! What is wrong with a management cluster, and how to mend it. Pure.

use jiff::SignedDuration;

use super::snapshot::{Affecting, Manager, NEEDED, OURS, Snapshot, Waiting};

/// The oldest Kubernetes whose validation rules and match conditions our definitions and webhooks use.
const KUBERNETES_MINOR_MIN: u32 = 30;
/// The oldest Cluster API with contract v1beta2.
const CLUSTER_API_MINOR_MIN: u32 = 11;
/// Certificates are valid from a minute before they are made.
const CLOCK_AHEAD_MAX: SignedDuration = SignedDuration::from_secs(30);

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) problem: String,
    pub(super) mend: String,
}

fn finding(problem: impl Into<String>, mend: impl Into<String>) -> Finding {
    Finding {
        problem: problem.into(),
        mend: mend.into(),
    }
}

/// Everything that is wrong, the causes before their effects.
pub(super) fn findings(snapshot: &Snapshot) -> Vec<Finding> {
    let checks: [fn(&Snapshot) -> Vec<Finding>; 9] = [
        kubernetes,
        clock,
        nodes,
        cluster_api,
        feature_gates,
        manager,
        kinds,
        rights,
        webhooks,
    ];
    checks
        .iter()
        .flat_map(|check| check(snapshot))
        .chain(waiting(snapshot))
        .collect()
}

/// What explains a lot and is no mistake of an installation: Faults, and Clusters that are not available.
pub(super) fn notes(snapshot: &Snapshot) -> Vec<Finding> {
    let of_fault = |fault: &Affecting| {
        let Affecting {
            namespace,
            name,
            effect,
            phase,
            affected,
            hits,
            cluster_fault,
        } = fault;
        finding(
            format!("Fault {namespace}/{name} ({effect}) is {phase}: affects {affected} now, hit {hits}"),
            match cluster_fault {
                Some(of) => format!("`nephele fault heal --all-namespaces {of}` ends it"),
                None => format!("`nephele fault heal {name} --namespace {namespace}` ends it"),
            },
        )
    };
    let of_cluster = |cluster: &Waiting| {
        finding(
            format!("Cluster {} is not available: {}", cluster.name, cluster.message),
            UNAVAILABLE,
        )
    };
    let faults = snapshot.faults.iter().map(of_fault);
    faults
        .chain(snapshot.unavailable.iter().map(of_cluster))
        .collect()
}

fn kubernetes(snapshot: &Snapshot) -> Vec<Finding> {
    let minor = snapshot.kubernetes_minor;
    if minor >= KUBERNETES_MINOR_MIN {
        return Vec::new();
    }
    vec![finding(
        format!("the management cluster runs Kubernetes 1.{minor}"),
        format!("use 1.{KUBERNETES_MINOR_MIN} or newer"),
    )]
}

fn clock(snapshot: &Snapshot) -> Vec<Finding> {
    let ahead = snapshot.clock_ahead;
    if ahead.abs() <= CLOCK_AHEAD_MAX {
        return Vec::new();
    }
    let direction = if ahead.is_positive() { "ahead of" } else { "behind" };
    vec![finding(
        format!(
            "the clock of the API server is {} s {direction} this machine's",
            ahead.abs().as_secs()
        ),
        "synchronize both clocks, with chrony or systemd-timesyncd: certificates and leases depend on them",
    )]
}

fn nodes(snapshot: &Snapshot) -> Vec<Finding> {
    let of_node = |(node, condition): &(String, String)| {
        let mend = match condition.as_str() {
            "DiskPressure" => {
                "free disk space there; with a state directory the manager refuses writes until then"
            }
            "NotReady" => "look at its kubelet: `kubectl describe node` shows the reason",
            _ => "stop other programs there, or use a larger node",
        };
        finding(format!("node {node} has {condition}"), mend)
    };
    snapshot.pressures.iter().map(of_node).collect()
}

fn cluster_api(snapshot: &Snapshot) -> Vec<Finding> {
    let init = "run `CLUSTER_TOPOLOGY=true clusterctl init`";
    let mut findings = Vec::new();
    let in_pods = NEEDED
        .into_iter()
        .filter(|needed| !snapshot.processes.contains(*needed));
    for needed in in_pods {
        let Some(manager) = snapshot
            .managers
            .iter()
            .find(|manager| manager.provider == needed)
        else {
            findings.push(finding(
                format!("Cluster API's provider {needed} is not installed"),
                init,
            ));
            continue;
        };
        if !manager.is_available {
            findings.push(not_available(manager));
        }
        if manager.minor().is_some_and(|minor| minor < CLUSTER_API_MINOR_MIN) {
            findings.push(finding(
                format!("{} is of release {}", manager.provider, manager.image.rsplit(':').next().unwrap_or("")),
                format!(
                    "run `clusterctl upgrade apply --contract v1beta2`; before 1.{CLUSTER_API_MINOR_MIN} only v1beta1 \
                     objects work"
                ),
            ));
        }
    }
    findings
}

fn feature_gates(snapshot: &Snapshot) -> Vec<Finding> {
    let core = snapshot
        .managers
        .iter()
        .find(|manager| manager.provider == NEEDED[0]);
    let Some(core) = core.filter(|core| core.gate("ClusterTopology") != Some(true)) else {
        return Vec::new();
    };
    vec![finding(
        "Cluster API's feature gate ClusterTopology is off, so clusters of a ClusterClass are refused",
        format!(
            "set `--feature-gates=ClusterTopology=true` on the Deployment {} in {}, or install Cluster API with \
             `CLUSTER_TOPOLOGY=true clusterctl init`",
            core.name, core.namespace
        ),
    )]
}

fn manager(snapshot: &Snapshot) -> Vec<Finding> {
    let ours: Vec<_> = snapshot
        .managers
        .iter()
        .filter(|manager| manager.is_ours())
        .collect();
    let mut findings: Vec<_> = ours
        .iter()
        .filter(|manager| !manager.is_available)
        .map(|manager| not_available(manager))
        .collect();
    match ours.as_slice() {
        [] if snapshot.processes.contains(OURS) => {}
        [] => findings.push(finding(
            "Nephele's manager is not installed",
            "run `nephele install`",
        )),
        [_] => {}
        several if overlap(several) => {
            let names: Vec<_> = several
                .iter()
                .map(|manager| format!("{}/{}", manager.namespace, manager.name))
                .collect();
            findings.push(finding(
                format!(
                    "several managers reconcile the same objects: {}",
                    names.join(", ")
                ),
                "remove all but one, or give each its own --namespace or --watch-filter",
            ));
        }
        _ => {}
    }
    findings
}

/// Whether two of the managers look after the same objects.
fn overlap(managers: &[&Manager]) -> bool {
    let scope = |manager: &Manager| {
        let value = |flag: &str| manager.flag(flag).unwrap_or_default().to_owned();
        (value("namespace"), value("watch-filter"))
    };
    managers.iter().enumerate().any(|(index, one)| {
        let one = scope(one);
        managers[index + 1..]
            .iter()
            .map(|other| scope(other))
            .any(|other| {
                (one.0.is_empty() || other.0.is_empty() || one.0 == other.0)
                    && (one.1.is_empty() || other.1.is_empty() || one.1 == other.1)
            })
    })
}

fn not_available(manager: &Manager) -> Finding {
    let trouble = manager.trouble.as_deref().unwrap_or("its pods are not ready");
    let mend = if trouble.contains("Image") {
        "load the image into every node with `nephele install`, or name one that nodes can pull with --image"
            .to_owned()
    } else if trouble.contains("in use") {
        "another program on the node has the port: stop it, or choose another port in the manager's flags"
            .to_owned()
    } else if trouble.contains("PodSecurity") {
        format!(
            "allow such pods in the namespace {}, or take what is forbidden out of the Deployment",
            manager.namespace
        )
    } else if trouble.contains("Unschedulable") {
        "mend the nodes or their taints: `kubectl get nodes` shows which are ready".to_owned()
    } else {
        format!(
            "see `kubectl -n {} logs deployment/{}`",
            manager.namespace, manager.name
        )
    };
    finding(
        format!(
            "the manager {}/{} is not available: {trouble}",
            manager.namespace, manager.name
        ),
        mend,
    )
}

fn kinds(snapshot: &Snapshot) -> Vec<Finding> {
    let expected = |name: &str| match name {
        name if name.contains(".ipam.") => "ipam-in-cluster",
        _ => "infrastructure-in-memory",
    };
    let mut findings = Vec::new();
    for definition in &snapshot.definitions {
        if definition.provider != expected(&definition.name) {
            findings.push(finding(
                format!(
                    "{} belongs to the provider {:?}",
                    definition.name, definition.provider
                ),
                "remove that provider first: two providers cannot share a kind",
            ));
        } else if !definition.is_current {
            findings.push(finding(
                format!("{} lacks a version that this program has", definition.name),
                "upgrade the installation with `nephele install` or `clusterctl upgrade apply`",
            ));
        }
    }
    findings
}

fn rights(snapshot: &Snapshot) -> Vec<Finding> {
    if snapshot.missing_rights.is_empty() {
        return Vec::new();
    }
    vec![finding(
        format!(
            "the manager's account may not {}",
            snapshot.missing_rights.join(", ")
        ),
        "restore its roles with `nephele install`, `helm upgrade` or `clusterctl upgrade apply`",
    )]
}

fn webhooks(snapshot: &Snapshot) -> Vec<Finding> {
    // A pod that does not run answers nothing, which is a finding already.
    let mut managers = snapshot.managers.iter();
    if !managers.any(|manager| manager.is_ours() && manager.is_available)
        && !snapshot.processes.contains(OURS)
    {
        return Vec::new();
    }
    let mut findings = Vec::new();
    if !snapshot.without_authority.is_empty() {
        findings.push(finding(
            format!("no certificate authority is in {}", snapshot.without_authority.join(", ")),
            "delete the manager's pod: it writes the authority when it starts. If it does not, its log says why",
        ));
    }
    if let Some(reason) = &snapshot.webhooks {
        findings.push(finding(
            format!("the API server does not reach the manager's webhooks: {reason}"),
            if snapshot.processes.contains(OURS) {
                "start `nephele up` again: its process has ended, or does not answer"
            } else {
                "let the API server connect to port 9443 of the manager's pod: look at network policies, firewalls, and \
                 the endpoints of nephele-webhook-service"
            },
        ));
    }
    findings
}

fn waiting(snapshot: &Snapshot) -> Vec<Finding> {
    let of = |waiting: &Waiting| {
        finding(
            format!("{} {} waits: {}", waiting.kind, waiting.name, waiting.message),
            mend(&waiting.message),
        )
    };
    snapshot.waiting.iter().map(of).collect()
}

/// What helps a Cluster that has not been available for a while.
const UNAVAILABLE: &str = "a Fault, a slow cloud or a clock that stands still explains it, or `nephele describe cluster`; if Cluster \
    API does not reach it, compare spec.controlPlaneEndpoint with the server in the Secret NAME-kubeconfig, which may be of an \
    earlier cluster of this name";

/// What helps an object that waits, by the message of its condition.
fn mend(message: &str) -> &'static str {
    if message.contains("port") {
        "give the manager more ports with --workload-ports, or delete clusters"
    } else if message.contains("pool") {
        "add addresses to the pool, or create it"
    } else {
        "its condition says what it waits for; `nephele describe` shows its machines, Faults and events"
    }
}

#[cfg(test)]
mod tests;
