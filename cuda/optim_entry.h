// The table of optimizer updates for host code: see cuda/optim.cuh.
#pragma once

#include <span>

#include "core/multi_tensor.h"

namespace mantissa::cuda_backend {

using UpdateLaunch = void (*)(const double* hyper, const bool* skip, const GradientReading& reading,
                              std::span<const ParameterView> parameters);

inline constexpr int optim_files = 4;
extern const UpdateLaunch* const optim_0;
extern const UpdateLaunch* const optim_1;
extern const UpdateLaunch* const optim_2;
extern const UpdateLaunch* const optim_3;

// cuda/lamb.cu
void lamb_step(const double* hyper, const bool* skip, const GradientReading& reading,
               std::span<const ParameterView> parameters);

}  // namespace mantissa::cuda_backend
