// Shared by the generic operator tests: iterating over the registry, preparing a sample's inputs, running it, and its
// gradients. $MANTISSA_OP=softmax,matmul restricts every test to these operators, $MANTISSA_OP_PART=3/12 to every
// twelfth one, from number 3 on.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "core/random.h"
#include "ops/registry.h"
#include "tests/testing.h"

namespace mantissa::test {

// op: one of registry().
inline bool selected(const OpInfo& op) {
  if (const char* text = std::getenv("MANTISSA_OP_PART")) {
    std::size_t part = 0, parts = 0;
    REQUIRE(std::sscanf(text, "%zu/%zu", &part, &parts) == 2);
    REQUIRE((part >= 1 && part <= parts));
    if (static_cast<std::size_t>(&op - registry().data()) % parts != part - 1) return false;
  }
  const char* wish = std::getenv("MANTISSA_OP");
  if (!wish) return true;
  for (std::string_view list = wish; !list.empty();) {
    const std::size_t end = std::min(list.find(','), list.size());
    if (list.substr(0, end) == op.name) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}
inline std::string describe_all(const Tensors& x) {
  std::string text;
  for (const Tensor& t : x) text += (text.empty() ? "" : ", ") + describe(t);
  return text;
}

// Calls f(op, sample) for every sample of every selected operator; failures name both.
template <class F> void for_each_sample(F&& f) {
  MANTISSA_PRINT_SEED();
  for (const OpInfo& op : registry()) {
    if (!selected(op)) continue;
    Samples samples(seed());
    op.samples(samples);
    for (std::size_t i = 0; i < samples.all.size(); ++i) {
      INFO(op.name << ", sample " << i << ": " << describe_all(samples.all[i].inputs));
      try {
        f(op, samples.all[i]);
      } catch (const std::exception& e) {
        FAIL_CHECK("threw: " << e.what());
      }
    }
  }
}

// Copies of a sample's inputs, with floating ones converted to `dtype`.
inline Tensors prepared(const Sample& s, Dtype dtype) {
  Tensors x;
  for (const Tensor& t : s.inputs) x.push_back(!t.defined() ? t : t.is_floating() ? cast(t, dtype).clone() : t.clone());
  return x;
}
inline Tensors in_f64(const Tensors& x) {
  Tensors y;
  for (const Tensor& t : x) y.push_back(t.defined() && t.is_floating() ? cast(t.detach(), f64).clone() : t);
  return y;
}
// Copies (or, with copy = false, the tensors themselves) that require a gradient where possible.
inline Tensors wanting_gradients(const OpInfo& op, const Tensors& x, bool copy = true) {
  Tensors y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    y.push_back(!x[i].defined() ? x[i] : copy ? x[i].detach().clone() : x[i].detach());
    if (x[i].defined() && x[i].is_floating() && !(op.constants >> i & 1)) y.back().requires_grad_();
  }
  return y;
}
inline Tensors leaves(const Tensors& x) {
  Tensors y;
  for (const Tensor& t : x) if (t.requires_grad()) y.push_back(t);
  return y;
}

// The results; random operators always draw the same numbers.
inline Tensors run(const OpInfo& op, const Sample& s, const Tensors& x) {
  if (op.random) manual_seed(11);
  return s.call(x);
}
inline Tensors differentiable_results(const Tensors& y) { return leaves(y); }

// d (results . v) / d (inputs that require a gradient) with seeded v; undefined where there is no gradient.
inline Tensors gradients(const OpInfo& op, const Sample& s, const Tensors& x, bool create_graph = false) {
  const Tensors y = run(op, s, x);
  Tensors roots, v;
  for (std::size_t k = 0; k < y.size(); ++k) {  // v depends only on the index of the result
    if (!y[k].requires_grad()) continue;
    roots.push_back(y[k]);
    v.push_back(cast(random_tensor(y[k].sizes(), 77 + k), y[k].dtype()));
  }
  return grad(roots, leaves(x), v, {.create_graph = create_graph, .allow_unused = true});
}
inline bool can_differentiate(const OpInfo& op, const Sample& s) {
  if (!op.differentiable || !s.differentiable || s.extreme) return false;
  const Tensors x = wanting_gradients(op, prepared(s, f64));
  return !leaves(x).empty() && !differentiable_results(run(op, s, x)).empty();
}

// The maximum number of elements of one input that a result element depends on: the length of its sums. Counted from
// gradients, so it follows from the operator's own definition.
inline double sum_length(const OpInfo& op, const Sample& s) {
  if (!can_differentiate(op, s)) return 1;
  const Tensors x = wanting_gradients(op, prepared(s, f64));
  const Tensor y = differentiable_results(run(op, s, x)).front();
  double length = 1;
  for (std::int64_t at : {std::int64_t{0}, y.numel() / 2, y.numel() - 1}) {
    if (y.numel() == 0) break;
    Tensor v = zeros(y.sizes(), {.dtype = f64});
    v.data<double>()[at] = 1;
    const GradOptions again{.retain_graph = true, .allow_unused = true};
    for (const Tensor& g : grad(std::span(&y, 1), leaves(x), std::span(&v, 1), again)) {
      if (!g.defined()) continue;
      const std::vector<double> values = g.to_vector<double>();
      const auto nonzero = std::count_if(values.begin(), values.end(), [](double d) { return d != 0; });
      length = std::max(length, static_cast<double>(nonzero));
    }
  }
  return length;
}
// The largest product of one element from each input.
inline double scale_of(const Tensors& x) {
  double scale = 1;
  for (const Tensor& t : x) {
    if (!t.defined() || !t.is_floating()) continue;
    double largest = 1;
    for (double v : t.detach().to_vector<double>()) largest = std::max(largest, std::abs(v));
    scale *= largest;
  }
  return scale;
}

}  // namespace mantissa::test
