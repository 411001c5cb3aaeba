// Optimizers, schedules and clipping besides their numbers (tests/golden_optim_test.cpp): groups, dtypes, layouts,
// state, errors.
#include <cmath>
#include <limits>
#include <memory>
#include <string>

#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "autograd/node.h"
#include "amp/autocast.h"
#include "core/cpu/isa.h"
#include "core/parallel.h"
#include "optim/adam.h"
#include "optim/asgd.h"
#include "optim/clip.h"
#include "optim/rprop.h"
#include "optim/schedule.h"
#include "optim/sgd.h"
#include "tests/catch_compat.h"
#include "tests/stderr_of.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

constexpr int steps = 5, elements = 3;

Tensor initial(Dtype dtype = f64) {
  std::vector<double> v(elements);
  for (int i = 0; i < elements; ++i) v[static_cast<std::size_t>(i)] = 0.5 * i - 0.4;
  return from_data<double>(v, {elements}).to(dtype).requires_grad_();
}
Tensor gradient_of_step(int t, Dtype dtype = f64) {
  std::vector<double> v(elements);
  for (int i = 0; i < elements; ++i) v[static_cast<std::size_t>(i)] = std::sin(0.7 * t + i);
  return from_data<double>(v, {elements}).to(dtype);
}
void run(optim::Optimizer& opt, Tensor p, int from = 0, int to = steps) {
  for (int t = from; t < to; ++t) {
    p.set_grad(gradient_of_step(t, p.dtype()));
    opt.step();
  }
}

// The result of `steps` steps for a single parameter; tests/golden_optim_test.cpp checks these numbers against PyTorch.
template <class Opt, class O> Tensor alone(const O& options) {
  Tensor p = initial();
  Opt opt({p}, options);
  run(opt, p);
  return p.detach();
}

// Parameters of awkward sizes, with gradients, for tests of the kernel.
std::vector<Tensor> model(Dtype dtype = f32) {
  std::vector<Tensor> p;
  std::uint64_t stream = 0;
  for (const Dims& sizes : {Dims{3}, Dims{257, 129}, Dims{}, Dims{70001}, Dims{0, 4}, Dims{17}}) {
    p.push_back(random_tensor(sizes, ++stream).to(dtype).requires_grad_());
  }
  return p;
}
void set_gradients(std::vector<Tensor>& p, std::uint64_t stream) {
  for (Tensor& t : p) t.set_grad(random_tensor(t.sizes(), ++stream).to(t.dtype()));
}

bool same(const NamedTensors& a, const NamedTensors& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].first != b[i].first || !same_bits(a[i].second, b[i].second)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("an optimizer of tensors that require no gradient says so, at its first step alone") {
  const Tensor frozen = zeros({2}), other = zeros({3}), trained = initial();
  optim::SGD opt({frozen, other}, {.lr = 0.1});
  const std::string text = stderr_of([&] { opt.step(), opt.step(); });
  CHECK_THAT(text, Catch::Matchers::Contains("none of the optimizer's 2 tensors requires a gradient"));
  CHECK(text.find("none", text.find("none") + 1) == std::string::npos);
  optim::SGD some({frozen, trained}, {.lr = 0.1});
  CHECK(stderr_of([&] { some.step(); }).empty());
}

TEST_CASE("a half parameter is updated in f32 and rounded once per step", "[optim]") {
  for (Dtype dtype : {f16, bf16}) {
    Tensor p = initial(dtype);
    optim::Sgd opt({p}, {.lr = 0.1});
    std::vector<double> exact = p.to_vector<double>();
    for (int t = 0; t < steps; ++t) {
      const Tensor g = gradient_of_step(t, dtype);
      p.set_grad(g);
      opt.step();
      const std::vector<float> gradient = g.to_vector<float>();
      for (std::size_t i = 0; i < elements; ++i) {
        const float updated = static_cast<float>(exact[i]) - 0.1f * gradient[i];
        exact[i] = dtype == f16 ? static_cast<float>(Half(updated)) : static_cast<float>(BFloat16(updated));
      }
    }
    CHECK(all_close(p, from_data<double>(exact, {elements}), {dtype == f16 ? 1e-3 : 8e-3, 1e-6}));
  }
}

TEST_CASE("an update does not depend on threads, and hardly on the instruction set", "[optim]") {
  MANTISSA_PRINT_SEED();
  const auto updated = [](int threads, cpu_backend::Isa isa) {
    set_num_threads(threads);
    const cpu_backend::Isa before = cpu_backend::isa();
    cpu_backend::set_isa(isa);
    std::vector<Tensor> p = model();
    optim::AdamW opt(p, {.lr = 0.01, .amsgrad = true});
    for (int t = 0; t < 3; ++t) {
      set_gradients(p, 100 + 10 * static_cast<std::uint64_t>(t));
      optim::clip_grad_norm_(p, 5);
      opt.step();
    }
    cpu_backend::set_isa(before);
    return p;
  };
  const int threads = num_threads();
  const std::vector<Tensor> one = updated(1, cpu_backend::isa());
  for (int n : {2, 3}) {
    const std::vector<Tensor> many = updated(n, cpu_backend::isa());
    for (std::size_t i = 0; i < one.size(); ++i) CHECK(same_bits(one[i], many[i]));
  }
  const std::vector<Tensor> plain = updated(1, cpu_backend::Isa::baseline);
  for (std::size_t i = 0; i < one.size(); ++i)
    CHECK(difference(plain[i], one[i].detach().to(f64), {1.3e-6, 1e-6}) == "");
  set_num_threads(threads);
}

TEST_CASE("every element of odd-sized parameters gets the same formula, in every dtype", "[optim]") {
  MANTISSA_PRINT_SEED();
  for (auto [dtype, gradient_dtype] :
       {std::pair{f32, f32}, {f64, f64}, {f16, f16}, {bf16, bf16}, {f32, bf16}, {f64, f32}}) {
    std::vector<Tensor> p = model(dtype);
    std::vector<std::vector<double>> before;
    for (const Tensor& t : p) before.push_back(t.to_vector<double>());
    std::uint64_t stream = 50;
    for (Tensor& t : p) t.set_grad(random_tensor(t.sizes(), ++stream).to(gradient_dtype));
    optim::Sgd opt(p, {.lr = 0.5, .weight_decay = 0.25});
    opt.step();
    for (std::size_t k = 0; k < p.size(); ++k) {
      const std::vector<double> g = p[k].grad().to_vector<double>();
      std::vector<double> expected(g.size());
      for (std::size_t i = 0; i < g.size(); ++i) expected[i] = before[k][i] - 0.5 * (g[i] + 0.25 * before[k][i]);
      CHECK(difference(p[k], from_data<double>(expected, p[k].sizes()), tolerance_for(dtype)) == "");
    }
  }
}

TEST_CASE("gradients of another dtype, strided gradients and missing ones", "[optim]") {
  Tensor a = ones({2, 3}).requires_grad_(), b = ones({2}).requires_grad_();
  optim::Sgd opt({a, b}, {.lr = 1});
  a.set_grad(tensor({{1.0, 3.0}, {2.0, 4.0}, {0.5, 0.25}}, {.dtype = bf16}).t());
  opt.step();
  CHECK(same_bits(a, tensor({{0.0, -1.0, 0.5}, {-2.0, -3.0, 0.75}})));
  CHECK(same_bits(b, ones({2})));
}

TEST_CASE("parameters that skip a step keep their own step count, as in PyTorch", "[optim]") {
  Tensor a = initial(), b = initial();
  optim::Adam both({a, b}, {.lr = 0.1});
  run(both, a, 0, 2);  // b has no gradient
  a.set_grad({});
  run(both, b);
  CHECK(same_bits(b.detach(), alone<optim::Adam>(optim::AdamOptions{.lr = 0.1})));
}

TEST_CASE("groups have their own hyperparameters and can be added later", "[optim]") {
  Tensor a = initial(), b = initial();
  optim::Sgd opt({a}, {.lr = 0.1});
  opt.add_group({b}, {.lr = 0.1, .momentum = 0.9});
  REQUIRE(opt.groups() == 2);
  for (int t = 0; t < steps; ++t) {
    a.set_grad(gradient_of_step(t));
    b.set_grad(gradient_of_step(t));
    opt.step();
  }
  CHECK(same_bits(a.detach(), alone<optim::Sgd>(optim::SgdOptions{.lr = 0.1})));
  CHECK(same_bits(b.detach(), alone<optim::Sgd>(optim::SgdOptions{.lr = 0.1, .momentum = 0.9})));
  opt.set_lr(0.5, 1);
  CHECK(opt.lr(0) == 0.1);
  CHECK(opt.lr(1) == 0.5);
  opt.set_lr(0.25);
  CHECK(opt.lr(0) == 0.25);
  CHECK(opt.get("momentum", 1) == 0.9);
}

TEST_CASE("a changed learning rate takes effect at the next step", "[optim]") {
  Tensor p = zeros({2}).requires_grad_();
  optim::Sgd opt({p}, {.lr = 1});
  p.set_grad(ones({2}));
  opt.set_lr(0.5);
  opt.step();
  CHECK(same_bits(p, full({2}, -0.5)));
}

TEST_CASE("states that begin with the rate begin with that of the first step, as in PyTorch", "[optim]") {
  const auto steps_of = [](auto make, double made_with, double set_to) {
    Tensor p = initial(), late = initial();
    const auto opt = make(std::vector<Tensor>{p, late}, made_with);
    opt->set_lr(set_to);
    for (int t = 0; t < steps; ++t) {
      p.set_grad(gradient_of_step(t));
      if (t >= 2) late.set_grad(gradient_of_step(t));
      if (t == 1) opt->set_lr(0.05);  // for `late` alone still the rate of its first step
      opt->step();
    }
    return cat({p.detach(), late.detach()});
  };
  const auto rprop = [](const std::vector<Tensor>& p, double lr) {
    return std::make_unique<optim::Rprop>(p, optim::RpropOptions{.lr = lr});
  };
  const auto asgd = [](const std::vector<Tensor>& p, double lr) {
    return std::make_unique<optim::ASGD>(p, optim::ASGDOptions{.lr = lr});
  };
  CHECK(same_bits(steps_of(rprop, 1, 0.01), steps_of(rprop, 0.01, 0.01)));
  CHECK(same_bits(steps_of(asgd, 1, 0.01), steps_of(asgd, 0.01, 0.01)));
  const Tensor as_torch_rprop = tensor({-0.45368, 0.04632, 0.5912,
    -0.582, -0.01, 0.782}, {.dtype = f64});
  CHECK(all_close(steps_of(rprop, 1, 0.01), as_torch_rprop, {1e-7, 1e-7}));
  const Tensor as_torch_asgd = tensor({-0.515615822, 0.0764081008, 0.690120744,
    -0.509175365, 0.0947393281, 0.70348928}, {.dtype = f64});
  CHECK(all_close(steps_of(asgd, 1, 0.01), as_torch_asgd, {1e-7, 1e-7}));  // PyTorch's eta is rounded to f32
}

TEST_CASE("Rprop leaves elements alone whose gradient is NaN, as PyTorch", "[optim]") {
  Tensor p = initial();
  optim::Rprop opt(std::vector<Tensor>{p}, {.lr = 0.01});
  for (int t = 0; t < 3; ++t) {
    p.set_grad(t == 1 ? full({elements}, NAN, {.dtype = f64}) : ones({elements}, {.dtype = f64}));
    opt.step();
  }
  CHECK(all_close(p.detach(), initial().detach() - 0.02));
}

TEST_CASE("zero_grad drops gradients or fills them with zeros", "[optim]") {
  Tensor p = initial();
  optim::Sgd opt({p});
  p.set_grad(ones({elements}, {.dtype = f64}));
  opt.zero_grad(false);
  CHECK(same_bits(p.grad(), zeros({elements}, {.dtype = f64})));
  opt.zero_grad();
  CHECK(!p.grad().defined());
}

TEST_CASE("optimizer state resumes bitwise", "[optim]") {
  MANTISSA_PRINT_SEED();
  const auto make = [](const std::vector<Tensor>& p) {
    return std::make_unique<optim::Adam>(p, optim::AdamOptions{.lr = 0.01, .amsgrad = true});
  };
  std::vector<Tensor> p = model();
  auto opt = make(p);
  const auto train = [](optim::Optimizer& o, std::vector<Tensor>& q, std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t t = from; t < to; ++t) {
      set_gradients(q, 1000 + 10 * t);
      o.set_lr(0.01 / static_cast<double>(t + 1));
      o.step();
    }
  };
  train(*opt, p, 0, 3);
  const NamedTensors saved = opt->state_dict();
  std::vector<Tensor> q;
  for (const Tensor& t : p) q.push_back(t.detach().clone().requires_grad_());
  train(*opt, p, 3, 6);
  auto resumed = make(q);
  resumed->load_state_dict(saved);
  CHECK(resumed->lr() == 0.01 / 3);
  CHECK(same(resumed->state_dict(), saved));  // a copy: training went on meanwhile
  train(*resumed, q, 3, 6);
  for (std::size_t i = 0; i < p.size(); ++i) CHECK(same_bits(p[i], q[i]));
  CHECK(same(opt->state_dict(), resumed->state_dict()));
}

TEST_CASE("a state of another optimizer or model is refused and changes nothing", "[optim]") {
  Tensor p = initial();
  optim::Adam adam({p});
  run(adam, p);
  const NamedTensors before = adam.state_dict();
  CHECK_THAT(message_of([&] { adam.load_state_dict(optim::Sgd({initial()}).state_dict()); }),
             Catch::Matchers::Contains("group.0.beta1"));
  Tensor other = zeros({4}).requires_grad_();
  CHECK_THAT(message_of([&] { adam.load_state_dict(optim::Adam({other}).state_dict()); }),
             Catch::Matchers::Contains("[4]"));
  Tensor more = initial();
  optim::Adam two({initial()});
  two.add_group({more}, {});
  CHECK_THAT(message_of([&] { adam.load_state_dict(two.state_dict()); }),
             Catch::Matchers::Contains("saved with 2 groups of parameters, this optimizer has 1: load into"));
  CHECK(same(adam.state_dict(), before));
}

TEST_CASE("bad options and parameters are errors that say what is wrong", "[optim]") {
  using Catch::Matchers::Contains;
  Tensor p = initial();
  CHECK_THAT(message_of([&] { optim::Sgd({p}, {.lr = -1}); }), Contains("lr must not be negative"));
  CHECK_THAT(message_of([&] { optim::Sgd({p}, {.nesterov = true}); }), Contains("nesterov needs a momentum"));
  CHECK_THAT(message_of([&] { optim::Adam({p}, {.betas = {1.0, 0.9}}); }), Contains("betas must be in [0, 1)"));
  CHECK_THAT(message_of([&] { optim::Adam(std::vector<Tensor>{}); }), Contains("at least one parameter"));
  CHECK_THAT(message_of([&] { optim::Adam({p, p}); }), Contains("appears twice"));
  CHECK_THAT(message_of([&] { optim::Adam({p * 2.0}); }), Contains("result of an operator"));
  CHECK_THAT(message_of([&] { optim::Adam({arange(3)}); }), Contains("only floating"));
  CHECK_THAT(message_of([&] {
               optim::Adam(NamedTensors{{"net.w", Tensor()}});
             }),
             Contains("net.w is an undefined"));
  optim::Sgd plain({p});
  CHECK_THAT(message_of([&] { plain.set("momentum", 0.9); }), Contains("no hyperparameter \"momentum\""));
}

TEST_CASE("a tensor saved for backward and then updated is noticed", "[optim]") {
  Tensor w = ones({2}).requires_grad_(), x = ones({2}).requires_grad_();
  optim::Sgd opt({w});
  const Tensor loss = (w * x).sum();
  w.set_grad(ones({2}));
  opt.step();
  CHECK_THAT(message_of([&] { backward(loss); }), Catch::Matchers::Contains("optimizer step"));
}

TEST_CASE("a scheduler drives the optimizer's rate and momentum, and resumes", "[optim]") {
  using namespace optim;
  Tensor p = initial();
  Adam opt({p}, {.lr = 0.1});
  const OneCycleLR one_cycle{.max_lr = 0.4, .total_steps = 10};
  Scheduler schedule(opt, one_cycle);
  CHECK(opt.lr() == one_cycle.lr_at(0.1, 0));
  for (int t = 0; t < 4; ++t) schedule.step();
  CHECK(opt.lr() == one_cycle.lr_at(0.1, 4));
  CHECK(opt.get("beta1") == *one_cycle.momentum_at(4));

  Adam other({initial()}, {.lr = 0.7});
  Scheduler resumed(other, OneCycleLR{.max_lr = 0.4, .total_steps = 10});
  resumed.load_state_dict(schedule.state_dict());
  CHECK(resumed.current_step() == 4);
  CHECK(other.lr() == opt.lr());
  resumed.set_step(9);
  const double last = other.lr();
  resumed.step();  // after the tenth step of the optimizer
  CHECK(other.lr() == last);
  CHECK_THAT(message_of([&] { resumed.step(); }), Catch::Matchers::Contains("beyond total_steps"));

  Scheduler lambda(other, [](std::int64_t step) { return 1.0 / static_cast<double>(1 + step); });
  const double base = other.lr();
  lambda.step();
  CHECK(other.lr() == base / 2);
}

TEST_CASE("clip_grad_norm_ returns the norm and scales all gradients alike", "[optim]") {
  MANTISSA_PRINT_SEED();
  std::vector<Tensor> p = model();
  set_gradients(p, 300);
  p[0].set_grad({});
  p[1].set_grad(p[1].grad().to(bf16));
  double squares = 0, sum = 0, largest = 0;
  std::vector<Tensor> before;
  for (const Tensor& t : p) {
    before.push_back(t.grad().defined() ? t.grad().clone() : Tensor());
    if (!t.grad().defined()) continue;
    for (double g : t.grad().to_vector<double>()) {
      squares += g * g;
      sum += std::abs(g);
      largest = std::max(largest, std::abs(g));
    }
  }
  const double norm = std::sqrt(squares), huge = 1e9;
  CHECK(optim::clip_grad_norm_(p, huge).item<double>() == Approx(norm).epsilon(1e-6));
  CHECK(optim::clip_grad_norm_(p, huge, {.norm_type = 1}).item<double>() == Approx(sum).epsilon(1e-6));
  CHECK(optim::clip_grad_norm_(p, huge, {.norm_type = std::numeric_limits<double>::infinity()}).item<double>() ==
        Approx(largest).epsilon(1e-6));
  for (std::size_t i = 0; i < p.size(); ++i) CHECK(same_bits(p[i].grad(), before[i]));  // below max_norm: untouched
  optim::clip_grad_norm_(p, 2.0);
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (!before[i].defined()) continue;
    const Tensor expected = before[i].to(f64) * (2.0 / (norm + 1e-6));
    CHECK(difference(p[i].grad(), expected, tolerance_for(p[i].grad().dtype())) == "");
  }
  CHECK(optim::clip_grad_norm_(p, 2.0).item<double>() == Approx(2.0).epsilon(1e-3));
}

TEST_CASE("clipping non-finite gradients: an error if asked for, else NaN as in PyTorch", "[optim]") {
  Tensor p = ones({2}).requires_grad_();
  const double inf = std::numeric_limits<double>::infinity();
  p.set_grad(tensor({1.0, inf}));
  CHECK_THAT(message_of([&] { optim::clip_grad_norm_({p}, 1, {.error_if_nonfinite = true}); }),
             Catch::Matchers::Contains("the norm of the gradients is inf"));
  CHECK(p.grad().to_vector<float>()[0] == 1);
  CHECK(std::isinf(optim::clip_grad_norm_({p}, 1).item()));
  CHECK(std::isnan(p.grad().to_vector<float>()[1]));
}

TEST_CASE("the norm and the scaling by it can be asked for apart", "[optim]") {
  MANTISSA_PRINT_SEED();
  std::vector<Tensor> p = model(), q = model();
  set_gradients(p, 400);
  set_gradients(q, 400);
  std::vector<Tensor> gradients;
  for (const Tensor& t : q) gradients.push_back(t.grad());
  const Tensor norm = optim::get_total_norm(gradients);
  CHECK(same_bits(norm, optim::clip_grad_norm_(p, 3)));
  optim::clip_grads_with_norm_(q, 3, norm);
  for (std::size_t i = 0; i < p.size(); ++i) CHECK(same_bits(p[i].grad(), q[i].grad()));
  CHECK(optim::get_total_norm({}).item() == 0);
  CHECK_THAT(message_of([&] { optim::get_total_norm({arange(3)}); }),
             Catch::Matchers::Contains("needs floating tensors"));
  CHECK_THAT(message_of([&] { optim::clip_grads_with_norm_(q, 3, ones({2})); }),
             Catch::Matchers::Contains("one element"));
}

TEST_CASE("clip_grad_value_ limits every element", "[optim]") {
  Tensor p = ones({2, 2}).requires_grad_();
  p.set_grad(tensor({{-3.0, 0.5}, {2.0, -0.25}}).t());
  optim::clip_grad_value_({p}, 1);
  CHECK(same_bits(p.grad().clone(), tensor({{-1.0, 1.0}, {0.5, -0.25}})));
}
