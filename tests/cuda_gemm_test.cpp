// Our matrix products (amp/kernels/gemm_mma.cuh, gemm_sm90.cu, cuda/gemm_plain.cu) on a GPU or the CPU shim. Every
// layout, dtype, epilogue, tail and split is compared with a product in f64 of the same inputs.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "amp/kernels/gemm.h"
#include "core/accelerator.h"
#include "core/gemm_fused.h"
#include "cuda/cublaslt.h"
#include "cuda/runtime.h"
#include "cuda/tuner.h"
#include "mantissa.h"
#include "tests/catch_compat.h"

#if defined(MANTISSA_CUDA_SHIM)
#include "tests/cuda_shim/shim.h"
#endif

using namespace mantissa;
using tensor_core::Activation;
using tensor_core::Gemm;

namespace {

enum class Way { mma, hopper, hopper_pair, hopper_shares, hopper_split, cublaslt, plain };

struct Case {
  std::int64_t m = 0, n = 0, k = 0, items = 1;
  std::int64_t skew = 0;  // elements by which rows are longer, which breaks alignment
  bool at = false, bt = false;
  Dtype in = f16, out = f16;
  int tile = 64, parts = 1;  // parts: for hopper_shares clusters
  bool bias = false, accumulate = false, sums = false, before = false;
  bool saved = false;  // the activation's gradient: a @ b is what reaches it
  Activation activation = Activation::none;
  Way way = Way::mma;
};

std::string describe(const Case& c) {
  return std::to_string(c.m) + "x" + std::to_string(c.n) + "x" + std::to_string(c.k) + " items " +
         std::to_string(c.items) + " skew " + std::to_string(c.skew) + (c.at ? " a^T" : "") + (c.bt ? " b^T" : "") +
         concat(" ", c.in, c.out == c.in ? "" : "->f32") + " tile " + std::to_string(c.tile) +
         " parts " + std::to_string(c.parts) + (c.bias ? " bias" : "") + (c.accumulate ? " +=" : "") +
         (c.sums ? " sums" : "") + (c.saved ? " backward" : "") +
         (c.way == Way::hopper          ? " hopper"
          : c.way == Way::hopper_pair   ? " hopper_pair"
          : c.way == Way::hopper_shares ? " hopper_shares"
          : c.way == Way::hopper_split  ? " hopper_split"
          : c.way == Way::cublaslt      ? " cublaslt"
          : c.way == Way::plain         ? " plain"
                                        : "") +
         (c.activation == Activation::relu        ? " relu"
          : c.activation == Activation::gelu      ? " gelu"
          : c.activation == Activation::gelu_tanh ? " gelu_tanh"
                                                  : "");
}

std::int64_t space_floats(const Case& c, const Gemm& g) {
  if (c.way == Way::hopper_shares) return tensor_core::shares_floats(c.parts);
  return c.way == Way::mma ? tensor_core::partial_floats(g, c.parts) : 0;
}
// Computes the product into c with the case's implementation.
bool run_way(const Case& c, const Gemm& g, const Tensor& space) {
  switch (c.way) {
    case Way::mma: return tensor_core::run_mma(g, c.tile, c.parts, space.data<float>());
    case Way::hopper_shares: return tensor_core::run_hopper_shares(g, c.parts, space.data<float>());
    case Way::hopper_split: return tensor_core::run_hopper_split(g, c.parts);
    case Way::hopper: return tensor_core::run_hopper(g, c.tile);
    case Way::hopper_pair: return tensor_core::run_hopper(g, c.tile, 2);
    case Way::cublaslt: return cuda_backend::run_cublaslt(g, 0);
    case Way::plain: return tensor_core::run_plain(g, c.tile);
  }
  return false;
}

// An error in a lane, chunk or row shows as a difference far above rounding.
void run(const Case& c) {
  INFO(describe(c));
  manual_seed(7);
  const std::int64_t a_rows = c.at ? c.k : c.m, a_columns = c.at ? c.m : c.k, b_rows = c.bt ? c.n : c.k,
                     b_columns = c.bt ? c.k : c.n;
  const Tensor a = cast(randn({c.items, a_rows, a_columns + c.skew}), c.in),
               b = cast(randn({c.items, b_rows, b_columns + c.skew}), c.in);
  const Tensor bias = cast(randn({c.n}), c.in), before = cast(randn({c.items, c.m, c.n}), c.out);
  const Tensor da = a.to(cuda), db = b.to(cuda), dbias = bias.to(cuda), dc = before.to(cuda),
               dz = zeros({c.items, c.m, c.n}, {.dtype = c.out}).to(cuda);
  const Tensor dsums = zeros({c.items, c.m}, {.dtype = c.out}).to(cuda);

  Gemm g;
  g.m = c.m, g.n = c.n, g.k = c.k, g.items = c.items;
  g.in = c.in, g.out = c.out;
  g.a = da.view().data, g.b = db.view().data, g.c = dc.view().data;
  g.lda = a_columns + c.skew, g.ldb = b_columns + c.skew, g.ldc = c.n;
  g.a_transposed = c.at, g.b_transposed = c.bt, g.accumulate = c.accumulate, g.activation = c.activation;
  if (c.bias) g.bias = dbias.view().data;
  const Tensor saved = cast(randn({c.items, c.m, c.n}), c.out), dsaved = saved.to(cuda),
               dproduct = zeros_like(saved).to(cuda);
  if (c.saved) g.saved = dsaved.view().data;
  if (c.before) g.before_activation = dz.view().data;
  if (c.sums) g.a_sums = dsums.view().data;
  g.batch.rank = 1, g.batch.sizes[0] = c.items, g.batch.a[0] = a.stride(0), g.batch.b[0] = b.stride(0);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor space = full({std::max<std::int64_t>(space_floats(c, g), 1)}, nan, {.dtype = f32}).to(cuda);
  const bool done = run_way(c, g, space);
#if !defined(MANTISSA_CUDA_SHIM)
  if (!done && c.way == Way::cublaslt && (c.sums || c.activation != Activation::none)) {
    WARN("cuBLASLt refuses, so that another kernel does it:" << describe(c));
    return;
  }
#endif
  REQUIRE(done);

  Tensor wa = cast(slice(a, 2, 0, a_columns), f64), wb = cast(slice(b, 2, 0, b_columns), f64);
  if (c.at) wa = transpose(wa);
  if (c.bt) wb = transpose(wb);
  Tensor want = matmul(wa, wb);
  if (c.bias) want = want + cast(bias, f64);
  if (c.accumulate) want = want + cast(before, f64);
  const double unit = c.out == f16 ? 0x1p-11 : c.out == bf16 ? 0x1p-8 : 0;
  const double finer = c.in == f64 ? 0x1p-29 : 1;
  // Tensor Cores truncate instead of round when they accumulate, so errors grow with k and not with its square root.
  // The bounds for sums of k products in f32 allow that; operands are normally distributed, with the largest above 4.
  const double root = std::sqrt(static_cast<double>(c.k));
#if defined(MANTISSA_CUDA_SHIM)
  const double absolute = root * 0x1p-19 * finer, relative = 0;
#else
  const double absolute = root * 1e-6 * 4 * 4 * finer, relative = root * 2e-6 * finer;
#endif
  const auto compare = [&](const Tensor& got, const Tensor& expected) {
    const auto x = cast(got.to(cpu), f64).to_vector<double>(), y = contiguous(expected).to_vector<double>();
    REQUIRE(x.size() == y.size());
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      worst = std::max(worst, std::abs(x[i] - y[i]) /
                                  (absolute + (relative + unit * 1.01) * std::abs(y[i]) + 1e-7 * finer));
    CHECK(worst <= 1);
  };
  if (c.saved) {  // of halves the gradient of the rounded product, to the bit: by the same way, without its end
    Gemm product = g;
    product.activation = Activation::none, product.saved = nullptr, product.c = dproduct.view().data;
    REQUIRE(run_way(c, product, space));
    compare(dproduct, want);
    const Tensor apart = zeros_like(dproduct);
    kernels::activate_backward(cuda, apart.view(), dproduct.view(), dsaved.view(), c.activation);
    if (c.way == Way::cublaslt) CHECK(cuda_backend::agree(dc.view(), apart.view()));  // it rounds once
    else CHECK(equal(dc.to(cpu), apart.to(cpu)));
    return;
  }
  if (c.before) compare(dz, want);
  if (c.activation == Activation::relu) want = relu(want);
  if (c.activation == Activation::gelu) want = gelu(cast(cast(want, c.out), f64));
  if (c.activation == Activation::gelu_tanh) want = gelu(cast(cast(want, c.out), f64), "tanh");
  if (c.out == f32 || c.activation == Activation::none || c.activation == Activation::relu) compare(dc, want);
  else if (c.before) {  // gelu of f16 or bf16 is applied to the rounded product, bitwise, but for cuBLASLt's
    const Tensor apart = gelu(dz, c.activation == Activation::gelu ? "none" : "tanh");
    if (c.way == Way::cublaslt) CHECK(cuda_backend::agree(dc.view(), apart.view()));
    else CHECK(equal(dc.to(cpu), apart.to(cpu)));
  }
  if (c.sums) compare(dsums, sum(wa, {-1}));
}

}  // namespace

TEST_CASE("a Tensor Core product agrees with f64 in every layout, dtype and tail") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  for (const Dtype in : {f16, bf16}) {
    for (const bool at : {false, true}) {
      for (const bool bt : {false, true}) {
        run({.m = 64, .n = 64, .k = 32, .at = at, .bt = bt, .in = in, .out = in});
        run({.m = 72, .n = 40, .k = 104, .items = 2, .at = at, .bt = bt, .in = in, .out = in});
        run({.m = 33, .n = 17, .k = 45, .skew = 1, .at = at, .bt = bt, .in = in, .out = f32});
        run({.m = 136, .n = 152, .k = 72, .at = at, .bt = bt, .in = in, .out = in, .tile = 128});
        run({.m = 1, .n = 1, .k = 1, .at = at, .bt = bt, .in = in, .out = in});
      }
    }
  }
}

TEST_CASE("what follows a Tensor Core product is fused to it: bias, activation, sums, accumulation, parts of k") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  for (const int parts : {1, 3}) {
    run({.m = 40, .n = 72, .k = 200, .parts = parts, .bias = true, .activation = Activation::relu});
    run({.m = 40, .n = 72, .k = 200, .in = bf16, .out = bf16, .parts = parts, .bias = true, .before = true,
         .activation = Activation::gelu});
    run({.m = 40, .n = 72, .k = 200, .parts = parts, .bias = true, .before = true,
         .activation = Activation::gelu_tanh});
    for (const Activation a : {Activation::relu, Activation::gelu, Activation::gelu_tanh}) {
      run({.m = 40, .n = 72, .k = 200, .parts = parts, .saved = true, .activation = a});
      run({.m = 33, .n = 37, .k = 70, .skew = 1, .in = bf16, .out = bf16, .parts = parts, .saved = true,
           .activation = a});
      run({.m = 136, .n = 152, .k = 72, .bt = true, .in = bf16, .out = f32, .tile = 128, .parts = parts,
           .saved = true, .activation = a});
    }
    run({.m = 40, .n = 72, .k = 200, .at = true, .out = f32, .parts = parts, .accumulate = true, .sums = true});
    run({.m = 200, .n = 72, .k = 136, .items = 2, .at = true, .tile = 128, .parts = parts, .sums = true});
  }
}

TEST_CASE("a product without Tensor Cores agrees with f64 in every layout and tail, with what follows it") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  for (const auto& [dtype, tile] : {std::pair{f32, 64}, std::pair{f32, 128}, std::pair{f64, 64}}) {
    const Case plain{.in = dtype, .out = dtype, .tile = tile, .way = Way::plain};
    const auto with = [&](Case c) {
      c.in = c.out = plain.in, c.tile = plain.tile, c.way = plain.way;
      run(c);
    };
    for (const bool at : {false, true}) {
      for (const bool bt : {false, true}) {
        with({.m = 128, .n = 64, .k = 32, .at = at, .bt = bt});
        with({.m = 33, .n = 17, .k = 45, .items = 2, .skew = 1, .at = at, .bt = bt});
        with({.m = 136, .n = 152, .k = 7, .at = at, .bt = bt});
        with({.m = 1, .n = 1, .k = 1, .at = at, .bt = bt});
      }
    }
    with({.m = 70, .n = 72, .k = 20, .bias = true, .activation = Activation::relu});
    with({.m = 70, .n = 72, .k = 20, .bias = true, .before = true, .activation = Activation::gelu});
    with({.m = 70, .n = 72, .k = 20, .at = true, .accumulate = true});
    for (const Activation a : {Activation::relu, Activation::gelu, Activation::gelu_tanh})
      with({.m = 70, .n = 72, .k = 20, .saved = true, .activation = a});
  }
}

TEST_CASE("cuBLASLt's products of f32 and f64 agree with f64 in every layout and tail, with what follows them") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  for (const Dtype dtype : {f32, f64}) {
    const auto with = [&](Case c) {
      c.in = c.out = dtype, c.way = Way::cublaslt;
      run(c);
    };
    for (const bool at : {false, true}) {
      for (const bool bt : {false, true}) {
        with({.m = 128, .n = 64, .k = 32, .at = at, .bt = bt});
        with({.m = 33, .n = 17, .k = 45, .items = 2, .skew = 1, .at = at, .bt = bt});
        with({.m = 1, .n = 1, .k = 1, .at = at, .bt = bt});
      }
    }
    with({.m = 70, .n = 72, .k = 20, .items = 3, .bias = true});
    with({.m = 70, .n = 72, .k = 20, .at = true, .accumulate = true});
    if (dtype == f32) with({.m = 70, .n = 72, .k = 20, .at = true, .sums = true});
  }
}

namespace {

struct Variant { int tile, parts; };
std::vector<Variant> variants_of(Way way) {
  switch (way) {
    case Way::hopper: return {{128, 1}, {256, 1}};
    case Way::hopper_shares: return {{256, 1}, {256, 3}, {256, 8}};
    case Way::hopper_split: return {{128, 2}, {128, 4}};
    default: return {{256, 1}};
  }
}

// The implementations for a Hopper GPU, in every layout, dtype and tail, with all epilogues.
void run_all_on_hopper(const std::vector<Way>& ways) {
  if (!cuda_is_available() || cuda_backend::compute_capability() != 90) {
    WARN("no Hopper GPU and no shim: not tested");
    return;
  }
// On the shim two steps of 64 more than the ring has stages are enough.
#if defined(MANTISSA_CUDA_SHIM)
  const Case deep{.m = 136, .n = 264, .k = 376, .skew = 8}, wide{.m = 264, .n = 392, .k = 72};
#else
  const Case deep{.m = 136, .n = 264, .k = 2056, .skew = 8}, wide{.m = 1032, .n = 1288, .k = 328};
#endif
  for (const Way way : ways) {
    const bool ours = way != Way::cublaslt;
    for (const Dtype in : {f16, bf16}) {
      for (const auto& [tile, parts] : variants_of(way)) {
        const auto with = [&](Case c) {
          c.way = way, c.in = in, c.tile = tile, c.parts = parts;
          if (c.out == f16) c.out = in;
          if (way == Way::hopper_split) c.k += 64 * (parts - 1);  // a step for each
          run(c);
        };
        for (const bool at : {false, true}) {
          for (const bool bt : {false, true}) {
            with({.m = 64, .n = 64, .k = 64, .at = at, .bt = bt});
            with({.m = 72, .n = 40, .k = 104, .items = 2, .at = at, .bt = bt});
            with({.m = deep.m, .n = deep.n, .k = deep.k, .skew = deep.skew, .at = at, .bt = bt, .out = f32});
            with({.m = wide.m, .n = wide.n, .k = wide.k, .at = at, .bt = bt});
            // Odd in every direction, with rows of multiples of 16 bytes.
            if (ours) with({.m = 37, .n = 29, .k = 45, .items = 3, .skew = 3, .at = at, .bt = bt});
          }
        }
        with({.m = 200, .n = 136, .k = 200, .bias = true, .activation = Activation::relu});
        with({.m = 200, .n = 136, .k = 200, .at = true, .out = f32, .accumulate = true});
        if (ours)
          with({.m = 200, .n = 136, .k = 200, .bias = true, .before = true, .activation = Activation::gelu});
        for (const Activation a : {Activation::relu, Activation::gelu, Activation::gelu_tanh}) {
          if (ours || a == Activation::gelu_tanh)
            with({.m = 200, .n = 136, .k = 200, .bt = ours, .saved = true, .activation = a});
        }
        for (const bool before : {false, true}) {  // gelu by tanh is also cuBLASLt's
          with({.m = 200, .n = 136, .k = 200, .bias = true, .before = before, .activation = Activation::gelu_tanh});
        }
        if (way == Way::hopper_split) continue;  // no sums
        for (const Dtype out : {f16, f32}) with({.m = 200, .n = 136, .k = 200, .at = true, .out = out, .sums = true});
        if (!ours) continue;
        with({.m = wide.m, .n = wide.n, .k = wide.k, .items = 2, .at = true, .sums = true});
        with({.m = deep.m, .n = deep.n, .k = deep.k, .at = true, .out = f32, .accumulate = true, .sums = true});
      }
    }
  }
}

}  // namespace

TEST_CASE("the products of Hopper and of cuBLASLt agree with f64 in every layout, dtype and tail") {
  run_all_on_hopper({Way::hopper, Way::cublaslt});
}

#if defined(MANTISSA_CUDA_SHIM)
TEST_CASE(
    "Hopper's product is the same in other orders of threads, however early or late its copies and products happen") {
  using cuda_shim::Asynchrony, cuda_shim::Order;
  unsigned seed = 0;
  for (const Order order : {Order::reverse, Order::random}) {
    for (const Asynchrony when : {Asynchrony::late, Asynchrony::early, Asynchrony::random}) {
      for (const Case& c : {Case{.tile = 128, .way = Way::hopper}, {.tile = 256, .way = Way::hopper},
                            {.tile = 256, .way = Way::hopper_pair}, {.parts = 3, .way = Way::hopper_shares},
                            {.parts = 2, .way = Way::hopper_split}}) {
        for (const bool mn : {false, true}) {
          cuda_shim::set_order(order, ++seed);
          cuda_shim::set_asynchrony(when);
          const bool sums = mn && c.way != Way::hopper_split;
          // 12 or 6 tiles, for two blocks
          run({.m = 264, .n = 392, .k = 392, .at = mn, .bt = !mn, .tile = c.tile, .parts = c.parts, .sums = sums,
               .way = c.way});
          run({.m = 72, .n = 40, .k = 104, .items = 5, .at = mn, .bt = !mn, .in = bf16, .out = f32, .tile = c.tile,
               .parts = c.parts, .accumulate = true, .way = c.way});
          run({.m = 200, .n = 136, .k = 200, .at = mn, .bt = !mn, .tile = c.tile, .parts = c.parts, .bias = true,
               .before = true, .activation = Activation::gelu, .way = c.way});
        }
      }
    }
  }
  cuda_shim::set_order(Order::forward);
  cuda_shim::set_asynchrony(Asynchrony::late);
}
#endif

TEST_CASE("[A51] a sum of 4096 ones is exact in f16: it is summed in f32") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const Tensor a = full({4, 4096}, 1.0, {.dtype = f16}).to(cuda), b = full({4096, 4}, 1.0, {.dtype = f16}).to(cuda);
  for (const float v : cast(matmul(a, b).to(cpu), f32).to_vector<float>()) CHECK(v == 4096.0f);
}

// The last cases: if one hangs and those above do not, scripts/gpu.sh excludes only the kernels of several blocks.
TEST_CASE("the products of pairs of Hopper's blocks agree with f64 in every layout, dtype and tail") {
  run_all_on_hopper({Way::hopper_pair});
}
TEST_CASE("the products of Hopper's clusters that share steps or tiles agree with f64 in every layout and tail") {
  run_all_on_hopper({Way::hopper_split, Way::hopper_shares});
}
