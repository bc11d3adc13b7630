"""The records follow the machines.

With an API server alone, this test would write the status of Clusters and Machines itself, and put a mock in place of
the workload cluster. Here Machines come and go, and the workload cluster answers.
"""

from typing import Any

import pytest
from kubernetes import config
from kubernetes.client import ApiClient, CoreV1Api, CustomObjectsApi
from nepheletest import Cluster, Nephele

import dns_addon

CLUSTERS = ("cluster.x-k8s.io", "v1beta2", "default", "clusters")


@pytest.fixture(scope="session")
def management(nephele: Nephele) -> ApiClient:
    return config.new_client_from_config(str(nephele.kubeconfig))


def expect_records(management: ApiClient, cluster: Cluster) -> None:
    """Fails unless a cluster has the records of exactly its Machines."""
    names = [machine.name for machine in cluster.machines()]
    workload = CoreV1Api(config.new_client_from_config(str(cluster.kubeconfig)))
    published = workload.read_namespaced_config_map(dns_addon.RECORDS_NAME, dns_addon.RECORDS_NAMESPACE)
    assert sorted(published.data) == names
    owner = CustomObjectsApi(management).get_namespaced_custom_object(*CLUSTERS, cluster.name)
    assert owner["metadata"]["annotations"][dns_addon.RECORDS_ANNOTATION] == str(len(names))


def test_cluster_of_the_file_has_a_record_for_each_machine(nephele: Nephele, management: ApiClient) -> None:
    dns_addon.reconcile_all(management)
    expect_records(management, nephele.cluster("small"))


def test_cluster_that_is_created_later_has_its_records_too(nephele: Nephele, management: ApiClient) -> None:
    CustomObjectsApi(management).create_namespaced_custom_object(*CLUSTERS, labelled_cluster("later"))
    # That its control plane is not up yet is no error.
    dns_addon.reconcile_all(management)
    later = nephele.wait_for_cluster("later")
    dns_addon.reconcile_all(management)
    expect_records(management, later)


def test_record_of_a_terminated_worker_makes_room_for_that_of_its_replacement(
    nephele: Nephele, management: ApiClient
) -> None:
    small = nephele.cluster("small")
    before = small.machines()
    worker = next(machine for machine in before if not machine.is_control_plane)
    small.terminate_machine(worker.name)

    def replaced() -> bool:
        dns_addon.reconcile_all(management)
        after = small.machines()
        assert worker.name not in [machine.name for machine in after]
        assert len(after) == len(before)
        expect_records(management, small)
        return True

    nephele.wait_until("the replacement has a record", replaced)


def test_cluster_whose_api_server_fails_holds_up_no_other(nephele: Nephele, management: ApiClient) -> None:
    """A mock of the workload cluster answers always.

    Here the API server of one cluster does not, and another cluster has its records all the same. Before `reconcile_all`
    tried the other clusters, too, this test failed with the ApiException of `broken`, and `sound` had no records.
    """
    for name in ("broken", "sound"):
        CustomObjectsApi(management).create_namespaced_custom_object(*CLUSTERS, labelled_cluster(name))
    broken, sound = nephele.wait_for_cluster("broken"), nephele.wait_for_cluster("sound")

    with nephele.fault("apiServer: {error: {code: 503}}", "--target", "broken"):
        failures = dns_addon.reconcile_all(management)
        assert list(failures) == ["default/broken"]
        expect_records(management, sound)

    assert dns_addon.reconcile_all(management) == {}
    expect_records(management, broken)


def labelled_cluster(name: str) -> dict[str, Any]:
    """A Cluster that asks for the add-on, with one control plane machine and one worker."""
    workers = [{"class": "default-worker", "name": "workers", "replicas": 1}]
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": name, "labels": {dns_addon.ENABLED_LABEL: "true"}},
        "spec": {
            "topology": {
                "classRef": {"name": "in-memory"},
                "version": "v1.36.3",
                "controlPlane": {"replicas": 1},
                "workers": {"machineDeployments": workers},
            }
        },
    }
