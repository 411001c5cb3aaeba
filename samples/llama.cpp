// Llama (Touvron et al., 2023; Llama 3: Grattafiori et al., 2024), and what is built like it, as SmolLM: writes with
// weights from Hugging Face, and learns from a text.
//   llama --model SmolLM2-135M --prompt "Once upon a time"    a folder: config.json, model.safetensors, tokenizer.json
//   llama --model SmolLM2-135M --data book.txt --export mine  fine-tunes it; transformers read what it exports
//   llama --minutes 10                                        a small one, with a vocabulary of its own
//   llama --help
// Read are models of type llama, of several files too, with byte-level tokenizers: Llama 3 to 3.2, SmolLM and others.
#include <cmath>
#include <numbers>

#include "common/language.h"
#include "common/llama_folder.h"

using namespace mantissa;
using samples::LlamaConfig;

// By how much each pair of numbers of a head is turned at the positions begin, begin + 1, ... (Su et al., 2021): the
// cosines and sines [T, D / 2].
struct Turns {
  Turns(const LlamaConfig& c, std::int64_t begin, std::int64_t end, Device device) {
    std::vector<double> speeds;  // radians for each position
    for (std::int64_t i = 0; i < c.head_width; i += 2) {
      double speed = std::pow(c.rotary_base, -static_cast<double>(i) / static_cast<double>(c.head_width));
      if (c.scaling) {
        const double length = 2 * std::numbers::pi / speed, waves = static_cast<double>(c.scaling->original) / length;
        const double low = c.scaling->low_frequency, high = c.scaling->high_frequency;
        const double as_it_was = std::clamp((waves - low) / (high - low), 0.0, 1.0);
        speed *= as_it_was + (1 - as_it_was) / c.scaling->factor;
      }
      speeds.push_back(speed);
    }
    const Tensor positions = arange(static_cast<double>(begin), static_cast<double>(end), 1, {.dtype = f64});
    const Tensor angles = outer(positions, from_data(speeds, {c.head_width / 2}));
    cosines = cos(angles).to(f32).to(device), sines = sin(angles).to(f32).to(device);
  }
  // [..., T, D]; a pair are the numbers i and i + D / 2.
  Tensor operator()(const Tensor& x) const {
    const std::vector<Tensor> half = chunk(x, 2, -1);
    const Tensor c = cosines.to(x.dtype()), s = sines.to(x.dtype());
    return cat({half[0] * c - half[1] * s, half[1] * c + half[0] * s}, -1);
  }
  Tensor cosines, sines;
};

// Members are called as Hugging Face calls them, so that the file's names are ours.
struct Attention {
  explicit Attention(const LlamaConfig& c)
      : q_proj(c.width, c.heads * c.head_width, {.bias = false}),
        k_proj(c.width, c.kv_heads * c.head_width, {.bias = false}),
        v_proj(c.width, c.kv_heads * c.head_width, {.bias = false}),
        o_proj(c.heads * c.head_width, c.width, {.bias = false}), head_width(c.head_width) {}
  nn::Linear q_proj, k_proj, v_proj, o_proj;
  std::int64_t head_width;
  MANTISSA_FIELDS(q_proj, k_proj, v_proj, o_proj)

  Tensor operator()(const Tensor& x, const Turns& turned, const nn::LayerCache& past) const {
    const auto heads = [&](const Tensor& y) {  // [N, heads, T, D]
      return y.reshape({y.size(0), y.size(1), -1, head_width}).transpose(1, 2);
    };
    const Tensor q = turned(heads(q_proj(x))), k = turned(heads(k_proj(x))), v = heads(v_proj(x));
    return o_proj(flatten(nn::causal_attention(q, k, v, past).transpose(1, 2), 2));
  }
};
struct Mlp {
  explicit Mlp(const LlamaConfig& c)
      : gate_proj(c.width, c.hidden, {.bias = false}), up_proj(c.width, c.hidden, {.bias = false}),
        down_proj(c.hidden, c.width, {.bias = false}) {}
  nn::Linear gate_proj, up_proj, down_proj;
  MANTISSA_FIELDS(gate_proj, up_proj, down_proj)
  Tensor operator()(const Tensor& x) const { return down_proj(silu(gate_proj(x)) * up_proj(x)); }
};
struct Layer {
  explicit Layer(const LlamaConfig& c)
      : input_layernorm(c.width, {.eps = c.eps}), self_attn(c), post_attention_layernorm(c.width, {.eps = c.eps}),
        mlp(c) {}
  nn::RMSNorm input_layernorm;
  Attention self_attn;
  nn::RMSNorm post_attention_layernorm;
  Mlp mlp;
  MANTISSA_FIELDS(input_layernorm, self_attn, post_attention_layernorm, mlp)

  Tensor operator()(Tensor x, const Turns& turned, const nn::LayerCache& past) const {
    x = x + self_attn(input_layernorm(x), turned, past);
    return x + mlp(post_attention_layernorm(x));
  }
};
struct Llama {
  explicit Llama(const LlamaConfig& c)
      : config(c), embed_tokens(c.vocabulary, c.width), norm(c.width, {.eps = c.eps}) {
    for (std::int64_t i = 0; i < c.layers; ++i) layers.emplace_back(c);
    if (!c.tied) lm_head = nn::Param(empty({c.vocabulary, c.width}));
    for (const auto& [name, p] : nn::named_parameters(*this))
      if (p.dim() == 2) nn::init::normal_(p, 0, 0.02);
  }
  LlamaConfig config;
  nn::Embedding embed_tokens;
  std::vector<Layer> layers;
  nn::RMSNorm norm;
  nn::Param lm_head;  // undefined where the embedding stands for it
  MANTISSA_FIELDS(embed_tokens, layers, norm, lm_head)

  // i64 [N, T] -> [N, T, width]. With a cache: of tokens that go on with those that it has seen.
  Tensor operator()(const Tensor& tokens, const nn::KvCache& cache = nn::no_cache) const {
    const std::int64_t begin = cache.length(), end = begin + tokens.size(1);
    check(end <= config.context, "Llama: ", end, " tokens are more than its context of ", config.context);
    Tensor x = embed_tokens(tokens);
    const Turns turned(config, begin, end, x.device());
    for (std::size_t i = 0; i < layers.size(); ++i) x = layers[i](x, turned, cache[i]);
    return norm(x);
  }
  const Tensor& output() const { return lm_head.defined() ? lm_head : embed_tokens.weight; }
  Tensor logits(const Tensor& x) const { return linear(x, output()); }  // [..., width] -> [..., vocabulary]
  Tensor loss(const Tensor& input, const Tensor& target, Reduction reduction) const {
    return linear_cross_entropy((*this)(input), output(), target, {}, {.reduction = reduction});
  }
};

int run(int argc, char** argv) {
  std::string folder = samples::asked_model(argc, argv, ""), exported;
  samples::Options o{
      .model = "llama", .schedule = "cosine", .epochs = 1, .batch = 8, .lr = folder.empty() ? 2e-3 : 5e-5};
  LlamaConfig config{.vocabulary = 1024, .context = 128, .width = 128, .layers = 4, .heads = 4, .kv_heads = 2};
  std::int64_t length = 128;
  samples::Writing writing{.tokens = 100};
  samples::configure(
      argc, argv,
      {.description = "Writes with a Llama, and trains one on a text.",
       .flags =
           std::vector<samples::Flag>{
               {"--model", &folder, "Folder of a Llama from Hugging Face; without --data it only writes"},
               {"--export", &exported, "Folder to write the model to, for --model and Hugging Face's libraries"},
               {"--length", &length, "Tokens of a text in training", {}, 1},
               {"--vocabulary", &config.vocabulary, "Without --model: tokens to learn from the text", {}, 257},
               {"--context", &config.context, "Without --model: tokens it sees at once", {}, 2},
               {"--layers", &config.layers, "Without --model: layers"},
               {"--heads", &config.heads, "Without --model: attention heads"},
               {"--kv-heads", &config.kv_heads, "Without --model: heads of keys and values"},
               {"--width", &config.width, "Without --model: numbers per token"}} +
           writing.flags("Tokens to write at the end; 0: none", "What the writing begins with; none: a new text")},
      o);
  check(config.width % (2 * config.heads) == 0, "twice --heads ", config.heads, " does not divide the width ",
        config.width);
  check(config.heads % config.kv_heads == 0, "--kv-heads ", config.kv_heads, " does not divide --heads ", config.heads);
  config.head_width = config.width / config.heads;
  config.hidden = (config.width * 8 / 3 + 31) / 32 * 32;

  const bool training = folder.empty() || !o.data.empty();
  const data::RawText text = training ? data::load_raw_text("tinyshakespeare", o.data) : data::RawText();
  std::optional<samples::LlamaFolder> given;
  if (!folder.empty()) given = samples::read_llama(folder);
  const data::Bpe bpe = given ? given->bpe : data::train_bpe(text.bytes, config.vocabulary);
  if (given) config = given->config;
  else config.vocabulary = bpe.size(), config.begin = config.end = bpe.find("<|endoftext|>");
  check(bpe.size() <= config.vocabulary, folder, ": the tokenizer has ", bpe.size(), " tokens, the model ",
        config.vocabulary);
  Llama net(config);
  if (given) {
    nn::load_state_dict(net, given->weights);
    given->weights.clear();
  }

  length = std::min(length, config.context);
  const data::Tokens tokens = training ? bpe.encode(text, data::Specials::as_text) : data::Tokens();
  const std::int64_t per_epoch = training ? tokens.size() * 9 / 10 / (o.batch * length) : 1;
  samples::Run run(o, {.steps_per_epoch = per_epoch, .items_per_step = o.batch * length, .items = "tokens"});
  run.keep("model", net);
  const Tensor example = samples::some_tokens(config.vocabulary, length);
  run.onnx(net, example, {.input_names = {"tokens"}, .output_names = {"logits"}},
           [&](const Tensor& x) { return net.logits(net(x)); });
  if (!training) {
    run.save_onnx();
    nn::to(net, run.dtype);  // half the bytes to read for each token
  }
  const int code = training ? samples::train(net, tokens, length, o, run) : 0;
  if (code == 0 && !exported.empty()) samples::write_llama(exported, {config, nn::state_dict(net), bpe});
  if (code == 0 && writing.tokens > 0)
    run.note(samples::write(net, bpe, writing, run, config.context, config.begin, config.end));
  return code;
}

int main(int argc, char** argv) { return samples::run_guarded(run, argc, argv); }
