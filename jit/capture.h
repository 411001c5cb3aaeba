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
// The first call with given shapes runs the step normally; the second records its kernel launches (a CUDA graph); from
// then on a call copies its inputs into place and replays the recording as a whole: forward, backward, unscaling,
// clipping, update and loss scale. Results equal the normal step's bit for bit, including random numbers and skipped
// updates. On the CPU, and if any input is on the CPU, the step is simply called.
//
// Rules for a captured step:
// - It takes at least one tensor. On the device of its inputs it is recorded.
// - It must not read tensors back to the host nor create them from host data; both throw while it is recorded, naming
//   the operator.
// - It must run on the calling thread. Work of other threads on the device is not recorded, but none may call
//   synchronize(device) while a step is recorded: CUDA rejects it.
// - Its host code runs only once, while recording. Schedules and logging belong outside; a learning rate set outside
//   takes effect at the next replay, because it is stored in device memory.
// - Its results are overwritten by the next call: clone() what must last.
// - Weights may be written to between calls. Their copies in other dtypes that the step uses, casts and masters, stay
//   at their addresses and are made current before a replay. Outside of the step, autocast casts a weight again after a
//   replay that has written it, and in another dtype than the step's at each use.
// - Gradients may be made, added to, read and given up (zero_grad) within the step, outside of it, or both: a replay
//   leaves them to the parameters as the step itself would. A loss scaler's unscale_, step and update must be all
//   within or all outside.
// - A step may leave backward() to the caller, as one that only computes a net's outputs, and its inputs may require a
//   gradient: the backward pass becomes a graph of its own when it is first needed. It must come before the next call,
//   which overwrites the values that it needs, and cannot be differentiated again. What it needs must not change before
//   it, as ever.
// - Inputs of other shapes or dtypes, calls under other modes (NoGrad, autocast, nn::train and nn::eval of any module,
//   allow_tf32), and calls that find other gradients (none, or some to add to) are recorded separately; the last four
//   recordings are kept.
// - A captured step called from another one becomes part of the latter's recording.
// - Of other tensors that it uses the addresses are recorded. If one of them is freed, such as a mask that is replaced,
//   if the net moves (nn::to), weights are frozen or unfrozen (requires_grad_), an optimizer gets a group or a scaler
//   another rule, the step runs normally once more and is recorded anew. So what changes in each call should be an
//   input, or be written in place (copy_). Not noticed: what is replaced while someone else still holds it, values of
//   the host, and a loss scaler's scale that changes while gradients add up.
// - Errors detected by kernels, such as an index out of range, are thrown when the host next waits: item(), to(cpu).
// As torch.cuda.graphs.make_graphed_callables and CUDAGraph, without the warm-up that these leave to the user.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "jit/call_with.h"

namespace mantissa::jit {

// The same for any number of inputs and results; made by capture() below.
class CapturedStep {
 public:
  using Step = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
  explicit CapturedStep(Step step);

  std::vector<Tensor> run(std::vector<Tensor> inputs);
  // Drops all recordings and frees their memory.
  void reset();
  // Number of calls that were replays, and of recordings made.
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
  template <class... T>
    requires std::invocable<F&, const T&...>
  auto operator()(const T&... inputs) {
    using R = std::invoke_result_t<F&, const T&...>;
    std::vector<Tensor> all{Tensor(inputs)...};
    if constexpr (std::is_void_v<R>) {
      run(std::move(all));
    } else if constexpr (std::is_same_v<R, Tensor>) {
      return run(std::move(all)).at(0);
    } else {
      static_assert(std::is_same_v<R, std::vector<Tensor>>,
                    "a captured step returns a Tensor, a std::vector<Tensor> or nothing");
      return run(std::move(all));
    }
  }
};

template <class F> Captured<F> capture(F step) {
  static_assert(detail::arity<F>() > 0,
                "a captured step takes at least one tensor: the device of its inputs is where it is recorded");
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
