// Saves a trained net as an ONNX file, for ONNX Runtime, TensorRT, OpenVINO and whatever else runs such files. As
// torch.onnx.export:
//
//   nn::eval(net);
//   nn::save_onnx(net, "net.onnx", {zeros({1, 3, 32, 32})}, {.dynamic = {{"batch"}}});
//
// The net is called with the example inputs, and the operators that it runs are written down: nothing of the net needs
// to know of this. Parameters and buffers are the file's initialisers under their names in state_dict(), in the dtypes
// they have; results are those of the net up to rounding. Autocast regions are exported as the casts they make.
//
// What is not an operator is not in the file: branches and loops of the program as they went, numbers read from
// tensors, tensors made from nothing (they are constants). So the net is called again with other values (those of the
// example, mixed anew: with an example of nothing but one integer nothing is seen), and with other sizes where
// `dynamic` says so. Sizes that changed between the calls become functions of the dynamic ones (shapes of
// reshapes, ends of slices, position ranges). Constants that are prefixes of one another (positional tables) become
// slices of the longest, so longer sequences fail at run time. Any other difference is an error. Exact where
// the dynamic sizes are at least 2; with 1, a program that treats 1 as a special case (squeeze) differs.
//
// Refused, with one message: nets in training mode, operators that have no translation (they are named, with their
// shapes and the layer they follow), random operators, those that repeat steps until values say so (svd and its kin),
// in-place writes to results, files of more than 2 GiB. An operator of one's own is exported as its `reference`, or
// says in a member `onnx` what it is (ops/onnx.h).
//
// A file is as exact as its reader is: ONNX Runtime's CPU provider computes f32 and f16, and lacks products of bf16,
// which other readers have. For it, save the net outside of regions.
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

// A size of inputs that may be another one whenever the file is used.
struct OnnxDynamicAxis {
  std::string name;  // as readers show it; the same name is the same size
  int axis = 0;
  std::string input = {};  // of this input; empty: of all
};
struct OnnxOptions {
  std::vector<std::string> input_names = {};   // default: "input", or "input_0", "input_1", ...
  std::vector<std::string> output_names = {};  // default: "output", or "output_0", ...
  std::vector<OnnxDynamicAxis> dynamic = {};   // none: all sizes are those of the example
  int opset = 17;                              // of the standard operators, 17 to 22
};

namespace detail {

using Forward = std::function<std::vector<Tensor>(std::span<const Tensor>)>;
void save_onnx(ModuleRef net, const std::string& path, const std::vector<Tensor>& inputs, const OnnxOptions& options,
               const Forward& forward);

// A result as a list: a tensor, a range or a tuple of them, or a struct of tensors as nn::LSTM returns.
template <class R> std::vector<Tensor> tensors_of(const R& r) {
  const auto list = [](const auto&... t) {
    std::vector<Tensor> all;
    ((static_cast<const Tensor&>(t).defined() ? all.push_back(t) : void()), ...);
    return all;
  };
  if constexpr (std::is_convertible_v<const R&, const Tensor&>) return {r};
  else if constexpr (Range<const R>) return std::vector<Tensor>(r.begin(), r.end());
  else if constexpr (requires { std::tuple_size<R>::value; }) return std::apply(list, r);
  else return std::apply(list, members(r));
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

// `forward` is called in place of the net: a function of as many tensors as there are inputs that uses it, for what
// shall be in the file besides (softmax of the results, a division of pixels by 255).
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
