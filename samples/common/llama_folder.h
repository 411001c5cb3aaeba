// The folder in which Hugging Face keeps a Llama, or a model that is built like it: config.json, weights, and a
// byte-level tokenizer (data/bpe.h). Names of weights are Hugging Face's without "model." in front.
#pragma once

#include <mantissa/mantissa.h>

#include <optional>
#include <string>

namespace samples {

// Llama 3.1 and later turn slowly what turned slowly before, so that longer texts fit: positions of wave lengths beyond
// `original` / low_frequency are stretched by `factor`, those below original / high_frequency stay, and between them
// there is no step.
struct RotaryScaling {
  double factor = 8, low_frequency = 1, high_frequency = 4;
  std::int64_t original = 8192;  // the context before
};
struct LlamaConfig {
  std::int64_t vocabulary = 0, context = 2048, width = 0, hidden = 0, layers = 0;
  std::int64_t heads = 0, kv_heads = 0, head_width = 0;
  double eps = 1e-5, rotary_base = 10000;
  std::optional<RotaryScaling> scaling = {};
  bool tied = false;  // the embedding is the output matrix as well
  std::optional<std::int64_t> begin = {}, end = {};  // the tokens around a text
};

struct LlamaFolder {
  LlamaConfig config;
  mantissa::io::NamedTensors weights;
  mantissa::data::Bpe bpe;
};

// Throws Error, with the names of the files to fetch where the folder has none.
LlamaFolder read_llama(const std::string& folder);
// transformers' LlamaForCausalLM.from_pretrained and AutoTokenizer read it.
void write_llama(const std::string& folder, const LlamaFolder& llama);

}  // namespace samples
