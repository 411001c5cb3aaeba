// Every registered operator and its gradient in a captured step: recorded and replayed, with the bits of the eager
// calls. The list of those that a step must not contain is exact.
#include <map>
#include <set>

#include "core/accelerator.h"
#include "jit/capture.h"
#include "tests/op_testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

// Operators that read a value on the host, or compute there, for some of their samples, and why.
const std::map<std::string, std::string> refused = {};

Tensors on_cuda(const Tensors& x) {
  Tensors y;
  for (const Tensor& t : x) {
    y.push_back(!t.defined() || t.is_weak_scalar() ? t : t.detach().to(cuda));
    if (t.defined() && t.requires_grad()) y.back().requires_grad_();
  }
  return y;
}

// The results on the device, and the gradients of the inputs.
Tensors evaluate(const OpInfo& op, const Sample& s, const Tensors& x, const Tensors& v) {
  const Tensors y = s.call(x);
  Tensors all, roots, seeds;
  for (std::size_t k = 0; k < y.size(); ++k) {
    if (!y[k].defined() || y[k].device().is_cpu()) continue;
    all.push_back(op.is_view ? y[k].detach().clone() : y[k].detach());  // a view is outside of the recording
    if (k < v.size() && v[k].defined() && y[k].requires_grad()) roots.push_back(y[k]), seeds.push_back(v[k]);
  }
  if (roots.empty()) return all;
  for (const Tensor& g : grad(roots, leaves(x), seeds, {.allow_unused = true}))
    if (g.defined()) all.push_back(g.clone());
  return all;
}

}  // namespace

TEST_CASE("every operator can be captured, or says why it cannot") {
  if (!cuda_is_available()) {
    WARN("no GPU: nothing was tested");
    return;
  }
  MANTISSA_PRINT_SEED();
  std::map<std::string, std::string> found;
  std::size_t captured = 0;
  const Tensor on_device = zeros({1}, {.device = cuda});
  for (const OpInfo& op : registry()) {
    if (!selected(op)) continue;
    Samples samples(seed());
    op.samples(samples);
    for (std::size_t i = 0; i < samples.all.size(); ++i) {
      const Sample& s = samples.all[i];
      INFO(op.name << ", sample " << i << ": " << describe_all(s.inputs));
      const bool differentiable = can_differentiate(op, s);
      Tensors x = on_cuda(prepared(s, f32)), v;
      if (differentiable) {
        x = wanting_gradients(op, x);
        for (const Tensor& y : run(op, s, x))
          v.push_back(y.requires_grad() ? cast(random_tensor(y.sizes(), 77), y.dtype()).to(y.device()) : Tensor());
      }
      try {
        const Tensors expected = evaluate(op, s, x, v);
        if (expected.empty()) continue;  // nothing of it is on the device
        jit::CapturedStep step([&](const Tensors&) { return evaluate(op, s, x, v); });
        for (int call = 0; call < 3; ++call) {
          const Tensors y = step.run({on_device});  // the sample's inputs stay where they are
          if (op.random || op.mutates) continue;
          REQUIRE(y.size() == expected.size());
          for (std::size_t k = 0; k < y.size(); ++k) CHECK(same_bits(y[k].to(cpu), expected[k].to(cpu)));
        }
        CHECK(step.replays() >= 1);
        ++captured;
      } catch (const std::exception& e) {
        found.emplace(op.name, e.what());
      }
    }
  }
  for (const auto& [name, message] : found) {
    INFO(name << ": " << message);
    CHECK(refused.contains(name));
    CHECK(message.find("captured") != std::string::npos);
  }
  if (!std::getenv("MANTISSA_OP") && !std::getenv("MANTISSA_OP_PART")) {
    for (const auto& [name, why] : refused) {
      INFO(name << " is listed, but was captured");
      CHECK(found.contains(name));
    }
  }
  std::printf("%zu samples captured; operators refused: %zu\n", captured, found.size());
}
