# What gpt2_test.sh and llama_test.sh share: PROGRAM FOLDER are their arguments. Sourced, not run.
set -eu
sample=$1 folder=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "FAILED: $1"
  exit 1
}

# writes FOLDER OPTIONS: the text of $folder/written.txt, as transformers have it, and then a line about the time.
writes() {
  "$sample" --model "$@" --prompt "Before we proceed any further, hear me" --write 40 --temperature 0 --amp off >"$work/out"
  begins_with "$folder/written.txt" "$1"
}
begins_with() {  # file, what is in $work/out
  head -c "$(wc -c <"$1")" "$work/out" | cmp - "$1" || fail "another text from $2"
}
fine_tunes() {  # folder
  "$sample" --model "$1" --data "$(dirname "$0")/golden/files/gpt2/text.txt" --batch 2 --length 16 --write 5 --json |
    grep -q '"event":"end"' || fail "$1 does not fine-tune"
}
learns_tokens() {  # options: from a file of 3000 numbers of 16 bits, after a model or without one
  awk 'BEGIN { for (i = 0; i < 1500; ++i) printf "abcd" }' >"$work/tokens.bin"
  "$sample" --tokens "$work/tokens.bin" --batch 2 --length 16 --epochs 1 --json "$@" >"$work/out" || fail "$* on tokens"
  grep -q '"event":"end"' "$work/out" && grep -q "3000 tokens" "$work/out" || fail "$* does not train on tokens"
}
refuses() {  # word, folder, options
  word=$1
  shift
  if "$sample" --model "$@" 2>"$work/err" >"$work/out"; then fail "accepts $1"; fi
  [ "$(wc -l <"$work/err")" -eq 1 ] || fail "not one line of explanation"
  grep -q -e "$word" "$work/err" || fail "the explanation does not mention $word: $(cat "$work/err")"
}
