// Complex numbers, for which there is no dtype here: tensors whose last dimension of 2 is real and imaginary part, as
// torch.view_as_real gives them. core/ops_fft.h and nn/stft.h make and take such pairs.
#pragma once

#include "core/tensor.h"

namespace mantissa {

Tensor to_complex(const Tensor& real);                      // with imaginary parts 0
Tensor to_complex(const Tensor& real, const Tensor& imag);  // torch.complex
Tensor real(const Tensor& z);                               // a view [...]
Tensor imag(const Tensor& z);                               // a view [...]
Tensor complex_mul(const Tensor& a, const Tensor& b);       // they broadcast
Tensor complex_conj(const Tensor& z);
Tensor complex_abs(const Tensor& z);    // the gradient at 0 is 0
Tensor complex_angle(const Tensor& z);  // in [-pi, pi]

}  // namespace mantissa
