// Golden cases of Fourier transforms and pairs as complex numbers. tests/golden/case.h explains a line; cx() and pairs()
// are torch.view_as_complex and torch.view_as_real.
// clang-format off
#pragma once

#include "core/ops_complex.h"
#include "core/ops_fft.h"
#include "tests/golden/case.h"

namespace mantissa::test {

inline constexpr Case fft_cases[] = {
  GOLDEN("fft", "randn(3, 8, 2), randn(12, 2), randn(2, 7, 2)", "pairs(torch.fft.fft(cx(x))), pairs(torch.fft.fft(cx(y))), pairs(torch.fft.fft(cx(z)))", fft::fft(x), fft::fft(y), fft::fft(z))
  GOLDEN("fft.options", "randn(3, 8, 2), randn(2, 5, 3, 2)", "pairs(torch.fft.fft(cx(x), 5)), pairs(torch.fft.fft(cx(x), 11, norm='ortho')), pairs(torch.fft.fft(cx(x), dim=0, norm='forward')), pairs(torch.fft.fft(cx(y), 4, 1)), pairs(torch.fft.fft(cx(y), dim=-2))", fft::fft(x, {.n = 5}), fft::fft(x, {.n = 11, .norm = "ortho"}), fft::fft(x, {.dim = 0, .norm = "forward"}), fft::fft(y, {.n = 4, .dim = 1}), fft::fft(y, {.dim = -2}))
  GOLDEN("fft.prime", "randn(2, 67, 2), randn(1, 131, 2)", "pairs(torch.fft.fft(cx(x))), pairs(torch.fft.fft(cx(y)))", fft::fft(x), fft::fft(y))
  GOLDEN("ifft", "randn(3, 8, 2), randn(2, 15, 2)", "pairs(torch.fft.ifft(cx(x))), pairs(torch.fft.ifft(cx(x), norm='ortho')), pairs(torch.fft.ifft(cx(x), norm='forward')), pairs(torch.fft.ifft(cx(y), 20)), pairs(torch.fft.ifft(cx(y), dim=0))", fft::ifft(x), fft::ifft(x, {.norm = "ortho"}), fft::ifft(x, {.norm = "forward"}), fft::ifft(y, {.n = 20}), fft::ifft(y, {.dim = 0}))
  GOLDEN("rfft", "randn(3, 8), randn(2, 9), randn(1), ints(-5, 5, 6)", "pairs(torch.fft.rfft(x)), pairs(torch.fft.rfft(y)), pairs(torch.fft.rfft(z)), pairs(torch.fft.rfft(u))", fft::rfft(x), fft::rfft(y), fft::rfft(z), fft::rfft(u))
  GOLDEN("rfft.options", "randn(3, 8), randn(2, 5, 3)", "pairs(torch.fft.rfft(x, 5)), pairs(torch.fft.rfft(x, 12, norm='ortho')), pairs(torch.fft.rfft(x, dim=0, norm='forward')), pairs(torch.fft.rfft(y, 4, 1)), pairs(torch.fft.rfft(y, dim=-2))", fft::rfft(x, {.n = 5}), fft::rfft(x, {.n = 12, .norm = "ortho"}), fft::rfft(x, {.dim = 0, .norm = "forward"}), fft::rfft(y, {.n = 4, .dim = 1}), fft::rfft(y, {.dim = -2}))
  GOLDEN("rfft.long", "randn(1, 134), randn(1, 135), randn(1, 127)", "pairs(torch.fft.rfft(x)), pairs(torch.fft.rfft(y)), pairs(torch.fft.rfft(z))", fft::rfft(x), fft::rfft(y), fft::rfft(z))
  GOLDEN("irfft", "randn(3, 5, 2), randn(2, 2), randn(2, 6, 2)", "torch.fft.irfft(cx(x)), torch.fft.irfft(cx(y)), torch.fft.irfft(cx(z), 11)", fft::irfft(x), fft::irfft(y), fft::irfft(z, {.n = 11}))
  GOLDEN("irfft.options", "randn(3, 5, 2), randn(2, 5, 3, 2)", "torch.fft.irfft(cx(x), 5), torch.fft.irfft(cx(x), 14, norm='ortho'), torch.fft.irfft(cx(x), dim=0, norm='forward'), torch.fft.irfft(cx(y), 4, 1), torch.fft.irfft(cx(y), dim=-2), torch.fft.irfft(cx(x), 1)", fft::irfft(x, {.n = 5}), fft::irfft(x, {.n = 14, .norm = "ortho"}), fft::irfft(x, {.dim = 0, .norm = "forward"}), fft::irfft(y, {.n = 4, .dim = 1}), fft::irfft(y, {.dim = -2}), fft::irfft(x, {.n = 1}))
  GOLDEN("hfft", "randn(3, 5, 2), randn(4, 2, 2)", "torch.fft.hfft(cx(x)), torch.fft.hfft(cx(x), 7, norm='ortho'), torch.fft.hfft(cx(y), dim=0, norm='forward')", fft::hfft(x), fft::hfft(x, {.n = 7, .norm = "ortho"}), fft::hfft(y, {.dim = 0, .norm = "forward"}))
  GOLDEN("ihfft", "randn(3, 6), randn(5, 2)", "pairs(torch.fft.ihfft(x)), pairs(torch.fft.ihfft(x, 7, norm='ortho')), pairs(torch.fft.ihfft(y, dim=0, norm='forward'))", fft::ihfft(x), fft::ihfft(x, {.n = 7, .norm = "ortho"}), fft::ihfft(y, {.dim = 0, .norm = "forward"}))
  GOLDEN("fftn", "randn(2, 3, 4, 2)", "pairs(torch.fft.fftn(cx(x))), pairs(torch.fft.fftn(cx(x), (5, 2))), pairs(torch.fft.fftn(cx(x), dim=(2, 0), norm='ortho')), pairs(torch.fft.fftn(cx(x), (3, -1), (0, -1), 'forward'))", fft::fftn(x), fft::fftn(x, {.s = {5, 2}}), fft::fftn(x, {.dim = {2, 0}, .norm = "ortho"}), fft::fftn(x, {.s = {3, -1}, .dim = {0, -1}, .norm = "forward"}))
  GOLDEN("ifftn", "randn(2, 3, 4, 2)", "pairs(torch.fft.ifftn(cx(x))), pairs(torch.fft.ifftn(cx(x), (5, 2))), pairs(torch.fft.ifftn(cx(x), dim=(2, 0), norm='ortho'))", fft::ifftn(x), fft::ifftn(x, {.s = {5, 2}}), fft::ifftn(x, {.dim = {2, 0}, .norm = "ortho"}))
  GOLDEN("rfftn", "randn(2, 3, 4)", "pairs(torch.fft.rfftn(x)), pairs(torch.fft.rfftn(x, (5, 2))), pairs(torch.fft.rfftn(x, dim=(2, 0), norm='ortho')), pairs(torch.fft.rfftn(x, (3, -1), (0, -1), 'forward'))", fft::rfftn(x), fft::rfftn(x, {.s = {5, 2}}), fft::rfftn(x, {.dim = {2, 0}, .norm = "ortho"}), fft::rfftn(x, {.s = {3, -1}, .dim = {0, -1}, .norm = "forward"}))
  GOLDEN("irfftn", "randn(2, 3, 4, 2)", "torch.fft.irfftn(cx(x)), torch.fft.irfftn(cx(x), (5, 3)), torch.fft.irfftn(cx(x), dim=(2, 0), norm='ortho'), torch.fft.irfftn(cx(x), (3, -1), (0, -1), 'forward')", fft::irfftn(x), fft::irfftn(x, {.s = {5, 3}}), fft::irfftn(x, {.dim = {2, 0}, .norm = "ortho"}), fft::irfftn(x, {.s = {3, -1}, .dim = {0, -1}, .norm = "forward"}))
  GOLDEN("fft2", "randn(2, 3, 4, 2)", "pairs(torch.fft.fft2(cx(x))), pairs(torch.fft.fft2(cx(x), (4, 3), norm='ortho')), pairs(torch.fft.fft2(cx(x), dim=(0, 2)))", fft::fft2(x), fft::fft2(x, {.s = {4, 3}, .norm = "ortho"}), fft::fft2(x, {.dim = {0, 2}}))
  GOLDEN("ifft2", "randn(2, 3, 4, 2)", "pairs(torch.fft.ifft2(cx(x))), pairs(torch.fft.ifft2(cx(x), (4, 3), norm='ortho'))", fft::ifft2(x), fft::ifft2(x, {.s = {4, 3}, .norm = "ortho"}))
  GOLDEN("rfft2", "randn(2, 3, 4), randn(4, 20)", "pairs(torch.fft.rfft2(x)), pairs(torch.fft.rfft2(x, (4, 3), norm='ortho')), pairs(torch.fft.rfft2(y))", fft::rfft2(x), fft::rfft2(x, {.s = {4, 3}, .norm = "ortho"}), fft::rfft2(y))
  GOLDEN("irfft2", "randn(2, 3, 4, 2)", "torch.fft.irfft2(cx(x)), torch.fft.irfft2(cx(x), (4, 5), norm='ortho')", fft::irfft2(x), fft::irfft2(x, {.s = {4, 5}, .norm = "ortho"}))
  GOLDEN("fftfreq", "const(randn(1))", "torch.fft.fftfreq(5, dtype=x.dtype), torch.fft.fftfreq(6, 0.25, dtype=x.dtype), torch.fft.fftfreq(1)", fft::fftfreq(5, 1, {.dtype = x.dtype()}), fft::fftfreq(6, 0.25, {.dtype = x.dtype()}), fft::fftfreq(1))
  GOLDEN("rfftfreq", "const(randn(1))", "torch.fft.rfftfreq(5, dtype=x.dtype), torch.fft.rfftfreq(6, 0.25, dtype=x.dtype), torch.fft.rfftfreq(1)", fft::rfftfreq(5, 1, {.dtype = x.dtype()}), fft::rfftfreq(6, 0.25, {.dtype = x.dtype()}), fft::rfftfreq(1))
  GOLDEN("fftshift", "randn(3, 4), randn(5)", "torch.fft.fftshift(x), torch.fft.fftshift(x, -1), torch.fft.fftshift(y), torch.fft.fftshift(x, (0, 1))", fft::fftshift(x), fft::fftshift(x, {-1}), fft::fftshift(y), fft::fftshift(x, {0, 1}))
  GOLDEN("ifftshift", "randn(3, 4), randn(5)", "torch.fft.ifftshift(x), torch.fft.ifftshift(x, 0), torch.fft.ifftshift(y), torch.fft.ifftshift(x, (0, 1))", fft::ifftshift(x), fft::ifftshift(x, {0}), fft::ifftshift(y), fft::ifftshift(x, {0, 1}))

  // --- pairs as complex numbers ---
  GOLDEN("to_complex", "randn(2, 3), randn(3)", "pairs(torch.complex(x, y.expand(2, 3))), pairs(x + 0j)", to_complex(x, y), to_complex(x))
  GOLDEN("real", "randn(2, 3, 2)", "torch.real(cx(x))", real(x))
  GOLDEN("imag", "randn(2, 3, 2)", "torch.imag(cx(x))", imag(x))
  GOLDEN("complex_mul", "randn(2, 3, 2), randn(3, 2)", "pairs(cx(x) * cx(y))", complex_mul(x, y))
  GOLDEN("complex_conj", "randn(2, 3, 2)", "pairs(torch.conj(cx(x)))", complex_conj(x))
  GOLDEN("complex_abs", "randn(2, 3, 2), of([0., 0.], [3., -4.])", "cx(x).abs(), cx(y).abs()", complex_abs(x), complex_abs(y))
  GOLDEN("complex_angle", "randn(2, 3, 2), const(of([0., 0.], [-1., 0.], [0., -2.]))", "cx(x).angle(), cx(y).angle()", complex_angle(x), complex_angle(y))
};

}  // namespace mantissa::test
