//! What clients read that did not write it. Each expectation was read from a kube-apiserver 1.36.3.

use serde_json::{Value, json};

use crate::support::{apply, get, managers, patch, post, send, server};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

#[tokio::test]
async fn new_objects_have_the_defaults_of_their_kind() {
    let server = server();
    let rolling = |bounds: Value| json!({"type": "RollingUpdate", "rollingUpdate": bounds});
    let retention = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
    let service = |kind: &str, more: Value| {
        let mut spec = json!({"type": kind, "sessionAffinity": "None", "internalTrafficPolicy": "Cluster"});
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        spec
    };
    let processors = json!({"type": "Utilization", "averageUtilization": 80});
    let metrics = json!([{"type": "Resource", "resource": {"name": "cpu", "target": processors}}]);
    for (path, sent, expected) in [
        (
            "/apis/apps/v1/namespaces/default/deployments",
            json!({}),
            json!({"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
                   "strategy": rolling(json!({"maxUnavailable": "25%", "maxSurge": "25%"}))}),
        ),
        (
            "/apis/apps/v1/namespaces/default/statefulsets",
            json!({}),
            json!({"replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady",
                   "updateStrategy": rolling(json!({"partition": 0})),
                   "persistentVolumeClaimRetentionPolicy": retention}),
        ),
        (
            "/apis/apps/v1/namespaces/default/daemonsets",
            json!({"updateStrategy": {"type": "OnDelete"}}),
            json!({"revisionHistoryLimit": 10, "updateStrategy": {"type": "OnDelete"}}),
        ),
        (
            "/apis/apps/v1/namespaces/default/replicasets",
            json!({}),
            json!({"replicas": 1}),
        ),
        (
            "/api/v1/namespaces/default/replicationcontrollers",
            json!({"template": {"metadata": {"labels": {"a": "b"}}}}),
            json!({"replicas": 1, "selector": {"a": "b"}, "template": {"metadata": {"labels": {"a": "b"}}}}),
        ),
        (
            "/apis/batch/v1/namespaces/default/jobs",
            json!({}),
            json!({"parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed",
                   "suspend": false}),
        ),
        (
            "/apis/batch/v1/namespaces/default/cronjobs",
            json!({"schedule": "* * * * *"}),
            json!({"schedule": "* * * * *", "concurrencyPolicy": "Allow", "suspend": false,
                   "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1}),
        ),
        (
            "/api/v1/namespaces/default/services",
            json!({"ports": [{"port": 80}]}),
            service(
                "ClusterIP",
                json!({"ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}),
            ),
        ),
        (
            "/api/v1/namespaces/default/services",
            json!({"type": "LoadBalancer"}),
            service(
                "LoadBalancer",
                json!({"externalTrafficPolicy": "Cluster", "allocateLoadBalancerNodePorts": true}),
            ),
        ),
        (
            "/api/v1/namespaces/default/services",
            json!({"type": "ExternalName", "externalName": "a.b"}),
            json!({"type": "ExternalName", "externalName": "a.b", "sessionAffinity": "None"}),
        ),
        (
            "/api/v1/namespaces/default/pods",
            json!({"restartPolicy": "Never"}),
            json!({"restartPolicy": "Never", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
                   "terminationGracePeriodSeconds": 30}),
        ),
        (
            "/api/v1/persistentvolumes",
            json!({}),
            json!({"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"}),
        ),
        (
            "/api/v1/namespaces/default/persistentvolumeclaims",
            json!({}),
            json!({"volumeMode": "Filesystem"}),
        ),
        (
            "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
            json!({"podSelector": {}, "egress": [{}]}),
            json!({"podSelector": {}, "egress": [{}], "policyTypes": ["Ingress", "Egress"]}),
        ),
        (
            "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers",
            json!({"maxReplicas": 2}),
            json!({"maxReplicas": 2, "minReplicas": 1, "targetCPUUtilizationPercentage": 80}),
        ),
        (
            "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
            json!({"maxReplicas": 2, "minReplicas": 0}),
            json!({"maxReplicas": 2, "minReplicas": 0, "metrics": metrics}),
        ),
        (
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            json!({"minAvailable": 1}),
            json!({"minAvailable": 1}),
        ),
    ] {
        let object = json!({"metadata": {"generateName": "a-"}, "spec": sent});
        let created = post(&server, path, object).await;
        assert_eq!(created["spec"], expected, "{path} {sent}");
        let same = format!("{path}/{}", created["metadata"]["name"].as_str().unwrap());
        assert_eq!(
            send(&server, "PUT", &same, &created).await,
            (200, created),
            "{path} {sent}"
        );
    }
    let class = "/apis/storage.k8s.io/v1/storageclasses";
    let created = post(
        &server,
        class,
        json!({"metadata": {"name": "a"}, "provisioner": "x"}),
    )
    .await;
    assert_eq!(
        (&created["reclaimPolicy"], &created["volumeBindingMode"]),
        (&json!("Delete"), &json!("Immediate"))
    );
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let subjects =
        json!([{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "x"}]);
    let role = json!({"kind": "ClusterRole", "name": "r"});
    let binding = json!({"metadata": {"name": "a"}, "roleRef": role, "subjects": subjects});
    let created = post(&server, bindings, binding).await;
    let groups = (
        &created["roleRef"]["apiGroup"],
        &created["subjects"][0]["apiGroup"],
        &created["subjects"][1]["apiGroup"],
    );
    let group = json!("rbac.authorization.k8s.io");
    assert_eq!(groups, (&group, &group, &Value::Null));
}

#[tokio::test]
async fn a_default_returns_when_its_field_is_removed_and_has_no_owner() {
    let server = server();
    let path = format!("{DEPLOYMENTS}/d");
    let applied = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 3}});
    assert_eq!(
        apply(&server, &path, "m", applied.clone()).await.1["spec"]["replicas"],
        3
    );
    let without = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"paused": true}});
    let (code, applied) = apply(&server, &path, "m", without).await;
    assert_eq!((code, &applied["spec"]["replicas"]), (200, &json!(1)));
    assert_eq!(managers(&applied), [r#"m Apply {"f:spec":{"f:paused":{}}}"#]);
    let (_, patched) = patch(&server, "merge", &path, &json!({"spec": {"replicas": null}})).await;
    assert_eq!(patched["spec"]["replicas"], 1);
}

#[tokio::test]
async fn scale_says_what_the_workload_has() {
    let server = server();
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    for (collection, spec) in [
        (DEPLOYMENTS, json!({"selector": {"matchLabels": {"a": "b"}}})),
        (
            "/api/v1/namespaces/default/replicationcontrollers",
            json!({"template": labels}),
        ),
    ] {
        post(
            &server,
            collection,
            json!({"metadata": {"name": "d"}, "spec": spec}),
        )
        .await;
        let (_, scale) = get(&server, &format!("{collection}/d/scale")).await;
        assert_eq!(
            (&scale["spec"]["replicas"], &scale["status"]["selector"]),
            (&json!(1), &json!("a=b"))
        );
    }
    let names = json!({"plural": "widgets", "kind": "Widget"});
    let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    let version = json!({"name": "v1", "served": true, "storage": true, "subresources": {"scale": scale}});
    let spec = json!({"group": "x.io", "scope": "Cluster", "names": names, "versions": [version]});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    post(
        &server,
        definitions,
        json!({"metadata": {"name": "widgets.x.io"}, "spec": spec}),
    )
    .await;
    post(
        &server,
        "/apis/x.io/v1/widgets",
        json!({"metadata": {"name": "a"}}),
    )
    .await;
    let path = "/apis/x.io/v1/widgets/a/scale";
    let (code, status) = get(&server, path).await;
    let message = "Internal error occurred: the spec replicas field \".spec.replicas\" does not exist";
    assert_eq!((code, &status["message"]), (500, &json!(message)));
    let (code, scale) = patch(&server, "merge", path, &json!({"spec": {"replicas": 2}})).await;
    assert_eq!((code, &scale["spec"]["replicas"]), (200, &json!(2)));
}
