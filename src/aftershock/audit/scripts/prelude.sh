# What all of them share. `try` counts what could be changed; what is refused is no reason to give up.
changed=0
try() { if "$@"; then changed=$((changed + 1)); fi; }
workloads() { kubectl -n "$ns" get deployments,statefulsets,daemonsets -o name; }
settled() { for name in $(workloads); do kubectl -n "$ns" rollout status "$name" --timeout=90s || true; done; }
finish() { [ "$changed" -gt 0 ] || { echo "there was nothing that could be changed" >&2; exit 77; }; }
