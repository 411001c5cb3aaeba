// The folder in which Hugging Face keeps a Llama, or a model that is built like it: config.json, weights, a tokenizer
// (data/bpe.h). Names of weights are Hugging Face's without "model." in front, those of sizes are its config.json's.
#pragma once

#include <mantissa/mantissa.h>

#include <optional>
#include <string>
#include <vector>

namespace samples {

// Llama 3.1 and later turn slowly what turned slowly before, so that longer texts fit: positions of wave lengths beyond
// original_max_position_embeddings / low_freq_factor are stretched by `factor`, those below
// original_max_position_embeddings / high_freq_factor stay, and between them there is no step.
struct RopeScaling {
  double factor = 8, low_freq_factor = 1, high_freq_factor = 4;
  std::int64_t original_max_position_embeddings = 8192;
};
struct LlamaConfig {
  std::string model_type = "llama";  // or mistral, qwen2, qwen3, which differ in the three numbers below
  std::int64_t vocab_size = 0, max_position_embeddings = 2048, hidden_size = 0, intermediate_size = 0;
  std::int64_t num_hidden_layers = 0, num_attention_heads = 0, num_key_value_heads = 0, head_dim = 0;
  bool attention_bias = false;      // of queries, keys, values and, but in Qwen 2, the output of attention
  std::int64_t sliding_window = 0;  // how many tokens one looks at, as Mistral 0.1 has it; 0: all
  double rms_norm_eps = 1e-5, rope_theta = 10000;
  std::optional<RopeScaling> rope_scaling = {};
  bool tie_word_embeddings = false;  // the embedding is the output matrix as well
  std::optional<std::int64_t> bos_token_id = {};
  std::vector<std::int64_t> eos_token_id = {};  // a text is over with any of these
};

struct LlamaFolder {
  LlamaConfig config;
  mantissa::io::NamedTensors weights;
  mantissa::data::Bpe bpe;
};

// Throws Error, with the names of the files to fetch where the folder has none.
LlamaFolder read_llama(const std::string& folder);
// transformers' AutoModelForCausalLM.from_pretrained and AutoTokenizer read it.
void write_llama(const std::string& folder, const LlamaFolder& llama);

}  // namespace samples
