"""An add-on provider for Cluster API, reduced to what a test of one needs: it publishes the addresses of a cluster's
machines in that cluster.
"""

import base64
from typing import Any

import yaml
from kubernetes import config
from kubernetes.client import (
    ApiClient,
    ApiException,
    CoreV1Api,
    CustomObjectsApi,
    V1ConfigMap,
    V1ObjectMeta,
)

ENABLED_LABEL = "addons.example.com/dns"
"""Asks for the add-on when its value on a Cluster is "true"."""
RECORDS_ANNOTATION = "addons.example.com/dns-records"
"""On a Cluster: the number of records in it."""
RECORDS_NAMESPACE, RECORDS_NAME = "kube-system", "dns-records"
"""The ConfigMap with the records in a workload cluster."""

_CLUSTER_API = ("cluster.x-k8s.io", "v1beta2")


def reconcile_all(management: ApiClient) -> dict[str, ApiException]:
    """Brings the records of all clusters up to date that ask for them. A provider does this after every change.

    A cluster that fails must not hold up the others. Returns the failures by the cluster, for the next try.
    """
    failures = {}
    clusters = CustomObjectsApi(management).list_cluster_custom_object(
        *_CLUSTER_API, "clusters", label_selector=f"{ENABLED_LABEL}=true"
    )
    for cluster in clusters["items"]:
        if "deletionTimestamp" not in cluster["metadata"] and _is_reachable(cluster):
            namespace, name = cluster["metadata"]["namespace"], cluster["metadata"]["name"]
            try:
                reconcile(management, namespace, name)
            except ApiException as error:
                failures[f"{namespace}/{name}"] = error
    return failures


def reconcile(management: ApiClient, namespace: str, name: str) -> None:
    """Brings the records of one cluster up to date. Its control plane has to be reachable."""
    records = _records(management, namespace, name)
    with _workload(management, namespace, name) as workload:
        _publish(CoreV1Api(workload), records)
    patch = {"metadata": {"annotations": {RECORDS_ANNOTATION: str(len(records))}}}
    CustomObjectsApi(management).patch_namespaced_custom_object(*_CLUSTER_API, namespace, "clusters", name, patch)


def _is_reachable(cluster: dict[str, Any]) -> bool:
    return bool(cluster.get("status", {}).get("initialization", {}).get("controlPlaneInitialized"))


def _records(management: ApiClient, namespace: str, name: str) -> dict[str, str]:
    """The internal addresses of the machines that are ready, by name."""
    machines = CustomObjectsApi(management).list_namespaced_custom_object(
        *_CLUSTER_API,
        namespace,
        "machines",
        label_selector=f"cluster.x-k8s.io/cluster-name={name}",
    )
    return {
        machine["metadata"]["name"]: address["address"]
        for machine in machines["items"]
        if _is_ready(machine)
        for address in machine["status"].get("addresses", [])
        if address["type"] == "InternalIP"
    }


def _is_ready(machine: dict[str, Any]) -> bool:
    conditions = machine.get("status", {}).get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _workload(management: ApiClient, namespace: str, name: str) -> ApiClient:
    """A client of the workload cluster."""
    secret = CoreV1Api(management).read_namespaced_secret(f"{name}-kubeconfig", namespace)
    return config.new_client_from_config_dict(yaml.safe_load(base64.b64decode(secret.data["value"])))


def _publish(workload: CoreV1Api, records: dict[str, str]) -> None:
    config_map = V1ConfigMap(metadata=V1ObjectMeta(name=RECORDS_NAME), data=records)
    try:
        workload.replace_namespaced_config_map(RECORDS_NAME, RECORDS_NAMESPACE, config_map)
    except ApiException as error:
        if error.status != 404:
            raise
        workload.create_namespaced_config_map(RECORDS_NAMESPACE, config_map)
