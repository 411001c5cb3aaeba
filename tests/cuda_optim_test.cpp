// Training on the device compared with training on the CPU: every optimizer, the loss scaler with overflows, clipping,
// and the guarantee that a step reads nothing back to the host.
#include <cmath>
#include <functional>
#include <memory>

#include "core/host_reads.h"
#include "mantissa.h"
#include "tests/catch_compat.h"

using namespace mantissa;

namespace {

struct Net {
  nn::Linear in{6, 16}, out{16, 3};
  MANTISSA_FIELDS(in, out)
  Tensor operator()(const Tensor& x) const { return out(tanh(in(x))); }
};

using Maker = std::function<std::unique_ptr<optim::Optimizer>(std::vector<Tensor>)>;
template <class O> Maker make(auto options) {
  return [options](std::vector<Tensor> p) { return std::make_unique<O>(std::move(p), options); };
}

// Parameters after some steps on `device`; step 2 overflows.
std::vector<Tensor> train(Device device, Dtype dtype, const Maker& maker) {
  manual_seed(3);
  Net net;
  const Tensor x = cast(randn({8, 6}), dtype), target = cast(randn({8, 3}), dtype);
  nn::to(net, dtype);
  nn::to(net, device);
  const Tensor xd = x.to(device), td = target.to(device), infinite = Tensor(INFINITY);
  const auto opt = maker(nn::parameters(net));
  amp::GradScaler scaler({.init_scale = 1024, .growth_interval = 2});
  std::uint64_t before = 0;
  for (int step = 0; step < 5; ++step) {
    Tensor loss = mse_loss(net(xd), td);
    if (step == 2) loss = loss * (dtype == f64 ? 1e308 : 1e38);
    backward(scaler.scale(loss));
    scaler.unscale_(*opt);
    optim::clip_grad_norm_(opt->parameters(), 0.5);  // Muon has the matrices alone
    scaler.step(*opt);
    scaler.update();
    nn::zero_grad(net);
    if (step == 0) before = host_reads();
  }
  CHECK(host_reads() == before);
  CHECK(scaler.get_scale() == 2048);  // grew, backed off, grew
  std::vector<Tensor> result;
  for (const Tensor& p : nn::parameters(net)) result.push_back(p.detach().to(cpu));
  return result;
}

void compare(const char* name, const Maker& maker) {
  for (const Dtype dtype : {f32, f64}) {
    INFO(name << " in " << name_of(dtype));
    const auto on_cpu = train(cpu, dtype, maker), on_device = train(cuda, dtype, maker);
    REQUIRE(on_cpu.size() == on_device.size());
    for (std::size_t i = 0; i < on_cpu.size(); ++i) {
      const auto a = cast(on_cpu[i], f64).to_vector<double>(), b = cast(on_device[i], f64).to_vector<double>();
      double worst = 0;
      for (std::size_t k = 0; k < a.size(); ++k) worst = std::max(worst, std::abs(a[k] - b[k]));
      CHECK(worst <= (dtype == f64 ? 1e-12 : 2e-5));
    }
  }
}

}  // namespace

TEST_CASE("every optimizer moves parameters on the device as on the CPU, overflows included, and reads nothing back") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  compare("Sgd", make<optim::Sgd>(optim::SgdOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true}));
  compare("Sgd, plain", make<optim::Sgd>(optim::SgdOptions{.lr = 0.1, .weight_decay = 0.01}));
  compare("Adam", make<optim::Adam>(optim::AdamOptions{.lr = 0.01}));
  compare("Adam, amsgrad", make<optim::Adam>(optim::AdamOptions{.lr = 0.01, .amsgrad = true}));
  compare("AdamW", make<optim::AdamW>(optim::AdamWOptions{.lr = 0.01}));
  compare("RMSprop", make<optim::RMSprop>(optim::RMSpropOptions{.lr = 0.01, .momentum = 0.9, .centered = true}));
  compare("RMSprop, centered", make<optim::RMSprop>(optim::RMSpropOptions{.lr = 0.01, .centered = true}));
  compare("RMSprop, momentum", make<optim::RMSprop>(optim::RMSpropOptions{.lr = 0.01, .momentum = 0.9}));
  compare("RMSprop, plain", make<optim::RMSprop>(optim::RMSpropOptions{.lr = 0.01}));
  compare("Adagrad", make<optim::Adagrad>(optim::AdagradOptions{.lr = 0.01}));
  compare("Adadelta", make<optim::Adadelta>(optim::AdadeltaOptions{}));
  compare("Adamax", make<optim::Adamax>(optim::AdamaxOptions{.lr = 0.01}));
  compare("NAdam", make<optim::NAdam>(optim::NAdamOptions{.lr = 0.01}));
  compare("RAdam", make<optim::RAdam>(optim::RAdamOptions{.lr = 0.01}));
  compare("Lion", make<optim::Lion>(optim::LionOptions{.lr = 0.001}));
  compare("ASGD", make<optim::ASGD>(optim::ASGDOptions{.lr = 0.01}));
  compare("Rprop", make<optim::Rprop>(optim::RpropOptions{.lr = 0.01}));
  compare("LAMB", make<optim::LAMB>(optim::LAMBOptions{.lr = 0.01}));
  compare("Adafactor", make<optim::Adafactor>(optim::AdafactorOptions{}));
  compare("Muon", [](std::vector<Tensor> p) {
    std::vector<Tensor> matrices;
    for (const Tensor& t : p) if (t.dim() == 2) matrices.push_back(t);
    return std::make_unique<optim::Muon>(std::move(matrices), optim::MuonOptions{.lr = 0.01});
  });
}

TEST_CASE("averages of weights follow them on the device as on the CPU, and stand still in skipped steps") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const auto averages = [](Device device) {
    manual_seed(4);
    const NoGrad no_grad;
    std::vector<Tensor> p;
    for (const Dtype t : {f32, f16, bf16, f64}) {
      for (const Dims& sizes : {Dims{3}, Dims{33, 70}, Dims{0}, Dims{}}) p.push_back(randn(sizes).to(t).to(device));
    }
    p.push_back(transpose(randn({5, 7}), 0, 1).to(device));  // not contiguous on the CPU
    optim::Ema ema(p, {.decay = 0.9});
    optim::Swa swa(p);
    for (int step = 0; step < 4; ++step) {
      for (Tensor& x : p) x.copy_(x * 0.5 + static_cast<double>(step));
      const amp::StepResult result(full({}, step == 2, {.dtype = boolean, .device = device}), {});
      const std::uint64_t before = host_reads();
      ema.update(result);
      swa.update(result);
      CHECK(host_reads() == before);
    }
    CHECK(ema.updates() == 3);
    std::vector<Tensor> values;
    for (std::size_t i = 0; i < p.size(); ++i) {
      CHECK(ema.average(i).dtype() == (p[i].dtype() == f64 ? f64 : f32));
      values.push_back(ema.average(i).to(cpu));
      values.push_back(swa.average(i).to(cpu));
    }
    return values;
  };
  const std::vector<Tensor> host = averages(cpu), device = averages(cuda);
  for (std::size_t i = 0; i < host.size(); ++i) {
    const double unit = host[i].dtype() == f64 ? 1e-14 : 1e-6;
    CHECK(all(abs(device[i] - host[i]) <= unit * (1.0 + abs(host[i]))).item<bool>());
  }
}

TEST_CASE("norms of gradients on the device agree with the CPU for every p, over many tensors of odd sizes") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  manual_seed(5);
  for (const double p : {1.0, 2.0, 3.0, HUGE_VAL}) {
    std::vector<Tensor> host, device;
    for (int i = 0; i < 60; ++i) {  // more than one launch takes
      const Tensor g = randn({1 + 97 * (i % 7) + (i == 3 ? 5000 : 0)});
      Tensor a = zeros_like(g), b = zeros_like(g).to(cuda);
      a.requires_grad_(), b.requires_grad_();
      a.set_grad(g), b.set_grad(g.to(cuda));
      host.push_back(a), device.push_back(b);
    }
    const float want = optim::clip_grad_norm_(host, 1.0, {.norm_type = p}).item(),
                got = optim::clip_grad_norm_(device, 1.0, {.norm_type = p}).item();
    CHECK(std::abs(want - got) <= 1e-5f * want);
  }
}

TEST_CASE("gradients on the device are clipped by value and by norm as on the CPU, in f32 and f64") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  manual_seed(6);
  for (const Dtype dtype : {f32, f64}) {
    INFO(name_of(dtype));
    std::vector<Tensor> host, device;
    for (const std::int64_t n : {1, 1000, 4099}) {
      const Tensor g = cast(randn({n}), dtype);
      host.push_back(zeros_like(g).requires_grad_()), device.push_back(zeros_like(g).to(cuda).requires_grad_());
      host.back().set_grad(g), device.back().set_grad(g.to(cuda));
    }
    const auto compare_gradients = [&](double bound) {
      for (std::size_t i = 0; i < host.size(); ++i)
        CHECK(max(abs(device[i].grad().to(cpu) - host[i].grad())).item<double>() <= bound);
    };
    optim::clip_grad_value_(host, 0.5), optim::clip_grad_value_(device, 0.5);
    compare_gradients(0);
    optim::clip_grad_norm_(host, 0.1), optim::clip_grad_norm_(device, 0.1);
    compare_gradients(dtype == f64 ? 1e-15 : 1e-8);
  }
}
