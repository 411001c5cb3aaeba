#!/bin/sh
# Training by several processes, as mantissa_run starts them: mantissa_run_test.sh MANTISSA_RUN MNIST
# One of them prints and saves; a run that is stopped goes on to the same bytes; when one fails, all end and it is named.
set -eu
run=$1 mnist=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
tiny="--dataset synthetic --limit 640 --batch 16 --model mlp --amp f16 --threads 1"

fail() {
  echo "FAILED: $1"
  cat "$work/out" "$work/err"
  failures=$((failures + 1))
}
together() {  # ranks, options
  ranks=$1
  shift
  # shellcheck disable=SC2086
  "$run" -n "$ranks" "$mnist" $tiny "$@" >"$work/out" 2>"$work/err"
}

together 2 --epochs 2 --save "$work/whole.ckpt" || fail "two ranks (exit code $?)"
[ "$(grep -c '^epoch' "$work/out")" -eq 2 ] || fail "the epochs are not printed once each"
grep -q 'process group of 2 ranks' "$work/out" || fail "the number of ranks is not printed"
together 2 --epochs 2 --save "$work/again.ckpt" || fail "two ranks again (exit code $?)"
cmp "$work/whole.ckpt" "$work/again.ckpt" || fail "a second run ends in other bytes"
together 1 --epochs 1 || fail "one rank (exit code $?)"
together 3 --epochs 1 --json || fail "three ranks (exit code $?)"

# Stopped in the middle by SIGTERM, all save where they are, and go on to the same bytes.
# shellcheck disable=SC2086
"$run" -n 2 "$mnist" $tiny --epochs 100000 --schedule constant --save "$work/endless.ckpt" --save-every 1 \
  >"$work/out" 2>"$work/err" &
child=$!
while [ ! -f "$work/endless.ckpt" ] && kill -0 "$child" 2>/dev/null; do sleep 0.05; done
kill -TERM "$child"
code=0
wait "$child" || code=$?
[ "$code" -eq 130 ] || fail "SIGTERM: exit code $code, not 130"
[ ! -s "$work/err" ] || fail "SIGTERM: errors are printed"
steps=$(sed -n 's/.*go on with.*/yes/p' "$work/out")
[ "$steps" = yes ] || fail "SIGTERM: no word of how to go on"

# What all of them hear, and some twice: from a job manager and from the launcher, or when the terminal is lost. (Tests may
# run under nohup.)
stops_all() {  # signal
  # shellcheck disable=SC2086
  env --default-signal=HUP "$run" -n 2 "$mnist" $tiny --epochs 100000 --save "$work/$1.ckpt" --save-every 1 \
    >"$work/out" 2>"$work/err" &
  child=$!
  while [ ! -f "$work/$1.ckpt" ] && kill -0 "$child" 2>/dev/null; do sleep 0.05; done
  # shellcheck disable=SC2046
  kill -"$1" $(cat "/proc/$child/task/$child/children") "$child"
  code=0
  wait "$child" || code=$?
  [ "$code" -eq 130 ] || fail "SIG$1 to all: exit code $code, not 130"
  grep -q "go on with" "$work/out" || fail "SIG$1 to all: nothing is saved"
}
stops_all TERM
stops_all HUP

together 2 --epochs 1 --schedule constant --save "$work/one.ckpt" || fail "one epoch (exit code $?)"
together 2 --epochs 2 --schedule constant --resume "$work/one.ckpt" --save "$work/resumed.ckpt" || fail "resume (exit code $?)"
together 2 --epochs 2 --schedule constant --save "$work/undisturbed.ckpt" || fail "two epochs (exit code $?)"
cmp "$work/resumed.ckpt" "$work/undisturbed.ckpt" || fail "a resumed run ends in other bytes"

# A rank that is killed ends the run, and is named.
# shellcheck disable=SC2086
"$run" -n 3 "$mnist" $tiny --epochs 100000 --save "$work/killed.ckpt" --save-every 1 >"$work/out" 2>"$work/err" &
child=$!
while [ ! -f "$work/killed.ckpt" ] && kill -0 "$child" 2>/dev/null; do sleep 0.05; done
victim=
for pid in $(cat "/proc/$child/task/$child/children"); do
  if tr '\0' '\n' <"/proc/$pid/environ" | grep -qx 'RANK=1'; then victim=$pid; fi
done
[ -n "$victim" ] && kill -KILL "$victim"
code=0
wait "$child" || code=$?
[ "$code" -ne 0 ] || fail "a killed rank: exit code 0"
grep -q 'mantissa_run: rank 1 was killed by signal 9' "$work/err" || fail "the launcher does not name the killed rank"
[ "$(grep -c '^error: .*rank 1 ' "$work/err")" -eq 2 ] || fail "the other ranks do not name the killed one"

# A rank that ends with an error; a program that is not there; a token that differs; mistakes.
code=0
"$run" -n 2 sh -c 'if [ "$RANK" = 1 ]; then exit 7; fi; exec sleep 0.1' >"$work/out" 2>"$work/err" || code=$?
[ "$code" -eq 7 ] && grep -q 'rank 1 ended with exit code 7' "$work/err" || fail "exit code $code, not 7"
code=0
"$run" -n 2 "$work/none" >"$work/out" 2>"$work/err" || code=$?
[ "$code" -eq 127 ] && grep -q "cannot run $work/none" "$work/err" || fail "no program: exit code $code"
code=0
# shellcheck disable=SC2016
"$run" -n 2 sh -c 'if [ "$RANK" = 1 ]; then MANTISSA_JOB_TOKEN=00000000000000000000000000000000; fi
  MANTISSA_RENDEZVOUS_TIMEOUT=5 exec "$@"' sh "$mnist" --dataset synthetic --limit 64 >"$work/out" 2>"$work/err" || code=$?
[ "$code" -ne 0 ] && grep -q 'refuses rank 1: the token is another' "$work/err" || fail "another token: exit code $code"
for options in "" "-n 0 true" "-n 2" "-n 2 --nodes 2 true" "-n two true" "--no-such 1 true"; do
  code=0
  # shellcheck disable=SC2086
  "$run" $options >"$work/out" 2>"$work/err" || code=$?
  [ "$code" -eq 2 ] && [ "$(wc -l <"$work/err")" -eq 1 ] || fail "mantissa_run $options: exit code $code"
done
"$run" --help | grep -q -e '--nodes' || fail "--help"

echo "$failures failures"
[ "$failures" -eq 0 ]
