# Every workload of the namespace is restarted.
for name in $(workloads); do try kubectl -n "$ns" rollout restart "$name"; done
settled
