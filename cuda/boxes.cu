// Non-maximum suppression (nn/boxes.h) of boxes in the order of their scores: of all pairs a kernel writes a bit that
// says whether the earlier box would suppress the later one; then one block goes through the boxes, 64 at a time, and
// drops what the kept ones suppress. In chunks of rows, so that many boxes need little memory.
#include "core/kernel.h"
#include "cuda/launch.cuh"
#include "cuda/vec.cuh"

namespace mantissa {
MANTISSA_CUDA_KERNEL(suppress_boxes, const View& kept, const View& boxes, const View& classes, double threshold)
MANTISSA_KERNEL(fill, const View& y, double value)
}  // namespace mantissa

namespace mantissa::cuda_backend {
namespace {

constexpr int group = 64;  // boxes per word of bits
constexpr std::int64_t rows_at_once = 4096;
using Bits = unsigned long long;

template <class T> struct Box {
  T x1, y1, x2, y2, area;
  std::int64_t kind;  // only boxes of one class suppress each other
};
template <class T> struct Boxes {
  const T* corners;             // [n, 4]
  const std::int64_t* classes;  // [n], or null
  std::int64_t n;
  double threshold;
  __device__ Box<T> operator[](std::int64_t i) const {
    const T* b = corners + 4 * i;
    return {b[0], b[1], b[2], b[3], (b[2] - b[0]) * (b[3] - b[1]), classes ? classes[i] : 0};
  }
};
template <class T> __device__ T between(T low, T high) { return high > low ? high - low : T(0); }
// As the CPU rounds it; 0 / 0 (NaN) compares false.
template <class T> __device__ bool suppresses(const Box<T>& a, const Box<T>& b, double threshold) {
  const T width = between(a.x1 > b.x1 ? a.x1 : b.x1, a.x2 < b.x2 ? a.x2 : b.x2);
  const T height = between(a.y1 > b.y1 ? a.y1 : b.y1, a.y2 < b.y2 ? a.y2 : b.y2);
  const T both = width * height, either = add_apart(add_apart(a.area, b.area), -both);
  return a.kind == b.kind && static_cast<double>(both / either) > threshold;
}

// Bit k of word blockIdx.x in row i of `bits`: whether box first + i suppresses box blockIdx.x * 64 + k after it.
template <class T> __global__ void pairs_kernel(Bits* bits, Boxes<T> boxes, std::int64_t first, std::int64_t words) {
  wait_for_previous_kernel();
  __shared__ Box<T> others[group];
  const int me = static_cast<int>(threadIdx.x);
  const std::int64_t begin = std::int64_t{blockIdx.x} * group, i = std::int64_t{blockIdx.y} * group + me;
  if (begin + me < boxes.n) others[me] = boxes[begin + me];
  __syncthreads();
  if (first + i >= boxes.n) return;
  const Box<T> mine = boxes[first + i];
  Bits word = 0;
  for (int k = 0; k < group && begin + k < boxes.n; ++k)
    if (begin + k > first + i && suppresses(mine, others[k], boxes.threshold)) word |= Bits{1} << k;
  bits[i * words + blockIdx.x] = word;
}

// One block, for the rows [first, last) whose bits are known. gone: a bit for every box.
__global__ void keep_kernel(bool* kept, Bits* gone, const Bits* bits, std::int64_t first, std::int64_t last,
                            std::int64_t words) {
  wait_for_previous_kernel();
  __shared__ Bits among[group], chosen;
  const int me = static_cast<int>(threadIdx.x);
  for (std::int64_t begin = first; begin < last; begin += group) {
    const std::int64_t word = begin / group, left = last - begin;
    const int count = left < group ? static_cast<int>(left) : group;
    const Bits* const rows = bits + (begin - first) * words;
    if (me < count) among[me] = rows[me * words + word];
    __syncthreads();
    if (me == 0) {
      Bits dropped = gone[word], keep = 0;
      for (int i = 0; i < count; ++i) {
        if (dropped >> i & 1) continue;
        keep |= Bits{1} << i;
        dropped |= among[i];
      }
      chosen = keep;
    }
    __syncthreads();
    if (me < count) kept[begin + me] = (chosen >> me & 1) != 0;
    for (std::int64_t w = word + 1 + me; w < words; w += blockDim.x) {
      Bits all = gone[w];
      for (int i = 0; i < count; ++i)
        if (chosen >> i & 1) all |= rows[i * words + w];
      gone[w] = all;
    }
    __syncthreads();
  }
}

template <class T> void suppress(const View& kept, const Boxes<T>& boxes) {
  const std::int64_t n = boxes.n, words = (n + group - 1) / group;
  const Tensor gone = Tensor::allocate({words}, i64, kept.device);
  const Tensor memory = Tensor::allocate({std::min(n, rows_at_once), words}, i64, kept.device);
  kernels::fill(kept.device, gone.view(), 0.0);
  auto* const bits = static_cast<Bits*>(memory.raw_data());
  for (std::int64_t first = 0; first < n; first += rows_at_once) {
    const std::int64_t last = std::min(n, first + rows_at_once);
    const Grid pairs{dim3(static_cast<unsigned>(words), static_cast<unsigned>((last - first + group - 1) / group)),
                     dim3(group)};
    launch("nms", &pairs_kernel<T>, pairs, bits, boxes, first, words);
    launch("nms", &keep_kernel, Grid{dim3(1), dim3(512)}, kept.as<bool>(), static_cast<Bits*>(gone.raw_data()), bits,
           first, last, words);
  }
}

}  // namespace

void suppress_boxes(const View& kept, const View& boxes, const View& classes, double threshold) {
  if (kept.numel() == 0) return;
  const auto* kinds = classes ? classes.as<const std::int64_t>() : nullptr;
  if (boxes.dtype == f64) suppress<double>(kept, {boxes.as<const double>(), kinds, boxes.size(0), threshold});
  else suppress<float>(kept, {boxes.as<const float>(), kinds, boxes.size(0), threshold});
}

}  // namespace mantissa::cuda_backend
