// Shared by the two implementations of batch norm: for planes of one channel (cuda/batch_norm.cu) and for channels that
// are contiguous in memory (cuda/batch_norm_channels.cu). A channel's elements are split into stretches, depending on
// the shape only; blocks sum one stretch each, then a block combines the stretches of 32 channels in a fixed order.
// Both can end in y = max(0, normalized + z). Without z backward recomputes the ReLU mask from x; with z it takes the
// mask from the result y, and the first pass writes the masked gradient (which is that of z) for the second to read.
#pragma once

#include "core/batch_norm.h"
#include "cuda/rows.cuh"

namespace mantissa::cuda_backend {

void batch_norm_channels(const BatchNormForward& f);
void batch_norm_channels_backward(const BatchNormGradient& f);

struct Stretches {
  std::int64_t total = 0, length = 1, count = 1;  // elements of a channel, of a stretch; number of stretches
  __device__ std::int64_t elements(std::int64_t s) const {
    return total - s * length < length ? total - s * length : length;
  }
};

// Sums over the threads of a block with the same threadIdx.x, blockDim.y <= 32; all threads get the result.
template <class C> __device__ inline C fold_down(C v, C (*scratch)[32]) {
  scratch[threadIdx.y][threadIdx.x] = v;
  __syncthreads();
  C sum = 0;
  for (unsigned i = 0; i < blockDim.y; ++i) sum += scratch[i][threadIdx.x];
  __syncthreads();
  return sum;
}
inline constexpr int joining_rows = 16;
inline Grid grid_of_joins(std::int64_t channels) {
  return {dim3(static_cast<unsigned>((channels + 31) / 32)), dim3(32, joining_rows)};
}

struct RunningStatistic {
  void* data;
  Dtype dtype;
  std::int64_t stride;
  RunningStatistic(const View& v) : data(v.data), dtype(v.dtype), stride(v ? v.strides[0] : 0) {}
  template <class C> __device__ C at(std::int64_t c) const { return load_element<C>(data, dtype, c * stride); }
  template <class C> __device__ void move(std::int64_t c, C to, double momentum) const {
    if (data) store_element(data, dtype, c * stride, C(1 - momentum) * at<C>(c) + C(momentum) * to);
  }
};

// Statistics are computed on differences from the first element of each channel: in sums of x itself a large mean would
// cause rounding errors. `apart`: elements of x from one channel to the next.
struct FirstElements {
  RowOperand x;
  std::int64_t apart, total;
  template <class C> __device__ C at(std::int64_t c) const {
    return total > 0 ? load_element<C>(x.data, x.dtype, c * apart) : C(0);
  }
};

// partial: per stretch, the means of all channels relative to the first elements, followed by the sums of (x - mean)^2.
// Results: the batch's mean and 1 / sqrt(biased variance + eps); running statistics move towards the mean and unbiased
// variance, and `batches` counts. Without training the running statistics are used. Combined as in Chan, Golub and
// LeVeque, 1979.
template <class C>
__global__ void __launch_bounds__(32 * joining_rows)
    batch_norm_statistics(std::int64_t channels, Stretches stretches, C* means, C* inv_stds, const C* partial,
                          FirstElements first, RunningStatistic running_mean, RunningStatistic running_var,
                          std::int64_t* batches, bool training, double momentum, C eps) {
  wait_for_previous_kernel();
  __shared__ C scratch[joining_rows][32];
  const std::int64_t c = std::int64_t{blockIdx.x} * 32 + threadIdx.x;
  C mean = 0, var = 0;
  if (training) {
    if (batches && c == 0 && threadIdx.y == 0) ++*batches;
    C sum = 0, squares = 0;
    for (std::int64_t s = threadIdx.y; s < stretches.count && c < channels; s += joining_rows) {
      sum += C(stretches.elements(s)) * partial[2 * s * channels + c];
    }
    mean = fold_down(sum, scratch) / C(stretches.total);
    for (std::int64_t s = threadIdx.y; s < stretches.count && c < channels; s += joining_rows) {
      const C away = partial[2 * s * channels + c] - mean;
      squares += partial[(2 * s + 1) * channels + c] + C(stretches.elements(s)) * away * away;
    }
    squares = fold_down(squares, scratch);
    if (threadIdx.y != 0 || c >= channels) return;
    mean += first.at<C>(c);
    var = squares / C(stretches.total);
    if (stretches.total > 1) {
      running_mean.move(c, mean, momentum);
      running_var.move(c, squares / C(stretches.total - 1), momentum);
    }
  } else {
    if (threadIdx.y != 0 || c >= channels) return;
    mean = running_mean.at<C>(c);
    var = running_var.at<C>(c);
  }
  means[c] = mean, inv_stds[c] = C(1) / std::sqrt(var + eps);
}

// partial: per stretch, the sums of u of all channels, then those of u * (x - mean), where u is the gradient after the
// activation. The totals replace those of the first stretch, and are written to the results.
template <class C>
__global__ void __launch_bounds__(32 * joining_rows)
    batch_norm_sums(std::int64_t channels, Stretches stretches, C* partial, RowOperand dweight, RowOperand dbias,
                    const C* inv_stds) {
  wait_for_previous_kernel();
  __shared__ C scratch[joining_rows][32];
  const std::int64_t c = std::int64_t{blockIdx.x} * 32 + threadIdx.x;
  C db = 0, dw = 0;
  for (std::int64_t s = threadIdx.y; s < stretches.count && c < channels; s += joining_rows) {
    db += partial[2 * s * channels + c];
    dw += partial[(2 * s + 1) * channels + c];
  }
  db = fold_down(db, scratch);
  dw = fold_down(dw, scratch);
  if (threadIdx.y != 0 || c >= channels) return;
  partial[c] = db;
  partial[channels + c] = dw;
  store_element(dbias.data, dbias.dtype, c, db);
  store_element(dweight.data, dweight.dtype, c, dw * inv_stds[c]);
}

// Normalizes an element of a channel. The formula (x - mean) * scale + shift is evaluated in this order, so that a
// large mean costs no precision; forward and backward share it, so that they agree on the ReLU mask.
template <class C> struct Normalise {
  C mean, scale, shift;
  Normalise() = default;
  __device__ Normalise(std::int64_t c, const C* means, const C* inv_stds, const RowOperand& weight,
                       const RowOperand& bias)
      : mean(means[c]), scale(weight.data ? inv_stds[c] * load_element<C>(weight.data, weight.dtype, c) : inv_stds[c]),
        shift(bias.data ? load_element<C>(bias.data, bias.dtype, c) : C(0)) {}
  __device__ C operator()(C x) const { return (x - mean) * scale + shift; }
};
template <class C> __device__ inline C rectified(C v) { return v < C(0) ? C(0) : v; }  // NaN stays, as in relu
template <class C> __device__ inline C let_through(C g, C result) { return result <= C(0) ? C(0) : g; }

// Training: dx = weight * inv_std * (u - mean(u) - (x - mean) * inv_std^2 * mean(u * (x - mean))). Otherwise the
// statistics are constants: dx = weight * inv_std * u. n: elements per channel.
template <class C> struct NormGradient {
  C mean, scale, mean_u, slope;
  NormGradient() = default;
  __device__ NormGradient(std::int64_t c, std::int64_t channels, std::int64_t n, const C* means, const C* inv_stds,
                          const RowOperand& weight, const C* sums, bool training)
      : mean(means[c]) {
    const C s = inv_stds[c];
    scale = weight.data ? s * load_element<C>(weight.data, weight.dtype, c) : s;
    mean_u = training ? sums[c] / C(n) : C(0);
    slope = training ? s * s * (sums[channels + c] / C(n)) : C(0);
  }
  __device__ C operator()(C u, C x) const { return scale * (u - mean_u - (x - mean) * slope); }
};

}  // namespace mantissa::cuda_backend
