// A matrix product without Tensor Cores, for f32 and f64: used if cuBLASLt has no plan or is excluded, and as a
// reference for its results. A block of 256 threads computes a tile of c from slices of a and b with a depth of eight;
// while one slice in shared memory is multiplied, the next is loaded into registers. A thread computes 4x4 or, in four
// such pieces half a tile apart, 8x8 sums.
// The scheme is that of Volkov and Demmel, "Benchmarking GPUs to tune dense linear algebra" (2008).
#include "amp/kernels/gemm_finish.cuh"

namespace mantissa::tensor_core {
namespace {

constexpr int plain_threads = 256, depth = 8;

// One operand: element (o, k) of the product, o along m or n, is at o * leading + k or, with `along_o`, at k * leading
// + o. Each thread loads the same few elements of every slice.
template <class C, int tile, bool along_o> struct Operand {
  static constexpr int padded = tile + 4;  // stores of neighbours in k use different banks, and rows stay aligned
  static constexpr int each = tile * depth / plain_threads;
  static constexpr int o_jump = along_o ? 0 : plain_threads / depth, k_jump = along_o ? plain_threads / tile : 0;
  struct alignas(16) Slice {
    C at[depth][padded];
  };

  const C* from;  // this thread's first element of the next slice
  std::int64_t leading;
  int o, k, o_left;  // its position in the slice; number of o from there on
  C ahead[each];

  __device__ Operand(const void* data, std::int64_t offset, std::int64_t row_length, std::int64_t first,
                     std::int64_t end)
      : leading(row_length) {
    const int t = static_cast<int>(threadIdx.x);
    o = along_o ? t % tile : t / depth;
    k = along_o ? t / tile : t % depth;
    o_left = static_cast<int>(end - first - o < tile ? end - first - o : tile);
    from = static_cast<const C*>(data) + offset + (along_o ? k * leading + first + o : (first + o) * leading + k);
  }
  // Loads the next slice, of which `k_left` are inside the matrix; the rest is zero.
  __device__ void read(std::int64_t k_left) {
#pragma unroll
    for (int j = 0; j < each; ++j) {
      const bool inside = j * o_jump < o_left && k + j * k_jump < k_left;
      ahead[j] = inside ? from[(o_jump + k_jump) * j * leading] : C(0);
    }
    from += along_o ? depth * leading : depth;
  }
  __device__ void put(Slice& slice) const {
#pragma unroll
    for (int j = 0; j < each; ++j) slice.at[k + j * k_jump][o + j * o_jump] = ahead[j];
  }
};

// The epilogue, in two rounds over the thread's elements: the second, the activation, reads back what the first has
// stored, so that its code exists once instead of for each of 64 sums.
template <class C> __device__ inline void store(const Gemm& g, std::int64_t at, std::int64_t column, C v) {
  if (g.bias) v += static_cast<const C*>(g.bias)[column];
  if (g.accumulate) v += static_cast<const C*>(g.c)[at];
  if (g.before_activation) static_cast<C*>(g.before_activation)[at] = v;
  else static_cast<C*>(g.c)[at] = v;
}
template <class C> __device__ inline void follow(const Gemm& g, std::int64_t at) {
  const C v = static_cast<const C*>(g.before_activation ? g.before_activation : g.c)[at];
  static_cast<C*>(g.c)[at] =
      g.saved ? activate_backward(v, static_cast<const C*>(g.saved)[at], g.activation) : activate(v, g.activation);
}

template <class C, int tile, bool a_transposed, bool b_transposed>
__global__ void __launch_bounds__(plain_threads, 2) gemm_plain(Gemm g) {
  cuda_backend::wait_for_previous_kernel();
  using A = Operand<C, tile, a_transposed>;
  using B = Operand<C, tile, !b_transposed>;
  constexpr int pieces = tile / 64, most = 4 * pieces;
  __shared__ typename A::Slice slices_a[2];
  __shared__ typename B::Slice slices_b[2];

  const std::int64_t tiles_m = (g.m + tile - 1) / tile, tiles_n = (g.n + tile - 1) / tile;
  const std::int64_t item = blockIdx.x / (tiles_m * tiles_n), index = blockIdx.x % (tiles_m * tiles_n);
  const std::int64_t row0 = index % tiles_m * tile, column0 = index / tiles_m * tile;
  std::int64_t a_offset, b_offset;
  g.batch.offsets(item, &a_offset, &b_offset);
  A a(g.a, a_offset, g.lda, row0, g.m);
  B b(g.b, b_offset, g.ldb, column0, g.n);

  const int down = static_cast<int>(threadIdx.x) / 16 * 4, across = static_cast<int>(threadIdx.x) % 16 * 4;
  C sums[most][most] = {};
  a.read(g.k), b.read(g.k);
  a.put(slices_a[0]), b.put(slices_b[0]);
  __syncthreads();
  int now = 0;
  for (std::int64_t k_left = g.k; k_left > 0; k_left -= depth, now = 1 - now) {
    const bool more = k_left > depth;
    if (more) a.read(k_left - depth), b.read(k_left - depth);
#pragma unroll 2  // more would exceed the 128 registers with which two blocks share a multiprocessor
    for (int k = 0; k < depth; ++k) {
      C left[most], right[most];
#pragma unroll
      for (int i = 0; i < most; ++i) {
        left[i] = slices_a[now].at[k][i / 4 * 64 + down + i % 4];
        right[i] = slices_b[now].at[k][i / 4 * 64 + across + i % 4];
      }
#pragma unroll
      for (int i = 0; i < most; ++i) {
#pragma unroll
        for (int j = 0; j < most; ++j) sums[i][j] += left[i] * right[j];
      }
    }
    if (more) a.put(slices_a[1 - now]), b.put(slices_b[1 - now]);
    __syncthreads();  // the next slice has arrived, and this one has been read
  }
#pragma unroll
  for (int i = 0; i < most; ++i) {
    const std::int64_t row = row0 + i / 4 * 64 + down + i % 4, at = (item * g.m + row) * g.ldc;
#pragma unroll
    for (int j = 0; j < most; ++j) {
      const std::int64_t column = column0 + j / 4 * 64 + across + j % 4;
      if (row < g.m && column < g.n) store(g, at + column, column, sums[i][j]);
    }
  }
  if (g.activation == Activation::none && !g.before_activation) return;
#pragma unroll 1
  for (int i = 0; i < most * most; ++i) {
    const int down_more = i / most, across_more = i % most;
    const std::int64_t row = row0 + down_more / 4 * 64 + down + down_more % 4;
    const std::int64_t column = column0 + across_more / 4 * 64 + across + across_more % 4;
    if (row < g.m && column < g.n) follow<C>(g, (item * g.m + row) * g.ldc + column);
  }
}

template <class C, int tile> void launch_plain(const Gemm& g) {
  const auto kernel = g.a_transposed
                          ? (g.b_transposed ? gemm_plain<C, tile, true, true> : gemm_plain<C, tile, true, false>)
                          : (g.b_transposed ? gemm_plain<C, tile, false, true> : gemm_plain<C, tile, false, false>);
  const std::int64_t tiles = (g.m + tile - 1) / tile * ((g.n + tile - 1) / tile) * g.items;
  check(tiles <= 0x7fffffff, "internal error: ", tiles, " tiles do not fit into one launch");
  cuda_backend::launch("gemm_plain", kernel, {dim3(static_cast<unsigned>(tiles)), dim3(plain_threads)}, g);
}

}  // namespace

bool run_plain(const Gemm& g, int tile) {
  if (g.in != g.out || g.a_sums) return false;
  if (g.in == f32) tile == 128 ? launch_plain<float, 128>(g) : launch_plain<float, 64>(g);
  else if (g.in == f64 && tile == 64) launch_plain<double, 64>(g);
  else return false;
  return true;
}

}  // namespace mantissa::tensor_core
