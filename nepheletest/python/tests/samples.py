"""Objects for the tests."""

from typing import Any


def cluster_with(name: str, workers: int, namespace: str = "default") -> dict[str, Any]:
    """A Cluster with one control plane machine and some workers."""
    deployments = [{"class": "default-worker", "name": "workers", "replicas": workers}]
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "topology": {
                "classRef": {"name": "in-memory"},
                "version": "v1.36.3",
                "controlPlane": {"replicas": 1},
                "workers": {"machineDeployments": deployments},
            }
        },
    }
