// Hugging Face's GPT-2 folder: config.json, model.safetensors or pytorch_model.bin, and a tokenizer (data/bpe.h).
// Weight names are Hugging Face's without the prefix "transformer."; matrices are [out, in] as in nn::Linear, not [in,
// out] as in the file.
#pragma once

#include <mantissa/mantissa.h>

#include <string>

namespace samples {

struct Gpt2Config {
  std::int64_t vocabulary = 50257, context = 1024, width = 768, layers = 12, heads = 12, hidden = 3072;
  double eps = 1e-5;  // of the layer norms
  mantissa::Activation activation = mantissa::Activation::gelu_tanh;
};

struct Gpt2Folder {
  Gpt2Config config;
  mantissa::NamedTensors weights;
  mantissa::data::Bpe bpe;
};

// Throws Error, listing the files to download if the folder has none.
Gpt2Folder read_gpt2(const std::string& folder);
// Creates the folder if missing. Readable by transformers.GPT2LMHeadModel.from_pretrained and AutoTokenizer.
void write_gpt2(const std::string& folder, const Gpt2Folder& gpt2);

}  // namespace samples
