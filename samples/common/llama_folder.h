// Hugging Face's folder of a Llama, or of a model of the same architecture: config.json, weights, a tokenizer
// (data/bpe.h). Weight names are Hugging Face's without the prefix "model."; sizes are named as in config.json.
#pragma once

#include <mantissa/mantissa.h>

#include <optional>
#include <string>
#include <vector>

namespace samples {

// Frequency scaling of Llama 3.1 and later, for longer contexts: frequencies with wavelengths above
// original_max_position_embeddings / low_freq_factor are divided by `factor`, those with wavelengths below
// original_max_position_embeddings / high_freq_factor are kept, and those in between are interpolated.
struct RopeScaling {
  double factor = 8, low_freq_factor = 1, high_freq_factor = 4;
  std::int64_t original_max_position_embeddings = 8192;
};
struct LlamaConfig {
  std::string model_type = "llama";  // or mistral, qwen2, qwen3, which differ in the three values below
  std::int64_t vocab_size = 0, max_position_embeddings = 2048, hidden_size = 0, intermediate_size = 0;
  std::int64_t num_hidden_layers = 0, num_attention_heads = 0, num_key_value_heads = 0, head_dim = 0;
  bool attention_bias = false;      // for queries, keys, values and, except in Qwen 2, the attention output
  std::int64_t sliding_window = 0;  // how many tokens each one attends to, as in Mistral 0.1; 0: all
  double rms_norm_eps = 1e-5, rope_theta = 10000;
  std::optional<RopeScaling> rope_scaling = {};
  bool tie_word_embeddings = false;  // the output matrix is the token embedding
  std::optional<std::int64_t> bos_token_id = {};
  std::vector<std::int64_t> eos_token_id = {};  // any of these ends a text
};

struct LlamaFolder {
  LlamaConfig config;
  mantissa::NamedTensors weights;
  mantissa::data::Bpe bpe;
};

// Throws Error, listing the files to download if the folder has none.
LlamaFolder read_llama(const std::string& folder);
// Readable by transformers' AutoModelForCausalLM.from_pretrained and AutoTokenizer.
void write_llama(const std::string& folder, const LlamaFolder& llama);

}  // namespace samples
