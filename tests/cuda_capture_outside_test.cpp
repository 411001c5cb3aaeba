// What happens outside of a captured step, between its calls, to the gradients, weights and other memory that it uses:
// whatever it is, the step computes the bits of the step as it is.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mantissa.h"
#include "tests/catch_compat.h"
#include "tests/stderr_of.h"

using namespace mantissa;

namespace {

struct Net {
  nn::Linear in{4, 16}, out{16, 2};
  MANTISSA_FIELDS(in, out)
  Tensor operator()(const Tensor& x) const { return out(relu(in(x))); }
};

// What a training program uses in its step and outside of it.
struct Training {
  Net net;
  optim::Adam opt{(nn::to(net, cuda), nn::parameters(net)), {.lr = 0.05}};
  amp::GradScaler scaler{{.init_scale = 1024, .growth_interval = 3}};
  Tensor mask = ones({8, 4}).to(cuda);
  Net kept = nn::clone(net);

  void backward_scaled(const Tensor& loss) { backward(scaler.scale(loss)); }
  Tensor loss(const Tensor& x, const Tensor& y) {
    return amp::autocast(f16, [&] { return mse_loss(net(x * mask), y); });
  }
  void step_and_update() {
    scaler.step(opt);
    scaler.update();
  }
};

struct Program {
  std::string name;
  std::function<Tensor(Training&, const Tensor&, const Tensor&)> step;
  std::function<void(Training&, int)> outside = [](Training&, int) {};  // after call i
  std::int64_t replays = 10;  // of 12 calls
};

struct Found {
  std::vector<std::vector<float>> values;
  std::int64_t replays = 0;
};
Found run(const Program& program, bool captured) {
  manual_seed(21);
  Training t;
  auto step = jit::capture([&](const Tensor& x, const Tensor& y) { return program.step(t, x, y); });
  Found f;
  for (int i = 0; i < 12; ++i) {
    const Tensor x = randn({8, 4}).to(cuda) * (i == 3 ? 1e6 : 1), y = randn({8, 2}).to(cuda);  // 1e6: overflows
    const Tensor loss = captured ? step(x, y) : program.step(t, x, y);
    f.values.push_back(loss.to(cpu).to_vector<float>());
    program.outside(t, i);
    for (const Tensor& p : nn::parameters(t.net)) {
      f.values.push_back(p.detach().to(cpu).to_vector<float>());
      if (p.grad().defined()) f.values.push_back(p.grad().to(cpu).to_vector<float>());
    }
  }
  f.replays = step.replays();
  return f;
}

bool same_bits(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  return std::ranges::equal(a, b, [](const std::vector<float>& x, const std::vector<float>& y) {
    return std::ranges::equal(x, y, [](float u, float v) {
      return std::bit_cast<std::uint32_t>(u) == std::bit_cast<std::uint32_t>(v) || (std::isnan(u) && std::isnan(v));
    });
  });
}

Tensor gradients_only(Training& t, const Tensor& x, const Tensor& y) {
  const Tensor loss = t.loss(x, y);
  t.backward_scaled(loss);
  return loss;
}
Tensor whole_step(Training& t, const Tensor& x, const Tensor& y) {
  const Tensor loss = gradients_only(t, x, y);
  t.step_and_update();
  t.opt.zero_grad();
  return loss;
}
// A whole step in each call, and after the fifth something else.
Program disturbed(const std::string& name, std::function<void(Training&)> event, std::int64_t replays = 8) {
  return {name, whole_step, [event](Training& t, int i) { if (i == 4) event(t); }, replays};
}

std::vector<Program> programs() {
  return {
      {"the optimizer outside, which gives gradients up", gradients_only,
       [](Training& t, int) {
         t.step_and_update();
         t.opt.zero_grad();
       }},
      {"the optimizer outside, which sets gradients to zero", gradients_only,
       [](Training& t, int) {
         t.step_and_update();
         t.opt.zero_grad(false);
       },
       9},  // the first call finds none
      {"the optimizer outside, gradients given up by the step",
       [](Training& t, const Tensor& x, const Tensor& y) {
         t.opt.zero_grad();
         return gradients_only(t, x, y);
       },
       [](Training& t, int) { t.step_and_update(); }},
      {"the optimizer outside, gradients set to zero by the step",
       [](Training& t, const Tensor& x, const Tensor& y) {
         t.opt.zero_grad(false);
         return gradients_only(t, x, y);
       },
       [](Training& t, int) { t.step_and_update(); }, 9},
      {"clipped outside", gradients_only,
       [](Training& t, int) {
         t.scaler.unscale_(t.opt);
         optim::clip_grad_norm_(nn::parameters(t.net), 0.5);
         t.step_and_update();
         t.opt.zero_grad();
       }},
      {"gradients that are only given up outside",
       [](Training& t, const Tensor& x, const Tensor& y) {
         const Tensor loss = gradients_only(t, x, y);
         t.step_and_update();
         return loss;
       },
       [](Training& t, int) { t.opt.zero_grad(); }},
      // The first batch of four makes gradients and the others add to them: two recordings, the second of which the
      // second group of batches records anew, for the gradients that the first one has made since.
      {"gradients of four batches", gradients_only,
       [](Training& t, int i) {
         if (i % 4 != 3) return;
         t.step_and_update();
         t.opt.zero_grad();
       },
       6},
      {"gradients of the call before",
       [](Training& t, const Tensor& x, const Tensor& y) {
         if (t.net.out.weight.grad().defined()) t.step_and_update();
         t.opt.zero_grad();
         return gradients_only(t, x, y);
       },
       [](Training&, int) {}, 0},
      {"a leaf that is made within the step",
       [](Training& t, const Tensor& x, const Tensor& y) {
         const Tensor input = x.detach().requires_grad_();
         const Tensor loss = t.loss(input, y);
         backward(loss, {}, {.retain_graph = true});
         t.opt.zero_grad();
         t.backward_scaled(loss + 0.1 * sum(t.net(x + input.grad())));
         t.step_and_update();
         t.opt.zero_grad();
         return loss;
       }},
      disturbed("frozen weights", [](Training& t) { nn::requires_grad_(t.net.in, false); }),
      {"weights frozen within the step",
       [](Training& t, const Tensor& x, const Tensor& y) {
         nn::requires_grad_(t.net.in, false);
         const Tensor loss = gradients_only(t, x, y);
         nn::requires_grad_(t.net.in, true);
         return loss;
       },
       [](Training& t, int) {
         t.step_and_update();
         t.opt.zero_grad();
       }},
      {"weights unfrozen later", whole_step,
       [](Training& t, int i) {
         if (i == 0) nn::requires_grad_(t.net.in, false);
         if (i == 4) nn::requires_grad_(t.net.in, true);
       },
       8},
      disturbed("a net that moves", [](Training& t) { nn::to(t.net, cpu), nn::to(t.net, cuda); }),
      disturbed("a tensor that is replaced", [](Training& t) { t.mask = full({8, 4}, 0.5).to(cuda); }),
      {"a tensor that is replaced each time", whole_step,
       [](Training& t, int i) { t.mask = full({8, 4}, i).to(cuda); }, 0},
      disturbed("a tensor that is written to", [](Training& t) { t.mask.fill_(0.5); }, 10),
      disturbed("loaded weights", [](Training& t) { nn::load_state_dict(t.net, nn::state_dict(t.kept)); }, 10),
      disturbed("a loaded optimizer", [](Training& t) { t.opt.load_state_dict(t.opt.state_dict()); }, 10),
      disturbed("a group more", [](Training& t) { t.opt.add_group(nn::parameters(t.kept), {.lr = 1e-3}); }),
      disturbed("another use of the gradients", [](Training& t) {
        backward(sum(t.net(ones({1, 4}).to(cuda))));
        t.opt.zero_grad();
      }, 10),
  };
}

}  // namespace

TEST_CASE("a captured step is bitwise the step as it is, whatever happens outside of it") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  for (const Program& program : programs()) {
    INFO(program.name);
    const Found expected = run(program, false), found = run(program, true);
    CHECK(same_bits(found.values, expected.values));
    CHECK(found.replays == program.replays);
  }
}

TEST_CASE("calls of a captured step under other modes are recorded separately") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  manual_seed(22);
  Net net;
  nn::to(net, cuda);
  const auto body = [&](const Tensor& x) { return net(x); };
  auto step = jit::capture(body);
  for (int i = 0; i < 4; ++i) {
    const Tensor x = randn({8, 4}).to(cuda);
    const auto both = [&](auto&& f) { CHECK(equal(f(step).to(cpu), f(body).to(cpu))); };
    both([&](auto& f) { return amp::autocast(bf16, [&] { return f(x); }); });
    both([&](auto& f) { return amp::autocast(f16, [&] { return f(x); }); });
    both([&](auto& f) {
      const NoGrad no_grad;
      return f(x);
    });
  }
  CHECK(step.recordings() == 3);
  CHECK(step.replays() == 6);
}

TEST_CASE("a captured step notices nn::train and nn::eval of its modules, and returns to its recordings with them") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  struct Normed {
    nn::Linear in{4, 16}, out{16, 2};
    nn::BatchNorm1d norm{16};
    nn::Dropout drop{0.5};
    MANTISSA_FIELDS(in, norm, drop, out)
    Tensor operator()(const Tensor& x) const { return out(drop(relu(norm(in(x))))); }
  };
  const auto run = [](bool captured, std::int64_t& replays) {
    manual_seed(23);
    Normed net, other;
    nn::to(net, cuda);
    const auto body = [&](const Tensor& x) { return net(x); };
    auto step = jit::capture(body);
    std::vector<std::vector<float>> values;
    for (int epoch = 0; epoch < 3; ++epoch) {
      for (int i = 0; i < 8; ++i) {
        if (i % 4 == 0) nn::train(net, i < 4);
        if (i == 2) nn::train(net.drop, epoch != 1);
        if (i == 6) nn::eval(net), nn::train(other, true);  // changes nothing
        const Tensor x = randn({8, 4}).to(cuda);
        values.push_back((captured ? step(x) : body(x)).detach().to(cpu).to_vector<float>());
        values.push_back(net.norm.running_mean.to(cpu).to_vector<float>());
      }
    }
    replays = step.replays();
    return values;
  };
  std::int64_t replays = 0;
  const auto expected = run(false, replays), found = run(true, replays);
  CHECK(same_bits(found, expected));
  // Three combinations of modes, of which each runs once and is recorded once.
  CHECK(replays == 24 - 3 * 2);
}

TEST_CASE("a captured step notices whether TF32 is allowed") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  manual_seed(24);
  const Tensor w = randn({64, 64}).to(cuda), x = randn({64, 64}).to(cuda);
  const auto body = [&](const Tensor& a) { return matmul(a, w); };
  auto step = jit::capture(body);
  const Tensor exact = body(x).clone();
  for (int i = 0; i < 6; ++i) {
    allow_tf32(i % 2 == 1);
    CHECK(equal(step(x).to(cpu), body(x).to(cpu)));
    if (i % 2 == 0) CHECK(equal(step(x).to(cpu), exact.to(cpu)));
  }
  allow_tf32(false);
  CHECK(step.recordings() == 2);
}

TEST_CASE("gradients that a captured step made outlive it") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const Tensor w = ones({4}).to(cuda).requires_grad_(), x = full({4}, 3).to(cuda);
  std::optional<jit::Captured<std::function<void(const Tensor&)>>> step;
  step.emplace(jit::capture(std::function<void(const Tensor&)>([&](const Tensor& t) { backward(sum(w * t)); })));
  for (int i = 0; i < 4; ++i) {
    Tensor(w).set_grad({});
    (*step)(x);
  }
  CHECK(step->replays() == 2);
  step.reset();
  empty_cache(cuda);
  const Tensor more = zeros({4}).to(cuda);
  CHECK(w.grad().to(cpu).to_vector<float>() == std::vector<float>(4, 3));
}

TEST_CASE("the memory of a recording is in its device's statistics") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const Tensor x = randn({50'000}).to(cuda);
  auto step = jit::capture([](const Tensor& t) { return t * 2.0 + 1.0; });
  for (int i = 0; i < 3; ++i) step(x);
  const MemoryStats with = memory_stats(cuda);
  CHECK(step.bytes() > 200'000);
  step.reset();
  CHECK(with.reserved - memory_stats(cuda).reserved > 200'000);
  CHECK(with.allocated - memory_stats(cuda).allocated > 400'000);  // the copy of the input, and the result
}

TEST_CASE("recordings that are outdated give their memory back") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  Training t;
  auto step = jit::capture([&](const Tensor& x, const Tensor& y) { return whole_step(t, x, y); });
  const Tensor x = randn({8, 4}).to(cuda), y = randn({8, 2}).to(cuda);
  std::size_t most = 0;
  for (int i = 0; i < 40; ++i) {
    if (i % 4 == 3) t.mask = full({8, 4}, i).to(cuda);
    step(x, y);
    if (i < 8) most = std::max(most, step.bytes());
    else CHECK(step.bytes() <= most);
  }
  CHECK(step.replays() == 19);
}

TEST_CASE("a captured step that is hardly ever replayed says so, once") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const Tensor w = ones({4}).to(cuda);
  const auto said = [](auto&& step, auto&& input, int calls) {
    return test::stderr_of([&] {
      for (int i = 0; i < calls; ++i) step(input(i));
    });
  };
  const auto gradient_of_input = [&](const Tensor& x) { backward(sum(x * w)); };
  const auto product = [&](const Tensor& x) { return x * w; };
  const auto fresh = [](int) { return ones({4}).to(cuda).requires_grad_(); };
  const auto longer = [](int i) { return ones({i + 1, 4}).to(cuda); };
  const auto same = [x = ones({4}).to(cuda)](int) { return x; };

  auto never_recorded = jit::capture(gradient_of_input);  // its input has got a gradient, the next one has none
  CHECK_THAT(said(never_recorded, fresh, 45),
             Catch::Matchers::Contains("of 20 calls of a step given to jit::capture 0 were replays (recordings: 0)"));
  CHECK(said(never_recorded, fresh, 45) == "");
  auto of_all_lengths = jit::capture(product);
  CHECK_THAT(said(of_all_lengths, longer, 45), Catch::Matchers::Contains("jit/capture.h lists what is recorded"));
  auto at_last = jit::capture(product);
  CHECK(said(at_last, longer, 10) == "");
  CHECK(said(at_last, same, 45) == "");
}

TEST_CASE("a loss scaler of which only a part is in the captured step says so") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const char* const advice = "put unscale_, step and update all into the captured step, or all outside of it";
  const auto message_of = [](auto&& within, auto&& outside) {
    Training t;
    auto step = jit::capture([&](const Tensor& x, const Tensor& y) {
      t.opt.zero_grad();
      const Tensor loss = gradients_only(t, x, y);
      within(t);
      return loss;
    });
    const Tensor x = randn({8, 4}).to(cuda), y = randn({8, 2}).to(cuda);
    try {
      for (int i = 0; i < 3; ++i) step(x, y), outside(t);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("nothing was thrown");
  };
  CHECK_THAT(message_of([](Training& t) { t.scaler.unscale_(t.opt); }, [](Training& t) { t.step_and_update(); }),
             Catch::Matchers::Contains("GradScaler.step: unscale_() at ") && Catch::Matchers::Contains(advice));
  CHECK_THAT(message_of([](Training& t) { t.scaler.step(t.opt); }, [](Training& t) { t.scaler.update(); }),
             Catch::Matchers::Contains("GradScaler.update: step() at ") && Catch::Matchers::Contains(advice));
}
