#include "inference.h"

#include <cmath>
#include <sstream>

#include "workloads.h"

namespace bench {
namespace {

// Matrices and kernels by the number of their terms, so that signals neither vanish nor grow; vectors stay as they are.
void draw_weights(nn::ModuleRef module) {
  const NoGrad off;
  for (auto& [name, p] : nn::named_parameters(module)) {
    std::uint32_t seed = 0;
    for (const char c : name) seed += static_cast<std::uint32_t>(c);
    const double terms = static_cast<double>(p.numel()) / static_cast<double>(p.size(0));
    if (p.dim() > 1) p.copy_(draw(p.sizes(), cpu, seed) * (4 / std::sqrt(terms)));
    else if (name.ends_with("bias")) p.zero_();
  }
}
Tensor tokens(std::int64_t batch, std::int64_t length) {
  const Tensor t = Tensor::allocate({batch, length}, i64);
  for (std::int64_t i = 0; i < t.numel(); ++i) t.data<std::int64_t>()[i] = i * 7 % 65;
  return t;
}

}  // namespace

Operator make_inference(const std::string& name, Device device) {
  std::istringstream words(name);
  std::string kind, model, precision;
  std::int64_t length = 0, out = 0, batch = 0;
  words >> kind >> model;
  if (kind != "infer") return {};
  if (model == "gpt") words >> length;
  if (model == "linear") words >> length >> out;
  words >> batch >> precision;
  check(!words.fail() && (precision == "f32" || precision == "bf16"), "no inference is called \"", name, "\"");
  const Dtype dtype = precision == "bf16" ? bf16 : f32;
  if (model == "linear") {
    const Tensor x = draw({batch, length}, device).to(dtype), w = draw({out, length}, device, 2).to(dtype);
    return [=] {
      const InferenceMode on;
      return linear(x, w);
    };
  }
  auto work = std::make_shared<Workload>(make_workload(model, device, dtype));
  work->optimizer.reset();
  draw_weights(work->module);
  nn::to(work->module, dtype);
  work->train(false);
  const bool mnist = model == "mlp" || model == "cnn";
  Tensor x = model == "gpt" ? tokens(batch, length)
             : model == "mlp" ? draw({batch, 784}, cpu, 99)
                            : draw({batch, mnist ? 1 : 3, mnist ? 28 : 32, mnist ? 28 : 32}, cpu, 99);
  if (model != "gpt") x = x.to(dtype);
  x = x.to(device);
  return [=] {
    const InferenceMode on;
    return work->forward(x);
  };
}

}  // namespace bench
