// The fused optimizer update on the GPU: one pass reads value, gradient and state and writes value, state and the
// low-precision shadow copy. Hyperparameters, step counts and the skip flag are read from device memory. Formula i is
// instantiated in cuda/optim_<i % optim_files>.cu. Formulas: core/optim_formulas.h; CPU counterpart:
// core/cpu/optim.cpp.
#pragma once

#include <array>
#include <bit>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>

#include "core/optim_formulas.h"
#include "cuda/multi_tensor.cuh"
#include "cuda/optim_entry.h"

namespace mantissa::cuda_backend {

// Rounds to bf16, up with a probability equal to the truncated fraction; the same bits as core/cpu/optim.cpp.
__device__ inline BFloat16 round_stochastically(float v, std::uint32_t r) {
  r = (r ^ (r >> 16)) * 0x85ebca6bu;
  r = (r ^ (r >> 13)) * 0xc2b2ae35u;
  r ^= r >> 16;
  const std::uint32_t x = std::bit_cast<std::uint32_t>(v);
  if ((x & 0x7f800000u) == 0x7f800000u) return BFloat16(v);
  BFloat16 b;
  b.bits = static_cast<std::uint16_t>((x + (r & 0xffffu)) >> 16);
  return b;
}
template <class C>
__device__ inline void store_state(const ParameterView& v, int k, const Share& share, bool aligned,
                                   const C (&from)[pack]) {
  if (v.state_dtype != bf16) return store_share(v.state[k], v.state_dtype, share, aligned, from);
  const std::uint32_t seed =
      static_cast<std::uint32_t>(*v.step) * 0x27d4eb2fu + static_cast<std::uint32_t>(k) * 0x165667b1u;
  C rounded[pack];
  for (int e = 0; e < pack; ++e) {
    const std::uint32_t r = seed + static_cast<std::uint32_t>(share.at[e]) * 0x9e3779b9u;
    rounded[e] = static_cast<C>(static_cast<float>(round_stochastically(static_cast<float>(from[e]), r)));
  }
  store_share(v.state[k], bf16, share, aligned, rounded);
}
// Whether f32 is read or written, as almost always.
__device__ inline bool is_wide(const ParameterView& v) {
  return v.dtype == f32 || v.gradient_dtype == f32 || v.state_dtype == f32;
}

template <int states> __device__ inline bool is_aligned(const ParameterView& v) {
  bool aligned = is_aligned(v.value) && is_aligned(v.gradient) && is_aligned(v.shadow);
  for (int k = 0; k < states; ++k) aligned = aligned && is_aligned(v.state[k]);
  return aligned;
}

// The formula with the hyperparameters that the host copied to the device.
template <class F> __device__ inline const F& formula_of(const double* hyper) {
  static_assert(std::is_trivially_copyable_v<F> && alignof(F) == alignof(double));
  return *reinterpret_cast<const F*>(hyper);
}
template <class F, class C> __device__ inline auto constants_of(const F& formula, const ParameterView& v) {
  if constexpr (requires { F::scalar_names; }) return formula.template at<C>(*v.step + 1, v.scalars);
  else return formula.template at<C>(*v.step + 1);
}

template <class F, class C>
__global__ void __launch_bounds__(block_size)
    update_parameters(TensorList<ParameterView> list, const double* hyper, const bool* skip, GradientReading reading) {
  wait_for_previous_kernel();
  using Update = decltype(constants_of<F, C>(F{}, ParameterView{}));
  constexpr int count = F::states > 0 ? F::states : 1;
  if (skip && *skip) return;
  std::int64_t begin;
  const ParameterView& v = list.find(&begin);
  // The constants need powers and roots in f64: one thread computes them for its block.
  alignas(16) __shared__ unsigned char shared_update[sizeof(Update)];
  __shared__ GradientReading::Factors<C> factors;
  if (threadIdx.x == 0) {
    new (shared_update) Update(constants_of<F, C>(formula_of<F>(hyper), v));
    factors = reading.factors<C>();
  }
  __syncthreads();
  const Update update = *std::launder(reinterpret_cast<const Update*>(shared_update));

  const Share share = share_of_chunk(begin, v.numel, is_wide(v));
  if (share.count == 0) return;
  const bool aligned = is_aligned<F::states>(v);
  C value[pack], gradient[pack], state[count][pack];
  load_share(value, v.value, v.dtype, share, aligned);
  load_share(gradient, v.gradient, v.gradient_dtype, share, aligned);
  for (int k = 0; k < F::states; ++k) load_share(state[k], v.state[k], v.state_dtype, share, aligned);
#pragma unroll
  for (int e = 0; e < pack; ++e) {
    C s[count];
    for (int k = 0; k < F::states; ++k) s[k] = state[k][e];
    update(value[e], factors(gradient[e]), s);
    for (int k = 0; k < F::states; ++k) state[k][e] = s[k];
  }
  for (int k = 0; k < F::states; ++k) store_state(v, k, share, aligned, state[k]);
  store_share(v.value, v.dtype, share, aligned, value);
  if (v.shadow) store_share(v.shadow, v.shadow_dtype, share, aligned, value);
}

// Increments step counts after all blocks of an update have read them.
struct StepList {
  struct Counts {
    std::int64_t* step = nullptr;
    double* scalars = nullptr;
  };
  static constexpr int most = list_bytes / static_cast<int>(sizeof(Counts));
  Counts of[most];
  int count = 0;
};
template <class F> __global__ void advance_parameters(StepList list, const double* hyper, const bool* skip) {
  wait_for_previous_kernel();
  if (skip && *skip) return;
  const int t = static_cast<int>(threadIdx.x);
  if (t >= list.count) return;
  const StepList::Counts& v = list.of[t];
  if constexpr (requires { F::scalar_names; }) formula_of<F>(hyper).advance(v.scalars, *v.step + 1);
  ++*v.step;
}

// Includes parameters without elements: their steps count too.
template <class F>
void launch_advance(const double* hyper, const bool* skip, std::span<const ParameterView> parameters) {
  static_assert(StepList::most <= block_size);
  for (std::size_t from = 0; from < parameters.size(); from += StepList::most) {
    StepList list;
    for (const ParameterView& v :
         parameters.subspan(from, std::min<std::size_t>(StepList::most, parameters.size() - from))) {
      list.of[list.count++] = {v.step, v.scalars};
    }
    launch("advance_parameters", advance_parameters<F>, Grid{dim3(1), dim3(block_size)}, list, hyper, skip);
  }
}

template <class F>
void launch_update(const double* hyper, const bool* skip, const GradientReading& reading,
                   std::span<const ParameterView> parameters) {
  for_lists(
      parameters, [](const ParameterView& v) { return v.dtype != f64; },
      [&](const TensorList<ParameterView>& list, std::int64_t) {
        launch("update_parameters", update_parameters<F, float>, grid_of(list), list, hyper, skip, reading);
      });
  for_lists(
      parameters, [](const ParameterView& v) { return v.dtype == f64; },
      [&](const TensorList<ParameterView>& list, std::int64_t) {
        launch("update_parameters", update_parameters<F, double>, grid_of(list), list, hyper, skip, reading);
      });
  launch_advance<F>(hyper, skip, parameters);
}
// The launches of every optim_files-th formula, starting with `first`.
template <int first, class... F> constexpr auto make_updates(List<F...>) {
  constexpr std::size_t count = (sizeof...(F) - first + optim_files - 1) / optim_files;
  return []<std::size_t... i>(std::index_sequence<i...>) {
    return std::array<UpdateLaunch, count>{
        &launch_update<std::tuple_element_t<first + i * optim_files, std::tuple<F...>>>...};
  }(std::make_index_sequence<count>{});
}
template <int first> inline constexpr auto updates_of = make_updates<first>(optim_formulas::OnePass{});

}  // namespace mantissa::cuda_backend
