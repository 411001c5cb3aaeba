#!/bin/sh
# The sample imagenet with folders of pictures: trains, is told what is wrong with a folder, and begins with weights.
#   imagenet_test.sh PROGRAM
set -eu
sample=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

fail() {
  echo "FAILED: $1"
  cat "$work/out" "$work/err"
  failures=$((failures + 1))
}
tried() { "$sample" --threads 1 --workers 2 --size 32 --batch 4 --epochs 1 --model resnet18 "$@" >"$work/out" 2>"$work/err"; }
trains() { tried "$@" || fail "$* (exit code $?)"; }
refuses() {  # words of the message, options
  words=$1
  shift
  if tried "$@"; then fail "$*: trained"; fi
  grep -q -e "$words" "$work/err" || fail "$*: the explanation has no \"$words\""
}

# Two pictures of 8 x 8, one gray and one red: PNG files of a few bytes.
gray=iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAAAAADhZOFXAAAAEElEQVR42mNsYIAAJgaKGAAmCACQtTEKkQAAAABJRU5ErkJggg==
red=iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAFUlEQVR42mM8ISfHgA0wMeAAg1MCANDKARQfGKMRAAAAAElFTkSuQmCC
for part in train val; do
  for class in a b; do
    mkdir -p "$work/set/$part/$class"
    for i in 1 2 3 4; do
      if [ $class = a ]; then echo "$gray"; else echo "$red"; fi | base64 -d >"$work/set/$part/$class/$i.png"
    done
  done
done

trains --data "$work/set" --save "$work/net.ckpt" --onnx "$work/net.onnx"
grep -q "8 pictures of 2 classes" "$work/out" || fail "does not say what it trains on"
trains --data "$work/set" --limit 4 --augment trivial --amp off
mkdir "$work/set/train/c" && cp "$work/set/train/a/1.png" "$work/set/train/c"
refuses "differ" --data "$work/set"
refuses "there is no folder" --data "$work/none"
exit $failures
