#include "optim/optimizer.h"

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <unordered_set>

#include "amp/autocast.h"
#include "amp/shadow_pins.h"
#include "autograd/grad_mode.h"
#include "autograd/hooks.h"
#include "autograd/node.h"
#include "autograd/unlisted.h"
#include "core/memory_order.h"
#include "core/multi_tensor.h"
#include "core/ops.h"
#include "core/profile.h"
#include "core/recorded_memory.h"
#include "io/checkpoint.h"
#include "optim/master.h"

namespace mantissa::optim {
namespace {

using autograd::leaf_of;

bool is_placed(const Tensor& state, Dtype dtype, Device device) {
  return state.defined() && state.dtype() == dtype && state.device() == device;
}
// Allocates a state tensor, or, after nn::to(), converts it to the parameter's new dtype, device and layout.
void match(Tensor& state, Dtype dtype, Device device, const Dims& sizes, Layout layout = Layout::contiguous) {
  if (is_placed(state, dtype, device) && lies_in(state, layout)) return;
  Tensor placed = Tensor::allocate(sizes, dtype, device, layout);
  if (state.defined()) placed.copy_(state);
  else placed.fill_(0);
  state = std::move(placed);
}

// The parameter's shadow if it is up to date: the kernel will keep it so. A stale one is refreshed by the next forward.
Tensor current_shadow(const Tensor& parameter) {
  auto* leaf = leaf_of(parameter);
  if (!leaf) return {};
  const std::lock_guard lock(leaf->mutex);
  const Tensor& shadow = leaf->shadow;
  const bool current = shadow.defined() && leaf->shadow_version == parameter.storage()->version();
  if (!current || !lies_in(shadow, parameter.layout())) return {};
  amp::pin_shadow(parameter);
  return shadow;
}

// Arguments of a step's kernel. Reused, so that later steps allocate nothing, and emptied between steps.
struct Lists {
  std::vector<ParameterView> views;
  std::vector<Tensor> gradients, shadows;  // keep what the views point to alive
  std::vector<std::size_t> written;
};
thread_local Lists lists;
struct UseOfLists {
  UseOfLists() = default;
  UseOfLists(const UseOfLists&) = delete;
  ~UseOfLists() {
    lists.views.clear();
    lists.gradients.clear();
    lists.shadows.clear();
    lists.written.clear();
  }
};

void warn_of_unlisted() {
  const std::string shapes = autograd::unlisted_with_gradients();
  if (shapes.empty()) return;
  std::fprintf(stderr, "mantissa: parameters of shape %s have gradients, but no optimizer and no nn::parameters() has "
               "listed them, so nothing updates or saves them; does MANTISSA_FIELDS(...) lack a member?\n",
               shapes.c_str());
}

void warn_of_frozen(const std::vector<Tensor>& parameters) {
  if (parameters.empty() || std::ranges::any_of(parameters, [](const Tensor& p) { return p.requires_grad(); })) return;
  std::fprintf(stderr,
               "mantissa: none of the optimizer's %zu tensors requires a gradient, so its steps change nothing; say "
               "requires_grad_() of tensors that are no nn::Param, before the forward pass\n",
               parameters.size());
}

std::string listed(std::span<const char* const> names) {
  std::string text;
  for (const char* name : names) text += concat(text.empty() ? "" : ", ", name);
  return text;
}

// Makes the parameter's node accumulate gradients in `dtype`: f32 for f16 and bf16 with a master. Repeated in every
// step, because a parameter that was frozen and unfrozen has a new node.
void sum_gradients_in(Dtype dtype, const Tensor& parameter) {
  if (auto* leaf = leaf_of(parameter)) leaf->set_dtype(dtype, parameter.device());
}

std::int64_t groups_in(const NamedTensors& state) {
  return std::ranges::count_if(
      state, [](const auto& entry) { return entry.first.starts_with("group.") && entry.first.ends_with(".lr"); });
}

}  // namespace

Parameters::Parameters(std::vector<Tensor> t) : tensors(std::move(t)), names(tensors.size()) {}
Parameters::Parameters(const NamedTensors& named) {
  for (const auto& [name, t] : named) {
    tensors.push_back(t);
    names.push_back(name);
  }
}

Optimizer::Optimizer(const MemoryOptions& memory) : memory_(memory) {
  check(!memory.state_dtype || *memory.state_dtype == f32 || *memory.state_dtype == bf16,
        "optimizer: state_dtype must be f32 or bf16, got ", name_of(memory.state_dtype.value_or(f32)));
}

std::optional<Dims> Optimizer::state_sizes(const Tensor& p, std::size_t) const { return p.sizes(); }

Tensor Optimizer::Keep::operator()(const Tensor& old, const Tensor& next) const {
  return skip.defined() ? where(skip, old, next.to(old.dtype())) : next;
}

void Optimizer::add_group(Group g) {
  check(!g.parameters.empty(),
        "optimizer: a group needs at least one parameter; was nn::parameters called on a module without any?");
  std::unordered_set<const TensorImpl*> seen;
  for (const Tensor& p : parameters()) {
    seen.insert(p.impl());
    cuda_backend::outdate_recordings(p);  // a captured step of this optimizer would update the new group, too
  }
  for (std::size_t i = 0; i < g.parameters.size(); ++i) {
    const Tensor& p = g.parameters[i];
    const auto name = [&] { return parameter_label(g.names[i], i); };
    check(p.defined(), "optimizer: ", name(), " is an undefined tensor");
    check(p.is_floating(), "optimizer: ", name(), " is ", p, "; only floating tensors can be optimized");
    check(p.is_leaf(), "optimizer: ", name(), " is the result of an operator; only leaves can be optimized");
    check(is_dense(p), "optimizer: ", name(), " ", p,
          " is not contiguous; use contiguous() before it becomes a parameter");
    check(p.device() == g.parameters[0].device(), "optimizer: a group must be on one device, ", name(), " is on ",
          p.device(), ", the first on ", g.parameters[0].device());
    check(seen.insert(p.impl()).second, "optimizer: ", name(), " appears twice");
  }
  const std::size_t count = g.parameters.size();
  const auto n = static_cast<std::int64_t>(count);
  const TensorOptions in_f64{.dtype = f64, .device = g.parameters[0].device()};
  g.state.resize(count);
  g.masters.resize(count);
  for (std::size_t i = 0; i < count; ++i) g.versions.push_back(std::make_shared<std::uint32_t>(0));
  g.layouts.resize(count);
  g.steps = zeros({n}, {.dtype = i64, .device = in_f64.device});
  g.hyper = empty({static_cast<std::int64_t>(g.hyper_values.size())}, in_f64);
  g.hyper.copy_(from_data<double>(g.hyper_values, g.hyper.sizes()));
  g.scalars = zeros({n, static_cast<std::int64_t>(g.scalar_names.size())}, in_f64);
  for (std::size_t k = 0; k < g.initial_scalars.size(); ++k) {
    g.scalars.select(1, static_cast<std::int64_t>(k)).fill_(g.initial_scalars[k]);
  }
  choose_owners(g);
  place(g);
  for (const Tensor& p : g.parameters) autograd::note_listed(p);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < g.initial_state.size() && is_mine(g, i); ++k) g.state[i][k].fill_(g.initial_state[k]);
  }
  groups_.push_back(std::move(g));
}

// Moves the group's tensors to the current dtypes and devices of its parameters, and updates masters of parameters that
// were modified from outside.
void Optimizer::place(Group& g) const {
  const NoGrad no_grad;
  const Device device = g.parameters[0].device();
  match(g.steps, i64, device, g.steps.sizes());
  match(g.hyper, f64, device, g.hyper.sizes());
  match(g.scalars, f64, device, g.scalars.sizes());
  for (std::size_t i = 0; i < g.parameters.size(); ++i) {
    const Tensor& p = g.parameters[i];
    const Dtype compute = compute_dtype(p.dtype());
    const Layout layout = p.layout();
    const bool same_order = std::exchange(g.layouts[i], layout) == layout;
    const bool mine = is_mine(g, i);
    for (std::size_t k = 0; k < g.state_names.size() && mine; ++k) {
      if (same_order && is_placed(g.state[i][k], memory_.state_dtype.value_or(compute), device)) continue;
      if (const auto sizes = state_sizes(p, k))
        match(g.state[i][k], memory_.state_dtype.value_or(compute), device, *sizes, layout);
    }
    if (!memory_.master_weights || compute == p.dtype()) {
      g.masters[i] = {};
      continue;
    }
    if (mine) {
      Tensor& master = g.masters[i];
      const std::uint32_t version = p.storage()->version();
      if (!master.defined()) {
        master = make_master(p.detach());
      } else {
        match(master, compute, device, p.sizes(), layout);
        if (version != *g.versions[i]) follow(master, p);
      }
      *g.versions[i] = version;
      amp::pin_copy(p, master, g.versions[i], follow);
    }
    sum_gradients_in(compute, p);
  }
}

void Optimizer::step() {
  std::size_t i = 0;
  for (const Group& g : groups_) {
    for (const Tensor& p : g.parameters) {
      const autograd::Node* node = p.impl()->node.get();
      if (node && node->has_hooks() && amp::carries_scale(p)) [[unlikely]] {  // a scale is noted in the hooks
        fail(type_name(), ".step: the gradient of ", parameter_name(i),
             " is still multiplied by the scale of a GradScaler; "
             "call scaler.step(optimizer), or scaler.unscale_(optimizer) before it");
      }
      ++i;
    }
  }
  step_unless({});
}
void Optimizer::step_unless(const Tensor& skip) { update_all(skip, {}); }
bool Optimizer::scales_while_reading() const {
  return std::ranges::all_of(groups_, [](const Group& g) { return g.formula >= 0; });
}
void Optimizer::step_scaled(const Tensor& skip, const amp::ReadScaling& scaling) {
  check(scales_while_reading(), "internal error: this optimizer cannot scale gradients while it reads them");
  update_all(skip, scaling);
}

void Optimizer::update_all(const Tensor& skip, const amp::ReadScaling& scaling) {
  if (!std::exchange(has_stepped_, true)) warn_of_unlisted(), warn_of_frozen(parameters());
  const NoGrad no_grad;
  for (Group& g : groups_) {
    const ProfileRange range(ProfileKind::library, "optimizer step", &g.parameters[0]);
    place(g);
    for (const Tensor& p : g.parameters) {
      const Tensor gradient = p.grad();
      if (!gradient.defined()) continue;
      check(gradient.device() == p.device(), "optimizer step: a gradient is on ", gradient.device(),
            ", its parameter on ", p.device());
    }
    const Device device = g.parameters[0].device();
    const Tensor here =
        !skip.defined() || skip.device() == device ? skip : empty({}, {.dtype = boolean, .device = device}).copy_(skip);
    if (g.formula >= 0) run_formula(g, here, scaling);
    else run_operators(g, here);
    if (!g.owners.empty()) share_parameters(g);
  }
}

void Optimizer::run_formula(Group& g, const Tensor& skip, const amp::ReadScaling& scaling) {
  const UseOfLists use;
  auto& [views, gradients, shadows, written] = lists;
  for (std::size_t i = 0; i < g.parameters.size(); ++i) {
    const Tensor &p = g.parameters[i], &value = g.value(i);
    Tensor gradient = p.grad();
    if (!gradient.defined() || !is_mine(g, i)) continue;
    if (!lies_in(gradient, g.layouts[i])) gradient = dense(gradient, g.layouts[i]);
    ParameterView v{.value = value.raw_data(), .gradient = gradient.raw_data(),
                    .step = g.steps.data<std::int64_t>() + i, .numel = p.numel(), .dtype = value.dtype(),
                    .gradient_dtype = gradient.dtype(),
                    .state_dtype = memory_.state_dtype.value_or(value.dtype() == f64 ? f64 : f32)};
    for (std::size_t k = 0; k < g.state_names.size(); ++k) v.state[k] = g.state[i][k].raw_data();
    if (!g.scalar_names.empty()) v.scalars = g.scalars.data<double>() + i * g.scalar_names.size();
    shadows.push_back(g.masters[i].defined() ? p : current_shadow(p));
    if (shadows.back().defined()) {
      v.shadow = shadows.back().raw_data();
      v.shadow_dtype = shadows.back().dtype();
    }
    gradients.push_back(std::move(gradient));
    written.push_back(i);
    views.push_back(v);
  }
  if (views.empty()) return;
  const GradientReading reading{scaling.scale.defined() ? scaling.scale.data<float>() : nullptr,
                                scaling.norm.defined() ? scaling.norm.data<float>() : nullptr, scaling.max_norm};
  kernels::optimizer_step(g.parameters[0].device(), g.formula, g.hyper.data<double>(),
                          skip.defined() ? skip.data<bool>() : nullptr, reading, std::span<const ParameterView>(views));
  for (std::size_t k = 0; k < written.size(); ++k) mark_written(g, written[k], shadows[k]);
}

void Optimizer::run_operators(Group& g, const Tensor& skip) {
  const amp::Autocast full_precision(amp::disabled);
  const Keep keep{skip};
  const Tensor one = scalar(1, {.dtype = i64, .device = g.steps.device()});
  for (std::size_t i = 0; i < g.parameters.size(); ++i) {
    const Tensor gradient = g.parameters[i].grad();
    if (!gradient.defined() || !is_mine(g, i)) continue;
    Tensor step = g.step_at(i);
    step.copy_(keep(step, step + one));
    update(g, i, gradient.to(g.value(i).dtype() == f64 ? f64 : f32), keep);
  }
}

void Optimizer::update(Group&, std::size_t, const Tensor&, const Keep&) { fail("optimizer: has no update"); }

void Optimizer::write_value(Group& g, std::size_t i, const Tensor& next) {
  const Tensor p = g.parameters[i];
  const Tensor shadow = g.masters[i].defined() ? p : current_shadow(p);
  Tensor(g.value(i)).copy_(next);
  if (shadow.defined()) Tensor(shadow).copy_(next);
  mark_written(g, i, shadow);
}

// Marks the parameter and its shadow as modified.
void Optimizer::mark_written(Group& g, std::size_t i, const Tensor& shadow) {
  const Tensor& p = g.parameters[i];
  p.storage()->written_by("optimizer step");
  if (g.masters[i].defined()) {
    *g.versions[i] = p.storage()->version();
  } else if (shadow.defined()) {
    shadow.storage()->written_by("optimizer step");
    auto* leaf = leaf_of(p);
    const std::lock_guard lock(leaf->mutex);
    leaf->shadow_version = p.storage()->version();
  }
}

Tensor Optimizer::master(std::size_t i) const {
  for (const Group& g : groups_) {
    if (i < g.parameters.size()) return g.value(i);
    i -= g.parameters.size();
  }
  fail("optimizer: there is no parameter ", i);
}

void Optimizer::zero_grad(bool set_to_none) {
  const ProfileRange range(ProfileKind::library, "optimizer zero_grad");
  for (const Group& g : groups_) {
    for (Tensor p : g.parameters) {
      if (memory_.master_weights) sum_gradients_in(compute_dtype(p.dtype()), p);
      if (set_to_none) {
        if (p.requires_grad()) p.set_grad({});  // without accessing it: it may have a deferred scale (autograd/hooks.h)
        continue;
      }
      if (auto* leaf = leaf_of(p); leaf && leaf->has_hooks()) leaf->hooks().pending = {};  // would be applied in vain
      if (Tensor gradient = p.grad(); gradient.defined()) {
        if (memory_.master_weights && gradient.dtype() != compute_dtype(p.dtype()))
          p.set_grad(zeros(p.sizes(), {.dtype = compute_dtype(p.dtype()), .device = p.device()}));
        else gradient.fill_(0);
      }
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
    if (i >= first + g.parameters.size()) {
      first += g.parameters.size();
      continue;
    }
    return parameter_label(g.names[i - first], i);
  }
  return parameter_label("", i);
}

const Optimizer::Group& Optimizer::checked_group(int group) const {
  check(group >= 0 && group < groups(), type_name(), ": there is no group ", group, ", only ", groups());
  return groups_[static_cast<std::size_t>(group)];
}

bool Optimizer::has(std::string_view name) const {
  return std::ranges::all_of(groups_, [&](const Group& g) {
    return name != g.fixed && std::ranges::find(g.hyper_names, name) != g.hyper_names.end();
  });
}
double Optimizer::get(std::string_view name, int group) const {
  const Group& g = checked_group(group);
  const auto at = std::ranges::find(g.hyper_names, name);
  check(at != g.hyper_names.end(), type_name(), ": there is no hyperparameter \"", name, "\"; it has ",
        listed(g.hyper_names));
  return g.hyper_values[static_cast<std::size_t>(at - g.hyper_names.begin())];
}
void Optimizer::set(std::string_view name, double value, int group) {
  Group& g = const_cast<Group&>(checked_group(group));
  const auto at = std::ranges::find(g.hyper_names, name);
  check(at != g.hyper_names.end(), type_name(), ": there is no hyperparameter \"", name, "\"; it has ",
        listed(g.hyper_names));
  const auto k = at - g.hyper_names.begin();
  check(name != g.fixed || value == g.hyper_values[static_cast<std::size_t>(k)], type_name(), ": it was made with ",
        name, " 0, and so keeps no state for it; make it with a ", name, " above 0 to change it later");
  g.hyper_values[static_cast<std::size_t>(k)] = value;
  g.hyper_at(static_cast<std::size_t>(k)).fill_(value);
  if (k == 0) start_at_rate(g);
}
// Initialises the states that start at lr, for parameters that have not taken a step, from the current lr, because
// PyTorch creates states at the first step.
void Optimizer::start_at_rate(Group& g) {
  if (g.state_from_lr < 0 && g.scalar_from_lr < 0) return;
  const NoGrad no_grad;
  const Tensor rate = g.hyper_at(0);
  for (std::size_t i = 0; i < g.parameters.size(); ++i) {
    const Tensor fresh = eq(g.step_at(i), Tensor(0));
    const auto start = [&](Tensor x) {
      if (x.defined()) x.copy_(where(fresh, rate.to(x.dtype()), x));
    };
    if (g.state_from_lr >= 0) start(g.state[i][static_cast<std::size_t>(g.state_from_lr)]);
    if (g.scalar_from_lr >= 0) start(g.scalars.select(0, static_cast<std::int64_t>(i)).select(0, g.scalar_from_lr));
  }
}

NamedTensors Optimizer::own_state(std::vector<int>* owners) const {
  NamedTensors state;
  const auto add = [&](std::string name, Tensor t, int owner) {
    if (!t.defined()) return;
    state.emplace_back(std::move(name), std::move(t));
    if (owners) owners->push_back(owner);
  };
  std::size_t number = 0;
  for (std::size_t k = 0; k < groups_.size(); ++k) {
    const Group& g = groups_[k];
    for (std::size_t h = 0; h < g.hyper_names.size(); ++h) {
      add(concat("group.", k, ".", g.hyper_names[h]), g.hyper_at(h), 0);
    }
    for (std::size_t i = 0; i < g.parameters.size(); ++i, ++number) {
      const int owner = g.owners.empty() ? 0 : g.owners[i];
      const std::string prefix = concat("state.", number, ".");
      const Tensor& p = g.parameters[i];
      const Dtype compute = compute_dtype(p.dtype());
      const auto kept_or_room = [&](const Tensor& kept, Dtype dtype, const std::optional<Dims>& sizes) {
        return is_mine(g, i) || !sizes ? kept : Tensor::allocate(*sizes, dtype, p.device(), g.layouts[i]);
      };
      add(prefix + "step", g.step_at(i), owner);
      for (std::size_t s = 0; s < g.scalar_names.size(); ++s) {
        add(prefix + g.scalar_names[s],
            g.scalars.raw_view({}, {}, static_cast<std::int64_t>(i * g.scalar_names.size() + s)), owner);
      }
      for (std::size_t s = 0; s < g.state_names.size(); ++s) {
        const Dtype dtype = memory_.state_dtype.value_or(compute);
        add(prefix + g.state_names[s], kept_or_room(g.state[i][s], dtype, state_sizes(p, s)), owner);
      }
      if (memory_.master_weights && compute != p.dtype())
        add(prefix + "master", kept_or_room(g.masters[i], compute, p.sizes()), owner);
    }
  }
  return state;
}

NamedTensors Optimizer::state_dict() const {
  std::vector<int> owners;
  NamedTensors state = own_state(&owners);
  for (auto& [name, t] : state) t = empty_like(t).copy_(t);
  if (shares_.empty()) return state;
  std::vector<Tensor> tensors;
  for (const auto& [name, t] : state) tensors.push_back(t);
  share(tensors, owners);
  return state;
}

void Optimizer::load_state_dict(const NamedTensors& state) {
  NamedTensors own = own_state();
  const std::string mismatch = io::describe_mismatch(own, state);
  if (!mismatch.empty()) {
    const std::int64_t saved = groups_in(state);
    fail(type_name(), ".load_state_dict: ", mismatch, "; ",
         saved > 0 && saved != groups()
             ? concat("it was saved with ", saved, " groups of parameters, this optimizer has ", groups(),
                      ": load into the groups there were then, and call add_group for others after it")
             : "was it saved by another optimizer or for another model?");
  }
  for (auto& [name, t] : own) {
    const auto found = std::ranges::find(state, name, &NamedTensors::value_type::first);
    t.copy_(found->second);
  }
  for (Group& g : groups_) {
    g.hyper_values = g.hyper.to_vector<double>();
    for (std::size_t i = 0; i < g.masters.size(); ++i) {
      if (memory_.master_weights) sum_gradients_in(compute_dtype(g.parameters[i].dtype()), g.parameters[i]);
      if (!g.masters[i].defined()) continue;
      *g.versions[i] = g.parameters[i].storage()->version() - 1;  // compare at the next step
    }
  }
}

}  // namespace mantissa::optim
