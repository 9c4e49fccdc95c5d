# Every pod of the namespace is deleted.
try kubectl -n "$ns" delete pods --all --timeout=90s
settled
