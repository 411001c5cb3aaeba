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

// --- eigenvalues and eigenvectors of general real matrices a [..., n, n] in f32 or f64 ---
// a v = value v for each of values [..., n, 2] and the column of vectors [..., n, n, 2] of the same number. Conjugate
// pairs stand side by side, that with the positive imaginary part first; there is no other order. Vectors have length
// 1; their phases are free, and a gradient is right for what does not depend on them (elsewhere PyTorch throws).
// Gradients of vectors need distinct values, those of values a matrix with n independent vectors. Computed in f64. A
// matrix on a GPU is copied to the host, and the results back. A matrix with a NaN or an infinity has results that are
// NaN. (Symmetric matrices: eigh of core/ops_matrix.h.)
struct EigResult {
  Tensor values, vectors;
};
EigResult eig(const Tensor& a);
Tensor eigvals(const Tensor& a);  // the values alone, in about half of the time

}  // namespace mantissa
