#!/bin/sh
# samples/llama with a folder of Hugging Face's: llama_test.sh PROGRAM FOLDER, which tests/golden/llama.py made.
# It writes what transformers write, from two files of weights and again from what it has exported, also where the
# configuration is one of older versions; and says what is missing.
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
sed -e 's/"rope_parameters"/"rope_other"/' -e 's/"bos_token_id": \([0-9]*\)/"bos_token_id": [\1]/' "$work/exported/config.json" >"$work/old"
mv "$work/old" "$work/exported/config.json"
writes "$work/exported"
"$sample" --model "$folder" --data "$folder/../gpt2/text.txt" --batch 2 --length 16 --write 5 --json | grep -q '"event":"end"' ||
  fail "it does not fine-tune"

refuses() {  # word, folder
  if "$sample" --model "$2" 2>"$work/err"; then fail "accepts $2"; fi
  [ "$(wc -l <"$work/err")" -eq 1 ] || fail "not one line of explanation"
  grep -q -e "$1" "$work/err" || fail "the explanation does not mention $1: $(cat "$work/err")"
}
changed() { sed "$1" "$folder/config.json" >"$work/config.json"; }
refuses "config.json.*huggingface.co" "$work"
cp "$folder/config.json" "$work"
refuses "tokenizer.json" "$work"
cp "$folder/tokenizer.json" "$work"
refuses "model.safetensors.*huggingface.co" "$work"
cp "$folder/model.safetensors.index.json" "$folder"/model-00001-*.safetensors "$work"
refuses "model-00002-of-00002.safetensors" "$work"
cp "$folder"/model-00002-*.safetensors "$work"
changed 's/"num_hidden_layers": 2/"num_hidden_layers": 3/'
refuses "layers.2" "$work"
changed 's/"num_key_value_heads": 2/"num_key_value_heads": 3/'
refuses "does not divide" "$work"
changed 's/"head_dim": 8/"head_dim": 7/'
refuses "odd" "$work"
changed 's/"vocab_size": [0-9]*/"vocab_size": 16777216/'
refuses "embed_tokens.weight \[16777216.*the weights have" "$work"
changed 's/"rms_norm_eps": [^,]*/"rms_norm_eps": -1/'
refuses "rms_norm_eps must be a positive" "$work"
changed 's/"rope_type": "llama3"/"rope_type": "yarn"/'
refuses "yarn.*neither default nor llama3" "$work"
changed 's/"low_freq_factor": 1.0/"low_freq_factor": 9/'
refuses "high_freq_factor must be above" "$work"
changed 's/"attention_bias": false/"attention_bias": true/'
refuses "attention_bias is not supported" "$work"
changed 's/"model_type": "llama"/"model_type": "gemma"/'
refuses "gemma.*neither llama nor mistral" "$work"
cp "$folder/config.json" "$work"
for map in '{}' '{"weight_map": 3}' '{"weight_map": {}}'; do
  echo "$map" >"$work/model.safetensors.index.json"
  refuses "no weight_map" "$work"
done
for file in '"../x.safetensors"' '"x.bin"' 3; do
  echo "{\"weight_map\": {\"a\": $file}}" >"$work/model.safetensors.index.json"
  refuses "in no .safetensors file of the folder" "$work"
done
