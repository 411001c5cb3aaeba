// Exports a trained net to an ONNX file, for ONNX Runtime, TensorRT, OpenVINO and others, as torch.onnx.export does:
//
//   nn::eval(net);
//   nn::save_onnx(net, "net.onnx", {zeros({1, 3, 32, 32})}, {.dynamic = {{"batch"}}});
//
// The net is traced: it is called with the example inputs, and the operators that run are recorded, so the net needs no
// changes. Parameters and buffers become initialisers under their state_dict() names, in their dtypes; results equal
// the net's up to rounding. Autocast regions are exported as casts.
//
// Only operators are recorded: host branches and loops are fixed as they were taken, and values read from tensors and
// tensors created during the call become constants. To detect such dependencies the net is called again with other
// values (those of the example, shuffled; an example of a single integer detects nothing) and, for `dynamic`, with
// other sizes. Sizes that differ between the calls become functions of the dynamic ones (shapes of reshapes, ends of
// slices, position ranges). Constants that are prefixes of one another (positional tables) become slices of the longest
// one, so longer sequences fail at run time. Any other difference is an error. Exact for dynamic sizes of at least 2;
// with size 1, a program that treats 1 as a special case (squeeze) may differ.
//
// Rejected, in a single message: nets in training mode, operators without an ONNX translation (named, with their shapes
// and the preceding layer), random operators, iterative ones with data-dependent step counts (svd and similar),
// in-place writes to results, files over 2 GiB. A custom operator is exported as its `reference`, or defines its
// translation in a member `onnx` (ops/onnx.h).
//
// Precision depends on the runtime: ONNX Runtime's CPU provider computes f32 and f16, and lacks bf16 matrix products,
// which other runtimes have. For it, export outside of autocast regions.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "nn/functions.h"

namespace mantissa::nn {

// An input dimension whose size may differ when the file is used.
struct OnnxDynamicAxis {
  std::string name;  // shown by runtimes; axes with the same name have the same size
  int axis = 0;
  std::string input = {};  // of this input; empty: of all inputs
};
struct OnnxOptions {
  std::vector<std::string> input_names = {};   // default: "input", or "input_0", "input_1", ...
  std::vector<std::string> output_names = {};  // default: "output", or "output_0", ...
  std::vector<OnnxDynamicAxis> dynamic = {};   // none: all sizes are fixed to the example's
  int opset = 17;                              // version of the standard operator set, 17 to 22
};

namespace detail {

using Forward = std::function<std::vector<Tensor>(std::span<const Tensor>)>;
void save_onnx(ModuleRef net, const std::string& path, const std::vector<Tensor>& inputs, const OnnxOptions& options,
               const Forward& forward);

// A result as a list: from a tensor, a range or tuple of tensors, or a struct of tensors such as nn::LSTM returns.
template <class R> std::vector<Tensor> tensors_of(const R& r) {
  const auto list = [](const auto&... t) {
    std::vector<Tensor> all;
    ((static_cast<const Tensor&>(t).defined() ? all.push_back(t) : void()), ...);
    return all;
  };
  if constexpr (std::is_convertible_v<const R&, const Tensor&>) return {r};
  else if constexpr (Range<const R>) return std::vector<Tensor>(r.begin(), r.end());
  else if constexpr (requires { std::tuple_size<R>::value; }) return std::apply(list, r);
  else return with_members(r, list);
}
template <std::size_t> using TensorAt = const Tensor&;
template <class F, std::size_t... i>
std::vector<Tensor> call_with(F& f, std::span<const Tensor> x, std::index_sequence<i...>) {
  if constexpr (std::is_invocable_v<F&, TensorAt<i>...>) return tensors_of(f(x[i]...));
  else fail("save_onnx: the net does not take ", sizeof...(i), " tensors");
}
template <class F, std::size_t n = 0> std::vector<Tensor> call_forward(F& f, std::span<const Tensor> x) {
  if constexpr (n > 8) fail("save_onnx: more than 8 inputs");
  else if (x.size() == n) return call_with(f, x, std::make_index_sequence<n>{});
  else return call_forward<F, n + 1>(f, x);
}

}  // namespace detail

// `forward` is called instead of the net: a function of as many tensors as there are inputs that calls the net, to
// include pre- and postprocessing in the file (softmax of the results, dividing pixels by 255).
template <Modules M, class F>
void save_onnx(const M& net, const std::string& path, const std::vector<Tensor>& inputs, const OnnxOptions& options,
               F&& forward) {
  detail::save_onnx(net, path, inputs, options,
                    [&](std::span<const Tensor> x) { return detail::call_forward(forward, x); });
}
template <Modules M>
void save_onnx(const M& net, const std::string& path, const std::vector<Tensor>& inputs,
               const OnnxOptions& options = {}) {
  save_onnx(net, path, inputs, options, const_cast<M&>(net));
}

}  // namespace mantissa::nn
