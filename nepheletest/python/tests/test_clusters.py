"""Clusters and machines. The tests share one Nephele, and each has a Cluster of its own."""

from pathlib import Path
from typing import Any

import pytest
from nepheletest import Machine, Nephele, NepheleError, WaitError
from nepheletest._api import Api
from nepheletest._kubeconfig import read
from samples import cluster_with

CLUSTERS = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/clusters"


@pytest.fixture(scope="session")
def nephele_options(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    file = tmp_path_factory.mktemp("files") / "small.yaml"
    file.write_text(
        """
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: small, namespace: default}
spec:
  topology:
    classRef: {name: in-memory}
    version: v1.36.3
    controlPlane: {replicas: 1}
    workers:
      machineDeployments: [{class: default-worker, name: workers, replicas: 2}]
"""
    )
    return {
        "files": [file],
        "objects": [cluster_with("terminated", 2), cluster_with("c", 0, "a-b"), cluster_with("b-c", 0, "a")],
    }


def nodes_of(kubeconfig: Path, folder: Path) -> list[str]:
    nodes = Api(read(kubeconfig), folder).get("/api/v1/nodes")
    assert nodes is not None
    return [node["metadata"]["name"] for node in nodes["items"]]


def test_cluster_of_a_file_is_up_with_its_nodes(nephele: Nephele, tmp_path: Path) -> None:
    small = nephele.cluster("small")
    machines = small.machines()
    assert all(machine.is_ready and not machine.is_deleting for machine in machines)
    assert [machine.is_control_plane for machine in machines] == [True, False, False]
    assert nodes_of(small.kubeconfig, tmp_path) == [machine.node for machine in machines]
    assert list(tmp_path.iterdir()) == [], "no private key stays in a file"


def test_later_cluster_is_found(nephele: Nephele) -> None:
    with pytest.raises(NepheleError, match="failed to find the cluster default/later"):
        nephele.cluster("later")
    Api(read(nephele.kubeconfig), nephele.folder).create(CLUSTERS, cluster_with("later", 0))
    later = nephele.wait_for_cluster("later")
    assert later.kubeconfig == nephele.folder / "default-later.kubeconfig"
    assert later.server in later.kubeconfig.read_text()


def test_clusters_whose_files_want_one_name_are_told_apart(nephele: Nephele) -> None:
    first, second = nephele.cluster("c", namespace="a-b"), nephele.cluster("b-c", namespace="a")
    assert first.kubeconfig != second.kubeconfig
    assert first.server != second.server


def test_terminated_machine_is_replaced(nephele: Nephele, tmp_path: Path) -> None:
    cluster = nephele.cluster("terminated")
    before = cluster.machines()
    terminated = before[-1]
    cluster.terminate_machine(terminated.name)

    def replaced() -> list[Machine]:
        after = cluster.machines()
        assert terminated.name not in [machine.name for machine in after]
        assert [machine.is_ready for machine in after] == [True] * len(before)
        return after

    after = nephele.wait_until("another Machine is in its place", replaced)
    assert nodes_of(cluster.kubeconfig, tmp_path) == [machine.node for machine in after]


def test_machine_that_does_not_exist_is_not_terminated(nephele: Nephele) -> None:
    with pytest.raises(NepheleError, match="failed to terminate the Machine default/absent: it does not exist"):
        nephele.cluster("small").terminate_machine("absent")


def test_wait_says_what_was_seen_last(nephele: Nephele) -> None:
    with pytest.raises(WaitError) as caught:
        nephele.wait_until("the fruit is ripe", lambda: [], time_limit=0.05)
    assert "failed to wait until the fruit is ripe: it is not so after 0.05 s; last seen: []" in str(caught.value)
    assert f"the last lines of the log {nephele.log}:\n" in str(caught.value)

    def unripe() -> bool:
        raise LookupError("no fruit")

    with pytest.raises(WaitError, match="last seen: LookupError: no fruit") as caught:
        nephele.wait_until("the fruit is ripe", unripe, time_limit=0)
    assert isinstance(caught.value.__cause__, LookupError)
    with pytest.raises(WaitError, match=r"the Cluster default/absent is available: .* it does not exist"):
        nephele.wait_for_cluster("absent", time_limit=0)


def test_refusal_of_the_api_server_is_told(nephele: Nephele) -> None:
    api = Api(read(nephele.kubeconfig), nephele.folder)
    with pytest.raises(NepheleError, match=r"failed to create an object in .*/clusters: .* already exists \(409\)"):
        api.create(CLUSTERS, cluster_with("small", 0))
