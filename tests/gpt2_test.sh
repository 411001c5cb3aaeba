#!/bin/sh
# samples/gpt2 with a folder of Hugging Face's: gpt2_test.sh PROGRAM FOLDER, which tests/golden/gpt2.py made.
# It writes what transformers write, from safetensors and again from what it has exported; and says what is missing.
. "$(dirname "$0")/hf_sample.sh"

writes "$folder" --export "$work/exported"
writes "$work/exported"
fine_tunes "$folder"
learns_tokens --vocabulary 25700 --layers 1 --width 32 --heads 2 --context 16

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
