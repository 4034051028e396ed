# shellcheck shell=bash
# Where an installation by scripts/up is. Sourced after lib.sh.
# shellcheck disable=SC2034 # used by the scripts that source this

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BIN=$AGENT_SANDBOX_HOME/bin
LOGS=$AGENT_SANDBOX_HOME/log
ETC=/etc/sandboxd
STATE=/var/lib/sandboxd
RUN=/run/sandboxd
# Folders and files outside $AGENT_SANDBOX_HOME that up made, one a line: what down may take away.
MADE=$AGENT_SANDBOX_HOME/made

# make_folder MODE OWNER:GROUP FOLDER: a folder that was there before us is used and never removed.
make_folder() {
  if [ ! -d "$3" ]; then
    echo "$3" >>"$MADE"
    mkdir -p "$3"
  fi
  chown "$2" "$3"
  chmod "$1" "$3"
}

# as USER COMMAND...: with that user's rights, its group alone, no capability and a clean environment; with AS_EXEC=exec
# in the place of this very shell. It is clean before the uid changes: a process of that uid can read it. The agent's
# command has a session of its own, so that it can push nothing into our terminal, and is killed when we are ended.
as() {
  local user=$1 session='' with_us=''
  shift
  if [ "$user" = sandbox-agent ]; then session='setsid -f -w' with_us='--pdeathsig KILL'; fi
  # shellcheck disable=SC2086 # words, or none
  ${AS_EXEC:-} env -i "PATH=$BIN:/usr/bin:/bin" "HOME=$AGENT_SANDBOX_HOME/home/$user" ${TERM:+"TERM=$TERM"} $session \
    setpriv --reuid "$user" --regid "$user" --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all $with_us "$@"
}

# Puts the cluster's kubectl on PATH and points it at the cluster, as its administrator.
use_cluster() {
  local env=$AGENT_SANDBOX_HOME/node/env
  [ -r "$env" ] || return 1
  KUBECONFIG=$(sed -n 's/^KUBECONFIG_ADMIN=//p' "$env")
  PATH=$(sed -n 's/^BIN_DIR=//p' "$env"):$PATH
  export KUBECONFIG PATH
}
