// The counterparts of PyTorch's own GradScaler tests, row by row; docs/amp.md has the table. Those already covered in
// other files (tests/scaler_test.cpp, tests/scale_policy_test.cpp) are not repeated here.
#include <cmath>
#include <limits>
#include <optional>

#include "amp/autocast.h"
#include "amp/grad_scaler.h"
#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "core/ops.h"
#include "nn/functions.h"
#include "nn/linear.h"
#include "optim/clip.h"
#include "optim/lbfgs.h"
#include "tests/catch_compat.h"
#include "tests/scaler_optimizers.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using amp::GradScaler;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), nan_value = std::numeric_limits<double>::quiet_NaN();

struct Net {
  nn::Linear first{8, 8}, second{8, 8};
  MANTISSA_FIELDS(first, second)
  Tensor operator()(const Tensor& x) const { return second(relu(first(x))); }
};
void fill(Net& net, std::uint64_t stream) {
  const NoGrad no_grad;
  for (Tensor p : nn::parameters(net)) p.copy_(random_tensor(p.sizes(), stream++, -0.3, 0.3));
}
Tensor input(int i) { return random_tensor({8, 8}, 300 + static_cast<std::uint64_t>(i)).to(f32); }
Tensor target(int i) { return random_tensor({8, 8}, 400 + static_cast<std::uint64_t>(i)).to(f32); }
std::vector<Tensor> copies(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> list;
  for (const Tensor& t : tensors) list.push_back(t.detach().clone());
  return list;
}
void check_close(const std::vector<Tensor>& a, const std::vector<Tensor>& b, Tolerance t) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(difference(a[i], b[i].to(f64), t) == "");
}
void check_same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(same_bits(a[i], b[i]));
}

constexpr int batches = 4;

}  // namespace

// test_grad_scaling_unscale
TEST_CASE("G7 G8: inf in any one gradient of any dtype, layout or device is found, else all are divided", "[scaler]") {
  const double scale = 4;
  struct Made {
    Tensor p, g;
  };
  const auto make = [](Dtype dtype, Device device, bool permuted) {
    Made m{ones({4, 6, 2}, {.dtype = dtype, .device = device}).requires_grad_(), {}};
    m.g = permuted ? full({2, 4, 6}, 8, {.dtype = dtype, .device = device}).permute({1, 2, 0})
                   : full({4, 6, 2}, 8, {.dtype = dtype, .device = device});
    return m;
  };
  std::vector<Made> list;
  for (Dtype dtype : {f32, f64, bf16, f16}) {
    for (Device device : {cpu, cpu(1)}) {
      for (bool permuted : {false, true}) list.push_back(make(dtype, device, permuted));
    }
  }
  for (int spoilt = -1; spoilt < static_cast<int>(list.size()); ++spoilt) {
    for (double bad : {inf, nan_value}) {
      std::vector<std::unique_ptr<optim::Sgd>> keep;
      std::vector<Tensor> here, there;
      for (std::size_t i = 0; i < list.size(); ++i) {
        Tensor g =
            list[i].g.is_contiguous() ? list[i].g.clone() : list[i].g.permute({2, 0, 1}).clone().permute({1, 2, 0});
        if (static_cast<int>(i) == spoilt) g.as_strided({}, {}, 17).fill_(bad);
        list[i].p.set_grad(g);
        (list[i].p.device() == cpu ? here : there).push_back(list[i].p);
      }
      optim::Sgd opt(here, {.lr = 0});
      opt.add_group(there, {.lr = 0});
      GradScaler scaler({.init_scale = scale, .allow_f16_gradients = true});
      scaler.scale(ones({}));
      scaler.unscale_(opt);
      for (std::size_t i = 0; i < list.size(); ++i) {
        if (static_cast<int>(i) == spoilt) continue;
        REQUIRE(same_bits(list[i].p.grad(),
                          full({4, 6, 2}, 2, {.dtype = list[i].p.dtype(), .device = list[i].p.device()})));
        REQUIRE(list[i].p.grad().strides() == list[i].g.strides());
      }
      REQUIRE(scaler.step(opt).skipped() == (spoilt >= 0));
    }
  }
}

// test_grad_scaling_unscale_sparse. There are no sparse tensors here: the gradient of an embedding is dense, and rows
// with several indices are summed in f32 when it is computed, even for an f16 table.
TEST_CASE("G14: gradients of an embedding: unscaled, and an f16 sum over repeated indices that overflows is found",
          "[scaler]") {
  const auto step = [](Dtype dtype, double first, double second, std::initializer_list<int> rows) {
    Tensor table = ones({3, 2}, {.dtype = dtype}).requires_grad_();
    optim::Sgd opt({table}, {.lr = 1});
    GradScaler scaler({.init_scale = 4, .allow_f16_gradients = true});
    scaler.scale(ones({}));
    const Tensor weights = tensor({{first, first}, {second, second}}, {.dtype = dtype});
    backward(embedding(table, tensor(rows)), weights);
    const bool skipped = scaler.step(opt).skipped();
    return std::pair{skipped, table.grad().to_vector<double>()};
  };
  using V = std::vector<double>;
  CHECK(step(f32, 8, 4, {0, 2}) == std::pair{false, V{2, 2, 0, 0, 1, 1}});
  CHECK(step(f16, 8, 4, {1, 1}) == std::pair{false, V{0, 0, 3, 3, 0, 0}});
  CHECK(step(f16, 64000, 64000, {0, 1}) == std::pair{false, V{16000, 16000, 16000, 16000, 0, 0}});
  CHECK(step(f16, 64000, 64000, {1, 1}).first);  // each finite, the sum is not
  CHECK(!step(f32, 64000, 64000, {1, 1}).first);
  CHECK(!step(bf16, 64000, 64000, {1, 1}).first);
  CHECK(step(f16, 64000, -64000, {1, 1}) == std::pair{false, V{0, 0, 0, 0, 0, 0}});
  for (double bad : {inf, nan_value}) CHECK(step(f32, bad, 1, {1, 2}).first);
}

// test_grad_scaling_autocast, _foreach, _fused: with each optimizer, enabled and not,
// copied after every iteration or not
TEST_CASE("G17 G18 G40: training with a spoilt iteration ends where training without that iteration ends", "[scaler]") {
  MANTISSA_PRINT_SEED();
  constexpr int spoilt = 2;
  for (const OptimizerMaker& m : all_optimizers()) {
    for (bool in_region : {true, false}) {
      for (bool enabled : {true, false}) {
        for (bool copied : {false, true}) {
          INFO(m.name << ", region " << in_region << ", enabled " << enabled << ", copied " << copied);
          const auto train = [&](bool scaled) {
            Net net;
            fill(net, 1);
            const auto opt = m.make(nn::parameters(net));
            auto scaler = std::make_unique<GradScaler>(
                amp::GradScalerOptions{.init_scale = 128, .growth_interval = 1, .enabled = enabled});
            int executed = 0, skipped = 0;
            for (int i = 0; i < batches; ++i) {
              opt->zero_grad();
              const bool region = scaled && in_region;
              const Tensor loss = amp::autocast(region ? f16 : f32, [&] { return mse_loss(net(input(i)), target(i)); });
              if (!scaled) {
                backward(loss);
                if (i != spoilt || !enabled) opt->step();
                continue;
              }
              backward(scaler->scale(loss));
              if (i == spoilt && enabled) net.second.weight.grad().fill_(inf);
              const bool was_skipped = scaler->step(*opt).skipped();
              (was_skipped ? skipped : executed) += 1;
              scaler->update();
              if (copied) scaler = std::make_unique<GradScaler>(*scaler);
            }
            if (scaled) {
              CHECK(skipped == (enabled ? 1 : 0));
              CHECK(scaler->get_scale() == (enabled ? 128 * std::exp2(executed) * std::exp2(-skipped) : 1));
            }
            return copies(nn::parameters(net));
          };
          // In f16 a gradient near 0 may change its sign, after which most optimizers differ by whole steps.
          if (in_region && !m.name.starts_with("Sgd")) continue;
          if (in_region) check_close(train(true), train(false), {1e-2, 1e-2});
          else check_same(train(true), train(false));
        }
      }
    }
  }
}

TEST_CASE("G18: a skipped step changes no bit of parameters and state, with each optimizer", "[scaler]") {
  MANTISSA_PRINT_SEED();
  for (const OptimizerMaker& m : all_optimizers()) {
    for (Dtype dtype : {f32, bf16}) {
      INFO(m.name << " " << name_of(dtype));
      Net net;
      fill(net, 1);
      nn::to(net, dtype);
      const auto opt = m.make(nn::parameters(net));
      GradScaler scaler({.init_scale = 128});
      const auto iterate = [&](int i, bool spoilt) {
        opt->zero_grad();
        backward(scaler.scale(mse_loss(net(input(i).to(dtype)), target(i).to(dtype)).to(f32)));
        if (spoilt) net.second.weight.grad().as_strided({}, {}, 63).fill_(i % 2 == 0 ? inf : nan_value);
        CHECK(scaler.step(*opt).skipped() == spoilt);
        scaler.update();
        std::vector<Tensor> all = copies(nn::parameters(net));
        for (const auto& [name, t] : opt->state_dict()) all.push_back(t);
        return all;
      };
      const std::vector<Tensor> before = iterate(0, false);
      check_same(iterate(1, true), before);
      check_same(iterate(2, true), before);
      CHECK(!same_bits(iterate(3, false)[0], before[0]));
    }
  }
}

TEST_CASE("LBFGS: its closure scales, unscales and updates, and ends where it ends without a scaler", "[scaler]") {
  MANTISSA_PRINT_SEED();
  const auto train = [](bool scaled) {
    Net net;
    fill(net, 1);
    optim::LBFGS opt(nn::parameters(net), {.max_iter = 6, .line_search_fn = optim::LineSearch::strong_wolfe});
    GradScaler scaler({.init_scale = 1024, .growth_interval = 2});
    opt.step([&] {
      opt.zero_grad();
      const Tensor loss = mse_loss(net(input(0)), target(0));
      if (!scaled) {
        backward(loss);
        return loss;
      }
      backward(scaler.scale(loss));
      scaler.unscale_(opt);
      scaler.update();
      return loss;
    });
    if (scaled) CHECK(scaler.total_updates() == opt.evaluations());
    return copies(nn::parameters(net));
  };
  check_same(train(true), train(false));
}

// test_grad_scaling_autocast_fused_optimizers: one kernel here; what remains is with and
// without unscale_, state and gradients
TEST_CASE("G22: parameters, state and gradients are the same with unscale_, without, and without a scaler",
          "[scaler]") {
  MANTISSA_PRINT_SEED();
  for (const OptimizerMaker& m : all_optimizers()) {
    INFO(m.name);
    enum How { unscaled, at_once, apart };
    const auto train = [&](How how) {
      Net net;
      fill(net, 1);
      const auto opt = m.make(nn::parameters(net));
      GradScaler scaler({.init_scale = 512});
      for (int i = 0; i < batches; ++i) {
        opt->zero_grad();
        const Tensor loss = mse_loss(net(input(i)), target(i));
        backward(how == unscaled ? loss : scaler.scale(loss));
        if (how == apart) scaler.unscale_(*opt);
        if (how == unscaled) {
          opt->step();
        } else {
          scaler.step(*opt);
          scaler.update();
        }
      }
      std::vector<Tensor> all = copies(nn::parameters(net));
      for (const Tensor& p : opt->parameters()) all.push_back(p.grad());
      for (const auto& [name, t] : opt->state_dict()) all.push_back(t);
      return all;
    };
    const std::vector<Tensor> control = train(unscaled);
    check_same(train(at_once), control);
    check_same(train(apart), control);
  }
}

// test_grad_scaling_clipping, _clipping_separate_unscale, with each optimizer and a spoilt iteration
TEST_CASE("G38: clipping after unscale_ equals clipping without a scaler, with each optimizer", "[scaler]") {
  MANTISSA_PRINT_SEED();
  for (const OptimizerMaker& m : all_optimizers()) {
    INFO(m.name);
    const auto train = [&](bool scaled) {
      Net net;
      fill(net, 1);
      const auto opt = m.make(nn::parameters(net));
      GradScaler scaler({.init_scale = 1024, .growth_interval = 1});
      for (int i = 0; i < batches; ++i) {
        opt->zero_grad();
        const Tensor loss = mse_loss(net(input(i)), target(i));
        backward(scaled ? scaler.scale(loss) : loss);
        if (scaled && i == 1) opt->parameters()[0].grad().fill_(nan_value);
        if (scaled) scaler.unscale_(*opt);
        const Tensor norm = optim::clip_grad_norm_(opt->parameters(), 0.02);
        if (i != 1) CHECK(norm.item() > 0.02f);
        if (scaled) {
          CHECK(scaler.step(*opt).skipped() == (i == 1));
          scaler.update();
        } else if (i != 1) {
          opt->step();
        }
      }
      return copies(nn::parameters(net));
    };
    check_same(train(true), train(false));
  }
}

// test_grad_scaling_multiple: two models, two losses that touch both, two optimizers, one of them unscaled explicitly
TEST_CASE("G19 G30 G37: two models, losses and optimizers; a spoilt gradient skips its own optimizer alone",
          "[scaler]") {
  MANTISSA_PRINT_SEED();
  constexpr int spoilt = 2;
  const auto train = [&](bool scaled) {
    Net a, b;
    fill(a, 1);
    fill(b, 100);
    optim::Sgd opt_a(nn::parameters(a), {.lr = 0.1, .momentum = 0.9});
    optim::Adam opt_b(nn::parameters(b), {.lr = 0.01});
    GradScaler scaler({.init_scale = 128, .growth_interval = 1});
    for (int i = 0; i < batches; ++i) {
      opt_a.zero_grad();
      opt_b.zero_grad();
      const Tensor ya = a(input(i)), yb = b(input(i));
      const Tensor loss_0 = mse_loss(ya * 2.0 + yb * 3.0, target(i)), loss_1 = mse_loss(ya * 3.0 - yb * 5.0, target(i));
      if (!scaled) {
        backward(loss_0, {}, {.retain_graph = true});
        backward(loss_1);
        opt_a.step();
        if (i != spoilt) opt_b.step();
        continue;
      }
      backward(scaler.scale(loss_0), {}, {.retain_graph = true});
      backward(scaler.scale(loss_1));
      if (i == spoilt) b.second.weight.grad().fill_(inf);
      scaler.unscale_(opt_a);
      CHECK(!scaler.step(opt_a).skipped());
      CHECK(scaler.step(opt_b).skipped() == (i == spoilt));
      scaler.update();
    }
    if (scaled) CHECK(scaler.get_scale() == 128 * 8 / 2);
    std::vector<Tensor> all = copies(nn::parameters(a));
    for (const Tensor& t : copies(nn::parameters(b))) all.push_back(t);
    return all;
  };
  check_same(train(true), train(false));
}

// test_grad_scaling_penalty, with each optimizer, in a region
TEST_CASE("G39: the gradient penalty recipe in an f16 region ends near the unscaled control", "[scaler]") {
  MANTISSA_PRINT_SEED();
  for (const OptimizerMaker& m : all_optimizers()) {
    INFO(m.name);
    const auto train = [&](bool scaled, Dtype region) {
      Net net;
      fill(net, 1);
      const std::vector<Tensor> parameters = nn::parameters(net);
      const auto opt = m.make(parameters);
      GradScaler scaler({.init_scale = 256});
      for (int i = 0; i < batches; ++i) {
        opt->zero_grad();
        const Tensor loss = amp::autocast(region, [&] { return mse_loss(net(input(i)), target(i)); });
        const Tensor root = scaled ? scaler.scale(loss) : loss;
        const std::vector<Tensor> g = grad(std::span(&root, 1), parameters, {}, {.create_graph = true});
        const Tensor total = amp::autocast(region, [&] {
          Tensor squares;
          for (const Tensor& x : g) {
            const Tensor s = square(scaled ? x * (1 / scaler.get_scale()) : x).sum();
            squares = squares.defined() ? squares + s : s;
          }
          return loss + sqrt(squares);
        });
        backward(scaled ? scaler.scale(total) : total);
        if (scaled) {
          CHECK(!scaler.step(*opt).skipped());
          scaler.update();
        } else {
          opt->step();
        }
      }
      return copies(parameters);
    };
    check_close(train(true, f32), train(false, f32), {1e-5, 1e-6});
    if (m.name.starts_with("Sgd")) check_close(train(true, f16), train(false, f32), {2e-2, 2e-2});
  }
}

// test_grad_scaling_accumulation, with each optimizer
TEST_CASE("G37: accumulating over two batches equals the unscaled control, with each optimizer", "[scaler]") {
  MANTISSA_PRINT_SEED();
  for (const OptimizerMaker& m : all_optimizers()) {
    INFO(m.name);
    const auto train = [&](bool scaled) {
      Net net;
      fill(net, 1);
      const auto opt = m.make(nn::parameters(net));
      GradScaler scaler({.init_scale = 256, .growth_interval = 1});
      for (int i = 0; i < 2 * batches; ++i) {
        const Tensor loss = mse_loss(net(input(i)), target(i)) / 2.0;
        backward(scaled ? scaler.scale(loss) : loss);
        if (i % 2 == 0) continue;
        if (scaled) {
          CHECK(!scaler.step(*opt).skipped());
          scaler.update();
        } else {
          opt->step();
        }
        opt->zero_grad();
      }
      return copies(nn::parameters(net));
    };
    check_same(train(true), train(false));
  }
}

// test_grad_scaler_pass_itself, optimizer preset grad_scale: a user-defined optimizer gets unscaled gradients and the
// overflow flag
TEST_CASE("an optimizer of the user's own is handed unscaled gradients and the verdict", "[scaler][G21]") {
  struct Own final : amp::Steppable {
    std::vector<Tensor> parameters() const override { return {p}; }
    std::string parameter_name(std::size_t) const override { return "mine"; }
    void step_unless(const Tensor& skip) override {
      seen = p.grad().item();
      verdict = skip.defined() ? std::optional<bool>(skip.item() != 0) : std::nullopt;
    }
    Tensor p = ones({1}).requires_grad_();
    double seen = 0;
    std::optional<bool> verdict;
  } own;
  GradScaler scaler({.init_scale = 16}), off({.enabled = false});
  backward(scaler.scale(own.p.sum()));
  CHECK(!scaler.step(own).skipped());
  CHECK(own.seen == 1);
  CHECK(own.verdict == false);
  scaler.update();
  own.p.set_grad(full({1}, inf));
  CHECK(scaler.step(own).skipped());
  CHECK(own.verdict == true);
  off.step(own);
  CHECK(!own.verdict.has_value());
}

// test_grad_scaling_device_as_key, test_grad_scaling_scale: every device gets the scale, also in nested containers
TEST_CASE("G3: losses on several devices are scaled where they are, in nested containers", "[scaler]") {
  const Tensor here = full({1}, 4), there = full({1}, 8, {.device = cpu(1)});
  GradScaler scaler({.init_scale = 2});
  const auto nested = scaler.scale(std::tuple{here, std::vector{there, here}, std::pair{std::array{there}, here}});
  CHECK(std::get<0>(nested).item() == 8);
  CHECK(std::get<1>(nested)[0].item() == 16);
  CHECK(std::get<1>(nested)[0].device() == cpu(1));
  CHECK(std::get<1>(nested)[1].value().item() == 4);
  CHECK(std::get<2>(nested).first[0].device() == cpu(1));
  CHECK(std::get<2>(nested).second.device() == cpu);
}

// test_grad_scaling_multigpu: two optimizers, each with parameters on both devices
TEST_CASE("G20 G30: two optimizers over two devices: an overflow on one device skips its optimizer and backs off once",
          "[scaler]") {
  for (int spoilt = 0; spoilt < 4; ++spoilt) {
    GradScaler scaler({.init_scale = 128, .growth_interval = 1});
    Tensor p[4];
    for (int k = 0; k < 4; ++k) p[k] = ones({3}, {.device = k % 2 == 0 ? cpu : cpu(1)}).requires_grad_();
    optim::Sgd a({p[0]}, {.lr = 1}), b({p[2]}, {.lr = 1});
    a.add_group({p[1]}, {.lr = 1});
    b.add_group({p[3]}, {.lr = 1});
    for (const Tensor& x : p) backward(scaler.scale(x.sum()));
    p[spoilt].grad().fill_(inf);
    scaler.unscale_(b);
    CHECK(scaler.step(a).skipped() == (spoilt < 2));
    CHECK(scaler.step(b).skipped() == (spoilt >= 2));
    for (int k = 0; k < 4; ++k)
      CHECK(same_bits(p[k].detach(), full({3}, (k < 2) == (spoilt < 2) ? 1 : 0, {.device = p[k].device()})));
    scaler.update();
    CHECK(scaler.get_scale() == 64);
  }
}
