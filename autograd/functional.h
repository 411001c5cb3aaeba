// Derivatives of a function as tensors: Jacobians, Hessians, and their products with vectors. Names, defaults and
// shapes follow torch.autograd.functional.
//
//   const Tensor j = jacobian([&](const Tensor& x) { return matmul(w, x); }, x);    // [results..., inputs...]
//   const Tensor h = hessian([](const Tensor& x) { return sum(x * x * x); }, x);    // [inputs..., inputs...]
//   const auto [y, g] = hvp(loss, x, v);                                            // H v without H
//
// The function is called with new tensors that share the inputs' values: no .grad() is modified, and everything else it
// refers to (e.g. a module's weights) counts as constant. The results take no part in differentiation, unless
// create_graph is set: then they are differentiable with respect to the inputs that require a gradient and to what the
// function refers to. A Jacobian costs one backward pass per element of the results, a Hessian one per element of the
// inputs.
#pragma once

#include <concepts>
#include <vector>

#include "autograd/tensor_function.h"
#include "core/tensor.h"

namespace mantissa {

struct FunctionalOptions {
  bool create_graph = false;
  bool strict = false;  // a result that does not depend on an input is an error instead of zeros
};

// [i][j]: the derivatives of result i with respect to input j, of shape [shape of result i..., shape of input j...].
std::vector<std::vector<Tensor>> jacobian(const TensorFunction& f, const std::vector<Tensor>& inputs,
                                          FunctionalOptions = {});
// [i][j]: the second derivatives of f, which must return a single element, with respect to inputs i and j, of shape
// [shape of input i..., shape of input j...].
std::vector<std::vector<Tensor>> hessian(const TensorFunction& f, const std::vector<Tensor>& inputs,
                                         FunctionalOptions = {});

// The results of f, and a product with its derivatives: one tensor per input (vjp, hvp) or result (jvp).
struct Products {
  std::vector<Tensor> results, products;
};
// v^T J, shaped like the inputs; v are shaped like the results and may be omitted for a single result of one element.
Products vjp(const TensorFunction& f, const std::vector<Tensor>& inputs, const std::vector<Tensor>& v = {},
             FunctionalOptions = {});
// J v, shaped like the results; v are shaped like the inputs. Computed by differentiating vjp, so every operator in f
// must be twice differentiable.
Products jvp(const TensorFunction& f, const std::vector<Tensor>& inputs, const std::vector<Tensor>& v,
             FunctionalOptions = {});
// H v = v^T H (the Hessian is symmetric); f returns a single element. Costs two backward passes.
Products hvp(const TensorFunction& f, const std::vector<Tensor>& inputs, const std::vector<Tensor>& v,
             FunctionalOptions = {});
inline Products vhp(const TensorFunction& f, const std::vector<Tensor>& inputs, const std::vector<Tensor>& v,
                    FunctionalOptions o = {}) {
  return hvp(f, inputs, v, o);
}

// --- the same for functions of one tensor with one result ---
template <class F>
concept UnaryTensorFunction = std::is_invocable_r_v<Tensor, const F&, const Tensor&>;
struct Product {
  Tensor result, product;
};
namespace detail {
template <class F> TensorFunction of_one(const F& f) {
  return TensorFunction([f](const std::vector<Tensor>& x) { return f(x[0]); });
}
inline Product one_of(const Products& all) { return {all.results[0], all.products[0]}; }
}  // namespace detail
template <UnaryTensorFunction F> Tensor jacobian(const F& f, const Tensor& x, FunctionalOptions o = {}) {
  return jacobian(detail::of_one(f), {x}, o)[0][0];
}
template <UnaryTensorFunction F> Tensor hessian(const F& f, const Tensor& x, FunctionalOptions o = {}) {
  return hessian(detail::of_one(f), {x}, o)[0][0];
}
template <UnaryTensorFunction F>
Product vjp(const F& f, const Tensor& x, const Tensor& v = {}, FunctionalOptions o = {}) {
  return detail::one_of(vjp(detail::of_one(f), {x}, v.defined() ? std::vector<Tensor>{v} : std::vector<Tensor>{}, o));
}
template <UnaryTensorFunction F> Product jvp(const F& f, const Tensor& x, const Tensor& v, FunctionalOptions o = {}) {
  return detail::one_of(jvp(detail::of_one(f), {x}, {v}, o));
}
template <UnaryTensorFunction F> Product hvp(const F& f, const Tensor& x, const Tensor& v, FunctionalOptions o = {}) {
  return detail::one_of(hvp(detail::of_one(f), {x}, {v}, o));
}
template <UnaryTensorFunction F> Product vhp(const F& f, const Tensor& x, const Tensor& v, FunctionalOptions o = {}) {
  return hvp(f, x, v, o);
}

}  // namespace mantissa
