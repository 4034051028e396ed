# shellcheck shell=bash
# Terraform roots, as setup is told of them. Sourced after lib.sh by the scripts that take --root.
#
#   --root NAME:NAMESPACE:KIND[,KIND...]
#
#     NAME        as in [roots.NAME] of sandboxd.toml, e.g. demo
#     NAMESPACE   the one its objects are in; it must be a target too
#     KIND        what `kubectl api-resources --namespaced -o name` prints, e.g. deployments.apps,services
#
#   add_root SPEC             checks one and keeps it in ROOTS, a line each: name, namespace, kinds
#   roots_are_in NAMESPACE... dies where a root is in none of these
#   roots_in NAMESPACE        the names of those that are in it, a line each
#   is_dns_label TEXT         whether it can be a name of a namespace or a root

# A root has a rung of each of these in its namespace. Each holds what the one before it holds, and more.
# shellcheck disable=SC2034 # used by the scripts that source this
ROOT_RUNGS='plan apply apply-delete'

ROOTS=''

add_root() {
  local name namespace kinds more kind
  # No pattern, nothing below a resource (pods/exec), no second line.
  case $1 in *[!-a-z0-9.,:]*) not_a_root "$1" ;; esac
  IFS=: read -r name namespace kinds more <<<"$1"
  case $kinds:$more in :* | *:?*) not_a_root "$1" ;; esac
  is_dns_label "$name" || die "not a name of a root: $name" "It is a DNS label, as in [roots.demo] of sandboxd.toml."
  # The rung apply of the root delete-x would bear the name of the rung apply-delete of the root x.
  case $name in delete-*) die "a root's name cannot begin with delete-: $name" "Call it otherwise." ;; esac
  is_dns_label "$namespace" || die "not a name of a namespace, in the root $name: $namespace"
  case "
$ROOTS" in
  *"
$name "*) die "the root $name is given twice" "A root has one namespace, and all its kinds in one list." ;;
  esac
  case ,$kinds, in *,,*) die "a kind is missing in the root $name: $kinds" "Take the comma away, or name the kind." ;; esac
  for kind in ${kinds//,/ }; do check_kind "$name" "$kind"; done
  ROOTS="$ROOTS$name $namespace $kinds
"
}

not_a_root() { die "not a root: $1" "Write NAME:NAMESPACE:KIND[,KIND...], e.g. demo:demo-app:deployments.apps,services."; }

is_dns_label() { printf '%s\n' "$1" | grep -Eq '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'; }

check_kind() {
  case $2 in
  secrets) die "the root $1 cannot have Secrets: no rung reads them, and Terraform cannot plan what it cannot read" \
    "Make them elsewhere, and let Terraform name them where pods use them." ;;
  *.rbac.authorization.k8s.io) die "the root $1 cannot have $2: who writes rights can take any" \
    "Leave rights to people." ;;
  esac
  printf '%s\n' "$2" | grep -Eq '^[a-z]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-.a-z0-9]*[a-z0-9])?)?$' ||
    die "not a kind, in the root $1: $2" "See: kubectl api-resources --namespaced -o name"
}

roots_are_in() {
  local name namespace _
  while read -r name namespace _; do
    [ -n "$name" ] || continue
    case " $* " in
    *" $namespace "*) ;;
    *) die "the root $name is in $namespace, which is no target" "Name $namespace as a target too." ;;
    esac
  done <<<"$ROOTS"
}

roots_in() { printf '%s' "$ROOTS" | awk -v namespace="$1" '$2 == namespace { print $1 }'; }
