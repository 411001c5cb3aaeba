#!/bin/sh
# A sample from its command line: sample_test.sh PROGRAM ENDLESS OPTIONS...; with OPTIONS it trains for some seconds at
# most, ENDLESS are options that make it train for long.
# It trains in each precision; saves; Ctrl-C leaves a checkpoint; a run that was stopped and resumed ends in the same
# bytes as an undisturbed one; mistakes give one line of explanation and the right exit code.
set -eu
sample=$1 endless=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

fail() {
  echo "FAILED: $1"
  cat "$work/out" "$work/err"
  failures=$((failures + 1))
}
trains() {  # options: exit code 0, and --json tells of the end of the run
  "$sample" --json "$@" >"$work/out" 2>"$work/err" || { fail "$* (exit code $?)" && return; }
  grep -q '"event":"end"' "$work/out" || fail "$*: no end of the run"
}
refuses() {  # exit code, word of the message, options: one line on stderr
  expected=$1 word=$2
  shift 2
  code=0
  "$sample" "$@" >"$work/out" 2>"$work/err" || code=$?
  [ "$code" -eq "$expected" ] || fail "$*: exit code $code, not $expected"
  [ "$(wc -l <"$work/err")" -eq 1 ] || fail "$*: not exactly one line of explanation"
  grep -qi -e "$word" "$work/err" || fail "$*: the explanation does not mention $word"
}

"$sample" --help >"$work/help" && grep -q -e --resume "$work/help" || fail "--help"
cd "$work"  # what a sample writes without being told where
trains "$@" --amp off --onnx "$work/net.onnx"
[ -s "$work/net.onnx" ] || fail "no ONNX file"
trains "$@" --amp bf16 --profile "$work/trace.json"
grep -q '"name":"backward"' "$work/trace.json" && grep -q "operator .*self, ms" "$work/out" || fail "no profile"
trains "$@" --amp f16 --save "$work/whole.ckpt"

# Stopped once or twice on the way, then resumed: the same bytes in the end. No sleep: as soon as a first checkpoint is
# there the run is stopped; where it ends before, nothing is lost.
for _ in 1 2 3; do
  resume=""
  [ -f "$work/parts.ckpt" ] && resume="--resume $work/parts.ckpt"
  # shellcheck disable=SC2086
  "$sample" "$@" --amp f16 --save "$work/parts.ckpt" --save-every 1 $resume >"$work/out" 2>"$work/err" &
  child=$!
  while [ ! -f "$work/parts.ckpt" ] && kill -0 "$child" 2>/dev/null; do sleep 0.01; done
  kill -INT "$child" 2>/dev/null || true
  code=0
  wait "$child" || code=$?
  [ "$code" -eq 0 ] || [ "$code" -eq 130 ] || fail "stopped: exit code $code"
done
trains "$@" --amp f16 --save "$work/parts.ckpt" --resume "$work/parts.ckpt"
trains "$@" --amp f16 --resume "$work/whole.ckpt"  # at its end
grep -q "resumed from .*whole.ckpt after .* nothing more is saved" "$work/out" || fail "--resume does not say where the run goes on"
cmp "$work/whole.ckpt" "$work/parts.ckpt" || fail "the resumed run ended differently"

if grep -q -e "--layers " "$work/help"; then
  refuses 1 "whole.ckpt: .*the options must be those" "$@" --layers 3 --resume "$work/whole.ckpt"
fi
if grep -q -e "--target " "$work/help"; then  # a goal that is reached is reached after a resumption, too
  trains "$@" --epochs 5 --target 0 --save "$work/goal.ckpt"
  cp "$work/goal.ckpt" "$work/again.ckpt"
  trains "$@" --epochs 5 --target 0 --save "$work/again.ckpt" --resume "$work/again.ckpt"
  cmp "$work/goal.ckpt" "$work/again.ckpt" || fail "resumed after its goal it trained on"
fi
if grep -q -e "--picture " "$work/help"; then
  trains "$@" --picture "$work/none/drawn.png" --save "$work/drawn.ckpt"
  grep -q "no picture" "$work/out" && [ -s "$work/drawn.ckpt" ] || fail "a picture that cannot be written"
fi
if grep -q -e "--muon " "$work/help"; then  # a schedule with a peak of its own takes each optimizer's
  trains "$@" --schedule onecycle --muon 0.01 --save "$work/slow.ckpt"
  trains "$@" --schedule onecycle --muon 0.04 --save "$work/fast.ckpt"
  ! cmp -s "$work/slow.ckpt" "$work/fast.ckpt" || fail "--muon changes nothing"
fi
if grep -q -e "--export " "$work/help"; then refuses 1 "$work/whole.ckpt" "$@" --export "$work/whole.ckpt"; fi
refuses 1 "$work/none" "$@" --save "$work/none/x.ckpt"

# Ctrl-C in the middle of a long run.
# shellcheck disable=SC2086
"$sample" "$@" $endless --save "$work/stop.ckpt" --save-every 1 >"$work/out" 2>"$work/err" &
child=$!
while [ ! -f "$work/stop.ckpt" ] && kill -0 "$child" 2>/dev/null; do sleep 0.01; done
kill -INT "$child"
code=0
wait "$child" || code=$?
[ "$code" -eq 130 ] || fail "SIGINT: exit code $code, not 130"

refuses 2 --amp "$@" --amp fp8
refuses 2 --no-such "$@" --no-such
refuses 1 "$work/none" "$@" --resume "$work/none"
# What would divide by 0 or know no such character is refused before anything is trained.
for option in --layers --heads --context --length --horizon --passes; do
  if grep -q -e "$option " "$work/help"; then refuses 2 "$option" "$@" "$option" 0; fi
done
if grep -q -e "--prompt " "$work/help" && ! grep -q -e "--vocabulary " "$work/help"; then  # a tokenizer knows all bytes
  # shellcheck disable=SC2086
  refuses 1 --prompt "$@" $endless --prompt "$(printf '\001')"
fi
head -c 1000 "$work/whole.ckpt" >"$work/cut.ckpt"
refuses 1 "$work/cut.ckpt" "$@" --resume "$work/cut.ckpt"

echo "$failures failures"
[ "$failures" -eq 0 ]
