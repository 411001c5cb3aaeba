#include "optim/optimizer.h"

#include <algorithm>
#include <mutex>
#include <unordered_set>

#include "autograd/grad_mode.h"
#include "autograd/node.h"
#include "core/multi_tensor.h"
#include "io/checkpoint.h"

namespace mantissa::optim {
namespace {

// Allocates, or after nn::to() moves, what belongs to a parameter to where and as what it now is.
void match(Tensor& state, Dtype dtype, Device device, const Dims& sizes) {
  const TensorOptions o{.dtype = dtype, .device = device};
  if (!state.defined()) state = zeros(sizes, o);
  else if (state.dtype() != dtype || !(state.device() == device)) state = empty(sizes, o).copy_(state);
}

autograd::LeafNode* leaf_of(const Tensor& parameter) {
  return static_cast<autograd::LeafNode*>(parameter.impl()->node.get());
}

// The parameter's shadow if it is up to date: the kernel will keep it so. A stale one is left to the
// next forward.
Tensor current_shadow(const Tensor& parameter) {
  auto* leaf = leaf_of(parameter);
  if (!leaf) return {};
  const std::lock_guard lock(leaf->mutex);
  const Tensor& shadow = leaf->shadow;
  const bool current = shadow.defined() && leaf->shadow_version == parameter.storage()->version();
  return current && shadow.is_contiguous() ? shadow : Tensor();
}

void mark_written(const Tensor& parameter, const Tensor& shadow) {
  parameter.storage()->written_by("optimizer step");
  if (!shadow.defined()) return;
  shadow.storage()->written_by("optimizer step");
  auto* leaf = leaf_of(parameter);
  const std::lock_guard lock(leaf->mutex);
  leaf->shadow_version = parameter.storage()->version();
}

}  // namespace

Parameters::Parameters(std::vector<Tensor> t) : tensors(std::move(t)), names(tensors.size()) {}
Parameters::Parameters(const NamedTensors& named) {
  for (const auto& [name, t] : named) {
    tensors.push_back(t);
    names.push_back(name);
  }
}

void Optimizer::add_group(Group g) {
  check(!g.parameters.empty(), "optimizer: a group needs at least one parameter; was nn::parameters called on a module without any?");
  std::unordered_set<const TensorImpl*> seen;
  for (const Tensor& p : parameters()) seen.insert(p.impl());
  for (std::size_t i = 0; i < g.parameters.size(); ++i) {
    const Tensor& p = g.parameters[i];
    const auto name = [&] { return g.names[i].empty() ? concat("parameter ", static_cast<unsigned long>(i)) : g.names[i]; };
    check(p.defined(), "optimizer: ", name(), " is an undefined tensor");
    check(p.is_floating(), "optimizer: ", name(), " is ", p, "; only floating tensors can be optimized");
    check(p.is_leaf(), "optimizer: ", name(), " is the result of an operator; only leaves can be optimized");
    check(p.is_contiguous(), "optimizer: ", name(), " ", p, " is not contiguous; use contiguous() before it becomes a parameter");
    check(p.device() == g.parameters[0].device(), "optimizer: a group must be on one device, ", name(), " is on ", p.device(),
          ", the first on ", g.parameters[0].device());
    check(seen.insert(p.impl()).second, "optimizer: ", name(), " appears twice");
    std::array<Tensor, 3> state;
    for (std::size_t k = 0; k < g.state_names.size(); ++k) {
      match(state[k], compute_dtype(p.dtype()), p.device(), p.sizes());
    }
    g.state.push_back(std::move(state));
  }
  const Device device = g.parameters[0].device();
  g.steps = zeros({static_cast<std::int64_t>(g.parameters.size())}, {.dtype = i64, .device = device});
  g.hyper = empty({static_cast<std::int64_t>(g.hyper_values.size())}, {.dtype = f64, .device = device});
  g.hyper.copy_(from_data<double>(g.hyper_values, g.hyper.sizes()));
  groups_.push_back(std::move(g));
}

void Optimizer::step_unless(const Tensor& skip) {
  const NoGrad no_grad;
  std::vector<ParameterView> views;
  std::vector<Tensor> gradients, shadows;  // keep what the views point to alive
  std::vector<const Tensor*> written;
  for (Group& g : groups_) {
    views.clear();
    gradients.clear();
    shadows.clear();
    written.clear();
    const Device device = g.parameters[0].device();
    match(g.steps, i64, device, g.steps.sizes());
    match(g.hyper, f64, device, g.hyper.sizes());
    for (std::size_t i = 0; i < g.parameters.size(); ++i) {
      const Tensor& p = g.parameters[i];
      Tensor gradient = p.grad();
      if (!gradient.defined()) continue;
      check(gradient.device() == p.device(), "optimizer step: a gradient is on ", gradient.device(), ", its parameter on ", p.device());
      if (!gradient.is_contiguous()) gradient = empty_like(gradient).copy_(gradient);
      ParameterView v{.value = p.raw_data(), .gradient = gradient.raw_data(), .step = g.steps.data<std::int64_t>() + i,
                      .numel = p.numel(), .dtype = p.dtype(), .gradient_dtype = gradient.dtype()};
      for (std::size_t k = 0; k < g.state_names.size(); ++k) {
        match(g.state[i][k], compute_dtype(p.dtype()), device, p.sizes());
        v.state[k] = g.state[i][k].raw_data();
      }
      shadows.push_back(current_shadow(p));
      if (shadows.back().defined()) {
        v.shadow = shadows.back().raw_data();
        v.shadow_dtype = shadows.back().dtype();
      }
      gradients.push_back(std::move(gradient));
      written.push_back(&p);
      views.push_back(v);
    }
    if (views.empty()) continue;
    kernels::optimizer_step(device, g.formula, g.hyper.data<double>(), skip.defined() ? skip.data<bool>() : nullptr,
                            std::span<const ParameterView>(views));
    for (std::size_t i = 0; i < written.size(); ++i) mark_written(*written[i], shadows[i]);
  }
}

void Optimizer::zero_grad(bool set_to_none) {
  for (const Group& g : groups_) {
    for (Tensor p : g.parameters) {
      Tensor gradient = p.grad();
      if (!gradient.defined()) continue;
      if (set_to_none) p.set_grad({});
      else gradient.fill_(0);
    }
  }
}

std::vector<Tensor> Optimizer::parameters() const {
  std::vector<Tensor> all;
  for (const Group& g : groups_) all.insert(all.end(), g.parameters.begin(), g.parameters.end());
  return all;
}

std::string Optimizer::parameter_name(std::size_t i) const {
  std::size_t first = 0;
  for (const Group& g : groups_) {
    if (i < first + g.parameters.size() && !g.names[i - first].empty()) return g.names[i - first];
    first += g.parameters.size();
  }
  return concat("parameter ", static_cast<unsigned long>(i));
}

const Optimizer::Group& Optimizer::checked_group(int group) const {
  check(group >= 0 && group < groups(), "optimizer: there is no group ", group, ", only ", groups());
  return groups_[static_cast<std::size_t>(group)];
}

bool Optimizer::has(std::string_view name) const {
  return std::ranges::find(groups_[0].hyper_names, name) != groups_[0].hyper_names.end();
}
double Optimizer::get(std::string_view name, int group) const {
  const Group& g = checked_group(group);
  const auto at = std::ranges::find(g.hyper_names, name);
  check(at != g.hyper_names.end(), "optimizer: there is no hyperparameter \"", name, "\"");
  return g.hyper_values[static_cast<std::size_t>(at - g.hyper_names.begin())];
}
void Optimizer::set(std::string_view name, double value, int group) {
  Group& g = const_cast<Group&>(checked_group(group));
  const auto at = std::ranges::find(g.hyper_names, name);
  check(at != g.hyper_names.end(), "optimizer: there is no hyperparameter \"", name, "\"");
  const auto k = at - g.hyper_names.begin();
  g.hyper_values[static_cast<std::size_t>(k)] = value;
  g.hyper.as_strided({}, {}, k).fill_(value);
}

NamedTensors Optimizer::own_state() const {
  NamedTensors state;
  std::size_t number = 0;
  for (std::size_t k = 0; k < groups_.size(); ++k) {
    const Group& g = groups_[k];
    for (std::size_t h = 0; h < g.hyper_names.size(); ++h) {
      state.emplace_back(concat("group.", static_cast<unsigned long>(k), ".", g.hyper_names[h]),
                         g.hyper.as_strided({}, {}, static_cast<std::int64_t>(h)));
    }
    for (std::size_t i = 0; i < g.parameters.size(); ++i, ++number) {
      const std::string prefix = concat("state.", static_cast<unsigned long>(number), ".");
      state.emplace_back(prefix + "step", g.steps.as_strided({}, {}, static_cast<std::int64_t>(i)));
      for (std::size_t s = 0; s < g.state_names.size(); ++s) state.emplace_back(prefix + g.state_names[s], g.state[i][s]);
    }
  }
  return state;
}

NamedTensors Optimizer::state_dict() const {
  NamedTensors state = own_state();
  for (auto& [name, t] : state) t = empty_like(t).copy_(t);
  return state;
}

void Optimizer::load_state_dict(const NamedTensors& state) {
  NamedTensors own = own_state();
  const std::string mismatch = io::describe_mismatch(own, state);
  check(mismatch.empty(), "optimizer load_state_dict: ", mismatch, "; was it saved by another optimizer or for another model?");
  for (auto& [name, t] : own) {
    const auto found = std::ranges::find(state, name, &NamedTensors::value_type::first);
    t.copy_(found->second);
  }
  for (Group& g : groups_) g.hyper_values = g.hyper.to_vector<double>();
}

}  // namespace mantissa::optim
