// General behaviour of every registered operator: aliasing, empty inputs, autocast, determinism, and participation in
// differentiation. Read next: tests/strided_test.cpp.
#include "amp/autocast.h"
#include "core/parallel.h"
#include "tests/op_testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

void check_same(const Tensors& a, const Tensors& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t k = 0; k < a.size(); ++k) {
    INFO("tensor " << k);
    if (!same_bits(a[k], b[k])) FAIL_CHECK("bits differ: " << difference(a[k], b[k], {0, 0}));
  }
}
template <class F> Tensors map(const Tensors& x, F&& f) {
  Tensors y;
  for (const Tensor& t : x) y.push_back(t.defined() ? f(t) : t);
  return y;
}

}  // namespace

TEST_CASE("inputs stay as they were, and only views share memory with them") {
  for_each_sample([](const OpInfo& op, const Sample& s) {
    const Tensors x = prepared(s, f32), before = map(x, [](const Tensor& t) { return t.clone(); });
    std::vector<std::uint32_t> versions;
    for (const Tensor& t : x) versions.push_back(t.defined() ? t.storage()->version() : 0);
    const Tensors y = run(op, s, x);
    if (!op.mutates) {
      check_same(x, before);
      for (std::size_t k = 0; k < x.size(); ++k) if (x[k].defined()) CHECK(x[k].storage()->version() == versions[k]);
    }
    if (op.composite) return;
    bool shares = false;
    for (const Tensor& a : x)
      for (const Tensor& b : y) shares |= a.defined() && b.defined() && a.storage() == b.storage();
    if (!op.is_view) CHECK_FALSE(shares);
  });
}

// The outcome for inputs without elements or without dimensions: a result with a matching gradient, or an Error.
TEST_CASE("empty and zero-dimensional inputs work or are refused") {
  for_each_sample([](const OpInfo& op, const Sample& s) {
    const auto empty_rows = [](const Tensor& t) { return t.dim() > 0 ? t.slice(0, 0, 0).clone() : t; };
    const auto empty_columns = [](const Tensor& t) { return t.dim() > 0 ? t.slice(-1, 0, 0).clone() : t; };
    const auto scalars = [](const Tensor& t) { return t.numel() > 0 ? t.as_strided({}, {}).clone() : t; };
    const auto attempt = [&](const Tensors& inputs) {
      try {
        const Tensors x = wanting_gradients(op, inputs);
        const Tensors y = run(op, s, x);
        if (s.reference) {
          const Tensors expected = s.reference(inputs);
          for (std::size_t k = 0; k < expected.size(); ++k) {
            CHECK(difference(y[k], expected[k], tolerance_for(f64, 8), Nan::equal) == "");
          }
        }
        if (!op.differentiable || !s.differentiable || differentiable_results(y).empty()) return;
        const Tensors g = gradients(op, s, x), l = leaves(x);
        for (std::size_t k = 0; k < g.size(); ++k) if (g[k].defined()) CHECK(g[k].sizes() == l[k].sizes());
      } catch (const Error&) {
      }
    };
    const Tensors x = prepared(s, f64);
    attempt(map(x, empty_rows));
    attempt(map(x, empty_columns));
    attempt(map(x, scalars));
  });
}

TEST_CASE("the same tensor passed twice receives the sum of both gradients") {
  for_each_sample([](const OpInfo& op, const Sample& s) {
    if (!can_differentiate(op, s) || op.mutates) return;
    const Tensors x = prepared(s, f64);
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (std::size_t j = i + 1; j < x.size(); ++j) {
        if (!x[i].defined() || !x[j].defined() || !x[i].is_floating() || !x[j].is_floating()) continue;
        if (!(x[i].sizes() == x[j].sizes())) continue;
        if ((op.constants >> i | op.constants >> j) & 1) continue;
        Tensors apart = x;
        apart[j] = x[i].clone();
        apart[i] = x[i].clone().requires_grad_();
        apart[j].requires_grad_();
        Tensors together = x;
        together[i] = together[j] = x[i].clone().requires_grad_();
        try {
          if (differentiable_results(run(op, s, together)).empty()) continue;
        } catch (const Error&) {  // the values of one are outside the other's domain: in two tensors as well
          CHECK_THROWS_AS(run(op, s, apart), Error);
          continue;
        }
        const Tensors g = gradients(op, s, apart), twice = gradients(op, s, together);
        const Tensor zero = zeros_like(x[i]);
        const Tensor expected = add(g[0].defined() ? g[0] : zero, g[1].defined() ? g[1] : zero);
        CHECK(difference(twice[0].defined() ? twice[0] : zero, expected, tolerance_for(f64, 4, scale_of({expected})),
                         Nan::equal) == "");
      }
    }
  });
}

TEST_CASE("autocast casts as the operator's policy says, and gradients keep their dtype") {
  for_each_sample([](const OpInfo& op, const Sample& s) {
    if (op.composite || !op.halves || op.autocast == CastPolicy::banned) return;
    const bool widens = op.autocast == CastPolicy::f32 || op.autocast == CastPolicy::f32_default;
    for (Dtype region : {bf16, f16}) {
      for (Dtype incoming : {f32, region}) {
        INFO(name_of(incoming) << " inputs in a region of " << name_of(region));
        const Dtype target = op.autocast == CastPolicy::lower ? region : widens ? f32 : incoming;
        const Tensors x = prepared(s, incoming);
        const Tensors by_hand = map(x, [&](const Tensor& t) { return t.is_floating() ? cast(t, target) : t.clone(); });
        const Tensors expected = run(op, s, by_hand);
        const Tensors y =
            amp::autocast(region, [&] { return run(op, s, map(x, [](const Tensor& t) { return t.clone(); })); });
        check_same(y, expected);
        if (!can_differentiate(op, s)) continue;
        const Tensors leaf = wanting_gradients(op, x);
        const Tensors roots = differentiable_results(amp::autocast(region, [&] { return run(op, s, leaf); }));
        Tensors v;
        for (const Tensor& r : roots) v.push_back(ones_like(r));
        for (const Tensor& g : grad(roots, leaves(leaf), v, {.allow_unused = true})) {
          if (g.defined()) CHECK(g.dtype() == incoming);
        }
      }
    }
  });
}

TEST_CASE("repeats and 1, 2 and 3 threads give the same bits, forward and backward") {
  const int before = num_threads();
  for_each_sample([](const OpInfo& op, const Sample& s) {
    const bool backward = can_differentiate(op, s);
    std::vector<Tensors> results, grads;
    for (int threads : {1, 2, 3, 1}) {
      set_num_threads(threads);
      results.push_back(run(op, s, prepared(s, f32)));
      if (backward) grads.push_back(gradients(op, s, wanting_gradients(op, prepared(s, f32))));
    }
    for (std::size_t i = 1; i < results.size(); ++i) check_same(results[i], results[0]);
    for (std::size_t i = 1; i < grads.size(); ++i) check_same(grads[i], grads[0]);
  });
  set_num_threads(before);
}

TEST_CASE("only the gradients that are asked for are computed, and they are the same") {
  for_each_sample([](const OpInfo& op, const Sample& s) {
    if (!can_differentiate(op, s)) return;
    const Tensors x = prepared(s, f64), all = gradients(op, s, wanting_gradients(op, x));
    std::size_t leaf = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!x[i].defined() || !x[i].is_floating() || op.constants >> i & 1) continue;
      Tensors one = map(x, [](const Tensor& t) { return t.clone(); });
      one[i].requires_grad_();
      const Tensors roots = differentiable_results(run(op, s, one));
      if (!roots.empty()) check_same(gradients(op, s, one), {all[leaf]});
      ++leaf;
    }
  });
}

TEST_CASE("a second backward adds exactly the same again, and create_graph changes no value") {
  for_each_sample([](const OpInfo& op, const Sample& s) {
    if (!can_differentiate(op, s)) return;
    const Tensors x = wanting_gradients(op, prepared(s, f64));
    const Tensors results = run(op, s, x);
    Tensors roots, v;  // as in gradients()
    for (std::size_t k = 0; k < results.size(); ++k) {
      if (!results[k].requires_grad()) continue;
      roots.push_back(results[k]);
      v.push_back(random_tensor(results[k].sizes(), 77 + k));
    }
    backward(roots, v, {.retain_graph = true});
    const Tensors once =
        map(leaves(x), [](const Tensor& t) { return t.grad().defined() ? t.grad().clone() : zeros_like(t); });
    backward(roots, v);
    for (std::size_t k = 0; k < once.size(); ++k) {
      const Tensor g = leaves(x)[k].grad();
      if (g.defined()) CHECK(same_bits(g, once[k] * 2.0));
    }
    const Tolerance t = tolerance_for(f64, std::max(4.0, sum_length(op, s)), scale_of(x));
    const Tensors recorded = gradients(op, s, x, true);
    for (std::size_t k = 0; k < recorded.size(); ++k) {
      if (recorded[k].defined()) CHECK(difference(recorded[k].detach(), once[k], t) == "");
    }
  });
}
