// Optimizers, schedules and clipping compared with PyTorch: 20 steps of every optimizer in f64 (1e-9) and f32 (2e-4),
// 200 steps of every schedule. The numbers come from tests/golden/optimizers.py and schedules.py, which also define the
// gradients.
#include <cmath>
#include <map>
#include <set>

#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "core/ops.h"
#include "io/safetensors.h"
#include "optim/clip.h"
#include "optim/lbfgs.h"
#include "optim/plateau.h"
#include "optim/schedule.h"
#include "optim/sgd.h"
#include "tests/catch_compat.h"
#include "tests/every_optimizer.h"
#include "tests/every_schedule.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using namespace mantissa::optim;

namespace {

constexpr std::int64_t steps = 20, without_b = 3;

std::map<std::string, Tensor> golden(const char* name) {
  std::map<std::string, Tensor> file;
  for (auto& [key, t] :
       io::load_safetensors(std::string(MANTISSA_SOURCE_DIR "/tests/golden/") + name + ".safetensors").tensors) {
    file.emplace(key, t);
  }
  return file;
}
Tolerance tolerance_of(Dtype dtype) { return dtype == f64 ? Tolerance{1e-9, 1e-9} : Tolerance{2e-4, 2e-4}; }

const std::map<std::string, LBFGSOptions>& searches() {
  static const std::map<std::string, LBFGSOptions> all{
      {"lbfgs", {.lr = 0.1, .max_iter = 3, .history_size = 4}},
      {"lbfgs_wolfe", {.max_iter = 2, .history_size = 4, .line_search_fn = LineSearch::strong_wolfe}}};
  return all;
}

Tensor start(const std::map<std::string, Tensor>& file, const char* name, Dtype dtype, double factor = 1) {
  return (file.at(std::string("start/") + name).to(f64) * factor).to(dtype).requires_grad_();
}
void set_gradients(const std::map<std::string, Tensor>& file, std::vector<Tensor>& p, std::int64_t t) {
  const NoGrad no_grad;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const Tensor noise = file.at(i == 0 ? "noise/w" : "noise/b").select(0, t).to(p[i].dtype());
    p[i].set_grad(i == 1 && t == without_b ? Tensor() : noise + p[i].detach() * 0.1);
  }
}
void check_step(const std::map<std::string, Tensor>& file, const std::string& name, const std::vector<Tensor>& p,
                std::int64_t t) {
  for (std::size_t i = 0; i < p.size(); ++i) {
    const Dtype dtype = p[i].dtype();
    const Tensor expected = file.at(name + (dtype == f64 ? "/f64." : "/f32.") + (i == 0 ? "w" : "b")).select(0, t);
    INFO(name << " " << describe(p[i]) << " after step " << t + 1);
    REQUIRE(difference(p[i].detach(), expected, tolerance_of(dtype)) == "");
  }
}

Tensor curved(const Tensor& w, const Tensor& b) {
  const Tensor x = cat({w.flatten(), b}), head = x.slice(0, 0, x.size(0) - 1), tail = x.slice(0, 1);
  return (5 * square(tail - square(head)) + square(1 - head)).sum() / 4;
}

}  // namespace

TEST_CASE("20 steps of every optimizer are PyTorch's", "[optim][golden]") {
  const auto file = golden("optimizers");
  for (Dtype dtype : {f64, f32}) {
    std::map<std::string, Make> all = optimizers();
    all.merge(muons(dtype));
    for (const auto& [name, make] : all) {
      std::vector<Tensor> p{start(file, "w", dtype)};
      if (!name.starts_with("muon")) p.push_back(start(file, "b", dtype));
      const auto opt = make(p, {});
      for (std::int64_t t = 0; t < steps; ++t) {
        set_gradients(file, p, t);
        opt->step();
        check_step(file, name, p, t);
      }
    }
  }
}

TEST_CASE("20 steps of LBFGS are PyTorch's, with and without line search", "[optim][golden]") {
  const auto file = golden("optimizers");
  for (Dtype dtype : {f64, f32}) {
    for (const auto& [name, options] : searches()) {
      const std::vector<Tensor> p{start(file, "w", dtype, 0.3), start(file, "b", dtype, 0.3)};
      LBFGS opt(p, options);
      for (std::int64_t t = 0; t < steps; ++t) {
        opt.step([&] {
          opt.zero_grad();
          const Tensor loss = curved(p[0], p[1]);
          backward(loss);
          return loss;
        });
        check_step(file, name, p, t);
      }
    }
  }
}

TEST_CASE("every trajectory in the golden file is compared", "[optim][golden]") {
  std::set<std::string> compared{"start", "noise", "clip"};
  for (const auto& [name, make] : optimizers()) compared.insert(name);
  for (const auto& [name, make] : muons(f32)) compared.insert(name);
  for (const auto& [name, options] : searches()) compared.insert(name);
  for (const auto& [key, t] : golden("optimizers")) {
    INFO(key);
    CHECK(compared.contains(key.substr(0, key.find('/'))));
  }
}

TEST_CASE("clip_grad_norm_ gives PyTorch's norms and gradients for any p", "[optim][golden]") {
  const auto file = golden("optimizers");
  for (const auto& [name, p] :
       std::map<std::string, double>{{"1", 1}, {"1.5", 1.5}, {"2", 2}, {"3", 3}, {"inf", HUGE_VAL}}) {
    std::vector<Tensor> x{start(file, "w", f64), start(file, "b", f64)};
    x[0].set_grad(file.at("noise/w").select(0, 0).to(f64));
    x[1].set_grad(file.at("noise/b").select(0, 0).to(f64));
    const Tensor norm = clip_grad_norm_(x, 1.5, {.norm_type = p});
    INFO("p = " << name);
    // the norm is f32
    CHECK(norm.item<double>() == Approx(file.at("clip/" + name + ".norm").item<double>()).epsilon(1e-6));
    CHECK(difference(x[0].grad(), file.at("clip/" + name + ".w"), {1e-6, 1e-6}) == "");
    CHECK(difference(x[1].grad(), file.at("clip/" + name + ".b"), {1e-6, 1e-6}) == "");
  }
}

namespace {

double metric(std::int64_t t) {
  return 1 / (1 + std::min(static_cast<double>(t), 40.0)) + 0.001 * std::sin(static_cast<double>(t)) -
         (t > 120 ? 0.05 : 0);
}

}  // namespace

TEST_CASE("200 steps of every schedule are PyTorch's", "[optim][golden]") {
  const auto file = golden("schedules");
  std::set<std::string> compared;
  for (const auto& [name, schedule] : schedules()) {
    Tensor p = zeros({1}).requires_grad_();
    Sgd opt({p}, {.lr = 0.1, .momentum = 0.9});
    Scheduler scheduler(opt, schedule);
    const std::vector<double> rates = file.at(name + "/lr").to_vector<double>();
    const auto momenta = file.find(name + "/momentum");
    REQUIRE(rates.size() == 200);
    for (std::size_t t = 0; t < rates.size(); ++t) {
      INFO(name << " step " << t);
      REQUIRE(opt.lr() == Approx(rates[t]).epsilon(1e-9).margin(1e-12));
      if (momenta != file.end())
        REQUIRE(opt.get("momentum") == Approx(momenta->second.to_vector<double>()[t]).epsilon(1e-9));
      if (t + 1 < rates.size()) scheduler.step();
    }
    compared.insert(name);
  }
  for (const auto& [name, options] : std::map<std::string, PlateauOptions>{{"plateau", {.patience = 5, .cooldown = 3}},
                                                                           {"plateau_max",
                                                                            {.maximize = true,
                                                                            .factor = 0.5,
                                                                            .patience = 4,
                                                                            .threshold = 0.002,
                                                                            .absolute_threshold = true,
                                                                            .min_lr = 0.004}}}) {
    Tensor p = zeros({1}).requires_grad_();
    Sgd opt({p}, {.lr = 0.1});
    ReduceLROnPlateau scheduler(opt, options);
    const std::vector<double> rates = file.at(name + "/lr").to_vector<double>();
    CHECK(rates.front() > 2 * rates.back());
    for (std::size_t t = 0; t < rates.size(); ++t) {
      INFO(name << " step " << t);
      REQUIRE(opt.lr() == Approx(rates[t]).epsilon(1e-9));
      const double m = metric(static_cast<std::int64_t>(t));
      scheduler.step(options.maximize ? -m : m);
    }
    compared.insert(name);
  }
  for (const auto& [key, t] : file) CHECK(compared.contains(key.substr(0, key.find('/'))));
}
