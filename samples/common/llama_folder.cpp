#include "llama_folder.h"

#include <mantissa/io/file.h>

#include <algorithm>
#include <iterator>

#include "hf_folder.h"

namespace samples {
namespace {

using namespace mantissa;

constexpr const char* how_to_get_one =
    "; those of a small one are config.json, model.safetensors and tokenizer.json from "
    "https://huggingface.co/HuggingFaceTB/SmolLM2-135M/resolve/main/";

struct Kind {
  const char *model_type, *architecture;
};
constexpr Kind kinds[] = {{"llama", "LlamaForCausalLM"},
                          {"mistral", "MistralForCausalLM"},
                          {"qwen2", "Qwen2ForCausalLM"},
                          {"qwen3", "Qwen3ForCausalLM"}};
const Kind* kind_of(const Json& model_type) {
  const auto* found = std::ranges::find_if(kinds, [&](const Kind& k) { return model_type == k.model_type; });
  return found == std::end(kinds) ? nullptr : found;
}
bool is_true(const Json& j, const char* name) { return j.value(name, Json(false)) == true; }

// Rejects other models, and features that are not implemented here.
void refuse_others(const Json& j, const std::string& path) {
  const Json type = j.value("model_type", Json());
  if (!kind_of(type))
    io::fail_format(path, "model_type ", io::quote(type.dump()), " is none of llama, mistral, qwen2 and qwen3");
  if (j.value("hidden_act", Json("silu")) != "silu") io::fail_format(path, "hidden_act is not silu");
  for (const char* part : {"mlp_bias", "use_sliding_window"})
    if (is_true(j, part)) io::fail_format(path, part, " is not supported");
}

// In rope_parameters; files from before 2025 have rope_theta and rope_scaling instead.
void read_rotary(const Json& j, LlamaConfig& c, const std::string& path) {
  Json rotary = j.value("rope_parameters", Json());
  if (rotary.is_null()) rotary = j.value("rope_scaling", Json());
  if (rotary.is_null()) rotary = Json::object();
  if (!rotary.is_object()) io::fail_format(path, "rope_parameters must be an object");
  c.rope_theta = positive(rotary.contains("rope_theta") ? rotary : j, "rope_theta", 10000, path);
  const Json type = rotary.value("rope_type", rotary.value("type", Json("default")));
  if (type == "default") return;
  if (type != "llama3") io::fail_format(path, "rope_type ", io::quote(type.dump()), " is neither default nor llama3");
  c.rope_scaling = {positive(rotary, "factor", 0, path), positive(rotary, "low_freq_factor", 0, path),
                    positive(rotary, "high_freq_factor", 0, path),
                    whole(rotary, "original_max_position_embeddings", 0, path)};
  if (c.rope_scaling->high_freq_factor <= c.rope_scaling->low_freq_factor)
    io::fail_format(path, "high_freq_factor must be above low_freq_factor");
}

// A number or a list of numbers; invalid token ids are dropped.
std::vector<std::int64_t> tokens_of(const Json& j, const char* name, std::int64_t vocab_size) {
  const Json value = j.value(name, Json());
  std::vector<std::int64_t> tokens;
  for (const Json& token : value.is_array() ? value : Json::array({value}))
    if (token.is_number_unsigned() && token < vocab_size) tokens.push_back(token.get<std::int64_t>());
  return tokens;
}
// generation_config.json lists more end tokens than config.json, including the end of a chat answer.
std::vector<std::int64_t> ends_of(const Json& config, const std::string& folder, std::int64_t vocab_size) {
  const Json generation = read_json(folder + "/generation_config.json", Json::object());
  const auto ends = tokens_of(generation, "eos_token_id", vocab_size);
  return ends.empty() ? tokens_of(config, "eos_token_id", vocab_size) : ends;
}

LlamaConfig config_of(const std::string& folder) {
  const Json j = read_config(folder, how_to_get_one);
  const std::string path = folder + "/config.json";
  refuse_others(j, path);
  LlamaConfig c{.model_type = j["model_type"].get<std::string>()};
  c.vocab_size = whole(j, "vocab_size", 0, path);
  c.max_position_embeddings = whole(j, "max_position_embeddings", 2048, path);
  c.hidden_size = whole(j, "hidden_size", 0, path);
  c.intermediate_size = whole(j, "intermediate_size", 0, path);
  c.num_hidden_layers = whole(j, "num_hidden_layers", 0, path);
  c.num_attention_heads = whole(j, "num_attention_heads", 0, path);
  c.num_key_value_heads = whole(j, "num_key_value_heads", c.num_attention_heads, path);
  if (c.num_attention_heads % c.num_key_value_heads != 0)
    io::fail_format(path, "num_key_value_heads ", c.num_key_value_heads, " does not divide num_attention_heads ",
                    c.num_attention_heads);
  const std::int64_t usual_head_dim = c.model_type == "qwen3" ? 128 : c.hidden_size / c.num_attention_heads;
  if (c.model_type != "qwen3" && j.value("head_dim", Json()).is_null() && c.hidden_size % c.num_attention_heads != 0)
    io::fail_format(path, "num_attention_heads ", c.num_attention_heads, " does not divide hidden_size ",
                    c.hidden_size);
  c.head_dim = whole(j, "head_dim", std::max<std::int64_t>(1, usual_head_dim), path);
  if (c.head_dim % 2 != 0) io::fail_format(path, "head_dim ", c.head_dim, " is odd, and pairs are turned");
  c.rms_norm_eps = positive(j, "rms_norm_eps", 1e-6, path);
  read_rotary(j, c, path);
  c.tie_word_embeddings = is_true(j, "tie_word_embeddings");
  c.attention_bias = c.model_type == "qwen2" || is_true(j, "attention_bias");
  if (c.model_type == "mistral" && !j.value("sliding_window", Json(4096)).is_null())
    c.sliding_window = whole(j, "sliding_window", 4096, path);
  const auto begin = tokens_of(j, "bos_token_id", c.vocab_size);
  if (!begin.empty()) c.bos_token_id = begin[0];
  c.eos_token_id = ends_of(j, folder, c.vocab_size);
  return c;
}

}  // namespace

LlamaFolder read_llama(const std::string& folder) {
  LlamaFolder llama{config_of(folder), {}, data::load_bpe(folder)};
  const LlamaConfig& c = llama.config;
  for (auto& [name, t] : read_weights(folder, how_to_get_one)) {
    if (name.starts_with("model.")) name.erase(0, std::string("model.").size());
    const bool twice = c.tie_word_embeddings && name == "lm_head.weight",
               computed = name.ends_with("rotary_emb.inv_freq");
    if (twice || computed) continue;
    llama.weights.emplace_back(name == "lm_head.weight" ? "lm_head" : name, t);
  }
  const std::string path = folder + "/config.json", last = concat("layers.", c.num_hidden_layers - 1, ".");
  check_has(llama.weights, "embed_tokens.weight", {c.vocab_size, c.hidden_size}, path);
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i)
    check_has(llama.weights, concat("layers.", i, ".input_layernorm.weight"), {c.hidden_size}, path);
  check_has(llama.weights, last + "mlp.up_proj.weight", {c.intermediate_size, c.hidden_size}, path);
  check_has(llama.weights, last + "self_attn.q_proj.weight", {c.num_attention_heads * c.head_dim, c.hidden_size}, path);
  check_has(llama.weights, last + "self_attn.k_proj.weight", {c.num_key_value_heads * c.head_dim, c.hidden_size}, path);
  return llama;
}

void write_llama(const std::string& folder, const LlamaFolder& llama) {
  NamedTensors weights;
  for (const auto& [name, t] : llama.weights)
    weights.emplace_back(name == "lm_head" ? "lm_head.weight" : "model." + name, t);
  const LlamaConfig& c = llama.config;
  Json rotary = {{"rope_type", c.rope_scaling ? "llama3" : "default"}, {"rope_theta", c.rope_theta}};
  if (c.rope_scaling) {
    rotary["factor"] = c.rope_scaling->factor;
    rotary["low_freq_factor"] = c.rope_scaling->low_freq_factor;
    rotary["high_freq_factor"] = c.rope_scaling->high_freq_factor;
    rotary["original_max_position_embeddings"] = c.rope_scaling->original_max_position_embeddings;
  }
  Json j = {{"model_type", c.model_type},
            {"architectures", {kind_of(c.model_type)->architecture}},
            {"vocab_size", c.vocab_size},
            {"max_position_embeddings", c.max_position_embeddings},
            {"hidden_size", c.hidden_size},
            {"intermediate_size", c.intermediate_size},
            {"num_hidden_layers", c.num_hidden_layers},
            {"num_attention_heads", c.num_attention_heads},
            {"num_key_value_heads", c.num_key_value_heads},
            {"head_dim", c.head_dim},
            {"hidden_act", "silu"},
            {"rms_norm_eps", c.rms_norm_eps},
            {"rope_theta", c.rope_theta},
            {"rope_parameters", rotary},
            {"tie_word_embeddings", c.tie_word_embeddings}};
  if (c.rope_scaling) j["rope_scaling"] = rotary;  // for older versions of transformers
  if (c.model_type == "mistral") j["sliding_window"] = c.sliding_window > 0 ? Json(c.sliding_window) : Json();
  else if (c.model_type != "qwen2") j["attention_bias"] = c.attention_bias;
  if (c.bos_token_id) j["bos_token_id"] = *c.bos_token_id;
  if (!c.eos_token_id.empty()) j["eos_token_id"] = c.eos_token_id;
  write_folder(folder, j, weights, llama.bpe);
}

}  // namespace samples
