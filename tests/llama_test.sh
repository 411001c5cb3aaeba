#!/bin/sh
# samples/llama with folders of Hugging Face's: llama_test.sh PROGRAM FOLDER, whose folders tests/golden/llama.py made.
# It writes what transformers write with models of each kind, from weights of one file or two and again from what it has
# exported, also where the configuration is one of older versions; answers; stops; and says what is missing.
. "$(dirname "$0")/hf_sample.sh"

all=$folder
for kind in llama biased mistral llama2 qwen2 qwen3; do
  folder=$all/$kind
  writes "$folder" --export "$work/exported"
  writes "$work/exported"
done
fine_tunes "$all/mistral"
fine_tunes "$all/qwen3"

# What is said to a model of chats is put into its template, and only the answer is shown.
"$sample" --model "$all/qwen2" --chat "Speak, speak" --write 40 --temperature 0 --amp off >"$work/out"
begins_with "$all/qwen2/answered.txt" "an answer"
refuses "neither ChatML's.*nor Llama 3's" "$all/mistral" --chat hello

# A text is over with any of the tokens of generation_config.json, which are not shown.
folder=$all/llama
"$sample" --model "$folder" --write 9 --temperature 0 --amp off --prompt "Before we" --json >"$work/all"
cp -r "$folder" "$work/stops"
size=$(sed -n 's/.*"vocab_size": \([0-9]*\).*/\1/p' "$folder/config.json")
awk -v n="$size" 'BEGIN { printf "{\"eos_token_id\": [0"; for (i = 1; i < n; ++i) printf ", %d", i; print "]}" }' >"$work/stops/generation_config.json"
"$sample" --model "$work/stops" --write 9 --temperature 0 --amp off --prompt "Before we" >"$work/out"
[ "$(head -n 1 "$work/out")" = "Before we" ] || fail "it does not stop: $(cat "$work/out")"
grep -q ", 1 written" "$work/out" || fail "it does not stop at once: $(cat "$work/out")"
grep -q ", 9 written" "$work/all" || fail "it stops without being asked to: $(cat "$work/all")"
echo 3 >"$work/stops/generation_config.json"
refuses "generation_config.json.*no JSON object" "$work/stops"

writes "$folder" --export "$work/exported"
sed -e 's/"rope_parameters"/"rope_other"/' -e 's/"bos_token_id": \([0-9]*\)/"bos_token_id": [\1]/' "$work/exported/config.json" >"$work/old"
mv "$work/old" "$work/exported/config.json"
writes "$work/exported"
learns_tokens --vocabulary 25700 --layers 1 --width 32 --heads 2 --kv-heads 1 --context 16
fine_tunes "$folder"

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
changed 's/"mlp_bias": false/"mlp_bias": true/'
refuses "mlp_bias is not supported" "$work"
changed 's/"model_type": "llama"/"model_type": "gemma"/'
refuses "gemma.*is none of llama, mistral, qwen2 and qwen3" "$work"
cp "$folder/config.json" "$work"
for map in '{}' '{"weight_map": 3}' '{"weight_map": {}}'; do
  echo "$map" >"$work/model.safetensors.index.json"
  refuses "no weight_map" "$work"
done
for file in '"../x.safetensors"' '"x.bin"' 3; do
  echo "{\"weight_map\": {\"a\": $file}}" >"$work/model.safetensors.index.json"
  refuses "in no .safetensors file of the folder" "$work"
done
