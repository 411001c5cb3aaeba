// A GPT of characters (Radford et al., 2019): trains on a text and then writes one of its own.
//   gpt --minutes 10                        tinyshakespeare, where this machine has it
//   gpt --data book.txt --save book.ckpt    any text file
//   gpt --help
#include <fmt/format.h>

#include "common/language.h"

using namespace mantissa;

struct Config {
  std::int64_t vocabulary, context = 128, layers = 4, heads = 4, width = 128;
};

struct Block {  // attention, then a perceptron, each added to what it reads
  Block(const Config& s)
      : norm1(s.width, {.bias = false}), qkv(s.width, 3 * s.width, {.bias = false}), out(s.width, s.width, {.bias = false}),
        norm2(s.width, {.bias = false}), up(s.width, 4 * s.width, {.bias = false}), down(4 * s.width, s.width, {.bias = false}), heads(s.heads) {}
  nn::LayerNorm norm1;
  nn::Linear qkv, out;
  nn::LayerNorm norm2;
  nn::Linear up, down;
  std::int64_t heads;
  MANTISSA_FIELDS(norm1, qkv, out, norm2, up, down)

  Tensor attend(const Tensor& x) const {
    const std::int64_t n = x.size(0), length = x.size(1), width = x.size(2);
    const Tensor all = qkv(x).reshape({n, length, 3, heads, width / heads}).permute({2, 0, 3, 1, 4});  // [3, N, heads, T, D]
    const Tensor y = scaled_dot_product_attention(all[0], all[1], all[2], {}, {.is_causal = true});
    return out(y.transpose(1, 2).reshape({n, length, width}));
  }
  Tensor operator()(Tensor x) const {
    x = x + attend(norm1(x));
    return x + down(gelu(up(norm2(x)), "tanh"));
  }
};

struct Gpt {
  Gpt(const Config& s) : config(s), token(s.vocabulary, s.width), position(s.context, s.width), norm(s.width, {.bias = false}), head(s.width, s.vocabulary, {.bias = false}) {
    for (std::int64_t i = 0; i < s.layers; ++i) blocks.emplace_back(s);
    for (const Tensor& p : nn::parameters(*this)) if (p.dim() == 2) nn::init::normal_(p, 0, 0.02);
    const double narrow = 0.02 / std::sqrt(2.0 * static_cast<double>(s.layers));  // 2 layers additions to the residual
    for (const Block& b : blocks) for (const Tensor& p : {Tensor(b.out.weight), Tensor(b.down.weight)}) nn::init::normal_(p, 0, narrow);
  }
  Config config;
  nn::Embedding token, position;
  std::vector<Block> blocks;
  nn::LayerNorm norm;
  nn::Linear head;
  MANTISSA_FIELDS(token, position, blocks, norm, head)

  Tensor operator()(const Tensor& tokens) const {  // i64 [N, T] -> [N, T, vocabulary]
    Tensor x = token(tokens) + position(arange(tokens.size(1)));
    for (const Block& block : blocks) x = block(x);
    return head(norm(x));
  }
};

std::string write(const Gpt& net, const data::Text& text, const std::string& prompt, std::int64_t count, double temperature, Dtype dtype) {
  const NoGrad no_grad;
  Tensor tokens = text.encode(prompt);
  for (std::int64_t i = 0; i < count && !samples::interrupted(); ++i) {
    const Tensor seen = slice(tokens, 0, std::max<std::int64_t>(0, tokens.size(0) - net.config.context));
    const Tensor logits = amp::autocast(dtype, [&] { return net(seen.unsqueeze(0)); });
    tokens = cat({tokens, samples::draw(logits[0][-1].to(f32), temperature)});
  }
  return text.decode(tokens);
}

int run(int argc, char** argv) {
  samples::Options o{.model = "gpt", .schedule = "cosine", .epochs = 4, .batch = 32, .lr = 2e-3};
  Config config{.vocabulary = 0};
  std::int64_t characters = 500;
  double temperature = 0.8;
  std::string prompt = "\n";
  samples::configure(argc, argv, {.description = "Trains a GPT on the characters of a text and lets it write.",
                                  .flags = {{"--layers", &config.layers, "Blocks"}, {"--heads", &config.heads, "Attention heads, a divisor of the width"},
                                            {"--width", &config.width, "Numbers per character"}, {"--context", &config.context, "Characters it sees at once"},
                                            {"--write", &characters, "Characters to write at the end"}, {"--temperature", &temperature, "Of the writing; 0: always the likeliest"},
                                            {"--prompt", &prompt, "What the writing begins with"}}}, o);
  const data::Text text = data::load_text("tinyshakespeare", o.data);
  const auto [train, validation] = data::split(text);
  config.vocabulary = static_cast<std::int64_t>(text.alphabet.size());
  Gpt net(config);

  samples::Run run(o, {.steps_per_epoch = train.size() / (o.batch * config.context), .items_per_step = o.batch * config.context, .items = "characters"});
  run.keep("model", net);
  optim::Optimizer& optimizer = run.optimizer("optim", nn::named_parameters(net));
  if (optimizer.has("beta2")) optimizer.set("beta2", 0.99);
  run.evaluate([&] { return samples::Values{{"validation_loss", samples::text_loss(validation, config.context, run.dtype, [&](const Tensor& x) { return net(x); })}}; });
  run.start(text.source, nn::count(net));
  while (run.next()) {
    const auto [input, target] = train.batch(o.batch, config.context, run.seed(), static_cast<std::uint64_t>(run.step()));
    optimizer.zero_grad();
    const Tensor loss = amp::autocast(run.dtype, [&] { return cross_entropy(flatten(net(input), 0, 1), flatten(target)); });
    backward(run.scaler.scale(loss));
    run.scaler.unscale_(optimizer);
    optim::clip_grad_norm_(nn::parameters(net), 1);
    run.scaler.step(optimizer);
    run.scaler.update();
    run.done({{"loss", loss}});
  }
  const int code = run.finish();
  if (code == 0 && characters > 0) run.note(write(net, text, prompt, characters, temperature, run.dtype));
  return code;
}

int main(int argc, char** argv) { return samples::run_guarded(run, argc, argv); }
