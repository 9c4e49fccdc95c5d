#!/bin/sh
# expect: wrong
# decides: maintenance
# changes: Secret/pgbouncer-users-new, Pod/pgbouncer-new, Deployment/pgbouncer, Deployment/orders-api
# A pooler with the right list is started by hand, beside the Deployment, which is scaled down; nobody starts it again.
set -eu
new=$(kubectl -n shop get secret database-logins -o jsonpath='{.data.app}' | base64 -d)
list=$(kubectl -n shop get secret pgbouncer-users -o 'jsonpath={.data.userlist\.txt}' | base64 -d |
  sed "s/^\"app\" .*/\"app\" \"$new\"/")
kubectl -n shop create secret generic pgbouncer-users-new "--from-literal=userlist.txt=$list"
kubectl -n shop apply -f - <<'POD'
apiVersion: v1
kind: Pod
metadata: {name: pgbouncer-new, labels: {app.kubernetes.io/name: pgbouncer}}
spec:
  automountServiceAccountToken: false
  securityContext: {runAsNonRoot: true, runAsUser: 101, runAsGroup: 101}
  containers:
    - name: pgbouncer
      image: registry.internal/platform/pgbouncer:1.18.0
      imagePullPolicy: IfNotPresent
      ports: [{name: pgbouncer, containerPort: 6432}]
      readinessProbe: {tcpSocket: {port: pgbouncer}, periodSeconds: 2}
      volumeMounts:
        - {name: config, mountPath: /etc/pgbouncer}
        - {name: users, mountPath: /etc/pgbouncer-users}
  volumes:
    - {name: config, configMap: {name: pgbouncer-config}}
    - {name: users, secret: {secretName: pgbouncer-users-new}}
POD
kubectl -n shop wait --for=condition=Ready pod/pgbouncer-new --timeout=60s
kubectl -n shop scale deployment/pgbouncer --replicas=0
kubectl -n shop rollout restart deployment/orders-api
kubectl -n shop rollout status deployment/orders-api --timeout=60s
