// AsyncTrainer: splits batches into micro-batches and runs the optimizer on its own thread, synchronously or one step
// behind (as RoundPipe, Luo et al., 2026).
//
//   optim::AsyncTrainer trainer(nn::named_parameters(net), {.micro_batches = 4, .scaler = &scaler});
//   optim::AdamW opt(trainer.optim_parameters());          // f32 masters, whatever the model's dtype
//   for (...) {
//     const Tensor loss = trainer.forward_backward(x, y, [&](const Tensor& x, const Tensor& y) {
//       return amp::autocast(f16, [&] { return cross_entropy(net(x), y); });
//     });
//     trainer.step([&] { scaler.step(opt); scaler.update(); schedule.step(); }, true);
//   }
//   trainer.synchronize();
//
// The model's parameters and the optimizer's are different tensors, so the next forward_backward runs while the
// optimizer works on the previous gradients. With async, the weights it uses are one step old: that can cost accuracy
// (more with AdamW than with plain momentum), so the default is synchronous, which gives bitwise the same results as an
// ordinary loop. Either way runs are reproducible: each forward_backward uses the weights and the scale at the time of
// the last call of step.
//
// Objects used by the step function (optimizer, schedule, averages) must not be touched between step and synchronize().
// An exception in it is rethrown by the next call of forward_backward, step or synchronize; its gradients are lost, the
// scaler discards the iteration, the weights are as it left them, and training can continue.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "optim/background.h"
#include "optim/optimizer.h"

namespace mantissa::optim {

enum class LossOf { mean, sum };  // how a batch's loss reduces its rows' losses
struct AsyncTrainerOptions {
  int micro_batches = 1;       // number of parts, of nearly equal size, that a batch is split into along dimension 0
  LossOf loss = LossOf::mean;  // mean: parts are weighted by their rows, so the result is the loss of the batch
  // Scales each part's loss; the step function calls its step and update. With async steps the option check_loss is not
  // allowed, because loss and step then belong to different iterations.
  amp::GradScaler* scaler = nullptr;
};

class AsyncTrainer {
 public:
  explicit AsyncTrainer(const Parameters& model, const AsyncTrainerOptions& options = {});
  AsyncTrainer(const AsyncTrainer&) = delete;
  AsyncTrainer& operator=(const AsyncTrainer&) = delete;

  // Copies of the model's parameters in their compute dtype, with their names, to construct the optimizer with. f16 and
  // bf16 gradients are summed in f32.
  Parameters optim_parameters() const;

  // For each part: loss_fn(inputs, labels), then backward. Returns the loss of the batch, unscaled and detached,
  // without reading it to the host. May be called several times before a step: gradients accumulate. Inputs and labels
  // are a tensor or a std::vector of tensors each; loss_fn gets the same types.
  template <class X, class Y, std::invocable<const X&, const Y&> F>
  Tensor forward_backward(const X& inputs, const Y& labels, F&& loss_fn) {
    const int parts = begin(flat(inputs), flat(labels));
    Tensor total;
    for (int k = 0; k < parts; ++k) {
      const std::int64_t rows = flat(inputs)[0].size(0), from = k * rows / parts, to = (k + 1) * rows / parts;
      const Tensor loss = loss_fn(part(inputs, from, to), part(labels, from, to));
      add_part(loss, static_cast<double>(to - from) / static_cast<double>(rows), total);
    }
    return total;
  }

  // Hands the gradients to the optimizer's parameters and runs step_fn on the optimizer's thread: with async
  // concurrently, else before returning. Waits for the previous step.
  void step(std::function<void()> step_fn, bool async = false);
  // Waits for the last step; the model then has its weights.
  void synchronize();

  // The f32 weights, "master.<name>" or "master.<number>", after synchronize(): precision that an f16 or bf16 model has
  // lost. load_state_dict also sets the model.
  NamedTensors state_dict();
  void load_state_dict(const NamedTensors& state);

 private:
  struct Pair {
    Tensor model, master;
    std::uint32_t version = 0;  // of the model's storage when it last received the master's value
  };

  static std::span<const Tensor> flat(const Tensor& t) { return {&t, 1}; }
  static std::span<const Tensor> flat(const std::vector<Tensor>& t) { return t; }
  static Tensor part(const Tensor& t, std::int64_t from, std::int64_t to);
  static std::vector<Tensor> part(const std::vector<Tensor>& t, std::int64_t from, std::int64_t to);
  int begin(std::span<const Tensor> inputs, std::span<const Tensor> labels);
  void add_part(const Tensor& loss, double share, Tensor& total);

  void settle();    // waits, and publishes the step's result even if it threw
  void publish();   // copies masters to the model
  void listen();    // copies the model to masters where it was modified from outside
  void hand_over();  // hands gradients to masters
  NamedTensors own_state() const;

  AsyncTrainerOptions options_;
  std::vector<Pair> pairs_;
  std::vector<std::string> names_;
  std::optional<amp::GradScaler::Pin> pin_;
  bool under_way_ = false;
  Background background_;  // last member: destroyed before the objects its job uses
};

}  // namespace mantissa::optim
