#include "autograd/functional.h"

#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "core/ops.h"

namespace mantissa {
namespace {

using Tensors = std::vector<Tensor>;
long number(std::size_t i) { return static_cast<long>(i); }

// The tensors that f is called with: they share the inputs' values but have nodes of their own, so that other
// references to an input stay constant.
Tensors own_inputs(const char* name, const Tensors& inputs, bool create_graph) {
  check(!inputs.empty(), name, ": needs at least one input");
  Tensors own;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& x = inputs[i];
    check(x.defined(), name, ": input ", number(i), " is undefined");
    check(x.is_floating(), name, ": input ", number(i), " is ", x, "; only floating tensors have derivatives");
    if (create_graph && x.requires_grad()) own.push_back(expand(x, x.sizes()));
    else own.push_back(x.detach().requires_grad_());
  }
  return own;
}
Tensors results_of(const char* name, const TensorFunction& f, const Tensors& x) {
  Tensors y = f(x);
  check(!y.empty(), name, ": the function has no results");
  for (std::size_t i = 0; i < y.size(); ++i) {
    check(y[i].defined() && y[i].is_floating(), name, ": result ", number(i),
          " of the function must be a floating tensor");
  }
  return y;
}
Tensor scalar_result(const char* name, const TensorFunction& f, const Tensors& x) {
  const Tensors y = results_of(name, f, x);
  check(y.size() == 1 && y[0].numel() == 1, name, ": the function must have one result of one element, it has ",
        number(y.size()), ", the first is ", y[0], "; take a sum, or jacobian");
  return reshape(y[0], {});
}

void check_vectors(const char* name, const char* of, const Tensors& v, const Tensors& like) {
  check(v.size() == like.size(), name, ": ", number(v.size()), " tensors v for ", number(like.size()), " ", of, "s");
  for (std::size_t i = 0; i < v.size(); ++i) {
    check(v[i].defined(), name, ": v ", number(i), " is undefined");
    check(v[i].sizes() == like[i].sizes(), name, ": v ", number(i), " is ", v[i], ", its ", of, " ", like[i]);
  }
}

// Gradients of the roots that require one; zeros for inputs they do not depend on, or an error with strict.
Tensors gradients(const char* name, const Tensors& roots, const Tensors& x, const Tensors& v,
                  const FunctionalOptions& o, bool create_graph) {
  Tensors used, weights;
  for (std::size_t i = 0; i < roots.size(); ++i) {
    check(roots[i].requires_grad() || !o.strict, name, ": result ", number(i),
          " does not depend on any input, and strict is set");
    if (!roots[i].requires_grad()) continue;
    used.push_back(roots[i]);
    weights.push_back(v[i]);
  }
  Tensors g(x.size());
  if (!used.empty())
    g = grad(used, x, weights, {.retain_graph = true, .create_graph = create_graph, .allow_unused = true});
  for (std::size_t j = 0; j < x.size(); ++j) {
    check(g[j].defined() || !o.strict, name, ": the results do not depend on input ", number(j), ", and strict is set");
    if (!g[j].defined()) g[j] = zeros_like(x[j]).detach();
  }
  return g;
}
Tensors ones_for(const Tensors& y) {
  Tensors v;
  for (const Tensor& t : y) v.push_back(ones_like(t).detach());
  return v;
}
// Detaches the results unless create_graph.
Tensors leaving(Tensors t, bool create_graph) {
  if (!create_graph)
    for (Tensor& one : t) one = one.detach();
  return t;
}

std::vector<Tensors> jacobian_of(const char* name, const Tensors& y, const Tensors& x, const FunctionalOptions& o) {
  std::vector<Tensors> all;
  for (const Tensor& result : y) {
    std::vector<Tensors> rows(x.size());
    for (std::int64_t k = 0; k < result.numel(); ++k) {
      Tensor one = zeros({result.numel()}, {.dtype = result.dtype(), .device = result.device()});
      one.slice(0, k, k + 1).fill_(1);
      const Tensors g = gradients(name, {result}, x, {reshape(one, result.sizes())}, o, o.create_graph);
      for (std::size_t j = 0; j < x.size(); ++j) rows[j].push_back(g[j]);
    }
    Tensors blocks;
    for (std::size_t j = 0; j < x.size(); ++j) {
      Dims sizes = result.sizes();
      for (const std::int64_t n : x[j].sizes()) sizes.push_back(n);
      const bool none = rows[j].empty();
      blocks.push_back(none ? zeros(sizes, {.dtype = x[j].dtype(), .device = x[j].device()})
                            : reshape(stack(rows[j]), sizes));
    }
    all.push_back(leaving(std::move(blocks), o.create_graph));
  }
  return all;
}

}  // namespace

std::vector<Tensors> jacobian(const TensorFunction& f, const Tensors& inputs, FunctionalOptions o) {
  const EnableGrad record;
  const Tensors x = own_inputs("jacobian", inputs, o.create_graph);
  return jacobian_of("jacobian", results_of("jacobian", f, x), x, o);
}

std::vector<Tensors> hessian(const TensorFunction& f, const Tensors& inputs, FunctionalOptions o) {
  const EnableGrad record;
  const Tensors x = own_inputs("hessian", inputs, o.create_graph);
  const Tensor y = scalar_result("hessian", f, x);
  return jacobian_of("hessian", gradients("hessian", {y}, x, ones_for({y}), o, true), x, o);
}

Products vjp(const TensorFunction& f, const Tensors& inputs, const Tensors& v, FunctionalOptions o) {
  const EnableGrad record;
  const Tensors x = own_inputs("vjp", inputs, o.create_graph), y = results_of("vjp", f, x);
  const bool alone = y.size() == 1 && y[0].numel() == 1;
  check(!v.empty() || alone, "vjp: v may be left out only for one result of one element; the function has ",
        number(y.size()), ", the first is ", y[0]);
  if (!v.empty()) check_vectors("vjp", "result", v, y);
  const Tensors g = gradients("vjp", y, x, v.empty() ? ones_for(y) : v, o, o.create_graph);
  return {leaving(y, o.create_graph), leaving(g, o.create_graph)};
}

// The product u^T J is linear in u, and its derivative with respect to u, times v, is J v: the value of u is
// irrelevant.
Products jvp(const TensorFunction& f, const Tensors& inputs, const Tensors& v, FunctionalOptions o) {
  const EnableGrad record;
  const Tensors x = own_inputs("jvp", inputs, o.create_graph), y = results_of("jvp", f, x);
  check_vectors("jvp", "input", v, x);
  Tensors u;
  for (const Tensor& t : y) u.push_back(zeros_like(t).detach().requires_grad_());
  const Tensors g = gradients("jvp", y, x, u, o, true);
  const Tensors products = gradients("jvp", g, u, v, o, o.create_graph);
  return {leaving(y, o.create_graph), leaving(products, o.create_graph)};
}

Products hvp(const TensorFunction& f, const Tensors& inputs, const Tensors& v, FunctionalOptions o) {
  const EnableGrad record;
  const Tensors x = own_inputs("hvp", inputs, o.create_graph);
  check_vectors("hvp", "input", v, x);
  const Tensor y = scalar_result("hvp", f, x);
  const Tensors g = gradients("hvp", {y}, x, ones_for({y}), o, true);
  return {leaving({y}, o.create_graph), leaving(gradients("hvp", g, x, v, o, o.create_graph), o.create_graph)};
}

}  // namespace mantissa
