# shellcheck shell=bash
# The components' configuration files. Sourced by ../node.
#
# They go to a folder of their own first: a running node is restarted only where they differ from what it runs with.

write_config() {
  local to=$1 etc=$NODE/etc max_pods=200 lacks_cap=false
  mkdir -p "$to"
  has_cap_sys_resource || lacks_cap=true

  # What init needs to know; sourced by it.
  write_file 600 "$to/init.env" <<EOF
NODE=$NODE
BIN=$BIN
NODE_NAME=$NODE_NAME
NODE_IP=$NODE_IP
NET_PREFIX=$NET_PREFIX
HOST_IP=$HOST_IP
PODS=$PODS
SERVICES=$SERVICES
MOUNT_POINTS='$MOUNT_POINTS'
EOF
  cp "$HERE/init" "$to/init"

  # Anonymous callers may ask whether the server is well, and nothing else.
  write_file 600 "$to/authentication.yaml" <<EOF
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
anonymous:
  enabled: true
  conditions:
  - path: /livez
  - path: /readyz
  - path: /healthz
EOF

  write_file 600 "$to/scheduler.yaml" <<EOF
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: $KUBE/scheduler.conf, qps: 200, burst: 400}
leaderElection: {leaderElect: false}
EOF

  # No image is ever pulled, so none may be collected. Pods find services by address: there is no DNS server.
  write_file 600 "$to/kubelet.yaml" <<EOF
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: $PKI/ca.crt}
authorization: {mode: Webhook}
tlsCertFile: $PKI/kubelet.crt
tlsPrivateKeyFile: $PKI/kubelet.key
tlsMinVersion: VersionTLS12
containerRuntimeEndpoint: unix://$NODE/run/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: /$CGROUP
failCgroupV1: false
failSwapOn: false
clusterDNS: []
clusterDomain: cluster.local
resolvConf: ""
maxPods: $max_pods
podPidsLimit: 4096
podLogsDir: $LOG/pods
containerLogMaxSize: 5Mi
containerLogMaxFiles: 2
volumePluginDir: $NODE/kubelet/volume-plugins
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, nodefs.inodesFree: 1%, imagefs.available: 1%}
kubeAPIQPS: 200
kubeAPIBurst: 400
syncFrequency: 10s
EOF

  # The conntrack limits belong to the host; this node has no right to set them.
  write_file 600 "$to/kube-proxy.yaml" <<EOF
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: $KUBE/kube-proxy.conf}
mode: iptables
healthzBindAddress: 127.0.0.1:10256
clusterCIDR: $PODS
hostnameOverride: $NODE_NAME
conntrack: {maxPerCore: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
EOF

  # restrict_oom_score_adj keeps containers from asking for a score this root may not give.
  write_file 600 "$to/containerd.toml" <<EOF
version = 3
root = "$NODE/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.nri.v1.nri", "io.containerd.tracing.processor.v1.otlp"]

[grpc]
  address = "$NODE/run/containerd.sock"

[ttrpc]
  address = "/run/containerd/containerd.sock.ttrpc"

[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "$PAUSE_IMAGE"

[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = $lacks_cap
  enable_cdi = false

  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["$CNI_BIN"]
    use_internal_loopback = true
    conf_dir = "$etc/cni"

  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"

    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runsc]
      runtime_type = "io.containerd.runsc.v1"

      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runsc.options]
        TypeUrl = "io.containerd.runsc.v1.options"
        ConfigPath = "$etc/runsc.toml"
EOF

  # One shim a pod. Debug logs stay off: they would hold what goes through the sandbox.
  write_file 600 "$to/runsc.toml" <<EOF
grouping = true

[runsc_config]
  platform = "systrap"
  systemd-cgroup = "false"
EOF

  # Point to point rather than a bridge: all pod traffic is routed, so policies need no bridge netfilter.
  mkdir -p "$to/cni"
  write_file 600 "$to/cni/10-node.conflist" <<EOF
{"cniVersion": "0.4.0", "name": "node", "plugins": [
  {"type": "ptp", "ipam": {
    "type": "host-local", "dataDir": "$NODE/leases",
    "ranges": [[{"subnet": "$PODS"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
EOF

  # Rights that Kubernetes has no built-in binding for. The API server's one lets it reach logs and exec on the kubelet.
  write_file 600 "$to/rbac.yaml" <<EOF
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: agent-sandbox:netpold}
rules:
- apiGroups: [""]
  resources: [pods, namespaces, nodes]
  verbs: [get, list, watch]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: agent-sandbox:netpold}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: agent-sandbox:netpold}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: netpold}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: agent-sandbox:kubelet-client}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:kubelet-api-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: kube-apiserver-kubelet-client}]
EOF
}

# What other scripts and the tests may rely on.
write_env() {
  write_file 600 "$NODE/env" <<EOF
KUBECONFIG_ADMIN=$KUBE/admin.conf
API_SERVER=https://$NODE_IP:6443
CA_FILE=$PKI/ca.crt
CA_KEY_FILE=$PKI/ca.key
NODE_NAME=$NODE_NAME
NODE_IP=$NODE_IP
HOST_IP=$HOST_IP
POD_CIDR=$PODS
SERVICE_CIDR=$SERVICES
CONTAINERD_SOCKET=$NODE/run/containerd.sock
RUNTIME_HANDLER=runsc
NODE_PID=$1
NODE_CGROUP=$CGROUP
LOG_DIR=$LOG
ETCD_DIR=$NODE/etcd
BIN_DIR=$BIN
EOF
}
