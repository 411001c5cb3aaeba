// Complex numbers as pairs of real ones (core/ops_complex.h).
#include "core/ops_complex.h"

#include "core/ops_special.h"
#include "ops/apply.h"
#include "ops/device_table.h"
#include "ops/registry.h"

namespace mantissa {
namespace {

void check_pairs(const char* name, const Tensor& z) {
  check(z.is_floating() && z.dim() > 0 && z.size(-1) == 2, name,
        ": needs floating pairs of real and imaginary part [..., 2], got ", z);
}

}  // namespace

Tensor to_complex(const Tensor& real, const Tensor& imag) {
  check(real.is_floating() && imag.is_floating(), "to_complex: needs floating tensors, got ", real, " and ", imag);
  check(real.dtype() == imag.dtype(), "to_complex: real and imaginary parts must have one dtype, got ", real.dtype(),
        " and ", imag.dtype());
  const std::vector<Tensor> parts = broadcast_tensors({real, imag});
  return stack(parts, -1);
}
Tensor to_complex(const Tensor& real) {
  check(real.is_floating(), "to_complex: needs a floating tensor, got ", real);
  return stack({real, zeros_like(real)}, -1);
}
Tensor real(const Tensor& z) {
  check_pairs("real", z);
  return select(z, -1, 0);
}
Tensor imag(const Tensor& z) {
  check_pairs("imag", z);
  return select(z, -1, 1);
}
Tensor complex_mul(const Tensor& a, const Tensor& b) {
  check_pairs("complex_mul", a);
  check_pairs("complex_mul", b);
  const bool halves = is_half(a.dtype()) && a.dtype() == b.dtype();  // computed in f32, rounded once
  const Tensor x = halves ? cast(a, f32) : a, y = halves ? cast(b, f32) : b;
  const Tensor xr = real(x), xi = imag(x), yr = real(y), yi = imag(y);
  const Tensor z = stack({xr * yr - xi * yi, xr * yi + xi * yr}, -1);
  return halves ? cast(z, a.dtype()) : z;
}
Tensor complex_conj(const Tensor& z) {
  check_pairs("complex_conj", z);
  const double signs[] = {1, -1};
  return z * device_table(signs, {2}, z.dtype(), z.device());
}
Tensor complex_abs(const Tensor& z) {
  check_pairs("complex_abs", z);
  return norm(z, 2, {-1});
}
Tensor complex_angle(const Tensor& z) {
  check_pairs("complex_angle", z);
  const Tensor re = real(z), im = imag(z);
  const Tensor nothing = logical_and(eq(re, Tensor(0.0)), eq(im, Tensor(0.0)));
  return atan2(im, where(nothing, Tensor(1.0), re));  // at 0 + 0i the angle is 0, and the gradient does not divide by 0
}

namespace {

void to_complex_samples(Samples& s) {
  s.call({s.randn({3}), s.randn({2, 1})}, [](const Tensors& x) { return to_complex(x[0], x[1]); });
  s.call({s.randn({2, 3})}, [](const Tensors& x) { return to_complex(x[0]); });
  s.error_call(
      {s.integers({3}, 0, 5)}, [](const Tensors& x) { return to_complex(x[0]); }, "needs a floating tensor");
}
template <class F> void pair_samples(Samples& s, F f) {
  s.call({s.randn({2, 3, 2})}, [f](const Tensors& x) { return f(x[0]); });
  s.call({s.randn({0, 2})}, [f](const Tensors& x) { return f(x[0]); });
  s.error_call(
      {s.randn({2, 3})}, [f](const Tensors& x) { return f(x[0]); }, "needs floating pairs of real and imaginary part");
}
void real_samples(Samples& s) {
  pair_samples(s, [](const Tensor& z) { return real(z); });
}
void imag_samples(Samples& s) {
  pair_samples(s, [](const Tensor& z) { return imag(z); });
}
void conj_samples(Samples& s) {
  pair_samples(s, [](const Tensor& z) { return complex_conj(z); });
}
void abs_samples(Samples& s) {
  pair_samples(s, [](const Tensor& z) { return complex_abs(z); });
}
void angle_samples(Samples& s) {
  pair_samples(s, [](const Tensor& z) { return complex_angle(z); });
}
void mul_samples(Samples& s) {
  s.call({s.randn({2, 3, 2}), s.randn({3, 2})}, [](const Tensors& x) { return complex_mul(x[0], x[1]); });
  s.error_call(
      {s.randn({2}), s.randn({3})}, [](const Tensors& x) { return complex_mul(x[0], x[1]); },
      "needs floating pairs of real and imaginary part");
}

}  // namespace

MANTISSA_COMPOSITE(to_complex, to_complex_samples)
MANTISSA_COMPOSITE(real, real_samples, .is_view = true)
MANTISSA_COMPOSITE(imag, imag_samples, .is_view = true)
MANTISSA_COMPOSITE(complex_mul, mul_samples)
MANTISSA_COMPOSITE(complex_conj, conj_samples)
MANTISSA_COMPOSITE(complex_abs, abs_samples)
MANTISSA_COMPOSITE(complex_angle, angle_samples)

}  // namespace mantissa
