// Properties of every optimizer besides its numbers (tests/golden_optim_test.cpp): a skipped step changes nothing, no
// step reads the device, a saved state resumes bitwise, results do not depend on the number of threads nor on where an
// element lies, f32 masters and a bf16 state work.
#include "tests/every_optimizer.h"

#include <cmath>
#include <limits>
#include <optional>
#include <variant>

#include "amp/autocast.h"
#include "amp/grad_scaler.h"
#include "autograd/grad_mode.h"
#include "core/host_reads.h"
#include "core/ops.h"
#include "core/parallel.h"
#include "optim/lbfgs.h"
#include "tests/catch_compat.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

std::map<std::string, Make> every_optimizer() {
  std::map<std::string, Make> all = optimizers();
  all.merge(muons(bf16));
  return all;
}
// Only matrices for Muon; sizes with tails for all others.
std::vector<Tensor> model(const std::string& name, Dtype dtype = f32) {
  std::vector<Tensor> p;
  std::uint64_t stream = 0;
  for (const Dims& sizes : {Dims{19, 7}, Dims{5, 33}, Dims{3}, Dims{}, Dims{2, 3, 5}, Dims{0, 4}, Dims{40001}}) {
    ++stream;
    if (!name.starts_with("muon") || stream <= 2) p.push_back(random_tensor(sizes, stream).to(dtype).requires_grad_());
  }
  return p;
}
void set_gradients(std::vector<Tensor>& p, std::uint64_t step, Dtype dtype = f32) {
  for (std::size_t i = 0; i < p.size(); ++i) p[i].set_grad(random_tensor(p[i].sizes(), 100 * (step + 1) + i).to(dtype));
}
bool same(const NamedTensors& a, const NamedTensors& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].first != b[i].first || !same_bits(a[i].second, b[i].second)) return false;
  }
  return true;
}
std::vector<Tensor> copies(const std::vector<Tensor>& list) {
  std::vector<Tensor> result;
  for (const Tensor& t : list) result.push_back(t.detach().clone().requires_grad_());
  return result;
}
void check_same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(same_bits(a[i].detach(), b[i].detach()));
}

// Adam and SGD composed of operators, as a user would: steps are skipped and state is advanced by select.
struct Unfused : amp::Steppable {
  Unfused(std::vector<Tensor> p, const optim::AdamOptions& adam) : p(std::move(p)), adam(adam) { start(3); }
  Unfused(std::vector<Tensor> p, const optim::SgdOptions& sgd) : p(std::move(p)), sgd(sgd) { start(1); }
  void start(std::size_t states) {
    for (const Tensor& x : p) {
      state.emplace_back();
      for (std::size_t k = 0; k < states; ++k) state.back().push_back(zeros_like(x));
    }
  }
  std::vector<Tensor> parameters() const override { return p; }
  std::string parameter_name(std::size_t i) const override { return "p" + std::to_string(i); }
  void step_unless(const Tensor& skip) override {
    const NoGrad no_grad;
    const auto write = [&](Tensor to, const Tensor& value) {
      to.copy_(skip.defined() ? where(skip, to, value) : value);
    };
    steps.copy_(skip.defined() ? where(skip, steps, steps + 1) : steps + 1);
    for (std::size_t i = 0; i < p.size(); ++i) {
      if (!p[i].grad().defined()) continue;
      const Tensor value = p[i].detach();
      if (adam) write_adam(write, value, p[i].grad(), state[i]);
      else write_sgd(write, value, p[i].grad(), state[i]);
    }
  }
  template <class W> void write_adam(W&& write, const Tensor& value, Tensor g, std::vector<Tensor>& s) {
    const auto& o = *adam;
    if (o.maximize) g = -g;
    if (!o.decoupled_weight_decay) g = g + value * o.weight_decay;
    const Tensor m = s[0] * o.betas[0] + g * (1 - o.betas[0]), v = s[1] * o.betas[1] + g * g * (1 - o.betas[1]);
    const Tensor top = o.amsgrad ? maximum(s[2], v) : v;
    const Tensor correction1 = 1 - pow(full({}, o.betas[0], {.dtype = f64}), steps),
                 correction2 = 1 - pow(full({}, o.betas[1], {.dtype = f64}), steps);
    const Tensor denominator = sqrt(top) / sqrt(correction2).to(value.dtype()) + o.eps;
    const Tensor shrunk = o.decoupled_weight_decay ? value * (1 - o.lr * o.weight_decay) : value;
    write(value, shrunk - m / denominator * (o.lr / correction1).to(value.dtype()));
    write(s[0], m);
    write(s[1], v);
    write(s[2], top);
  }
  template <class W> void write_sgd(W&& write, const Tensor& value, Tensor g, std::vector<Tensor>& s) {
    const auto& o = *sgd;
    if (o.maximize) g = -g;
    g = g + value * o.weight_decay;
    const Tensor buffer = s[0] * o.momentum + g;  // starts at 0: the first is the gradient
    write(value, value - (o.nesterov ? g + buffer * o.momentum : buffer) * o.lr);
    write(s[0], buffer);
  }
  std::vector<Tensor> p;
  std::optional<optim::AdamOptions> adam;
  std::optional<optim::SgdOptions> sgd;
  std::vector<std::vector<Tensor>> state;
  Tensor steps = zeros({}, {.dtype = f64});
};

}  // namespace

TEST_CASE("what becomes of an element does not depend on where it lies") {
  constexpr std::int64_t period = 61, periods = 21;  // no multiple of a vector, more than a tile, a rest
  const auto repeated = [&](std::uint64_t stream, Dtype dtype) {
    return random_tensor({period}, stream).to(dtype).repeat({periods});
  };
  const auto repeats = [&](const Tensor& t) {
    const Tensor x = t.detach();
    return same_bits(x.slice(0, 0, period * (periods - 1)), x.slice(0, period, period * periods));
  };
  for (const Dtype dtype : {f32, f64}) {
    for (const auto& [name, make] : optimizers()) {
      INFO(name << ", " << name_of(dtype));
      std::vector<Tensor> p{repeated(1, dtype).requires_grad_()};
      const auto o = make(p, {});
      for (std::uint64_t step = 0; step < 4; ++step) {
        p[0].set_grad(repeated(2 + step, dtype));
        o->step();
      }
      CHECK(repeats(p[0]));
      for (const auto& [what, state] : o->state_dict()) {
        INFO(what);
        if (state.sizes() == p[0].sizes()) CHECK(repeats(state));
      }
    }
  }
}

// Norms of a whole parameter are sums in the order of memory: not to the same bits.
TEST_CASE("a channels-last parameter is updated as a contiguous one") {
  for (const auto& [name, make] : optimizers()) {
    INFO(name);
    std::vector<Tensor> expected{random_tensor({5, 3, 4, 2}, 1).requires_grad_()};
    std::vector<Tensor> p{channels_last(expected[0].detach()).requires_grad_()};
    const auto other = make(expected, {}), o = make(p, {});
    for (std::uint64_t step = 0; step < 4; ++step) {
      set_gradients(expected, step, f64);
      const Tensor g = expected[0].grad();
      p[0].set_grad(step % 2 == 0 ? channels_last(g) : g);
      other->step(), o->step();
    }
    CHECK(is_channels_last(p[0].sizes(), p[0].strides()));
    CHECK(difference(p[0], expected[0], tolerance_for(f64, 1000)) == "");
  }
}

TEST_CASE("G22: the fused update equals the same in operators: parameters, state and gradients, with a scaler",
          "[optim][scaler]") {
  MANTISSA_PRINT_SEED();
  std::vector<std::variant<optim::AdamOptions, optim::SgdOptions>> all;
  for (const bool amsgrad : {false, true}) {
    for (const double weight_decay : {0.0, 0.1}) {
      for (const bool maximize : {false, true}) {
        for (const bool decoupled : {false, true}) {
          all.push_back(optim::AdamOptions{.lr = 0.05,
                                           .weight_decay = weight_decay,
                                           .amsgrad = amsgrad,
                                           .maximize = maximize,
                                           .decoupled_weight_decay = decoupled});
        }
        all.push_back(optim::SgdOptions{
            .lr = 0.05, .momentum = 0.9, .weight_decay = weight_decay, .nesterov = amsgrad, .maximize = maximize});
      }
    }
  }
  for (const auto& options : all) {
    for (const bool unscale_first : {false, true}) {
      std::vector<Tensor> p = model(""), q = copies(p);
      std::unique_ptr<optim::Optimizer> fused;
      std::unique_ptr<Unfused> plain;
      if (const auto* adam = std::get_if<optim::AdamOptions>(&options)) {
        fused = std::make_unique<optim::Adam>(p, *adam);
        plain = std::make_unique<Unfused>(q, *adam);
      } else {
        fused = std::make_unique<optim::Sgd>(p, std::get<optim::SgdOptions>(options));
        plain = std::make_unique<Unfused>(q, std::get<optim::SgdOptions>(options));
      }
      amp::GradScaler a({.init_scale = 128, .growth_interval = 2}), b({.init_scale = 128, .growth_interval = 2});
      for (std::uint64_t t = 0; t < 5; ++t) {
        a.scale(ones({}));
        b.scale(ones({}));
        set_gradients(p, t);
        set_gradients(q, t);
        if (t == 2) {
          for (const auto* list : {&p, &q})
            (*list)[0].grad().as_strided({}, {}, 1).fill_(std::numeric_limits<double>::infinity());
        }
        if (unscale_first) {
          a.unscale_(*fused);
          b.unscale_(*plain);
        }
        CHECK(a.step(*fused).skipped() == (t == 2));
        CHECK(b.step(*plain).skipped() == (t == 2));
        a.update();
        b.update();
        for (std::size_t i = 0; i < p.size(); ++i) CHECK(same_bits(p[i].grad(), q[i].grad()));
      }
      CHECK(a.get_scale() == b.get_scale());
      const NamedTensors state = fused->state_dict();
      const auto find = [&](const std::string& name) {
        for (const auto& [key, tensor] : state) if (key == name) return tensor;
        return Tensor();
      };
      for (std::size_t i = 0; i < p.size(); ++i) {
        const std::string prefix = "state." + std::to_string(i) + ".";
        CHECK(difference(p[i].detach(), q[i].detach().to(f64), {1e-5, 1e-6}) == "");
        CHECK(find(prefix + "step").item() == 4);
        for (const auto& [k, name] :
             {std::pair{0, "exp_avg"}, {1, "exp_avg_sq"}, {2, "max_exp_avg_sq"}, {0, "momentum_buffer"}}) {
          const Tensor own = find(prefix + name);
          if (own.defined())
            CHECK(difference(own, plain->state[i][static_cast<std::size_t>(k)].to(f64), {1e-5, 1e-6}) == "");
        }
      }
    }
  }
}

TEST_CASE("a step the scaler skips changes nothing, and no step of any optimizer reads the device", "[optim]") {
  MANTISSA_PRINT_SEED();
  for (const auto& [name, make] : every_optimizer()) {
    INFO(name);
    std::vector<Tensor> p = model(name);
    const auto opt = make(p, {});
    amp::GradScaler scaler({.init_scale = 8});
    const auto step = [&](std::uint64_t t, bool overflow) {
      scaler.scale(ones({}));
      set_gradients(p, t);
      if (overflow) p[1].grad().as_strided({}, {}, 3).fill_(std::numeric_limits<double>::infinity());
      const std::uint64_t before = host_reads();
      scaler.step(*opt);
      scaler.update();
      CHECK(host_reads() == before);
    };
    step(0, false);
    step(1, false);
    const std::vector<Tensor> values = copies(p);
    const NamedTensors state = opt->state_dict();
    step(2, true);
    check_same(p, values);
    CHECK(same(opt->state_dict(), state));
    step(3, false);
    CHECK(!same_bits(p[0].detach(), values[0].detach()));
    CHECK(opt->state_dict().size() == state.size());
  }
}

TEST_CASE("every optimizer resumes bitwise, whatever the memory options and the number of threads", "[optim]") {
  MANTISSA_PRINT_SEED();
  const int threads = num_threads();
  for (const auto& [name, make] : every_optimizer()) {
    for (const optim::MemoryOptions& memory :
         {optim::MemoryOptions{}, {.master_weights = true, .state_dtype = bf16}, {.master_weights = true}}) {
      if (memory.state_dtype && name.starts_with("adafactor")) continue;
      INFO(name << (memory.master_weights ? " with masters" : "") << (memory.state_dtype ? " in bf16" : ""));
      const Dtype dtype = memory.master_weights ? bf16 : f32;
      std::vector<Tensor> p = model(name, dtype);
      const auto opt = make(p, memory);
      const auto train = [](optim::Optimizer& o, std::vector<Tensor>& q, std::uint64_t from, std::uint64_t to) {
        for (std::uint64_t t = from; t < to; ++t) {
          set_gradients(q, t);
          if (t == 1) q[1].set_grad({});
          o.set_lr(o.lr() * 0.9);
          o.step();
        }
      };
      set_num_threads(2);
      train(*opt, p, 0, 3);
      const NamedTensors saved = opt->state_dict();
      std::vector<Tensor> q = copies(p);
      train(*opt, p, 3, 5);
      set_num_threads(1);
      const auto resumed = make(q, memory);
      resumed->load_state_dict(saved);
      CHECK(same(resumed->state_dict(), saved));
      train(*resumed, q, 3, 5);
      check_same(p, q);
      CHECK(same(opt->state_dict(), resumed->state_dict()));
    }
  }
  set_num_threads(threads);
}

TEST_CASE("a step inside an autocast region is the same step", "[optim]") {
  for (const auto& [name, make] : every_optimizer()) {
    INFO(name);
    std::vector<Tensor> p = model(name), q = copies(p);
    const auto plain = make(p, {}), inside = make(q, {});
    for (std::uint64_t t = 0; t < 2; ++t) {
      set_gradients(p, t);
      set_gradients(q, t);
      plain->step();
      amp::autocast(bf16, [&] { inside->step(); });
    }
    check_same(p, q);
  }
}

TEST_CASE("step(closure) calls it once with gradients on and returns its loss", "[optim]") {
  Tensor p = full({2}, 3).requires_grad_();
  optim::Sgd opt({p}, {.lr = 0.5});
  int calls = 0;
  const NoGrad no_grad;
  const Tensor loss = opt.step([&] {
    ++calls;
    opt.zero_grad();
    const Tensor l = square(p).sum();
    l.backward();
    return l;
  });
  CHECK(calls == 1);
  CHECK(loss.item() == 18);
  CHECK(same_bits(p.detach(), zeros({2})));
}

TEST_CASE("Muon's bf16 steps make the update nearly orthogonal", "[optim]") {
  MANTISSA_PRINT_SEED();
  for (const Dims& sizes : {Dims{24, 40}, Dims{40, 24}}) {
    Tensor p = zeros(sizes).requires_grad_();
    optim::Muon opt({p}, {.lr = 1, .weight_decay = 0, .adjust_lr_fn = optim::AdjustLr::original});
    p.set_grad(random_tensor(sizes, 5).to(f32));
    opt.step();
    const Tensor x = p.detach() * (sizes[0] > sizes[1] ? std::sqrt(24.0 / 40) : 1.0);  // without the rate's factor
    const Tensor gram = (sizes[0] > sizes[1] ? matmul(x.t(), x) : matmul(x, x.t())).to(f64);
    const double trace_mean = diagonal(gram).mean().item<double>();  // of squared singular values between 0.5 and 1.5
    CHECK(trace_mean > 0.5);
    CHECK(trace_mean < 1.4);
  }
}

TEST_CASE("LBFGS: the state resumes bitwise, a scaler works, bad calls and values are told or borne", "[optim]") {
  using Catch::Matchers::Contains;
  MANTISSA_PRINT_SEED();
  const Tensor target = random_tensor({6}, 3);
  const auto loss_of = [&](const Tensor& w) { return square(square(w) - target).sum(); };
  const auto closure = [&](optim::LBFGS& o, const Tensor& w) {
    return [&o, w, &loss_of] {
      o.zero_grad();
      const Tensor l = loss_of(w);
      l.backward();
      return l;
    };
  };
  const optim::LBFGSOptions options{
      .max_iter = 4, .history_size = 3, .line_search_fn = optim::LineSearch::strong_wolfe};
  Tensor w = (random_tensor({6}, 4) * 0.5).requires_grad_();
  optim::LBFGS opt({w}, options);
  for (int t = 0; t < 3; ++t) opt.step(closure(opt, w));
  const NamedTensors saved = opt.state_dict();
  Tensor q = w.detach().clone().requires_grad_();
  optim::LBFGS resumed({q}, options);
  resumed.load_state_dict(saved);
  CHECK(resumed.iterations() == opt.iterations());
  for (int t = 0; t < 3; ++t) {
    opt.step(closure(opt, w));
    resumed.step(closure(resumed, q));
  }
  CHECK(same_bits(w.detach(), q.detach()));
  CHECK(same(opt.state_dict(), resumed.state_dict()));
  optim::LBFGS small({w}, {.history_size = 1});
  CHECK_THAT(message_of([&] { small.load_state_dict(opt.state_dict()); }), Contains("history_size is 1"));
  CHECK_THAT(message_of([&] { opt.load_state_dict(optim::Sgd({w}).state_dict()); }), Contains("group.0.weight_decay"));

  amp::GradScaler scaler({.init_scale = 1024});
  Tensor a = w.detach().clone().requires_grad_(), b = w.detach().clone().requires_grad_();
  optim::LBFGS plain({a}, options), scaled({b}, options);
  for (int t = 0; t < 3; ++t) {
    plain.step(closure(plain, a));
    scaled.step([&] {
      scaled.zero_grad();
      const Tensor l = loss_of(b);
      scaler.scale(l).backward();
      scaler.unscale_(scaled);
      scaler.update();
      return l;
    });
  }
  CHECK(same_bits(a.detach(), b.detach()));
  CHECK_THAT(message_of([&] {
               scaler.scale(ones({}));
               b.set_grad(ones_like(b.detach()));
               scaler.step(scaled);
             }),
             Contains("step(closure)"));

  const Tensor before = w.detach().clone();
  opt.step([&] {
    w.set_grad(full({6}, std::numeric_limits<double>::quiet_NaN(), {.dtype = f64}));
    return scalar(1.0, {.dtype = f64});
  });
  CHECK(same_bits(w.detach(), before));
  for (const optim::LineSearch search : {optim::LineSearch::none, optim::LineSearch::strong_wolfe}) {
    Tensor x = full({1}, 2, {.dtype = f64}).requires_grad_();  // log(x): not a number beyond 0
    optim::LBFGS into({x}, {.lr = 50, .max_iter = 5, .line_search_fn = search});
    into.step([&] {
      into.zero_grad();
      const Tensor l = (x * x - log(x)).sum();
      l.backward();
      return l;
    });
    CHECK(std::isfinite(x.item<double>()));
  }
}
