# shellcheck shell=bash
# Attempts on a live system, one line each, with what came back where that was not what should. Sourced by the
# tests that are scripts.
#
#   refused WHAT PATTERN COMMAND...   must fail, with an answer that matches PATTERN
#   allowed WHAT COMMAND...           must succeed: without it a refusal next to it would prove nothing
#   same WHAT EXPECTED ACTUAL         must be equal
#   sum_up                            prints "N passed, N failed"; fails if one failed or none was tried

PASSED=0 FAILED=0 ANSWER=''

refused() {
  local what=$1 pattern=$2
  shift 2
  if attempt "$@"; then
    fail "$what" "it was let through"
  elif printf '%s' "$ANSWER" | grep -Eq -- "$pattern"; then
    pass "refused: $what"
  else
    fail "$what" "refused, but not by the gate that should ($pattern)"
  fi
}

allowed() {
  local what=$1
  shift
  if attempt "$@"; then pass "allowed: $what"; else fail "$what" "it was refused"; fi
}

same() {
  ANSWER=$3
  if [ "$2" = "$3" ]; then pass "exactly: $1"; else fail "$1" "expected $2"; fi
}

# Keeps what a command answers, but never a token: where a breach works, this is what would be printed.
attempt() { ANSWER=$("$@" 2>&1 | without_tokens | cut -c 1-600; exit "${PIPESTATUS[0]}"); }

without_tokens() { sed -E -e 's/eyJ[A-Za-z0-9_.-]+/(a token)/g' -e 's/(hv)?[bsr]\.[A-Za-z0-9_-]{20,}/(a token)/g'; }

pass() {
  PASSED=$((PASSED + 1))
  printf 'ok    %s\n' "$1"
}

fail() {
  FAILED=$((FAILED + 1))
  printf 'FAIL  %s: %s; the answer was: %s\n' "$1" "$2" "$ANSWER"
}

sum_up() {
  printf '%s passed, %s failed\n' "$PASSED" "$FAILED"
  [ "$FAILED" = 0 ] && [ "$PASSED" -gt 0 ]
}
