// Backward overwrites memory that nothing else references (autograd/last_owner.h), on the CPU and on the CUDA device:
// the same bits as without this, no visible tensor changes, and the number of bytes that it saves.
#include <functional>

#include "amp/autocast.h"
#include "amp/casts.h"
#include "autograd/anomaly.h"
#include "autograd/checkpoint.h"
#include "autograd/hooks.h"
#include "core/accelerator.h"
#include "core/allocator.h"
#include "tests/devices.h"
#include "tests/op_testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

Tensor on_host(const Tensor& t) { return t.defined() ? t.detach().to(cpu) : t; }
bool same(const Tensor& a, const Tensor& b) { return same_bits(on_host(a), on_host(b)); }

constexpr std::int64_t rows = 256, classes = 1024, slack = 64 << 10;
constexpr std::int64_t wide = rows * classes * 4;  // bytes in f32

Tensor leaf_of(const Dims& sizes, Device d, Dtype dtype = f32, std::uint64_t stream = 1) {
  return cast(random_tensor(sizes, stream, -3, 3), dtype).to(d).requires_grad_();
}
Tensor labels_on(Device d) {
  std::vector<std::int64_t> label(rows);
  for (std::int64_t r = 0; r < rows; ++r) label[static_cast<std::size_t>(r)] = r * 37 % classes;
  return from_data(label, {rows}).to(d);
}
// The peak memory of f beyond what is in use before.
std::int64_t peak_of(Device d, const std::function<void()>& f) {
  reset_peak_memory_stats(d);
  const std::int64_t before = memory_stats(d).allocated;
  f();
  return memory_stats(d).peak_allocated - before;
}

struct Differentiated {
  Tensors gradients;
  std::vector<std::pair<Tensor, Tensor>> seen;  // what was held, and its values before backward
};
// The gradients of a sample whose inputs and results are referenced elsewhere, or only by the graph.
Differentiated differentiate(const OpInfo& op, const Sample& s, const Tensors& x, bool held) {
  Differentiated found;
  Tensors inner, roots;
  for (const Tensor& t : x) inner.push_back(t.defined() && t.requires_grad() ? clone(t) : t);
  Tensors y = run(op, s, inner);
  for (std::size_t k = 0; k < y.size(); ++k) {
    if (!y[k].defined() || !y[k].requires_grad()) continue;
    roots.push_back(sum(y[k] * cast(random_tensor(y[k].sizes(), 77 + k), y[k].dtype()).to(y[k].device())));
  }
  if (held) {
    for (const Tensors* list : {&inner, &y}) {
      for (const Tensor& t : *list) if (t.defined()) found.seen.push_back({t, t.detach().clone()});
    }
  }
  inner.clear();
  y.clear();
  found.gradients = grad(roots, leaves(x), {}, {.allow_unused = true});
  return found;
}

}  // namespace

TEST_CASE("gradients have the same bits whether or not backward may write over what it reads") {
  for (Device d : devices()) {
    for_each_sample([&](const OpInfo& op, const Sample& s) {
      if (op.mutates || !can_differentiate(op, s)) return;
      for (Dtype dtype : {f32, bf16}) {
        if (!op.halves && is_half(dtype)) continue;
        INFO(name_of(dtype) << " on " << (d.is_cpu() ? "the cpu" : "cuda"));
        Tensors x = wanting_gradients(op, prepared(s, dtype));
        for (Tensor& t : x) {
          if (!t.defined() || t.is_weak_scalar() || t.device() == d) continue;
          const bool wanted = t.requires_grad();
          t = t.detach().to(d);
          if (wanted) t.requires_grad_();
        }
        const Differentiated kept = differentiate(op, s, x, true), alone = differentiate(op, s, x, false);
        REQUIRE(kept.gradients.size() == alone.gradients.size());
        for (std::size_t i = 0; i < kept.gradients.size(); ++i) CHECK(same(kept.gradients[i], alone.gradients[i]));
        for (const auto& [now, before] : kept.seen) CHECK(same(now, before));
      }
    });
  }
}

TEST_CASE("the gradient of cross_entropy takes the place of logits that nobody else holds") {
  for (Device d : devices()) {
    const Tensor labels = labels_on(d);
    for (Dtype dtype : {f32, bf16}) {
      INFO(name_of(dtype) << " on " << (d.is_cpu() ? "the cpu" : "cuda"));
      Tensor x = leaf_of({rows, classes}, d, dtype);
      const std::int64_t bytes = wide / (dtype == f32 ? 1 : 2);
      Tensor held = x * 1.0, before = on_host(held).clone();
      const Tensor with = cross_entropy(held, labels);
      CHECK(peak_of(d, [&] { with.backward(); }) >= 2 * bytes - slack);  // its gradient and that of x
      CHECK(same(held, before));
      const Tensor expected = x.grad();
      x.set_grad({});
      const Tensor alone = cross_entropy(x * 1.0, labels);
      CHECK(peak_of(d, [&] { alone.backward(); }) <= bytes + slack);
      CHECK(same(x.grad(), expected));
      x.set_grad({});
      // As in language models; a view that is still referenced protects the whole tensor.
      Tensor shaped = reshape(x * 1.0, {2, rows / 2, classes});
      Tensor loss = cross_entropy(flatten(shaped, 0, 1), labels);
      shaped = {};
      CHECK(peak_of(d, [&] { loss.backward(); }) <= bytes + slack);
      CHECK(same(x.grad(), expected));
      x.set_grad({});
      held = x * 1.0;
      const Tensor corner = narrow(held, 1, 0, 2).detach(), corner_before = on_host(corner).clone();
      loss = cross_entropy(held, labels);
      held = {};
      loss.backward();
      CHECK(same(x.grad(), expected));
      CHECK(same(corner, corner_before));
      x.set_grad({});
      // A retained graph keeps its logits.
      loss = cross_entropy(x * 1.0, labels);
      loss.backward({}, true);
      loss.backward({}, true);
      loss.backward();
      CHECK(same(x.grad(), (expected + expected) + expected));
      x.set_grad({});
      loss = cross_entropy(x * 1.0, labels);
      loss.backward();
      CHECK_THAT(message_of([&] { loss.backward(); }), Catch::Matchers::Contains("retain_graph"));
    }
  }
}

TEST_CASE("autocast leaves logits in half precision: cross_entropy reads them as they are") {
  for (Device d : devices()) {
    const Tensor labels = labels_on(d);
    for (Dtype half : {bf16, f16}) {
      for (const double smoothing : {0.0, 0.1}) {
        Tensor x = leaf_of({rows, classes}, d, half), weight = cast(random_tensor({classes}, 3, 0.5, 2), f32).to(d);
        const CrossEntropyOptions options{.label_smoothing = smoothing, .ignore_index = 37};
        const Tensor expected = cross_entropy(x.to(f32), labels, options, weight);
        expected.backward(full({}, 3.0, {.device = d}));
        const Tensor gradient = x.grad();
        x.set_grad({});
        const std::uint64_t casts = amp::cast_count();
        Tensor loss;
        const std::int64_t forward = peak_of(d, [&] {
          loss = amp::autocast(half, [&] { return cross_entropy(x, labels, options, weight); });
        });
        CHECK(amp::cast_count() == casts);
        CHECK(forward <= slack);
        CHECK(loss.dtype() == f32);
        CHECK(same(loss, expected));
        CHECK(peak_of(d, [&] { loss.backward(full({}, 3.0, {.device = d})); }) <= wide / 2 + slack);
        CHECK(x.grad().dtype() == half);
        CHECK(same(x.grad(), gradient));
        x.set_grad({});
        // Differentiated twice, as if it had been cast.
        const auto twice = [&](const std::function<Tensor()>& f) {
          const Tensor g = grad(f(), {x}, {.create_graph = true})[0];
          return grad(sum(cast(g, f32) * cast(g, f32)), {x})[0];
        };
        const Tensor second = twice([&] {
          return amp::autocast(half, [&] { return cross_entropy(x, labels, options, weight); });
        });
        CHECK(same(second, twice([&] { return cross_entropy(x.to(f32), labels, options, weight); })));
      }
    }
  }
}

TEST_CASE("gradients of elementwise operators and softmax are written over the gradient before them") {
  for (Device d : devices()) {
    INFO((d.is_cpu() ? "the cpu" : "cuda"));
    Tensor x = leaf_of({rows, classes}, d);
    const auto check_peak = [&](const char* what, const std::function<Tensor(const Tensor&)>& f) {
      INFO(what);
      x.set_grad({});
      const Tensor start = leaf_of({rows, classes}, d, f32, 2).detach(), before = on_host(start).clone();
      Tensor y = f(x * 2.0);
      std::int64_t peak = peak_of(d, [&] { y.backward(start); });
      CHECK(peak <= wide + slack);  // x's gradient; the first of the others reuses saved memory
      CHECK(same(start, before));
    };
    check_peak("gelu", [](const Tensor& h) { return gelu(gelu(relu(tanh(h)))); });
    check_peak("softmax", [](const Tensor& h) { return gelu(softmax(log_softmax(relu(h), 1), 1)); });
    check_peak("dropout", [](const Tensor& h) { return gelu(dropout(dropout(gelu(h), 0.25), 0.25)); });
  }
}

TEST_CASE("gradients that hooks, the user or other nodes hold are not written over") {
  for (Device d : devices()) {
    Tensor x = leaf_of({rows, classes}, d);
    Tensor kept, copy;
    const auto run_once = [&](bool hook) {
      x.set_grad({});
      Tensor h = x * 2.0, middle = gelu(h);
      if (hook) {
        middle.on_grad([&](const Tensor& g) {
          kept = g;
          copy = on_host(g).clone();
        });
      }
      Tensor y = relu(middle) + softmax(middle, 1) + tanh(h);
      h = middle = {};
      y.backward(ones({rows, classes}, {.device = d}));
      return x.grad();
    };
    const Tensor plain = run_once(false);
    CHECK(same(run_once(true), plain));
    CHECK(same(kept, copy));
    // grad() of something in the middle.
    Tensor h = x * 2.0;
    const Tensors g = grad(Tensors{sum(gelu(tanh(h)))}, Tensors{h, x});
    CHECK(same(g[1], g[0] * 2.0));
    // A checkpoint recomputes what was overwritten.
    const auto block = [](const Tensors& in) { return gelu(tanh(gelu(in[0]))); };
    x.set_grad({});
    sum(block({x * 2.0})).backward();
    const Tensor direct = x.grad();
    x.set_grad({});
    sum(checkpoint(block, {x * 2.0})).backward();
    CHECK(same(x.grad(), direct));
    // Anomaly mode sees the same values.
    x.set_grad({});
    const AnomalyMode watching;
    sum(block({x * 2.0})).backward();
    CHECK(same(x.grad(), direct));
  }
}
