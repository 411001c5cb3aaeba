// Matrix products on the GPU: converts views to a tensor_core::Gemm and lets the tuner choose the kernel. 16-bit
// products use our Tensor Core kernels or cuBLASLt; f32 and f64 use cuBLASLt, or our own kernel without it.
#include "core/gemm_fused.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "amp/kernels/gemm.h"
#include "core/kernel.h"
#include "core/tf32.h"
#include "cuda/cublaslt.h"
#include "cuda/gemm.h"
#include "cuda/runtime.h"
#include "cuda/tuner.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)
MANTISSA_KERNEL(fill, const View& y, double value)
MANTISSA_KERNEL(reduce_sum, const View& y, const View& x, double divisor)
MANTISSA_KERNEL(add_in_place, const View& y, const View& x, double alpha)

namespace cuda_backend {
namespace {

using tensor_core::Gemm;

struct Layout { bool transposed; std::int64_t leading; };

// Whether the matrices of v have contiguous rows or columns.
bool find_layout(const View& v, Layout* layout) {
  const std::int64_t rows = v.size(v.dim() - 2), columns = v.size(v.dim() - 1);
  const std::int64_t down = v.strides[v.dim() - 2], across = v.strides[v.dim() - 1];
  if ((across == 1 || columns == 1) && (down >= columns || rows == 1)) *layout = {false, rows == 1 ? columns : down};
  else if ((down == 1 || rows == 1) && (across >= rows || columns == 1)) *layout = {true, columns == 1 ? rows : across};
  else return false;
  return true;
}

// v itself, or a copy of each distinct matrix in it, owned by `keep`.
View prepare(const View& v, Dtype dtype, Tensor& keep, Layout* layout) {
  if (v.dtype == dtype && find_layout(v, layout)) return v;
  View once = v;
  for (int d = 0; d < v.dim() - 2; ++d) {
    if (v.strides[d] == 0) once.sizes[d] = 1;
  }
  keep = Tensor::allocate(once.sizes, dtype, v.device);
  kernels::copy(v.device, keep.view(), once);
  View ready = keep.view();
  for (int d = 0; d < v.dim() - 2; ++d) {
    if (v.strides[d] == 0) ready.strides[d] = 0;
  }
  ready.sizes = v.sizes;
  find_layout(ready, layout);
  return ready;
}

// The batch dimensions of both operands, merged where a single stride suffices.
void set_batch(Gemm& g, const View& a, const View& b) {
  tensor_core::Batch& batch = g.batch;
  for (int d = 0; d < a.dim() - 2; ++d) {
    const std::int64_t size = a.size(d);
    g.items *= size;
    if (size == 1) continue;
    const int last = batch.rank - 1;
    if (last >= 0 && batch.a[last] == size * a.strides[d] && batch.b[last] == size * b.strides[d]) {
      batch.sizes[last] *= size;
      batch.a[last] = a.strides[d];
      batch.b[last] = b.strides[d];
    } else {
      batch.sizes[batch.rank] = size;
      batch.a[batch.rank] = a.strides[d];
      batch.b[batch.rank++] = b.strides[d];
    }
  }
}

const char* name_of(Activation a) {
  constexpr const char* names[] = {"", " relu", " gelu", " gelu_tanh"};
  return names[static_cast<int>(a)];
}
// Whether what a kernel loads in 16 bytes begins at a multiple of 16 bytes: some kernels need that.
bool is_aligned(const Gemm& g) {
  for (const void* p : {g.a, g.b, static_cast<const void*>(g.c), g.bias, g.saved}) {
    if (reinterpret_cast<std::uintptr_t>(p) % 16 != 0) return false;
  }
  return true;
}
std::string key_of(const Gemm& g) {
  return fmt::format("gemm {}->{} {}x{}x{} items {} layout {}{} ld {} {} batch {} {} {}{}{}{}{}{}", name_of(g.in),
                     name_of(g.out), g.m, g.n, g.k, g.items, g.a_transposed ? 't' : 'n', g.b_transposed ? 't' : 'n',
                     g.lda % 8, g.ldb % 8, g.batch.rank, g.bias ? " bias" : "", name_of(g.activation),
                     g.before_activation ? " before"
                     : g.saved           ? " backward"
                                         : "",
                     g.a_sums ? " sums" : "", g.accumulate ? " add" : "", is_tf32_allowed() ? " tf32" : "",
                     is_aligned(g) ? "" : " unaligned");
}

// Into how many parts k is split (split-K), so that a small result still occupies the GPU: no part shorter than 256.
int parts_for(const Gemm& g, int tile) {
  const std::int64_t tiles = (g.m + tile - 1) / tile * ((g.n + tile - 1) / tile) * g.items;
  const std::int64_t wanted = multiprocessors() / std::max<std::int64_t>(tiles, 1), possible = g.k / 256;
  return static_cast<int>(std::clamp<std::int64_t>(std::min(wanted, possible), 1, 32));
}

// One implementation of a product: kernel, its tile or plan, and the number of parts of k. cublaslt: only the product;
// the epilogue runs in separate kernels, bitwise equal to the operators. cublaslt_epilogue: the library does it all.
// hopper_pair: the Hopper kernel with clusters of two blocks; hopper_shares: the same, in equal shares for `parts`
// clusters; hopper_split: clusters of `parts` blocks, each of which computes a part of k.
struct Kernel {
  enum Kind { mma, hopper, hopper_pair, hopper_shares, hopper_split, plain, cublaslt, cublaslt_epilogue } kind;
  int tile, parts;
};
std::string name_of(const Kernel& w) {
  constexpr const char* names[] = {"mma",          "hopper", "hopper_pair", "hopper_shares",
                                   "hopper_split", "plain",  "cublaslt",    "cublaslt_epilogue"};
  const bool in_parts = w.kind == Kernel::mma || w.kind == Kernel::hopper_shares || w.kind == Kernel::hopper_split;
  return in_parts ? fmt::format("{} {}x{}", names[w.kind], w.tile, w.parts)
                  : fmt::format("{} {}", names[w.kind], w.tile);
}

View rows_of(void* p, const Gemm& g, Device device) {
  View v;
  v.data = p;
  v.sizes = {g.items * g.m, g.n};
  v.strides = {g.ldc, 1};
  v.dtype = g.out;
  v.device = device;
  return v;
}

View sums_of(const Gemm& g, Device device) {
  View v;
  v.data = g.a_sums;
  v.sizes = {g.m, 1};
  v.strides = {1, 1};
  v.dtype = g.out;
  v.device = device;
  return v;
}
void sum_a(const Gemm& g, Device device) {
  View a = sums_of(g, device);
  a.data = const_cast<void*>(g.a);
  a.sizes = {g.m, g.k};
  a.strides = {g.a_transposed ? 1 : g.lda, g.a_transposed ? g.lda : 1};
  a.dtype = g.in;
  const View sums = sums_of(g, device);
  if (!g.accumulate) return kernels::reduce_sum(device, sums, a, 1.0);
  const Tensor more = Tensor::allocate(sums.sizes, sums.dtype, device);
  kernels::reduce_sum(device, more.view(), a, 1.0);
  kernels::add_in_place(device, sums, more.view(), 1.0);
}

// By one kernel, and for mma by one more that adds the parts.
bool run_alone(const Kernel& w, const Gemm& g, Device device) {
  Tensor space;
  const auto allocate = [&](std::int64_t floats) {
    if (floats) space = Tensor::allocate({floats}, f32, device);
    return floats ? space.data<float>() : nullptr;
  };
  switch (w.kind) {
    case Kernel::mma:
      return tensor_core::run_mma(g, w.tile, w.parts, allocate(tensor_core::partial_floats(g, w.parts)));
    case Kernel::hopper: return tensor_core::run_hopper(g, w.tile);
    case Kernel::hopper_pair: return tensor_core::run_hopper(g, w.tile, 2);
    case Kernel::hopper_shares:
      return tensor_core::run_hopper_shares(g, w.parts, allocate(tensor_core::shares_floats(w.parts)));
    case Kernel::hopper_split: return tensor_core::run_hopper_split(g, w.parts);
    case Kernel::plain: return tensor_core::run_plain(g, w.tile);
    default: return run_cublaslt(g, w.tile);
  }
}

// Whether `w` computes the sums of a along with the product. cuBLASLt's epilogue cannot accumulate them.
bool makes_sums(const Kernel& w, const Gemm& g) {
  switch (w.kind) {
    case Kernel::mma: return true;
    case Kernel::hopper:
    case Kernel::hopper_pair:
    case Kernel::hopper_shares: return g.a_transposed;
    case Kernel::cublaslt_epilogue: return !g.accumulate;
    default: return false;
  }
}

// The product by `w`, then its activation or the sums of a in a separate kernel.
bool run_in_two(const Kernel& w, const Gemm& g, Device device) {
  Gemm product = g;
  product.activation = Activation::none;
  product.before_activation = nullptr;
  product.saved = nullptr;
  product.a_sums = nullptr;
  if (g.before_activation) product.c = g.before_activation;
  if (!run_alone(w, product, device)) return false;
  const View rows = rows_of(g.c, g, device), from = rows_of(product.c, g, device);
  if (g.saved)
    kernels::activate_backward(device, rows, from, rows_of(const_cast<void*>(g.saved), g, device), g.activation);
  else if (g.activation != Activation::none) kernels::activate(device, rows, from, g.activation);
  if (g.a_sums) sum_a(g, device);
  return true;
}

bool run(const Kernel& w, const Gemm& g, Device device) {
  return w.kind == Kernel::cublaslt || (g.a_sums && !makes_sums(w, g)) ? run_in_two(w, g, device)
                                                                       : run_alone(w, g, device);
}

// How many clusters of two blocks run at a time, and whether whole tiles would leave more than a tenth of their time
// unused.
int pairs() { return std::max(1, multiprocessors() / 2); }
bool wants_shares(const Gemm& g) {
  const std::int64_t tiles = (g.m + 255) / 256 * ((g.n + 255) / 256) * g.items;
  const std::int64_t rounds = (tiles + pairs() - 1) / pairs(), steps = tiles * ((g.k + 63) / 64);
  return g.m > 128 && 10 * tiles < 9 * rounds * pairs() && steps >= 8 * pairs();
}

std::vector<Kernel> kernels_for(const Gemm& g) {
  std::vector<Kernel> own, library, plain;
  if (g.in == f16 || g.in == bf16) {
    for (const int tile : {128, 64}) {
      const int parts = parts_for(g, tile);
      own.push_back({Kernel::mma, tile, parts});
      if (parts != 1) own.push_back({Kernel::mma, tile, 1});
    }
    if (compute_capability() == 90) {
      for (const int tile : {256, 128}) own.push_back({Kernel::hopper, tile, 1});
      if (g.m > 128) own.push_back({Kernel::hopper_pair, 256, 1});  // a tile for each of the two blocks
      if (wants_shares(g)) own.push_back({Kernel::hopper_shares, 256, pairs()});
      const std::int64_t tiles = (g.m + 127) / 128 * ((g.n + 127) / 128) * g.items;
      for (const int parts : {2, 4}) {
        if (parts * tiles <= multiprocessors() && g.k >= 256 * parts)
          own.push_back({Kernel::hopper_split, 128, parts});
      }
    }
  } else {
    if (g.in == f32) plain.push_back({Kernel::plain, 128, 1});
    plain.push_back({Kernel::plain, 64, 1});
  }
  for (int plan = 0; plan < most_cublaslt_plans; ++plan) library.push_back({Kernel::cublaslt, plan, 1});
  if (g.activation == Activation::gelu_tanh || g.a_sums) {
    for (int plan = 0; plan < most_cublaslt_plans; ++plan) library.push_back({Kernel::cublaslt_epilogue, plan, 1});
  }
  // The first one is used if nothing is timed. cuBLASLt's heuristic is a good guess; the shim's is none.
#if defined(MANTISSA_CUDA_SHIM)
  own.insert(own.end(), library.begin(), library.end());
  own.insert(own.end(), plain.begin(), plain.end());  // slow on the shim's fibers
  return own;
#else
  library.insert(library.end(), own.begin(), own.end());
  library.insert(library.end(), plain.begin(), plain.end());
  return library;
#endif
}

// The same information as key_of, as numbers.
KeyNumbers<9> numbers_of(const Gemm& g) {
  return {g.m,
          g.n,
          g.k,
          g.items,
          g.lda % 8,
          g.ldb % 8,
          g.batch.rank,
          current_device(),
          static_cast<std::int64_t>(g.in) | static_cast<std::int64_t>(g.out) << 8 |
              static_cast<std::int64_t>(g.activation) << 16 | std::int64_t{g.a_transposed} << 24 |
              std::int64_t{g.b_transposed} << 25 | std::int64_t{g.bias != nullptr} << 26 |
              std::int64_t{g.before_activation != nullptr} << 27 | std::int64_t{g.a_sums != nullptr} << 28 |
              std::int64_t{g.accumulate} << 29 | std::int64_t{is_tf32_allowed()} << 30 |
              std::int64_t{g.saved != nullptr} << 31 | std::int64_t{is_aligned(g)} << 32};
}

std::vector<Way> ways_of(const std::vector<Kernel>& kernels, const Gemm& g, Device device) {
  std::vector<Way> ways;
  for (const Kernel& w : kernels) ways.push_back({name_of(w), [&g, w, device] { return run(w, g, device); }});
  return ways;
}

}  // namespace

std::vector<Way> ways_for(const Gemm& g, Device device) { return ways_of(kernels_for(g), g, device); }

void run(const Gemm& g, Device device) {
  static thread_local Settled<9, Kernel> settled;
  const KeyNumbers<9> shape = numbers_of(g);
  if (const auto at = settled.find(shape); at != settled.end() && run(at->second, g, device)) return;

  std::vector<View> results{rows_of(g.c, g, device)};
  if (g.before_activation) results.push_back(rows_of(g.before_activation, g, device));
  if (g.a_sums) results.push_back(sums_of(g, device));
  const std::vector<Kernel> kernels = kernels_for(g);
  const Choice choice = run_fastest(key_of(g), ways_of(kernels, g, device), {results, g.accumulate, rounding_of(g.in)});
  if (choice.settled) settled.insert_or_assign(shape, kernels[choice.way]);
}

namespace {

// y = a @ b + bias, with the changes that `more` makes to the description.
template <class F> void multiply(const View& y, const View& a, const View& b, const View& bias, F&& more) {
  Tensor a_copy, b_copy, bias_copy;
  Layout la{}, lb{};
  // f16 or bf16 operands with an f32 result: the sums are not rounded.
  const Dtype in = y.dtype == f32 && is_half(a.dtype) && a.dtype == b.dtype ? a.dtype : y.dtype;
  const View left = prepare(a, in, a_copy, &la), right = prepare(b, in, b_copy, &lb);
  Gemm g;
  g.m = left.size(left.dim() - 2);
  g.k = left.size(left.dim() - 1);
  g.n = right.size(right.dim() - 1);
  g.in = in;
  g.out = y.dtype;
  g.a = left.data;
  g.b = right.data;
  g.c = y.data;
  g.lda = la.leading;
  g.ldb = lb.leading;
  g.ldc = g.n;
  g.a_transposed = la.transposed;
  g.b_transposed = lb.transposed;
  set_batch(g, left, right);
  if (bias) {
    g.bias = bias.data;
    if (bias.dtype != in || !bias.is_contiguous()) {
      bias_copy = Tensor::allocate(bias.sizes, in, y.device);
      kernels::copy(y.device, bias_copy.view(), bias);
      g.bias = bias_copy.view().data;
    }
  }
  more(g);
  cuda_backend::run(g, y.device);
}

}  // namespace

void gemm(const View& y, const View& a, const View& b, const View& bias, bool add) {
  if (a.size(a.dim() - 1) == 0) {  // an empty sum leaves just the bias
    if (add) return;
    if (!bias) return kernels::fill(y.device, y, 0.0);
    View rows = bias;
    rows.sizes = y.sizes;
    rows.strides = broadcast_strides(bias.sizes, bias.strides, y.sizes);
    return kernels::copy(y.device, y, rows);
  }
  multiply(y, a, b, bias, [&](Gemm& g) { g.accumulate = add; });
}

void gemm_act(const View& y, const View& before, const View& a, const View& b, const View& bias,
              Activation activation) {
  multiply(y, a, b, bias, [&](Gemm& g) {
    g.activation = activation;
    g.before_activation = before.data;
  });
}

void gemm_act_backward(const View& y, const View& saved, const View& a, const View& b, Activation activation) {
  multiply(y, a, b, {}, [&](Gemm& g) {
    g.activation = activation;
    g.saved = saved.data;
  });
}

void gemm_and_sums(const View& y, const View& sums, const View& a, const View& b, bool add) {
  multiply(y, a, b, {}, [&](Gemm& g) {
    g.a_sums = sums.data;
    g.accumulate = add;
  });
}

}  // namespace cuda_backend
}  // namespace mantissa
