#include "gpt2_folder.h"

#include <mantissa/core/json_text.h>
#include <mantissa/data/folders.h>
#include <mantissa/io/file.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace samples {
namespace {

using namespace mantissa;
using Json = nlohmann::json;

constexpr const char* how_to_get_one =
    "; the smallest GPT-2 are config.json, model.safetensors and tokenizer.json from "
    "https://huggingface.co/openai-community/gpt2/resolve/main/";

Json read_config(const std::string& path) {
  const std::string text = io::read_file(path, 1 << 20);
  check_json(text, path);
  const Json config = Json::parse(text);
  if (!config.is_object()) io::fail_format(path, "is no JSON object");
  return config;
}
std::int64_t whole(const Json& config, const char* name, std::int64_t usual, const std::string& path) {
  const Json value = config.value(name, Json());
  if (value.is_null() && usual > 0) return usual;
  if (!value.is_number_unsigned() || value > (1 << 24) || value < 1)
    io::fail_format(path, name, " must be a whole number from 1 to 2^24");
  return value.get<std::int64_t>();
}
Activation activation_of(const Json& name, const std::string& path) {
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return Activation::gelu_tanh;
  if (name == "gelu") return Activation::gelu;
  if (name == "relu") return Activation::relu;
  io::fail_format(path, "activation_function ", io::quote(name.dump()), " is not supported");
}
Gpt2Config config_of(const std::string& path) {
  const Json j = read_config(path);
  if (j.value("model_type", Json("gpt2")) != "gpt2")
    io::fail_format(path, "model_type ", io::quote(j["model_type"].dump()), " is not gpt2");
  if (j.value("scale_attn_weights", Json(true)) != true || j.value("tie_word_embeddings", Json(true)) != true ||
      j.value("scale_attn_by_inverse_layer_idx", Json(false)) != false)
    io::fail_format(path, "scales attention otherwise than GPT-2, or has an output matrix of its own");
  Gpt2Config c{.vocabulary = whole(j, "vocab_size", 0, path),
               .context = whole(j, "n_positions", 0, path),
               .width = whole(j, "n_embd", 0, path),
               .layers = whole(j, "n_layer", 0, path),
               .heads = whole(j, "n_head", 0, path)};
  c.hidden = whole(j, "n_inner", 4 * c.width, path);
  const Json eps = j.value("layer_norm_epsilon", Json(1e-5));
  if (!eps.is_number() || eps <= 0) io::fail_format(path, "layer_norm_epsilon must be a positive number");
  c.eps = eps.get<double>();
  c.activation = activation_of(j.value("activation_function", Json("gelu_new")), path);
  if (c.width % c.heads != 0) io::fail_format(path, "n_head ", c.heads, " does not divide n_embd ", c.width);
  return c;
}

// A matrix that the file has as [in, out]. (Embeddings it has as we do.)
bool is_turned(const std::string& name) {
  return name.ends_with("c_attn.weight") || name.ends_with("c_proj.weight") || name.ends_with("c_fc.weight");
}
// Not learned, or there twice: the causal mask of old files, and the embedding as the output matrix.
bool is_left_out(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name == "lm_head.weight";
}
io::NamedTensors weights_of(const std::string& folder) {
  const std::string safe = folder + "/model.safetensors", pickled = folder + "/pytorch_model.bin";
  check(data::path_exists(safe) || data::path_exists(pickled), "the folder ", folder,
        " has no model.safetensors and no pytorch_model.bin", how_to_get_one);
  io::NamedTensors weights;
  for (auto& [name, t] :
       data::path_exists(safe) ? io::load_safetensors(safe).tensors : io::load_torch(pickled).tensors) {
    if (name.starts_with("transformer.")) name.erase(0, std::string("transformer.").size());
    if (!is_left_out(name)) weights.emplace_back(name, is_turned(name) && t.dim() == 2 ? t.t() : t);
  }
  return weights;
}

// Before memory is taken for the sizes that the configuration asks for.
void check_fits(const Gpt2Config& c, const io::NamedTensors& weights, const std::string& path) {
  const std::string last_block = concat("h.", c.layers - 1, ".mlp.c_fc.weight");
  for (const auto& [name, sizes] : {std::pair<std::string, Dims>("wte.weight", {c.vocabulary, c.width}),
                                    {"wpe.weight", {c.context, c.width}},
                                    {last_block, {c.hidden, c.width}}}) {
    const auto found = std::ranges::find(weights, name, &io::NamedTensors::value_type::first);
    if (found == weights.end()) io::fail_format(path, "asks for ", name, ", which the weights lack");
    if (found->second.sizes() != sizes)
      io::fail_format(path, "asks for ", name, " ", sizes, ", the weights have ", found->second);
  }
}

}  // namespace

Gpt2Folder read_gpt2(const std::string& folder) {
  const std::string config = folder + "/config.json";
  check(data::path_exists(config), "the folder ", folder, " has no config.json", how_to_get_one);
  Gpt2Folder gpt2{config_of(config), weights_of(folder), data::load_bpe(folder)};
  check_fits(gpt2.config, gpt2.weights, config);
  return gpt2;
}

void write_gpt2(const std::string& folder, const Gpt2Folder& gpt2) {
  std::filesystem::create_directories(folder);
  io::NamedTensors weights;
  for (const auto& [name, t] : gpt2.weights) weights.emplace_back("transformer." + name, is_turned(name) ? t.t() : t);
  io::save_safetensors(folder + "/model.safetensors", weights, {{"format", "pt"}});
  gpt2.bpe.save(folder + "/tokenizer.json");
  const Gpt2Config& c = gpt2.config;
  const char* activation = c.activation == Activation::gelu   ? "gelu"
                           : c.activation == Activation::relu ? "relu"
                                                              : "gelu_new";
  Json j = {{"model_type", "gpt2"},        {"architectures", {"GPT2LMHeadModel"}},
            {"vocab_size", c.vocabulary},  {"n_positions", c.context},
            {"n_embd", c.width},           {"n_layer", c.layers},
            {"n_head", c.heads},           {"n_inner", c.hidden},
            {"layer_norm_epsilon", c.eps}, {"activation_function", activation}};
  if (const auto end = gpt2.bpe.find("<|endoftext|>")) j["bos_token_id"] = j["eos_token_id"] = *end;
  for (const auto& [name, text] :
       {std::pair("config.json", j.dump(2)),
        {"tokenizer_config.json", std::string("{\"tokenizer_class\": \"PreTrainedTokenizerFast\"}")}}) {
    io::AtomicFile file(folder + "/" + name);
    file.write(text);
    file.commit();
  }
}

}  // namespace samples
