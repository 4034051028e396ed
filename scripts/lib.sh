# shellcheck shell=bash
# What every script here shares. Source it, do not run it:
#
#   . "$(cd "$(dirname "$0")" && pwd)/lib.sh"
#
# It works with bash 3.2 (macOS). All progress goes to stderr, so that stdout can carry a result.
#
#   show_help                        prints the script's own head comment: answer to --help
#   step TEXT, ok [TEXT]             one piece of work, with the time it took; a failure names the open step
#   say TEXT, warn TEXT              a line of progress, a warning
#   die WHAT [NEXT]                  what happened and what to do next; exit 1
#   quit CODE                        ends the script with an exit code that is an answer, not a failure
#   need CMD DEB [BREW] [RPM]        preflight: a command, and the package that brings it
#   need_fact WHAT FIX               preflight: anything else that is missing, and how to get it
#   preflight_end                    ends the script if anything was missing: the whole list, one install command
#   ensure_debian_packages PKG...    as root on Debian or Ubuntu installs what is missing, otherwise leaves it to the
#                                    preflight: call it first, then need the commands the packages bring
#   take_lock FILE [SECONDS]         holds FILE until this script ends; dies naming the holder after SECONDS (600)
#   at_exit COMMAND                  runs COMMAND when the script ends, last registered first
#   start_daemon PIDFILE LOG CMD...  starts CMD detached from this terminal and its files, and records it
#   record_process PIDFILE PID       records a process by pid, start time and boot
#   process_alive PIDFILE            true while that very process runs; a recycled pid is not it
#   process_pid PIDFILE              prints its pid
#   stop_process PIDFILE [SECONDS]   TERM, then KILL after SECONDS (10), then removes PIDFILE
#   stop_strays PIDFILE COMMAND      ends what runs with exactly this command line and is not PIDFILE's: a process whose
#                                    record was lost
#   wait_for SECONDS WHAT CMD...     polls CMD until it succeeds, or dies saying that WHAT did not happen
#   visible                          stdin, without what a terminal would take for more than text
#   enter_folder FOLDER              makes it the working folder; OWNER is whose it is then, and GROUP the owner's
#   need_owner                       preflight: what the next two need
#   owners_alone                     as root, in root's folder: dies if somebody else could change what is in it
#   as_owner COMMAND...              with the rights of OWNER and GROUP where we are root, in a session of its own, and
#                                    of our environment nothing but PATH
#   write_file MODE FILE             stdin to FILE, with MODE from its first byte on, in one rename
#   sha256_of FILE...                the hash alone, a line each
#   now_ms, seconds_since MS         for times in messages

# shellcheck disable=SC2119 # ok without a text is the usual way
set -euo pipefail
set -E

AGENT_SANDBOX_HOME=${AGENT_SANDBOX_HOME:-/var/lib/agent-sandbox}
AGENT_SANDBOX_CACHE=${AGENT_SANDBOX_CACHE:-/var/cache/agent-sandbox}
export AGENT_SANDBOX_HOME AGENT_SANDBOX_CACHE

_step='' _step_start=0 _where='' _died='' _exit_commands='' _lock_dir=''
_missing_commands='' _missing_facts='' _missing_deb='' _missing_brew='' _missing_rpm=''

# --- progress ------------------------------------------------------------------------------------

# Milliseconds of wall clock. Bash before 5 knows whole seconds only.
now_ms() {
  if [ -n "${EPOCHREALTIME:-}" ]; then
    local micros=${EPOCHREALTIME//[.,]/}
    echo $((micros / 1000))
  else
    echo $(($(date +%s) * 1000))
  fi
}

seconds_since() {
  local ms=$(($(now_ms) - $1))
  printf '%d.%d s' $((ms / 1000)) $((ms % 1000 / 100))
}

say() { printf '    %s\n' "$*" >&2; }
warn() { printf 'warning: %s\n' "$*" >&2; }

step() {
  [ -z "$_step" ] || ok
  _step=$1
  _step_start=$(now_ms)
  printf '==> %s\n' "$1" >&2
}

# shellcheck disable=SC2120 # its text comes from the scripts that source this
ok() {
  [ -n "$_step" ] || return 0
  printf '    %s (%s)\n' "${1:-done}" "$(seconds_since "$_step_start")" >&2
  _step=''
}

die() {
  printf 'error: %s\n' "$1" >&2
  [ -z "${2:-}" ] || printf '%s\n' "$2" | sed -e '1s/^/  next: /' -e '2,$s/^/        /' >&2
  _died=yes
  exit 1
}

quit() {
  _died=yes
  exit "$1"
}

show_help() { awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0"; }

at_exit() { _exit_commands="$1
$_exit_commands"; }

_on_exit() {
  local status=$?
  trap - EXIT ERR
  set +e
  if [ "$status" != 0 ] && [ -z "$_died" ]; then
    printf 'error: %s failed with exit code %s%s%s\n' "${0##*/}" "$status" \
      "${_where:+ at $_where}" "${_step:+, during: $_step}" >&2
  fi
  eval "$_exit_commands"
  [ -z "$_lock_dir" ] || rm -rf "$_lock_dir"
  exit "$status"
}
trap '_where="${BASH_SOURCE[0]##*/}:$LINENO"' ERR
trap _on_exit EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# --- preflight -----------------------------------------------------------------------------------

_have() { command -v "$1" >/dev/null 2>&1; }

need() {
  _have "$1" && return 0
  _missing_commands="$_missing_commands $1"
  _missing_deb="$_missing_deb $2"
  _missing_brew="$_missing_brew ${3:-}"
  _missing_rpm="$_missing_rpm ${4:-$2}"
}

need_fact() {
  _missing_facts="$_missing_facts
  - $1
      $2"
}

preflight_end() {
  [ -n "$_missing_commands$_missing_facts$_missing_deb" ] || return 0
  local as_root='' install=''
  [ "$(id -u)" = 0 ] || as_root='sudo '
  if _have apt-get; then
    install="${as_root}apt-get install -y --no-install-recommends$_missing_deb"
  elif _have brew; then
    install="brew install$_missing_brew"
  elif _have dnf; then
    install="${as_root}dnf install$_missing_rpm"
  else
    install="install what your system calls$_missing_deb"
  fi
  {
    echo "error: this machine lacks what ${0##*/} needs:"
    [ -z "$_missing_commands" ] || echo "  - commands:$_missing_commands"
    [ -z "$_missing_facts" ] || printf '%s\n' "${_missing_facts#?}"
    [ -z "$_missing_deb$_missing_commands" ] || echo "  next: $install"
  } >&2
  _died=yes
  exit 1
}

ensure_debian_packages() {
  local missing='' package
  _have dpkg-query || return 0
  for package in "$@"; do
    # shellcheck disable=SC2016 # dpkg-query expands that, not the shell
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
      missing="$missing $package"
  done
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" != 0 ]; then
    _missing_deb="$_missing_deb$missing"
    return 0
  fi
  step "Installing$missing"
  # shellcheck disable=SC2086 # a list of package names
  if { [ -n "${_apt_updated:-}" ] || _apt update; } && _apt install -y --no-install-recommends $missing; then
    _apt_updated=yes
    ok
  else
    die "apt-get could not install$missing" "See its messages above; without a network, install them by hand."
  fi
}

_apt() { DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@" </dev/null >&2; }

# --- locks and processes -------------------------------------------------------------------------

take_lock() {
  local file=$1 seconds=${2:-600} waited=0
  mkdir -p "$(dirname "$file")"
  if _have flock; then
    while :; do
      # Appending keeps the holder's name readable while we wait for it.
      exec 9>>"$file"
      if ! flock -n 9; then
        say "waiting for $(_lock_holder "$file"), up to $seconds s"
        flock -w "$seconds" 9 || die "$(_lock_holder "$file") still holds $file" "Wait for it to end, then run this again."
      fi
      # Its last holder may have removed it, and then it locks nothing any more.
      [ "$file" -ef /dev/fd/9 ] && break
      mkdir -p "$(dirname "$file")"
    done
    echo "${0##*/} (pid $$)" >"$file"
    return 0
  fi
  # macOS: a folder is made by one process only, and one whose maker is gone is free.
  until mkdir "$file.d" 2>/dev/null; do
    if [ -f "$file.d/owner" ] && ! process_alive "$file.d/owner"; then
      rm -rf "$file.d"
      continue
    fi
    [ "$waited" -lt "$seconds" ] || die "pid $(process_pid "$file.d/owner") still holds $file" \
      "Wait for it to end, then run this again."
    sleep 1
    waited=$((waited + 1))
  done
  _lock_dir=$file.d
  record_process "$file.d/owner" $$
}

_lock_holder() { grep . "$1" 2>/dev/null || echo 'another script'; }

# A process is a pid and the time it started; a pid alone is handed on to strangers.
_start_time() {
  if [ -r "/proc/$1/stat" ]; then
    local rest
    rest=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    rest=${rest##*) }
    # shellcheck disable=SC2086 # fields, from the third on
    set -- $rest
    echo "${20}-$(cat /proc/sys/kernel/random/boot_id)"
  else
    ps -o lstart= -p "$1" 2>/dev/null | tr -s ' ' '_' | grep .
  fi
}

record_process() {
  local started
  started=$(_start_time "$2") || return 1
  echo "$2 $started" >"$1"
}

process_alive() {
  local pid started state
  [ -f "$1" ] && read -r pid started <"$1" && [ -n "$pid" ] || return 1
  [ "$(_start_time "$pid" 2>/dev/null)" = "$started" ] || return 1
  state=$(ps -o stat= -p "$pid" 2>/dev/null) || return 1
  case $state in *Z*) return 1 ;; esac
}

process_pid() {
  local pid _
  read -r pid _ <"$1" 2>/dev/null && echo "$pid"
}

stop_process() {
  local pidfile=$1 seconds=${2:-10} pid tenths=0
  if process_alive "$pidfile"; then
    pid=$(process_pid "$pidfile")
    kill -TERM "$pid" 2>/dev/null || true
    while process_alive "$pidfile"; do
      if [ "$tenths" -ge $((seconds * 10)) ]; then
        kill -KILL "$pid" 2>/dev/null || true
        sleep 0.3
        break
      fi
      sleep 0.1
      tenths=$((tenths + 1))
    done
  fi
  rm -f "$pidfile"
}

stop_strays() {
  local pid stray
  _have pgrep || return 0
  for pid in $(pgrep -f -x -- "$2" || true); do
    if process_alive "$1" && [ "$pid" = "$(process_pid "$1")" ]; then continue; fi
    warn "pid $pid runs as '$2', and nothing says so: ending it"
    stray=$(mktemp)
    # It may have ended by itself meanwhile.
    if record_process "$stray" "$pid"; then stop_process "$stray" 20; fi
    rm -f "$stray"
  done
}

# Nothing of the caller stays open in what we leave running: not its lock, not its terminal, not its pipes.
_close_files() {
  local file fd
  for file in /dev/fd/*; do
    fd=${file##*/}
    case $fd in
    0 | 1 | 2) ;;
    *) eval "exec $fd>&-" 2>/dev/null || true ;;
    esac
  done
}

start_daemon() {
  local pidfile=$1 log=$2 pid
  shift 2
  (
    trap - EXIT ERR INT TERM
    _close_files
    if _have setsid; then
      exec setsid "$@"
    else
      exec perl -MPOSIX -e 'POSIX::setsid(); exec @ARGV or die "$ARGV[0]: $!\n"' "$@"
    fi
  ) </dev/null >>"$log" 2>&1 &
  pid=$!
  record_process "$pidfile" "$pid" ||
    die "$1 ended at once: $(tail -n 3 "$log" 2>/dev/null)" "Read $log."
}

wait_for() {
  local seconds=$1 what=$2 start
  shift 2
  start=$(now_ms)
  until "$@" >/dev/null 2>&1; do
    [ $(($(now_ms) - start)) -lt $((seconds * 1000)) ] || die "waited $seconds s in vain: $what" "${WAIT_HINT:-}"
    sleep 0.1
  done
}

# --- with the rights of a folder's owner ----------------------------------------------------------

visible() { LC_ALL=C tr -cd '\11\12\40-\176'; }

# By path it could be another folder the next time.
OWNER='' GROUP=''
enter_folder() {
  CDPATH='' cd -P -- "$1" 2>/dev/null || die "there is no folder $(printf %s "$1" | visible)" "Give the folder of a Terraform root."
  # GNU's stat, or that of macOS. The folder's group may be more than the owner's: root's, after a bare chown.
  OWNER=$(stat -c %u . 2>/dev/null || stat -f %u .)
  GROUP=$(id -g "$OWNER" 2>/dev/null) || GROUP=$OWNER
}

need_owner() {
  if [ "$(id -u)" = 0 ]; then
    need setpriv util-linux
    need setsid util-linux
  fi
}

owners_alone() {
  local found here
  if [ "$(id -u)" != 0 ] || [ "$OWNER" != 0 ]; then return; fi
  found=$(find . \( ! -user 0 -o ! -type l \( -perm -020 -o -perm -002 \) \) -print -quit | visible)
  here=$(pwd -P | visible)
  [ -z "$found" ] || die "somebody else than root may change $here/${found#./}, and the folder is root's" \
    "Give it to who works in it, with chown -hR; or to root alone, with chown -hR root: and chmod -R go-w."
}

# Whatever the owner makes of it, what runs with these rights is the owner's: in our session it could push commands into
# root's terminal, and what it has open it could hand on, so it never gets that terminal. The environment is cleared
# before the uid changes: the owner can read it after that. When setsid is ended, so is the command.
as_owner() {
  if [ "$(id -u)" = 0 ] && [ "$OWNER" != 0 ]; then
    env -i "PATH=$PATH" setsid -f -w setpriv --reuid "$OWNER" --regid "$GROUP" --clear-groups --no-new-privs \
      --inh-caps=-all --bounding-set=-all --pdeathsig TERM "$@" 9>&-
  else
    env -i "PATH=$PATH" "$@"
  fi
}

# --- files ---------------------------------------------------------------------------------------

write_file() {
  local mode=$1 file=$2 new=$2.new.$$
  (
    umask 077
    cat >"$new"
  )
  chmod "$mode" "$new"
  mv -f "$new" "$file"
}

sha256_of() {
  if _have sha256sum; then sha256sum "$@"; else shasum -a 256 "$@"; fi | sed 's/[ *].*//'
}
