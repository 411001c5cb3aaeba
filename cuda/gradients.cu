// Gradients between backward and the update: unscaling with its statistics, the loss scale update, norms and clipping.
// Nothing is read back: scale, overflow flags and norms stay on the device. Contract: core/multi_tensor.h; CPU
// counterpart: core/cpu/gradients.cpp.
#include "cuda/fold_apart.cuh"
#include "cuda/multi_tensor.cuh"
#include "cuda/reduce.cuh"

namespace mantissa::cuda_backend {
namespace {

// --- elementwise, in place ---
struct Unscale {
  const float* scale;
  template <class C> __device__ C operator()(C x) const {
    const InverseScale inverse = inverse_scale(*scale);
    return x * static_cast<C>(inverse.factor) * static_cast<C>(inverse.rest);
  }
};
struct ClipToNorm {
  const float* norm;
  double max_norm;
  template <class C> __device__ C operator()(C x) const {
    return x * static_cast<C>(clip_factor(*norm, max_norm));
  }
};
struct Clamp {
  double limit;
  template <class C> __device__ C operator()(C x) const {
    const C top = static_cast<C>(limit);
    return x > top ? top : x < -top ? -top : x;
  }
};

template <class C, class F>
__global__ void __launch_bounds__(block_size) transform(TensorList<GradientView> list, F f) {
  wait_for_previous_kernel();
  std::int64_t begin;
  const GradientView& g = list.find(&begin);
  const Share share = share_of_chunk(begin, g.numel, g.dtype == f32);
  if (share.count == 0) return;
  const bool aligned = is_aligned(g.data);
  C v[pack];
  load_share(v, g.data, g.dtype, share, aligned);
  for (int k = 0; k < pack; ++k) v[k] = f(v[k]);
  store_share(g.data, g.dtype, share, aligned, v);
}
template <class F> void transform_all(const char* name, std::span<const GradientView> gradients, const F& f) {
  for_lists(
      gradients, [](const GradientView& g) { return g.dtype != f64; },
      [&](const TensorList<GradientView>& list, std::int64_t) {
        launch(name, transform<float, F>, grid_of(list), list, f);
      });
  for_lists(
      gradients, [](const GradientView& g) { return g.dtype == f64; },
      [&](const TensorList<GradientView>& list, std::int64_t) {
        launch(name, transform<double, F>, grid_of(list), list, f);
      });
}

// --- sums over all gradients: one entry per block, combined in order by one block ---
// Iterates over all lists of both compute types: run(list, first block, compute type tag).
template <class F> void for_all_lists(std::span<const GradientView> gradients, F&& run) {
  std::int64_t before = 0;
  const auto of = [&]<class C>() {
    std::int64_t blocks = 0;
    for_lists(gradients, [](const GradientView& g) { return (g.dtype == f64) == std::is_same_v<C, double>; },
              [&](const TensorList<GradientView>& list, std::int64_t first) {
                run.template operator()<C>(list, before + first);
                blocks = first + list.first_block[list.count];
              });
    before += blocks;
  };
  of.template operator()<float>();
  of.template operator()<double>();
}
std::int64_t count_blocks(std::span<const GradientView> gradients) {
  std::int64_t n = 0;
  for (const GradientView& g : gradients) n += (g.numel + chunk - 1) / chunk;
  return n;
}
Device this_device() { return {DeviceType::cuda, static_cast<std::int8_t>(current_device())}; }

// --- unscaling ---
// Block b's summary is column b of rows of `blocks` numbers: squares, largest, infs, nans, and its tensor's index.
struct Summaries {
  double* data;
  std::int64_t blocks;
  __device__ double* row(int r) const { return data + r * blocks; }
};

template <class C>
__global__ void __launch_bounds__(block_size)
    unscale_chunks(TensorList<GradientView> list, const float* scale, bool write, Summaries out, std::int64_t first) {
  wait_for_previous_kernel();
  __shared__ double scratch[32];
  std::int64_t begin;
  const GradientView& g = list.find(&begin);
  const Share share = share_of_chunk(begin, g.numel, g.dtype == f32);
  double squares = 0, largest = 0, infs = 0, nans = 0;
  if (share.count > 0) {
    const bool aligned = is_aligned(g.data);
    const Unscale unscale{scale};
    C v[pack];
    load_share(v, g.data, g.dtype, share, aligned);
    for (int k = 0; k < pack; ++k) v[k] = unscale(v[k]);
    if (write) store_share(g.data, g.dtype, share, aligned, v);
    for (int k = 0; k < pack && k < share.count; ++k) {
      // After rounding: an f16 may have become infinite.
      const double x = g.dtype == f16    ? static_cast<double>(static_cast<float>(Half(static_cast<float>(v[k]))))
                       : g.dtype == bf16 ? static_cast<double>(static_cast<float>(BFloat16(static_cast<float>(v[k]))))
                                         : static_cast<double>(v[k]);
      const double size = x < 0 ? -x : x;
      squares += x * x;
      if (!(size == size)) nans += 1;
      else if (size > largest) largest = size;
      if (size == size && size > 1.7976931348623157e308) infs += 1;
    }
  }
  squares = fold_block<Sum>(squares, scratch);
  largest = fold_block<Max>(largest, scratch);
  infs = fold_block<Sum>(infs, scratch);
  nans = fold_block<Sum>(nans, scratch);
  if (threadIdx.x != 0) return;
  const std::int64_t b = first + blockIdx.x;
  out.row(0)[b] = squares;
  out.row(1)[b] = largest;
  out.row(2)[b] = infs;
  out.row(3)[b] = nans;
  out.row(4)[b] = infs + nans > 0 ? static_cast<double>(g.index) : -1;
}
__global__ void join_summaries(GradientSummary* summary, float* norm, const bool* before, bool* found_inf,
                               Summaries in) {
  wait_for_previous_kernel();
  __shared__ double scratch[32];
  const auto fold_row = [&]<class Fold>(int r, Fold) {
    const double mine = fold_apart<Fold, double>(threadIdx.x, in.blocks, blockDim.x, [&](std::int64_t b) {
      const double v = in.row(r)[b];
      return r == 4 && v < 0 ? __builtin_huge_val() : v;  // a block without infs or NaN
    });
    return fold_block<Fold>(mine, scratch);
  };
  const double squares = fold_row(0, Sum{}), infs = fold_row(2, Sum{}), nans = fold_row(3, Sum{}),
               largest = Max{}(0.0, fold_row(1, Max{})), bad = fold_row(4, Min{});
  if (threadIdx.x != 0) return;
  *summary = {squares, largest, infs, nans, bad < __builtin_huge_val() ? bad : -1};
  *found_inf = infs + nans > 0 || (before && *before);
  if (norm) *norm = static_cast<float>(std::sqrt(squares));
}

// --- norms ---
enum class NormKind { one, two, largest, general };
template <class C>
__global__ void __launch_bounds__(block_size)
    norm_chunks(TensorList<GradientView> list, NormKind kind, double p, double* sums, std::int64_t first) {
  wait_for_previous_kernel();
  __shared__ double scratch[32];
  std::int64_t begin;
  const GradientView& g = list.find(&begin);
  const Share share = share_of_chunk(begin, g.numel, g.dtype == f32);
  double mine = 0;
  if (share.count > 0) {
    C v[pack];
    load_share(v, g.data, g.dtype, share, is_aligned(g.data));
    for (int k = 0; k < pack && k < share.count; ++k) {
      const double x = static_cast<double>(v[k]), size = x < 0 ? -x : x;
      if (kind == NormKind::two) mine += x * x;
      else if (kind == NormKind::one) mine += size;
      else if (kind == NormKind::general) mine += std::pow(size, p);
      else mine = Max{}(mine, size);
    }
  }
  mine = kind == NormKind::largest ? fold_block<Max>(mine, scratch) : fold_block<Sum>(mine, scratch);
  if (threadIdx.x == 0) sums[first + blockIdx.x] = mine;
}
__global__ void join_norms(float* norm, const double* sums, std::int64_t blocks, NormKind kind, double p) {
  wait_for_previous_kernel();
  __shared__ double scratch[32];
  const auto fold_all = [&]<class Fold>(Fold) {
    return fold_block<Fold>(
        fold_apart<Fold, double>(threadIdx.x, blocks, blockDim.x, [=](std::int64_t b) { return sums[b]; }), scratch);
  };
  const double total = kind == NormKind::largest ? Max{}(0.0, fold_all(Max{})) : fold_all(Sum{});
  if (threadIdx.x != 0) return;
  *norm = static_cast<float>(kind == NormKind::two       ? std::sqrt(total)
                             : kind == NormKind::general ? std::pow(total, 1 / p)
                                                         : total);
}

// --- the loss scale ---
inline constexpr int most_verdicts = 64;
struct Verdicts {
  Verdict verdict[most_verdicts];
  int count = 0;
};
__global__ void loss_scale_step(float* scale, ScalerState* state, Verdicts verdicts, const bool* forward_failed,
                                ScaleRule rule) {
  wait_for_previous_kernel();
  state->iterate(*scale, verdicts.verdict, verdicts.count, forward_failed && *forward_failed, rule);
}

}  // namespace

void unscale_gradients(std::span<const GradientView> gradients, const float* scale, bool write, const bool* before,
                       bool* found_inf, GradientSummary* summary, float* norm) {
  const std::int64_t blocks = count_blocks(gradients);
  const Tensor scratch = Tensor::allocate({5, blocks}, f64, this_device());
  const Summaries partial{static_cast<double*>(scratch.view().data), blocks};
  for_all_lists(gradients, [&]<class C>(const TensorList<GradientView>& list, std::int64_t first) {
    launch("unscale_gradients", unscale_chunks<C>, grid_of(list), list, scale, write, partial, first);
  });
  launch("join_summaries", join_summaries, Grid{dim3(1), dim3(512)}, summary, norm, before, found_inf, partial);
}

void update_loss_scale(float* scale, ScalerState* state, std::span<const Verdict> verdicts, const bool* forward_failed,
                       const ScaleRule& rule) {
  check(verdicts.size() <= most_verdicts, "one scaler serves at most ", most_verdicts, " optimizers on a GPU, but ",
        verdicts.size(), " were stepped");
  Verdicts all;
  for (const Verdict& v : verdicts) all.verdict[all.count++] = v;
  launch("loss_scale_step", loss_scale_step, Grid{dim3(1), dim3(1)}, scale, state, all, forward_failed, rule);
}

void gradient_norm(std::span<const GradientView> gradients, double p, float* norm) {
  const NormKind kind = std::isinf(p) ? NormKind::largest
                        : p == 2      ? NormKind::two
                        : p == 1      ? NormKind::one
                                      : NormKind::general;
  const std::int64_t blocks = count_blocks(gradients);
  const Tensor scratch = Tensor::allocate({blocks}, f64, this_device());
  double* sums = static_cast<double*>(scratch.view().data);
  for_all_lists(gradients, [&]<class C>(const TensorList<GradientView>& list, std::int64_t first) {
    launch("gradient_norm", norm_chunks<C>, grid_of(list), list, kind, p, sums, first);
  });
  launch("join_norms", join_norms, Grid{dim3(1), dim3(512)}, norm, sums, blocks, kind, p);
}

void scale_gradients(std::span<const GradientView> gradients, const float* norm, double max_norm) {
  transform_all("scale_gradients", gradients, ClipToNorm{norm, max_norm});
}
void clamp_gradients(std::span<const GradientView> gradients, double limit) {
  transform_all("clamp_gradients", gradients, Clamp{limit});
}

}  // namespace mantissa::cuda_backend
