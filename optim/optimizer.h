// Optimizer: parameters in groups, their state, and one fused update per group. The classes to use
// are in the files named after them (optim/sgd.h, optim/adam.h, ...); the arithmetic is in
// core/optim_formulas.h.
//
// All state is allocated at construction, and everything that changes between steps (learning rate, step counts, the
// scaler's found_inf) is in device memory, so a step can be captured and replayed. The update also refreshes autocast's
// low-precision shadow of each parameter, so the next forward pass casts no weights. MemoryOptions chooses the dtypes
// of state and master weights.
#pragma once

#include <array>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "amp/grad_scaler.h"
#include "autograd/grad_mode.h"
#include "core/named_tensors.h"

namespace mantissa::distributed {
class ProcessGroup;
}

namespace mantissa::optim {


// The parameters of an optimizer: nn::parameters(net), nn::named_parameters(net) (so that errors show names), or {w,
// b}.
struct Parameters {
  Parameters(std::vector<Tensor> tensors);
  Parameters(const NamedTensors& named);
  Parameters(std::initializer_list<Tensor> tensors) : Parameters(std::vector<Tensor>(tensors)) {}

  std::vector<Tensor> tensors;
  std::vector<std::string> names;
};
// Parameter i in error messages: its name, or "parameter 3" if it has none.
inline std::string parameter_label(const std::string& name, std::size_t i) {
  return name.empty() ? concat("parameter ", i) : name;
}

// Dtypes of an optimizer's memory; the last argument of every optimizer.
struct MemoryOptions {
  // For parameters in f16 or bf16: keeps an f32 master copy of each, which is updated and then rounded into the
  // parameter, so that updates too small for the parameter's dtype still accumulate. Their gradients are summed in f32
  // over micro-batches. Parameters of other dtypes get no copy. If the program writes to a parameter between steps
  // (loads a model), the next step copies the new values into the master; elements that still equal the rounded master
  // keep its extra bits. Without this option the update is computed in f32 and rounded once per step.
  bool master_weights = false;
  // The dtype of moments and other state: f32 or bf16; default f32, and f64 for f64 parameters. bf16 halves the memory
  // and is rounded stochastically (with the same random numbers in every run), because a slow average would otherwise
  // lose its small steps (Muon's momentum, of which a step uses only the direction, to nearest). Not for Adafactor and
  // LBFGS.
  std::optional<Dtype> state_dtype{};
  // For multi-process runs with equal gradients on all ranks (nn/data_parallel.h): each rank keeps state and master
  // weights for its share of the parameters only, updates it, and broadcasts it. Parameters get the same bits as
  // without it. All ranks must call step, state_dict and load_state_dict together: state_dict gathers the whole state
  // on every rank (the same as without sharding), so call it before `if (rank == 0)`, not inside. The group must
  // outlive the optimizer. Not for LBFGS. As torch.distributed.optim.ZeroRedundancyOptimizer: Rajbhandari et al.,
  // "ZeRO", 2020, stage 1.
  distributed::ProcessGroup* shard = nullptr;
};

class Optimizer : public amp::Steppable {
 public:
  Optimizer(const Optimizer&) = delete;  // schedulers and scalers hold references to it
  Optimizer& operator=(const Optimizer&) = delete;

  // Updates every parameter that has a gradient. Throws if a gradient is that of a scaled loss and was not unscaled:
  // use GradScaler::step for those.
  void step();
  // Calls `closure`, which calls backward and returns the loss, then steps, as in PyTorch.
  template <class F> requires requires(F& f) { Tensor(f()); } Tensor step(F&& closure) {
    const EnableGrad enable;
    Tensor loss = closure();
    step();
    return loss;
  }
  void step_unless(const Tensor& skip) override;
  bool scales_while_reading() const override;  // all but Muon, Adafactor and LBFGS
  void step_scaled(const Tensor& skip, const amp::ReadScaling& scaling) override;
  // Drops the gradients, or with set_to_none = false fills them with 0.
  void zero_grad(bool set_to_none = true);

  std::vector<Tensor> parameters() const override;               // of all groups
  std::string parameter_name(std::size_t i) const override;
  int groups() const { return static_cast<int>(groups_.size()); }
  const MemoryOptions& memory() const { return memory_; }
  // The f32 master of an f16 or bf16 parameter; the parameter itself if this rank keeps no master for it.
  Tensor master(std::size_t i) const;

  // Hyperparameters. set_lr changes all groups, or one.
  double lr(int group = 0) const { return get("lr", group); }
  void set_lr(double lr) { for (int g = 0; g < groups(); ++g) set("lr", lr, g); }
  void set_lr(double lr, int group) { set("lr", lr, group); }
  // Any hyperparameter by name: "lr", "momentum", "weight_decay", "beta1", ... Throws for an unknown name.
  double get(std::string_view name, int group = 0) const;
  void set(std::string_view name, double value, int group = 0);
  // Whether all groups have a hyperparameter of this name that can be set.
  bool has(std::string_view name) const;

  // Copies of everything needed for a bitwise exact resume: "group.0.lr", ..., "state.0.step", "state.0.exp_avg", ...
  // with parameters numbered over all groups. load_state_dict checks names and shapes before changing anything.
  virtual NamedTensors state_dict() const;
  virtual void load_state_dict(const NamedTensors& state);

 protected:
  struct Group {
    int formula = -1;  // of core/optim_formulas.h; -1: implemented by update()
    std::span<const char* const> hyper_names, state_names, scalar_names;
    std::string_view fixed;            // a hyperparameter that the formula does not use, and so cannot be set
    std::vector<double> hyper_values;  // host copy of hyper
    std::vector<double> initial_state, initial_scalars;  // empty: 0
    int state_from_lr = -1, scalar_from_lr = -1;  // index of the state or scalar initialised to lr at the first step
    Tensor hyper;                      // f64[names]
    Tensor steps;                      // i64[parameters]
    Tensor scalars;                    // f64[parameters, scalar_names]
    std::vector<Tensor> parameters;
    std::vector<std::string> names;
    std::vector<std::array<Tensor, 3>> state;  // per parameter, as many as state_names; undefined: unused
    std::vector<Tensor> masters;               // undefined: the parameter itself is updated
    std::vector<std::shared_ptr<std::uint32_t>> versions;  // of the parameter when last rounded from its master
    std::vector<Layout> layouts;               // of the parameter in the last step, and so of its state
    std::vector<int> owners;                   // the rank that keeps a parameter's state; empty: every rank

    Tensor hyper_at(std::size_t k) const { return hyper.raw_view({}, {}, static_cast<std::int64_t>(k)); }
    Tensor step_at(std::size_t i) const { return steps.raw_view({}, {}, static_cast<std::int64_t>(i)); }
    const Tensor& value(std::size_t i) const { return masters[i].defined() ? masters[i] : parameters[i]; }
  };

  explicit Optimizer(const MemoryOptions& memory);
  // F is one of the formulas of core/optim_formulas.h.
  template <class F> void add(Parameters parameters, const F& hyper);
  void add_group(Group group);
  std::vector<Group>& group_list() { return groups_; }
  const std::vector<Group>& group_list() const { return groups_; }

  // For optimizers composed of operators: the sizes of state k of parameter p (nullopt: it has none), and the update of
  // parameter i, whose step count is already incremented. `keep(old, next)` returns next, or old if the step is
  // skipped: every value written must pass through it.
  virtual std::optional<Dims> state_sizes(const Tensor& p, std::size_t k) const;
  struct Keep {
    const Tensor& skip;
    Tensor operator()(const Tensor& old, const Tensor& next) const;
  };
  virtual void update(Group& group, std::size_t i, const Tensor& gradient, const Keep& keep);
  static void write_value(Group& group, std::size_t i, const Tensor& next);  // writes master, parameter and shadow

 private:
  const Group& checked_group(int group) const;
  static void start_at_rate(Group& group);
  // The state tensors themselves, not copies; for those of other ranks, uninitialised tensors of the same shape.
  // `owners`: each tensor's rank.
  NamedTensors own_state(std::vector<int>* owners = nullptr) const;
  void place(Group& group) const;
  static void mark_written(Group& group, std::size_t i, const Tensor& shadow);
  void update_all(const Tensor& skip, const amp::ReadScaling& scaling);
  void run_formula(Group& group, const Tensor& skip, const amp::ReadScaling& scaling);
  void run_operators(Group& group, const Tensor& skip);

  // optim/shard.cpp
  void choose_owners(Group& group);
  bool is_mine(const Group& group, std::size_t i) const;
  void share_parameters(Group& group);
  void share(std::span<const Tensor> tensors, std::span<const int> owners) const;

  MemoryOptions memory_;
  bool has_stepped_ = false;
  std::vector<std::int64_t> shares_;  // elements of the parameters that each rank owns
  std::vector<Group> groups_;
};

}  // namespace mantissa::optim
