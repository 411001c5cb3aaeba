#include "jit/fuse.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "core/formula_recorder.h"
#include "core/ops.h"
#include "jit/trace.h"
#include "ops/apply.h"

namespace mantissa::jit {
namespace {

// One combination of dtypes: its trace, and the programs compiled from it.
struct Compiled {
  Trace trace;
  AutocastState autocast;  // at the time of the trace
  std::shared_ptr<const ElementwiseFunction> function;
  std::mutex mutex;
  std::map<std::uint64_t, TracedPart> gradients;  // by the set of arguments that require one

  const TracedPart& gradients_of(std::uint64_t mask, std::span<const int> wanted) {
    const std::lock_guard lock(mutex);
    const auto at = gradients.find(mask);
    return at != gradients.end() ? at->second : gradients.emplace(mask, trace.gradients(wanted)).first->second;
  }
};

void run_part(const TracedPart& part, std::span<const View> y, std::span<const View* const> arguments) {
  const View* inputs[FusedProgram::most_inputs];
  for (std::size_t k = 0; k < part.arguments.size(); ++k)
    inputs[k] = arguments[static_cast<std::size_t>(part.arguments[k])];
  kernels::fused(y[0].device, part.program, y, std::span(inputs, part.arguments.size()));
}

constexpr const char* argument_names[] = {"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7"};

template <class Indices> struct FusedOp;
template <std::size_t... i> struct FusedOp<std::index_sequence<i...>> {
  static constexpr std::size_t n = sizeof...(i);
  template <std::size_t> using Argument = const Tensor&;
  template <std::size_t> using ArgumentView = const View&;

  static constexpr bool takes_host_numbers = true;
  static constexpr auto name = "fused";
  static constexpr const char* args[] = {argument_names[i]...};
  std::shared_ptr<Compiled> compiled;

  Spec infer(Argument<i>... x) const {
    Dims sizes;
    const Tensor* all[] = {&x...};
    for (const int k : compiled->trace.forward.arguments)  // only arguments that the function uses
      sizes = broadcast(sizes, all[k]->sizes());
    Device device = cpu;
    ((device = x.device().is_cpu() ? device : x.device()), ...);
    return in_layout_of({sizes, compiled->trace.result, device}, x...);
  }
  void run(const View& y, ArgumentView<i>... x) const {
    const View* all[] = {&x...};
    run_part(compiled->trace.forward, std::span(&y, 1), all);
  }

  struct Gradients {
    std::array<Tensor, n> operator()(const FusedOp& op, Grad g, Needs needs, In<static_cast<int>(i)>... x) const {
      const Tensor all[] = {x...};
      return context().create_graph ? op.recorded_gradients(g, needs, all) : op.gradients(g, needs, all);
    }
  };
  static constexpr auto vjp() { return joint(Gradients{}); }

 private:
  std::array<Tensor, n> gradients(const Tensor& g, Needs needs, std::span<const Tensor> x) const {
    std::array<Tensor, n> all;
    std::vector<int> wanted;
    std::vector<View> results;
    std::uint64_t mask = 0;
    const std::vector<int>& values = compiled->trace.backward.outputs;
    for (std::size_t k = 0; k < n; ++k) {
      if (!needs[static_cast<int>(k)] || values[k] == -1) continue;
      const auto same = std::ranges::find_if(wanted, [&](int j) {
        return values[static_cast<std::size_t>(j)] == values[k] &&
               x[static_cast<std::size_t>(j)].dtype() == x[k].dtype();
      });
      if (same != wanted.end()) {  // e.g. both terms of a sum
        all[k] = all[static_cast<std::size_t>(*same)];
        continue;
      }
      mask |= std::uint64_t{1} << k;
      all[k] = Tensor::allocate(g.sizes(), x[k].dtype(), g.device(), g.layout());
      wanted.push_back(static_cast<int>(k));
      results.push_back(all[k].view());
    }
    if (wanted.empty()) return all;
    const View views[] = {x[i].view()..., g.view()};
    const View* inputs[] = {&views[i]..., &views[n]};
    run_part(compiled->gradients_of(mask, wanted), results, inputs);
    return all;
  }
  // Computed by separate operators, which are differentiable.
  std::array<Tensor, n> recorded_gradients(const Tensor& g, Needs needs, std::span<const Tensor> x) const {
    std::vector<Tensor> arguments(x.begin(), x.end());
    std::vector<autograd::NodeRef> nodes;
    for (std::size_t k = 0; k < n; ++k) {
      if (!needs[static_cast<int>(k)]) continue;
      arguments[k] = x[k] * 1.0;  // a separate node, even if the same tensor is two arguments
      nodes.push_back(arguments[k].impl()->node);
    }
    Tensor y;
    {
      const amp::Autocast region(compiled->autocast);
      y = (*compiled->function)(arguments);
    }
    std::array<Tensor, n> all;
    if (!y.requires_grad()) return all;
    std::vector<Tensor> found =
        autograd::gradients_at(std::vector{y}, std::vector{g}, nodes, {.create_graph = true}, true);
    for (std::size_t k = 0, at = 0; k < n; ++k)
      if (needs[static_cast<int>(k)]) all[k] = std::move(found[at++]);
    return all;
  }
};

template <std::size_t... i>
Tensor apply_fused(const std::shared_ptr<Compiled>& c, std::span<const Tensor> x, std::index_sequence<i...>) {
  return mantissa::apply(FusedOp<std::index_sequence<i...>>{c}, x[i]...);
}

// What a trace depends on.
struct Key {
  std::vector<Kind> arguments;
  int device;
  AutocastState autocast;
  bool operator==(const Key&) const = default;
};

}  // namespace

struct FusedFunction::Impl {
  std::shared_ptr<const ElementwiseFunction> function;  // autograd graphs may outlive the fused function
  std::string name;
  mutable std::mutex mutex;
  std::vector<std::pair<Key, std::shared_ptr<Compiled>>> compiled;

  std::shared_ptr<Compiled> find(std::span<const Tensor> x) {
    Device device = cpu;
    for (const Tensor& t : x) device = t.device().is_cpu() ? device : t.device();
    Key key{{}, static_cast<int>(device.type), context().autocast};
    // If all dtypes are equal, or all arguments are 0-d, it does not matter which ones are 0-d.
    const bool ranked = std::ranges::any_of(x, [&](const Tensor& t) { return t.dtype() != x[0].dtype(); }) &&
                        std::ranges::any_of(x, [](const Tensor& t) { return t.dim() > 0; });
    for (const Tensor& t : x) key.arguments.push_back({t.dtype(), ranked && t.dim() == 0});
    key.autocast.depth = 0;
    key.autocast.observed = false;
    const std::lock_guard lock(mutex);
    for (const auto& [k, c] : compiled)
      if (k == key) return c;
    auto c = std::make_shared<Compiled>();
    c->trace = trace(name.c_str(), *function, key.arguments, device);
    c->autocast = context().autocast;
    c->function = function;
    compiled.emplace_back(std::move(key), c);
    return c;
  }
};

FusedFunction::FusedFunction(ElementwiseFunction function, std::string name) : impl_(std::make_shared<Impl>()) {
  impl_->function = std::make_shared<const ElementwiseFunction>(std::move(function));
  impl_->name = std::move(name);
}

std::size_t FusedFunction::traces() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->compiled.size();
}

Tensor FusedFunction::call(std::span<const Tensor> arguments) const {
  // inside another fused function, or exported: nn/onnx.h
  if (pointwise::formula_recorder || context().autocast.traced) return (*impl_->function)(arguments);
  std::vector<Tensor> numbers;  // the arguments, with C++ numbers converted to the compute dtype
  bool on_gpu = false, wide = false;
  for (const Tensor& t : arguments) {
    check(t.defined(), impl_->name, ": an argument is an undefined tensor");
    check(t.is_floating() || t.dtype() == boolean || t.is_weak_scalar(), impl_->name,
          ": jit::fuse takes floating and bool tensors, got ", t, "; cast it with to(dtype)");
    on_gpu = on_gpu || !t.device().is_cpu();
    wide = wide || (t.dtype() == f64 && !t.is_weak_scalar());
  }
  if (on_gpu && !cuda_backend::can_fuse()) return (*impl_->function)(arguments);
  if (std::ranges::any_of(arguments, &Tensor::is_weak_scalar)) {
    for (const Tensor& t : arguments)
      numbers.push_back(t.is_weak_scalar() ? scalar(t.item(), {.dtype = wide ? f64 : f32}) : t);
  }
  const std::span<const Tensor> x = numbers.empty() ? arguments : std::span<const Tensor>(numbers);
  try {
    const std::shared_ptr<Compiled> c = impl_->find(x);
    const auto run = [&]<std::size_t... n>(std::index_sequence<n...>) {
      Tensor y;
      ((n + 1 == x.size() ? void(y = apply_fused(c, x, std::make_index_sequence<n + 1>())) : void()), ...);
      return y;
    };
    return run(std::make_index_sequence<8>());
  } catch (Error& e) {
    if (!std::string_view(e.what()).starts_with(impl_->name)) e.add_outer_context(impl_->name);
    throw;
  }
}

}  // namespace mantissa::jit
