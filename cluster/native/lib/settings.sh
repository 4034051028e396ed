# shellcheck shell=bash
# What a node is made with: names, address ranges and folders. Sourced by ../node.
#
# A node keeps the settings it was made with in $NODE/settings; a later call that says nothing gets those.
# shellcheck disable=SC2034 # used by the scripts that source this

NODE=$AGENT_SANDBOX_HOME/node
LOG=$NODE/log
NODE_NAME=sandbox

# Reads the caller's wishes and the settings of the node that is there. Dies where they contradict each other.
load_settings() {
  local stored_NET='' stored_PODS='' stored_SERVICES='' stored_LINK='' key value
  case $AGENT_SANDBOX_HOME in
  /run/* | /var/run/* | /var/log/* | *[!A-Za-z0-9._/-]* | [!/]*)
    die "AGENT_SANDBOX_HOME=$AGENT_SANDBOX_HOME cannot hold a node" \
      "Use an absolute path of letters, digits, '.', '_' and '-', outside /run and /var/log."
    ;;
  esac
  [ ${#AGENT_SANDBOX_HOME} -le 60 ] || die "AGENT_SANDBOX_HOME is longer than 60 characters" \
    "Sockets below it would get names that the kernel refuses; use a shorter path."
  if [ -f "$NODE/settings" ]; then
    while IFS='=' read -r key value; do
      case $key in NET | PODS | SERVICES | LINK) eval "stored_$key=\$value" ;; esac
    done <"$NODE/settings"
  fi
  _setting NET AGENT_SANDBOX_NODE_NET 10.231.0.0/24 "$stored_NET"
  _setting PODS AGENT_SANDBOX_POD_CIDR 10.232.0.0/24 "$stored_PODS"
  _setting SERVICES AGENT_SANDBOX_SERVICE_CIDR 10.96.0.0/16 "$stored_SERVICES"
  _setting LINK AGENT_SANDBOX_LINK sandbox0 "$stored_LINK"
  _check_range AGENT_SANDBOX_NODE_NET "$NET" 16 30
  _check_range AGENT_SANDBOX_POD_CIDR "$PODS" 16 24
  _check_range AGENT_SANDBOX_SERVICE_CIDR "$SERVICES" 12 24
  case $LINK in
  '' | *[!a-z0-9-]*) die "AGENT_SANDBOX_LINK=$LINK is no name for a network link" "Use a-z, 0-9 and '-', up to 15." ;;
  esac
  [ ${#LINK} -le 15 ] || die "AGENT_SANDBOX_LINK=$LINK is longer than 15 characters" "Use a shorter name."
  HOST_IP=$(_address "$NET" 1)
  NODE_IP=$(_address "$NET" 2)
  API_SERVICE_IP=$(_address "$SERVICES" 1)
  NET_PREFIX=${NET#*/}
  # Named after the folder, so that no node ever takes another one's processes for its own.
  CGROUP=agent-sandbox-$(printf '%s' "$AGENT_SANDBOX_HOME" | sha256_of /dev/stdin | cut -c 1-8)
}

_setting() {
  local name=$1 variable=$2 default=$3 stored=$4 wish
  eval "wish=\${$variable:-}"
  if [ -n "$stored" ] && [ -n "$wish" ] && [ "$wish" != "$stored" ] && [ "${MAY_DIFFER:-no}" = no ]; then
    die "this node was made with $variable=$stored, and now $variable=$wish is asked for" \
      "Certificates and cluster data carry the old value: run '$0 down' first, or unset $variable."
  fi
  eval "$name=\${stored:-\${wish:-\$default}}"
}

save_settings() { printf 'NET=%s\nPODS=%s\nSERVICES=%s\nLINK=%s\n' "$NET" "$PODS" "$SERVICES" "$LINK" | write_file 600 "$NODE/settings"; }

# --- addresses -----------------------------------------------------------------------------------

_number() {
  local IFS=.
  # shellcheck disable=SC2086 # four numbers
  set -- $1
  echo $((($1 << 24) + ($2 << 16) + ($3 << 8) + $4))
}

_dotted() { echo "$(($1 >> 24 & 255)).$(($1 >> 16 & 255)).$(($1 >> 8 & 255)).$(($1 & 255))"; }

_address() { _dotted $(($(_number "${1%/*}") + $2)); }

_check_range() {
  local variable=$1 range=$2 widest=$3 narrowest=$4 prefix=${2#*/}
  local fix="Use a range such as 10.231.0.0/24, between /$widest and /$narrowest, with nothing set below the prefix."
  [[ $range =~ ^([0-9]{1,3}\.){3}[0-9]{1,3}/[0-9]{1,2}$ ]] || die "$variable=$range is no IPv4 range" "$fix"
  [ "$(_dotted "$(_number "${range%/*}")")" = "${range%/*}" ] || die "$variable=$range is no IPv4 range" "$fix"
  { [ "$prefix" -ge "$widest" ] && [ "$prefix" -le "$narrowest" ]; } || die "$variable=$range has a prefix of /$prefix" "$fix"
  [ $(($(_number "${range%/*}") & ((1 << (32 - prefix)) - 1))) = 0 ] || die "$variable=$range sets address bits below its prefix" "$fix"
}

_overlap() {
  local shorter=${1#*/}
  [ "${2#*/}" -ge "$shorter" ] || shorter=${2#*/}
  [ $(($(_number "${1%/*}") >> (32 - shorter))) = $(($(_number "${2%/*}") >> (32 - shorter))) ]
}

# Every range this machine already uses, and for what. Our own link does not count, nor does the default route.
_ranges_in_use() {
  ip -o -4 address show | awk -v link="$LINK" '$2 != link { print $4, "an address of " $2 }'
  ip -4 route show table all | awk -v link="$LINK" '
    { for (i = 1; i < NF; i++) if ($i == "dev" && $(i + 1) == link) next
      range = $1 ~ /^[0-9]/ ? $1 : $2
      if ($1 == "local" || $1 == "broadcast" || range !~ /^[0-9]/) next
      print (range ~ /\// ? range : range "/32"), "the route " $0 }'
}

check_ranges_are_free() {
  local variable range used what
  { ! _overlap "$NET" "$PODS"; } || die "AGENT_SANDBOX_NODE_NET=$NET and AGENT_SANDBOX_POD_CIDR=$PODS overlap" "Set one of them to another range."
  { ! _overlap "$NET" "$SERVICES"; } || die "AGENT_SANDBOX_NODE_NET=$NET and AGENT_SANDBOX_SERVICE_CIDR=$SERVICES overlap" "Set one of them to another range."
  { ! _overlap "$PODS" "$SERVICES"; } || die "AGENT_SANDBOX_POD_CIDR=$PODS and AGENT_SANDBOX_SERVICE_CIDR=$SERVICES overlap" "Set one of them to another range."
  while read -r used what; do
    for variable in NODE_NET:$NET POD_CIDR:$PODS SERVICE_CIDR:$SERVICES; do
      range=${variable#*:}
      if _overlap "$range" "$used"; then
        die "$range, the range of AGENT_SANDBOX_${variable%%:*}, is in use on this machine: $used, $what" \
          "Set AGENT_SANDBOX_${variable%%:*} to a range that is free here."
      fi
    done
  done <<EOF
$(_ranges_in_use)
EOF
}
