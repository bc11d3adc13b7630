//! Values that the chart refuses, and its messages about them.

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use super::{
    helm::{Helm, NAMESPACE, RELEASE},
    table,
};
use crate::paths;

pub(super) struct Refusal {
    values: &'static str,
    pub(super) because: &'static str,
}

/// Values that the schema refuses, and values that are not valid together.
pub(super) const REFUSALS: &[Refusal] = &[
    Refusal {
        values: "replica: 2",
        because: "'replica' not allowed",
    },
    Refusal {
        values: "workload: {port: 1}",
        because: "'port' not allowed",
    },
    Refusal {
        values: "replicas: -1",
        because: "'/replicas'",
    },
    Refusal {
        values: "replicas: 1.5",
        because: "'/replicas'",
    },
    Refusal {
        values: "workload: {ports: {first: 0}}",
        because: "'/workload/ports/first'",
    },
    Refusal {
        values: "workload: {ports: {last: 65536}}",
        because: "'/workload/ports/last'",
    },
    Refusal {
        values: "workload: {service: {type: Ingress}}",
        because: "'/workload/service/type'",
    },
    Refusal {
        values: "workload: {advertiseHost: 'https://x'}",
        because: "'/workload/advertiseHost'",
    },
    Refusal {
        values: "image: {registry: 'ghcr.io/x'}",
        because: "'/image/registry'",
    },
    Refusal {
        values: "image: {digest: 'sha256:1'}",
        because: "'/image/digest'",
    },
    Refusal {
        values: "image: {pullPolicy: Sometimes}",
        because: "'/image/pullPolicy'",
    },
    Refusal {
        values: "metrics: {serviceMonitor: {interval: 10 minutes}}",
        because: "'/metrics/serviceMonitor/interval'",
    },
    Refusal {
        values: "metrics: {serviceMonitor: {scrapeTimeout: '10'}}",
        because: "'/metrics/serviceMonitor/scrapeTimeout'",
    },
    Refusal {
        values: "metrics: {serviceMonitor: {enabled: true}, prometheusRule: {enabled: true, labels: {a: 1}}}",
        because: "'/metrics/prometheusRule/labels/a'",
    },
    Refusal {
        values: "metrics: {prometheusRule: {enabled: true}}",
        because: "metrics.prometheusRule needs metrics.serviceMonitor.enabled",
    },
    Refusal {
        values: "logging: {format: xml}",
        because: "'/logging/format'",
    },
    Refusal {
        values: "strategy: {rollingUpdate: {maxSurge: 1}}",
        because: "'/strategy/rollingUpdate'",
    },
    Refusal {
        values: "seed: ''",
        because: "'/seed'",
    },
    Refusal {
        values: "roles: [bootstrap]",
        because: "'/roles/0'",
    },
    Refusal {
        values: "roles: [ipam, ipam]",
        because: "'/roles'",
    },
    Refusal {
        values: "watch: {namespace: A_b}",
        because: "'/watch/namespace'",
    },
    Refusal {
        values: "podLabels: {a: 1}",
        because: "'/podLabels/a'",
    },
    Refusal {
        values: "extraArgs: [version]",
        because: "'/extraArgs/0'",
    },
    Refusal {
        values: "extraArgs: ['--v=2 --seed=x', '-v']",
        because: "'/extraArgs/1'",
    },
    Refusal {
        values: "extraEnv: [{value: x}]",
        because: "missing property 'name'",
    },
    Refusal {
        values: "resources: {limits: {memory: lots}}",
        because: "'/resources/limits/memory'",
    },
    Refusal {
        values: "metrics: {readers: [{name: prometheus}]}",
        because: "missing property 'namespace'",
    },
    Refusal {
        values: "state: {size: much}",
        because: "'/state/size'",
    },
    Refusal {
        values: "podDisruptionBudget: {minAvailable: most}",
        because: "'/podDisruptionBudget/minAvailable'",
    },
    Refusal {
        values: "networkPolicy: {apiServerPorts: []}",
        because: "'/networkPolicy/apiServerPorts'",
    },
    Refusal {
        values: "workload: {ports: {first: 30000, last: 29999}}",
        because: "workload.ports.last (29999) is below workload.ports.first (30000)",
    },
    Refusal {
        values: "{serviceAccount: {name: one}, runtimeExtension: {enabled: true, serviceAccount: {name: one}}}",
        because: "runtimeExtension.serviceAccount has to be another account",
    },
    Refusal {
        values: "{replicas: 2, leaderElection: {enabled: false}}",
        because: "replicas above 1 need leaderElection.enabled",
    },
    Refusal {
        values: "rbac: {namespaced: true}",
        because: "rbac.namespaced needs watch.namespace",
    },
    Refusal {
        values: "workload: {service: {type: ClusterIP}}",
        because: "workload.service.type ClusterIP was removed: use Headless,",
    },
    Refusal {
        values: "workload: {ports: {first: 30000, last: 30001}, advertiseHost: 172.18.0.2, service: {type: NodePort}}",
        because: "workload.service.type NodePort was removed: use hostNetwork=true,",
    },
    Refusal {
        values: "{hostNetwork: true, workload: {service: {type: None}}}",
        because: "workload.service.type None was removed: use Headless, or hostNetwork=true",
    },
    Refusal {
        values: "workload: {ports: {first: 30000, last: 30500}, advertiseHost: x, service: {type: LoadBalancer}}",
        because: "lists every port",
    },
    Refusal {
        values: "{replicas: 2, workload: {ports: {last: 20009}, advertiseHost: x, service: {type: LoadBalancer}}}",
        because: "needs replicas of 1",
    },
    Refusal {
        values: "workload: {ports: {last: 20009}, service: {type: LoadBalancer}}",
        because: "type LoadBalancer needs workload.advertiseHost",
    },
    Refusal {
        values: "{replicas: 2, hostNetwork: true}",
        because: "hostNetwork needs replicas of 1, or workload.advertiseHost",
    },
    Refusal {
        values: "{replicas: 2, state: {enabled: true}}",
        because: "state.type emptyDir needs replicas of 1",
    },
    Refusal {
        values: "{replicas: 2, state: {enabled: true, type: persistentVolumeClaim}}",
        because: "needs the access mode ReadWriteMany",
    },
    Refusal {
        values: "state: {enabled: true, type: persistentVolumeClaim, size: ''}",
        because: "state.size is needed for a new claim",
    },
    Refusal {
        values: "podDisruptionBudget: {enabled: true, minAvailable: 1, maxUnavailable: 1}",
        because: "not both",
    },
    Refusal {
        values: "runtimeExtension: {replicas: 0}",
        because: "'/runtimeExtension/replicas': minimum: got 0, want 1",
    },
    Refusal {
        values: "podDisruptionBudget: {minAvailable: 101%}",
        because: "'/podDisruptionBudget/minAvailable'",
    },
    Refusal {
        values: "networkPolicy: {workloadFrom: [{ipBlock: {cidr: 10.0.0.1}}]}",
        because: "'/networkPolicy/workloadFrom/0/ipBlock/cidr'",
    },
    Refusal {
        values: "networkPolicy: {hooksFrom: [{podSelector: {app: x}}]}",
        because: "'/networkPolicy/hooksFrom/0/podSelector': additional properties 'app' not allowed",
    },
    Refusal {
        values: "networkPolicy: {metricsFrom: [{namespace: x}]}",
        because: "'/networkPolicy/metricsFrom/0': additional properties 'namespace' not allowed",
    },
    Refusal {
        values: "networkPolicy: {pageFrom: [{}]}",
        because: "'/networkPolicy/pageFrom/0': minProperties: got 0, want 1",
    },
    Refusal {
        values: "networkPolicy: {pageFrom: [{podSelector: {}, ipBlock: {cidr: 10.0.0.0/8}}]}",
        because: "'/networkPolicy/pageFrom/0': maxProperties: got 2, want 1",
    },
    Refusal {
        values: "networkPolicy: {extraEgress: [{from: [{podSelector: {}}]}]}",
        because: "'/networkPolicy/extraEgress/0': additional properties 'from' not allowed",
    },
    Refusal {
        values: "networkPolicy: {extraEgress: [{to: [{namespace: x}]}]}",
        because: "'/networkPolicy/extraEgress/0/to/0': additional properties 'namespace' not allowed",
    },
    Refusal {
        values: "runtimeExtension: {namespaceSelector: {tier: gold}}",
        because: "'/runtimeExtension/namespaceSelector': additional properties 'tier' not allowed",
    },
    Refusal {
        values: "workload: {service: {loadBalancerSourceRanges: [10.0.0.1]}}",
        because: "'/workload/service/loadBalancerSourceRanges/0'",
    },
    Refusal {
        values: "metrics: {enabled: false, service: {enabled: true}}",
        because: "metrics.service needs metrics.enabled: without it the manager serves no metrics",
    },
    Refusal {
        values: "metrics: {enabled: false, serviceMonitor: {enabled: true}}",
        because: "metrics.serviceMonitor needs metrics.enabled",
    },
    Refusal {
        values: "metrics: {enabled: false, prometheusRule: {enabled: true}}",
        because: "metrics.prometheusRule needs metrics.enabled",
    },
    Refusal {
        values: "metrics: {enabled: false, dashboard: {enabled: true}}",
        because: "metrics.dashboard needs metrics.enabled",
    },
    Refusal {
        values: "{roles: [ipam], page: {enabled: true}}",
        because: "page.enabled needs the role infrastructure: a manager without it has no workload clusters",
    },
    Refusal {
        values: "{roles: [ipam], state: {enabled: true}}",
        because: "state.enabled needs the role infrastructure",
    },
    Refusal {
        values: "webhooks: {certificate: {injectFrom: nephele-system/serving}}",
        because: "webhooks.certificate.injectFrom needs webhooks.certificate.secret",
    },
    Refusal {
        values: "page: {enabled: true, port: 8443}",
        because: "page.port (8443) is also metrics.port: each needs a port of its own",
    },
    Refusal {
        values: "page: {enabled: true, port: 9443}",
        because: "page.port (9443) is also webhooks.port",
    },
    Refusal {
        values: "page: {enabled: true, port: 9440}",
        because: "page.port (9440) is also health.port",
    },
    Refusal {
        values: "metrics: {port: 9440}",
        because: "metrics.port (9440) is also health.port",
    },
    Refusal {
        values: "webhooks: {port: 8443}",
        because: "webhooks.port (8443) is also metrics.port",
    },
    Refusal {
        values: "{runtimeExtension: {enabled: true}, health: {port: 9444}}",
        because: "health.port (9444) is also the port of the runtime extension",
    },
    Refusal {
        values: "{runtimeExtension: {enabled: true}, metrics: {port: 9444}}",
        because: "metrics.port (9444) is also the port of the runtime extension",
    },
    Refusal {
        values: "workload: {ports: {first: 8000, last: 8443}}",
        because: "workload.ports (8000-8443) has metrics.port (8443): a workload cluster cannot have a port of the manager",
    },
    Refusal {
        values: "{page: {enabled: true}, workload: {ports: {first: 8444, last: 9000}}}",
        because: "workload.ports (8444-9000) has page.port (8444)",
    },
    Refusal {
        values: "workload: {ports: {first: 9440, last: 9442}}",
        because: "workload.ports (9440-9442) has health.port (9440)",
    },
    Refusal {
        values: "webhooks: {port: 25000}",
        because: "workload.ports (20000-29999) has webhooks.port (25000)",
    },
    Refusal {
        values: "podDisruptionBudget: {enabled: true, minAvailable: 1}",
        because: "podDisruptionBudget.minAvailable (1) keeps every pod with replicas of 1: no node with one could be drained",
    },
    Refusal {
        values: "{replicas: 2, podDisruptionBudget: {enabled: true, minAvailable: 3}}",
        because: "podDisruptionBudget.minAvailable (3) keeps every pod with replicas of 2",
    },
    Refusal {
        values: "{replicas: 3, podDisruptionBudget: {enabled: true, minAvailable: 100%}}",
        because: "podDisruptionBudget.minAvailable (100%) keeps every pod with replicas of 3",
    },
    Refusal {
        values: "podDisruptionBudget: {enabled: true, minAvailable: 1%}",
        because: "podDisruptionBudget.minAvailable (1%) keeps every pod with replicas of 1",
    },
    Refusal {
        values: "{replicas: 3, podDisruptionBudget: {enabled: true, maxUnavailable: 0}}",
        because: "podDisruptionBudget.maxUnavailable (0) keeps every pod: no node with one could be drained",
    },
    Refusal {
        values: "podDisruptionBudget: {enabled: true, maxUnavailable: 0%}",
        because: "podDisruptionBudget.maxUnavailable (0%) keeps every pod",
    },
];

/// How many values are tried together, which is how many errors a message has room for.
const TOLD_AT_ONCE: usize = 20;

impl Refusal {
    pub(super) fn check(&self, helm: &Helm) -> anyhow::Result<()> {
        let said = refused(helm, &[], self.values)?;
        ensure!(
            said.contains(self.because),
            "{} is refused with another message: {said}",
            self.values
        );
        Ok(())
    }
}

/// A value of another type is refused, and the message names it.
pub(super) fn wrong_types(helm: &Helm) -> anyhow::Result<()> {
    let path = paths::repository().join(paths::CHART).join("values.yaml");
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
    let described = table::described(&text)?;
    ensure!(described.len() > 50, "only {} values", described.len());
    let values: Value = serde_yaml_ng::from_str(&text).context("failed to read values.yaml")?;
    let mut passed = Vec::new();
    for some in described.chunks(TOLD_AT_ONCE) {
        let mut wrong = json!({});
        for value in some {
            let other = match values.pointer(&pointer(&value.path)) {
                Some(Value::Object(_)) => json!(["wrong"]),
                _ => json!({"wrong": true}),
            };
            put(&mut wrong, &value.path, other);
        }
        let said = refused(helm, &[], &wrong.to_string())?;
        let paths = some.iter().map(|value| value.path.as_str());
        passed.extend(paths.filter(|path| !said.contains(&format!("at '{}'", pointer(path)))));
    }
    ensure!(
        passed.is_empty(),
        "taken with another type: {}",
        passed.join(", ")
    );
    Ok(())
}

/// An API server that is too old for the definitions is reported before anything is sent to it.
pub(super) fn old_kubernetes(helm: &Helm) -> anyhow::Result<()> {
    let said = refused(helm, &["--kube-version", "1.29.15"], "{}")?;
    ensure!(
        said.contains("incompatible with Kubernetes v1.29.15"),
        "another message: {said}"
    );
    helm.template(RELEASE, NAMESPACE, &["--kube-version", "1.30.0"], "{}")?;
    // Kubernetes versions as cloud providers name theirs.
    helm.template(RELEASE, NAMESPACE, &["--kube-version", "1.33.1-gke.100"], "{}")
        .map(drop)
}

/// Helm's message about these values, which it must refuse.
fn refused(helm: &Helm, flags: &[&str], values: &str) -> anyhow::Result<String> {
    match helm.template(RELEASE, NAMESPACE, flags, values) {
        Ok(_) => bail!("taken: {values}"),
        Err(error) => Ok(error.to_string()),
    }
}

fn pointer(path: &str) -> String {
    format!("/{}", path.replace('.', "/"))
}

fn put(object: &mut Value, path: &str, value: Value) {
    match path.split_once('.') {
        Some((first, rest)) => {
            let inner = &mut object[first];
            if inner.is_null() {
                *inner = json!({});
            }
            put(inner, rest, value);
        }
        None => object[path] = value,
    }
}
