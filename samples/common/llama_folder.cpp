#include "llama_folder.h"

#include <mantissa/io/file.h>

#include "hf_folder.h"

namespace samples {
namespace {

using namespace mantissa;

constexpr const char* how_to_get_one =
    "; those of a small one are config.json, model.safetensors and tokenizer.json from "
    "https://huggingface.co/HuggingFaceTB/SmolLM2-135M/resolve/main/";

// What is another model, or has parts that this one has not.
void refuse_others(const Json& j, const std::string& path) {
  const Json type = j.value("model_type", Json());
  if (type != "llama" && type != "mistral")
    io::fail_format(path, "model_type ", io::quote(type.dump()), " is neither llama nor mistral");
  if (j.value("hidden_act", Json("silu")) != "silu") io::fail_format(path, "hidden_act is not silu");
  for (const char* bias : {"attention_bias", "mlp_bias"})
    if (j.value(bias, Json(false)) != false) io::fail_format(path, bias, " is not supported");
  if (type == "mistral" && !j.value("sliding_window", Json()).is_null())
    io::fail_format(path, "sliding_window is not supported");
}

// Under rope_parameters; files of before 2025 have rope_theta beside rope_scaling.
void read_rotary(const Json& j, LlamaConfig& c, const std::string& path) {
  Json rotary = j.value("rope_parameters", Json());
  if (rotary.is_null()) rotary = j.value("rope_scaling", Json());
  if (rotary.is_null()) rotary = Json::object();
  if (!rotary.is_object()) io::fail_format(path, "rope_parameters must be an object");
  c.rotary_base = positive(rotary.contains("rope_theta") ? rotary : j, "rope_theta", 10000, path);
  const Json type = rotary.value("rope_type", rotary.value("type", Json("default")));
  if (type == "default") return;
  if (type != "llama3") io::fail_format(path, "rope_type ", io::quote(type.dump()), " is neither default nor llama3");
  c.scaling = {positive(rotary, "factor", 0, path), positive(rotary, "low_freq_factor", 0, path),
               positive(rotary, "high_freq_factor", 0, path),
               whole(rotary, "original_max_position_embeddings", 0, path)};
  if (c.scaling->high_frequency <= c.scaling->low_frequency)
    io::fail_format(path, "high_freq_factor must be above low_freq_factor");
}

// A number, or the first of a list; absent where it is no token.
std::optional<std::int64_t> token_of(const Json& j, const char* name, std::int64_t vocabulary) {
  Json value = j.value(name, Json());
  if (value.is_array() && !value.empty()) value = Json(value[0]);
  if (!value.is_number_unsigned() || value >= vocabulary) return {};
  return value.get<std::int64_t>();
}

LlamaConfig config_of(const std::string& folder) {
  const Json j = read_config(folder, how_to_get_one);
  const std::string path = folder + "/config.json";
  refuse_others(j, path);
  LlamaConfig c;
  c.vocabulary = whole(j, "vocab_size", 0, path);
  c.context = whole(j, "max_position_embeddings", 2048, path);
  c.width = whole(j, "hidden_size", 0, path);
  c.hidden = whole(j, "intermediate_size", 0, path);
  c.layers = whole(j, "num_hidden_layers", 0, path);
  c.heads = whole(j, "num_attention_heads", 0, path);
  c.kv_heads = whole(j, "num_key_value_heads", c.heads, path);
  if (c.heads % c.kv_heads != 0)
    io::fail_format(path, "num_key_value_heads ", c.kv_heads, " does not divide num_attention_heads ", c.heads);
  if (j.value("head_dim", Json()).is_null() && c.width % c.heads != 0)
    io::fail_format(path, "num_attention_heads ", c.heads, " does not divide hidden_size ", c.width);
  c.head_width = whole(j, "head_dim", std::max<std::int64_t>(1, c.width / c.heads), path);
  if (c.head_width % 2 != 0) io::fail_format(path, "head_dim ", c.head_width, " is odd, and pairs are turned");
  c.eps = positive(j, "rms_norm_eps", 1e-6, path);
  read_rotary(j, c, path);
  c.tied = j.value("tie_word_embeddings", Json(false)) == true;
  c.begin = token_of(j, "bos_token_id", c.vocabulary);
  c.end = token_of(j, "eos_token_id", c.vocabulary);
  return c;
}

}  // namespace

LlamaFolder read_llama(const std::string& folder) {
  LlamaFolder llama{config_of(folder), {}, data::load_bpe(folder)};
  const LlamaConfig& c = llama.config;
  for (auto& [name, t] : read_weights(folder, how_to_get_one)) {
    if (name.starts_with("model.")) name.erase(0, std::string("model.").size());
    const bool twice = c.tied && name == "lm_head.weight", computed = name.ends_with("rotary_emb.inv_freq");
    if (twice || computed) continue;
    llama.weights.emplace_back(name == "lm_head.weight" ? "lm_head" : name, t);
  }
  const std::string path = folder + "/config.json", last = concat("layers.", c.layers - 1, ".");
  check_has(llama.weights, "embed_tokens.weight", {c.vocabulary, c.width}, path);
  check_has(llama.weights, last + "mlp.up_proj.weight", {c.hidden, c.width}, path);
  check_has(llama.weights, last + "self_attn.q_proj.weight", {c.heads * c.head_width, c.width}, path);
  check_has(llama.weights, last + "self_attn.k_proj.weight", {c.kv_heads * c.head_width, c.width}, path);
  return llama;
}

void write_llama(const std::string& folder, const LlamaFolder& llama) {
  io::NamedTensors weights;
  for (const auto& [name, t] : llama.weights)
    weights.emplace_back(name == "lm_head" ? "lm_head.weight" : "model." + name, t);
  const LlamaConfig& c = llama.config;
  Json rotary = {{"rope_type", c.scaling ? "llama3" : "default"}, {"rope_theta", c.rotary_base}};
  if (c.scaling) {
    rotary["factor"] = c.scaling->factor;
    rotary["low_freq_factor"] = c.scaling->low_frequency;
    rotary["high_freq_factor"] = c.scaling->high_frequency;
    rotary["original_max_position_embeddings"] = c.scaling->original;
  }
  Json j = {{"model_type", "llama"},
            {"architectures", {"LlamaForCausalLM"}},
            {"vocab_size", c.vocabulary},
            {"max_position_embeddings", c.context},
            {"hidden_size", c.width},
            {"intermediate_size", c.hidden},
            {"num_hidden_layers", c.layers},
            {"num_attention_heads", c.heads},
            {"num_key_value_heads", c.kv_heads},
            {"head_dim", c.head_width},
            {"hidden_act", "silu"},
            {"rms_norm_eps", c.eps},
            {"rope_theta", c.rotary_base},
            {"rope_parameters", rotary},
            {"tie_word_embeddings", c.tied}};
  if (c.scaling) j["rope_scaling"] = rotary;  // for older versions of transformers
  if (c.begin) j["bos_token_id"] = *c.begin;
  if (c.end) j["eos_token_id"] = *c.end;
  write_folder(folder, j, weights, llama.bpe);
}

}  // namespace samples
