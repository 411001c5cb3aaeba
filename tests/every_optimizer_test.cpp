// What every optimizer promises beside its numbers (tests/golden_optim_test.cpp): a skipped step changes nothing, no
// step reads the device, a saved state resumes bitwise, threads do not matter, f32 masters and a bf16 state work.
#include "tests/every_optimizer.h"

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
// Matrices alone for Muon; sizes with tails for all others.
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
bool same(const optim::NamedTensors& a, const optim::NamedTensors& b) {
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

}  // namespace

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
    const optim::NamedTensors state = opt->state_dict();
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
      const optim::NamedTensors saved = opt->state_dict();
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
  const optim::LBFGSOptions options{.max_iter = 4, .history_size = 3, .line_search_fn = optim::LineSearch::strong_wolfe};
  Tensor w = (random_tensor({6}, 4) * 0.5).requires_grad_();
  optim::LBFGS opt({w}, options);
  for (int t = 0; t < 3; ++t) opt.step(closure(opt, w));
  const optim::NamedTensors saved = opt.state_dict();
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
  CHECK_THAT(message_of([&] { scaler.scale(ones({})); scaler.step(scaled); }), Contains("step(closure)"));

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
