// A step without a preceding unscale_: gradients stay unchanged in memory, and the update unscales and clips them as it
// reads them, with no visible difference.
#include <limits>

#include "amp/grad_scaler.h"
#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "core/ops.h"
#include "nn/functions.h"
#include "nn/linear.h"
#include "optim/clip.h"
#include "tests/catch_compat.h"
#include "tests/scaler_optimizers.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using amp::GradScaler;

namespace {

Tensor parameter() { return ones({4}).requires_grad_(); }
std::uint32_t version_of(const Tensor& t) { return t.storage()->version(); }
const Tensor& scale(const Tensor& p, double by, GradScaler& scaler, Tensor& keep) {
  keep = scaler.scale(p.sum() * by);
  return keep;
}

}  // namespace

TEST_CASE("step without unscale_ writes no gradient, and who looks finds it divided", "[scaler]") {
  GradScaler scaler({.init_scale = 8});
  Tensor p = parameter(), loss;
  optim::Sgd opt({p}, {.lr = 0.5});
  backward(scale(p, 2, scaler, loss));
  const std::uint32_t before = version_of(p.grad());
  CHECK(same_bits(p.grad(), full({4}, 16)));
  CHECK(!scaler.step(opt).skipped());
  CHECK(same_bits(p.detach(), zeros({4})));
  const Tensor seen = p.grad();
  CHECK(version_of(seen) == before + 1);  // divided now, and not before
  CHECK(same_bits(seen, full({4}, 2)));
  CHECK(same_bits(p.grad(), full({4}, 2)));
  CHECK(version_of(p.grad()) == before + 1);
  scaler.update();
}

TEST_CASE("what is added to a gradient after the step is added to the divided one; the scaler refuses it", "[scaler]") {
  GradScaler scaler({.init_scale = 8});
  Tensor p = parameter(), loss;
  optim::Sgd opt({p}, {.lr = 0});
  backward(scale(p, 2, scaler, loss));
  scaler.step(opt);
  scaler.update();
  SECTION("a loss that was not scaled") {
    backward(p.sum());
    CHECK(same_bits(p.grad(), full({4}, 3)));
  }
  SECTION("a scaled one") {
    backward(scale(p, 2, scaler, loss));
    CHECK_THROWS_WITH(scaler.step(opt), Catch::Contains("call zero_grad() before backward"));
  }
  SECTION("the same gradient again") { CHECK_THROWS_WITH(scaler.step(opt), Catch::Contains("call zero_grad()")); }
  SECTION("zeros written by hand") {
    opt.zero_grad(false);
    CHECK(same_bits(p.grad(), zeros({4})));
    backward(scale(p, 2, scaler, loss));
    CHECK(!scaler.step(opt).skipped());
    CHECK(same_bits(p.grad(), full({4}, 2)));
  }
  SECTION("another gradient") {
    p.set_grad(full({4}, 24));
    CHECK(same_bits(p.grad(), full({4}, 24)));
  }
  SECTION("the parameter moves to another dtype") {
    nn::Linear layer(2, 2);
    backward(scaler.scale(layer.weight.sum()));
    optim::Sgd other({layer.weight}, {.lr = 0});
    scaler.step(other);
    nn::to(layer, f64);
    CHECK(same_bits(layer.weight.grad(), ones({2, 2}, {.dtype = f64})));
  }
}

TEST_CASE("a gradient that somebody else holds is divided in memory, as PyTorch does", "[scaler]") {
  GradScaler scaler({.init_scale = 8});
  Tensor p = parameter(), loss;
  optim::Sgd opt({p}, {.lr = 0});
  backward(scale(p, 2, scaler, loss));
  const Tensor held = p.grad();
  scaler.step(opt);
  CHECK(same_bits(held, full({4}, 2)));
}

TEST_CASE("clipping within step has the bits of clip_grad_norm_ before it, with each optimizer", "[scaler]") {
  MANTISSA_PRINT_SEED();
  for (const OptimizerMaker& m : all_optimizers()) {
    for (const double max_norm : {0.02, 1e3}) {
      INFO(m.name << ", clipped to " << max_norm);
      const auto train = [&](bool within) {
        nn::Linear net(8, 8);
        const NoGrad outside;
        std::uint64_t stream = 1;
        for (Tensor p : nn::parameters(net)) p.copy_(random_tensor(p.sizes(), stream++, -0.3, 0.3));
        const auto opt = m.make(nn::parameters(net));
        GradScaler scaler({.init_scale = 1000, .growth_interval = 2});
        std::vector<Tensor> seen;
        for (std::uint64_t i = 0; i < 5; ++i) {
          opt->zero_grad();
          {
            const EnableGrad inside;
            const Tensor y = net(random_tensor({8, 8}, 30 + i).to(f32));
            backward(scaler.scale((y * y).mean()));
          }
          if (i == 2) net.weight.grad().as_strided({}, {}, 5).fill_(std::numeric_limits<double>::infinity());
          amp::StepResult result;
          if (within) {
            result = scaler.step(*opt, amp::ClipNorm{max_norm});
          } else {
            scaler.unscale_(*opt);
            optim::clip_grad_norm_(opt->parameters(), max_norm);
            result = scaler.step(*opt);
          }
          CHECK(result.skipped() == (i == 2));
          seen.push_back(scalar(result.gradients().norm, {.dtype = f64}));
          if (i != 2) {
            for (const Tensor& p : opt->parameters()) seen.push_back(p.grad().clone());
          }
          scaler.update();
        }
        for (const Tensor& p : opt->parameters()) seen.push_back(p.detach());
        return seen;
      };
      const std::vector<Tensor> apart = train(false), within = train(true);
      REQUIRE(apart.size() == within.size());
      for (std::size_t i = 0; i < apart.size(); ++i) CHECK(same_bits(apart[i], within[i]));
    }
  }
}

TEST_CASE("a disabled scaler clips within step, with the bits of clip_grad_norm_ before it", "[scaler]") {
  MANTISSA_PRINT_SEED();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const OptimizerMaker& m : all_optimizers()) {
    for (const bool held : {false, true}) {
      for (const double first : {0.5, infinity}) {
        INFO(m.name << (held ? ", held" : "") << ", first element " << first);
        const auto train = [&](bool within) {
          Tensor w = full({3, 4}, 0.25).requires_grad_(), frozen = ones({2});
          const auto opt = m.make({w, frozen});
          GradScaler off({.enabled = false});
          std::vector<Tensor> seen;
          for (std::uint64_t i = 0; i < 3; ++i) {
            opt->zero_grad();
            backward(off.scale((w * random_tensor({3, 4}, 40 + i).to(f32)).sum()));
            if (i == 2) w.grad().as_strided({}, {}, 0).fill_(first);
            const Tensor hold = held ? w.grad() : Tensor();
            double norm;
            if (within) {
              norm = off.step(*opt, amp::ClipNorm{0.1}).gradients().norm;
            } else {
              norm = optim::clip_grad_norm_(opt->parameters(), 0.1).item<double>();
              opt->step();
            }
            off.update();
            seen.push_back(scalar(norm));
            seen.push_back(w.grad().clone());
            seen.push_back(w.detach().clone());
          }
          return seen;
        };
        const std::vector<Tensor> apart = train(false), within = train(true);
        for (std::size_t i = 0; i < apart.size(); ++i) CHECK(allclose(apart[i], within[i], 0, 0, true));
      }
    }
  }
}

TEST_CASE("clipping within step: bad input", "[scaler]") {
  GradScaler scaler;
  Tensor p = parameter();
  optim::Sgd opt({p}, {});
  backward(scaler.scale(p.sum()));
  CHECK_THROWS_WITH(scaler.step(opt, amp::ClipNorm{-1}), Catch::Contains("max_norm must not be negative"));
  scaler.unscale_(opt);
  CHECK_THROWS_WITH(scaler.step(opt, amp::ClipNorm{1}), Catch::Contains("was unscaled at"));
}

// Without overflows a scale grows to 2^127, whose inverse is below f32's normal numbers.
TEST_CASE("gradients are divided by scales beyond 2^126 too", "[scaler]") {
  for (const double power : {0x1p126, 0x1p127, 0x1.8p127}) {
    for (const int way : {0, 1, 2}) {
      INFO("scale " << power << ", way " << way);
      GradScaler scaler({.init_scale = power});
      Tensor p = zeros({4}).requires_grad_(), loss;
      optim::Sgd opt({p}, {.lr = 1});
      backward(scale(p, 0x1p-100, scaler, loss));
      if (way == 1) {
        scaler.unscale_(opt);
        CHECK(all_close(p.grad() * 0x1p100, ones({4})));
      }
      CHECK(!(way == 2 ? scaler.step(opt, amp::ClipNorm{1e-3}) : scaler.step(opt)).skipped());
      CHECK(all_close(p.detach() * -0x1p100, ones({4})));
      scaler.update();
    }
  }
}
