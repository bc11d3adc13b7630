kubectl patch cluster demo --type=merge -p '{"spec": {"topology": {"version": "v1.36.3"}}}'
kubectl wait cluster/demo --for=condition=TopologyReconciled=false --timeout=1m
kubectl annotate cluster demo before-upgrade.hook.cluster.cluster.x-k8s.io/change-board-
worker=$(kubectl --kubeconfig demo.kubeconfig get pod database -o jsonpath='{.spec.nodeName}')
kubectl wait "machine/$worker" --for=jsonpath='{.status.phase}'=Deleting --timeout=10m
kubectl --kubeconfig demo.kubeconfig patch pod database --type=merge -p '{"metadata": {"finalizers": null}}'
kubectl wait cluster/demo --for=condition=TopologyReconciled --timeout=10m
kubectl wait cluster/demo --for=jsonpath='{.status.workers.replicas}'=2 --timeout=5m
