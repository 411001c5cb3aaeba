// samples/common/llama_model.h compared with transformers, which made the model folders and recorded its results
// (tests/golden/llama.py): Llama 3 with scaled rotary frequencies, one with biases everywhere, Mistral with a window
// shorter than the text, Qwen 2, Qwen 3. Logits, the losses of five SGD steps, and cached generation compared with the
// whole sequence at once.
#include "samples/common/llama_model.h"

#include "autograd/grad_mode.h"
#include "catch_compat.h"
#include "temp_dir.h"
#include "testing.h"

using namespace mantissa;
using namespace mantissa::test;
using samples::Llama;

namespace {

struct Golden {
  explicit Golden(const std::string& name)
      : path(concat(MANTISSA_SOURCE_DIR, "/tests/golden/files/llama/", name)),
        expected(io::load_safetensors(path + "/expected.safetensors").tensors) {}
  Llama net() const { return net_of(path); }
  static Llama net_of(const std::string& path) {
    const samples::LlamaFolder folder = samples::read_llama(path);
    Llama net(folder.config);
    nn::load_state_dict(net, folder.weights);
    return net;
  }
  Tensor operator[](const std::string& name) const {
    for (const auto& [key, tensor] : expected)
      if (key == name) return tensor;
    fail("no ", name, " in ", path);
  }
  std::string path;
  NamedTensors expected;
};
double furthest(const Tensor& a, const Tensor& b) { return amax(abs(a - b)).item<double>(); }
const char* const names[] = {"llama", "biased", "mistral", "llama2", "qwen2", "qwen3"};

}  // namespace

TEST_CASE("Logits are those of transformers, also of what was written out and read again") {
  const NoGrad no_grad;
  for (const char* name : names) {
    INFO(name);
    const Golden golden(name);
    const Tensor tokens = golden["tokens"].slice(0, 0, 1).slice(1, 0, -1);
    const Llama net = golden.net();
    const Tensor logits = net.logits(net(tokens));
    CHECK(furthest(logits, golden["logits"]) < 2e-4 * amax(abs(golden["logits"])).item<double>());
    const TempDir dir;
    const samples::LlamaFolder folder = samples::read_llama(golden.path);
    samples::write_llama(dir.path(), folder);
    const Llama again = Golden::net_of(dir.path());
    CHECK(same_bits(again.logits(again(tokens)), logits));
    CHECK(again.config.model_type == folder.config.model_type);
    CHECK(again.config.sliding_window == folder.config.sliding_window);
    CHECK(again.config.eos_token_id == folder.config.eos_token_id);
  }
}

TEST_CASE("Fine-tuning has the losses of transformers") {
  for (const char* name : names) {
    INFO(name);
    const Golden golden(name);
    Llama net = golden.net();
    nn::to(net, f64);  // each step makes a difference of rounding several times as large
    optim::SGD sgd(nn::parameters(net), {.lr = 0.005});
    const Tensor tokens = golden["tokens"];
    for (const double expected : golden["losses"].to_vector<double>()) {
      const Tensor loss = net.loss(tokens.slice(1, 0, -1), tokens.slice(1, 1), Reduction::mean);
      CHECK(std::abs(loss.item<double>() - expected) < 1e-4);
      sgd.zero_grad();
      backward(loss);
      sgd.step();
    }
  }
}

TEST_CASE("With a cache logits are those of the whole text, in pieces longer and shorter than the window") {
  const NoGrad no_grad;
  for (const char* name : names) {
    INFO(name);
    const Golden golden(name);
    const Llama net = golden.net();
    const Tensor tokens = golden["tokens"], whole = net.logits(net(tokens));
    for (const std::vector<std::int64_t>& pieces :
         {std::vector<std::int64_t>(25, 1), {25}, {12, 1, 1, 5, 6}, {3, 20, 2}, {8, 8, 8, 1}}) {
      const nn::KvCache cache;
      std::vector<Tensor> parts;
      for (const std::int64_t n : pieces) {
        const std::int64_t at = cache.length();
        parts.push_back(net.logits(net(tokens.slice(1, at, at + n), cache)));
      }
      CHECK(furthest(cat(parts, 1), whole) < 1e-4 * amax(abs(whole)).item<double>());
    }
  }
}
