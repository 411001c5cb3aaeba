// Matrix products fused with an activation at the end, or with row sums of an operand.
#pragma once

#include "core/activation.h"
#include "core/gemm.h"

namespace mantissa::kernels {

// y = activation(before), before = a @ b + bias as gemm gives it, rounded to y's dtype. `before` is like y and written
// for the activation's gradient, or absent.
void gemm_act(Device device, const View& y, const View& before, const View& a, const View& b, const View& bias,
              Activation activation, const KeptWeight& kept = {});

// y = a @ b, and sums [m] of each row of a over k, in y's dtype. With a = the transposed gradient of a linear layer's
// result these are the gradients of its weight and bias. One matrix. With `add` both are added to their destinations,
// in f32 or f64.
void gemm_and_sums(Device device, const View& y, const View& sums, const View& a, const View& b, bool add = false);

// y = activation'(saved) * (a @ b), where a @ b is the gradient that reaches the activation, rounded to y's dtype as by
// gemm. One matrix; `saved` is like y: the input of gelu, the result of relu.
void gemm_act_backward(Device device, const View& y, const View& saved, const View& a, const View& b,
                       Activation activation);

// y = activation(x), elementwise; y may be x.
void activate(Device device, const View& y, const View& x, Activation activation);
// y = activation'(saved) * g, elementwise; y may be g.
void activate_backward(Device device, const View& y, const View& g, const View& saved, Activation activation);

}  // namespace mantissa::kernels
