# shellcheck shell=bash
# Whether the node is well, and what it runs. Sourced by ../node.

COMPONENTS='etcd containerd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy netpold'

# Sets WHY to the first thing that is not well, or to nothing. A node that was just started must have been heard of
# since SINCE: after a restart the API server still remembers it as ready.
_look() {
  WHY=''
  init_pid >/dev/null || { WHY='its first process is gone' && return; }
  _link_is_ours || { WHY='the network link is gone' && return; }
  # Cheap questions first: while a node starts they are asked over and over.
  (exec 3<>"/dev/tcp/$NODE_IP/6443") 2>/dev/null || { WHY='the API server does not answer' && return; }
  _http_ok 10248 || { WHY='the kubelet is not healthy' && return; }
  _http_ok 10256 || { WHY='kube-proxy is not healthy' && return; }
  _kubectl get --raw /readyz >/dev/null 2>&1 || { WHY='the API server is not ready' && return; }
  local heard
  heard=$(_kubectl get node "$NODE_NAME" -o 'jsonpath={range .status.conditions[?(@.type=="Ready")]}{.status} {.lastHeartbeatTime}{end}' 2>/dev/null) || heard=''
  case $heard in
  'True '*) [ -z "${SINCE:-}" ] || [[ ! ${heard#* } < $SINCE ]] || { WHY='the kubelet has not reported yet' && return; } ;;
  *) WHY='the node is not Ready' && return ;;
  esac
  _kubectl get serviceaccount default >/dev/null 2>&1 || { WHY='the controllers have not made the default ServiceAccount' && return; }
  in_node test -s "$NODE/run/netpold.pid" || { WHY='netpold has not started' && return; }
  in_node iptables -w -S KUBE-NWPLCY-TAIL >/dev/null 2>&1 || WHY='netpold has not set up its rules'
}

_kubectl() { "$BIN/kubectl" --kubeconfig "$KUBE/admin.conf" --request-timeout 5s "$@"; }

# A health answer of a component that listens inside the node only.
_http_ok() {
  # shellcheck disable=SC2016 # the inner shell expands it
  in_node timeout 3 bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$0" && printf "GET /healthz HTTP/1.0\r\n\r\n" >&3 && head -n 1 <&3 | grep -q " 200"' "$1" >/dev/null 2>&1
}

wait_until_well() {
  local start
  start=$(now_ms)
  while :; do
    _look
    [ -n "$WHY" ] || return 0
    [ $(($(now_ms) - start)) -lt $(($1 * 1000)) ] || return 1
    init_pid >/dev/null || return 1
    sleep 0.1
  done
}

status() {
  local pid name state
  if ! pid=$(init_pid); then
    if [ -d "$NODE/etcd" ]; then echo "node: stopped, with its data in $NODE"; else echo "node: not there"; fi
    quit 3
  fi
  BIN=$(sed -n 's/^BIN=//p' "$NODE/etc/init.env")
  for name in $COMPONENTS; do
    # shellcheck disable=SC2016 # the inner shell expands it
    state=$(in_node bash -c 'cd "$0" && kill -0 "$(cat "$1.pid")" && echo running && cat "$1.restarts"' "$NODE/run" "$name" 2>/dev/null | paste -sd' ') || true
    case $state in
    '') echo "$name: not running" ;;
    *' '*) echo "$name: running, restarted ${state#* } times" ;;
    *) echo "$name: running" ;;
    esac
  done
  _look
  if [ -n "$WHY" ]; then
    echo "node: not well: $WHY"
    quit 1
  fi
  echo "node: ready, pid $pid, $(_kubectl get pods --all-namespaces --no-headers 2>/dev/null | wc -l) pods, $(_kubectl version 2>/dev/null | sed -n 's/^Server Version: /Kubernetes /p')"
}
