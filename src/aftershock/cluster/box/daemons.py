"""What runs on a node: each daemon's command and configuration, as files under the node's /etc.

Flags that differ from a usual installation are there because nodes share one kernel (conntrack
limits, swap, kmsg) or to save seconds at a start (no leader election, no fsync of etcd); each says
so. Start order is by what a daemon needs, asked of the thing itself: the kubelet waits for the API
server's service address in the nat table, as a pod that starts before it waits half a minute for
its first connection.
"""

import json
from collections.abc import Iterator
from textwrap import dedent

from aftershock.cluster.box.layout import Layout
from aftershock.cluster.box.network import FRONT_DOORS, POD_RANGE, SERVICE_RANGE, pod_range

__all__ = ["API_SERVICE", "CLIENTS", "CLUSTER_DNS", "kubeconfig", "node_files"]

BIN = "/opt/kubernetes/bin"
ETC = "/etc/kubernetes"
PKI = f"{ETC}/pki"
API_SERVICE = "10.96.0.1"
CLUSTER_DNS = "10.96.0.10"
PAUSE = "registry.internal/pause:3.10"
# By default a client waits between its requests (20 a second), and the controllers make hundreds to start: 4 s.
EAGER = ("--kube-api-qps=500", "--kube-api-burst=1000")
# file -> (user, group): the clients of the API server on the control-plane node and everywhere.
CLIENTS = {
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "cloud-controller-manager": ("system:cloud-controller-manager", ""),
    "proxy": ("system:kube-proxy", ""),
    "network-policy-agent": ("system:network-policy-agent", ""),
    "local-path-provisioner": ("system:local-path-provisioner", ""),
}


def kubeconfig(server: str, authority: str, certificate: str, user: str, cluster: str = "default") -> str:
    """A kubeconfig that names files; `certificate` is the path of .crt and .key without ending."""
    return json.dumps({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {"server": server, "certificate-authority": authority}}],
        "users": [
            {"name": user, "user": {"client-certificate": f"{certificate}.crt", "client-key": f"{certificate}.key"}},
        ],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user}}],
        "current-context": cluster,
    }, indent=1)  # fmt: skip


def _service(name: str, command: list[str], before: str = "") -> Iterator[tuple[str, str, int]]:
    """A runit service with its log under /var/log/<name>/current.

    The API server collects its garbage late, as a third of its start is collecting; but not beyond a limit.
    """
    lines = [
        "#!/bin/bash",
        "exec 2>&1",
        *([before] if before else []),
        *(["export GOGC=400 GOMEMLIMIT=320MiB"] if name == "kube-apiserver" else []),
        "exec " + " \\\n  ".join(command),
        "",
    ]
    yield f"service/{name}/run", "\n".join(lines), 0o755
    yield f"service/{name}/log/run", f"#!/bin/sh\nmkdir -p /var/log/{name}\nexec svlogd -tt /var/log/{name}\n", 0o755


def _wait_port(address: str, port: int) -> str:
    """Shell lines that wait until something listens, and start no process meanwhile: reading from a pipe into
    which nobody writes is the pause."""
    listens = f": 2>/dev/null 3<>/dev/tcp/{address}/{port}"
    return f"(exec 9<> <(:); until {listens}; do read -rt 0.1 -u 9; done)"


def _wait_api(layout: Layout) -> str:
    """Shell lines that wait until the API server answers anything, were it a refusal.

    It listens long before it serves, so the question itself waits. Until then etcd and the API server
    have the processors to themselves: a daemon that starts beside them only makes all of them late, and so
    would many that ask by a program of their own.
    """
    api = layout.address(0)
    asks = f"curl -sk -m 30 -o /dev/null https://{api}:6443/livez"
    return f"{_wait_port(api, 6443)}; until {asks}; do sleep 0.1; done"


def _control_plane(layout: Layout) -> Iterator[tuple[str, str, int]]:
    api = layout.address(0)
    yield from _service("etcd", [
        f"{BIN}/etcd", "--data-dir /var/lib/etcd", "--unsafe-no-fsync", "--log-level warn",
        "--listen-client-urls http://127.0.0.1:2379", "--advertise-client-urls http://127.0.0.1:2379",
        "--listen-peer-urls http://127.0.0.1:2380", "--initial-advertise-peer-urls http://127.0.0.1:2380",
        "--initial-cluster default=http://127.0.0.1:2380",
    ])  # fmt: skip
    yield from _service("kube-apiserver", [
        f"{BIN}/kube-apiserver", "--etcd-servers http://127.0.0.1:2379",
        f"--service-cluster-ip-range {SERVICE_RANGE}", "--secure-port 6443", "--bind-address 0.0.0.0",
        f"--advertise-address {api}", f"--client-ca-file {PKI}/ca.crt",
        f"--tls-cert-file {PKI}/apiserver.crt", f"--tls-private-key-file {PKI}/apiserver.key",
        f"--service-account-key-file {PKI}/sa.pub", f"--service-account-signing-key-file {PKI}/sa.key",
        "--service-account-issuer https://kubernetes.default.svc.cluster.local",
        "--authorization-mode Node,RBAC", "--enable-admission-plugins NodeRestriction", "--anonymous-auth=false",
        f"--kubelet-client-certificate {PKI}/apiserver-kubelet-client.crt",
        f"--kubelet-client-key {PKI}/apiserver-kubelet-client.key",
        f"--kubelet-certificate-authority {PKI}/ca.crt", "--kubelet-preferred-address-types InternalIP",
        "--allow-privileged=true", f"--requestheader-client-ca-file {PKI}/ca.crt",
        "--requestheader-allowed-names front-proxy-client",
        "--requestheader-extra-headers-prefix X-Remote-Extra-", "--requestheader-group-headers X-Remote-Group",
        "--requestheader-username-headers X-Remote-User",
        f"--proxy-client-cert-file {PKI}/front-proxy-client.crt",
        f"--proxy-client-key-file {PKI}/front-proxy-client.key", "--event-ttl 24h", "--profiling=false",
    ], _wait_port("127.0.0.1", 2379))  # fmt: skip
    wait = _wait_api(layout)
    yield from _service("kube-controller-manager", [
        f"{BIN}/kube-controller-manager", f"--kubeconfig {ETC}/controller-manager.conf",
        f"--cluster-signing-cert-file {PKI}/ca.crt", f"--cluster-signing-key-file {PKI}/ca.key",
        f"--root-ca-file {PKI}/ca.crt", f"--service-account-private-key-file {PKI}/sa.key",
        "--use-service-account-credentials", "--allocate-node-cidrs=false", "--leader-elect=false",
        "--node-monitor-period=2s", "--node-monitor-grace-period=20s", "--profiling=false", *EAGER,
    ], wait)  # fmt: skip
    yield from _service("kube-scheduler", [
        f"{BIN}/kube-scheduler", f"--kubeconfig {ETC}/scheduler.conf", "--leader-elect=false", "--profiling=false",
        *EAGER,
    ], wait)  # fmt: skip
    yield from _service("cloud-controller-manager", [
        f"{BIN}/cloud-controller-manager", f"--kubeconfig {ETC}/cloud-controller-manager.conf",
        f"--load-balancer-cidr {FRONT_DOORS}",
    ], wait)  # fmt: skip


def _worker(layout: Layout, n: int, *, restored: bool) -> Iterator[tuple[str, str, int]]:
    node = layout.node_name(n)
    wait = _wait_api(layout)
    yield from _service("containerd", ["containerd"])
    yield from _service("kube-proxy", [f"{BIN}/kube-proxy", f"--config {ETC}/kube-proxy.yaml"], wait)
    # A pod that starts before kube-proxy has written its rules cannot reach the API server for seconds. On a
    # new cluster kube-proxy in turn waits for the node object, which the kubelet makes, and there are no pods.
    rules = f"iptables -t nat -n -L KUBE-SERVICES 2>/dev/null | grep -q {API_SERVICE}"
    synced = wait if not restored else f"{wait}; until {rules}; do sleep 0.2; done"
    role = "node-role.kubernetes.io/control-plane" if n == 0 else "node-role.kubernetes.io/worker"
    yield from _service("kubelet", [
        f"{BIN}/kubelet", f"--kubeconfig {ETC}/kubelet.conf", f"--config {ETC}/kubelet.yaml",
        f"--hostname-override {node}", f"--node-ip {layout.address(n)}",
    ], synced)  # fmt: skip
    yield from _service("network-policy-agent", [
        f"{BIN}/network-policy-agent", f"--kubeconfig {ETC}/network-policy-agent.conf", f"--hostname-override {node}",
        f"--service-cluster-ip-range {SERVICE_RANGE}", f"--load-balancer-cidr {FRONT_DOORS}",
    ], _wait_port("127.0.0.1", 10248))  # fmt: skip
    yield from _service("local-path-provisioner", [
        f"{BIN}/local-path-provisioner", f"--kubeconfig {ETC}/local-path-provisioner.conf", f"--node-name {node}",
        "--root /var/local-path-provisioner",
    ], wait)  # fmt: skip
    yield "kubernetes/role", role + "\n", 0o644


def _kubelet(n: int) -> str:
    # KubeletInUserNamespace: some sysctls and /dev/kmsg belong to the machine, not to the node.
    return dedent(f"""\
        apiVersion: kubelet.config.k8s.io/v1beta1
        kind: KubeletConfiguration
        authentication:
          anonymous: {{enabled: false}}
          webhook: {{enabled: true}}
          x509: {{clientCAFile: {PKI}/ca.crt}}
        authorization: {{mode: Webhook}}
        tlsCertFile: {PKI}/kubelet.crt
        tlsPrivateKeyFile: {PKI}/kubelet.key
        clusterDomain: cluster.local
        clusterDNS: [{CLUSTER_DNS}]
        cgroupDriver: cgroupfs
        containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
        failSwapOn: false
        failCgroupV1: false
        featureGates: {{KubeletInUserNamespace: true}}
        imageGCHighThresholdPercent: 100
        evictionHard: {{nodefs.available: "5%", imagefs.available: "5%", memory.available: 100Mi}}
        podPidsLimit: 2048
        serializeImagePulls: false
        resolvConf: /dev/null
        nodeStatusUpdateFrequency: 5s
        nodeLeaseDurationSeconds: 20
        maxPods: 110
        containerLogMaxSize: 50Mi
        """)


def _proxy(node: str) -> str:
    # conntrack limits are the machine's and cannot be set from a network namespace.
    return dedent(f"""\
        apiVersion: kubeproxy.config.k8s.io/v1alpha1
        kind: KubeProxyConfiguration
        clientConnection: {{kubeconfig: {ETC}/proxy.conf}}
        clusterCIDR: {POD_RANGE}
        mode: iptables
        hostnameOverride: {node}
        conntrack: {{maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}}
        """)


CONTAINERD = dedent(f"""\
    version = 2
    disabled_plugins = [
      "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
      "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs",
      "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing",
    ]
    [plugins."io.containerd.grpc.v1.cri"]
    sandbox_image = "{PAUSE}"
    restrict_oom_score_adj = true
    disable_apparmor = true
    stream_server_address = "127.0.0.1"
    [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    """)


# Connections to a Service without endpoints are refused at once. kube-proxy's own rule for that comes after
# those of network policy, and where a pod has any policy's verdict it is never met.
NFTABLES = dedent(f"""\
    #!/usr/sbin/nft -f
    table ip services {{
      chain forward {{
        type filter hook forward priority filter - 1; policy accept;
        ip daddr {SERVICE_RANGE} reject
      }}
    }}
    """)


def _cni(n: int) -> str:
    return json.dumps({
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": False, "hairpinMode": True,
                "ipam": {
                    "type": "host-local", "ranges": [[{"subnet": pod_range(n)}]],
                    "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "/run/ipam",
                },
            },
        ],
    }, indent=1)  # fmt: skip


def node_files(layout: Layout, n: int, *, restored: bool) -> Iterator[tuple[str, str, int]]:
    """All files of a node below /etc but keys and certificates, as (path, text, mode).

    Args:
        restored: the cluster's state is older than this start.
    """
    server = f"https://{layout.address(0)}:6443"
    node = layout.node_name(n)
    if n == 0:
        yield from _control_plane(layout)
    yield from _worker(layout, n, restored=restored)
    clients = CLIENTS if n == 0 else {k: v for k, v in CLIENTS.items() if "controller" not in k and k != "scheduler"}
    for file, (user, _) in clients.items():
        yield f"kubernetes/{file}.conf", kubeconfig(server, f"{PKI}/ca.crt", f"{PKI}/{file}", user), 0o600
    yield "kubernetes/kubelet.conf", kubeconfig(server, f"{PKI}/ca.crt", f"{PKI}/kubelet", f"system:node:{node}"), 0o600
    yield "kubernetes/kubelet.yaml", _kubelet(n), 0o644
    yield "kubernetes/kube-proxy.yaml", _proxy(node), 0o644
    yield "containerd/config.toml", CONTAINERD, 0o644
    yield "cni/net.d/10-pods.conflist", _cni(n), 0o644
    hosts = "".join(f"{layout.address(m)} {layout.node_name(m)}\n" for m in range(layout.nodes))
    yield "nftables.conf", NFTABLES, 0o644
    yield "hosts", f"127.0.0.1 localhost\n{hosts}", 0o644
    yield "hostname", node + "\n", 0o644
    yield "resolv.conf", "", 0o644
