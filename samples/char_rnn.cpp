// A character-level recurrent network (Karpathy, "The unreasonable effectiveness of recurrent neural networks", 2015):
// trains an LSTM on a text and then generates text, character by character.
//   char_rnn --minutes 10                   tinyshakespeare, if this machine has it
//   char_rnn --data book.txt                any text file
//   char_rnn --help
#include "common/language.h"

using namespace mantissa;

struct CharRnn {
  CharRnn(std::int64_t vocabulary, std::int64_t width, int layers, double dropout)
      : token(vocabulary, width),
        lstm(width, width, {.num_layers = layers, .batch_first = true, .dropout = dropout}), drop{.p = dropout},
        head(width, vocabulary) {}
  nn::Embedding token;
  nn::LSTM lstm;
  nn::Dropout drop;
  nn::Linear head;
  MANTISSA_FIELDS(token, lstm, drop, head)

  // i64 [N, T] -> [N, T, vocabulary]; `state` is the initial state if given, and is set to the final one.
  Tensor operator()(const Tensor& tokens, nn::LSTMState& state) const {
    const nn::LSTMResult r = lstm(token(tokens), state);
    state = {r.h, r.c};
    return head(drop(r.output));
  }
  Tensor operator()(const Tensor& tokens) const {
    nn::LSTMState state;
    return (*this)(tokens, state);
  }
};

std::string write(CharRnn& net, const data::Text& text, const samples::Writing& w, const samples::Run& run) {
  const NoGrad no_grad;
  nn::eval(net);
  nn::LSTMState state;
  Tensor seen = text.encode(w.prompt).to(run.device);
  std::string written = w.prompt;
  for (std::int64_t i = 0; i < w.tokens && !samples::interrupted(); ++i) {
    const Tensor logits = amp::autocast(run.dtype, [&] { return net(seen.unsqueeze(0), state); });
    seen = nn::sample(logits[0].slice(0, -1), w.sample);
    written += text.decode(seen.to(cpu));
  }
  return written;
}

int run(int argc, char** argv) {
  samples::Options o{.model = "char_rnn", .schedule = "cosine", .epochs = 10, .batch = 32, .lr = 4e-3};
  std::int64_t width = 256, layers = 2, length = 64;
  double dropout = 0;
  samples::Writing writing{.tokens = 500};
  samples::configure(
      argc, argv,
      {.description = "Trains an LSTM on the characters of a text and lets it write.",
       .flags =
           std::vector<samples::Flag>{{"--layers", &layers, "Recurrent layers"},
                                      {"--width", &width, "Width of the embedding and of each layer's state"},
                                      {"--length", &length, "Characters through which gradients flow"},
                                      {"--dropout", &dropout, "Between layers"}} +
           writing.flags("Characters to write at the end; 0: none", "What the writing begins with; none: a new line")},
      o);
  const data::Text text = data::load_text("tinyshakespeare", o.data);
  writing.prompt = samples::first_words(writing.prompt, text);
  const auto [train, validation] = data::split(text);
  CharRnn net(static_cast<std::int64_t>(text.alphabet.size()), width, static_cast<int>(layers), dropout);

  samples::Run run(o, {.steps_per_epoch = train.size() / (o.batch * length),
                       .items_per_step = o.batch * length,
                       .items = "characters"});
  run.keep("model", net);
  optim::Optimizer& optimizer = run.optimizer("optim", nn::named_parameters(net));
  run.evaluate([&] {
    nn::eval(net);
    const double loss = samples::text_loss(validation, length, run, [&](const Tensor& x) { return net(x); });
    nn::train(net);
    return samples::Values{{"validation_loss", loss}};
  });
  run.onnx(net, {samples::some_tokens(static_cast<std::int64_t>(text.alphabet.size()), length)},
           {.input_names = {"characters"}, .output_names = {"logits"}, .dynamic = {{"length", 1}}},
           [&](const Tensor& x) { return net(x); });
  run.start(text.source, nn::count(net));
  while (run.next()) {
    const auto [input, target] = train.batch(o.batch, length, run.seed(), static_cast<std::uint64_t>(run.step()));
    optimizer.zero_grad();
    const Tensor loss = amp::autocast(run.dtype, [&] {
      return cross_entropy(flatten(net(input.to(run.device)), 0, 1), flatten(target).to(run.device));
    });
    backward(run.scaler.scale(loss));
    run.scaler.step(optimizer, amp::ClipNorm{1});
    run.scaler.update();
    run.done({{"loss", loss}});
  }
  const int code = run.finish();
  if (code == 0 && writing.tokens > 0) run.note(write(net, text, writing, run));
  return code;
}

int main(int argc, char** argv) { return samples::run_guarded(run, argc, argv); }
