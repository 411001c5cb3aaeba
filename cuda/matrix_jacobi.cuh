// What eigh and svd share: Jacobi's method on blocks of columns. A matrix is cut into blocks of half a `side`; in every
// round each block meets another one, a thread block diagonalises the small symmetric matrix of the pair in shared
// memory, and the resulting rotation is applied to the pair's columns. After all rounds of a sweep each pair of blocks
// has met once. Sweeps end when nothing was rotated: the host enqueues as many as may be needed, and those that are not
// return at once, so nothing waits and a captured step may contain them. (Golub and Van Loan, Matrix Computations, 8.5
// and 8.6.3.)
#pragma once

#include "cuda/matrix.cuh"
#include "cuda/reduce.cuh"

namespace mantissa::cuda_backend {

template <class T> inline constexpr int side = sizeof(T) == 8 ? 32 : 64;  // of the matrix of a pair of blocks
template <class T> inline constexpr int half = side<T> / 2;
inline constexpr int jacobi_threads = 256;

// What counts as zero off the diagonal of a symmetric matrix: what is at most `absolute`, or `relative` to the product
// of the roots of both diagonal elements, each at least `least`.
template <class T> struct Zero {
  T absolute, relative, least;
  __device__ bool operator()(T between, T here, T there) const {
    if (relative == T(0)) return !(std::abs(between) > absolute);
    const T a = std::sqrt(std::abs(here)), b = std::sqrt(std::abs(there));
    return !(std::abs(between) > relative * (a > least ? a : least) * (b > least ? b : least));
  }
};
// Of each matrix.
template <class T> struct Progress {
  T scale;  // what the matrix was multiplied by
  Zero<T> zero;
  int turned, done, finite;
};
// Memory for a batch of them.
template <class T> Tensor progress_memory(Device device, std::int64_t count) {
  return Tensor::allocate({count, static_cast<std::int64_t>(sizeof(Progress<T>))}, u8, device);
}
template <class T> Progress<T>* progress_of(const Tensor& memory) {
  return static_cast<Progress<T>*>(memory.raw_data());
}

// --- tournaments: in round r of n - 1, for an even number n of players, which two meet in match k ---
struct Match {  // first < second
  int first, second;
};
__device__ inline Match match_of(int k, int r, int n) {
  const int a = k == 0 ? n - 1 : (r + k) % (n - 1), b = k == 0 ? r : (r - k + n - 1) % (n - 1);
  return a < b ? Match{a, b} : Match{b, a};
}

// The columns of a pair of blocks: `count` of them, since only the last block may be shorter, or missing.
template <class T> struct Pair {
  std::int64_t first, second;
  int count;
  __device__ Pair(int match, int round, int blocks, std::int64_t n) {
    const Match m = match_of(match, round, blocks);
    first = std::int64_t{m.first} * half<T>;
    second = std::int64_t{m.second} * half<T>;
    const auto width = [n](std::int64_t begin) {
      return begin >= n ? 0 : n - begin < half<T> ? static_cast<int>(n - begin) : half<T>;
    };
    count = width(first) + width(second);
  }
  __device__ std::int64_t operator[](int i) const { return i < half<T> ? first + i : second + i - half<T>; }
};

// --- a small symmetric matrix in shared memory ---
template <class T> struct Small {
  T a[side<T>][side<T> + 1], q[side<T>][side<T> + 1];
  T s[half<T>], t[half<T>], h[half<T>];  // sine, tangent, and tangent of half the angle
  short first[half<T>], second[half<T>], place[side<T>];
};

// (x, y) := (c x - s y, s x + c y) for a sine and h, the tangent of half the angle: with smaller errors than by a
// cosine, which add up over thousands of rotations (Rutishauser, "The Jacobi method for real symmetric matrices",
// 1966).
template <class T> __device__ void rotate(T& x, T& y, T s, T h) {
  const T before = x;
  x -= s * (y + h * before);
  y += s * (before - h * y);
}

inline constexpr int most_small_sweeps = 30;
// Makes a [k, k] diagonal and q, which was the identity, the rotation that does it: q^T a q. For an odd k, row and
// column k must be zero. Returns the number of sweeps that rotated anything.
template <class T> __device__ int make_diagonal(Small<T>& m, int k, const Zero<T>& is_zero) {
  const int even = k + k % 2, pairs = even / 2, me = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  for (int sweep = 0; sweep < most_small_sweeps; ++sweep) {
    bool turned = false;
    for (int round = 0; round < even - 1; ++round) {
      for (int p = me; p < pairs; p += step) {
        const Match match = match_of(p, round, even);
        const int i = match.first, j = match.second;
        T s = 0, t = 0, h = 0;
        if (j < k) {
          const T between = m.a[i][j], here = m.a[i][i], there = m.a[j][j];
          if (!is_zero(between, here, there)) {
            const T theta = (there - here) / (2 * between);
            const T size = std::abs(theta);  // beyond 1e9 its square may overflow, and 1 does not count
            t = (theta < T(0) ? T(-1) : T(1)) / (size + (size < T(1e9) ? std::sqrt(T(1) + size * size) : size));
            const T c = T(1) / std::sqrt(T(1) + t * t);
            s = t * c;
            h = s / (T(1) + c);
            turned = turned || s != T(0);
          }
        }
        m.first[p] = static_cast<short>(i), m.second[p] = static_cast<short>(j);
        m.s[p] = s, m.t[p] = t, m.h[p] = h;
      }
      __syncthreads();
      for (int u = me; u < pairs * pairs; u += step) {  // rows of pair p, columns of pair r
        const int p = u / pairs, r = u % pairs, i = m.first[p], j = m.second[p], x = m.first[r], y = m.second[r];
        const T s = m.s[p], e = m.s[r], h = m.h[p], g = m.h[r];
        if (s == T(0) && e == T(0)) continue;
        T ix = m.a[i][x], iy = m.a[i][y], jx = m.a[j][x], jy = m.a[j][y];
        if (p == r) {
          const T change = m.t[p] * iy;
          m.a[i][x] = ix - change, m.a[j][y] = jy + change;
          m.a[i][y] = m.a[j][x] = T(0);
        } else {
          rotate(ix, iy, e, g), rotate(jx, jy, e, g);
          rotate(ix, jx, s, h), rotate(iy, jy, s, h);
          m.a[i][x] = ix, m.a[i][y] = iy, m.a[j][x] = jx, m.a[j][y] = jy;
        }
      }
      for (int u = me; u < k * pairs; u += step) {
        const int i = u / pairs, r = u % pairs, x = m.first[r], y = m.second[r];
        if (m.s[r] != T(0)) rotate(m.q[i][x], m.q[i][y], m.s[r], m.h[r]);
      }
      __syncthreads();
    }
    if (!__syncthreads_or(turned)) return sweep;
  }
  return most_small_sweeps;
}
// place[c]: where column c comes if the diagonal is to descend. In this order the sweeps converge quadratically also
// for eigenvalues close to each other, which are then neighbours; otherwise they may need many more.
template <class T> __device__ void sort_diagonal(Small<T>& m, int k) {
  for (int c = static_cast<int>(threadIdx.x); c < side<T>; c += static_cast<int>(blockDim.x)) {
    int place = 0;
    for (int i = 0; c < k && i < k; ++i) place += m.a[i][i] > m.a[c][c] || (m.a[i][i] == m.a[c][c] && i < c);
    m.place[c] = static_cast<short>(c < k ? place : c);
  }
  __syncthreads();
}
template <class T> __device__ void set_identity(T (&q)[side<T>][side<T> + 1]) {
  for (int u = static_cast<int>(threadIdx.x); u < side<T> * side<T>; u += static_cast<int>(blockDim.x))
    q[u / side<T>][u % side<T>] = u / side<T> == u % side<T> ? T(1) : T(0);
}

// --- rounds ---
// One round of a sweep over matrices of n columns, and the rotations that it found: of match k of matrix b, q is the
// matrix b * matches + k of turns, [width, width] each, and active says whether it is not the identity.
template <class T> struct Round {
  Progress<T>* progress;
  T* turns;
  int* active;
  std::int64_t count, n;
  int blocks, round, width;

  __host__ __device__ int matches() const { return blocks / 2; }
  __device__ Pair<T> pair(int match) const { return Pair<T>(match, round, blocks, n); }
  __device__ int& is_active(std::int64_t matrix, int match) const { return active[matrix * matches() + match]; }
  __device__ T* turn(std::int64_t matrix, int match) const {
    return turns + (matrix * matches() + match) * width * width;
  }
  __device__ void load_turn(T (&q)[side<T>][side<T> + 1], std::int64_t matrix, int match) const {
    const T* from = turn(matrix, match);
    for (int u = static_cast<int>(threadIdx.x); u < side<T> * side<T>; u += jacobi_threads) {
      const int i = u / side<T>, j = u % side<T>;
      q[i][j] = i < width && j < width ? from[i * width + j] : T(0);
    }
  }
  // Keeps what make_diagonal and sort_diagonal found in m.
  __device__ void keep(const Small<T>& m, std::int64_t matrix, int match, bool turned) const {
    if (threadIdx.x == 0) {
      is_active(matrix, match) = turned;
      if (turned) atomicExch(&progress[matrix].turned, 1);  // other blocks do the same
    }
    T* to = turn(matrix, match);
    for (int u = static_cast<int>(threadIdx.x); turned && u < width * width; u += jacobi_threads)
      to[u / width * width + m.place[u % width]] = m.q[u / width][u % width];
  }
};

// x := x q for the columns of each pair; x [rows, n], column-major. A block for each tile of rows.
template <class T> __global__ void turn_columns_kernel(Round<T> r, Matrices<T> x) {
  wait_for_previous_kernel();
  __shared__ T part[side<T>][side<T> + 1], q[side<T>][side<T> + 1];  // part[column][row]
  constexpr int each = side<T> / 16;
  const int match = static_cast<int>(blockIdx.y), across = static_cast<int>(threadIdx.x) % 16,
            down = static_cast<int>(threadIdx.x) / 16;
  const Pair<T> pair = r.pair(match);
  const std::int64_t first = std::int64_t{blockIdx.x} * side<T>;
  for (std::int64_t matrix = blockIdx.z; matrix < r.count; matrix += gridDim.z) {
    if (r.progress[matrix].done || !r.is_active(matrix, match)) continue;
    r.load_turn(q, matrix, match);
    for (int u = static_cast<int>(threadIdx.x); u < side<T> * side<T>; u += jacobi_threads) {
      const int c = u / side<T>, i = u % side<T>;
      part[c][i] = c < pair.count && first + i < x.rows ? x(matrix, first + i, pair[c]) : T(0);
    }
    __syncthreads();
    T sums[each][each] = {};
    for (int k = 0; k < pair.count; ++k)
#pragma unroll
      for (int i = 0; i < each; ++i)
#pragma unroll
        for (int j = 0; j < each; ++j) sums[i][j] += part[k][across + 16 * i] * q[k][down + 16 * j];
#pragma unroll
    for (int i = 0; i < each; ++i)
#pragma unroll
      for (int j = 0; j < each; ++j) {
        const int row = across + 16 * i, c = down + 16 * j;
        if (c < pair.count && first + row < x.rows) x(matrix, first + row, pair[c]) = sums[i][j];
      }
    __syncthreads();
  }
}

// Ends a sweep: a matrix of which nothing was rotated is done.
template <class T> __global__ void end_sweep_kernel(Progress<T>* progress, std::int64_t count) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  if (!progress[i].turned) progress[i].done = 1;
  progress[i].turned = 0;
}

// Enqueues the sweeps over matrices of n columns: step(round) must diagonalise the pairs and turn their columns.
template <class T, class F>
void sweep(const char* name, Device device, Progress<T>* progress, std::int64_t count, std::int64_t n, F&& step) {
  const auto blocks = static_cast<int>((n + half<T> - 1) / half<T>), even = std::max(2, blocks + blocks % 2);
  const std::int64_t matches = even / 2;
  const auto width = static_cast<int>(std::min<std::int64_t>(n, side<T>));  // many small matrices take little memory
  const Tensor turns = Tensor::allocate(Dims{count, matches, width, width}, dtype_of<T>, device);
  const Tensor active = Tensor::allocate({count, matches}, i32, device);
  // If there is one pair only, it is diagonal after the first sweep but for rounding.
  const int most = even == 2 ? 8 : 24;
  for (int k = 0; k < most; ++k) {
    for (int round = 0; round < even - 1; ++round)
      step(Round<T>{progress, turns.data<T>(), active.data<std::int32_t>(), count, n, even, round, width});
    launch(name, &end_sweep_kernel<T>, grid_for(count), progress, count);
  }
}
template <class T> void turn_columns(const char* name, const Round<T>& round, const Matrices<T>& x) {
  const Grid grid{dim3(static_cast<unsigned>((x.rows + side<T> - 1) / side<T>), static_cast<unsigned>(round.matches()),
                       blocks_for(x.count)),
                  dim3(jacobi_threads)};
  launch(name, &turn_columns_kernel<T>, grid, round, x);
}

// --- scaling before, sorting after ---
// Folds f(i, j) over the elements of a matrix; for a whole block.
template <class Fold, class T, class F> __device__ T fold_elements_of(const Matrices<T>& a, T* scratch, F&& f) {
  T v = Fold::template identity<T>();
  for (std::int64_t u = threadIdx.x; u < a.rows * a.columns; u += blockDim.x)
    v = Fold{}(v, f(u / a.columns, u % a.columns));
  return fold_block<Fold>(v, scratch);
}
// A power of two that brings `most`, the largest absolute value, to [1, 2).
template <class T> __device__ T scale_for(T most) {
  if (most == T(0)) return T(1);
  constexpr int largest = sizeof(T) == 8 ? 1000 : 120;
  const int exponent = -std::ilogb(most);
  return std::ldexp(T(1), exponent < -largest ? -largest : exponent > largest ? largest : exponent);
}

// order[c] := the place of d[c] in ascending or descending order; without NaN in d, or with nothing else.
template <class T>
__global__ void order_kernel(const T* d, std::int64_t count, std::int64_t n, bool descending, std::int32_t* order) {
  wait_for_previous_kernel();
  const std::int64_t c = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (c >= n) return;
  for (std::int64_t matrix = blockIdx.y; matrix < count; matrix += gridDim.y) {
    const T *of = d + matrix * n, mine = of[c];
    std::int64_t place = 0;
    for (std::int64_t k = 0; k < n; ++k)
      place += (descending ? of[k] > mine : of[k] < mine) || (!(of[k] < mine || of[k] > mine) && k < c);
    order[matrix * n + c] = static_cast<std::int32_t>(place);
  }
}
// sorted (f64) := d in that order, without the scale; and whether the sweeps came to an end.
template <class T>
__global__ void store_values_kernel(const Progress<T>* progress, const T* d, const std::int32_t* order,
                                    std::int64_t count, std::int64_t n, double* sorted, std::int64_t item,
                                    std::int64_t step, bool* good) {
  wait_for_previous_kernel();
  const std::int64_t c = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (c >= n) return;
  for (std::int64_t matrix = blockIdx.y; matrix < count; matrix += gridDim.y) {
    const Progress<T> p = progress[matrix];
    const double value = static_cast<double>(d[matrix * n + c]) / static_cast<double>(p.scale);
    sorted[matrix * item + order[matrix * n + c] * step] = p.finite ? value : __builtin_nan("");
    if (c == 0) good[matrix] = p.done != 0;
  }
}
// Row order[c] of `to` := row c of `from`.
template <class T>
__global__ void sort_rows_kernel(const Progress<T>* progress, const std::int32_t* order, Matrices<T> to,
                                 Matrices<const T> from) {
  wait_for_previous_kernel();
  const std::int64_t u = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x, c = u / to.columns, i = u % to.columns;
  if (c >= to.rows) return;
  for (std::int64_t matrix = blockIdx.y; matrix < to.count; matrix += gridDim.y)
    to(matrix, order[matrix * to.rows + c], i) =
        progress[matrix].finite ? from(matrix, c, i) : static_cast<T>(__builtin_nan(""));
}
template <class T> Tensor order_of(const char* name, const Tensor& d, bool descending) {
  const Tensor order = Tensor::allocate(d.sizes(), i32, d.device());
  Grid grid = grid_for(d.size(1));
  grid.blocks.y = blocks_for(d.size(0));
  launch(name, &order_kernel<T>, grid, d.data<T>(), d.size(0), d.size(1), descending, order.data<std::int32_t>());
  return order;
}
template <class T>
void store_values(const char* name, const Progress<T>* progress, const Tensor& d, const Tensor& order,
                  const View& sorted, const View& good) {
  Grid grid = grid_for(d.size(1));
  grid.blocks.y = blocks_for(d.size(0));
  launch(name, &store_values_kernel<T>, grid, progress, d.data<T>(), order.data<std::int32_t>(), d.size(0), d.size(1),
         sorted.as<double>(), sorted.strides[0], sorted.strides[1], good.as<bool>());
}
template <class T>
void sort_rows(const char* name, const Progress<T>* progress, const Tensor& order, const Matrices<T>& to,
               const Matrices<const T>& from) {
  Grid grid = grid_for(to.rows * to.columns);
  grid.blocks.y = blocks_for(to.count);
  launch(name, &sort_rows_kernel<T>, grid, progress, order.data<std::int32_t>(), to, from);
}

}  // namespace mantissa::cuda_backend
