// Kernels that read an index tensor. The kernel that reads an out-of-range index records it and skips it; the error is
// thrown when the host next waits. Writes to the same element happen in index order, as on the CPU: in scatter the last
// one wins, and scatter_add and scatter_reduce fold in order (more than 64 elements in parts), so results are bitwise
// reproducible. Mirrors core/cpu/index.cpp and scatter_reduce.cpp.
#include "core/kernel.h"
#include "core/visit_word.h"
#include "cuda/sorting.cuh"

namespace mantissa {
MANTISSA_KERNEL(check_indices, const View& index, std::int64_t size)
MANTISSA_KERNEL(gather, const View& y, const View& x, int dim, const View& index)
MANTISSA_KERNEL(scatter_add, const View& y, int dim, const View& index, const View& source)
MANTISSA_KERNEL(scatter, const View& y, int dim, const View& index, const View& source)
MANTISSA_KERNEL(scatter_reduce, const View& y, const View& index, const View& source, int kind)
MANTISSA_KERNEL(add_bags, const View& y, const View& g, const View& indices, const View& offsets)
}

namespace mantissa::cuda_backend {

void copy(const View& y, const View& x);  // cuda/copy.cu

namespace {

// A launch over the elements of an index: its lines along `dim`, and the lines of the other two tensors.
struct IndexWalk {
  LinesOf index, a, b;
  std::int64_t lines = 0, length = 0;  // of the index
  std::int64_t size = 0;               // indices are below this
};
__device__ inline bool inside(std::int64_t at, std::int64_t size) { return at >= 0 && at < size; }
// The same, for the kernel that reads an index first.
__device__ inline bool inside_or_noted(std::int64_t at, std::int64_t size, Note* note) {
  if (inside(at, size)) return true;
  note_out_of_range(note, 0, at, size, 0);
  return false;
}
Dims without(Dims d, int dim) {
  d.erase(dim);
  return d;
}
// Lines are numbered by the sizes of `index` without dim, regardless of the other tensors' sizes.
IndexWalk walk_along(const View& index, const View& a, const View& b, int dim, std::int64_t size) {
  IndexWalk w;
  w.index = LinesOf(index.sizes, index.strides, dim);
  w.a = w.b = w.index;
  w.a.start = Offsets(without(index.sizes, dim), without(a.strides, dim));
  w.a.step = a.strides[dim];
  w.b.start = Offsets(without(index.sizes, dim), without(b.strides, dim));
  w.b.step = b.strides[dim];
  w.length = index.sizes[dim];
  w.lines = w.length > 0 ? index.numel() / w.length : 0;
  w.size = size;
  return w;
}

// Whether all lines have the same index, as when whole rows are written.
bool is_shared(const IndexWalk& w) {
  for (int d = 0; d < w.index.start.rank; ++d) {
    if (w.index.start.strides[d] != 0 && w.index.start.sizes[d] != 1) return false;
  }
  return true;
}

__global__ void check_indices_kernel(const std::int64_t* index, Offsets walk, std::int64_t n, std::int64_t size,
                                     Note* out) {
  wait_for_previous_kernel();
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    (void)inside_or_noted(index[walk(i)], size, out);
  }
}

// y has the index's sizes. Neighbouring threads handle neighbours in memory.
template <class Word>
__global__ void gather_kernel(Word* y, const Word* x, const std::int64_t* index, Offsets y_at, Offsets x_at,
                              Offsets index_at, std::int64_t x_step, std::int64_t n, std::int64_t size, Note* note) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const std::int64_t at = index[index_at(i)];
  Word value{};
  if (inside_or_noted(at, size, note)) value = x[x_at(i) + at * x_step];
  y[y_at(i)] = value;
}
template <class Word>
void gather_words(const View& y, const View& x, int dim, const View& index, std::int64_t inner_scale) {
  Dims sizes = y.sizes, ys = y.strides, xs = x.strides, is = index.strides;
  std::int64_t step = xs[dim];
  xs[dim] = 0;
  if (inner_scale > 1) {  // 16-byte words hold this many elements of the innermost dimension
    for (Dims* d : {&ys, &xs}) {
      for (int k = 0; k + 1 < sizes.rank(); ++k) (*d)[k] /= inner_scale;
    }
    sizes.back() /= inner_scale;
    step /= inner_scale;
  }
  const std::int64_t n = numel_of(sizes);
  launch("gather", &gather_kernel<Word>, grid_for(n), y.as<Word>(), x.as<const Word>(), index.as<const std::int64_t>(),
         Offsets(sizes, ys), Offsets(sizes, xs), Offsets(sizes, is), step, n, x.sizes[dim], note());
}
// Whether whole rows can be copied in 16-byte words, as for an embedding.
bool moves_16_bytes(const View& y, const View& x, int dim, const View& index) {
  const int inner = y.dim() - 1;
  if (dim == inner || index.strides[inner] != 0 || y.strides[inner] != 1 || x.strides[inner] != 1) return false;
  const auto per = static_cast<std::int64_t>(16 / size_of(y.dtype));
  bool fits = y.sizes[inner] % per == 0;
  for (const View* v : {&y, &x}) {
    fits = fits && reinterpret_cast<std::uintptr_t>(v->data) % 16 == 0;
    for (int d = 0; d < inner; ++d) fits = fits && v->strides[d] % per == 0;
  }
  return fits;
}

// --- scatter: the last position with the same target wins ---
// winner[lists][targets]: one list for each line, or for all of them if they have the same index.
__global__ void claim_kernel(long long* winner, const std::int64_t* index, IndexWalk w, std::int64_t lists,
                             std::int64_t targets, Note* note) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= lists * w.length) return;
  const std::int64_t line = i / w.length, k = i % w.length, at = index[w.index.start(line) + k * w.index.step];
  if (inside_or_noted(at, w.size, note)) atomicMax(winner + line * targets + at, static_cast<long long>(k));
}
template <class Word>
__global__ void scatter_kernel(Word* y, const Word* source, const long long* winner, const std::int64_t* index,
                               IndexWalk w, std::int64_t lists, std::int64_t targets) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= w.lines * w.length) return;
  const std::int64_t line = i / w.length, k = i % w.length, at = index[w.index.start(line) + k * w.index.step];
  if (!inside(at, w.size) || winner[(lists == 1 ? 0 : line) * targets + at] != k) return;
  y[w.a.start(line) + at * w.a.step] = source[w.b.start(line) + k * w.b.step];
}

// --- scatter_add and scatter_reduce ---
// One thread per line processes it in order: for many lines, or short ones.
template <class Fold, class T>
__global__ void fold_lines_kernel(T* y, const T* source, const std::int64_t* index, IndexWalk w, Note* note) {
  wait_for_previous_kernel();
  const std::int64_t line = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (line >= w.lines) return;
  const std::int64_t* at = index + w.index.start(line);
  T* to = y + w.a.start(line);
  const T* from = source + w.b.start(line);
  for (std::int64_t i = 0; i < w.length; ++i) {
    const std::int64_t k = at[i * w.index.step];
    if (!inside_or_noted(k, w.size, note)) continue;
    if constexpr (sizeof(T) == 2) {  // f16 and bf16 are folded in f32 and rounded once, after the last one
      bool first = true;
      for (std::int64_t j = 0; j < i && first; ++j) first = at[j * w.index.step] != k;
      if (!first) continue;
      Compute<T> sum = static_cast<Compute<T>>(to[k * w.a.step]);
      for (std::int64_t j = i; j < w.length; ++j) {
        if (at[j * w.index.step] == k) sum = Fold{}(sum, static_cast<Compute<T>>(from[j * w.b.step]));
      }
      to[k * w.a.step] = static_cast<T>(sum);
    } else {
      to[k * w.a.step] = static_cast<T>(Fold{}(to[k * w.a.step], from[i * w.b.step]));
    }
  }
}

inline constexpr std::uint64_t no_key = ~std::uint64_t{0};  // of an index out of range
__global__ void index_keys_kernel(std::uint64_t* keys, const std::int64_t* index, IndexWalk w, std::int64_t lines,
                                  Note* note) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= lines * w.length) return;
  const std::int64_t v = index[w.index.start(i / w.length) + i % w.length * w.index.step];
  keys[i] = inside_or_noted(v, w.size, note) ? static_cast<std::uint64_t>(v) : no_key;
}
// keys and positions sorted by (index, position): a run is what has one index, and is folded in order. threadIdx.x
// covers lines (contiguous in memory), threadIdx.y and blockIdx.y entries; with `shared` one sorted list serves all
// lines.
// A long run, as of a table with few rows, is divided at the places that are multiples of run_part: the thread of its
// first entry folds up to the first such place at least run_part further, those of the following places a part each.
inline constexpr std::int64_t run_part = 64;
__device__ inline bool continues(const std::uint64_t* keys, std::int64_t at, std::int64_t back) {
  return at >= back && keys[at - back] == keys[at];
}

// Folds runs onto y, but of long ones each part into parts[line][place of its end / run_part - 1].
template <class Fold, class T>
__global__ void fold_runs_kernel(T* y, const T* source, const std::uint64_t* keys, const std::uint32_t* positions,
                                 Compute<T>* parts, std::int64_t most_parts, IndexWalk w, bool shared) {
  wait_for_previous_kernel();
  const std::int64_t line = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t first = std::int64_t{blockIdx.y} * blockDim.y + threadIdx.y;
  if (line >= w.lines) return;
  const std::int64_t list = shared ? 0 : line * w.length;
  keys += list;
  positions += list;
  const T* from = source + w.b.start(line);
  for (std::int64_t j = first; j < w.length; j += std::int64_t{gridDim.y} * blockDim.y) {
    const std::uint64_t key = keys[j];
    const bool begins = !continues(keys, j, 1);
    if (key == no_key || !(begins || (j % run_part == 0 && continues(keys, j, run_part)))) continue;
    T* to = y + w.a.start(line) + static_cast<std::int64_t>(key) * w.a.step;
    Compute<T> sum = static_cast<Compute<T>>(begins ? *to : from[positions[j] * w.b.step]);
    const std::int64_t cut = (j + (begins ? 2 * run_part - 1 : run_part)) / run_part * run_part;
    std::int64_t end = j + 1;  // found first, so that elements are loaded ahead of their turn
    while (end < cut && end < w.length && keys[end] == key) ++end;
#pragma unroll 4
    for (std::int64_t k = begins ? j : j + 1; k < end; ++k)
      sum = Fold{}(sum, static_cast<Compute<T>>(from[positions[k] * w.b.step]));
    const bool is_long = !begins || (end == cut && end < w.length && keys[end] == key);
    if (is_long) parts[line * most_parts + cut / run_part - 1] = sum;
    else *to = static_cast<T>(sum);
  }
}
// Folds the parts of long runs, in order.
template <class Fold, class T>
__global__ void fold_parts_kernel(T* y, const std::uint64_t* keys, const Compute<T>* parts, std::int64_t most_parts,
                                  IndexWalk w, bool shared) {
  wait_for_previous_kernel();
  const std::int64_t line = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t first = std::int64_t{blockIdx.y} * blockDim.y + threadIdx.y;
  if (line >= w.lines) return;
  keys += shared ? 0 : line * w.length;
  for (std::int64_t p = first; (p + 1) * run_part < w.length; p += std::int64_t{gridDim.y} * blockDim.y) {
    // whether the part that ends at `next` is the first one of a long run
    const std::int64_t next = (p + 1) * run_part;
    const std::uint64_t key = keys[next];
    if (key == no_key || !continues(keys, next, run_part) || continues(keys, next, 2 * run_part)) continue;
    const Compute<T>* part = parts + line * most_parts;
    Compute<T> sum = part[p];
    for (std::int64_t k = p + 1; k * run_part < w.length && keys[k * run_part] == key; ++k) sum = Fold{}(sum, part[k]);
    y[w.a.start(line) + static_cast<std::int64_t>(key) * w.a.step] = static_cast<T>(sum);
  }
}

SortedLines sort_indices(const char* name, const IndexWalk& w, const View& index, std::int64_t lists) {
  const Tensor keys = Tensor::allocate({lists, w.length}, i64, index.device);
  launch(name, &index_keys_kernel, grid_for(lists * w.length), static_cast<std::uint64_t*>(keys.raw_data()),
         index.as<const std::int64_t>(), w, lists, note());
  return sort_lines(keys, lists, w.length);
}
template <class Fold, class T>
void fold_sorted(const char* name, const View& y, const View& source, const SortedLines& s, const IndexWalk& w,
                 bool shared) {
  const unsigned across = w.lines >= 32 ? 32 : 1, down = 256 / across;
  const auto grid_over = [&](std::int64_t entries) {
    return Grid{dim3(static_cast<unsigned>((w.lines + across - 1) / across),
                     static_cast<unsigned>(std::clamp<std::int64_t>((entries + down - 1) / down, 1, 4096))),
                dim3(across, down)};
  };
  const std::int64_t most_parts = w.length > run_part ? (w.length + run_part - 1) / run_part : 0;
  const Tensor parts = Tensor::allocate({w.lines, most_parts}, dtype_of<Compute<T>>, y.device);
  const auto* sorted = static_cast<const std::uint64_t*>(s.keys.raw_data());
  auto* sums = static_cast<Compute<T>*>(parts.raw_data());
  launch(name, &fold_runs_kernel<Fold, T>, grid_over(w.length), y.as<T>(), source.as<const T>(), sorted,
         static_cast<const std::uint32_t*>(s.positions.raw_data()), sums, most_parts, w, shared);
  if (most_parts == 0) return;
  launch(name, &fold_parts_kernel<Fold, T>, grid_over(most_parts), y.as<T>(), sorted, sums, most_parts, w, shared);
}
template <class Fold, class T>
void fold_in_order(const char* name, const View& y, const View& index, const View& source, const IndexWalk& w) {
  if (w.length <= 16 || (w.lines >= 65536 && w.length <= 256 && sizeof(T) != 2)) {
    return launch(name, &fold_lines_kernel<Fold, T>, grid_for(w.lines), y.as<T>(), source.as<const T>(),
                  index.as<const std::int64_t>(), w, note());
  }
  const bool shared = is_shared(w);
  fold_sorted<Fold, T>(name, y, source, sort_indices(name, w, index, shared ? 1 : w.lines), w, shared);
}

// Replaces positions by the bags that they belong to.
__global__ void find_bags_kernel(std::uint32_t* positions, std::int64_t n, const std::int64_t* offsets,
                                 std::int64_t bags) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  std::int64_t low = 0, high = bags;  // the last bag that begins at or before the position
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    (offsets[middle] <= positions[i] ? low : high) = middle;
  }
  positions[i] = static_cast<std::uint32_t>(low);
}

}  // namespace

void check_indices(const View& index, std::int64_t size) {
  const std::int64_t n = index.numel();
  if (n == 0) return;
  const Dims* strides[] = {&index.strides};
  const Loop loop = collapse(index.sizes, strides, 1);
  launch("check_indices", &check_indices_kernel, grid_for(n, 4), index.as<const std::int64_t>(),
         Offsets(loop.sizes, loop.strides[0]), n, size, note());
}

void gather(const View& y, const View& x, int dim, const View& index) {
  if (y.numel() == 0) return;
  if (moves_16_bytes(y, x, dim, index))
    return gather_words<uint4>(y, x, dim, index, static_cast<std::int64_t>(16 / size_of(y.dtype)));
  visit_word(y.dtype, [&]<class Word>() { gather_words<Word>(y, x, dim, index, 1); });
}

void scatter(const View& y, int dim, const View& index, const View& source) {
  if (index.numel() == 0) return;
  const IndexWalk w = walk_along(index, y, source, dim, y.sizes[dim]);
  const std::int64_t targets = y.sizes[dim], lists = is_shared(w) ? 1 : w.lines;
  const Tensor winner = Tensor::allocate({lists, targets}, i64, y.device).fill_(-1);
  const std::int64_t* at = index.as<const std::int64_t>();
  launch("scatter", &claim_kernel, grid_for(lists * w.length), static_cast<long long*>(winner.raw_data()), at, w, lists,
         targets, note());
  visit_word(y.dtype, [&]<class Word>() {
    launch("scatter", &scatter_kernel<Word>, grid_for(w.lines * w.length), y.as<Word>(), source.as<const Word>(),
           static_cast<const long long*>(winner.raw_data()), at, w, lists, targets);
  });
}

void scatter_add(const View& y, int dim, const View& index, const View& source) {
  if (index.numel() == 0) return;
  const IndexWalk w = walk_along(index, y, source, dim, y.sizes[dim]);
  visit(y.dtype, [&]<class T>() { fold_in_order<Sum, T>("scatter_add", y, index, source, w); });
}

// Along the last dimension; y is as wide as its sums. kind: 0 product, 1 largest, 2 smallest; NaN wins.
void scatter_reduce(const View& y, const View& index, const View& source, int kind) {
  if (index.numel() == 0) return;
  Tensor wide;
  View from = source;
  if (source.dtype != y.dtype) {
    wide = Tensor::allocate(source.sizes, y.dtype, y.device);
    copy(from = wide.view(), source);
  }
  const int dim = y.dim() - 1;
  const IndexWalk w = walk_along(index, y, from, dim, y.sizes[dim]);
  visit_compute_any(y.dtype, [&]<class C>() {
    const auto fold = [&]<class Fold>(Fold) { fold_in_order<Fold, C>("scatter_reduce", y, index, from, w); };
    if (kind == 0) fold(Prod{});
    else if (kind == 1) fold(Max{});
    else fold(Min{});
  });
}

void add_bags(const View& y, const View& g, const View& indices, const View& offsets) {
  if (indices.numel() == 0 || y.numel() == 0) return;
  View index = indices;  // of every column
  index.sizes = {indices.numel(), y.sizes[1]};
  index.strides = {1, 0};
  const IndexWalk w = walk_along(index, y, g, 0, y.sizes[0]);
  const SortedLines s = sort_indices("add_bags", w, index, 1);
  launch("add_bags", &find_bags_kernel, grid_for(w.length), static_cast<std::uint32_t*>(s.positions.raw_data()),
         w.length, offsets.as<const std::int64_t>(), g.sizes[0]);
  visit_floating(y.dtype, [&]<class T>() { fold_sorted<Sum, T>("add_bags", y, g, s, w, true); });
}

}  // namespace mantissa::cuda_backend
