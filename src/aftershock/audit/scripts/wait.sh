# The on-call looks, and waits for it to go away.
try kubectl -n "$ns" get pods
sleep "$patience"
