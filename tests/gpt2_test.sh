#!/bin/sh
# samples/gpt2 with a folder of Hugging Face's: gpt2_test.sh PROGRAM FOLDER, which tests/golden/gpt2.py made.
# It writes what transformers write, from safetensors and again from what it has exported; and says what is missing.
set -eu
sample=$1 folder=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "FAILED: $1"
  exit 1
}

writes() {  # folder and options: the text of written.txt, and then a line about the time
  "$sample" --model "$@" --prompt "Before we proceed any further, hear me" --write 40 --temperature 0 --amp off >"$work/out"
  head -c "$(wc -c <"$folder/written.txt")" "$work/out" | cmp - "$folder/written.txt" || fail "another text from $1"
}
writes "$folder" --export "$work/exported"
writes "$work/exported"
"$sample" --model "$folder" --data "$folder/text.txt" --batch 2 --length 16 --write 5 --json | grep -q '"event":"end"' ||
  fail "it does not fine-tune"

refuses() {  # word, options
  if "$sample" --model "$2" 2>"$work/err"; then fail "accepts $2"; fi
  [ "$(wc -l <"$work/err")" -eq 1 ] || fail "not one line of explanation"
  grep -q -e "$1" "$work/err" || fail "the explanation does not mention $1: $(cat "$work/err")"
}
refuses "config.json.*huggingface.co" "$work"
cp "$folder/config.json" "$work"
refuses "model.safetensors.*huggingface.co" "$work"
cp "$folder/model.safetensors" "$work"
refuses "tokenizer.json" "$work"
cp "$folder/tokenizer.json" "$work"
sed 's/"n_layer": 2/"n_layer": 3/' "$folder/config.json" >"$work/config.json"
refuses "h.2" "$work"
sed 's/"n_head": 2/"n_head": 3/' "$folder/config.json" >"$work/config.json"
refuses "does not divide" "$work"
sed 's/"n_head": 2/"n_head": "x"/' "$folder/config.json" >"$work/config.json"
refuses "n_head must be a whole number" "$work"
sed 's/"n_layer": 2/"n_layer": 1000000/' "$folder/config.json" >"$work/config.json"
refuses "h.999999.*which the weights lack" "$work"
sed 's/"vocab_size": [0-9]*/"vocab_size": 16777216/' "$folder/config.json" >"$work/config.json"
refuses "wte.weight \[16777216.*the weights have" "$work"
sed 's/"layer_norm_epsilon": [^,]*/"layer_norm_epsilon": -1/' "$folder/config.json" >"$work/config.json"
refuses "layer_norm_epsilon must be a positive" "$work"
echo "{" >"$work/config.json"
refuses "not valid JSON" "$work"
echo "[]" >"$work/config.json"
refuses "no JSON object" "$work"
awk 'BEGIN { printf "{\"activation_function\": "; for (i = 0; i < 400000; ++i) printf "["; for (i = 0; i < 400000; ++i) printf "]"; print "}" }' >"$work/config.json"
refuses "nested more than" "$work"
