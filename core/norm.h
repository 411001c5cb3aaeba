// Kernels of normalisation: of rows (layer norm; RMS norm, which is the same around zero instead of the mean) and of
// groups of channels (group norm). Weight and bias may be absent. Statistics are of the type that is computed in.
// core/cpu/norm.cpp, core/cpu/group_norm.cpp, cuda/norm.cu, cuda/group_norm.cu.
#pragma once

#include "core/kernel.h"

namespace mantissa {

// `row` elements are normalised together. y is of any floating dtype. Given `delta`, of x's sizes and any floating
// dtype, what is normalised is sum = x + delta, rounded to the dtype of `sum`; both are absent otherwise.
struct RowNorm {
  const View &y, &mean, &inv_std;  // mean absent: around zero
  const View &sum, &x, &delta, &weight, &bias;
  std::int64_t row;
  double eps;
};
// x is what was normalised. To dx is added `arrived`, of its sizes and dtype, where given: dx is rounded first. dx may
// lie where g or `arrived` does. Without dbias around zero; `mean` is absent then. g has x's sizes and any floating
// dtype. What is stored in dx is stored in `rounded`, too, where given, in the dtype of that.
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
