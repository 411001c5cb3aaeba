// Normalisation kernels: over rows (layer norm; RMS norm, which is the same without subtracting the mean) and over
// groups of channels (group norm). Weight and bias may be absent. Statistics are in the compute dtype.
// core/cpu/norm.cpp, core/cpu/group_norm.cpp, cuda/norm.cu, cuda/norm_backward.cuh, cuda/group_norm.cu.
#pragma once

#include "core/kernel.h"

namespace mantissa {

// Each run of `row` elements is normalised. y is of any floating dtype. If `delta` is given
// (x's sizes, any floating dtype), the input is sum = x + delta, rounded to the dtype of `sum`; otherwise both are
// absent.
struct RowNorm {
  const View &y, &mean, &inv_std;  // mean absent: RMS norm
  const View &sum, &x, &delta, &weight, &bias;
  std::int64_t row;
  double eps;
};
// x is the input that was normalised. g has x's sizes and any floating dtype. If `arrived` is given
// (sizes and dtype of dx), it is added to dx, after dx is rounded. dx may alias g or `arrived`. If `rounded` is given,
// it receives a copy of dx in its own dtype. Without dbias: RMS norm, and `mean` is absent.
struct RowNormGradient {
  const View &dx, &dweight, &dbias;
  const View &g, &x, &weight, &mean, &inv_std, &arrived, &rounded;
};
MANTISSA_KERNEL(row_norm, const RowNorm& f)
MANTISSA_KERNEL(row_norm_backward, const RowNormGradient& f)

// x [N, C, ...]; weight and bias [C], mean and inv_std [N, groups].
MANTISSA_KERNEL(group_norm, const View& y, const View& mean, const View& inv_std, const View& x, const View& weight,
                const View& bias, double eps)
MANTISSA_KERNEL(group_norm_backward, const View& dx, const View& dweight, const View& dbias, const View& g,
                const View& x, const View& weight, const View& mean, const View& inv_std)

}  // namespace mantissa
