// The folder in which Hugging Face keeps a GPT-2: config.json, model.safetensors or pytorch_model.bin, and a tokenizer
// (data/bpe.h). Names of weights are Hugging Face's without "transformer." in front; matrices lie as nn::Linear has
// them, [out, in], and not [in, out] as in the file.
#pragma once

#include <mantissa/mantissa.h>

#include <string>

namespace samples {

struct Gpt2Config {
  std::int64_t vocabulary = 50257, context = 1024, width = 768, layers = 12, heads = 12, hidden = 3072;
  double eps = 1e-5;  // of the norms
  mantissa::Activation activation = mantissa::Activation::gelu_tanh;
};

struct Gpt2Folder {
  Gpt2Config config;
  mantissa::io::NamedTensors weights;
  mantissa::data::Bpe bpe;
};

// Throws Error, with the names of the files to fetch where the folder has none.
Gpt2Folder read_gpt2(const std::string& folder);
// Makes the folder where there is none. transformers.GPT2LMHeadModel.from_pretrained and AutoTokenizer read it.
void write_gpt2(const std::string& folder, const Gpt2Folder& gpt2);

}  // namespace samples
