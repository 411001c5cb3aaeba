// Gradients of query, key and value that are slices of one tensor: attention writes them directly into that tensor's
// gradient (gradients_in_place in autograd/part.h), bitwise equal to gradients written separately and copied there,
// whatever else uses, hooks or replaces them. On the CPU and on a GPU (or the shim).
#include <functional>

#include "core/accelerator.h"
#include "cuda/launches.h"
#include "mantissa.h"
#include "tests/catch_compat.h"
#include "tests/devices.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

constexpr std::int64_t batch = 2, length = 6, heads = 4, width = 8, channels = heads * width;
using Parts = std::vector<Tensor>;

Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v) {
  return scaled_dot_product_attention(q, k, v, {}, {.is_causal = true, .enable_gqa = q.size(1) != k.size(1)});
}
Tensor by_head(const Tensor& x) { return x.reshape({batch, length, -1, width}).transpose(1, 2); }
Parts cut(const Tensor& all, std::int64_t kv_heads = heads) {
  const std::int64_t kv = kv_heads * width;
  return {narrow(all, 2, 0, channels), narrow(all, 2, channels, kv), narrow(all, 2, channels + kv, kv)};
}

// A computation from a packed tensor [batch, length, columns]. `apart`: attention reads copies, so its gradients are
// written separately.
struct Case {
  const char* name;
  std::int64_t columns;
  std::function<Parts(const Tensor& all, const std::function<Tensor(const Tensor&)>& apart)> run;
};
const Case cases[] = {
    {"three parts", 3 * channels,
     [](const Tensor& all, const auto& apart) {
       const Parts p = cut(all);
       return Parts{attend(apart(by_head(p[0])), apart(by_head(p[1])), apart(by_head(p[2])))};
     }},
    {"fewer heads of key and value", channels + 2 * width * 2,
     [](const Tensor& all, const auto& apart) {
       const Parts p = cut(all, 2);
       return Parts{attend(apart(by_head(p[0])), apart(by_head(p[1])), apart(by_head(p[2])))};
     }},
    {"packed by head", 3 * channels,
     [](const Tensor& all, const auto& apart) {
       const Tensor x = all.reshape({batch, length, heads, 3 * width});
       const auto part = [&](int i) { return apart(narrow(x, 3, i * width, width).transpose(1, 2)); };
       return Parts{attend(part(0), part(1), part(2))};
     }},
    {"key and value, and a query of their own", 2 * channels,
     [](const Tensor& all, const auto& apart) {
       const Tensor q = by_head(narrow(all, 2, 0, channels) * 2.0);
       return Parts{attend(apart(q), apart(by_head(narrow(all, 2, 0, channels))),
                           apart(by_head(narrow(all, 2, channels, channels))))};
     }},
    {"query and key turned", 3 * channels,
     [](const Tensor& all, const auto& apart) {
       const Parts p = cut(all);
       return Parts{attend(rotary_embedding(by_head(p[0])), rotary_embedding(by_head(p[1])), apart(by_head(p[2])))};
     }},
    {"query turned after the cut that attention reads, too", 3 * channels,
     [](const Tensor& all, const auto& apart) {
       const Parts p = cut(all);
       const Tensor q = apart(by_head(p[0]));
       return Parts{attend(q, apart(by_head(p[1])), apart(by_head(p[2]))), rotary_embedding(q)};
     }},
    {"a part cut again", 3 * channels,
     [](const Tensor& all, const auto& apart) {
       const Parts p = cut(all);
       const Tensor y = attend(apart(by_head(p[0])), apart(by_head(p[1])), apart(by_head(p[2])));
       return Parts{y, narrow(all, 2, channels, channels) * 2.0, narrow(all, 2, 3, 7) * 3.0};
     }},
    {"a part cut before, whose gradient comes last", 3 * channels,
     [](const Tensor& all, const auto& apart) {
       const Tensor before = narrow(all, 2, channels, channels);
       const Parts p = cut(all);
       return Parts{before * 2.0, attend(apart(by_head(p[0])), apart(by_head(p[1])), apart(by_head(p[2])))};
     }},
    {"all of it used, too", 3 * channels,
     [](const Tensor& all, const auto& apart) {
       const Tensor early = all * 2.0;
       const Parts p = cut(all);
       const Tensor y = attend(apart(by_head(p[0])), apart(by_head(p[1])), apart(by_head(p[2])));
       return Parts{y, early, all * 3.0};
     }},
    {"no gradient for the value", 3 * channels,
     [](const Tensor& all, const auto& apart) {
       const Parts p = cut(all);
       return Parts{attend(apart(by_head(p[0])), apart(by_head(p[1])), by_head(p[2].detach()))};
     }},
    {"attended to twice", 3 * channels,
     [](const Tensor& all, const auto& apart) {
       const Parts p = cut(all);
       const Tensor q = apart(by_head(p[0])), k = apart(by_head(p[1])), v = apart(by_head(p[2]));
       return Parts{attend(q, k, v), attend(k, v, q)};
     }},
};

struct Found { Tensor gradient, again; };
// hook: 0 none, 1 keeps the gradient it sees, 2 replaces it.
Found gradients(const Case& c, Device device, Dtype dtype, bool apart, int hook) {
  manual_seed(7);
  const Tensor x = randn({batch, length, c.columns}).to(dtype).to(device).requires_grad_(), all = x * 1.0;
  Tensor kept, copy;
  const auto used = [&](const Tensor& t) {
    if (hook > 0 && !kept.defined()) {
      t.on_grad([&](const Tensor& g) {
        kept = g, copy = g.clone();
        return hook == 2 ? g * 2.0 : Tensor();
      });
    }
    return apart ? t.contiguous() * 1.0 : t;
  };
  const Parts results = c.run(all, used);
  Parts weights;
  for (const Tensor& r : results) weights.push_back(randn(r.sizes()).to(dtype).to(device));
  backward(results, weights, {.retain_graph = true});
  const Tensor first = x.grad().detach().clone();
  if (kept.defined()) CHECK(same_bits(kept.to(cpu), copy.to(cpu)));  // it has not been overwritten
  backward(results, weights);
  return {first, x.grad()};
}

}  // namespace

TEST_CASE("gradients in their places have the bits of gradients that are copied there") {
  for (const Device device : devices()) {
    for (const Dtype dtype : {f32, bf16, f16}) {
      for (const Case& c : cases) {
        for (const int hook : {0, 1, 2}) {
          INFO(c.name << " " << name_of(dtype) << " hook " << hook << (device.is_cpu() ? " cpu" : " cuda"));
          const Found in_place = gradients(c, device, dtype, false, hook);
          const Found copied = gradients(c, device, dtype, true, hook);
          CHECK(same_bits(in_place.gradient.to(cpu), copied.gradient.to(cpu)));
          CHECK(same_bits(in_place.again.to(cpu), copied.again.to(cpu)));
        }
      }
    }
  }
}

TEST_CASE("gradients asked for by grad() of what was cut, and a second derivative") {
  for (const Device device : devices()) {
    manual_seed(8);
    const Tensor x = randn({batch, length, 3 * channels}).to(device).requires_grad_();
    const auto run = [&](bool apart, bool recorded) {
      const Parts p = cut(x * 1.0);
      const auto used = [&](const Tensor& t) { return apart ? by_head(t).contiguous() * 1.0 : by_head(t); };
      const Tensor y = attend(used(p[0]), used(p[1]), used(p[2]));
      if (!recorded) return grad(sum(y * y), {p[1], x, p[2]});
      const Tensor g = grad(sum(y * y), {x}, {.create_graph = true})[0];
      return grad(sum(g * g), {x});
    };
    for (const bool recorded : {false, true}) {
      const Parts a = run(false, recorded), b = run(true, recorded);
      REQUIRE(a.size() == b.size());
      for (std::size_t i = 0; i < a.size(); ++i)
        CHECK((recorded ? difference(a[i], b[i], {1e-4, 1e-4}) == "" : same_bits(a[i].to(cpu), b[i].to(cpu))));
    }
  }
}

TEST_CASE("on a GPU the gradients of a packed projection are not copied") {
  if (!cuda_is_available()) {
    WARN("no GPU and no shim: nothing was tested");
    return;
  }
  const auto copies = [](const Case& c) {
    const Tensor x = randn({batch, length, c.columns}).to(bf16).to(cuda).requires_grad_(), all = x * 1.0;
    const Parts y = c.run(all, [](const Tensor& t) { return t; });
    const Tensor g = randn(y[0].sizes()).to(bf16).to(cuda);
    cuda_backend::LaunchCounter counter;
    y[0].backward(g);
    return counter.launches["copy"];
  };
  for (const Case& c : cases) {
    const std::string_view name = c.name;
    const bool packed = name == "three parts" || name == "fewer heads of key and value" || name == "packed by head";
    if (packed) CHECK(copies(c) == 0);
    if (name == "query and key turned") CHECK(copies(c) == 3);  // attention reads copies
  }
}
