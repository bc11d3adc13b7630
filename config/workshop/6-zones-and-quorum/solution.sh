nephele fault heal green
kubectl wait cluster/demo --for=condition=RemoteConnectionProbe --timeout=5m
