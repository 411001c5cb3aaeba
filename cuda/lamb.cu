// LAMB in three launches for a list of parameters: moments and, per block, the squared norms of value and direction;
// their sums and the step size of each parameter; the update. Other optimizers need one pass: cuda/optim.cuh.
#include "cuda/optim.cuh"
#include "cuda/reduce.cuh"

namespace mantissa::cuda_backend {
namespace {

using optim_formulas::LAMB;

template <class C> __device__ inline LAMB::Update<C> update_of(const double* hyper, const ParameterView& v) {
  return formula_of<LAMB>(hyper).at<C>(*v.step + 1);
}

// partial[block][2]: sums of squares of value and direction.
template <class C>
__global__ void __launch_bounds__(block_size)
    lamb_moments(TensorList<ParameterView> list, double* partial, const double* hyper, const bool* skip,
                 GradientReading reading) {
  wait_for_previous_kernel();
  __shared__ double scratch[32];
  if (skip && *skip) return;
  std::int64_t begin;
  const ParameterView& v = list.find(&begin);
  const auto update = update_of<C>(hyper, v);
  const auto factors = reading.factors<C>();
  const Share share = share_of_chunk(begin, v.numel, is_wide(v));
  double values = 0, directions = 0;
  if (share.count > 0) {
    const bool aligned = is_aligned<2>(v);
    C value[pack], gradient[pack], state[2][pack];
    load_share(value, v.value, v.dtype, share, aligned);
    load_share(gradient, v.gradient, v.gradient_dtype, share, aligned);
    for (int k = 0; k < 2; ++k) load_share(state[k], v.state[k], v.state_dtype, share, aligned);
    for (int e = 0; e < pack; ++e) {
      C s[2] = {state[0][e], state[1][e]};
      update.moments(factors(gradient[e]), s);
      state[0][e] = s[0];
      state[1][e] = s[1];
      if (e >= share.count) continue;
      const double p = static_cast<double>(value[e]), d = static_cast<double>(update.direction(value[e], s));
      values += p * p;
      directions += d * d;
    }
    for (int k = 0; k < 2; ++k) store_state(v, k, share, aligned, state[k]);
  }
  values = fold_block<Sum>(values, scratch);
  directions = fold_block<Sum>(directions, scratch);
  if (threadIdx.x == 0) partial[2 * blockIdx.x] = values, partial[2 * blockIdx.x + 1] = directions;
}

// One block per parameter: lr * ratio.
__global__ void lamb_rates(TensorList<ParameterView> list, double* rates, const double* partial, const double* hyper,
                           const bool* skip) {
  wait_for_previous_kernel();
  __shared__ double scratch[32];
  if (skip && *skip) return;
  double values = 0, directions = 0;
  for (unsigned b = list.first_block[blockIdx.x] + threadIdx.x; b < list.first_block[blockIdx.x + 1]; b += blockDim.x) {
    values += partial[2 * b];
    directions += partial[2 * b + 1];
  }
  values = fold_block<Sum>(values, scratch);
  directions = fold_block<Sum>(directions, scratch);
  if (threadIdx.x == 0) rates[blockIdx.x] = formula_of<LAMB>(hyper).lr * LAMB::ratio(values, directions);
}

template <class C>
__global__ void __launch_bounds__(block_size)
    lamb_values(TensorList<ParameterView> list, const double* rates, const double* hyper, const bool* skip) {
  wait_for_previous_kernel();
  if (skip && *skip) return;
  std::int64_t begin;
  const ParameterView& v = list.find(&begin);
  const auto update = update_of<C>(hyper, v);
  const C rate = static_cast<C>(rates[&v - list.tensor]);
  const Share share = share_of_chunk(begin, v.numel, is_wide(v));
  if (share.count == 0) return;
  const bool aligned = is_aligned<2>(v);
  C value[pack], state[2][pack];
  load_share(value, v.value, v.dtype, share, aligned);
  for (int k = 0; k < 2; ++k) load_share(state[k], v.state[k], v.state_dtype, share, aligned);
  for (int e = 0; e < pack; ++e) {
    const C s[2] = {state[0][e], state[1][e]};
    value[e] -= rate * update.direction(value[e], s);
  }
  store_share(v.value, v.dtype, share, aligned, value);
  if (v.shadow) store_share(v.shadow, v.shadow_dtype, share, aligned, value);
}

template <class C>
void step(const double* hyper, const bool* skip, const GradientReading& reading,
          std::span<const ParameterView> parameters, Device device) {
  const auto takes = [](const ParameterView& v) { return (v.dtype == f64) == std::is_same_v<C, double>; };
  for_lists(parameters, takes, [&](const TensorList<ParameterView>& list, std::int64_t) {
    const std::int64_t blocks = list.first_block[list.count];
    const Tensor scratch = Tensor::allocate({2 * blocks + list.count}, f64, device);
    double* partial = static_cast<double*>(scratch.view().data);
    double* rates = partial + 2 * blocks;
    launch("lamb_moments", lamb_moments<C>, grid_of(list), list, partial, hyper, skip, reading);
    launch("lamb_rates", lamb_rates, Grid{dim3(static_cast<unsigned>(list.count)), dim3(block_size)}, list, rates,
           partial, hyper, skip);
    launch("lamb_values", lamb_values<C>, grid_of(list), list, rates, hyper, skip);
  });
}

}  // namespace

void lamb_step(const double* hyper, const bool* skip, const GradientReading& reading,
               std::span<const ParameterView> parameters) {
  const Device device{DeviceType::cuda, static_cast<std::int8_t>(current_device())};
  step<float>(hyper, skip, reading, parameters, device);
  step<double>(hyper, skip, reading, parameters, device);
  launch_advance<LAMB>(hyper, skip, parameters);
}

}  // namespace mantissa::cuda_backend
