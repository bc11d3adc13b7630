kubectl patch cluster demo --type=json \
  -p='[{"op": "replace", "path": "/spec/topology/workers/machineDeployments/0/replicas", "value": 4}]'
kubectl wait cluster/demo --for=jsonpath='{.status.workers.readyReplicas}'=4 --timeout=5m
nephele fault add vanish --name gone --count 1 --machines topology.cluster.x-k8s.io/deployment-name=workers
kubectl wait faults.cloud.nephele.dev/gone --for=jsonpath='{.status.hits}'=1 --timeout=1m
kubectl delete machine --ignore-not-found \
  "$(kubectl get faults.cloud.nephele.dev gone -o jsonpath='{.status.lastHits[0].machine}')"
kubectl wait cluster/demo --for=jsonpath='{.status.workers.readyReplicas}'=4 --timeout=5m
