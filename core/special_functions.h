// Special functions of one and two numbers, in double: called by the kernels of core/cpu/special.cpp and
// cuda/special.cu. Bessel functions are sums of Chebyshev polynomials, whose coefficients were computed with 34 digits
// from the functions' definitions; they and the normal distribution are formulas over T, also for SIMD vectors. The
// others are series, continued fractions and asymptotic expansions (NIST Digital Library of Mathematical Functions,
// chapters 8 and 25), for one number at a time.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/formula_functions.h"
#include "core/gamma_functions.h"

namespace mantissa::special {

inline constexpr double infinity = std::numeric_limits<double>::infinity(),
                        nan = std::numeric_limits<double>::quiet_NaN(), pi = 3.141592653589793;

// The sum of c[k] T_k(t), -1 <= t <= 1 (Clenshaw).
template <int n, class T> MANTISSA_HD inline T chebyshev(T t, const double (&c)[n]) {
  const T twice = t + t;
  T now(0), before(0);
  for (int k = n - 1; k > 0; --k) {
    const T next = twice * now - before + T(c[k]);
    before = now;
    now = next;
  }
  return t * now - before + T(c[0]);
}

// Whether a condition is true; for a vector, in all lanes. Lets a function skip a branch that no lane takes.
template <class Truth> MANTISSA_HD inline bool holds(const Truth& c) {
  if constexpr (std::is_same_v<Truth, bool>) return c;
  else return all(c);
}

// --- modified Bessel functions of the first kind, times exp(-|x|) ---
template <class T> MANTISSA_HD inline T bessel_i0e(T x) {
  using pointwise::abs, pointwise::select, pointwise::sqrt;
  const double near[] = {
      0.33839763720473804, -0.3046826723431984, 0.17162090152220878, -0.094901097048047644, 0.049305284239670708,
      -0.023737414805899469, 0.010546460394594998, -0.0043243099950505759, 0.0016394756169413358,
      -5.7637557453858237e-4, 1.8850288509584166e-4, -5.7541950100821037e-5, 1.6448448070728897e-5,
      -4.4167383584587506e-6, 1.1173875391201037e-6, -2.6707938539406117e-7, 6.0469950225419189e-8,
      -1.300025009986248e-8, 2.6598237246823867e-9, -5.1897956016352629e-10, 9.6758090353732369e-11,
      -1.7268262914415557e-11, 2.9550526631296398e-12, -4.8564467831119295e-13, 7.6761854986049356e-14,
      -1.1685332877993452e-14, 1.715391285555133e-15, -2.4312798465479547e-16, 3.3307945188222381e-17,
      -4.4153416464793393e-18};
  const double far[] = {  // times sqrt(x)
      0.40224520550705442, 0.0033691164782556941, 6.889758346916824e-5, 2.8913705208347565e-6, 2.0489185894690637e-7,
      2.2666689904981781e-8, 3.3962320257083863e-9, 4.9406023882249696e-10, 1.1889147107846438e-11,
      -3.1499165279632414e-11, -1.3215811840447713e-11, -1.7941785315068061e-12, 7.1801244513836662e-13,
      3.8527783827421427e-13, 1.5400862175214098e-14, -4.1505693472872221e-14, -9.5548466988283076e-15,
      3.8116806693526224e-15, 1.7725601330565264e-15, -3.4254856196772191e-16, -2.8276239805165835e-16,
      3.4612228676974611e-17, 4.46562142029676e-17, -4.8305044859441821e-18, -7.233180487874754e-18};
  const T a = abs(x), low = select(a < T(8), a, T(8)), high = select(a > T(8), a, T(8));
  const T below = chebyshev(low * T(0.25) - T(1), near);
  if (holds(a <= T(8))) return below;
  const T y = select(a > T(8), chebyshev(T(16) / high - T(1), far) / sqrt(high), below);
  return select(x == x, y, x);
}
template <class T> MANTISSA_HD inline T bessel_i1e(T x) {
  using pointwise::abs, pointwise::select, pointwise::sqrt;
  const double near[] = {  // divided by x
      0.12629359322181683, -0.17641651835783406, 0.1026436586898471, -0.052945981208094991, 0.024726449030626517,
      -0.010564084894626198, 0.0041564229443128882, -0.0015135724506312531, 5.1228595616857577e-4,
      -1.6176081582589675e-4, 4.7815651075500542e-5, -1.3273163656039436e-5, 3.4702513081376785e-6,
      -8.5687202646954547e-7, 2.0032947535521353e-7, -4.4450591287963281e-8, 9.3815373864957718e-9,
      -1.8872497517228293e-9, 3.625590281552117e-10, -6.6634897235020277e-11, 1.1736186298890902e-11,
      -1.9839743977649437e-12, 3.2237933659455747e-13, -5.0421855047279117e-14, 7.6006842947354069e-15,
      -1.1055969477353863e-15, 1.5536319577362005e-16, -2.1114212143581661e-17, 2.7779141127610464e-18};
  const double far[] = {  // times sqrt(x)
      0.38928811750914006, -0.0097610974913614684, -1.1058893876262372e-4, -3.8825648088776904e-6,
      -2.5122362378702089e-7, -2.6314688468895195e-8, -3.835380385964237e-9, -5.5897434621965838e-10,
      -1.8974958123505412e-11, 3.2526035830154882e-11, 1.4125807436613781e-11, 2.0356285441470895e-12,
      -7.1985517762459085e-13, -4.0835511110921973e-13, -2.1015418427726643e-14, 4.2724400167119514e-14,
      1.0420276984128803e-14, -3.8144030724370078e-15, -1.8803547755107824e-15, 3.3082023109209283e-16,
      2.9626289976459501e-16, -3.209525921993424e-17, -4.6503053684893583e-17, 4.4143483230717079e-18,
      7.5172963108421048e-18};
  const T a = abs(x), low = select(a < T(8), a, T(8)), high = select(a > T(8), a, T(8));
  const T below = x * chebyshev(low * T(0.25) - T(1), near);
  if (holds(a <= T(8))) return below;
  const T size = chebyshev(T(16) / high - T(1), far) / sqrt(high);
  const T y = select(a > T(8), select(x < T(0), T(0) - size, size), below);
  return select(x == x, y, x);
}

// --- Bessel functions of the first kind ---
// sqrt(2 / (pi x)) (p cos(x - turn) - q / x sin(x - turn)) for x >= 8; 0 at infinity
template <class T> MANTISSA_HD inline T bessel_wave(T x, double turn, T p, T q) {
  using pointwise::cos, pointwise::select, pointwise::sin, pointwise::sqrt;
  const T finite = select(x < T(infinity), x, T(8));
  // cos and sin of x - turn from those of x, which avoids rounding the difference
  const T c = cos(finite), s = sin(finite), u(std::cos(turn)), v(std::sin(turn));
  const T wave = p * (c * u + s * v) - q / finite * (s * u - c * v);
  return select(x < T(infinity), sqrt(T(2 / pi) / finite) * wave, T(0));
}
template <class T> MANTISSA_HD inline T bessel_j0(T x) {
  using pointwise::abs, pointwise::select;
  const double near[] = {
      0.15772797147489012, -0.0087234423528522213, 0.26517861320333681, -0.37009499387264978, 0.15806710233209726,
      -0.034893769411408885, 0.0048191800694676045, -4.6062616620627505e-4, 3.2460328821005081e-5,
      -1.7619469077621507e-6, 7.6081635924187819e-8, -2.6792535305576729e-9, 7.8486963144794644e-11,
      -1.9438346867370166e-12, 4.1253205956343739e-14, -7.5885081254475463e-16, 1.2218515873961411e-17};
  const double p[] = {
      0.99946034934751867, -5.3652204681321174e-4, 3.0751847875194746e-6, -5.1705945376060977e-8, 1.6306464635151383e-9,
      -7.86409137723707e-11, 5.1682623873491925e-12, -4.3045788699253912e-13, 4.3265957431549406e-14,
      -5.0690340959352361e-15, 6.7480722157338737e-16, -1.0011513723467786e-16, 1.6305919233744185e-17};
  const double q[] = {
      -0.12444683684269607, 5.4708159540893197e-4, -5.9315987288485178e-6, 1.4377965798375193e-7, -5.817532749493056e-9,
      3.3760975237349908e-10, -2.5653979367973078e-11, 2.404916100281365e-12, -2.6690625482579416e-13,
      3.4041800321963689e-14, -4.87994410531204e-15, 7.7297031762426052e-16, -1.3348852171502516e-16,
      2.4865952389390504e-17, -4.9528926298865055e-18};
  const T a = abs(x), low = select(a < T(8), a, T(8)), high = select(a > T(8), a, T(8));
  const T below = chebyshev(low * low * T(1.0 / 32) - T(1), near);
  if (holds(a <= T(8))) return below;
  const T t = T(128) / (high * high) - T(1);
  const T wave = bessel_wave(high, pi / 4, chebyshev(t, p), chebyshev(t, q));
  return select(x == x, select(a > T(8), wave, below), x);
}
template <class T> MANTISSA_HD inline T bessel_j1(T x) {
  using pointwise::abs, pointwise::select;
  const double near[] = {  // divided by x
      0.081044846325658115, -0.14897514506765211, 0.1609992623572097, -0.082680491766817907, 0.022213639654966035,
      -0.003646940600769276, 4.0503377283548218e-4, -3.2555548668572585e-5, 1.9858774049915167e-6,
      -9.5219847567504362e-8, 3.6871337590971482e-9, -1.1780266226958848e-10, 3.1601545803480033e-12,
      -7.2217552396517734e-14, 1.4232144003513942e-15, -2.4441972916190464e-17};
  const double p[] = {
      1.0009030408600137, 8.9898983308594086e-4, -3.9872843004889085e-6, 6.1776339606442985e-8, -1.8718907491063066e-9,
      8.8168986595823389e-11, -5.7048636403956447e-12, 4.6991955152305424e-13, -4.6842237839904892e-14,
      5.4526748960447172e-15, -7.2211808422740179e-16, 1.0667689114335412e-16, -1.7312313216116335e-17};
  const double q[] = {
      0.3742222965562826, -7.7021788393256635e-4, 7.3108922063643633e-6, -1.6767825107266738e-7, 6.5833546621204433e-9,
      -3.7490909505415562e-10, 2.8121750359748865e-11, -2.6114525394623199e-12, 2.8774212663332234e-13,
      -3.6490019160618378e-14, 5.2066263662267072e-15, -8.2153180254585948e-16, 1.4141084390211838e-16,
      -2.6267615898385334e-17, 5.2192649196714482e-18};
  const T a = abs(x), low = select(a < T(8), a, T(8)), high = select(a > T(8), a, T(8));
  const T below = x * chebyshev(low * low * T(1.0 / 32) - T(1), near);
  if (holds(a <= T(8))) return below;
  const T t = T(128) / (high * high) - T(1);
  const T wave = bessel_wave(high, 3 * pi / 4, chebyshev(t, p), chebyshev(t, q));
  return select(x == x, select(a > T(8), select(x < T(0), T(0) - wave, wave), below), x);
}

// --- the normal distribution ---
// exp(x^2) erfc(x)
template <class T> MANTISSA_HD inline T erfcx(T x) {
  using pointwise::abs, pointwise::exp, pointwise::select;
  const T size = abs(x), z = select(size < T(27), size, T(27)), square = z * z;
  const T above = pointwise::scaled_erfc(size), lost = pointwise::lost_by_square(z, square, T(1048576));
  return select(x < T(0), T(2) * exp(square) * (T(1) + lost) - above, above);
}
// log of the cumulative distribution function
template <class T> MANTISSA_HD inline T log_ndtr(T x) {
  using pointwise::abs, pointwise::log, pointwise::log1p, pointwise::select;
  const T t = x * T(0.7071067811865476);
  return select(x > T(-1), log1p(T(-0.5) * pointwise::exact_erfc(t)),
                log(T(0.5) * pointwise::scaled_erfc(abs(t))) - t * t);
}
// The inverse of the distribution function, by Halley iterations, which triple the digits, from a rational
// approximation accurate to 4.5e-4 (Abramowitz and Stegun, 26.2.23). A step is (distribution - p) / density: near 0
// computed with erf, so that all digits of a small result are correct, elsewhere with erfcx, so that nothing
// underflows.
template <class T> MANTISSA_HD inline T ndtri(T p) {
  using pointwise::exp, pointwise::log, pointwise::select, pointwise::sqrt;
  const T tail = select(p > T(0.5), T(1) - p, p);
  const auto tiny = tail < T(1e-300);  // the vector logarithm does not support denormals
  const T t = sqrt(select(tiny, T(88.722839111673), T(0)) - T(2) * log(select(tiny, tail * T(0x1p64), tail)));
  T z = (T(2.515517) + t * (T(0.802853) + t * T(0.010328))) /
            (T(1) + t * (T(1.432788) + t * (T(0.189269) + t * T(0.001308)))) - t;
  for (int i = 0; i < 2; ++i) {
    const T x = z * T(0.7071067811865476), square = x * x, root = exp(T(0.5) * square);  // of exp(z^2 / 2)
    const T near = (T(0.5) * x * pointwise::erf_over_x(square) + (T(0.5) - tail)) * (root * root);
    const T far = T(0.5) * pointwise::scaled_erfc(T(0) - x) - tail * root * root;
    const T step = T(2.5066282746310002) * select(square < T(0.25), near, far);
    z = z - step / (T(1) + T(0.5) * z * step);
  }
  z = select(p > T(0.5), T(0) - z, z);
  return select(tail == T(0), select(p == T(0), T(-infinity), T(infinity)), z);
}

// --- Hurwitz's zeta function: the sum over k >= 0 of (q + k)^-s ---
MANTISSA_HD inline double zeta(double s, double q) {
  if (s != s || q != q) return nan;
  if (s == 1) return infinity;
  if (s < 1) return nan;
  if (q == infinity) return 0;
  if (q > 0) {
    double sum = 0;
    for (; q < s + 12; q += 1) {  // at most a few for large s
      const double term = std::pow(q, -s);
      sum += term;
      if (term <= 1e-17 * sum) return sum;
    }
    return sum + hurwitz_zeta(s, q);
  }
  const double whole = std::floor(q);
  if (q == whole) return infinity;
  if (s != std::floor(s)) return nan;  // powers of negative numbers
  // both sides of 0, each with arguments > 0
  const double above = zeta(s, q - whole), below = zeta(s, 1 - (q - whole)) - zeta(s, 1 - q);
  return std::fmod(s, 2) == 0 ? above + below : above - below;
}

// --- the regularised incomplete gamma functions P(a, x) and Q(a, x) = 1 - P(a, x) ---
// log(1 + m) - m
MANTISSA_HD inline double log1p_less(double m) {
  if (std::abs(m) > 0.3) return std::log1p(m) - m;
  const double z = m / (2 + m), square = z * z;  // log(1 + m) = 2 atanh(z), and m = 2 z + m z
  double sum = 0;
  for (int k = 21; k >= 3; k -= 2) sum = sum * square + 1.0 / k;
  return 2 * z * square * sum - m * z;
}
// x^a e^-x / Gamma(a + 1)
MANTISSA_HD inline double gamma_term(double a, double x) {
  if (a < 20) return std::exp(a * std::log(x) - x - log_gamma(a + 1));
  const double z = 1 / (a * a);  // Stirling's series: small difference for x near a
  const double rest = (1.0 / 12 - z * (1.0 / 360 - z * (1.0 / 1260 - z * (1.0 / 1680 - z / 1188)))) / a;
  return std::exp(a * log1p_less((x - a) / a) - rest) / std::sqrt(2 * pi * a);
}
// log Gamma(1 + a) of 0 <= a < 1, as exact for tiny a as elsewhere.
MANTISSA_HD inline double log_gamma_above_one(double a) {
  if (a > 0.1) return log_gamma(a + 1);
  constexpr double zeta[] = {1.6449340668482264, 1.2020569031595943, 1.0823232337111382, 1.0369277551433699,
                             1.0173430619844491, 1.0083492773819228, 1.0040773561979443, 1.0020083928260822,
                             1.0009945751278181, 1.0004941886041195, 1.0002460865533080, 1.0001227133475785};
  double sum = 0;  // DLMF 5.7.3
  for (int k = 13; k >= 2; --k) sum = (k % 2 == 0 ? zeta[k - 2] : -zeta[k - 2]) / k + a * sum;
  return a * (a * sum - 0.57721566490153286);
}
// Q of small a and x, near 0 where P is near 1: from the series of P in which x^a / Gamma(a + 1) is apart (DLMF 8.7.3).
MANTISSA_HD inline double upper_gamma_series(double a, double x) {
  const double log_front = a * std::log(x) - log_gamma_above_one(a);
  double sum = 0, power = 1;
  for (int n = 1; n < 100; ++n) {
    power *= -x / n;
    sum += power / (a + n);
    if (std::abs(power) < 1e-18 * std::abs(sum)) break;
  }
  return -std::expm1(log_front) - a * std::exp(log_front) * sum;
}
// P, or Q if `upper`: whichever can be computed without cancellation, or 1 minus the other.
MANTISSA_HD inline double incomplete_gamma(double a, double x, bool upper) {
  if (!(a >= 0 && x >= 0)) return nan;
  if (a == infinity) return x == infinity ? nan : upper ? 1 : 0;
  if (a == 0) return x == 0 ? nan : upper ? 0 : 1;
  if (x == 0) return upper ? 1 : 0;
  if (x == infinity) return upper ? 0 : 1;
  if (a > 1e5) {  // Temme's uniform expansion, DLMF 8.12
    const double m = (x - a) / a, h = -2 * log1p_less(m), eta = m < 0 ? -std::sqrt(h) : std::sqrt(h);
    if (std::abs(m) > 0.1) return (m > 0) == upper ? 0 : 1;
    const double c0 = -1.0 / 3 + eta * (1.0 / 12 + eta * (-2.0 / 135 + eta * (1.0 / 864 + eta * (1.0 / 2835 +
                      eta * (-139.0 / 777600)))));
    const double c1 = -1.0 / 540 + eta * (-1.0 / 288 + eta * (1.0 / 378));
    const double rest = std::exp(-0.5 * a * h) / std::sqrt(2 * pi * a) * (c0 + c1 / a), t = eta * std::sqrt(0.5 * a);
    return upper ? 0.5 * std::erfc(t) + rest : 0.5 * std::erfc(-t) - rest;
  }
  // Where P is over a half.
  if (upper && x <= 1.1 && a < (x <= 0.5 ? -0.4 / std::log(x) : 0.9 * x)) return upper_gamma_series(a, x);
  const double term = gamma_term(a, x);
  if (x < a + 1) {  // series of P
    double sum = 1, next = 1;
    for (int n = 1; n < 10000 && next > 1e-17 * sum; ++n) sum += next *= x / (a + n);
    const double p = sum * term;
    return upper ? 1 - p : p;
  }
  // continued fraction of Q, evaluated forward (Lentz)
  double b = x + 1 - a, c = 1e300, d = 1 / b, fraction = d;
  for (int n = 1; n < 10000; ++n) {
    const double numerator = n * (a - n);
    b += 2;
    d = 1 / (numerator * d + b);
    c = b + numerator / c;
    fraction *= c * d;
    if (std::abs(c * d - 1) < 1e-16) break;
  }
  const double q = term * a * fraction;
  return upper ? q : 1 - q;
}

// --- as called by kernels ---
enum class Unary : std::int32_t { i0, i0e, i1, i1e, bessel_j0, bessel_j1, erfcx, log_ndtr, ndtri };
enum class Binary : std::int32_t { zeta, igamma, igammac };

struct UnaryFunction {
  Unary which = Unary::i0;
  template <class T> MANTISSA_HD T formula(T x) const {  // double, or vectors of it
    using pointwise::abs, pointwise::exp, pointwise::select;
    const T a = abs(x);
    switch (which) {  // at infinity exp(x) * 0 would be NaN
      case Unary::i0: return select(a == T(infinity), a, exp(a) * bessel_i0e(x));
      case Unary::i0e: return bessel_i0e(x);
      case Unary::i1: return select(a == T(infinity), x, exp(a) * bessel_i1e(x));
      case Unary::i1e: return bessel_i1e(x);
      case Unary::bessel_j0: return bessel_j0(x);
      case Unary::bessel_j1: return bessel_j1(x);
      case Unary::erfcx: return erfcx(x);
      case Unary::log_ndtr: return log_ndtr(x);
      default: return ndtri(x);
    }
  }
  template <class T> MANTISSA_HD T f(T x) const { return static_cast<T>(formula(static_cast<double>(x))); }
};
struct BinaryFunction {
  Binary which = Binary::zeta;
  template <class T> MANTISSA_HD T f(T a, T b) const {
    const auto x = static_cast<double>(a), y = static_cast<double>(b);
    return static_cast<T>(which == Binary::zeta ? zeta(x, y) : incomplete_gamma(x, y, which == Binary::igammac));
  }
};

}  // namespace mantissa::special
