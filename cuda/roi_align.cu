// Averages over parts of rectangles (core/roi_align.h). First a thread for each bin and direction of each region lists
// what it takes of every row or column; then forward a thread sums the pixels of its bin, and backward a thread gathers
// for its pixel what all regions send there, in their order, so that the result is the same in every run.
#include "core/roi_align.h"

#include "cuda/launch.cuh"

namespace mantissa::cuda_backend {
namespace {

struct Space {
  std::int64_t regions, pictures, channels, planes, h, w;  // planes: channels of x
  std::int64_t picture_step, plane_step, row_step, column_step;
  RegionReading how;
  __host__ __device__ std::int64_t lists() const { return how.height + how.width; }  // of a region
  __host__ __device__ std::int64_t length() const { return how.height * h + how.width * w; }
  // Of region k: list i of the rows, and list j of the columns, of shares and of ranges.
  __device__ std::int64_t rows(std::int64_t k, std::int64_t i) const { return k * length() + i * h; }
  __device__ std::int64_t columns(std::int64_t k, std::int64_t j) const { return rows(k, how.height) + j * w; }
};
struct Range {
  int begin, end;  // pixels with a share
};

template <class T>
__global__ void list_shares(T* shares, Range* ranges, const double* boxes, Space s, Note* note) {
  wait_for_previous_kernel();
  const std::int64_t u = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (u >= s.regions * s.lists()) return;
  const std::int64_t k = u / s.lists(), list = u % s.lists();
  const int direction = list < s.how.height ? 0 : 1;
  const std::int64_t bin = direction == 0 ? list : list - s.how.height, size = direction == 0 ? s.h : s.w;
  T* share = shares + (direction == 0 ? s.rows(k, bin) : s.columns(k, bin));
  const double* box = boxes + k * 5;
  const RegionSpan span(box, direction, s.how);
  int begin = static_cast<int>(size), end = 0;
  if (!(box[0] >= 0 && box[0] < static_cast<double>(s.pictures) && box[0] == floor(box[0]))) {
    note_out_of_range(note, 0, static_cast<long long>(box[0]), s.pictures, k);
  } else if (span.points < 0) {
    note_out_of_range(note, 2, k, 0, k);
  } else {
    span.for_shares(bin, size, [&](std::int64_t pixel, double) {
      const int p = static_cast<int>(pixel);
      begin = p < begin ? p : begin;
      end = p >= end ? p + 1 : end;
    });
    for (int p = begin; p < end; ++p) share[p] = 0;
    span.for_shares(bin, size, [&](std::int64_t pixel, double part) { share[pixel] += static_cast<T>(part); });
  }
  ranges[u] = {begin, end};
}

template <class T>
__global__ void sum_bins(T* y, const T* x, const double* boxes, const T* shares, const Range* ranges, Space s) {
  wait_for_previous_kernel();
  const std::int64_t u = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x, bins = s.how.height * s.how.width;
  if (u >= s.regions * s.channels * bins) return;
  const std::int64_t bin = u % bins, c = u / bins % s.channels, k = u / bins / s.channels;
  const std::int64_t i = bin / s.how.width, j = bin % s.how.width;
  const Range rows = ranges[k * s.lists() + i], columns = ranges[k * s.lists() + s.how.height + j];
  T sum = 0;
  if (rows.begin < rows.end && columns.begin < columns.end) {
    const std::int64_t plane = s.how.by_position ? c * bins + bin : c;
    const T* image = x + static_cast<std::int64_t>(boxes[k * 5]) * s.picture_step + plane * s.plane_step;
    const T *of_rows = shares + s.rows(k, i), *of_columns = shares + s.columns(k, j);
    for (int r = rows.begin; r < rows.end; ++r) {
      T line = 0;
      const T* pixels = image + r * s.row_step;
      for (int q = columns.begin; q < columns.end; ++q) line += of_columns[q] * pixels[q * s.column_step];
      sum += of_rows[r] * line;
    }
  }
  y[u] = sum;
}

constexpr int group = 8;  // planes of x per thread, which share the search for regions

// A thread for each pixel of each picture, and for each group of planes (blockIdx.y).
template <class T>
__global__ void gather_regions(T* dx, const T* g, const double* boxes, const T* shares, const Range* ranges, Space s) {
  wait_for_previous_kernel();
  const std::int64_t u = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x, bins = s.how.height * s.how.width;
  if (u >= s.pictures * s.h * s.w) return;
  const std::int64_t n = u / (s.h * s.w);
  const int r = static_cast<int>(u / s.w % s.h), q = static_cast<int>(u % s.w);
  for (std::int64_t first = std::int64_t{blockIdx.y} * group; first < s.planes;
       first += std::int64_t{gridDim.y} * group) {
    T sums[group] = {};
    for (std::int64_t k = 0; k < s.regions; ++k) {
      if (boxes[k * 5] != static_cast<double>(n)) continue;
      const Range* of_region = ranges + k * s.lists();
      for (std::int64_t i = 0; i < s.how.height; ++i) {
        if (r < of_region[i].begin || r >= of_region[i].end) continue;
        const T of_row = shares[s.rows(k, i) + r];
        for (std::int64_t j = 0; j < s.how.width; ++j) {
          const Range columns = of_region[s.how.height + j];
          if (q < columns.begin || q >= columns.end) continue;
          const T share = of_row * shares[s.columns(k, j) + q];
          const std::int64_t bin = i * s.how.width + j;
#pragma unroll
          for (int p = 0; p < group; ++p) {
            const std::int64_t plane = first + p;
            if (plane >= s.planes || (s.how.by_position && plane % bins != bin)) continue;
            const std::int64_t c = s.how.by_position ? plane / bins : plane;
            sums[p] += share * g[(k * s.channels + c) * bins + bin];
          }
        }
      }
    }
#pragma unroll
    for (int p = 0; p < group; ++p)
      if (first + p < s.planes)
        dx[n * s.picture_step + (first + p) * s.plane_step + r * s.row_step + q * s.column_step] = sums[p];
  }
}

// Lists the shares, and calls f(shares, ranges).
template <class T, class F> void with_shares(const char* name, const Space& s, const View& boxes, const F& f) {
  const Tensor shares = Tensor::allocate({s.regions, s.length()}, dtype_of<T>, boxes.device);
  const Tensor ranges = Tensor::allocate({s.regions, s.lists(), 2}, i32, boxes.device);
  auto* of = reinterpret_cast<Range*>(ranges.data<std::int32_t>());
  launch(name, &list_shares<T>, grid_for(s.regions * s.lists()), shares.data<T>(), of, boxes.as<const double>(), s,
         note());
  f(shares.data<T>(), of);
}
Space space_of(const View& y, const View& x, const RegionReading& how) {
  return {y.sizes[0],   x.sizes[0],   y.sizes[1],   x.sizes[1],   x.sizes[2], x.sizes[3],
          x.strides[0], x.strides[1], x.strides[2], x.strides[3], how};
}

template <class T> void forward(const View& y, const View& x, const View& boxes, const RegionReading& how) {
  const Space s = space_of(y, x, how);
  with_shares<T>("roi_align", s, boxes, [&](const T* shares, const Range* ranges) {
    launch("roi_align", &sum_bins<T>, grid_for(y.numel()), y.as<T>(), x.as<const T>(), boxes.as<const double>(),
           shares, ranges, s);
  });
}
template <class T> void backward(const View& dx, const View& g, const View& boxes, const RegionReading& how) {
  const Space s = space_of(g, dx, how);
  with_shares<T>("roi_align_gradient", s, boxes, [&](const T* shares, const Range* ranges) {
    Grid grid = grid_for(s.pictures * s.h * s.w);
    grid.blocks.y = static_cast<unsigned>(std::min<std::int64_t>((s.planes + group - 1) / group, 65535));
    launch("roi_align_gradient", &gather_regions<T>, grid, dx.as<T>(), g.as<const T>(), boxes.as<const double>(),
           shares, ranges, s);
  });
}

}  // namespace

void average_regions(const View& y, const View& x, const View& boxes, const RegionReading& how) {
  if (x.dtype == f32) forward<float>(y, x, boxes, how);
  else forward<double>(y, x, boxes, how);
}
void average_regions_gradient(const View& dx, const View& g, const View& boxes, const RegionReading& how) {
  if (dx.dtype == f32) backward<float>(dx, g, boxes, how);
  else backward<double>(dx, g, boxes, how);
}

}  // namespace mantissa::cuda_backend
