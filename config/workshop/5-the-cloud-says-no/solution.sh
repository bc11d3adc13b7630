kubectl patch inclusterippool demo --type=merge -p '{"spec": {"addresses": ["10.20.0.10-10.20.0.30"]}}'
kubectl patch simulatedcloud default --type=merge -p '{"spec": {"quotas": {"instances": 10}}}'
kubectl wait machines --all --for=jsonpath='{.status.phase}'=Running --timeout=5m
