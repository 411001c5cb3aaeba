// Discrete Fourier transforms with the semantics of torch.fft. There is no complex dtype: real and imaginary part are a
// last dimension of size 2, as in torch.view_as_real, and `dim` does not count it: a pair is one number, so dims are
// PyTorch's.
//
//   Tensor s = fft::rfft(x);                           // [N, T] -> [N, T / 2 + 1, 2]
//   Tensor y = fft::irfft(s, {.n = x.size(-1)});       // x again
//   Tensor z = fft::fft(to_complex(x), {.dim = 0});    // torch.fft.fft(x, dim=0)
//   Tensor c = fft::irfft2(complex_mul(fft::rfft2(a), fft::rfft2(b)), {.s = {h, w}});  // cyclic convolution
//
// Twice differentiable. Any length in O(n log n), also primes. f32 and f64; f16 and bf16 are computed in f32 and
// rounded once; integers give f32.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/ops_complex.h"
#include "core/tensor.h"

namespace mantissa {
namespace fft {

struct FftOptions {
  std::optional<std::int64_t> n = {};  // signal length: x is truncated or zero-padded; default: all of x
  int dim = -1;
  // "backward": the inverse divides by n; "forward": the forward transform does; "ortho": both divide by sqrt(n)
  std::string_view norm = "backward";
};
// x and the results are complex, [..., n, 2].
Tensor fft(const Tensor& x, const FftOptions& = {});
Tensor ifft(const Tensor& x, const FftOptions& = {});
// Real x [..., n] to the frequencies 0 ... n / 2, [..., n / 2 + 1, 2]. The others are their conjugates.
Tensor rfft(const Tensor& x, const FftOptions& = {});
// The inverse, from n / 2 + 1 frequencies: real [..., n], default n = 2 (frequencies - 1); give n if it is odd.
// Imaginary parts at frequencies 0 and n / 2 are ignored.
Tensor irfft(const Tensor& x, const FftOptions& = {});
// The real spectrum [..., n] of a Hermitian signal, of which samples 0 ... n / 2 are given; and the inverse.
Tensor hfft(const Tensor& x, const FftOptions& = {});
Tensor ihfft(const Tensor& x, const FftOptions& = {});

struct FftnOptions {
  Dims s = {};    // like n, for each of dim; -1: all. Default: all
  Dims dim = {};  // default: the last s.size() dims, or all without s
  std::string_view norm = "backward";
};
// Transforms along each dim in turn; for real x, the last of dim has the halved spectrum.
Tensor fftn(const Tensor& x, const FftnOptions& = {});
Tensor ifftn(const Tensor& x, const FftnOptions& = {});
Tensor rfftn(const Tensor& x, const FftnOptions& = {});
Tensor irfftn(const Tensor& x, const FftnOptions& = {});
// The same with dim = {-2, -1}.
Tensor fft2(const Tensor& x, const FftnOptions& = {});
Tensor ifft2(const Tensor& x, const FftnOptions& = {});
Tensor rfft2(const Tensor& x, const FftnOptions& = {});
Tensor irfft2(const Tensor& x, const FftnOptions& = {});

// Frequencies of the elements of a spectrum, for sample spacing d: [n] with negative ones last; [n / 2 + 1].
Tensor fftfreq(std::int64_t n, double d = 1, TensorOptions = {});
Tensor rfftfreq(std::int64_t n, double d = 1, TensorOptions = {});
// Moves frequency 0 to the middle of dim, and back. Without dim: all dimensions of x, including that of the pair, so
// give dim for complex x. Here dims count the pair's dimension.
Tensor fftshift(const Tensor& x, const Dims& dim = {});
Tensor ifftshift(const Tensor& x, const Dims& dim = {});

}  // namespace fft
}  // namespace mantissa
