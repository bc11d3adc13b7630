kubectl apply -f - <<'END'
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {name: workers}
spec:
  clusterName: demo
  selector: {matchLabels: {topology.cluster.x-k8s.io/deployment-name: workers}}
  checks:
    unhealthyNodeConditions:
      - {type: Ready, status: Unknown, timeoutSeconds: 10}
  remediation:
    triggerIf: {unhealthyLessThanOrEqualTo: 40%}
END
kubectl wait machinehealthcheck/workers --for=jsonpath='{.status.currentHealthy}'=3 --timeout=5m
kubectl wait machinehealthcheck/workers --for=jsonpath='{.status.expectedMachines}'=3 --timeout=5m
