// Hugging Face model folders: config.json, the weights in one file or several, tokenizer.json.
#pragma once

#include <mantissa/mantissa.h>

#include <nlohmann/json.hpp>
#include <string>

namespace samples {

using Json = nlohmann::json;

// A JSON object; `without` if the file does not exist.
Json read_json(const std::string& path, const Json& without);
// config.json; if there is none, an Error that ends in `advice`.
Json read_config(const std::string& folder, const std::string& advice);
// Numeric members of it: FormatError with the path if invalid. `usual` is the default of an absent member; 0: it is
// required.
std::int64_t whole(const Json& config, const char* name, std::int64_t usual, const std::string& path);
double positive(const Json& config, const char* name, double usual, const std::string& path);

// model.safetensors, the files named by model.safetensors.index.json, or pytorch_model.bin.
mantissa::NamedTensors read_weights(const std::string& folder, const std::string& advice);
// To be called before allocating memory of a configuration's sizes: FormatError if the weights lack this tensor.
void check_has(const mantissa::NamedTensors& weights, const std::string& name, const mantissa::Dims& sizes,
               const std::string& path);

// Creates the folder if missing; Error if it is not writable. Call it before training, too.
void make_folder(const std::string& folder);
// Readable by transformers' AutoModel and AutoTokenizer.
void write_folder(const std::string& folder, const Json& config, const mantissa::NamedTensors& weights,
                  const mantissa::data::Bpe& bpe);

}  // namespace samples
