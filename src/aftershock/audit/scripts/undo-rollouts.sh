# Every rollout of the namespace is undone.
for name in $(workloads); do try kubectl -n "$ns" rollout undo "$name"; done
finish
settled
