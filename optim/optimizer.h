// Optimizer: parameters in groups, their state, and one fused update per group. The classes to use
// are in optim/sgd.h and optim/adam.h; the arithmetic is in core/optim_formulas.h.
//
// All state exists from construction, and everything that changes from step to step (learning rate,
// step counts, the scaler's verdict) lies in device memory, so a step can be captured and replayed.
// The update also refreshes the low-precision shadow that autocast keeps of a parameter, so the next
// forward casts no weight. Moments are kept in the parameter's compute dtype: f32 for f16 and bf16.
#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "amp/grad_scaler.h"
#include "core/tensor.h"

namespace mantissa::optim {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// What an optimizer is given: nn::parameters(net), nn::named_parameters(net) (names then appear in
// errors), or {w, b}.
struct Parameters {
  Parameters(std::vector<Tensor> tensors);
  Parameters(const NamedTensors& named);
  Parameters(std::initializer_list<Tensor> tensors) : Parameters(std::vector<Tensor>(tensors)) {}

  std::vector<Tensor> tensors;
  std::vector<std::string> names;
};

class Optimizer : public amp::Steppable {
 public:
  Optimizer(const Optimizer&) = delete;  // schedulers and scalers refer to it
  Optimizer& operator=(const Optimizer&) = delete;

  // Updates every parameter that has a gradient.
  void step() { step_unless({}); }
  void step_unless(const Tensor& skip) override;
  // Drops the gradients, or with set_to_none = false fills them with 0.
  void zero_grad(bool set_to_none = true);

  std::vector<Tensor> parameters() const override;               // of all groups
  std::string parameter_name(std::size_t i) const override;
  int groups() const { return static_cast<int>(groups_.size()); }

  // Hyperparameters. set_lr changes all groups, or one.
  double lr(int group = 0) const { return get("lr", group); }
  void set_lr(double lr) { for (int g = 0; g < groups(); ++g) set("lr", lr, g); }
  void set_lr(double lr, int group) { set("lr", lr, group); }
  // Any of them by name: "lr", "momentum", "weight_decay", "beta1", ... Throws for an unknown name.
  double get(std::string_view name, int group = 0) const;
  void set(std::string_view name, double value, int group = 0);
  bool has(std::string_view name) const;

  // Everything a bitwise resumption needs, as copies: "group.0.lr", ..., "state.0.step",
  // "state.0.exp_avg", ... with parameters numbered over all groups. load_state_dict checks names and
  // shapes before it changes anything.
  NamedTensors state_dict() const;
  void load_state_dict(const NamedTensors& state);

 protected:
  struct Group {
    int formula = 0;  // of optim_formulas::Formulas
    std::span<const char* const> hyper_names, state_names;
    std::vector<double> hyper_values;  // the host's copy of hyper
    Tensor hyper;                      // f64[names]
    Tensor steps;                      // i64[parameters]
    std::vector<Tensor> parameters;
    std::vector<std::string> names;
    std::vector<std::array<Tensor, 3>> state;  // per parameter, as many as state_names
  };

  Optimizer() = default;
  // F is one of optim_formulas::Formulas.
  template <class F> void add(Parameters parameters, const F& hyper);
  void add_group(Group group);

 private:
  const Group& checked_group(int group) const;
  NamedTensors own_state() const;  // handles, not copies

  std::vector<Group> groups_;
};

}  // namespace mantissa::optim
