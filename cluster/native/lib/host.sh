# shellcheck shell=bash
# What the node leaves on the host, and how to take it away: processes, cgroups, one network link. Sourced by ../node.
#
# Everything the node runs is in one cgroup of its own, so it can be found and ended without knowing a name or trusting
# a pid file.

# Inside the node these are covered by mounts of its own; outside they have to be there as folders.
MOUNT_POINTS='/var/lib/cni /var/lib/kubelet /var/log/containers'

has_cap_sys_resource() {
  local effective
  effective=$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)
  [ $((0x$effective >> 24 & 1)) = 1 ]
}

cgroup_version() {
  if [ "$(stat -f -c %T /sys/fs/cgroup 2>/dev/null)" = cgroup2fs ]; then echo 2; else echo 1; fi
}

# The root folder of every cgroup hierarchy of this machine. Beside version 1 there may be a version 2 without
# controllers; container runtimes use that one as well.
_hierarchies() {
  if [ "$(cgroup_version)" = 2 ]; then
    echo /sys/fs/cgroup
  else
    awk '{ for (i = 7; i < NF; i++) if ($i == "-" && $(i + 1) ~ /^cgroup2?$/) print $5 }' /proc/self/mountinfo
  fi
}

make_cgroups() {
  local root file
  for root in $(_hierarchies); do
    mkdir -p "$root/$CGROUP/init" || die "could not make the cgroup $root/$CGROUP" "Is /sys/fs/cgroup mounted read-only?"
    # Version 1 leaves a new cpuset empty, and nothing can run in an empty one.
    for file in cpuset.cpus cpuset.mems; do
      if [ -f "$root/$CGROUP/$file" ] && [ "$(cgroup_version)" = 1 ]; then
        cat "$root/$file" >"$root/$CGROUP/$file"
        cat "$root/$CGROUP/$file" >"$root/$CGROUP/init/$file"
      fi
    done
  done
  if [ "$(cgroup_version)" = 2 ]; then
    local controller
    for controller in cpuset cpu io memory pids hugetlb; do
      grep -qw "$controller" /sys/fs/cgroup/cgroup.controllers || continue
      for root in /sys/fs/cgroup "/sys/fs/cgroup/$CGROUP"; do
        echo "+$controller" >"$root/cgroup.subtree_control" ||
          die "could not hand the $controller controller to $root" \
            "In a container, move its own processes out of the root cgroup first, or run this on the host."
      done
    done
  fi
}

# Prints the commands by which a shell moves itself into the node's cgroup.
_enter_cgroups() {
  local root
  for root in $(_hierarchies); do printf 'echo $$ >%s/%s/init/cgroup.procs && ' "$root" "$CGROUP"; done
}

_node_pids() {
  local root
  for root in $(_hierarchies); do
    [ ! -d "$root/$CGROUP" ] || find "$root/$CGROUP" -name cgroup.procs -exec cat {} + 2>/dev/null
  done | sort -u
}

_remove_cgroups() {
  local root
  for root in $(_hierarchies); do
    [ ! -d "$root/$CGROUP" ] || find "$root/$CGROUP" -depth -type d -exec rmdir {} + 2>/dev/null
  done
  for root in $(_hierarchies); do
    [ ! -d "$root/$CGROUP" ] || return 1
  done
}

# The process that holds the namespaces, as the host counts; fails if there is none.
init_pid() {
  local holder pid
  process_alive "$NODE/holder.pid" || return 1
  holder=$(process_pid "$NODE/holder.pid")
  pid=$(cat "/proc/$holder/task/$holder/children" 2>/dev/null || pgrep -P "$holder")
  pid=${pid%% *}
  [ -n "$pid" ] && echo "$pid"
}

start_init() {
  local pid='' _
  make_cgroups
  mkdir -p "$NODE/run" "$LOG"
  start_daemon "$NODE/holder.pid" "$LOG/node.log" bash -c "$(_enter_cgroups)
    exec unshare --pid --fork --kill-child --mount --net --uts bash '$NODE/etc/init'"
  for _ in $(seq 100); do
    pid=$(init_pid) && break
    process_alive "$NODE/holder.pid" || break
    sleep 0.02
  done
  [ -n "$pid" ] || die "the node did not start: $(tail -n 2 "$LOG/node.log")" "Read $LOG/node.log."
  ip link add "$LINK" type veth peer name eth0 netns "$pid"
  ip link set "$LINK" alias "agent-sandbox $NODE"
  ip address add "$HOST_IP/$NET_PREFIX" dev "$LINK"
  ip link set "$LINK" up
}

_link_is_ours() { ip link show "$LINK" 2>/dev/null | grep -q "alias agent-sandbox $NODE\$"; }

check_link_is_free() {
  ! ip link show "$LINK" >/dev/null 2>&1 || _link_is_ours ||
    die "there is a network link $LINK already, and it is not this node's" "Set AGENT_SANDBOX_LINK to another name."
}

# Ends every process of the node and takes its cgroups, mounts and link away. Its files stay.
stop_node() {
  local pid pids tries=0
  if process_alive "$NODE/holder.pid"; then kill -KILL "$(process_pid "$NODE/holder.pid")" 2>/dev/null || true; fi
  while pids=$(_node_pids) && [ -n "$pids" ]; do
    for pid in $pids; do kill -KILL "$pid" 2>/dev/null || true; done
    tries=$((tries + 1))
    [ $tries -le 100 ] || die "these processes of the node do not end:" "$(ps -o pid,stat,args -p "$(echo "$pids" | paste -sd, -)")"
    sleep 0.1
  done
  rm -f "$NODE/holder.pid"
  for _ in $(seq 50); do
    _remove_cgroups && break
    sleep 0.1
  done
  _remove_cgroups || warn "some cgroups below $CGROUP could not be removed"
  if _link_is_ours; then ip link del "$LINK" 2>/dev/null || true; fi
  # Mounts die with the node's namespace; only a node that was started by hand could have left some here.
  awk -v top="$NODE/" 'index($5, top) == 1 { print $5 }' /proc/self/mountinfo | sort -r |
    while read -r mount; do umount -l "$mount"; done
}

# Takes the mount points away that a node had to make, unless another node is using them.
remove_mount_points() {
  local root dir
  for root in $(_hierarchies); do
    for dir in "$root"/agent-sandbox-*; do [ ! -d "$dir" ] || return 0; done
  done
  for dir in $MOUNT_POINTS; do
    if [ -f "$dir/.agent-sandbox" ]; then
      rm "$dir/.agent-sandbox"
      rmdir --ignore-fail-on-non-empty "$dir"
    fi
  done
}
