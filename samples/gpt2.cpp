// GPT-2 (Radford et al., 2019): generates text with the weights from Hugging Face, and trains on a text.
//   gpt2 --model gpt2 --prompt "Once upon a time"         a folder with config.json, model.safetensors, tokenizer.json
//   gpt2 --model gpt2 --data book.txt --export my-gpt2    fine-tunes it; transformers read what it exports
//   gpt2 --minutes 10                                     trains a small one with its own vocabulary on tinyshakespeare
//   gpt2 --help
// The smallest GPT-2 (124 million parameters) consists of these three files from
// https://huggingface.co/openai-community/gpt2/resolve/main/. gpt2-medium, -large and -xl also work.
#include <cmath>

#include "common/gpt2_folder.h"
#include "common/hf_folder.h"
#include "common/writing.h"

using namespace mantissa;
using samples::Gpt2Config;

// Members have Hugging Face's names, so parameter names match the file's.
struct Attention {
  explicit Attention(const Gpt2Config& c) : c_attn(c.width, 3 * c.width), c_proj(c.width, c.width), heads(c.heads) {}
  nn::Linear c_attn, c_proj;  // query, key and value combined; output
  std::int64_t heads;
  MANTISSA_FIELDS(c_attn, c_proj)

  Tensor operator()(const Tensor& x, const nn::LayerCache& past) const {
    std::vector<Tensor> qkv = chunk(c_attn(x), 3, -1);
    for (Tensor& y : qkv) y = y.reshape({y.size(0), y.size(1), heads, -1}).transpose(1, 2);  // [N, heads, T, D]
    return c_proj(flatten(nn::causal_attention(qkv[0], qkv[1], qkv[2], past).transpose(1, 2), 2));
  }
};
struct Mlp {
  explicit Mlp(const Gpt2Config& c) : c_fc(c.width, c.hidden, c.activation), c_proj(c.hidden, c.width) {}
  nn::LinearAct c_fc;
  nn::Linear c_proj;
  MANTISSA_FIELDS(c_fc, c_proj)
  Tensor operator()(const Tensor& x) const { return c_proj(c_fc(x)); }
};
struct Block {
  explicit Block(const Gpt2Config& c)
      : ln_1(c.width, {.eps = c.eps, .autocast_output = true}), attn(c), ln_2(c.width, {.eps = c.eps}), mlp(c) {}
  nn::LayerNorm ln_1;
  Attention attn;
  nn::LayerNorm ln_2;
  Mlp mlp;
  MANTISSA_FIELDS(ln_1, attn, ln_2, mlp)

  Tensor operator()(const Tensor& x, const nn::LayerCache& past) const {
    const auto [sum, y] = ln_2(x, attn(ln_1(x), past));  // sum = x + attention, y = ln_2(sum), in one pass
    return sum + mlp(y);
  }
};
struct Gpt2 {
  explicit Gpt2(const Gpt2Config& c)
      : config(c), wte(c.vocabulary, c.width), wpe(c.context, c.width),
        ln_f(c.width, {.eps = c.eps, .autocast_output = true}) {
    for (std::int64_t i = 0; i < c.layers; ++i) h.emplace_back(c);
  }
  Gpt2Config config;
  nn::Embedding wte, wpe;  // token embedding (tied to the output matrix) and position embedding
  std::vector<Block> h;
  nn::LayerNorm ln_f;
  MANTISSA_FIELDS(wte, wpe, h, ln_f)

  // i64 [N, T] -> [N, T, width]. With a cache: tokens that continue those in the cache.
  Tensor operator()(const Tensor& tokens, const nn::KvCache& cache = nn::no_cache) const {
    const std::int64_t begin = cache.length(), end = begin + tokens.size(1);
    check(end <= config.context, "GPT-2: ", end, " tokens are more than its context of ", config.context);
    Tensor x = wte(tokens) + wpe.weight.slice(0, begin, end);
    for (std::size_t i = 0; i < h.size(); ++i) x = h[i](x, cache[i]);
    return ln_f(x);
  }
  Tensor logits(const Tensor& x) const { return linear(x, wte.weight); }  // [..., width] -> [..., vocabulary]
  Tensor loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean) const {
    return linear_cross_entropy((*this)(input), wte.weight, target, {}, {.reduction = reduction});
  }
};

// Initialisation of Radford et al.
void initialise(const Gpt2& net) {
  const double std = 0.02, narrow = std / std::sqrt(2.0 * static_cast<double>(net.config.layers));
  for (const auto& [name, p] : nn::named_parameters(net)) {
    if (p.dim() == 2) nn::init::normal_(p, 0, name.ends_with("c_proj.weight") ? narrow : std);
    else if (name.find("ln_") == std::string::npos) nn::init::zeros_(p);  // biases
  }
}

int run(int argc, char** argv) {
  std::string folder = samples::asked_model(argc, argv, ""), exported, token_file;
  samples::Options o{
      .model = "gpt2", .schedule = "cosine", .epochs = 1, .batch = 8, .lr = folder.empty() ? 2e-3 : 5e-5};
  Gpt2Config config{.vocabulary = 1024, .context = 128, .width = 128, .layers = 4, .heads = 4};
  std::int64_t length = 128;
  samples::Writing writing{.tokens = 100};
  samples::configure(
      argc, argv,
      {.description = "Writes with a GPT-2, and trains one on a text.",
       .flags =
           std::vector<samples::Flag>{
               {"--model", &folder, "Folder of a GPT-2 from Hugging Face; alone, it only writes"},
               {"--export", &exported, "Folder to write the model to, for --model and Hugging Face's libraries"},
               {"--tokens", &token_file, "Instead of --data: a file of tokens, such as nanoGPT's train.bin"},
               {"--length", &length, "Tokens of a text in training", {}, 1},
               {"--vocabulary", &config.vocabulary, "Without --model: tokens to learn, or of --tokens", {}, 257},
               {"--context", &config.context, "Without --model: tokens it sees at once", {}, 2},
               {"--layers", &config.layers, "Without --model: blocks"},
               {"--heads", &config.heads, "Without --model: attention heads"},
               {"--width", &config.width, "Without --model: embedding width"}} +
           writing.flags("Tokens to write at the end; 0: none", "What the writing begins with; none: a new text")},
      o);
  check(config.width % config.heads == 0, "--heads ", config.heads, " does not divide the width ", config.width);
  config.hidden = 4 * config.width;

  const bool from_file = !token_file.empty(), training = folder.empty() || !o.data.empty() || from_file;
  const data::RawText text =
      training && !from_file ? data::load_raw_text("tinyshakespeare", o.data) : data::RawText();
  std::optional<samples::Gpt2Folder> given = folder.empty() ? std::nullopt : std::optional(samples::read_gpt2(folder));
  std::optional<data::Bpe> bpe;  // absent for a token file without a model
  if (given) bpe = given->bpe;
  else if (!from_file) bpe = data::train_bpe(text.bytes, config.vocabulary);
  check(bpe || exported.empty(), "--export with --tokens needs --model: the tokenizer that made them");
  if (!exported.empty()) samples::make_folder(exported);
  if (given) config = given->config;
  else if (bpe) config.vocabulary = bpe->size();
  check(!bpe || bpe->size() <= config.vocabulary, folder, ": the tokenizer has ", bpe ? bpe->size() : 0,
        " tokens, the model ", config.vocabulary);
  Gpt2 net(config);
  if (given) {
    nn::load_state_dict(net, given->weights);
    given->weights.clear();
  } else {
    initialise(net);
  }

  length = std::min(length, config.context);
  samples::Corpus corpus;
  if (from_file) corpus = data::TokenFile(token_file);
  else if (training) corpus = bpe->encode(text, data::Specials::as_text);
  const std::int64_t per_epoch = training ? samples::steps_per_epoch(corpus, o.batch * length) : 1;
  samples::Run run(o, {.steps_per_epoch = per_epoch, .items_per_step = o.batch * length, .items = "tokens"});
  run.keep("model", net);
  run.onnx(net, {samples::some_tokens(config.vocabulary, length)},
           {.input_names = {"tokens"}, .output_names = {"logits"}, .dynamic = {{"length", 1}}},
           [&](const Tensor& x) { return net.logits(net(x)); });
  if (!training) run.save_onnx();
  const int code = training ? samples::train(net, corpus, length, o, run) : 0;
  if (code == 0 && !exported.empty()) samples::write_gpt2(exported, {config, nn::state_dict(net), *bpe});
  const auto end = bpe ? bpe->find("<|endoftext|>") : std::nullopt;
  if (code == 0 && writing.tokens > 0 && bpe)  // a new text begins after the end token of the previous one
    samples::write(net, *bpe, writing, o, run, config.context, end,
                   end ? std::vector{*end} : std::vector<std::int64_t>());
  return code;
}

int main(int argc, char** argv) { return samples::run_guarded(run, argc, argv); }
