// Folders in which Hugging Face keeps a model: config.json, the weights in one file or several, tokenizer.json.
#pragma once

#include <mantissa/mantissa.h>

#include <nlohmann/json.hpp>
#include <string>

namespace samples {

using Json = nlohmann::json;

// A JSON object; `without` where there is no such file.
Json read_json(const std::string& path, const Json& without);
// config.json; Error, which ends in `advice`, where the folder has none.
Json read_config(const std::string& folder, const std::string& advice);
// Members of it: FormatError with the path for what is no such number. `usual` stands for one that is absent, unless it
// is 0.
std::int64_t whole(const Json& config, const char* name, std::int64_t usual, const std::string& path);
double positive(const Json& config, const char* name, double usual, const std::string& path);

// model.safetensors, the files that model.safetensors.index.json names, or pytorch_model.bin.
mantissa::io::NamedTensors read_weights(const std::string& folder, const std::string& advice);
// Before memory is taken for the sizes that a configuration asks for: FormatError where the weights have not this one.
void check_has(const mantissa::io::NamedTensors& weights, const std::string& name, const mantissa::Dims& sizes,
               const std::string& path);

// Makes the folder where there is none; Error where nothing can be written to it. To be called before training, too.
void make_folder(const std::string& folder);
// transformers' AutoModel and AutoTokenizer read it.
void write_folder(const std::string& folder, const Json& config, const mantissa::io::NamedTensors& weights,
                  const mantissa::data::Bpe& bpe);

}  // namespace samples
