// A captured step compared bitwise with the same step run eagerly, with mixed precision, dropout, clipping, overflows,
// an average of the weights and a learning rate that changes between calls.
#include <cmath>
#include <functional>
#include <future>
#include <memory>
#include <vector>

#include "amp/frozen.h"
#include "cuda/launches.h"
#include "mantissa.h"
#include "tests/catch_compat.h"

using namespace mantissa;

namespace {

struct Net {
  nn::Linear in{8, 32}, out{32, 4};
  nn::Dropout drop{.p = 0.25};
  MANTISSA_FIELDS(in, out, drop)
  Tensor operator()(const Tensor& x) const { return out(drop(relu(in(x)))); }
};

struct Run {
  std::vector<std::vector<float>> weights;
  std::vector<float> losses;
  float scale = 0;
  std::int64_t replays = 0, recordings = 0;
};

enum class How { clip_between, clip_within, plain };
Run train(bool captured, int steps, How how) {
  manual_seed(11);
  Net net;
  nn::to(net, cuda);
  optim::AdamW opt(nn::parameters(net), {.lr = 1e-2});
  optim::Ema average(nn::parameters(net), {.decay = 0.9});
  amp::GradScaler scaler({.init_scale = 4096, .growth_interval = 5});
  const auto body = [&](const Tensor& x, const Tensor& label) {
    const Tensor loss = amp::autocast(f16, [&] { return cross_entropy(net(x), label); });
    backward(scaler.scale(loss));
    if (how == How::clip_between) {
      scaler.unscale_(opt);
      optim::clip_grad_norm_(nn::parameters(net), 1.0);
    }
    average.update(how == How::clip_within ? scaler.step(opt, amp::ClipNorm{1.0}) : scaler.step(opt));
    scaler.update();
    nn::zero_grad(net);
    return loss;
  };
  auto step = jit::capture(body);
  Run run;
  manual_seed(12);
  for (int i = 0; i < steps; ++i) {
    Tensor x = randn({16, 8});
    if (i % 40 == 7 || i % 40 == 20) x = x * 1e6;  // too large for f16: this step is skipped
    const Tensor label = randint(0, 4, {16}, {.dtype = i64});
    if (i == 10) opt.set_lr(5e-3);
    const Tensor xd = x.to(cuda), ld = label.to(cuda);
    const Tensor loss = captured ? step(xd, ld) : body(xd, ld);
    run.losses.push_back(loss.to(cpu).item());
  }
  for (const Tensor& p : nn::parameters(net)) run.weights.push_back(p.detach().to(cpu).to_vector<float>());
  for (std::size_t i = 0; i < average.size(); ++i) run.weights.push_back(average.average(i).to_vector<float>());
  run.scale = static_cast<float>(scaler.get_scale());
  run.replays = step.replays();
  run.recordings = step.recordings();
  return run;
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(a[i] == b[i]) && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("[G43] [A44] captured steps are bitwise the steps run as they are, overflows and dropout included") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  for (const How how : {How::clip_between, How::clip_within, How::plain}) {
    const int steps = how == How::plain ? 200 : 30;
    const Run eager = train(false, steps, how), captured = train(true, steps, how);
    CHECK(captured.recordings == 1);
    CHECK(captured.replays == steps - 2);
    CHECK(same(eager.losses, captured.losses));
    CHECK(eager.scale == captured.scale);
    REQUIRE(eager.weights.size() == captured.weights.size());
    for (std::size_t i = 0; i < eager.weights.size(); ++i) CHECK(same(eager.weights[i], captured.weights[i]));
  }
}

TEST_CASE("gradients that a captured step leaves are seen divided after every replay") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  Tensor w = ones({4}).to(cuda).requires_grad_();
  optim::Sgd opt({w}, {.lr = 0});
  amp::GradScaler scaler({.init_scale = 1024, .growth_interval = 2});
  auto step = jit::capture([&](const Tensor& x) {
    opt.zero_grad();
    const Tensor loss = sum(w * x);
    backward(scaler.scale(loss));
    scaler.step(opt);
    scaler.update();
    return loss;
  });
  for (int i = 1; i <= 6; ++i) {
    step(full({4}, i).to(cuda));
    CHECK(w.grad().to(cpu).to_vector<float>() == std::vector<float>(4, static_cast<float>(i)));
  }
}

TEST_CASE("a captured step that another one calls becomes part of that one's recording") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  auto twice = jit::capture([](const Tensor& x) { return x * 2; });
  const auto body = [](auto& f, const Tensor& x) { return f(x) + f(x + 1); };
  auto outer = jit::capture([&](const Tensor& x) { return body(twice, x); });
  for (int i = 0; i < 5; ++i) {
    const std::vector<float> got = outer(full({3}, i).to(cuda)).to(cpu).to_vector<float>();
    CHECK(got == std::vector<float>(3, static_cast<float>(4 * i + 2)));
  }
  CHECK(outer.recordings() == 1);
  CHECK(outer.replays() == 3);
  CHECK(twice(full({3}, 5).to(cuda)).to(cpu).to_vector<float>() == std::vector<float>(3, 10));  // and still by itself
}

TEST_CASE("checks of values can be captured: what they find is thrown when the host next waits") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  using Step = std::function<Tensor(const Tensor&)>;
  struct Case { const char* message; Step step; double bad; };
  const Case cases[] = {
      {"bernoulli: p holds values outside [0, 1]: element 0 of 4", [](const Tensor& x) { return bernoulli(x); }, 1.5},
      {"normal: std holds negative values", [](const Tensor& x) { return normal(x, x); }, -1},
      {"multinomial: weights sum to 0", [](const Tensor& x) { return multinomial(x, 2, true); }, 0},
      {"remainder: an integer is divided by 0", [](const Tensor& x) { return remainder(x.to(i64), x.to(i64)); }, 0},
      {"binary_cross_entropy: x holds values", [](const Tensor& x) { return binary_cross_entropy(x, x); }, 2},
      {"Poisson: rate must not be negative",
       [](const Tensor& x) { return distributions::Poisson(x).log_prob(ones_like(x)); }, -1},
  };
  for (const Case& c : cases) {
    INFO(c.message);
    const Tensor good = full({4}, 1.0).to(cuda), bad = full({4}, c.bad).to(cuda);
    auto step = jit::capture([&c](const Tensor& x) { return c.step(x); });
    for (int i = 0; i < 3; ++i) CHECK_NOTHROW(step(good).to(cpu));
    CHECK_NOTHROW(step(bad));
    CHECK_THROWS_WITH(good.to(cpu), Catch::Matchers::Contains(c.message));
    CHECK_NOTHROW(step(good).to(cpu));
    CHECK(step.replays() == 3);
    CHECK_NOTHROW(c.step(bad));  // and so without a capture
    CHECK_THROWS_WITH(good.to(cpu), Catch::Matchers::Contains(c.message));
  }
}

TEST_CASE("what cannot be captured says which operator and why") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  using Step = std::function<void(const Tensor&)>;
  const Tensor p = ones({4}).to(cuda).requires_grad_();
  const std::pair<const char*, Step> cases[] = {
      {"nonzero", [](const Tensor& x) { (void)nonzero(x); }},
      {"masked_select", [](const Tensor& x) { (void)masked_select(x, x > 0); }},
      {"unique", [](const Tensor& x) { (void)unique(x); }},
      {"unique_consecutive", [](const Tensor& x) { (void)unique_consecutive(x); }},
      {"bincount", [](const Tensor& x) { (void)bincount(x.to(i64)); }},
      {"one_hot", [](const Tensor& x) { (void)one_hot(x.to(i64)); }},
      {"allclose", [](const Tensor& x) { (void)allclose(x, x); }},
      {"equal", [](const Tensor& x) { (void)equal(x, x); }},
      {"pow", [](const Tensor& x) { (void)pow(x.to(i64), x.to(i64)); }},
      {"ctc_loss", [](const Tensor& x) {
         const Tensor labels = x.slice(0, 0, 1).to(i64);  // one after the other
         (void)ctc_loss(log_softmax(x.reshape({2, 1, 2}), -1), labels, tensor({2}), tensor({1}));
       }},
      {"clip_grad_norm_", [&p](const Tensor& x) {
         Tensor(p).set_grad({});
         backward(sum(p * x));
         (void)optim::clip_grad_norm_({p}, 1.0, {.error_if_nonfinite = true});
       }},
      {"LBFGS", [&p, opt = std::make_shared<optim::LBFGS>(std::vector<Tensor>{p})](const Tensor& x) {
         opt->step([&] {
           const Tensor loss = sum(p * x);
           backward(loss);
           return loss;
         });
       }},
      {"manual_seed", [](const Tensor& x) {
         (void)dropout(x, 0.5, true);
         manual_seed(rng_state().seed + 1);
       }},
      {"RandomScope", [](const Tensor& x) {
         RngState stream{.seed = rng_state().seed + 1};
         const RandomScope scope(stream);
         (void)dropout(x, 0.5, true);
       }},
      {"it read a value of a tensor (item, to_vector, printing)", [](const Tensor& x) { (void)x.to_vector<float>(); }},
      {"made a tensor from host data", [](const Tensor& x) { (void)(x + tensor({1, 2, 3, 4}).to(x.device())); }},
      {"copy between host and device", [](const Tensor& x) { (void)x.to(cpu); }},
  };
  const Tensor x = full({4}, 1.0).to(cuda);
  for (const auto& [name, body] : cases) {
    INFO(name);
    auto step = jit::capture([&body = body](const Tensor& t) {
      body(t);
      return t * 2;
    });
    CHECK_NOTHROW(step(x));
    std::string said = "nothing was thrown";
    try {
      step(x);
    } catch (const Error& e) {
      said = e.what();
    }
    INFO(said);
    CHECK(said.find(name) != std::string::npos);
    CHECK(said.find("captured") != std::string::npos);
  }
}

TEST_CASE("what cannot be captured says what to do, and the step can be called again") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  bool reads = true;
  auto step = jit::capture([&](const Tensor& x) {
    const Tensor y = sum(x);
    if (reads) (void)y.item();
    return y;
  });
  const Tensor x = ones({4}).to(cuda);
  CHECK(step(x).to(cpu).item() == 4);
  try {
    step(x);
    FAIL("nothing was thrown");
  } catch (const Error& e) {
    CHECK(std::string(e.what()).find("captured must not copy between host and device") != std::string::npos);
  }
  reads = false;
  CHECK(step(x).to(cpu).item() == 4);
  CHECK(step(x).to(cpu).item() == 4);
}

TEST_CASE("what another thread does on the device while a step is recorded happens at once, and once") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  Tensor total = zeros({4}, {.device = cuda});
  std::vector<std::vector<float>> seen;
  std::vector<std::int64_t> widths;
  std::int64_t length = 1;
  auto step = jit::capture([&](const Tensor& x) {
    const Tensor y = x * 2;
    std::async(std::launch::async, [&] {
      const NoGrad no_grad;
      total.add_(ones({4}, {.device = cuda}));
      seen.push_back((total + full({4}, 0.5).to(cuda)).to(cpu).to_vector<float>());
      // Tables that are created on first use wait for the device.
      const Tensor row = rotary_embedding(pad(ones({1, 4, 6}, {.device = cuda}), {length, length}, "reflect"), 0, 7);
      widths.push_back(row.to(cpu).size(-1));
      ++length;
    }).get();
    return y + 1;
  });
  for (int i = 0; i < 4; ++i) {
    CHECK(step(full({4}, i).to(cuda)).to(cpu).to_vector<float>() == std::vector<float>(4, 2.0f * i + 1));
  }
  CHECK(step.replays() == 2);
  CHECK(seen == std::vector<std::vector<float>>{std::vector<float>(4, 1.5f), std::vector<float>(4, 2.5f)});
  CHECK(total.to(cpu).to_vector<float>() == std::vector<float>(4, 2.0f));
  CHECK(widths == std::vector<std::int64_t>{8, 10});
}

TEST_CASE("operators that make tables from shapes can be captured: after one run the tables are on the device") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const auto body = [](const Tensor& image) {
    const Tensor x = image.detach().requires_grad_();
    const Tensor larger = interpolate(pad(x, {2, 1, 1, 2}, "reflect"), {.size = {9, 11}, .mode = "bicubic"});
    backward(sum(square(triu(larger))) + sum(max(unfold(x, {3, 3}), 1).values));
    return x.grad();
  };
  manual_seed(3);
  auto step = jit::capture(body);
  for (int i = 0; i < 4; ++i) {
    const Tensor x = randn({1, 2, 5, 6}).to(cuda);
    CHECK(step(x).to(cpu).to_vector<float>() == body(x).to(cpu).to_vector<float>());
  }
}

TEST_CASE("positions, times and permutations are made on the device, in a captured step, too") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  manual_seed(6);
  nn::Embedding positions(16, 8);
  nn::to(positions, cuda);
  const auto body = [&](const Tensor& x) {  // mixes samples as mixup does
    const Device at = x.device();
    const Tensor y = x + positions(arange(x.size(1), {.device = at}));
    const Tensor time = randint(0, 1000, {x.size(0), 1, 1}, {.device = at});
    const Tensor z = 0.7 * y + 0.3 * y[randperm(x.size(0), {.device = at})] + time * linspace(0, 1, 8, {.device = at});
    return z / quantile(abs(z), 0.9) + multinomial(softmax(z, -1).flatten(0, 1), 1).view(5, 9, 1);
  };
  std::vector<Tensor> eager;
  const Tensor x = randn({5, 9, 8}).to(cuda);
  manual_seed(7);
  for (int i = 0; i < 5; ++i) eager.push_back(body(x).to(cpu));
  manual_seed(7);
  auto step = jit::capture(body);
  for (int i = 0; i < 5; ++i) CHECK(equal(step(x).to(cpu), eager[static_cast<std::size_t>(i)]));
  CHECK(step.replays() == 3);
  CHECK(!equal(eager[3], eager[4]));
}

TEST_CASE("samples can be shuffled in a captured step, few and many") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  for (const std::int64_t n : {20, 5000}) {
    const auto body = [](const Tensor& x) { return x[randperm(x.size(0), {.device = x.device()})]; };
    const Tensor x = arange(n, {.device = cuda});
    std::vector<Tensor> eager;
    manual_seed(9);
    for (int i = 0; i < 5; ++i) eager.push_back(body(x).to(cpu));
    manual_seed(9);
    auto step = jit::capture(body);
    for (int i = 0; i < 5; ++i) CHECK(equal(step(x).to(cpu), eager[static_cast<std::size_t>(i)]));
    CHECK(step.replays() == 3);
  }
}

TEST_CASE("sums of bags of embeddings can be captured: what belongs to a bag is read on the device") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  manual_seed(5);
  nn::EmbeddingBag bags(20, 8, {.padding_idx = 3});
  nn::to(bags, cuda);
  const auto body = [&](const Tensor& indices, const Tensor& offsets) {
    const Tensor weight = bags.weight;
    return grad(std::vector<Tensor>{sum(square(bags(indices, offsets)))}, std::vector<Tensor>{weight})[0];
  };
  auto step = jit::capture(body);
  for (const std::int64_t second : {0, 4, 11, 12}) {
    const Tensor indices = randint(0, 20, {12}).to(cuda), offsets = tensor({std::int64_t{0}, second}).to(cuda);
    CHECK(equal(step(indices, offsets).to(cpu), body(indices, offsets).to(cpu)));
  }
  CHECK(step.replays() == 2);
}

TEST_CASE(
    "rotary tables from position 0 on are made once; those first seen by a step that is recorded are the graph's") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  manual_seed(4);
  const Tensor x = randn({2, 5, 8});
  const Tensor there = x.to(cuda);
  const auto close = [](const Tensor& a, const Tensor& b) { return allclose(a.to(cpu), b, 1e-5, 1e-6); };
  for (int start : {0, 3}) {
    for (int call = 0; call < 3; ++call) {
      cuda_backend::LaunchCounter counter;
      const Tensor y = rotary_embedding(there, start, 777);
      CHECK(counter.of("rotary_tables") == (start > 0 || call == 0));
      CHECK(close(y, rotary_embedding(x, start, 777)));
    }
  }
  double base = 778;
  auto step = jit::capture([&](const Tensor& t) { return rotary_embedding(t, 0, base); });
  CHECK(close(step(there), rotary_embedding(x, 0, 778)));
  base = 779;  // the next call records
  for (int call = 0; call < 3; ++call) CHECK(close(step(there), rotary_embedding(x, 0, 779)));
  CHECK(step.replays() == 2);
  CHECK(close(rotary_embedding(there, 0, 779), rotary_embedding(x, 0, 779)));
  step.reset();
  CHECK(close(rotary_embedding(there, 0, 779), rotary_embedding(x, 0, 779)));
}

TEST_CASE("regions between replays see the weights as they are, and do not disturb the captured step") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  struct Two {
    nn::Linear in{8, 32}, out{32, 4};
    MANTISSA_FIELDS(in, out)
    Tensor operator()(const Tensor& x) const { return out(relu(in(x))); }
  };
  const auto run = [](bool captured, Dtype training, Dtype evaluation) {
    manual_seed(21);
    Two net;
    nn::to(net, cuda);
    optim::AdamW opt(nn::parameters(net), {.lr = 1e-2});
    const auto body = [&](const Tensor& x, const Tensor& label) {
      const auto loss_of = [&] { return cross_entropy(net(x), label); };
      backward(training == f32 ? loss_of() : amp::autocast(training, loss_of));
      opt.step();
      opt.zero_grad();
    };
    auto step = jit::capture(body);
    const Tensor test = randn({16, 8}).to(cuda);
    std::vector<std::vector<float>> seen;
    const auto evaluate = [&] {
      const NoGrad no_grad;
      seen.push_back(amp::autocast(evaluation, [&] { return net(test); }).to(f32).to(cpu).to_vector<float>());
    };
    for (int i = 0; i < 9; ++i) {
      const Tensor x = randn({16, 8}).to(cuda), label = randint(0, 4, {16}, {.dtype = i64}).to(cuda);
      if (captured) step(x, label);
      else body(x, label);
      if (i % 2 == 1) evaluate();
      if (i == 4) {  // other weights for a moment, as those of an average
        const NoGrad no_grad;
        std::vector<Tensor> own;
        for (Tensor p : nn::parameters(net)) own.push_back(p.detach().clone()), p.mul_(2.0);
        evaluate();
        for (std::size_t k = 0; k < own.size(); ++k) nn::parameters(net)[k].copy_(own[k]);
      }
      if (i == 6) {  // weights that stay, as loaded ones
        const NoGrad no_grad;
        for (Tensor p : nn::parameters(net)) p.mul_(0.5);
      }
    }
    for (const Tensor& p : nn::parameters(net)) seen.push_back(p.detach().to(cpu).to_vector<float>());
    if (captured) CHECK(step.replays() == 7);
    return seen;
  };
  for (const Dtype training : {f16, bf16, f32}) {
    for (const Dtype evaluation : {f16, bf16}) {
      INFO(name_of(training) << ", evaluated in " << name_of(evaluation));
      const auto eager = run(false, training, evaluation), captured = run(true, training, evaluation);
      REQUIRE(eager.size() == captured.size());
      for (std::size_t i = 0; i < eager.size(); ++i) {
        INFO(i);
        CHECK(same(eager[i], captured[i]));
      }
    }
  }
}

TEST_CASE("values on the host are read in every call, or refused") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  auto product = jit::capture([](const Tensor& x, const Tensor& t) { return x * t; });
  const Tensor x = ones({3}).to(cuda);
  for (int i = 1; i < 5; ++i)
    CHECK(product(x, scalar(i)).to(cpu).to_vector<float>() == std::vector<float>(3, static_cast<float>(i)));
  float value = 1;
  auto baked = jit::capture([&](const Tensor& t) { return t * full({1}, value).to(cuda); });
  CHECK(baked(x).to(cpu).to_vector<float>() == std::vector<float>(3, 1.0f));
  std::string said = "nothing was thrown";
  try {
    baked(x);
  } catch (const Error& e) {
    said = e.what();
  }
  CHECK(said.find("made a tensor from host data") != std::string::npos);
}

TEST_CASE("a captured evaluation sees what another captured step has done to the weights") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const auto run = [](bool captured, Dtype training, bool clamps) {
    manual_seed(22);
    nn::Linear net{8, 4};
    nn::to(net, cuda);
    optim::Sgd opt(nn::parameters(net), {.lr = 0.5});
    const auto train = [&](const Tensor& x) {
      const auto loss_of = [&] { return mean(square(net(x))) - mean(net(x)); };
      backward(training == f32 ? loss_of() : amp::autocast(training, loss_of));
      opt.step();
      opt.zero_grad();
      const NoGrad no_grad;
      if (clamps)
        for (Tensor p : nn::parameters(net)) p.clamp_(-0.1, 0.1);
    };
    const auto evaluate = [&](const Tensor& x) {
      const NoGrad no_grad;
      return amp::autocast(bf16, [&] { return net(x); }).to(f32);
    };
    auto step = jit::capture(train);
    auto look = jit::capture(evaluate);
    std::vector<std::vector<float>> seen;
    for (int i = 0; i < 6; ++i) {
      const Tensor x = randn({16, 8}).to(cuda);
      if (captured) step(x);
      else train(x);
      seen.push_back((captured ? look(x) : evaluate(x)).to(cpu).to_vector<float>());
    }
    return seen;
  };
  for (const Dtype training : {f32, bf16}) {
    for (const bool clamps : {false, true}) {
      INFO(name_of(training) << (clamps ? ", clamped" : ""));
      const auto eager = run(false, training, clamps), captured = run(true, training, clamps);
      for (std::size_t i = 0; i < eager.size(); ++i) {
        INFO(i);
        CHECK(same(eager[i], captured[i]));
      }
    }
  }
}

TEST_CASE("frozen weights that are loaded between replays reach the captured step") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  nn::Linear base{8, 4};
  nn::to(base, cuda);
  nn::requires_grad_(base, false);
  const amp::FrozenCasts casts(nn::parameters(base));
  const auto body = [&](const Tensor& x) { return amp::autocast(bf16, [&] { return base(x); }).to(f32); };
  auto step = jit::capture(body);
  const Tensor x = randn({16, 8}).to(cuda);
  for (int i = 0; i < 6; ++i) {
    CHECK(same(step(x).to(cpu).to_vector<float>(), body(x).to(cpu).to_vector<float>()));
    amp::autocast(f16, [&] { return base(x); });
    if (i == 3)
      for (Tensor p : nn::parameters(base)) p.mul_(2.0);
  }
}

TEST_CASE("a captured step may write frozen weights, as a moving average does") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  nn::Linear base{8, 4}, teacher{8, 4};
  nn::to(base, cuda);
  const Tensor x = randn({16, 8}).to(cuda);
  std::vector<std::vector<float>> wanted;
  for (const bool captured : {false, true}) {
    nn::load_state_dict(teacher, nn::state_dict(nn::clone(base)));
    nn::to(teacher, cuda);
    nn::requires_grad_(teacher, false);
    const amp::FrozenCasts casts(nn::parameters(teacher));
    const auto body = [&](const Tensor& t) {
      const Tensor y = amp::autocast(bf16, [&] { return teacher(t); }).to(f32);
      for (Tensor p : nn::parameters(teacher)) p.mul_(1.25);
      return y;
    };
    auto step = jit::capture(body);
    for (int i = 0; i < 6; ++i) {
      const Tensor y = (captured ? step(x) : body(x)).to(cpu);
      const Tensor outside = amp::autocast(bf16, [&] { return teacher(x); }).to(f32).to(cpu);
      if (!captured) {
        wanted.push_back(y.to_vector<float>());
        wanted.push_back(outside.to_vector<float>());
        continue;
      }
      INFO(i);
      CHECK(same(y.to_vector<float>(), wanted[static_cast<std::size_t>(2 * i)]));
      CHECK(same(outside.to_vector<float>(), wanted[static_cast<std::size_t>(2 * i + 1)]));
    }
  }
}

TEST_CASE("after a recording that failed, training goes on as if it had not been tried") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const Tensor x = randn({16, 8}).to(cuda);
  nn::Linear start{8, 4};
  std::vector<std::vector<float>> ends;
  for (const bool fails : {false, true}) {
    nn::Linear net = nn::clone(start);
    nn::to(net, cuda);
    optim::Adam opt(nn::parameters(net), {.lr = 0.1});
    const auto body = [&](const Tensor& t) {
      const Tensor loss = square(net(t)).mean();
      backward(loss);
      if (fails) (void)loss.item();
      opt.step();
      opt.zero_grad();
    };
    auto step = jit::capture(body);
    step(x);
    if (fails) CHECK_THROWS_AS(step(x), Error);
    for (int i = 0; i < 3; ++i) body(x);
    ends.push_back(net.weight.to(cpu).to_vector<float>());
  }
  CHECK(same(ends[0], ends[1]));
}

TEST_CASE("after a recording that failed, and after a net has moved, weights are cast again") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  nn::Linear net{8, 4};
  nn::to(net, cuda);
  bool reads = true;
  auto step = jit::capture([&](const Tensor& x) {
    const Tensor y = amp::autocast(bf16, [&] { return net(x); });
    if (reads) (void)y.sum().item();
    return y.to(f32);
  });
  const Tensor x = randn({16, 8}).to(cuda);
  const auto eager = [&](const Tensor& t) { return amp::autocast(bf16, [&] { return net(t); }).to(f32).to(cpu); };
  step(x);
  {
    const NoGrad no_grad;
    for (Tensor p : nn::parameters(net)) p.mul_(2.0);
  }
  CHECK_THROWS_AS(step(x), Error);
  const std::vector<float> wanted = eager(x).to_vector<float>();
  nn::to(net, f64);
  nn::to(net, f32);
  CHECK(same(eager(x).to_vector<float>(), wanted));
  reads = false;
  step(x);
  step(x);
  CHECK(same(step(x).to(cpu).to_vector<float>(), wanted));
  nn::to(net, cpu);
  CHECK(eager(x.to(cpu)).sizes() == Dims{16, 4});
}
