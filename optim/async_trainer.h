// AsyncTrainer: batches in micro-batches, and an optimizer that steps on a thread of its own, at once or one
// step behind (as RoundPipe, Luo et al., 2026, does it).
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
// The model's parameters and those of the optimizer are different tensors, so the next forward_backward runs
// while the optimizer works on the gradients of the last. With async, the weights it uses are one step old: that
// can cost accuracy (with AdamW more than with plain momentum), so synchronous is the default; it gives bitwise the
// numbers of an ordinary loop. Either way a run is repeatable: each forward_backward uses the weights, and the scale,
// of the moment when the last step was called.
//
// What the step function uses (optimizer, schedule, averages) belongs to it between step and synchronize().
// An exception in it is thrown by the next call of forward_backward, step or synchronize; its gradients are lost, the
// scaler forgets the iteration, the weights are as it left them, and training can go on.
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

enum class LossOf { mean, sum };  // what the loss of a batch is of its rows' losses
struct AsyncTrainerOptions {
  int micro_batches = 1;       // a batch is cut into so many parts along dimension 0, as equal as possible
  LossOf loss = LossOf::mean;  // mean: each part counts by its rows, so the result is the loss of the batch
  // Scales each part's loss; step functions call its step and update. It may not have the option check_loss with
  // async steps, because a loss and a step that meet there are of different iterations.
  amp::GradScaler* scaler = nullptr;
};

class AsyncTrainer {
 public:
  explicit AsyncTrainer(const Parameters& model, const AsyncTrainerOptions& options = {});
  AsyncTrainer(const AsyncTrainer&) = delete;
  AsyncTrainer& operator=(const AsyncTrainer&) = delete;

  // Copies of the model's parameters in their compute dtype, with their names: what the optimizer is given.
  // Gradients in f16 or bf16 are summed in f32.
  Parameters optim_parameters() const;

  // For each part: loss_fn(inputs, labels), then backward. Returns the loss of the batch, unscaled, without
  // gradient; nothing is read to the host. May be called several times before a step: gradients add up. Inputs and
  // labels: a tensor or a std::vector of them; loss_fn gets the same.
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

  // Gives the gradients to the optimizer's parameters and runs step_fn on the optimizer's thread: with async while
  // the caller goes on, else before it returns. Waits for the step before.
  void step(std::function<void()> step_fn, bool async = false);
  // Waits for the last step; then the model has its weights.
  void synchronize();

  // The f32 weights, "master.<name>" or "master.<number>", after synchronize(): what a half model does not know of
  // itself. load_state_dict sets the model, too.
  NamedTensors state_dict();
  void load_state_dict(const NamedTensors& state);

 private:
  struct Pair {
    Tensor model, master;
    std::uint32_t version = 0;  // of the model's storage when it last got the master's value
  };

  static std::span<const Tensor> flat(const Tensor& t) { return {&t, 1}; }
  static std::span<const Tensor> flat(const std::vector<Tensor>& t) { return t; }
  static Tensor part(const Tensor& t, std::int64_t from, std::int64_t to);
  static std::vector<Tensor> part(const std::vector<Tensor>& t, std::int64_t from, std::int64_t to);
  int begin(std::span<const Tensor> inputs, std::span<const Tensor> labels);
  void add_part(const Tensor& loss, double share, Tensor& total);

  void settle();    // waits, and publishes what the step has left even if it threw
  void publish();   // masters to the model
  void listen();    // the model to masters, where somebody else has written to it
  void hand_over();  // gradients to masters
  NamedTensors own_state() const;

  AsyncTrainerOptions options_;
  std::vector<Pair> pairs_;
  std::vector<std::string> names_;
  std::optional<amp::GradScaler::Pin> pin_;
  bool under_way_ = false;
  Background background_;  // the last member: it is gone before what its job uses
};

}  // namespace mantissa::optim
