// Packed weights kept for inference (core/packed_weights.h): never stale, freed with the weight, bounded, bitwise equal
// to results without them, and thread-safe.
#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>

#include "amp/autocast.h"
#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "core/cpu/isa.h"
#include "core/ops.h"
#include "core/packed_weights.h"
#include "core/parallel.h"
#include "core/random.h"
#include "nn/conv.h"
#include "nn/functions.h"
#include "nn/linear.h"
#include "optim/sgd.h"
#include "tests/testing.h"

using namespace mantissa;

namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30;

// A layer of each kind that packs its weight: a convolution computed by oneDNN, a product in f16 or bf16.
struct Layer {
  const char* name;
  Tensor x, weight;
  Tensor operator()() const {
    return weight.dim() == 4 ? conv2d(x, weight, {}, {.stride = {2, 2}, .padding = {1, 1}}) : linear(x, weight);
  }
};
std::vector<Layer> layers() {
  manual_seed(5);
  std::vector<Layer> all;
  for (Dtype t : {f32, bf16, f16}) {
    all.push_back({"convolution", cast(randn({2, 32, 12, 12}), t), cast(randn({64, 32, 3, 3}), t)});
    if (t == f32) continue;
    all.push_back({"linear", cast(randn({70, 128}), t), cast(randn({96, 128}), t)});
    all.push_back({"linear of few rows", cast(randn({20, 128}), t), cast(randn({96, 128}), t)});
  }
  return all;
}
std::vector<float> in_inference(const Layer& l, int times = 3) {
  const InferenceMode on;
  std::vector<float> y;
  for (int i = 0; i < times; ++i) y = l().to_vector<float>();
  return y;
}
std::vector<float> with_none_kept(const Layer& l) {  // and none used; what is kept stays
  const InferenceMode on;
  return Layer{l.name, l.x, l.weight.clone()}().to_vector<float>();
}
std::vector<float> without(const Layer& l) {
  set_packed_weights_limit(0);
  const InferenceMode on;
  const auto y = l().to_vector<float>();
  set_packed_weights_limit(gib);
  return y;
}

}  // namespace

TEST_CASE("packed weights: kept from the second use, of the same bits, dropped where gradients are recorded") {
  for (const Layer& l : layers()) {
    INFO(l.name << " " << name_of(l.x.dtype()));
    const auto plain = without(l);
    CHECK(packed_weights_bytes() == 0);
    CHECK(in_inference(l, 1) == plain);
    CHECK(packed_weights_bytes() == 0);
    CHECK(in_inference(l, 1) == plain);
    const std::int64_t bytes = packed_weights_bytes();
    CHECK(bytes >= l.weight.nbytes());
    CHECK(bytes <= 3 * l.weight.nbytes());
    for (int threads : {1, 2, 3}) {
      const int before = num_threads();
      set_num_threads(threads);
      CHECK(in_inference(l) == plain);
      set_num_threads(before);
    }
    CHECK(packed_weights_bytes() == bytes);
    CHECK(l().to_vector<float>() == plain);
    CHECK(packed_weights_bytes() == 0);
  }
}

TEST_CASE("packed weights: a program that changes the instruction set gets forms of its own") {
  using cpu_backend::Isa;
  const Isa before = cpu_backend::isa();
  for (const Layer& l : layers()) {
    INFO(l.name << " " << name_of(l.x.dtype()));
    for (Isa isa : {before, Isa::baseline, Isa::avx2, Isa::avx512, Isa::avx2, before}) {
      if (isa > cpu_backend::best_isa()) continue;
      cpu_backend::set_isa(isa);
      INFO(cpu_backend::name_of(isa));
      CHECK(in_inference(l) == with_none_kept(l));
    }
  }
  cpu_backend::set_isa(before);
}

TEST_CASE("packed weights: whatever writes the weight makes them invalid") {
  for (const Layer& l : layers()) {
    INFO(l.name << " " << name_of(l.x.dtype()));
    Tensor w = l.weight;
    const auto changes = [&](const char* how, auto&& write) {
      INFO(how);
      const auto before = in_inference(l);
      {
        const NoGrad off;
        write();
      }
      const auto after = in_inference(l);
      CHECK(after != before);
      CHECK(after == without(l));
    };
    changes("mul_", [&] { w.mul_(2.0); });
    changes("add_", [&] { w.add_(ones_like(w)); });
    changes("fill_", [&] { w.fill_(0.25); });
    changes("copy_", [&] { w.copy_(randn(w.sizes())); });
    changes("copy_ through a view", [&] { w.select(0, 3).copy_(randn(w.select(0, 3).sizes())); });
    changes("copy_ through a view of a view", [&] {
      w.flatten().slice(0, 10, 400).add_(Tensor(1.0));
    });
    changes("data<T>() and a note", [&] {
      std::memset(w.raw_data(), 0, 64);
      w.storage()->written_by("the test");
    });
    w.requires_grad_();
    w.set_grad(cast(randn(w.sizes()), w.dtype()));
    optim::SGD sgd(std::vector<Tensor>{w}, {.lr = 0.5});
    changes("an optimizer", [&] { sgd.step(); });
  }
}

TEST_CASE("packed weights: loading a checkpoint and training in between are seen, under autocast too") {
  manual_seed(6);
  struct Net {
    nn::Conv2d conv{16, 64, 3, {.stride = 2, .padding = 1}};
    nn::Linear fc{64 * 5 * 5, 40};
    MANTISSA_FIELDS(conv, fc)
    Tensor operator()(const Tensor& x) const { return fc(flatten(relu(conv(x)), 1)); }
  } net, other;
  const Tensor x = randn({24, 16, 9, 9}), y = randint(0, 40, {24});
  const auto file = (std::filesystem::temp_directory_path() / "mantissa_packed_weights_test.safetensors").string();
  nn::save(other, file);
  optim::SGD sgd(nn::parameters(net), {.lr = 0.1});
  for (const bool half : {false, true}) {
    const auto forward = [&](const Net& n) { return half ? amp::autocast(bf16, [&] { return n(x); }) : n(x); };
    const auto inference = [&](const Net& n, int times = 3) {
      const InferenceMode on;
      std::vector<float> result;
      for (int i = 0; i < times; ++i) result = forward(n).to_vector<float>();
      return result;
    };
    const auto check_fresh = [&](const Net& n) {
      const auto kept = inference(n);
      set_packed_weights_limit(0);
      CHECK(kept == inference(n, 1));
      set_packed_weights_limit(gib);
      return kept;
    };
    auto last = check_fresh(net);
    for (int i = 0; i < 3; ++i) {
      sgd.zero_grad();
      backward(cross_entropy(forward(net), y));
      sgd.step();
      const auto now = check_fresh(net);
      CHECK(now != last);
      last = now;
    }
    nn::load(net, file);
    CHECK(check_fresh(net) == inference(other));
  }
  std::filesystem::remove(file);
}

TEST_CASE("packed weights: freed with the weight, and bounded") {
  std::vector<Layer> all = layers();
  for (const Layer& l : all) in_inference(l);
  CHECK(packed_weights_bytes() > 0);
  while (!all.empty()) {
    const std::int64_t before = packed_weights_bytes();
    all.pop_back();
    CHECK(packed_weights_bytes() < before);
  }
  CHECK(packed_weights_bytes() == 0);

  all = layers();
  in_inference(all[0]);
  const std::int64_t one = packed_weights_bytes();
  set_packed_weights_limit(one + 100);
  for (const Layer& l : all) in_inference(l);
  CHECK(packed_weights_bytes() <= one + 100);
  set_packed_weights_limit(0);
  CHECK(packed_weights_bytes() == 0);
  for (const Layer& l : all) in_inference(l);
  CHECK(packed_weights_bytes() == 0);
  set_packed_weights_limit(gib);
  CHECK_THROWS_WITH(set_packed_weights_limit(-1), Catch::Contains("needs at least 0 bytes"));

  // Views of the same storage count as separate weights; a program that keeps creating views does not grow for ever.
  const Tensor whole = cast(randn({400, 128}), bf16), x = cast(randn({40, 128}), bf16);
  {
    const InferenceMode on;
    for (int i = 0; i < 100; ++i) {
      for (int again = 0; again < 2; ++again) (void)linear(x, whole.slice(0, i, i + 200));
    }
  }
  CHECK(packed_weights_bytes() <= 16 * 224 * 128 * 4);  // whole panels, widened
}

TEST_CASE("packed weights: several threads share a model, while others drop and write theirs") {
  const std::vector<Layer> all = layers();
  std::vector<std::vector<float>> plain;
  for (const Layer& l : all) plain.push_back(without(l));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const Layer own{"", all[0].x, all[0].weight.clone()};
      for (int i = 0; i < 20; ++i) {
        const std::size_t n = static_cast<std::size_t>(t + i) % all.size();
        if (in_inference(all[n], 2) != plain[n]) ++wrong;
        if (in_inference(own, 2) != plain[0]) ++wrong;
        own.weight.storage()->written_by("the test");
        const Layer brief{"", all[0].x, all[0].weight.clone()};
        if (in_inference(brief, 2) != plain[0]) ++wrong;
        if (t == 0 && i % 5 == 4) set_packed_weights_limit(i % 2 ? gib : 1 << 16);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  set_packed_weights_limit(gib);
  CHECK(wrong == 0);
}
