//! Values, and the expected objects that the chart renders from them.

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::{
    facts::{self, Release},
    flags::Program,
    flavors::{self, Templates},
    helm::{Helm, NAMESPACE, RELEASE},
    notes,
    object::{deployment, find, id, texts},
};

/// One set of values. Each case is also checked against the facts in `facts`.
pub(super) struct Case {
    pub(super) name: &'static str,
    release: &'static str,
    namespace: &'static str,
    values: &'static str,
    /// Another namespace that has objects of the release.
    watched: &'static str,
    /// Arguments that the manager gets.
    flags: &'static [&'static str],
    /// Prefixes of arguments that the manager does not get.
    no_flags: &'static [&'static str],
    /// Object, JSON pointer, and the JSON value there. `null` also stands for a missing value.
    holds: &'static [(&'static str, &'static str, &'static str)],
    with: &'static [&'static str],
    /// Objects that do not exist.
    without: &'static [&'static str],
    /// Parts of the notes after an installation.
    notes: &'static [&'static str],
    /// Whether the case is also linted.
    lint: bool,
}

const PLAIN: Case = Case {
    name: "",
    release: RELEASE,
    namespace: NAMESPACE,
    values: "{}",
    watched: "",
    flags: &[],
    no_flags: &[],
    holds: &[],
    with: &[],
    without: &[],
    notes: &[],
    lint: false,
};

const DEPLOYMENT: &str = "Deployment/nephele-controller-manager";
const TEMPLATES: &str = "ConfigMap/nephele-templates";
const WORKLOAD: &str = "Service/nephele-workload";
const PORTS: &str = "Service/nephele-workload-ports";
const CONTAINER_IMAGE: &str = "/spec/template/spec/containers/0/image";
const MONITOR: &str = "ServiceMonitor/nephele-controller-manager";
const ALERTS: &str = "PrometheusRule/nephele-controller-manager";
const CLOUD_ALERTS: &str = "PrometheusRule/cloud-nephele-controller-manager";
const POLICY: &str = "NetworkPolicy/nephele-controller-manager";
const BUDGET: &str = "PodDisruptionBudget/nephele-controller-manager";
const POOLS: &str = "CustomResourceDefinition/inclusterippools.ipam.cluster.x-k8s.io";
/// A kind with one version, which is never converted.
const PREFIX_POOLS: &str = "CustomResourceDefinition/inclusterprefixpools.ipam.cluster.x-k8s.io";
const VALIDATION: &str =
    "ValidatingWebhookConfiguration/capi-ipam-in-cluster-validating-webhook-configuration";
const TEMPLATE_VALIDATION: &str = "ValidatingWebhookConfiguration/nephele-validating-webhook-configuration";
const EXTENSION: &str = "ExtensionConfig/nephele";
const EXTENSION_PODS: &str = "Deployment/nephele-runtime-extension";
const CLUSTERS: &str = "CustomResourceDefinition/inmemoryclusters.infrastructure.cluster.x-k8s.io";

pub(super) const CASES: &[Case] = &[
    Case {
        name: "nothing set",
        flags: &[
            "--leader-elect=true",
            "--diagnostics-address=:8443",
            "--insecure-diagnostics=false",
            "--v=2",
            "--seed=nephele",
            "--workload-ports=20000-29999",
            "--advertise-host=nephele-workload.nephele-system.svc",
            "--webhook-port=9443",
        ],
        no_flags: &[
            "--namespace",
            "--watch-filter",
            "--roles",
            "--health-addr",
            "--sync-period",
        ],
        holds: &[
            (WORKLOAD, "/spec/clusterIP", "\"None\""),
            (WORKLOAD, "/spec/ports", "null"),
            (WORKLOAD, "/spec/publishNotReadyAddresses", "true"),
            // Webhooks answer while a permission is missing.
            (
                "Service/nephele-webhook-service",
                "/spec/publishNotReadyAddresses",
                "true",
            ),
            (DEPLOYMENT, "/spec/replicas", "1"),
            (DEPLOYMENT, "/spec/strategy/type", "\"Recreate\""),
            (DEPLOYMENT, "/spec/template/spec/hostNetwork", "null"),
            (DEPLOYMENT, "/spec/template/spec/volumes", "null"),
            (CLUSTERS, "/metadata/labels/clusterctl.cluster.x-k8s.io", "\"\""),
            (
                CLUSTERS,
                "/metadata/labels/cluster.x-k8s.io~1v1beta2",
                "\"v1beta2\"",
            ),
            (
                POOLS,
                "/metadata/labels/cluster.x-k8s.io~1provider",
                "\"ipam-in-cluster\"",
            ),
        ],
        with: &[
            "ServiceAccount/nephele-manager",
            "ClusterRole/nephele-system-manager",
            "Pod/nephele-test-start",
            TEMPLATES,
        ],
        without: &[
            EXTENSION,
            PORTS,
            MONITOR,
            ALERTS,
            BUDGET,
            POLICY,
            "Service/nephele-metrics",
            "PersistentVolumeClaim/nephele-state",
            "ConfigMap/nephele-dashboard",
        ],
        notes: &[
            "1. Create a cluster:\n\n     clusterctl generate cluster demo --worker-machine-count 1 \\\n       --from-config-map nephele-templates ",
            "2. Wait until it is up:\n\n     kubectl wait cluster/demo --for condition=Available --timeout 5m\n",
            "3. Reach it:\n\n     clusterctl get kubeconfig demo > demo.kubeconfig\n     kubectl --namespace nephele-system port-forward deployment/nephele-controller-manager \\\n       20000:$(kubectl get cluster demo --output jsonpath='{.spec.controlPlaneEndpoint.port}')\n",
            "--server https://localhost:20000 get nodes\n",
            "nephele connect --all\n",
            "autoscaler, ipam, machine-pool, scale, topology.\n",
            "Helm manages infrastructure-in-memory now",
            "crds.keep is on",
            "delete secret nephele-webhook-certificate\n",
        ],
        ..PLAIN
    },
    Case {
        name: "the runtime extension beside both providers",
        values: "{runtimeExtension: {enabled: true, settings: {kubernetesVersions: v1.35.1}}, networkPolicy: {enabled: true}}",
        no_flags: &["--roles", "--runtime-extension"],
        holds: &[
            (
                EXTENSION_PODS,
                "/spec/template/spec/serviceAccountName",
                "\"nephele-runtime-extension\"",
            ),
            (
                EXTENSION_PODS,
                "/spec/template/spec/containers/0/args",
                "[\"--roles=runtime-extension\", \"--runtime-extension-port=9444\", \"--diagnostics-address=:8443\", \
                 \"--insecure-diagnostics=false\", \"--logging-format=text\", \"--v=2\"]",
            ),
            (EXTENSION, "/spec/namespaceSelector", "null"),
            (
                EXTENSION,
                "/spec/clientConfig/service/name",
                "\"nephele-runtime-extension-service\"",
            ),
            (EXTENSION, "/spec/settings/extensionConfigName", "\"nephele\""),
            (EXTENSION, "/spec/settings/kubernetesVersions", "\"v1.35.1\""),
            (
                EXTENSION,
                "/metadata/annotations/runtime.cluster.x-k8s.io~1inject-ca-from-secret",
                "\"nephele-system/nephele-runtime-extension-certificate\"",
            ),
            (
                "Service/nephele-runtime-extension-service",
                "/spec/ports/0/targetPort",
                "\"runtime-hooks\"",
            ),
        ],
        with: &[
            "ClusterRole/nephele-system-runtime-extension",
            "ClusterRoleBinding/nephele-system-runtime-extension",
            "Role/nephele-runtime-extension-certificate",
            "RoleBinding/nephele-runtime-extension-certificate",
            "ServiceAccount/nephele-runtime-extension",
            "NetworkPolicy/nephele-runtime-extension",
        ],
        notes: &["Everyone who reaches the runtime extension can use its permissions"],
        lint: true,
        ..PLAIN
    },
    Case {
        name: "the runtime extension for one namespace, with rights in it alone",
        values: "{watch: {namespace: team}, rbac: {namespaced: true}, runtimeExtension: {enabled: true}}",
        watched: "team",
        holds: &[
            (
                EXTENSION,
                "/spec/namespaceSelector",
                "{\"matchLabels\": {\"kubernetes.io/metadata.name\": \"team\"}}",
            ),
            (
                EXTENSION_PODS,
                "/spec/template/spec/containers/0/args/2",
                "\"--namespace=team\"",
            ),
            (
                "Role/nephele-runtime-extension",
                "/metadata/namespace",
                "\"team\"",
            ),
            (
                "Role/nephele-runtime-extension",
                "/rules/0/resources",
                "[\"configmaps\"]",
            ),
            (
                "RoleBinding/nephele-runtime-extension",
                "/metadata/namespace",
                "\"team\"",
            ),
            (
                "ClusterRole/nephele-system-runtime-extension",
                "/rules",
                "[{\"apiGroups\": [\"authentication.k8s.io\"], \"resources\": [\"tokenreviews\"], \"verbs\": [\"create\"]}, \
                 {\"apiGroups\": [\"authorization.k8s.io\"], \"resources\": [\"subjectaccessreviews\"], \"verbs\": [\"create\"]}]",
            ),
        ],
        ..PLAIN
    },
    Case {
        name: "the runtime extension for one namespace without metrics has no right beyond it",
        values: "{watch: {namespace: team}, rbac: {namespaced: true}, metrics: {enabled: false}, runtimeExtension: {enabled: true}}",
        watched: "team",
        without: &[
            "ClusterRole/nephele-system-runtime-extension",
            "ClusterRoleBinding/nephele-system-runtime-extension",
        ],
        ..PLAIN
    },
    Case {
        name: "the runtime extension for clients with certificates",
        values: "{metrics: {serviceMonitor: {enabled: true}}, runtimeExtension: {enabled: true, replicas: 2, clientAuthority: {secret: clients}, serviceAccount: {name: answers}, namespaceSelector: {matchLabels: {tier: gold}}, extraArgs: ['--tls-min-version=VersionTLS13']}}",
        holds: &[
            (
                EXTENSION_PODS,
                "/spec/template/spec/volumes/0/secret",
                "{\"secretName\": \"clients\", \"items\": [{\"key\": \"ca.crt\", \"path\": \"ca.crt\"}]}",
            ),
            (
                EXTENSION_PODS,
                "/spec/template/spec/containers/0/args/2",
                "\"--runtime-extension-client-ca-file=/etc/nephele/client-authority/ca.crt\"",
            ),
            (
                EXTENSION_PODS,
                "/spec/template/spec/containers/0/args/7",
                "\"--tls-min-version=VersionTLS13\"",
            ),
            (
                EXTENSION_PODS,
                "/spec/template/spec/serviceAccountName",
                "\"answers\"",
            ),
            (EXTENSION_PODS, "/spec/replicas", "2"),
            (
                EXTENSION,
                "/spec/namespaceSelector",
                "{\"matchLabels\": {\"tier\": \"gold\"}}",
            ),
        ],
        with: &[
            "ServiceAccount/answers",
            "Service/nephele-runtime-extension-metrics",
        ],
        ..PLAIN
    },
    Case {
        name: "a dashboard for Grafana",
        values: "{metrics: {dashboard: {enabled: true, labels: {folder: '7'}}}}",
        holds: &[
            (
                "ConfigMap/nephele-dashboard",
                "/metadata/labels/grafana_dashboard",
                "\"1\"",
            ),
            ("ConfigMap/nephele-dashboard", "/metadata/labels/folder", "\"7\""),
        ],
        ..PLAIN
    },
    Case {
        name: "another release and namespace",
        release: "cloud",
        namespace: "simulation",
        flags: &["--advertise-host=cloud-nephele-workload.simulation.svc"],
        with: &[
            "Deployment/cloud-nephele-controller-manager",
            "ServiceAccount/cloud-nephele-manager",
            "ClusterRole/simulation-cloud-nephele-manager",
            "ClusterRoleBinding/simulation-cloud-nephele-manager",
            "Role/cloud-nephele-leader-election",
            "ConfigMap/cloud-nephele-templates",
        ],
        ..PLAIN
    },
    Case {
        name: "names that could be taken for numbers and truth values",
        release: "1",
        namespace: "123",
        values: "{serviceAccount: {name: 'true'}, priorityClassName: 'null', watch: {namespace: '0'}, workload: {ports: {last: 20001}, advertiseHost: '7', service: {type: LoadBalancer, loadBalancerClass: '1'}}, metrics: {readers: [{namespace: '1', name: '2'}], serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}}, webhooks: {certificate: {secret: '3'}}, podDisruptionBudget: {enabled: true}, networkPolicy: {enabled: true}, state: {enabled: true, type: persistentVolumeClaim, persistentVolumeClaim: {storageClassName: '5'}}}",
        flags: &["--namespace=0", "--advertise-host=7"],
        holds: &[
            (
                "Deployment/1-nephele-controller-manager",
                "/spec/template/spec/priorityClassName",
                "\"null\"",
            ),
            (
                "Deployment/1-nephele-controller-manager",
                "/spec/template/spec/serviceAccountName",
                "\"true\"",
            ),
            (
                "Deployment/1-nephele-controller-manager",
                "/spec/template/spec/volumes/1/secret/secretName",
                "\"3\"",
            ),
            (
                "Service/1-nephele-workload-ports",
                "/spec/loadBalancerClass",
                "\"1\"",
            ),
            (
                "ServiceMonitor/1-nephele-controller-manager",
                "/spec/namespaceSelector/matchNames/0",
                "\"123\"",
            ),
            (
                "ClusterRoleBinding/123-1-nephele-metrics-reader",
                "/subjects/0/name",
                "\"2\"",
            ),
            (
                "PersistentVolumeClaim/1-nephele-state",
                "/spec/storageClassName",
                "\"5\"",
            ),
        ],
        ..PLAIN
    },
    Case {
        name: "other names",
        values: "{nameOverride: mist, fullnameOverride: fog, serviceAccount: {name: someone}, commonLabels: {team: 'yes'}}",
        holds: &[
            (
                "Deployment/fog-controller-manager",
                "/spec/template/spec/serviceAccountName",
                "\"someone\"",
            ),
            (
                "Deployment/fog-controller-manager",
                "/metadata/labels/team",
                "\"yes\"",
            ),
            (
                "Deployment/fog-controller-manager",
                "/metadata/labels/app.kubernetes.io~1name",
                "\"mist\"",
            ),
            ("ServiceAccount/someone", "/metadata/labels/team", "\"yes\""),
            (CLUSTERS, "/metadata/labels/team", "\"yes\""),
        ],
        ..PLAIN
    },
    Case {
        name: "an image elsewhere",
        values: "{image: {registry: 'localhost:5000', repository: mirror/nephele, tag: dev, pullPolicy: Never}, imagePullSecrets: [{name: pull}]}",
        holds: &[
            (
                DEPLOYMENT,
                CONTAINER_IMAGE,
                "\"localhost:5000/mirror/nephele:dev\"",
            ),
            (
                DEPLOYMENT,
                "/spec/template/spec/containers/0/imagePullPolicy",
                "\"Never\"",
            ),
            (
                DEPLOYMENT,
                "/spec/template/spec/imagePullSecrets",
                "[{\"name\": \"pull\"}]",
            ),
            (
                "Pod/nephele-test-start",
                "/spec/imagePullSecrets",
                "[{\"name\": \"pull\"}]",
            ),
        ],
        ..PLAIN
    },
    Case {
        name: "an image by its digest",
        values: "image: {tag: ignored, digest: 'sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef'}",
        holds: &[(
            DEPLOYMENT,
            CONTAINER_IMAGE,
            "\"ghcr.io/nephele-dev/nephele@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"",
        )],
        ..PLAIN
    },
    Case {
        name: "replicas that wait for a lease",
        values: "{replicas: 3, strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}}",
        flags: &["--leader-elect=true"],
        holds: &[
            (DEPLOYMENT, "/spec/replicas", "3"),
            (
                DEPLOYMENT,
                "/spec/strategy",
                "{\"type\": \"RollingUpdate\", \"rollingUpdate\": {\"maxSurge\": 1}}",
            ),
        ],
        notes: &["name that pod instead of the Deployment"],
        ..PLAIN
    },
    Case {
        name: "infrastructure alone",
        values: "{roles: [infrastructure], ipam: {overlap: warn}}",
        flags: &["--roles=infrastructure"],
        no_flags: &["--ipam"],
        with: &[
            CLUSTERS,
            TEMPLATE_VALIDATION,
            "ClusterRole/nephele-system-manager",
            "Role/nephele-leader-election",
        ],
        without: &[
            POOLS,
            "ClusterRole/nephele-system-ipam-manager",
            "Service/capi-ipam-in-cluster-webhook-service",
            VALIDATION,
        ],
        ..PLAIN
    },
    Case {
        name: "pools alone",
        values: "{roles: [ipam], prepareCredentials: false, networkPolicy: {enabled: true}}",
        flags: &["--roles=ipam"],
        no_flags: &[
            "--seed",
            "--workload-ports",
            "--advertise-host",
            "--prepare-credentials",
        ],
        holds: &[
            (
                DEPLOYMENT,
                "/metadata/labels/cluster.x-k8s.io~1provider",
                "\"ipam-in-cluster\"",
            ),
            (POLICY, "/spec/ingress/0/ports/0/port", "\"metrics\""),
        ],
        with: &[
            POOLS,
            "ClusterRole/nephele-system-ipam-manager",
            "ClusterRole/nephele-system-ipam-webhook",
            "Role/nephele-ipam-webhook",
            "Role/nephele-leader-election",
            "ClusterRole/nephele-system-metrics-reader",
        ],
        without: &[
            CLUSTERS,
            WORKLOAD,
            TEMPLATES,
            TEMPLATE_VALIDATION,
            "ClusterRole/nephele-system-manager",
        ],
        notes: &["\nCreate an InClusterIPPool", "Helm manages ipam-in-cluster now"],
        ..PLAIN
    },
    Case {
        name: "pools as one likes them",
        values: "ipam: {reclaimOrphans: true, overlap: warn}",
        flags: &["--ipam-reclaim-orphans=true", "--ipam-overlap=warn"],
        no_flags: &["--roles"],
        ..PLAIN
    },
    Case {
        name: "no lease",
        values: "leaderElection: {enabled: false}",
        flags: &["--leader-elect=false"],
        ..PLAIN
    },
    Case {
        name: "a share of the objects",
        values: "watch: {namespace: team-a, filter: mine}",
        flags: &["--namespace=team-a", "--watch-filter=mine"],
        notes: &[
            "--target-namespace team-a \\\n",
            "cluster/demo --namespace team-a ",
            "cluster.x-k8s.io/watch-filter=mine",
        ],
        without: &[
            "Role/nephele-system-manager",
            "ClusterRole/nephele-system-cluster-faults",
        ],
        ..PLAIN
    },
    Case {
        name: "permissions in one namespace",
        values: "{watch: {namespace: team-a}, rbac: {namespaced: true}}",
        holds: &[
            ("Role/nephele-system-manager", "/metadata/namespace", "\"team-a\""),
            (
                "RoleBinding/nephele-system-manager",
                "/metadata/namespace",
                "\"team-a\"",
            ),
            ("RoleBinding/nephele-system-manager", "/roleRef/kind", "\"Role\""),
            (
                "RoleBinding/nephele-system-manager",
                "/subjects/0/namespace",
                "\"nephele-system\"",
            ),
            (
                "ClusterRole/nephele-system-manager",
                "/rules/0/resources",
                "[\"cloudextensionconfigs\"]",
            ),
            (
                "ClusterRole/nephele-system-manager",
                "/rules/1/resources",
                "[\"cloudextensionconfigs/status\"]",
            ),
            (
                "ClusterRole/nephele-system-manager",
                "/rules/2/resources",
                "[\"namespaces\"]",
            ),
            (
                "ClusterRole/nephele-system-manager",
                "/rules/2/verbs",
                "[\"get\"]",
            ),
            (
                "ClusterRole/nephele-system-manager",
                "/rules/3/resources",
                "[\"ipaddresses\"]",
            ),
            (
                "ClusterRole/nephele-system-manager",
                "/rules/3/verbs",
                "[\"get\", \"list\", \"watch\"]",
            ),
            (
                "ClusterRole/nephele-system-manager",
                "/rules/4/resources",
                "[\"tokenreviews\"]",
            ),
            (
                "ClusterRole/nephele-system-manager",
                "/rules/5/resources",
                "[\"subjectaccessreviews\"]",
            ),
            ("ClusterRole/nephele-system-manager", "/rules/6", "null"),
            (
                "Role/nephele-system-ipam-manager",
                "/rules/0/resources",
                "[\"inclusterippools\", \"inclusterprefixpools\"]",
            ),
            (
                "ClusterRole/nephele-system-ipam-manager",
                "/rules/0/resources",
                "[\"globalinclusterippools\", \"globalinclusterprefixpools\"]",
            ),
            (
                "Role/nephele-leader-election",
                "/metadata/namespace",
                "\"nephele-system\"",
            ),
        ],
        with: &[
            "ClusterRole/nephele-system-ipam-webhook",
            "Role/nephele-ipam-webhook",
        ],
        without: &[
            "Role/nephele-system-ipam-webhook",
            "RoleBinding/nephele-system-ipam-webhook",
            "ClusterRole/nephele-system-cluster-faults",
            "Role/nephele-system-cluster-faults",
            "ClusterRole/nephele-system-ipam-cluster-faults",
            "Role/nephele-system-ipam-cluster-faults",
        ],
        watched: "team-a",
        ..PLAIN
    },
    Case {
        name: "logs",
        values: "logging: {level: 0, format: json}",
        flags: &["--v=0", "--logging-format=json"],
        ..PLAIN
    },
    Case {
        name: "pace, with flags that have no value of the chart",
        values: "{seed: 'a \"quoted\" seed: 1', prepareCredentials: false, extraArgs: [--sync-period=1h30m, --leader-election-id=other/lease, --leader-elect-lease-duration=60s, --inmemorycluster-concurrency=5, --kube-api-qps=12.5]}",
        flags: &[
            "--seed=a \"quoted\" seed: 1",
            "--prepare-credentials=false",
            "--sync-period=1h30m",
            "--leader-election-id=other/lease",
            "--leader-elect-lease-duration=60s",
            "--inmemorycluster-concurrency=5",
            "--kube-api-qps=12.5",
        ],
        ..PLAIN
    },
    Case {
        name: "workload clusters behind a load balancer",
        values: "workload: {ports: {last: 20001}, advertiseHost: 'fd00::1', service: {type: LoadBalancer, annotations: {a: b}, loadBalancerClass: x/y, loadBalancerSourceRanges: [10.0.0.0/8]}}",
        flags: &["--workload-ports=20000-20001", "--advertise-host=fd00::1"],
        holds: &[
            (PORTS, "/spec/type", "\"LoadBalancer\""),
            (PORTS, "/metadata/annotations", "{\"a\": \"b\"}"),
            (WORKLOAD, "/metadata/annotations", "{\"a\": \"b\"}"),
            (
                PORTS,
                "/spec/ports",
                "[{\"name\": \"cluster-20000\", \"port\": 20000, \"targetPort\": 20000, \"protocol\": \"TCP\"}, \
                 {\"name\": \"cluster-20001\", \"port\": 20001, \"targetPort\": 20001, \"protocol\": \"TCP\"}]",
            ),
            (PORTS, "/spec/loadBalancerClass", "\"x/y\""),
            (PORTS, "/spec/loadBalancerSourceRanges", "[\"10.0.0.0/8\"]"),
        ],
        with: &[WORKLOAD],
        notes: &["> demo.kubeconfig\n     kubectl --kubeconfig demo.kubeconfig get nodes\n"],
        ..PLAIN
    },
    Case {
        name: "as many workload clusters as a load balancer has ports",
        values: "workload: {ports: {last: 20499}, advertiseHost: x, service: {type: LoadBalancer}}",
        flags: &["--workload-ports=20000-20499"],
        holds: &[
            (PORTS, "/spec/ports/499/port", "20499"),
            (PORTS, "/spec/ports/499/targetPort", "20499"),
            (PORTS, "/spec/ports/500", "null"),
        ],
        ..PLAIN
    },
    Case {
        name: "the node's network",
        values: "hostNetwork: true",
        no_flags: &["--advertise-host"],
        holds: &[
            (DEPLOYMENT, "/spec/template/spec/hostNetwork", "true"),
            (
                DEPLOYMENT,
                "/spec/template/spec/dnsPolicy",
                "\"ClusterFirstWithHostNet\"",
            ),
        ],
        notes: &["> demo.kubeconfig\n     kubectl --kubeconfig demo.kubeconfig get nodes\n"],
        ..PLAIN
    },
    Case {
        name: "no metrics",
        values: "metrics: {enabled: false, readers: [{namespace: m, name: p}]}",
        flags: &["--diagnostics-address=0"],
        no_flags: &["--insecure-diagnostics"],
        without: &[
            MONITOR,
            ALERTS,
            "Service/nephele-metrics",
            "ClusterRoleBinding/nephele-system-metrics-reader",
        ],
        ..PLAIN
    },
    Case {
        name: "metrics for those who may",
        values: "metrics: {readers: [{namespace: monitoring, name: prometheus}], serviceMonitor: {enabled: true, interval: 15s, scrapeTimeout: 10s, labels: {release: prometheus}}}",
        holds: &[
            (MONITOR, "/spec/endpoints/0/scheme", "\"https\""),
            (
                MONITOR,
                "/spec/endpoints/0/bearerTokenFile",
                "\"/var/run/secrets/kubernetes.io/serviceaccount/token\"",
            ),
            (MONITOR, "/spec/endpoints/0/tlsConfig/insecureSkipVerify", "true"),
            (MONITOR, "/spec/endpoints/0/interval", "\"15s\""),
            (MONITOR, "/spec/endpoints/0/honorLabels", "true"),
            (MONITOR, "/metadata/labels/release", "\"prometheus\""),
            (
                "ClusterRoleBinding/nephele-system-metrics-reader",
                "/subjects",
                "[{\"kind\": \"ServiceAccount\", \"name\": \"prometheus\", \"namespace\": \"monitoring\"}]",
            ),
        ],
        ..PLAIN
    },
    Case {
        name: "alerts about another release",
        release: "cloud",
        namespace: "simulation",
        values: "metrics: {serviceMonitor: {enabled: true}, prometheusRule: {enabled: true, labels: {release: prometheus}}}",
        holds: &[
            (CLOUD_ALERTS, "/metadata/labels/release", "\"prometheus\""),
            (
                CLOUD_ALERTS,
                "/spec/groups/0/rules/0/alert",
                "\"NepheleManagerDown\"",
            ),
            (
                CLOUD_ALERTS,
                "/spec/groups/0/rules/0/expr",
                "\"absent(up{namespace=\\\"simulation\\\", job=\\\"cloud-nephele-metrics\\\"} == 1)\"",
            ),
            (
                CLOUD_ALERTS,
                "/spec/groups/0/rules/0/labels",
                "{\"severity\": \"critical\", \"namespace\": \"simulation\"}",
            ),
        ],
        ..PLAIN
    },
    Case {
        name: "metrics for everyone on another port",
        without: &["Service/nephele-page"],
        values: "metrics: {authentication: false, port: 8080, serviceMonitor: {enabled: true}}",
        flags: &["--diagnostics-address=:8080", "--insecure-diagnostics=true"],
        holds: &[
            (MONITOR, "/spec/endpoints/0/scheme", "\"http\""),
            (MONITOR, "/spec/endpoints/0/bearerTokenFile", "null"),
            ("Service/nephele-metrics", "/spec/ports/0/port", "8080"),
        ],
        ..PLAIN
    },
    Case {
        name: "the page reviews those who sign in, also where nothing else does",
        values: "{page: {enabled: true, port: 9000}, metrics: {enabled: false}, networkPolicy: {enabled: true, pageFrom: [{podSelector: {}}]}}",
        flags: &["--page-address=:9000"],
        holds: &[
            ("Service/nephele-page", "/spec/ports/0/port", "9000"),
            ("Service/nephele-page", "/spec/ports/0/targetPort", "\"page\""),
            ("Service/nephele-page", "/spec/sessionAffinity", "\"ClientIP\""),
            (
                DEPLOYMENT,
                "/spec/template/spec/containers/0/ports/2",
                "{\"name\": \"page\", \"containerPort\": 9000, \"protocol\": \"TCP\"}",
            ),
            (
                POLICY,
                "/spec/ingress/1",
                "{\"ports\": [{\"protocol\": \"TCP\", \"port\": \"page\"}], \"from\": [{\"podSelector\": {}}]}",
            ),
            (
                "ClusterRole/nephele-system-manager",
                "/rules/19/resources",
                "[\"tokenreviews\"]",
            ),
        ],
        ..PLAIN
    },
    Case {
        name: "another health port",
        values: "health: {port: 9999}",
        flags: &["--health-addr=:9999"],
        ..PLAIN
    },
    Case {
        name: "no webhooks",
        values: "webhooks: {enabled: false, certificate: {secret: unused}}",
        flags: &["--webhook-port=0"],
        no_flags: &["--webhook-cert-dir"],
        holds: &[(DEPLOYMENT, "/spec/template/spec/volumes", "null")],
        without: &[
            "ClusterRole/nephele-system-ipam-webhook",
            "Role/nephele-ipam-webhook",
            "Service/capi-ipam-in-cluster-webhook-service",
            VALIDATION,
            TEMPLATE_VALIDATION,
            "MutatingWebhookConfiguration/capi-ipam-in-cluster-mutating-webhook-configuration",
        ],
        ..PLAIN
    },
    Case {
        name: "a certificate of another authority",
        values: "webhooks: {port: 10250, certificate: {secret: serving, injectFrom: nephele-system/serving}}",
        flags: &[
            "--webhook-port=10250",
            "--webhook-cert-dir=/tmp/k8s-webhook-server/serving-certs",
        ],
        holds: &[
            (
                DEPLOYMENT,
                "/spec/template/spec/volumes/0/secret/secretName",
                "\"serving\"",
            ),
            (
                POOLS,
                "/metadata/annotations/cert-manager.io~1inject-ca-from",
                "\"nephele-system/serving\"",
            ),
            (
                POOLS,
                "/metadata/annotations/helm.sh~1resource-policy",
                "\"keep\"",
            ),
            (
                PREFIX_POOLS,
                "/metadata/annotations/cert-manager.io~1inject-ca-from",
                "null",
            ),
            (
                VALIDATION,
                "/metadata/annotations/cert-manager.io~1inject-ca-from",
                "\"nephele-system/serving\"",
            ),
            (
                TEMPLATE_VALIDATION,
                "/metadata/annotations/cert-manager.io~1inject-ca-from",
                "\"nephele-system/serving\"",
            ),
        ],
        without: &[
            "ClusterRole/nephele-system-ipam-webhook",
            "Role/nephele-ipam-webhook",
        ],
        ..PLAIN
    },
    Case {
        name: "definitions by others",
        values: "crds: {install: false}",
        without: &[CLUSTERS, POOLS],
        ..PLAIN
    },
    Case {
        name: "definitions that go with the release",
        values: "crds: {keep: false, annotations: {a: 'true'}}",
        holds: &[(CLUSTERS, "/metadata/annotations", "{\"a\": \"true\"}")],
        ..PLAIN
    },
    Case {
        name: "an account and permissions by others",
        values: "{serviceAccount: {create: false, name: given}, rbac: {create: false}, metrics: {readers: [{namespace: m, name: p}]}}",
        holds: &[(DEPLOYMENT, "/spec/template/spec/serviceAccountName", "\"given\"")],
        without: &[
            "ServiceAccount/given",
            "ClusterRole/nephele-system-manager",
            "ClusterRoleBinding/nephele-system-manager",
            "ClusterRoleBinding/nephele-system-metrics-reader",
            "Role/nephele-leader-election",
        ],
        ..PLAIN
    },
    Case {
        name: "no permissions for steps of scenarios",
        values: "scenarios: {enabled: false}",
        with: &["ClusterRole/nephele-system-manager"],
        without: &[
            "ClusterRole/nephele-system-scenarios",
            "ClusterRoleBinding/nephele-system-scenarios",
        ],
        ..PLAIN
    },
    Case {
        name: "permissions for an account by others",
        values: "serviceAccount: {create: false}",
        holds: &[
            (
                DEPLOYMENT,
                "/spec/template/spec/serviceAccountName",
                "\"default\"",
            ),
            (
                "ClusterRoleBinding/nephele-system-manager",
                "/subjects/0/name",
                "\"default\"",
            ),
        ],
        ..PLAIN
    },
    Case {
        name: "where and beside whom it runs",
        values: "{priorityClassName: high, nodeSelector: {disk: 'true'}, tolerations: [], affinity: {nodeAffinity: {}}, topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}], terminationGracePeriodSeconds: 30, resources: {limits: {cpu: 2, memory: 1Gi}}}",
        holds: &[
            (DEPLOYMENT, "/spec/template/spec/priorityClassName", "\"high\""),
            (
                DEPLOYMENT,
                "/spec/template/spec/nodeSelector",
                "{\"disk\": \"true\"}",
            ),
            (DEPLOYMENT, "/spec/template/spec/tolerations", "null"),
            (
                DEPLOYMENT,
                "/spec/template/spec/affinity",
                "{\"nodeAffinity\": {}}",
            ),
            (
                DEPLOYMENT,
                "/spec/template/spec/topologySpreadConstraints/0/labelSelector/matchLabels/app.kubernetes.io~1instance",
                "\"nephele\"",
            ),
            (
                DEPLOYMENT,
                "/spec/template/spec/terminationGracePeriodSeconds",
                "30",
            ),
            (
                DEPLOYMENT,
                "/spec/template/spec/containers/0/resources/limits/memory",
                "\"1Gi\"",
            ),
            (
                DEPLOYMENT,
                "/spec/template/spec/containers/0/resources/requests/cpu",
                "\"50m\"",
            ),
        ],
        ..PLAIN
    },
    Case {
        name: "more of everything",
        lint: true,
        values: "
annotations: {a: '1'}
podAnnotations: {b: '2'}
podLabels: {c: '3'}
extraArgs: ['--connection-hold=5s', '--bind-address=::']
extraEnv: [{name: RUST_LOG, value: debug}]
extraVolumes: [{name: more, emptyDir: {}}]
extraVolumeMounts: [{name: more, mountPath: /more}]
state: {enabled: true}
podDisruptionBudget: {enabled: true}
networkPolicy: {enabled: true}
metrics: {serviceMonitor: {enabled: true}}",
        flags: &[
            "--connection-hold=5s",
            "--bind-address=::",
            "--state-dir=/var/lib/nephele",
        ],
        holds: &[
            (DEPLOYMENT, "/metadata/annotations", "{\"a\": \"1\"}"),
            (
                DEPLOYMENT,
                "/spec/template/metadata/annotations",
                "{\"b\": \"2\"}",
            ),
            (DEPLOYMENT, "/spec/template/metadata/labels/c", "\"3\""),
            (
                DEPLOYMENT,
                "/spec/template/spec/containers/0/env/4/name",
                "\"RUST_LOG\"",
            ),
            (
                DEPLOYMENT,
                "/spec/template/spec/volumes/0",
                "{\"name\": \"state\", \"emptyDir\": {\"sizeLimit\": \"1Gi\"}}",
            ),
            (DEPLOYMENT, "/spec/template/spec/volumes/1/name", "\"more\""),
            (
                DEPLOYMENT,
                "/spec/template/spec/containers/0/volumeMounts/0/mountPath",
                "\"/var/lib/nephele\"",
            ),
            (DEPLOYMENT, "/spec/template/spec/securityContext/fsGroup", "65532"),
            (BUDGET, "/spec/maxUnavailable", "1"),
            (
                POLICY,
                "/spec/ingress/0/ports",
                "[{\"protocol\": \"TCP\", \"port\": 20000, \"endPort\": 29999}]",
            ),
        ],
        without: &["PersistentVolumeClaim/nephele-state"],
        ..PLAIN
    },
    Case {
        name: "a folder without a limit",
        values: "state: {enabled: true, size: ''}",
        holds: &[(
            DEPLOYMENT,
            "/spec/template/spec/volumes",
            "[{\"name\": \"state\", \"emptyDir\": {}}]",
        )],
        ..PLAIN
    },
    Case {
        name: "a claim of its own",
        values: "state: {enabled: true, type: persistentVolumeClaim, size: 2Gi, persistentVolumeClaim: {storageClassName: fast, annotations: {a: b}}}",
        holds: &[
            (
                DEPLOYMENT,
                "/spec/template/spec/volumes/0/persistentVolumeClaim/claimName",
                "\"nephele-state\"",
            ),
            (
                "PersistentVolumeClaim/nephele-state",
                "/spec/resources/requests/storage",
                "\"2Gi\"",
            ),
            (
                "PersistentVolumeClaim/nephele-state",
                "/spec/storageClassName",
                "\"fast\"",
            ),
            (
                "PersistentVolumeClaim/nephele-state",
                "/metadata/annotations",
                "{\"a\": \"b\", \"helm.sh/resource-policy\": \"keep\"}",
            ),
        ],
        ..PLAIN
    },
    Case {
        name: "a claim that is there",
        values: "state: {enabled: true, type: persistentVolumeClaim, persistentVolumeClaim: {existingClaim: theirs}}",
        flags: &["--state-dir=/var/lib/nephele"],
        holds: &[(
            DEPLOYMENT,
            "/spec/template/spec/volumes/0/persistentVolumeClaim/claimName",
            "\"theirs\"",
        )],
        without: &["PersistentVolumeClaim/nephele-state"],
        ..PLAIN
    },
    Case {
        name: "budgets",
        values: "{replicas: 2, podDisruptionBudget: {enabled: true, minAvailable: 50%}}",
        holds: &[
            (BUDGET, "/spec/minAvailable", "\"50%\""),
            (BUDGET, "/spec/maxUnavailable", "null"),
        ],
        ..PLAIN
    },
    Case {
        name: "a budget that keeps all pods but one",
        values: "{replicas: 3, podDisruptionBudget: {enabled: true, minAvailable: 2}}",
        holds: &[(BUDGET, "/spec/minAvailable", "2")],
        ..PLAIN
    },
    Case {
        name: "a budget that keeps no pod",
        values: "podDisruptionBudget: {enabled: true, minAvailable: 0}",
        holds: &[(BUDGET, "/spec/minAvailable", "0")],
        ..PLAIN
    },
    Case {
        name: "a budget of a share that may be missing",
        values: "podDisruptionBudget: {enabled: true, maxUnavailable: 1%}",
        holds: &[(BUDGET, "/spec/maxUnavailable", "\"1%\"")],
        ..PLAIN
    },
    Case {
        name: "ports of what the manager does not serve",
        values: "{page: {port: 8443}, webhooks: {enabled: false, port: 9440}, runtimeExtension: {enabled: true}, workload: {ports: {first: 9441, last: 9450}}}",
        flags: &[
            "--page-address=0",
            "--webhook-port=0",
            "--workload-ports=9441-9450",
        ],
        ..PLAIN
    },
    Case {
        name: "workload ports beside those of the manager",
        values: "workload: {ports: {first: 9444, last: 9999}}",
        flags: &["--workload-ports=9444-9999"],
        ..PLAIN
    },
    Case {
        name: "peers of every kind",
        values: "{networkPolicy: {enabled: true, metricsFrom: [{namespaceSelector: {matchLabels: {a: b}}, podSelector: {matchExpressions: [{key: c, operator: In, values: [d]}]}}, {ipBlock: {cidr: 'fd00::/8', except: ['fd01::/16']}}], extraEgress: [{to: [{ipBlock: {cidr: 10.0.0.0/8}}], ports: [{protocol: UDP, port: 1, endPort: 9}, {port: https}]}, {}]}}",
        holds: &[
            (
                POLICY,
                "/spec/ingress/1/from",
                "[{\"namespaceSelector\": {\"matchLabels\": {\"a\": \"b\"}}, \"podSelector\": {\"matchExpressions\": \
                 [{\"key\": \"c\", \"operator\": \"In\", \"values\": [\"d\"]}]}}, \
                 {\"ipBlock\": {\"cidr\": \"fd00::/8\", \"except\": [\"fd01::/16\"]}}]",
            ),
            (
                POLICY,
                "/spec/egress/2",
                "{\"to\": [{\"ipBlock\": {\"cidr\": \"10.0.0.0/8\"}}], \"ports\": \
                 [{\"protocol\": \"UDP\", \"port\": 1, \"endPort\": 9}, {\"port\": \"https\"}]}",
            ),
            (POLICY, "/spec/egress/3", "{}"),
        ],
        ..PLAIN
    },
    Case {
        name: "a network policy",
        values: "{webhooks: {enabled: false}, networkPolicy: {enabled: true, workloadFrom: [{podSelector: {}}], metricsFrom: [{namespaceSelector: {}}], apiServerPorts: [6443], extraEgress: [{ports: [{port: 1}]}]}}",
        holds: &[
            (POLICY, "/spec/ingress/0/from", "[{\"podSelector\": {}}]"),
            (POLICY, "/spec/ingress/1/from", "[{\"namespaceSelector\": {}}]"),
            (
                POLICY,
                "/spec/ingress/2",
                "{\"ports\": [{\"protocol\": \"TCP\", \"port\": \"healthz\"}]}",
            ),
            (
                POLICY,
                "/spec/egress/1/ports",
                "[{\"protocol\": \"TCP\", \"port\": 6443}]",
            ),
            (POLICY, "/spec/egress/2", "{\"ports\": [{\"port\": 1}]}"),
        ],
        ..PLAIN
    },
];

impl Case {
    pub(super) fn check(&self, helm: &Helm, program: &Program, templates: &Templates) -> anyhow::Result<()> {
        let Self {
            name: _,
            release,
            namespace,
            values,
            watched,
            flags,
            no_flags,
            holds,
            with,
            without,
            notes: said,
            lint,
        } = self;
        if *lint {
            helm.lint(values)?;
        }
        let objects = helm.objects(release, namespace, values)?;
        let of = Release {
            name: release,
            namespace,
            watched,
        };
        facts::check(&objects, &of, program)?;
        flavors::check(&objects, templates)?;
        let text = helm.notes(release, namespace, values)?;
        notes::check(&text, &objects, &of).context("the notes")?;
        for part in *said {
            ensure!(text.contains(part), "no {part:?} in the notes: {text}");
        }
        let args = texts(deployment(&objects)?, "/spec/template/spec/containers/0/args");
        for flag in *flags {
            ensure!(args.iter().any(|arg| arg == flag), "no {flag} among {args:?}");
        }
        for flag in *no_flags {
            ensure!(
                !args.iter().any(|arg| arg.starts_with(flag)),
                "{flag} among {args:?}"
            );
        }
        for (object, pointer, json) in *holds {
            let expected: Value =
                serde_json::from_str(json).with_context(|| format!("the case has no JSON: {json}"))?;
            let found = find(&objects, object)?.pointer(pointer).unwrap_or(&Value::Null);
            ensure!(
                *found == expected,
                "{object}: {pointer} is {found}, not {expected}"
            );
        }
        for object in *with {
            find(&objects, object)?;
        }
        if let Some(object) = objects
            .iter()
            .find(|object| without.contains(&id(object).as_str()))
        {
            bail!("{} is there", id(object));
        }
        Ok(())
    }
}
