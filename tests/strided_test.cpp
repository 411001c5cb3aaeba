// Every registered operator gives the same bits for strided inputs as for contiguous copies of them: results and
// gradients, in every floating dtype, on every instruction set, with all inputs strided or only one of them. Allowed
// differences, and their reasons, are in `exceptions`. Read next: tests/op_behaviour_test.cpp.
#include <algorithm>
#include <set>

#include "core/cpu/isa.h"
#include "core/parallel.h"
#include "tests/op_testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

// A layout for the same values. `strides` refer to a buffer of `elements`, in which x begins at `offset`.
Tensor laid_out(const Tensor& x, std::int64_t elements, const Dims& strides, std::int64_t offset) {
  const Dims flat{elements};
  return zeros(flat, {.dtype = x.dtype()}).as_strided(x.sizes(), strides, offset).copy_(x.detach());
}
// Dimension order[0] changes slowest in memory.
Tensor permuted(const Tensor& x, const std::vector<int>& order) {
  Dims strides = x.strides();
  std::int64_t step = 1;
  for (std::size_t i = order.size(); i-- > 0; step *= std::max<std::int64_t>(1, x.size(order[i])))
    strides[order[i]] = step;
  return laid_out(x, step, strides, 0);
}
Tensor transposed(const Tensor& x) {
  std::vector<int> order;
  for (int d = x.dim(); d-- > 0;) order.push_back(d);
  return permuted(x, order);
}
Tensor last_two_turned(const Tensor& x) {
  std::vector<int> order;
  for (int d = 0; d < x.dim(); ++d) order.push_back(d);
  if (x.dim() > 1) std::swap(order[order.size() - 1], order[order.size() - 2]);
  return permuted(x, order);
}
Tensor channels_second(const Tensor& x) {  // dimension 1 changes fastest: channels-last images, [B, T, D] as [B, D, T]
  std::vector<int> order;
  for (int d = 0; d < x.dim(); ++d) if (d != 1) order.push_back(d);
  if (x.dim() > 1) order.push_back(1);
  return permuted(x, order);
}
Tensor every_second(const Tensor& x) {
  Dims strides = contiguous_strides(x.sizes());
  for (std::int64_t& s : strides) s *= 2;
  return laid_out(x, 2 * x.numel() + 3, strides, 2);
}
Tensor offset(const Tensor& x) { return laid_out(x, x.numel() + 1, contiguous_strides(x.sizes()), 1); }
Tensor stepped(const Tensor& x) {  // rows as they are, each followed by a gap of 5
  Dims strides = contiguous_strides(x.sizes());
  std::int64_t step = x.dim() ? x.size(-1) + 5 : 1;
  for (int d = x.dim() - 2; d >= 0; step *= x.size(d--)) strides[d] = step;
  return x.numel() == 0 ? x.clone() : laid_out(x, step, strides, 0);
}
// Index 0 of dimension d (of all, if d < 0) expanded with stride 0.
Tensor expanded(const Tensor& x, int d) {
  Dims strides = x.strides();
  for (int i = 0; i < x.dim(); ++i) if (d < 0 || i == d % std::max(1, x.dim())) strides[i] = 0;
  return x.as_strided(x.sizes(), strides);
}
struct Layout { const char* name; Tensor (*of)(const Tensor&); };
constexpr Layout layouts[] = {{"transposed", transposed},
                              {"last two turned", last_two_turned},
                              {"channels second", channels_second},
                              {"every second", every_second},
                              {"offset", offset},
                              {"stepped", stepped}};

// --- operators that may differ in the last bits, and why: compared within the dtype's tolerance ---
struct Exception {
  const char* reason;
  std::set<Dtype> dtypes;
  std::set<std::string_view> layouts, operators;
};
const Exception exceptions[] = {
    {"Channels-last images: statistics of channels are summed in the order of memory (core/cpu/channel_statistics.h).",
     {f64, f32, f16, bf16},
     {"channels second"},
     {"batch_norm", "batch_norm_backward", "batch_norm_relu", "batch_norm_relu_backward", "group_norm",
      "group_norm_backward", "instance_norm"}},
    {"Channels-last images: sums over all of a channel, as of a bias's gradient, are taken in the order of memory "
     "(core/cpu/reduce.cpp).",
     {f64, f32, f16, bf16},
     {"channels second", "last two turned"},
     {"sum", "mean", "var", "conv1d", "conv2d", "conv2d_relu", "conv_transpose1d", "conv_transpose2d"}},
    {"Channels-last images: averages over all pixels are taken pixel by pixel, of planes by runs (core/cpu/pool.cpp).",
     {f64, f32, f16, bf16},
     {"channels second", "last two turned"},
     {"adaptive_avg_pool2d", "adaptive_avg_pool2d_backward"}},
    {"Products of f32 read transposed operands as they lie, and oneDNN blocks the two ways differently "
     "(core/gemm_pieces.cpp).",
     {f32},
     {"transposed", "last two turned", "channels second"},
     {"matmul", "linear", "linear_act", "linear_cross_entropy", "einsum", "inner", "bmm", "mv", "addmm",
      "baddbmm", "tensordot", "bilinear", "cdist", "affine_grid", "scaled_dot_product_attention"}},
    {"Products of few rows read a weight that lies on its side by rows, and pack another one (core/gemm_few_rows.cpp).",
     {f32, f16, bf16},
     {"transposed", "last two turned"},
     {"linear"}},
};
bool excepted(const OpInfo& op, Dtype dtype, const char* layout) {
  for (const Exception& e : exceptions) {
    if (e.dtypes.contains(dtype) && e.layouts.contains(layout) && e.operators.contains(op.name)) return true;
  }
  return false;
}
Tolerance tolerance_of_gradients(Dtype dtype) {  // as in tests/op_test.cpp
  const double bound = dtype == f64 ? 1e-9 : dtype == f32 ? 2e-3 : dtype == f16 ? 1e-2 : 1e-1;
  return {bound, bound};
}

Tensors copies(const Tensors& x) {
  Tensors y;
  for (const Tensor& t : x) y.push_back(t.defined() ? t.detach().clone() : t);
  return y;
}
// Whether strides allow the view: reshape() copies where its operator refuses.
bool runs(const OpInfo& op, const Sample& s, const Tensors& x) {
  return !op.is_view || message_of([&] { run(op, s, x); }).find("do not allow a view") == std::string::npos;
}

struct Outcome { Tensors results, gradients; };
// `turn`: the layout of the incoming gradients.
Outcome outcome(const OpInfo& op, const Sample& s, const Tensors& inputs, bool backward,
                Tensor (*turn)(const Tensor&) = nullptr) {
  Outcome o;
  const Tensors x = backward ? wanting_gradients(op, inputs, false) : inputs;
  o.results = run(op, s, x);
  Tensors roots, v;
  for (std::size_t k = 0; backward && k < o.results.size(); ++k) {
    if (!o.results[k].requires_grad()) continue;
    roots.push_back(o.results[k]);
    const Tensor g = cast(random_tensor(roots.back().sizes(), 77 + k), roots.back().dtype());
    v.push_back(turn ? turn(g) : g);
  }
  if (!roots.empty()) o.gradients = grad(roots, leaves(x), v, {.allow_unused = true});
  if (op.mutates) o.results.insert(o.results.end(), x.begin(), x.end());
  return o;
}
void check_same(const Tensors& a, const Tensors& b, const char* what, const std::optional<Tolerance>& allowed) {
  REQUIRE(a.size() == b.size());
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (same_bits(a[k], b[k]) || (allowed && difference(a[k], b[k], *allowed).empty())) continue;
    FAIL_CHECK(what << " " << k << ": " << difference(a[k], b[k], allowed.value_or(Tolerance{0, 0})));
  }
}

// thorough: also every input alone, and every dtype.
void check_layouts(const OpInfo& op, const Sample& s, Dtype dtype, bool thorough) {
  const bool backward = can_differentiate(op, s);
  const Tensors x = prepared(s, dtype);
  const Outcome plain = outcome(op, s, copies(x), backward);
  const int inputs = thorough && x.size() > 1 ? static_cast<int>(x.size()) : 0;
  const auto named = [&](int which) { return which < 0 ? std::string("all inputs") : concat("input ", which); };
  const auto check_inputs = [&](const Tensors& y, const Outcome& expected, const char* layout) {
    if (!runs(op, s, y)) return;
    const Outcome o = outcome(op, s, y, backward);
    std::optional<Tolerance> allowed, allowed_gradient;
    if (excepted(op, dtype, layout)) {
      allowed = tolerance_for(dtype, sum_length(op, s), scale_of(x));
      allowed_gradient = tolerance_of_gradients(dtype);
    }
    check_same(o.results, expected.results, "result", allowed);
    check_same(o.gradients, expected.gradients, "gradient", allowed_gradient);
  };
  for (const Layout& layout : layouts) {
    for (int which = -1; which < inputs; ++which) {
      INFO(name_of(dtype) << ", " << layout.name << ", " << named(which));
      Tensors y = copies(x);
      bool any = false;
      for (int i = 0; i < static_cast<int>(y.size()); ++i) {
        if ((which < 0 || i == which) && y[i].defined()) y[i] = layout.of(y[i]), any = true;
      }
      if (any) check_inputs(y, plain, layout.name);
    }
    if (!backward || plain.gradients.empty()) continue;
    INFO(name_of(dtype) << ", incoming gradients " << layout.name);
    std::optional<Tolerance> allowed;
    if (excepted(op, dtype, layout.name)) allowed = tolerance_of_gradients(dtype);
    check_same(outcome(op, s, copies(x), backward, layout.of).gradients, plain.gradients, "gradient", allowed);
  }
  if (op.mutates) return;
  for (const Tensor& t : x) if (t.defined() && t.numel() == 0) return;
  for (int d = -1; d < 3; ++d) {
    for (int which = -1; which < inputs; ++which) {
      INFO(name_of(dtype) << ", dimension " << d << " expanded, " << named(which));
      Tensors y = copies(x);
      for (int i = 0; i < static_cast<int>(y.size()); ++i) {
        if ((which < 0 || i == which) && y[i].defined()) y[i] = expanded(y[i], d);
      }
      Outcome expected;
      try {
        expected = outcome(op, s, copies(y), backward);
      } catch (const Error&) {  // some operators refuse equal values (a singular matrix)
        CHECK_THROWS_AS(outcome(op, s, y, backward), Error);
        continue;
      }
      check_inputs(y, expected, "expanded");
    }
  }
}

void check_dtypes(const OpInfo& op, const Sample& s, bool thorough) {
  for (Dtype dtype : {f64, f32, f16, bf16}) {
    if ((thorough || dtype == f32 || dtype == f16) && (op.halves || !is_half(dtype)))
      check_layouts(op, s, dtype, thorough);
  }
}

// Sizes beyond the small samples: whole vectors and tiles with remainders, several blocks, products worth packing.
struct Larger { const char* name; std::vector<Dims> inputs; Tensor (*call)(const Tensors&); };
const Larger larger[] = {
    {"exp", {{3, 67, 35}}, [](const Tensors& x) { return exp(x[0]); }},
    {"gelu", {{3, 67, 35}}, [](const Tensors& x) { return gelu(x[0]); }},
    {"add", {{67, 35}, {35}}, [](const Tensors& x) { return x[0] + x[1]; }},
    {"mul", {{5, 67, 35}, {67, 1}}, [](const Tensors& x) { return x[0] * x[1]; }},
    {"addcdiv", {{37, 130}, {37, 130}, {37, 130}}, [](const Tensors& x) { return addcdiv(x[0], x[1], x[2], 0.3); }},
    {"addcmul", {{37, 130}, {130}, {37, 1}}, [](const Tensors& x) { return addcmul(x[0], x[1], x[2], 0.3); }},
    {"lerp", {{37, 130}, {37, 130}, {37, 130}}, [](const Tensors& x) { return lerp(x[0], x[1], x[2]); }},
    {"pow", {{37, 130}, {130}}, [](const Tensors& x) { return pow(abs(x[0]), x[1]); }},
    {"sum",
     {{3, 70, 130}},
     [](const Tensors& x) {
       return sum(x[0], {0, 1});
     }},
    {"sum", {{3, 70, 530}}, [](const Tensors& x) { return sum(x[0], {2}); }},
    {"mean",
     {{3, 37, 9, 67}},
     [](const Tensors& x) {
       return mean(x[0], {0, 2, 3});
     }},
    {"mean", {{3, 37, 9, 67}}, [](const Tensors& x) { return mean(x[0], {1}); }},
    {"var",
     {{3, 37, 9, 67}},
     [](const Tensors& x) {
       return var(x[0], {2, 3});
     }},
    {"var", {{3, 70, 131}}, [](const Tensors& x) { return var(x[0], {1}); }},
    {"norm", {{70, 131}}, [](const Tensors& x) { return norm(x[0], 3, {0}); }},
    {"logsumexp", {{70, 131}}, [](const Tensors& x) { return logsumexp(x[0], {0}); }},
    {"logsumexp",
     {{3, 70, 131}},
     [](const Tensors& x) {
       return logsumexp(x[0], {0, 2});
     }},
    {"cumsum", {{70, 131}}, [](const Tensors& x) { return cumsum(x[0], 0); }},
    {"cumprod", {{3, 131}}, [](const Tensors& x) { return cumprod(x[0], 1); }},
    {"softmax", {{3, 70, 131}}, [](const Tensors& x) { return softmax(x[0], 1); }},
    {"softmax", {{3, 70, 131}}, [](const Tensors& x) { return softmax(x[0], 2); }},
    {"log_softmax", {{2, 37, 9, 7}}, [](const Tensors& x) { return log_softmax(x[0], 1); }},
    {"layer_norm", {{3, 40, 131}, {131}, {131}}, [](const Tensors& x) { return layer_norm(x[0], {131}, x[1], x[2]); }},
    {"rms_norm", {{3, 40, 131}, {131}}, [](const Tensors& x) { return rms_norm(x[0], {131}, x[1]); }},
    {"cosine_similarity", {{3, 67, 35}, {3, 67, 35}}, [](const Tensors& x) { return cosine_similarity(x[0], x[1]); }},
    {"pairwise_distance", {{30, 67}, {30, 67}}, [](const Tensors& x) { return pairwise_distance(x[0], x[1]); }},
    {"cdist", {{30, 19}, {20, 19}}, [](const Tensors& x) { return cdist(x[0], x[1], 1.5); }},
    {"mse_loss", {{37, 130}, {37, 130}}, [](const Tensors& x) { return mse_loss(x[0], x[1]); }},
    {"matmul", {{3, 20, 70}, {70, 50}}, [](const Tensors& x) { return matmul(x[0], x[1]); }},
    {"matmul", {{3, 20, 70}, {3, 70, 50}}, [](const Tensors& x) { return matmul(x[0], x[1]); }},
    {"linear", {{6, 130}, {70, 130}, {70}}, [](const Tensors& x) { return linear(x[0], x[1], x[2]); }},
    {"linear", {{3, 50, 130}, {70, 130}, {70}}, [](const Tensors& x) { return linear(x[0], x[1], x[2]); }},
    {"inner", {{20, 130}, {30, 130}}, [](const Tensors& x) { return inner(x[0], x[1]); }},
    {"bilinear", {{20, 13}, {20, 17}, {11, 13, 17}}, [](const Tensors& x) { return bilinear(x[0], x[1], x[2]); }},
    {"affine_grid",
     {{3, 2, 3}},
     [](const Tensors& x) {
       return affine_grid(x[0], {3, 2, 19, 23});
     }},
    {"scaled_dot_product_attention",
     {{2, 3, 40, 16}, {2, 3, 40, 16}, {2, 3, 40, 16}},
     [](const Tensors& x) { return scaled_dot_product_attention(x[0], x[1], x[2], {}, {.is_causal = true}); }},
    {"conv1d", {{3, 19, 67}, {12, 19, 5}, {12}}, [](const Tensors& x) { return conv1d(x[0], x[1], x[2]); }},
    {"conv2d",
     {{2, 19, 17, 15}, {12, 19, 3, 3}, {12}},
     [](const Tensors& x) {
       return conv2d(x[0], x[1], x[2], {.padding = {1, 1}});
     }},
    {"conv2d", {{2, 32, 16, 16}, {32, 32, 1, 1}}, [](const Tensors& x) { return conv2d(x[0], x[1]); }},
    {"conv2d",
     {{2, 32, 16, 16}, {32, 1, 3, 3}},
     [](const Tensors& x) { return conv2d(x[0], x[1], {}, {.groups = 32}); }},
    {"conv3d", {{2, 5, 7, 9, 8}, {6, 5, 3, 3, 3}, {6}}, [](const Tensors& x) { return conv3d(x[0], x[1], x[2]); }},
    {"conv_transpose2d",
     {{2, 19, 9, 7}, {19, 12, 3, 3}, {12}},
     [](const Tensors& x) { return conv_transpose2d(x[0], x[1], x[2]); }},
    {"max_pool2d",
     {{2, 37, 17, 15}},
     [](const Tensors& x) {
       return max_pool2d(x[0], {3, 3}, {.stride = {2, 2}, .padding = {1, 1}});
     }},
    {"avg_pool2d",
     {{2, 37, 17, 15}},
     [](const Tensors& x) {
       return avg_pool2d(x[0], {3, 3}, {.stride = {2, 2}, .padding = {1, 1}});
     }},
    {"adaptive_avg_pool2d",
     {{2, 37, 17, 15}},
     [](const Tensors& x) {
       return adaptive_avg_pool2d(x[0], {1, 1});
     }},
    {"interpolate",
     {{2, 7, 17, 15}},
     [](const Tensors& x) {
       return interpolate(x[0], {.size = {30, 20}, .mode = "bilinear"});
     }},
    {"batch_norm",
     {{3, 37, 17, 15}, {37}, {37}},
     [](const Tensors& x) { return batch_norm(x[0], x[1], x[2], {}, {}, true); }},
    {"batch_norm",
     {{130, 37}, {37}, {37}},
     [](const Tensors& x) { return batch_norm(x[0], x[1], x[2], {}, {}, true); }},
    {"group_norm", {{3, 36, 17, 15}, {36}, {36}}, [](const Tensors& x) { return group_norm(x[0], 4, x[1], x[2]); }},
    {"local_response_norm", {{2, 37, 9, 7}}, [](const Tensors& x) { return local_response_norm(x[0], 5); }},
};
const OpInfo& find(std::string_view name) {
  for (const OpInfo& op : registry()) if (op.name == name) return op;
  throw Error(concat("no operator ", std::string(name)));
}
template <class F> void for_each_instruction_set(F&& f) {
  using cpu_backend::Isa;
  const Isa before = cpu_backend::isa();
  for (Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (isa > before) continue;
    cpu_backend::set_isa(isa);
    INFO(cpu_backend::name_of(isa));
    f(isa == before);  // the others: f32 and f16, all inputs alike
  }
  cpu_backend::set_isa(before);
}

}  // namespace

TEST_CASE("larger strided inputs give the bits of contiguous copies") {
  for_each_instruction_set([](bool thorough) {
    for (const Larger& l : larger) {
      const OpInfo& op = find(l.name);
      if (!selected(op)) continue;
      Samples s(seed());
      Tensors x;
      for (const Dims& d : l.inputs) x.push_back(s.randn(d));
      const Sample& sample = s.call(x, [&](const Tensors& y) { return Tensors{l.call(y)}; });
      INFO(op.name << ", sample 0: " << describe_all(x));
      check_dtypes(op, sample, thorough);
    }
  });
}

TEST_CASE("strided inputs give the bits of contiguous copies") {
  for_each_instruction_set([](bool thorough) {
    for_each_sample([&](const OpInfo& op, const Sample& s) { check_dtypes(op, s, thorough); });
  });
}

// Every order of dimensions in memory, every set of reduced dimensions, and every number of threads.
TEST_CASE("sums, variances, maxima and norms give the same bits however their input lies") {
  const int threads = num_threads();
  for_each_instruction_set([&](bool) {
    Samples s(seed());
    // Short and long runs, partial vectors, transposed blocks, several tiles, several segments.
    for (const Dims& sizes : {Dims{3, 20, 9, 35}, Dims{2, 70, 4, 67}, Dims{40, 17, 4, 4}, Dims{2, 600, 3, 5},
                              Dims{3, 40, 33, 29}, Dims{1, 67, 530, 1}}) {
      const Tensor values = s.randn(sizes);
      for (Dtype dtype : {f32, bf16, f64}) {
        const Tensor x = cast(values, dtype);
        for (int set = 1; set < 16; ++set) {
          Dims dims;
          for (int d = 0; d < 4; ++d) if (set >> d & 1) dims.push_back(d);
          const auto all = [&](const Tensor& t) {
            return Tensors{sum(t, dims), var(t, dims), amax(t, dims), norm(t, 2, dims)};
          };
          const Tensors expected = all(x);
          std::vector<int> order{0, 1, 2, 3};
          do {
            const Tensor y = permuted(x, order);
            INFO(concat(name_of(dtype), " ", sizes, " over ", dims, ", strides ", y.strides()));
            const bool channels = y.view().layout() == mantissa::Layout::channels_last &&
                                  sum(x, dims, true).sizes() == Dims{1, sizes[1], 1, 1};
            for (int n : {threads, 3}) {
              set_num_threads(n);
              const Tensors found = all(y);
              // sums and variances per channel: see `exceptions`
              for (std::size_t k = channels ? 2 : 0; k < found.size(); ++k) {
                if (!same_bits(found[k], expected[k]))
                  FAIL_CHECK(k << ": " << difference(found[k], expected[k], {0, 0}));
              }
            }
            set_num_threads(threads);
          } while (std::next_permutation(order.begin(), order.end()));
        }
      }
    }
  });
}
