#include "gpt2_folder.h"

#include <mantissa/io/file.h>

#include "hf_folder.h"

namespace samples {
namespace {

using namespace mantissa;

constexpr const char* how_to_get_one =
    "; the smallest GPT-2 are config.json, model.safetensors and tokenizer.json from "
    "https://huggingface.co/openai-community/gpt2/resolve/main/";

Activation activation_of(const Json& name, const std::string& path) {
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return Activation::gelu_tanh;
  if (name == "gelu") return Activation::gelu;
  if (name == "relu") return Activation::relu;
  io::fail_format(path, "activation_function ", io::quote(name.dump()), " is not supported");
}
Gpt2Config config_of(const std::string& folder) {
  const Json j = read_config(folder, how_to_get_one);
  const std::string path = folder + "/config.json";
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
  c.eps = positive(j, "layer_norm_epsilon", 1e-5, path);
  c.activation = activation_of(j.value("activation_function", Json("gelu_new")), path);
  if (c.width % c.heads != 0) io::fail_format(path, "n_head ", c.heads, " does not divide n_embd ", c.width);
  return c;
}

// A matrix that the file stores transposed, as [in, out]. (Embeddings are not.)
bool is_turned(const std::string& name) {
  return name.ends_with("c_attn.weight") || name.ends_with("c_proj.weight") || name.ends_with("c_fc.weight");
}
// Not a parameter, or redundant: the causal mask of old files, and the output matrix tied to the embedding.
bool is_left_out(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name == "lm_head.weight";
}
NamedTensors weights_of(const std::string& folder) {
  NamedTensors weights;
  for (auto& [name, t] : read_weights(folder, how_to_get_one)) {
    if (name.starts_with("transformer.")) name.erase(0, std::string("transformer.").size());
    if (!is_left_out(name)) weights.emplace_back(name, is_turned(name) && t.dim() == 2 ? t.t() : t);
  }
  return weights;
}

}  // namespace

Gpt2Folder read_gpt2(const std::string& folder) {
  Gpt2Folder gpt2{config_of(folder), weights_of(folder), data::load_bpe(folder)};
  const Gpt2Config& c = gpt2.config;
  const std::string path = folder + "/config.json";
  check_has(gpt2.weights, "wte.weight", {c.vocabulary, c.width}, path);
  check_has(gpt2.weights, "wpe.weight", {c.context, c.width}, path);
  check_has(gpt2.weights, concat("h.", c.layers - 1, ".mlp.c_fc.weight"), {c.hidden, c.width}, path);
  return gpt2;
}

void write_gpt2(const std::string& folder, const Gpt2Folder& gpt2) {
  NamedTensors weights;
  for (const auto& [name, t] : gpt2.weights) weights.emplace_back("transformer." + name, is_turned(name) ? t.t() : t);
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
  write_folder(folder, j, weights, gpt2.bpe);
}

}  // namespace samples
