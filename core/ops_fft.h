// Discrete Fourier transforms with the numbers of torch.fft. There are no complex tensors here: real and imaginary part
// are a last dimension of 2, as torch.view_as_real has them, and `dim` counts the dimensions in front of it, as if the
// pair were one number: PyTorch's dims.
//
//   Tensor s = fft::rfft(x);                           // [N, T] -> [N, T / 2 + 1, 2]
//   Tensor y = fft::irfft(s, {.n = x.size(-1)});       // x again
//   Tensor z = fft::fft(to_complex(x), {.dim = 0});    // torch.fft.fft(x, dim=0)
//   Tensor c = fft::irfft2(complex_mul(fft::rfft2(a), fft::rfft2(b)), {.s = {h, w}});  // cyclic convolution
//
// Twice differentiable. Any length, in O(n log n) also for primes. f32 and f64; f16 and bf16 are computed in f32 and
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
  std::optional<std::int64_t> n = {};  // elements of the signal: x is cut off, or filled up with zeros; default: all
  int dim = -1;
  // "backward": the inverse divides by n; "forward": the other does; "ortho": both by its root
  std::string_view norm = "backward";
};
// x and results of pairs, [..., n, 2].
Tensor fft(const Tensor& x, const FftOptions& = {});
Tensor ifft(const Tensor& x, const FftOptions& = {});
// Of real x [..., n]: frequencies 0 ... n / 2, [..., n / 2 + 1, 2]. The others are their conjugates.
Tensor rfft(const Tensor& x, const FftOptions& = {});
// The inverse, of n / 2 + 1 frequencies: real [..., n], default n = 2 (frequencies - 1), which cannot tell an odd n.
// Imaginary parts at frequencies 0 and n / 2 count nothing.
Tensor irfft(const Tensor& x, const FftOptions& = {});
// The real spectrum [..., n] of a signal whose samples 0 ... n / 2 are given, the others being their conjugates; and
// back.
Tensor hfft(const Tensor& x, const FftOptions& = {});
Tensor ihfft(const Tensor& x, const FftOptions& = {});

struct FftnOptions {
  Dims s = {};    // as n, for each of dim; -1: all. Default: all
  Dims dim = {};  // default: the last ones, as many as s has; all without s
  std::string_view norm = "backward";
};
// One transform after the other; of real x the last of dim is the one that is halved.
Tensor fftn(const Tensor& x, const FftnOptions& = {});
Tensor ifftn(const Tensor& x, const FftnOptions& = {});
Tensor rfftn(const Tensor& x, const FftnOptions& = {});
Tensor irfftn(const Tensor& x, const FftnOptions& = {});
// The same with dim = {-2, -1}.
Tensor fft2(const Tensor& x, const FftnOptions& = {});
Tensor ifft2(const Tensor& x, const FftnOptions& = {});
Tensor rfft2(const Tensor& x, const FftnOptions& = {});
Tensor irfft2(const Tensor& x, const FftnOptions& = {});

// Frequencies of the elements of a spectrum, for samples d apart: [n], negative ones last; [n / 2 + 1].
Tensor fftfreq(std::int64_t n, double d = 1, TensorOptions = {});
Tensor rfftfreq(std::int64_t n, double d = 1, TensorOptions = {});
// Puts frequency 0 in the middle of dim (none: of all dimensions of x, so give them for pairs), and back. Dimensions
// count as they are, the pair too.
Tensor fftshift(const Tensor& x, const Dims& dim = {});
Tensor ifftshift(const Tensor& x, const Dims& dim = {});

}  // namespace fft
}  // namespace mantissa
