// Matrix products that do more in the same pass: an activation at their end, sums of an operand's rows.
#pragma once

#include "core/activation.h"
#include "core/gemm.h"

namespace mantissa::kernels {

// y = activation(before), before = a @ b + bias as gemm gives it, rounded to y's dtype. `before` is like y and written
// for the activation's gradient, or absent.
void gemm_act(Device device, const View& y, const View& before, const View& a, const View& b, const View& bias,
              Activation activation, const KeptWeight& kept = {});

// y = a @ b, and sums [m] of each row of a over k, in y's dtype. With a the transposed gradient of a linear layer these are
// the gradients of its weight and bias. One matrix. With `add` both are added to what is there, in f32 or f64.
void gemm_and_sums(Device device, const View& y, const View& sums, const View& a, const View& b, bool add = false);

// y = activation(x), elementwise; y may be x.
void activate(Device device, const View& y, const View& x, Activation activation);

}  // namespace mantissa::kernels
