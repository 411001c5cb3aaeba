// A character-level GPT (Radford et al., 2019; rotary positions): trains on a text and then generates text.
//   gpt --minutes 10                        tinyshakespeare, if this machine has it
//   gpt --data book.txt --save book.ckpt    any text file
//   gpt --help
#include <mantissa/optim/muon.h>

#include <cmath>

#include "common/language.h"

using namespace mantissa;

struct Config {
  std::int64_t vocabulary, context = 128, layers = 4, heads = 4, width = 128;
};

struct Block {  // pre-norm transformer block: attention and an MLP, each with a residual connection
  explicit Block(const Config& c)
      : norm1(c.width, {.bias = false, .autocast_output = true}), query(c.width, c.width, {.bias = false}),
        key(c.width, c.width, {.bias = false}), value(c.width, c.width, {.bias = false}),
        out(c.width, c.width, {.bias = false}), norm2(c.width, {.bias = false}),
        up(c.width, 4 * c.width, Activation::gelu_tanh, {.bias = false}), down(4 * c.width, c.width, {.bias = false}),
        heads(c.heads) {}
  nn::LayerNorm norm1;
  nn::Linear query, key, value, out;
  nn::LayerNorm norm2;
  nn::LinearAct up;
  nn::Linear down;
  std::int64_t heads;
  MANTISSA_FIELDS(norm1, query, key, value, out, norm2, up, down)

  Tensor attend(const Tensor& x, const nn::LayerCache& past) const {
    // [N, heads, T, D]
    const auto by_head = [&](const Tensor& y) { return y.reshape({y.size(0), y.size(1), heads, -1}).transpose(1, 2); };
    const Tensor q = rotary_embedding(by_head(query(x)), past.length());
    const Tensor k = rotary_embedding(by_head(key(x)), past.length()), v = by_head(value(x));
    return out(flatten(nn::causal_attention(q, k, v, past).transpose(1, 2), 2));
  }
  Tensor operator()(const Tensor& x, const nn::LayerCache& past) const {
    const auto [sum, y] = norm2(x, attend(norm1(x), past));  // sum = x + attention, y = norm2(sum), in one pass
    return sum + down(up(y));
  }
};

struct Gpt {
  explicit Gpt(const Config& c)
      : config(c), token(c.vocabulary, c.width), norm(c.width, {.bias = false, .autocast_output = true}),
        head(c.width, c.vocabulary, {.bias = false}) {
    // two residual additions per layer
    const double std = 0.05, narrow = std / std::sqrt(2.0 * static_cast<double>(c.layers));
    for (std::int64_t i = 0; i < c.layers; ++i) blocks.emplace_back(c);
    for (const auto& [name, p] : nn::named_parameters(*this)) {
      if (p.dim() == 2)
        nn::init::normal_(p, 0, name.ends_with("out.weight") || name.ends_with("down.weight") ? narrow : std);
    }
  }
  Config config;
  nn::Embedding token;
  std::vector<Block> blocks;
  nn::LayerNorm norm;
  nn::Linear head;
  MANTISSA_FIELDS(token, blocks, norm, head)

  // i64 [N, T] -> [N, T, vocabulary]. With a cache: tokens that continue those in the cache.
  Tensor operator()(const Tensor& tokens, const nn::KvCache& cache = nn::no_cache) const {
    Tensor x = token(tokens);
    for (std::size_t i = 0; i < blocks.size(); ++i) x = blocks[i](x, cache[i]);
    return head(norm(x));
  }
};

std::string write(const Gpt& net, const data::Text& text, const samples::Writing& w, const samples::Run& run) {
  const auto model = [&](const Tensor& tokens, const nn::KvCache& cache) {
    return amp::autocast(run.dtype, [&] { return net(tokens, cache); });
  };
  const auto go_on = [](const Tensor&) { return !samples::interrupted(); };
  const Tensor prompt = text.encode(w.prompt).to(run.device).unsqueeze(0);
  return text.decode(nn::generate(
      model, prompt,
      {.max_new_tokens = w.tokens, .context = net.config.context, .sample = w.sample, .on_token = go_on}));
}

int run(int argc, char** argv) {
  samples::Options o{.model = "gpt", .schedule = "cosine", .epochs = 4, .batch = 8, .lr = 4e-3};
  Config config{.vocabulary = 0};
  samples::Writing writing{.tokens = 500};
  double muon = 0;
  samples::configure(
      argc, argv,
      {.description = "Trains a GPT on the characters of a text and lets it write.",
       .flags =
           std::vector<samples::Flag>{
               {"--layers", &config.layers, "Blocks"},
               {"--heads", &config.heads, "Attention heads; twice their number divides the width"},
               {"--width", &config.width, "Embedding width"},
               {"--context", &config.context, "Characters it sees at once", {}, 2},
               {"--muon", &muon,
                "Learning rate of Muon for the blocks' matrices, such as 0.02; 0: --optimizer for them too"}} +
           writing.flags("Characters to write at the end; 0: none", "What the writing begins with; none: a new line")},
      o);
  check(config.width % (2 * config.heads) == 0, "--heads ", config.heads, " does not cut the width ", config.width,
        " into even parts");
  const data::Text text = data::load_text("tinyshakespeare", o.data);
  writing.prompt = samples::first_words(writing.prompt, text);
  const auto [train, validation] = data::split(text);
  config.vocabulary = static_cast<std::int64_t>(text.alphabet.size());
  Gpt net(config);
  NamedTensors matrices, others;  // Muon is for the hidden weight matrices
  for (const auto& p : nn::named_parameters(net))
    (muon > 0 && p.first.starts_with("blocks") && p.second.dim() == 2 ? matrices : others).push_back(p);

  samples::Run run(o, {.steps_per_epoch = train.size() / (o.batch * config.context),
                       .items_per_step = o.batch * config.context,
                       .items = "characters"});
  run.keep("model", net);
  std::vector<optim::Optimizer*> optimizers{&run.optimizer("optim", others)};
  if (optimizers[0]->has("beta2")) optimizers[0]->set("beta2", 0.99);
  if (!matrices.empty())
    optimizers.push_back(
        &run.optimizer("muon", std::make_unique<optim::Muon>(
                                   matrices, optim::MuonOptions{.lr = muon, .weight_decay = 0.01, .ns_dtype = f32})));
  const auto model = [&](const Tensor& x) { return net(x); };
  run.evaluate([&] {
    return samples::Values{{"validation_loss", samples::text_loss(validation, config.context, run, model)}};
  });
  run.onnx(net, {samples::some_tokens(config.vocabulary, config.context)},
           {.input_names = {"characters"}, .output_names = {"logits"}, .dynamic = {{"length", 1}}}, model);
  run.start(text.source, nn::count(net));
  while (run.next()) {
    const auto [input, target] =
        train.batch(o.batch, config.context, run.seed(), static_cast<std::uint64_t>(run.step()));
    nn::zero_grad(net);
    const Tensor loss = amp::autocast(run.dtype, [&] {
      return cross_entropy(flatten(net(input.to(run.device)), 0, 1), flatten(target).to(run.device));
    });
    backward(run.scaler.scale(loss));
    for (optim::Optimizer* optimizer : optimizers) run.scaler.step(*optimizer, amp::ClipNorm{1});
    run.scaler.update();
    run.done({{"loss", loss}});
  }
  const int code = run.finish();
  if (code == 0 && writing.tokens > 0) run.note(write(net, text, writing, run));
  return code;
}

int main(int argc, char** argv) { return samples::run_guarded(run, argc, argv); }
