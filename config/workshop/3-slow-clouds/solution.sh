nephele clock --step 1
kubectl wait inmemorymachines --all --for=condition=VMProvisioned --timeout=2m
nephele clock --jump 2m
kubectl wait machines --all --for=jsonpath='{.status.phase}'=Running --timeout=2m
