// Every registered operator on the CUDA device compared with the CPU: results and gradients, in every floating dtype.
// Operators without a kernel are listed and counted. Compiled twice: with kernels running on the CPU
// (cuda_registry_test) and, in a build with CUDA, on a GPU (gpu_registry_test).
#include <cstdio>
#include <map>
#include <set>

#include "core/accelerator.h"
#include "tests/op_testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

Tensors on(Device device, const Tensors& x) {
  Tensors y;
  for (const Tensor& t : x) {
    const bool wanted = t.defined() && t.requires_grad();
    y.push_back(!t.defined() || t.is_weak_scalar() ? t : t.detach().to(device));
    if (wanted) y.back().requires_grad_();
  }
  return y;
}

// Misaligned copies: the same elements at offset 1 of their storage, images channels-last, so that no vector of several
// elements is aligned.
Tensors one_place_on(const Tensors& x) {
  Tensors y;
  for (const Tensor& t : x) {
    if (!t.defined() || t.is_weak_scalar() || t.numel() == 0) {
      y.push_back(t);
      continue;
    }
    const Tensor line = slice(zeros({t.numel() + 1}, {.dtype = t.dtype(), .device = t.device()}), 0, 1);
    Tensor view = t.dim() != 4 ? reshape(line, t.sizes())
                               : permute(reshape(line, {t.size(0), t.size(2), t.size(3), t.size(1)}), {0, 3, 1, 2});
    view.copy_(t.detach());
    if (t.requires_grad()) view.requires_grad_();
    y.push_back(view);
  }
  return y;
}

// Calls f(op, sample); operators that report a missing kernel are collected with the reason.
std::map<std::string, std::string> missing;
template <class F> void for_each_cuda_sample(F&& f) {
  if (!cuda_is_available()) {
    WARN("no GPU: nothing was tested");
    return;
  }
  MANTISSA_PRINT_SEED();
  for (const OpInfo& op : registry()) {
    if (!selected(op)) continue;
    Samples samples(seed());
    op.samples(samples);
    for (std::size_t i = 0; i < samples.all.size() && !missing.contains(op.name); ++i) {
      INFO(op.name << ", sample " << i << ": " << describe_all(samples.all[i].inputs));
      try {
        f(op, samples.all[i]);
      } catch (const std::exception& e) {
        if (std::string_view(e.what()).find("no cuda kernel") != std::string_view::npos) missing[op.name] = e.what();
        else FAIL_CHECK("threw: " << e.what());
      }
    }
  }
}

bool runs_in(const OpInfo& op, Dtype dtype) { return op.halves || !is_half(dtype); }

// The device's results from inputs in `dtype`, compared with f64 on the CPU from the same rounded inputs. late: the
// inputs begin at offset 1 of their storage.
void check_results(const OpInfo& op, const Sample& s, Dtype dtype, double length, bool late = false) {
  const Tensors x = prepared(s, dtype), exact = in_f64(x);
  const Tensors y = run(op, s, late ? one_place_on(on(cuda, x)) : on(cuda, x)), expected = run(op, s, exact);
  REQUIRE(y.size() == expected.size());
  for (std::size_t k = 0; k < y.size(); ++k) {
    if (!y[k].defined() || !y[k].is_floating()) {
      if (!s.exact_only)
        CHECK(
            same_bits(y[k].defined() ? y[k].to(cpu) : y[k], expected[k].defined() ? expected[k].to(cpu) : expected[k]));
      continue;
    }
    INFO("result " << k << " in " << name_of(dtype));
    const Nan nan = s.extreme ? Nan::equal : Nan::differs;
    CHECK(difference(y[k], expected[k], tolerance_for(y[k].dtype(), length, scale_of(exact)), nan) == "");
  }
}

// late: gradients of results also begin at offset 1 of their storage.
Tensors gradients_of(const OpInfo& op, const Sample& s, const Tensors& x, bool late = false) {
  const Tensors y = run(op, s, x);
  Tensors roots, v;
  for (std::size_t k = 0; k < y.size(); ++k) {
    if (!y[k].requires_grad()) continue;
    roots.push_back(y[k]);
    v.push_back(cast(random_tensor(y[k].sizes(), 77 + k), y[k].dtype()).to(y[k].device()));
  }
  if (late) v = one_place_on(v);
  return grad(roots, leaves(x), v, {.allow_unused = true});
}

}  // namespace

TEST_CASE("every operator computes on cuda what it computes on the cpu") {
  std::set<std::string> ran;
  for_each_cuda_sample([&](const OpInfo& op, const Sample& s) {
    const double length = sum_length(op, s);
    for (Dtype dtype : {f64, f32, f16, bf16}) {
      if (runs_in(op, dtype)) check_results(op, s, dtype, length);
    }
    ran.insert(op.name);
  });
  std::string names;
  for (const auto& [name, reason] : missing) ran.erase(name), names += " " + name;
  const auto asked = std::count_if(registry().begin(), registry().end(), selected);
  std::printf("operators on cuda: %zu of %td; without a kernel: %zu:%s\n", ran.size(), asked, missing.size(),
              names.c_str());
  CHECK(missing.empty());
}

TEST_CASE("gradients on cuda are those of f64 on the cpu") {
  for_each_cuda_sample([](const OpInfo& op, const Sample& s) {
    if (!can_differentiate(op, s)) return;
    for (Dtype dtype : {f64, f32, f16, bf16}) {
      if (!runs_in(op, dtype)) continue;
      const double bound = dtype == f64 ? 1e-9 : dtype == f32 ? 2e-3 : dtype == f16 ? 1e-2 : 1e-1;
      const Tensors x = wanting_gradients(op, prepared(s, dtype)), exact = wanting_gradients(op, in_f64(x));
      const Tensors g = gradients_of(op, s, on(cuda, x)), expected = gradients_of(op, s, exact);
      REQUIRE(g.size() == expected.size());
      for (std::size_t k = 0; k < g.size(); ++k) {
        INFO("gradient " << k << " in " << name_of(dtype));
        REQUIRE(g[k].defined() == expected[k].defined());
        if (!g[k].defined()) continue;
        CHECK(g[k].dtype() == dtype);
        CHECK(g[k].device() == cuda);
        CHECK(difference(g[k], expected[k], {bound, bound}) == "");
      }
    }
  });
}

TEST_CASE("tensors that begin one element into their storage") {
  for_each_cuda_sample([](const OpInfo& op, const Sample& s) {
    if (op.mutates) return;
    for (const Dtype dtype : {f32, f64}) check_results(op, s, dtype, sum_length(op, s), true);
    if (!can_differentiate(op, s)) return;
    for (const Dtype dtype : {op.halves ? f16 : f32, f64}) {
      const double bound = dtype == f64 ? 1e-9 : dtype == f32 ? 2e-3 : 1e-2;
      const Tensors x = wanting_gradients(op, prepared(s, dtype)), exact = wanting_gradients(op, in_f64(x));
      const Tensors g = gradients_of(op, s, one_place_on(on(cuda, x)), true), expected = gradients_of(op, s, exact);
      REQUIRE(g.size() == expected.size());
      for (std::size_t k = 0; k < g.size(); ++k) {
        INFO("gradient " << k << " in " << name_of(dtype));
        if (g[k].defined()) CHECK(difference(g[k], expected[k], {bound, bound}) == "");
      }
    }
  });
  if (!cuda_is_available()) return;
  // Sizes that kernels process in packs of eight.
  for (Dtype dtype : {f32, f16, bf16}) {
    INFO(name_of(dtype));
    const Tolerance bound = dtype == f32   ? Tolerance{1e-5, 1e-5}
                            : dtype == f16 ? Tolerance{4e-3, 4e-3}
                                           : Tolerance{3e-2, 3e-2};
    const auto rows = [&](int seed) { return cast(random_tensor({6, 64}, seed), dtype); };
    const auto image = [&](int seed) { return cast(random_tensor({2, 16, 6, 6}, seed), dtype); };
    const auto check_same = [&](const char* what, const Tensors& x, auto&& f) {
      INFO(what);
      CHECK(difference(f(one_place_on(on(cuda, x))), f(in_f64(x)), bound) == "");
    };
    check_same("add", {rows(1), rows(2)}, [](const Tensors& x) { return x[0] + x[1]; });
    check_same("add_", {rows(1), rows(2)}, [](const Tensors& x) { return Tensor(x[0]).add_(x[1], 0.5); });
    check_same("cast", {rows(1)}, [](const Tensors& x) { return cast(x[0], f32); });
    check_same("transpose", {rows(1)}, [](const Tensors& x) { return transpose(x[0], 0, 1).contiguous(); });
    check_same("sum", {rows(1)}, [](const Tensors& x) { return sum(x[0], {1}); });
    check_same("softmax", {rows(1)}, [](const Tensors& x) { return softmax(x[0], 1); });
    check_same("layer_norm", {rows(1), rows(2)},
               [](const Tensors& x) { return layer_norm(x[0], {64}, select(x[1], 0, 0)); });
    check_same("matmul", {rows(1), rows(2)},
               [](const Tensors& x) { return matmul(x[0], transpose(x[1], 0, 1)) * 0.125; });
    check_same("rotary_embedding", {rows(1)}, [](const Tensors& x) { return rotary_embedding(x[0]); });
    check_same("max_pool2d", {image(1)}, [](const Tensors& x) { return max_pool2d(x[0], 2); });
    check_same("avg_pool2d", {image(1)}, [](const Tensors& x) { return avg_pool2d(x[0], 2); });
    check_same("relu", {image(1)}, [](const Tensors& x) { return relu(x[0]); });
    check_same("embedding", {rows(1)}, [](const Tensors& x) {
      return embedding(x[0], from_data<std::int64_t>(std::vector<std::int64_t>{5, 0, 5}, {3}).to(x[0].device()));
    });
  }
}

TEST_CASE("repeating an operator on cuda gives the same bits") {
  for_each_cuda_sample([](const OpInfo& op, const Sample& s) {
    if (op.mutates) return;
    const Tensors x = on(cuda, prepared(s, f32)), a = run(op, s, x), b = run(op, s, x);
    for (std::size_t k = 0; k < a.size(); ++k) {
      if (a[k].defined()) CHECK(same_bits(a[k].to(cpu), b[k].to(cpu)));
    }
  });
}

TEST_CASE("bad inputs are refused on cuda as on the cpu, at the latest when the host waits") {
  if (!cuda_is_available()) return;
  for (const OpInfo& op : registry()) {
    if (!selected(op) || missing.contains(op.name)) continue;
    Samples samples(seed());
    op.samples(samples);
    for (const ErrorSample& s : samples.errors) {
      INFO(op.name << ": " << describe_all(s.inputs));
      const Tensors x = on(cuda, s.inputs);
      const std::string message = message_of([&] {
        s.call(x);
        synchronize(cuda);
      });
      if (message.find("no cuda kernel") != std::string::npos) continue;
      CHECK_THAT(message, Catch::Matchers::Contains(s.fragment));
    }
  }
}
