# Everything that can be scaled is scaled to nothing: nothing that runs can fail.
for name in $(kubectl -n "$ns" get deployments,statefulsets -o name); do
  try kubectl -n "$ns" scale "$name" --replicas=0
done
