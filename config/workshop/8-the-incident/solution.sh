cat > regression.yaml <<'END'
apiVersion: cloud.nephele.dev/v1alpha1
kind: Scenario
metadata: {name: regression}
spec:
  steps:
    - scale: {kind: Cluster, name: demo, machineDeployment: workers, replicas: 2}
    - name: a-worker-goes
      expect:
        machines: {cluster: demo, count: 3}
        within: 2m
    - scale: {kind: Cluster, name: demo, machineDeployment: workers, replicas: 3}
    - name: its-instance-is-gone
      expect:
        object:
          apiVersion: cloud.nephele.dev/v1alpha1
          kind: SimulatedCloud
          name: default
          field: status.leaked
          value: "0"
        within: 10s
    - name: another-one-comes
      expect:
        machines: {cluster: demo, phase: Running, count: 4}
        within: 2m
END
# It has to fail before the repair.
if nephele scenario run ./regression.yaml; then echo 'It passed before the repair.'; false; fi
nephele fault heal ash
nephele fault heal fir
nephele fault heal oak
kubectl patch simulatedcloud default --type=merge -p '{"spec": {"leakedInstances": "Delete"}}'
kubectl wait simulatedcloud/default --for=jsonpath='{.status.leaked}'=0 --timeout=1m
nephele scenario rerun regression
kubectl wait cluster/demo --for=condition=Available --timeout=5m
