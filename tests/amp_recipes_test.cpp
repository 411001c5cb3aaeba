// The recipes of docs/amp.md, executed here verbatim: a test compares every code block of the page that begins
// with "// recipe: NAME" with the lines between the same mark and "// end" in this file.
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "amp/autocast.h"
#include "amp/custom.h"
#include "amp/explain.h"
#include "amp/frozen.h"
#include "amp/grad_scaler.h"
#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "core/ops.h"
#include "core/random.h"
#include "nn/amp.h"
#include "nn/functions.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/sequential.h"
#include "ops/function.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/schedule.h"
#include "optim/sgd.h"
#include "tests/catch_compat.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

struct Batch {
  Tensor input, target;
};
std::vector<Batch> batches(int count, std::int64_t size = 16) {
  std::vector<Batch> all;
  for (int i = 0; i < count; ++i) {
    const Tensor x = random_tensor({size, 8}, 100 + static_cast<std::uint64_t>(i)).to(f32);
    all.push_back({x, tanh(x.slice(1, 0, 4))});
  }
  return all;
}
struct Net {
  nn::Linear hidden{8, 32}, out{32, 4};
  MANTISSA_FIELDS(hidden, out)
  Tensor operator()(const Tensor& x) const { return out(relu(hidden(x))); }
};
Net make_net(std::uint64_t at = 1) {
  manual_seed(at);
  return Net();
}
double loss_of(const Net& net) {
  const NoGrad no_grad;
  const Batch b = batches(1)[0];
  return mse_loss(net(b.input), b.target).item<double>();
}
template <class Train> void check_trains(Train&& train) {
  Net net = make_net();
  const double before = loss_of(net);
  train(net);
  CHECK(loss_of(net) < 0.7 * before);
}

// The lines between "// recipe: NAME" and "// end" (in this file) or the end of a code block (on the page), without
// their common indentation.
std::string without_indentation(const std::vector<std::string>& lines) {
  std::size_t least = std::string::npos;
  for (const std::string& l : lines)
    if (l.find_first_not_of(' ') != l.npos) least = std::min(least, l.find_first_not_of(' '));
  std::string text;
  for (const std::string& l : lines)
    text += (l.size() >= least && least != std::string::npos ? l.substr(least) : std::string()) + "\n";
  return text;
}
std::map<std::string, std::string> recipes_in(const char* path, const std::string& end) {
  std::ifstream file(path);
  REQUIRE(file);
  std::map<std::string, std::string> found;
  const std::string mark = "// recipe: ";
  for (std::string line; std::getline(file, line);) {
    const std::size_t at = line.find_first_not_of(' ');
    if (at == line.npos || line.compare(at, mark.size(), mark) != 0) continue;
    const std::string name = line.substr(at + mark.size());
    std::vector<std::string> lines;
    while (std::getline(file, line) && line.find(end) == line.npos) lines.push_back(line);
    CHECK(found.emplace(name, without_indentation(lines)).second);
  }
  return found;
}

}  // namespace

TEST_CASE("the code on the page is the code that runs here", "[amp][docs]") {
  const auto page = recipes_in(MANTISSA_SOURCE_DIR "/docs/amp.md", "```"),
             here = recipes_in(MANTISSA_SOURCE_DIR "/tests/amp_recipes_test.cpp", "// end");
  CHECK(page.size() >= 12);
  for (const auto& [name, text] : page) {
    INFO("recipe " << name);
    REQUIRE(here.contains(name));
    CHECK(text == here.at(name));
  }
  for (const auto& [name, text] : here) {
    INFO("recipe " << name << " is not on the page");
    CHECK(page.contains(name));
  }
}

TEST_CASE("recipe: typical loop", "[amp][docs]") {
  check_trains([](Net& net) {
    const auto data = batches(60);
    // recipe: typical loop
    optim::Sgd optimizer(nn::parameters(net), {.lr = 0.1, .momentum = 0.9});
    amp::GradScaler scaler;
    for (const auto& [input, target] : data) {
      optimizer.zero_grad();
      const Tensor loss = amp::autocast(f16, [&] { return mse_loss(net(input), target); });
      backward(scaler.scale(loss));  // outside the region: gradients come in the dtypes of the forward
      scaler.step(optimizer);        // does nothing when a gradient is inf or NaN
      scaler.update();
    }
    // end
    CHECK(scaler.total_skipped() == 0);
  });
}

TEST_CASE("recipe: bf16", "[amp][docs]") {
  check_trains([](Net& net) {
    const auto data = batches(60);
    // recipe: bf16
    optim::AdamW optimizer(nn::parameters(net), {.lr = 1e-2});
    for (const auto& [input, target] : data) {
      optimizer.zero_grad();
      backward(amp::autocast(bf16, [&] { return mse_loss(net(input), target); }));
      optimizer.step();
    }
    // end
  });
}

TEST_CASE("recipe: clipping", "[amp][docs]") {
  check_trains([](Net& net) {
    const auto data = batches(60);
    optim::Sgd optimizer(nn::parameters(net), {.lr = 0.1, .momentum = 0.9});
    amp::GradScaler scaler;
    // recipe: clipping
    for (const auto& [input, target] : data) {
      optimizer.zero_grad();
      backward(scaler.scale(amp::autocast(f16, [&] { return mse_loss(net(input), target); })));
      scaler.unscale_(optimizer);  // the gradients are the true ones from here on
      optim::clip_grad_norm_(nn::parameters(net), 1.0);
      scaler.step(optimizer);  // knows that they are unscaled
      scaler.update();
    }
    // end
  });
}

TEST_CASE("recipe: accumulation", "[amp][docs]") {
  check_trains([](Net& net) {
    const auto data = batches(80, 4);
    optim::Sgd optimizer(nn::parameters(net), {.lr = 0.2, .momentum = 0.9});
    amp::GradScaler scaler;
    // recipe: accumulation
    constexpr int window = 4;
    int i = 0;
    for (const auto& [input, target] : data) {
      const Tensor loss = amp::autocast(f16, [&] { return mse_loss(net(input), target) / window; });
      backward(scaler.scale(loss));  // one scale for the whole window
      if (++i % window != 0) continue;
      scaler.step(optimizer);
      scaler.update();
      optimizer.zero_grad();
    }
    // end
  });
}

TEST_CASE("recipe: gradient penalty", "[amp][docs]") {
  check_trains([](Net& net) {
    const auto data = batches(60);
    optim::Sgd optimizer(nn::parameters(net), {.lr = 0.05, .momentum = 0.9});
    amp::GradScaler scaler;
    // recipe: gradient penalty
    for (const auto& [input, target] : data) {
      optimizer.zero_grad();
      Tensor loss = amp::autocast(f16, [&] { return mse_loss(net(input), target); });
      // Scaled for this backward pass too, whose gradients could underflow; unscaled by hand,
      // for they belong to no optimizer.
      std::vector<Tensor> gradients;
      const std::vector<Tensor> parameters = nn::parameters(net);
      const Tensor scaled = scaler.scale(loss);
      gradients = grad(std::span(&scaled, 1), parameters, {}, {.create_graph = true});
      const double inverse = 1 / scaler.get_scale();
      loss = amp::autocast(f16, [&] {
        Tensor squares = zeros({});
        for (const Tensor& g : gradients) squares = squares + square(g * inverse).sum();
        return loss + 1e-3 * sqrt(squares);
      });
      backward(scaler.scale(loss));
      scaler.step(optimizer);
      scaler.update();
    }
    // end
  });
}

TEST_CASE("recipe: several models, losses and optimizers", "[amp][docs]") {
  Net net0 = make_net(1), net1 = make_net(2);
  const double before = loss_of(net0) + loss_of(net1);
  const auto data = batches(60);
  optim::Sgd optimizer0(nn::parameters(net0), {.lr = 0.05, .momentum = 0.9});
  optim::AdamW optimizer1(nn::parameters(net1), {.lr = 1e-2});
  // recipe: several models, losses and optimizers
  amp::GradScaler scaler;  // one for the run
  for (const auto& [input, target] : data) {
    optimizer0.zero_grad();
    optimizer1.zero_grad();
    Tensor loss0, loss1;
    amp::autocast(f16, [&] {
      const Tensor y0 = net0(input), y1 = net1(input);
      loss0 = mse_loss(2.0 * y0 + 3.0 * y1, 5.0 * target);
      loss1 = mse_loss(3.0 * y0 - 5.0 * y1, -2.0 * target);
    });
    backward(scaler.scale(loss0), {}, {.retain_graph = true});  // both losses reach both nets
    backward(scaler.scale(loss1));
    scaler.unscale_(optimizer0);  // one by hand, to look at its gradients; the other in step
    scaler.step(optimizer0);      // each is skipped or not by its own gradients
    scaler.step(optimizer1);
    scaler.update();  // once: the scale follows what both have found
  }
  // end
  CHECK(loss_of(net0) + loss_of(net1) < 0.7 * before);
}

namespace custom {
// recipe: custom function with a gradient
struct CubeRoot {  // its gradient is too steep for half precision: f32 in every region
  static constexpr auto name = "cube_root";
  static constexpr Dtype cast_inputs = f32;
  Tensor forward(Saved& saved, const Tensor& x) const {
    const Tensor y = sign(x) * pow(abs(x), 1.0 / 3);
    saved.save({y});
    return y;
  }
  std::vector<Tensor> backward(const Saved& saved, const Tensor& g) const { return {g / (3.0 * square(saved[0]))}; }
};
// end
}  // namespace custom

TEST_CASE("recipe: custom functions", "[amp][docs]") {
  const Tensor x = tensor({8, -27, 1}, {.dtype = f16}).requires_grad_();
  Tensor y, z;
  {
    using custom::CubeRoot;
    // recipe: calling custom functions
    const auto stable_ratio = amp::custom_fwd(f32, [](const Tensor& a, const Tensor& b) { return a / (b + 1e-12); });
    amp::autocast(f16, [&] {
      y = apply_function(CubeRoot{}, x);
      z = stable_ratio(x, y);  // gradients flow through its casts
    });
    // end
  }
  CHECK(y.dtype() == f32);
  CHECK(z.dtype() == f32);
  CHECK(all_close(y.detach(), tensor({2, -3, 1}, {.dtype = f32})));
  backward(y, ones_like(y), {.retain_graph = true});
  CHECK(x.grad().dtype() == f16);
}

namespace disabling {
// recipe: selective disabling
struct Model {
  nn::Linear body{8, 16}, head{16, 4};
  MANTISSA_FIELDS(body, head)
  Tensor operator()(const Tensor& x) const {
    const Tensor hidden = relu(body(x));  // in the region's dtype
    const amp::Autocast off(amp::disabled);
    return head(hidden.to(f32));  // what comes from outside must be cast by hand
  }
};
// end
}  // namespace disabling

TEST_CASE("recipe: selective disabling", "[amp][docs]") {
  disabling::Model model;
  CHECK(amp::autocast(f16, [&] { return model(ones({2, 8})); }).dtype() == f32);
  Net net = make_net();
  const Tensor input = ones({2, 8});
  Tensor output;
  // recipe: selective disabling from outside
  const amp::Policies in_f32 = amp::policies_for(net, {{"out", CastPolicy::f32}});  // or "blocks.*.norm", "**.head"
  output = amp::autocast({.dtype = f16, .policies = in_f32}, [&] { return net(input); });
  // end
  CHECK(output.dtype() == f32);
}

TEST_CASE("recipe: PyTorch's own choices", "[amp][docs]") {
  const Tensor x = ones({2, 8}, {.dtype = f16});
  // recipe: as PyTorch
  amp::Autocast as_torch({.dtype = f16, .policies = amp::Policies::torch_cuda(), .cache = amp::CastCache::until_exit});
  // end
  CHECK(softmax(x, 1).dtype() == f32);
}

TEST_CASE("recipe: policies by operator", "[amp][docs]") {
  // recipe: policies by operator
  amp::Policies policies;
  policies.set("softmax", CastPolicy::f32).set("exp", CastPolicy::keep);
  policies = amp::Policies::from_json(R"({"softmax": "f32", "exp": "keep"})");  // the same from a file
  // end
  const Tensor x = ones({2, 8}, {.dtype = f16});
  const amp::Autocast region(amp::AutocastOptions{.dtype = f16, .policies = policies});
  CHECK(softmax(x, 1).dtype() == f32);
  CHECK(exp(x).dtype() == f16);
}

TEST_CASE("recipe: other threads", "[amp][docs]") {
  const Tensor x = ones({2, 2});
  Tensor y;
  {
    const amp::Autocast region(f16);
    // recipe: other threads
    const AutocastState state = amp::capture();
    std::thread worker([&] {
      const amp::Autocast region(state);  // a thread starts outside any region
      y = matmul(x, x);
    });
    worker.join();
    // end
  }
  CHECK(y.dtype() == f16);
}

TEST_CASE("recipe: evaluation", "[amp][docs]") {
  const Net net = make_net();
  const auto data = batches(2);
  Tensor y;
  // recipe: evaluation
  {
    const InferenceMode inference;  // as NoGrad, and nothing inside can undo it
    const amp::Autocast region(bf16);
    for (const auto& [input, target] : data) y = net(input);
  }
  // end
  CHECK(y.dtype() == bf16);
  CHECK(!y.requires_grad());
  Net base = make_net();
  nn::requires_grad_(base, false);
  const Tensor input = data[0].input;
  // recipe: frozen weights
  const amp::FrozenCasts casts(nn::parameters(base));  // each is cast at its first use, and again only when it changes
  y = amp::autocast(bf16, [&] { return base(input); });
  // end
  CHECK(casts.bytes() == nn::count(base) * 2);
}

TEST_CASE("recipe: skipped steps", "[amp][docs]") {
  Net net = make_net();
  optim::Sgd optimizer(nn::parameters(net), {.lr = 0.1});
  amp::GradScaler scaler({.init_scale = 1e30});
  const auto data = batches(1);
  int retries_left = 0;
  // recipe: replaying a batch
  for (const auto& [input, target] : data) {
    const amp::StepResult result = scaler.attempt(100, [&] {  // again at a lower scale while gradients overflow
      optimizer.zero_grad();
      backward(scaler.scale(amp::autocast(f16, [&] { return mse_loss(net(input), target); })));
      return scaler.step(optimizer);
    });
    if (result.skipped()) ++retries_left;  // not lost before a hundred halvings
  }
  // end
  CHECK(retries_left == 0);
  CHECK(scaler.total_skipped() > 10);
}

TEST_CASE("recipe: explain and doctor", "[amp][docs]") {
  Net net = make_net();
  const auto [input, target] = batches(1)[0];
  std::string printed;
  const auto print = [&](const std::string& text) { printed += text; };
  // recipe: explain
  amp::Explain explain;
  amp::autocast({.dtype = f16, .policies = amp::policies_for(net, {})}, [&] { return mse_loss(net(input), target); });
  print(explain.table());
  // end
  CHECK_THAT(printed, Catch::Matchers::Contains("linear") && Catch::Matchers::Contains("mse_loss"));
  // recipe: doctor
  const amp::Diagnosis d = amp::doctor(net, [&] { return mse_loss(net(input), target); }, {.dtype = f16});
  print(d.report());
  amp::GradScaler scaler({.init_scale = d.initial_scale});
  const amp::Autocast region({.dtype = f16, .policies = amp::policies_from_json(net, d.overlay)});
  // end
  CHECK_THAT(printed, Catch::Matchers::Contains("initial scale"));
  CHECK(amp::is_enabled());
}

TEST_CASE("every test that the page names exists", "[amp][docs]") {
  std::ifstream page(MANTISSA_SOURCE_DIR "/docs/amp.md");
  int found = 0;
  for (std::string line; std::getline(page, line);) {
    // `file_test`: "part of its name"
    for (std::size_t at = 0; (at = line.find("_test`: \"", at)) != line.npos; ++at) {
      const std::size_t begin = line.rfind('`', at) + 1, quote = at + std::string("_test`: \"").size();
      const std::string file = line.substr(begin, at + 5 - begin),
                        name = line.substr(quote, line.find('"', quote) - quote);
      std::ifstream source(MANTISSA_SOURCE_DIR "/tests/" + file + ".cpp");
      std::stringstream text;
      text << source.rdbuf();
      INFO(file << ": " << name);
      CHECK(text.str().find(name) != std::string::npos);
      ++found;
    }
  }
  CHECK(found >= 15);
}
