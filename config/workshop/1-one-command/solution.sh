kubectl apply -f - <<'END'
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: demo}
spec:
  topology:
    classRef: {name: in-memory}
    version: v1.36.3
    controlPlane: {replicas: 1}
    workers:
      machineDeployments: [{class: default-worker, name: workers, replicas: 2}]
END
kubectl wait cluster/demo --for=condition=Available --timeout=5m
