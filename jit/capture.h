// jit::capture turns a training step into one launch:
//
//   auto step = jit::capture([&](Tensor image, Tensor label) {
//     Tensor loss = amp::autocast(f16, [&] { return cross_entropy(net(image), label); });
//     backward(scaler.scale(loss));
//     scaler.step(opt);
//     scaler.update();
//     opt.zero_grad();
//     return loss;
//   });
//   for (auto [image, label] : batches) Tensor loss = step(image, label);
//
// The first call with some shapes runs the step as it is; the second records what it launches; from then on a call
// copies its inputs into place and replays the recording as a whole: forward, backward, unscaling, clipping, update and
// scale. The numbers are those of the step run as it is, bit for bit, random numbers and skipped updates included. On
// the CPU, and with inputs on it, the step is simply called.
//
// What holds for a captured step:
// - It reads no tensor back to the host and makes none from host data; both throw while it is recorded, naming the
//   operator.
// - It runs on the calling thread. What other threads do on the device meanwhile is not recorded, but none may call
//   synchronize(device) while a step is recorded: CUDA refuses it.
// - What it does on the host happens once, while recording. Schedules and logging belong outside; a learning rate
//   set outside is seen by the next replay, because it lies in device memory.
// - Its results are overwritten by the next call: clone() what is to last.
// - Weights may be written to between calls by optimizers and by kernels alike, but autocast's cast copies are
//   refreshed by the captured update only: after loading weights, call reset().
// - Inputs of other shapes or dtypes are recorded anew; the last four recordings are kept.
// - A captured step that is called by another one becomes part of the latter's recording.
// - Tensors from outside that it uses, gradients among them, must live as long as it: it reads their addresses. So
//   where zero_grad is called outside, call zero_grad(false).
// - Errors that kernels find, such as an index out of range, are thrown when the host next waits: item(), to(cpu).
// As torch.cuda.graphs.make_graphed_callables and CUDAGraph, without the warm-up that these leave to the user.
#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "jit/call_with.h"

namespace mantissa::jit {

// The same for any number of inputs and results; capture() below is the way to make one.
class CapturedStep {
 public:
  using Step = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
  explicit CapturedStep(Step step);

  std::vector<Tensor> run(const std::vector<Tensor>& inputs);
  // Forgets all recordings, and gives their memory back.
  void reset();
  // How many calls were replays, and how many recordings were made.
  std::int64_t replays() const;
  std::int64_t recordings() const;
  // Device memory held by the recordings, in bytes.
  std::size_t bytes() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

template <class F> class Captured : public CapturedStep {
 public:
  using CapturedStep::CapturedStep;
  // Takes tensors and returns what the step returns: a Tensor, a vector of them, or nothing.
  template <class... T> auto operator()(const T&... inputs) {
    using R = std::invoke_result_t<F&, const T&...>;
    const std::vector<Tensor> all{Tensor(inputs)...};
    if constexpr (std::is_void_v<R>) {
      run(all);
    } else if constexpr (std::is_same_v<R, Tensor>) {
      return run(all).at(0);
    } else {
      static_assert(std::is_same_v<R, std::vector<Tensor>>,
                    "a captured step returns a Tensor, a std::vector<Tensor> or nothing");
      return run(all);
    }
  }
};

template <class F> Captured<F> capture(F step) {
  return Captured<F>([step = std::move(step)](const std::vector<Tensor>& inputs) mutable -> std::vector<Tensor> {
    constexpr auto indices = std::make_index_sequence<detail::arity<F>()>();
    using R = decltype(detail::call_with(step, inputs, indices));
    if constexpr (std::is_void_v<R>) {
      detail::call_with(step, inputs, indices);
      return {};
    } else if constexpr (std::is_same_v<R, Tensor>) {
      return {detail::call_with(step, inputs, indices)};
    } else {
      return detail::call_with(step, inputs, indices);
    }
  });
}

}  // namespace mantissa::jit
