// Models held in f16 or bf16 with f32 masters in the optimizer, gradients summed in f32, optimizer state in bf16, and
// averages of weights.
#include <cmath>

#include "amp/autocast.h"
#include "amp/grad_scaler.h"
#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "core/ops.h"
#include "optim/ema.h"
#include "tests/catch_compat.h"
#include "tests/every_optimizer.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

TEST_CASE("with masters a half model is trained exactly as an f32 model, and is its rounding", "[optim][masters]") {
  MANTISSA_PRINT_SEED();
  std::map<std::string, Make> all = optimizers();
  all.merge(muons(f32));
  for (Dtype dtype : {f16, bf16}) {
    for (const auto& [name, make] : all) {
      INFO(name << " " << name_of(dtype));
      std::vector<Tensor> half, full;
      for (std::uint64_t i = 0; i < 3; ++i) {
        half.push_back(random_tensor({9, 4 + static_cast<std::int64_t>(i)}, i).to(dtype).requires_grad_());
        full.push_back(half.back().detach().to(f32).requires_grad_());
      }
      const auto a = make(half, {.master_weights = true}), b = make(full, {});
      for (std::uint64_t t = 0; t < 4; ++t) {
        for (std::size_t i = 0; i < half.size(); ++i) {
          const Tensor g = random_tensor({9, 4 + static_cast<std::int64_t>(i)}, 20 + 3 * t + i).to(f32);
          half[i].set_grad(g);
          full[i].set_grad(g.clone());
        }
        a->step();
        b->step();
      }
      for (std::size_t i = 0; i < half.size(); ++i) {
        CHECK(same_bits(a->master(i).detach(), full[i].detach()));
        CHECK(same_bits(half[i].detach(), full[i].detach().to(dtype)));
      }
    }
  }
}

TEST_CASE("steps too small for the parameter's dtype add up in its master", "[optim][masters]") {
  for (const bool masters : {false, true}) {
    Tensor p = ones({4}, {.dtype = bf16}).requires_grad_();
    optim::Sgd opt({p}, {.lr = 1}, {.master_weights = masters});
    for (int t = 0; t < 256; ++t) {
      p.set_grad(full({4}, 0x1p-10));  // bf16 has 2^-7 around 1
      opt.step();
    }
    CHECK(same_bits(p.detach(), full({4}, masters ? 0.75 : 1, {.dtype = bf16})));
  }
}

TEST_CASE("gradients of half parameters are summed in f32", "[optim][masters]") {
  Tensor p = ones({3}, {.dtype = f16}).requires_grad_(), plain = ones({3}, {.dtype = f16}).requires_grad_();
  optim::Sgd opt({p}, {.lr = 1}, {.master_weights = true});
  for (int k = 0; k <= 1024; ++k) {
    const double share = k == 0 ? 1 : 0x1p-12;
    for (const Tensor& x : {p, plain}) backward((x * full({3}, share, {.dtype = f16})).sum());
  }
  CHECK(same_bits(p.grad(), full({3}, 1.25)));
  CHECK(same_bits(plain.grad(), ones({3}, {.dtype = f16})));  // where f16 stays
}

TEST_CASE("so are those of a parameter that was frozen for a while, after zero_grad or load_state_dict",
          "[optim][masters]") {
  for (const bool load : {false, true}) {
    Tensor p = ones({3}, {.dtype = f16}).requires_grad_();
    optim::Sgd opt({p}, {.lr = 1}, {.master_weights = true});
    p.requires_grad_(false);
    p.requires_grad_();
    if (load) opt.load_state_dict(opt.state_dict());
    else opt.zero_grad();
    amp::GradScaler scaler({.init_scale = 8});
    backward(scaler.scale((p * full({3}, 0x1p-12, {.dtype = f16})).to(f32).sum()));
    CHECK(p.grad().dtype() == f32);
    scaler.step(opt);
    CHECK(same_bits(opt.master(0), full({3}, 1 - 0x1p-12)));
  }
}

TEST_CASE("a scaler takes the f32 gradients of an f16 model", "[optim][masters]") {
  MANTISSA_PRINT_SEED();
  Tensor w = random_tensor({8, 4}, 1).to(f16).requires_grad_(), control = w.detach().to(f32).requires_grad_();
  optim::Adam opt({w}, {.lr = 1e-3}, {.master_weights = true}), plain({control}, {.lr = 1e-3});
  amp::GradScaler scaler({.init_scale = 1024});
  for (std::uint64_t t = 0; t < 20; ++t) {
    const Tensor x = random_tensor({16, 8}, 10 + t), y = random_tensor({16, 4}, 50 + t);
    opt.zero_grad();
    plain.zero_grad();
    const Tensor loss = mse_loss(matmul(x.to(f16), w).to(f32), y.to(f32));
    backward(scaler.scale(loss));
    REQUIRE(w.grad().dtype() == f32);
    CHECK(!scaler.step(opt).skipped());
    scaler.update();
    backward(mse_loss(matmul(x.to(f32), control), y.to(f32)));
    plain.step();
  }
  CHECK(difference(opt.master(0).detach(), control.detach().to(f64), {1e-3, 1e-3}) == "");
}

TEST_CASE("who writes to a half parameter between steps is heard, and one who restores it loses no bit",
          "[optim][masters]") {
  Tensor p = ones({4}, {.dtype = bf16}).requires_grad_();
  optim::Sgd opt({p}, {.lr = 1}, {.master_weights = true});
  const auto step = [&] {
    p.set_grad(full({4}, 0x1p-10));
    opt.step();
  };
  step();
  CHECK(same_bits(opt.master(0), full({4}, 1 - 0x1p-10)));
  optim::Ema ema({p});
  { const auto scope = ema.applied(); }
  step();
  CHECK(same_bits(opt.master(0), full({4}, 1 - 0x1p-9)));
  {
    const NoGrad no_grad;
    p.slice(0, 0, 2).fill_(3);
  }
  step();
  CHECK(same_bits(opt.master(0), tensor({3 - 0x1p-10, 3 - 0x1p-10, 1 - 3 * 0x1p-10, 1 - 3 * 0x1p-10})));
}

TEST_CASE("moments in bf16 are right on average, where rounding to nearest would stand still", "[optim][masters]") {
  const std::int64_t n = 20000;
  Tensor p = zeros({n}).requires_grad_();
  optim::Adam opt({p}, {.lr = 0}, {.state_dtype = bf16});
  p.set_grad(ones({n}));
  for (int t = 0; t < 500; ++t) opt.step();
  for (const auto& [name, t] : opt.state_dict()) {
    if (name == "state.0.exp_avg_sq") {
      REQUIRE(t.dtype() == bf16);
      CHECK(t.to(f64).mean().item<double>() == Approx(1 - std::pow(0.999, 500)).epsilon(2e-3));
    }
    if (name == "state.0.exp_avg") CHECK(t.to(f64).mean().item<double>() == Approx(1).epsilon(2e-3));
  }
  CHECK_THAT(message_of([&] { optim::Adam({p}, {}, {.state_dtype = f16}); }),
             Contains("state_dtype must be f32 or bf16"));
  CHECK_THAT(message_of([&] { optim::Adafactor({p}, {}, {.state_dtype = bf16}); }), Contains("leave state_dtype out"));
}

TEST_CASE("training with bf16 moments ends where training with f32 moments does", "[optim][masters]") {
  MANTISSA_PRINT_SEED();
  const Tensor x = random_tensor({64, 16}, 1).to(f32), target = matmul(x, random_tensor({16, 1}, 2).to(f32));
  const auto final_loss = [&](const optim::MemoryOptions& memory) {
    Tensor w = zeros({16, 1}).requires_grad_();
    optim::AdamW opt({w}, {.lr = 0.02, .weight_decay = 0}, memory);
    Tensor loss;
    for (int t = 0; t < 300; ++t) {
      opt.zero_grad();
      loss = mse_loss(matmul(x, w), target);
      backward(loss);
      opt.step();
    }
    return loss.item<double>();
  };
  const double exact = final_loss({}), narrow = final_loss({.state_dtype = bf16});
  INFO("f32 " << exact << " bf16 " << narrow);
  CHECK(narrow < 1e-3);
  CHECK(exact < 1e-3);
}

TEST_CASE("Ema has the averages of AveragedModel, which begin with the first update", "[optim]") {
  for (const Dtype dtype : {f32, f64}) {
    Tensor p = zeros({1}, {.dtype = dtype}).requires_grad_();  // 0 is random, say: it must not weigh in
    optim::Ema ema({p}, {.decay = 0.9});
    CHECK(ema.average(0).item<double>() == 0);
    // torch.optim.swa_utils.AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.9)) of 1, 4, 9, 16
    const double expected[] = {1, 1.3, 2.07, 3.463};
    for (int t = 0; t < 4; ++t) {
      {
        const NoGrad no_grad;
        p.fill_((t + 1) * (t + 1));
      }
      ema.update();
      CHECK(std::abs(ema.average(0).item<double>() - expected[t]) < (dtype == f64 ? 1e-14 : 1e-6));
    }
  }
}

TEST_CASE("the first update of an average takes the parameters exactly, however large they were before", "[optim]") {
  Tensor p = full({2}, 1e8).requires_grad_();
  optim::Ema ema({p});
  optim::Swa swa({p});
  {
    const NoGrad no_grad;
    p.copy_(tensor({1e-3, -7e-12}));
  }
  ema.update();
  swa.update();
  CHECK(same_bits(ema.average(0), p));
  CHECK(same_bits(swa.average(0), p));
}

TEST_CASE("averages of weights resume bitwise and leave skipped steps out", "[optim]") {
  MANTISSA_PRINT_SEED();
  Tensor p = random_tensor({5}, 1).to(f32).requires_grad_();
  optim::Ema ema({p}, {.decay = 0.9});
  optim::Swa swa({p});
  std::vector<double> sum(5);
  const auto write = [&](std::uint64_t stream) {
    const NoGrad no_grad;
    p.copy_(random_tensor({5}, stream).to(f32));
    const std::vector<double> v = p.to_vector<double>();
    for (std::size_t i = 0; i < 5; ++i) sum[i] += v[i] / 4;
  };
  for (std::uint64_t t = 0; t < 4; ++t) {
    write(10 + t);
    ema.update();
    swa.update();
  }
  CHECK(difference(swa.average(0), from_data<double>(sum, {5}), {1e-6, 1e-6}) == "");
  CHECK(swa.updates() == 4);
  const Tensor before = swa.average(0).clone();
  write(30);
  swa.update(amp::StepResult(ones({}, {.dtype = boolean}), {}));
  CHECK(same_bits(swa.average(0), before));
  CHECK(swa.updates() == 4);
  optim::Ema other({p}, {.decay = 0.9});
  optim::Swa second({p});
  other.load_state_dict(ema.state_dict());
  second.load_state_dict(swa.state_dict());
  for (const bool skip : {false, true}) {
    const amp::StepResult result(full({}, skip, {.dtype = boolean}), {});
    ema.update(result);
    other.update(result);
    swa.update(result);
    second.update(result);
  }
  CHECK(same_bits(ema.average(0), other.average(0)));
  CHECK(same_bits(swa.average(0), second.average(0)));
  CHECK(second.updates() == 5);
  Tensor q = zeros({3}).requires_grad_();
  CHECK_THAT(message_of([&] { optim::Ema({q}).load_state_dict(ema.state_dict()); }), Contains("[3]"));
}
