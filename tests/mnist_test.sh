#!/bin/sh
# The MNIST sample from its command line, on a few drawn pictures: mnist_test.sh MNIST
# Each kind of training ends well; each mistake gives one line of explanation and the right exit code.
set -eu
mnist=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
tiny="--dataset synthetic --limit 96 --batch 32 --epochs 1"

fail() {
  echo "FAILED: $1"
  cat "$work/out" "$work/err"
  failures=$((failures + 1))
}

trains() {  # options: exit code 0, and the last line of --json is the end of the run
  # shellcheck disable=SC2086
  "$mnist" $tiny --json "$@" >"$work/out" 2>"$work/err" || { fail "$* (exit code $?)" && return; }
  tail -n 1 "$work/out" | grep -q '"event":"end"' || fail "$*: no end of the run"
}

refuses() {  # exit code, word of the message, options: one line on stderr
  expected=$1 word=$2
  shift 2
  code=0
  # shellcheck disable=SC2086
  "$mnist" $tiny "$@" >"$work/out" 2>"$work/err" || code=$?
  [ "$code" -eq "$expected" ] || fail "$*: exit code $code, not $expected"
  [ "$(wc -l <"$work/err")" -eq 1 ] || fail "$*: not exactly one line of explanation"
  grep -qi -e "$word" "$work/err" || fail "$*: the explanation does not mention $word"
}

"$mnist" --help >"$work/out" && grep -q -e --resume "$work/out" || fail "--help"
trains --model mlp --amp off
trains --model cnn --amp bf16
trains --model cnn --amp f16 --optimizer sgd --workers 0 --threads 1
trains --model mlp --save "$work/a.ckpt"
trains --model mlp --epochs 2 --resume "$work/a.ckpt"

# Ctrl-C leaves a checkpoint to go on from.
# shellcheck disable=SC2086
"$mnist" $tiny --model mlp --epochs 100000 --save "$work/stop.ckpt" --save-every 1 >"$work/out" 2>"$work/err" &
child=$!
while [ ! -f "$work/stop.ckpt" ] && kill -0 "$child" 2>/dev/null; do sleep 0.1; done
kill -INT "$child"
code=0
wait "$child" || code=$?
[ "$code" -eq 130 ] || fail "SIGINT: exit code $code, not 130"
trains --model mlp --resume "$work/stop.ckpt"

# A checkpoint that can never be written is refused before the training; one that cannot be written any more is said, does
# not stop the training, and fails the run at its end.
refuses 1 "$work/no/such/folder.ckpt" --model mlp --save "$work/no/such/folder.ckpt"
grep -q epoch "$work/out" && fail "it trained first"
mkdir "$work/here"
# shellcheck disable=SC2086
"$mnist" $tiny --model mlp --epochs 100000 --save "$work/here/a.ckpt" --save-every 1 >"$work/out" 2>"$work/err" &
child=$!
while [ ! -f "$work/here/a.ckpt" ] && kill -0 "$child" 2>/dev/null; do sleep 0.1; done
mv "$work/here" "$work/there"
while ! grep -q "not saved" "$work/out" && kill -0 "$child" 2>/dev/null; do sleep 0.1; done
kill -INT "$child"
code=0
wait "$child" || code=$?
[ "$code" -eq 1 ] || fail "unwritable checkpoint: exit code $code"

# Where the output cannot be written, the training goes on.
# shellcheck disable=SC2086
"$mnist" $tiny --model mlp --save "$work/full.ckpt" >/dev/full 2>"$work/err" || fail "no room for the output"
cmp "$work/a.ckpt" "$work/full.ckpt" || fail "no room for the output: another result"

trains --model mlp --seed 2 --save "$work/full.ckpt"
grep -q "full.ckpt will be replaced" "$work/out" || fail "an old checkpoint is replaced without a word"
cmp "$work/a.ckpt" "$work/full.ckpt.before" || fail "an old checkpoint is not kept"
cmp -s "$work/a.ckpt" "$work/full.ckpt" && fail "the old checkpoint is still there"

# What is resumed at its end has no step to do, and is saved under its new name all the same.
trains --model mlp --resume "$work/a.ckpt" --save "$work/copy.ckpt"
cmp "$work/a.ckpt" "$work/copy.ckpt" || fail "resumed at its end: another checkpoint"

# When nobody reads the output any more, the run saves and ends. (Tests may run under nohup.)
mkfifo "$work/pipe"
# shellcheck disable=SC2086
env --default-signal=HUP "$mnist" $tiny --model mlp --epochs 100000 --save "$work/pipe.ckpt" >"$work/pipe" 2>"$work/err" &
child=$!
head -n 3 "$work/pipe" >"$work/out"
code=0
wait "$child" || code=$?
[ "$code" -eq 130 ] || fail "a closed pipe: exit code $code, not 130"
[ -s "$work/pipe.ckpt" ] || fail "a closed pipe: nothing is saved"

refuses 2 --batch --batch 0
refuses 2 --amp --amp fp8
refuses 2 --epochs --epochs many
refuses 2 --no-such --no-such
refuses 1 "$work/none" --dataset mnist --data "$work/none"
refuses 1 "$work/none" --resume "$work/none"

mkdir "$work/html" "$work/cut"
for part in train t10k; do
  for kind in images-idx3 labels-idx1; do
    echo '<!DOCTYPE html><html><body>404</body></html>' >"$work/html/$part-$kind-ubyte"
    printf '\000\000\010\003\000\000' >"$work/cut/$part-$kind-ubyte"
  done
done
refuses 1 "$work/html" --dataset mnist --data "$work/html"
refuses 1 "$work/cut" --dataset mnist --data "$work/cut"
head -c 1000 "$work/a.ckpt" >"$work/cut.ckpt"
refuses 1 "$work/cut.ckpt" --model mlp --resume "$work/cut.ckpt"
refuses 1 mlp --model cnn --resume "$work/a.ckpt"

echo "$failures failures"
[ "$failures" -eq 0 ]
