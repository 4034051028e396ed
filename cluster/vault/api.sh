# shellcheck shell=bash
# OpenBao over its HTTP API, without a secret in any process's arguments or environment. Sourced by the scripts here.
#
#   call METHOD PATH [TOKEN_FILE]   sends standard input, if the method has a body; sets STATUS and ANSWER.
#                                   TOKEN_FILE holds a header line, "X-Vault-Token: ..."; without it, none is sent
#   as_operator METHOD PATH         call with the root token; dies on anything but success
#
# STATUS is the HTTP status, 000 where there was no answer; ANSWER is the answer's text, in memory only.

VAULT=$AGENT_SANDBOX_HOME/vault
OPERATOR=$VAULT/operator
# How the daemon and the issuer are called; configure and test use the same words.
# shellcheck disable=SC2034
MOUNTS='sandbox-k8s-0 sandbox-k8s-1 sandbox-k8s-2 sandbox-k8s-3'
# The key that plans and states are encrypted with, and where values of secret variables may be put.
# shellcheck disable=SC2034
TRANSIT=transit TRANSIT_KEY=agent-sandbox KV=kv KV_PREFIX=agent-sandbox

STATUS='' ANSWER=''

vault_address() { sed -n 's/^VAULT_ADDRESS=//p' "$VAULT/env" 2>/dev/null | grep .; }

call() {
  local method=$1 path=$2 token=${3:-} address
  address=$(vault_address) || die "OpenBao was never started here" "Start it: cluster/vault/server up"
  set -- --silent --max-time 30 --cacert "$VAULT/ca.pem" --write-out '\n%{http_code}' --request "$method"
  [ -z "$token" ] || set -- "$@" --header "@$token"
  case $method in POST | PUT) set -- "$@" --data-binary @- ;; esac
  ANSWER=$(curl "$@" "$address/v1/$path") || true
  STATUS=${ANSWER##*
}
  ANSWER=${ANSWER%"$STATUS"}
}

as_operator() {
  call "$1" "$2" "$OPERATOR/root.header"
  case $STATUS in
  2??) ;;
  000) die "OpenBao does not answer at $(vault_address)" "cluster/vault/server status" ;;
  *) die "OpenBao refused to $1 $2 ($STATUS): $(printf '%s' "$ANSWER" | jq -r '.errors | join("; ")' 2>/dev/null)" ;;
  esac
}

answer() { printf '%s' "$ANSWER" | jq -er "$@"; }
