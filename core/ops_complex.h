// Complex numbers. There is no complex dtype: a complex tensor has a last dimension of size 2 for real and imaginary
// part, as torch.view_as_real returns it. core/ops_fft.h and nn/stft.h take and return such pairs.
#pragma once

#include "core/tensor.h"

namespace mantissa {

Tensor to_complex(const Tensor& real);                      // imaginary part 0
Tensor to_complex(const Tensor& real, const Tensor& imag);  // torch.complex
Tensor real(const Tensor& z);                               // a view [...]
Tensor imag(const Tensor& z);                               // a view [...]
Tensor complex_mul(const Tensor& a, const Tensor& b);       // they broadcast
Tensor complex_conj(const Tensor& z);
Tensor complex_abs(const Tensor& z);    // the gradient at 0 is 0
Tensor complex_angle(const Tensor& z);  // in [-pi, pi]

// --- eigenvalues and eigenvectors of general real matrices a [..., n, n] in f32 or f64 ---
// a v = value v for each of values [..., n, 2] and the corresponding column v of vectors [..., n, n, 2]. Conjugate
// pairs are adjacent, the one with positive imaginary part first; the order is otherwise unspecified. Vectors have
// length 1; their phases are arbitrary, and gradients are correct for functions that do not depend on the phases
// (for others PyTorch throws). Gradients of vectors need distinct values, gradients of values a diagonalisable matrix.
// Computed in f64. A matrix on a GPU is copied to the host, and the results back. A matrix containing NaN or infinity
// gives NaN. (Symmetric matrices: eigh of core/ops_matrix.h.)
struct EigResult {
  Tensor values, vectors;
};
EigResult eig(const Tensor& a);
Tensor eigvals(const Tensor& a);  // only the values, in about half the time

}  // namespace mantissa
