// Instructions of one thread that compute: numbers, conversions, comparisons, moves, branches.
#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cfenv>
#include <chrono>
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/half.h"
#include "tests/cuda_shim/hopper.h"
#include "tests/cuda_shim/ptx_parts.h"

namespace cuda_shim::ptx {
namespace {

template <class T> constexpr bool is_float = std::is_floating_point_v<T>;
template <class T>
using Wide = std::conditional_t<
    sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>,
                       std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>>;
// Integers wrap around.
template <class T>
using Bits = std::conditional_t<is_float<T>, T, std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>>;

template <class T, class F> void unary(Instruction& i, F) {
  i.step = [](Frame& f, const Instruction& at) { set(f, at.d, static_cast<T>(F()(get<T>(f, at.a)))); };
}
template <class T, class F> void binary(Instruction& i, F) {
  i.step = [](Frame& f, const Instruction& at) { set(f, at.d, static_cast<T>(F()(get<T>(f, at.a), get<T>(f, at.b)))); };
}
template <class T, class F> void ternary(Instruction& i, F) {
  i.step = [](Frame& f, const Instruction& at) {
    set(f, at.d, static_cast<T>(F()(get<T>(f, at.a), get<T>(f, at.b), get<T>(f, at.c))));
  };
}

// f() with another rounding than to nearest.
template <class F> auto rounded(int mode, F&& f) {
  const int before = std::fegetround();
  std::fesetround(mode);
  const auto result = f();
  std::fesetround(before);
  return result;
}
int rounding(const Statement& s) {
  return s.has("rm") ? FE_DOWNWARD : s.has("rp") ? FE_UPWARD : s.has("rz") ? FE_TOWARDZERO : FE_TONEAREST;
}
// A sum, product or fused product-sum of floats; `at.number` is the rounding.
enum class Sum { add, sub, mul, fma };
template <class T, Sum sum> T compute(T a, T b, T c) {
  const volatile T x = a, y = b, z = c;  // volatile, so that it is computed here, between two changes of the rounding
  volatile T result;
  if constexpr (sum == Sum::add) result = x + y;
  else if constexpr (sum == Sum::sub) result = x - y;
  else if constexpr (sum == Sum::mul) result = x * y;
  else result = std::fma(x, y, z);
  return result;
}
template <class T, Sum sum> void float_sum(const Statement& s, Instruction& i) {
  i.number = rounding(s);
  if (sum != Sum::fma) i.c = i.a;
  if (i.number == FE_TONEAREST) {
    i.step = [](Frame& f, const Instruction& at) {
      set(f, at.d, compute<T, sum>(get<T>(f, at.a), get<T>(f, at.b), get<T>(f, at.c)));
    };
  } else {
    i.step = [](Frame& f, const Instruction& at) {
      set(f, at.d, rounded(static_cast<int>(at.number), [&] {
            return compute<T, sum>(get<T>(f, at.a), get<T>(f, at.b), get<T>(f, at.c));
          }));
    };
  }
}

// Sums of 32-bit words with a carry: add.cc, addc, addc.cc, sub.cc, subc, mad.lo.cc, madc.hi, ...
constexpr std::int64_t has_product = 1, high_half = 2, takes_carry = 4, gives_carry = 8, subtracts = 16;
void carry_sum(const Statement& s, Instruction& i) {
  if (s.type() != "u32" && s.type() != "b32" && s.type() != "s32") fail_unknown(s);
  if (s.has("hi") && s.type() == "s32") fail_unknown(s);  // the product would be signed
  const std::string_view op = s.words[0];
  const bool product = op.starts_with("mad"), high = s.has("hi");
  const bool takes = op.ends_with('c'), gives = s.has("cc"), minus = op.starts_with("sub");
  i.number = (product ? has_product : 0) | (high ? high_half : 0) | (takes ? takes_carry : 0) |
             (gives ? gives_carry : 0) | (minus ? subtracts : 0);
  i.step = [](Frame& f, const Instruction& at) {
    const auto a = std::uint64_t{get<std::uint32_t>(f, at.a)}, b = std::uint64_t{get<std::uint32_t>(f, at.b)};
    const bool carry = (at.number & takes_carry) && f.carry;
    std::uint64_t x = a, y = b;
    if (at.number & has_product) {
      x = (at.number & high_half) ? a * b >> 32 : a * b & 0xffffffffu;
      y = get<std::uint32_t>(f, at.c);
    }
    const std::uint64_t sum = (at.number & subtracts) ? x - y - carry : x + y + carry;
    if (at.number & gives_carry) f.carry = sum >> 32 & 1;
    set(f, at.d, static_cast<std::uint32_t>(sum));
  };
}

void integer_sum(const Statement& s, Instruction& i) {
  const std::string_view op = s.words[0];
  with_type(s.type(), [&]<class T>(T) {
    using U = Bits<T>;
    if (op == "add")
      return binary<T>(i, [](T a, T b) { return static_cast<T>(static_cast<U>(a) + static_cast<U>(b)); });
    if (op == "sub")
      return binary<T>(i, [](T a, T b) { return static_cast<T>(static_cast<U>(a) - static_cast<U>(b)); });
    if constexpr (sizeof(T) >= 2 && !is_float<T>) {
      using W = Wide<T>;
      if (op == "mul" && s.has("lo"))
        return binary<T>(i, [](T a, T b) { return static_cast<T>(static_cast<U>(a) * static_cast<U>(b)); });
      if (op == "mul" && s.has("hi"))
        return binary<T>(
            i, [](T a, T b) { return static_cast<T>(static_cast<W>(a) * static_cast<W>(b) >> 8 * sizeof(T)); });
      if (op == "mad" && s.has("lo")) {
        return ternary<T>(
            i, [](T a, T b, T c) { return static_cast<T>(static_cast<U>(a) * static_cast<U>(b) + static_cast<U>(c)); });
      }
      if constexpr (sizeof(T) < 8) {
        if (op == "mul" && s.has("wide")) {
          i.step = [](Frame& f, const Instruction& at) {
            set(f, at.d, static_cast<W>(static_cast<W>(get<T>(f, at.a)) * static_cast<W>(get<T>(f, at.b))));
          };
          return;
        }
        if (op == "mad" && s.has("wide")) {
          i.step = [](Frame& f, const Instruction& at) {
            set(f, at.d,
                static_cast<W>(static_cast<W>(get<T>(f, at.a)) * static_cast<W>(get<T>(f, at.b)) + get<W>(f, at.c)));
          };
          return;
        }
      }
    }
    fail_unknown(s);
  });
}
void sum(const Statement& s, Instruction& i) {
  const std::string_view op = s.words[0];
  if (s.has("cc") || op == "addc" || op == "subc" || op == "madc") return carry_sum(s, i);
  if (s.has("sat") || s.has("ftz")) fail_unknown(s);
  const auto of_floats = [&]<class T>(T) {
    if (op == "add") float_sum<T, Sum::add>(s, i);
    else if (op == "sub") float_sum<T, Sum::sub>(s, i);
    else if (op == "mul") float_sum<T, Sum::mul>(s, i);
    else if (op == "fma") float_sum<T, Sum::fma>(s, i);
    else fail_unknown(s);
  };
  if (s.type() == "f32") of_floats(float());
  else if (s.type() == "f64") of_floats(double());
  else integer_sum(s, i);
}

// An approximation of f64 has the upper half of the result's bits.
double upper_half(double v) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(v) & ~std::uint64_t{0xffffffff});
}
float flushed(float v) { return std::fabs(v) < std::numeric_limits<float>::min() ? std::copysign(0.0f, v) : v; }

// The smaller or larger of two; -0 is less than 0. Where one is a NaN: with .NaN a NaN, without the other.
template <class T, bool smaller, bool nan> struct Extreme {
  T operator()(T a, T b) const {
    if (std::isnan(a) || std::isnan(b)) return nan ? std::numeric_limits<T>::quiet_NaN() : std::isnan(a) ? b : a;
    if (a == b) return std::signbit(a) == smaller ? a : b;
    return (a < b) == smaller ? a : b;
  }
};

// div.approx: 0 where the divisor is so large that its reciprocal is denormal.
float approximate_quotient(float a, float b) {
  const float size = std::fabs(b);
  return size > 0x1p126f && size < std::numeric_limits<float>::infinity() ? a * 0 : a / b;
}

void function(const Statement& s, Instruction& i) {
  const std::string_view op = s.words[0];
  const bool flush = s.has("ftz");
  for (std::size_t k = 1; k + 1 < s.words.size(); ++k) {  // all modifiers that this function knows
    const std::string_view w = s.words[k];
    if (w != "rn" && w != "approx" && w != "ftz" && !(w == "NaN" && (op == "min" || op == "max"))) fail_unknown(s);
  }
  with_type(s.type(), [&]<class T>(T) {
    if constexpr (is_float<T>) {
      if constexpr (sizeof(T) == 8) {
        if (s.has("approx")) {
          if (op == "rcp") return unary<T>(i, [](T x) { return upper_half(1.0 / x); });
          if (op == "rsqrt") return unary<T>(i, [](T x) { return upper_half(1.0 / std::sqrt(x)); });
          fail_unknown(s);
        }
      } else if (flush && s.has("approx")) {
        if (op == "rcp") return unary<T>(i, [](T x) { return flushed(1 / flushed(x)); });
        if (op == "rsqrt") return unary<T>(i, [](T x) { return 1 / std::sqrt(flushed(x)); });
        if (op == "ex2") return unary<T>(i, [](T x) { return flushed(std::exp2(flushed(x))); });
        if (op == "lg2") return unary<T>(i, [](T x) { return std::log2(flushed(x)); });
        if (op == "div")
          return binary<T>(i, [](T a, T b) { return flushed(approximate_quotient(flushed(a), flushed(b))); });
        fail_unknown(s);
      }
      if (flush) fail_unknown(s);
      if (op == "rcp") return unary<T>(i, [](T x) { return 1 / x; });
      if (op == "rsqrt") return unary<T>(i, [](T x) { return 1 / std::sqrt(x); });
      if (op == "ex2") return unary<T>(i, [](T x) { return std::exp2(x); });
      if (op == "lg2") return unary<T>(i, [](T x) { return std::log2(x); });
      if (op == "sin") return unary<T>(i, [](T x) { return std::sin(x); });
      if (op == "cos") return unary<T>(i, [](T x) { return std::cos(x); });
      if (op == "tanh") return unary<T>(i, [](T x) { return std::tanh(x); });
      if (op == "sqrt") return unary<T>(i, [](T x) { return std::sqrt(x); });
      if (op == "div" && s.has("approx") && sizeof(T) == 4)
        return binary<T>(i,
                         [](T a, T b) { return approximate_quotient(static_cast<float>(a), static_cast<float>(b)); });
      if (op == "div") return binary<T>(i, [](T a, T b) { return a / b; });
      if (op == "copysign") return binary<T>(i, [](T sign, T v) { return std::copysign(v, sign); });
      if (op == "neg") return unary<T>(i, [](T x) { return -x; });
      if (op == "abs") return unary<T>(i, [](T x) { return std::fabs(x); });
      if (op == "min")
        return s.has("NaN") ? binary<T>(i, Extreme<T, true, true>()) : binary<T>(i, Extreme<T, true, false>());
      if (op == "max")
        return s.has("NaN") ? binary<T>(i, Extreme<T, false, true>()) : binary<T>(i, Extreme<T, false, false>());
    } else {
      using U = Bits<T>;
      // Division by zero gives all ones here; PTX leaves it open.
      if (op == "div") {
        return binary<T>(i, [](T a, T b) {
          if (b == 0) return static_cast<T>(-1);
          if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(U(0) - static_cast<U>(a));
          return static_cast<T>(a / b);
        });
      }
      if (op == "rem") {
        return binary<T>(i, [](T a, T b) {
          return b == 0 ? a : std::is_signed_v<T> && b == static_cast<T>(-1) ? T(0) : static_cast<T>(a % b);
        });
      }
      if (op == "neg") return unary<T>(i, [](T x) { return static_cast<T>(U(0) - static_cast<U>(x)); });
      if (op == "abs") return unary<T>(i, [](T x) { return x < T(0) ? static_cast<T>(U(0) - static_cast<U>(x)) : x; });
      if (op == "min") return binary<T>(i, [](T a, T b) { return std::min(a, b); });
      if (op == "max") return binary<T>(i, [](T a, T b) { return std::max(a, b); });
    }
    fail_unknown(s);
  });
}

void bits(const Statement& s, Instruction& i) {
  const std::string_view op = s.words[0];
  if (op == "not" && s.type() == "pred") return unary<std::uint8_t>(i, [](std::uint8_t x) { return x == 0; });
  with_type(s.type(), [&]<class T>(T) {
    if constexpr (!is_float<T>) {
      using U = std::make_unsigned_t<T>;
      if (op == "and") return binary<T>(i, [](T a, T b) { return static_cast<T>(a & b); });
      if (op == "or") return binary<T>(i, [](T a, T b) { return static_cast<T>(a | b); });
      if (op == "xor") return binary<T>(i, [](T a, T b) { return static_cast<T>(a ^ b); });
      if (op == "not") return unary<T>(i, [](T a) { return static_cast<T>(~a); });
      // The number of places is a u32; from the width on every bit is gone.
      if (op == "shl") {
        i.step = [](Frame& f, const Instruction& at) {
          const auto by = get<std::uint32_t>(f, at.b);
          set(f, at.d, by < 8 * sizeof(T) ? static_cast<T>(static_cast<std::uint64_t>(get<U>(f, at.a)) << by) : T(0));
        };
        return;
      }
      if (op == "shr") {
        i.step = [](Frame& f, const Instruction& at) {
          const auto by = std::min<std::uint32_t>(get<std::uint32_t>(f, at.b), 8 * sizeof(T));
          const T v = get<T>(f, at.a);
          set(f, at.d, by < 8 * sizeof(T) ? static_cast<T>(v >> by) : v < T(0) ? static_cast<T>(-1) : T(0));
        };
        return;
      }
      if (op == "bfi") {  // d = b with the lowest bits of a at a place
        i.list = {s.slot(4)};
        i.step = [](Frame& f, const Instruction& at) {
          const auto from = get<std::uint32_t>(f, at.c) & 0xff, count = get<std::uint32_t>(f, at.list[0]) & 0xff;
          U mask = count >= 8 * sizeof(T) ? ~U(0) : static_cast<U>((U(1) << count) - 1);
          mask = from >= 8 * sizeof(T) ? U(0) : static_cast<U>(mask << from);
          const U a = from >= 8 * sizeof(T) ? U(0) : static_cast<U>(get<U>(f, at.a) << from);
          set(f, at.d, static_cast<T>((get<U>(f, at.b) & ~mask) | (a & mask)));
        };
        return;
      }
      if (op == "popc" || op == "clz") {
        const bool count = op == "popc";
        i.step = count ? Instruction::Step([](Frame& f, const Instruction& at) {
          set(f, at.d, static_cast<std::uint32_t>(std::popcount(get<U>(f, at.a))));
        })
                       : [](Frame& f, const Instruction& at) {
                           set(f, at.d, static_cast<std::uint32_t>(std::countl_zero(get<U>(f, at.a))));
                         };
        return;
      }
    }
    fail_unknown(s);
  });
}

// Bytes of two words, chosen by four digits.
void permute(const Statement& s, Instruction& i) {
  if (s.words.size() != 2) fail_unknown(s);  // its other modes
  i.step = [](Frame& f, const Instruction& at) {
    const std::uint64_t both = get<std::uint32_t>(f, at.a) | std::uint64_t{get<std::uint32_t>(f, at.b)} << 32;
    const auto digits = get<std::uint32_t>(f, at.c);
    std::uint32_t v = 0;
    for (int k = 0; k < 4; ++k) {
      const std::uint32_t digit = digits >> 4 * k & 15;
      auto byte = static_cast<std::uint32_t>(both >> 8 * (digit & 7) & 255);
      if (digit & 8) byte = byte & 128 ? 255 : 0;  // its sign
      v |= byte << 8 * k;
    }
    set(f, at.d, v);
  };
}

// --- comparisons ---
template <class T, class F> void comparison(Instruction& i, F) {
  i.step = [](Frame& f, const Instruction& at) {
    set(f, at.d, static_cast<std::uint8_t>(F()(get<T>(f, at.a), get<T>(f, at.b))));
  };
}
void compare(const Statement& s, Instruction& i) {
  if (s.words.size() != 3 || s.operands[0].predicate != no_slot) fail_unknown(s);
  const std::string_view op = s.words[1];
  with_type(s.type(), [&]<class T>(T) {
    if (op == "eq") return comparison<T>(i, [](T a, T b) { return a == b; });
    if (op == "lt" || op == "lo") return comparison<T>(i, [](T a, T b) { return a < b; });
    if (op == "le" || op == "ls") return comparison<T>(i, [](T a, T b) { return a <= b; });
    if (op == "gt" || op == "hi") return comparison<T>(i, [](T a, T b) { return a > b; });
    if (op == "ge" || op == "hs") return comparison<T>(i, [](T a, T b) { return a >= b; });
    if constexpr (is_float<T>) {
      if (op == "ne") return comparison<T>(i, [](T a, T b) { return a < b || a > b; });
      if (op == "equ") return comparison<T>(i, [](T a, T b) { return !(a < b || a > b); });
      if (op == "neu") return comparison<T>(i, [](T a, T b) { return a != b; });
      if (op == "ltu") return comparison<T>(i, [](T a, T b) { return !(a >= b); });
      if (op == "leu") return comparison<T>(i, [](T a, T b) { return !(a > b); });
      if (op == "gtu") return comparison<T>(i, [](T a, T b) { return !(a <= b); });
      if (op == "geu") return comparison<T>(i, [](T a, T b) { return !(a < b); });
      if (op == "num") return comparison<T>(i, [](T a, T b) { return !std::isnan(a) && !std::isnan(b); });
      if (op == "nan") return comparison<T>(i, [](T a, T b) { return std::isnan(a) || std::isnan(b); });
    } else {
      if (op == "ne") return comparison<T>(i, [](T a, T b) { return a != b; });
    }
    fail_unknown(s);
  });
}
void select(const Statement& s, Instruction& i) {
  with_type(s.type(), [&]<class T>(T) {
    i.step = [](Frame& f, const Instruction& at) {
      set(f, at.d, get<std::uint8_t>(f, at.c) ? get<T>(f, at.a) : get<T>(f, at.b));
    };
  });
}

// --- conversions ---
template <char how, class T> T to_integral(T v) {
  if constexpr (how == 'n') return std::nearbyint(v);
  else if constexpr (how == 'm') return std::floor(v);
  else if constexpr (how == 'p') return std::ceil(v);
  else return std::trunc(v);
}
// Out of range the nearest; NaN is 0, where a type has 64 bits the lowest.
template <class D, class T> D to_integer(T v) {
  if (std::isnan(v)) return sizeof(T) == 8 || sizeof(D) == 8 ? static_cast<D>(D(1) << (8 * sizeof(D) - 1)) : D(0);
  if (v < static_cast<T>(std::numeric_limits<D>::min())) return std::numeric_limits<D>::min();
  // The highest of 64 bits is not a float; the next power of two is.
  if (v >= std::ldexp(T(1), std::numeric_limits<D>::digits)) return std::numeric_limits<D>::max();
  return static_cast<D>(v);
}
template <class D, class T, char how> void float_to_integer(Instruction& i) {
  i.step = [](Frame& f, const Instruction& at) {
    const T v = to_integral<how>(get<T>(f, at.a));
    if constexpr (is_float<D>) set(f, at.d, static_cast<D>(v));
    else extend(f, at.d, to_integer<D>(v));
  };
}
template <class D, class T> void float_to_integer(const Statement& s, Instruction& i) {
  if (s.has("rni")) float_to_integer<D, T, 'n'>(i);
  else if (s.has("rmi")) float_to_integer<D, T, 'm'>(i);
  else if (s.has("rpi")) float_to_integer<D, T, 'p'>(i);
  else if (s.has("rzi")) float_to_integer<D, T, 'z'>(i);
  else fail_unknown(s);
}

template <class H> void to_half(const Statement& s, Instruction& i) {
  if (s.type() == "f32" && s.has("rn") && s.words.size() == 4) {
    i.step = [](Frame& f, const Instruction& at) { set(f, at.d, H(get<float>(f, at.a)).bits); };
  } else {
    fail_unknown(s);
  }
}
template <class H> void to_halves(const Statement& s, Instruction& i) {  // the first operand goes to the upper half
  if (s.type() != "f32" || !s.has("rn") || s.words.size() != 4) fail_unknown(s);
  i.step = [](Frame& f, const Instruction& at) {
    set(f, at.d, H(get<float>(f, at.b)).bits | static_cast<std::uint32_t>(H(get<float>(f, at.a)).bits) << 16);
  };
}
template <class H> void from_half(const Statement& s, Instruction& i) {
  if (s.type(1) != "f32" || s.words.size() != 3) fail_unknown(s);
  i.step = [](Frame& f, const Instruction& at) {
    H h;
    h.bits = get<std::uint16_t>(f, at.a);
    set(f, at.d, static_cast<float>(h));
  };
}

void convert(const Statement& s, Instruction& i) {
  const std::string_view to = s.type(1), from = s.type();
  if (s.has("ftz")) fail_unknown(s);
  if (to == "f16") return to_half<mantissa::Half>(s, i);
  if (to == "bf16") return to_half<mantissa::BFloat16>(s, i);
  if (to == "f16x2") return to_halves<mantissa::Half>(s, i);
  if (to == "bf16x2") return to_halves<mantissa::BFloat16>(s, i);
  if (from == "f16") return from_half<mantissa::Half>(s, i);
  if (from == "bf16") return from_half<mantissa::BFloat16>(s, i);
  const bool saturates = s.has("sat");
  with_type(to, [&]<class D>(D) {
    with_type(from, [&]<class T>(T) {
      if (saturates) {
        if (s.words.size() != 4) fail_unknown(s);
        if constexpr (is_float<D> && std::is_same_v<D, T>) {  // to [0, 1]
          return unary<T>(i, [](T x) { return x > 0 ? std::min(x, T(1)) : T(0); });
        }
        fail_unknown(s);
      }
      if constexpr (is_float<T>) {
        if constexpr (!is_float<D>) return float_to_integer<D, T>(s, i);
        if (s.has("rni") || s.has("rzi") || s.has("rmi") || s.has("rpi")) return float_to_integer<D, T>(s, i);
      }
      if (s.has("rz") || s.has("rm") || s.has("rp")) fail_unknown(s);
      i.step = [](Frame& f, const Instruction& at) { extend(f, at.d, static_cast<D>(get<T>(f, at.a))); };
    });
  });
}

// --- moves and branches ---
// Where a thread is, and other things to be read alone.
Instruction::Step special(std::string_view name) {
#define MANTISSA_READ(text, value) \
  if (name == text) return [](Frame& f, const Instruction& at) { set(f, at.d, static_cast<std::uint64_t>(value)); }
  MANTISSA_READ("%tid.x", threadIdx.x);
  MANTISSA_READ("%tid.y", threadIdx.y);
  MANTISSA_READ("%tid.z", threadIdx.z);
  MANTISSA_READ("%ntid.x", blockDim.x);
  MANTISSA_READ("%ntid.y", blockDim.y);
  MANTISSA_READ("%ntid.z", blockDim.z);
  MANTISSA_READ("%ctaid.x", blockIdx.x);
  MANTISSA_READ("%ctaid.y", blockIdx.y);
  MANTISSA_READ("%ctaid.z", blockIdx.z);
  MANTISSA_READ("%nctaid.x", gridDim.x);
  MANTISSA_READ("%nctaid.y", gridDim.y);
  MANTISSA_READ("%nctaid.z", gridDim.z);
  MANTISSA_READ("%laneid", lane());
  MANTISSA_READ("%cluster_ctarank", block_in_cluster());
  MANTISSA_READ("%globaltimer", std::chrono::steady_clock::now().time_since_epoch().count());
#undef MANTISSA_READ
  fail("unknown register " + std::string(name));
}
void move(const Statement& s, Instruction& i) {
  const Operand &to = s.operands.at(0), &from = s.operands.at(1);
  if (from.kind == Operand::Kind::special) {
    i.step = special(from.name);
  } else if (from.kind == Operand::Kind::list || to.kind == Operand::Kind::list) {
    // Halves of a word.
    const bool packs = from.kind == Operand::Kind::list;
    i.list = packs ? from.list : to.list;
    std::size_t bytes = 0;
    with_type(s.type(), [&](auto v) { bytes = sizeof v; });
    i.number = static_cast<std::int64_t>(8 * bytes / i.list.size());
    i.step = packs
                 ? Instruction::Step([](Frame& f, const Instruction& at) {
                     const std::uint64_t mask = (std::uint64_t{1} << at.number) - 1;
                     std::uint64_t all = 0;
                     for (std::size_t k = 0; k < at.list.size(); ++k)
                       all |= (get<std::uint64_t>(f, at.list[k]) & mask) << static_cast<std::int64_t>(k) * at.number;
                     set(f, at.d, all);
                   })
                 : [](Frame& f, const Instruction& at) {
                     const std::uint64_t mask = (std::uint64_t{1} << at.number) - 1, all = get<std::uint64_t>(f, at.a);
                     for (std::size_t k = 0; k < at.list.size(); ++k)
                       set(f, at.list[k], all >> static_cast<std::int64_t>(k) * at.number & mask);
                   };
  } else {
    if (from.kind != Operand::Kind::value || from.slot == no_slot) fail("mov of " + std::string(from.name));
    if (s.type() == "pred") {
      i.step = [](Frame& f, const Instruction& at) {
        set(f, at.d, static_cast<std::uint8_t>(get<std::uint8_t>(f, at.a) != 0));
      };
      return;
    }
    i.step = [](Frame& f, const Instruction& at) { set(f, at.d, get<std::uint64_t>(f, at.a)); };
  }
}

using Decode = void (*)(const Statement&, Instruction&);
const std::map<std::string_view, Decode>& table() {
  static const std::map<std::string_view, Decode> all = {
      {"add", sum},
      {"sub", sum},
      {"mul", sum},
      {"mad", sum},
      {"fma", sum},
      {"addc", sum},
      {"subc", sum},
      {"madc", sum},
      {"div", function},
      {"rem", function},
      {"rcp", function},
      {"rsqrt", function},
      {"sqrt", function},
      {"ex2", function},
      {"lg2", function},
      {"sin", function},
      {"cos", function},
      {"tanh", function},
      {"copysign", function},
      {"neg", function},
      {"abs", function},
      {"min", function},
      {"max", function},
      {"and", bits},
      {"or", bits},
      {"xor", bits},
      {"not", bits},
      {"shl", bits},
      {"shr", bits},
      {"bfi", bits},
      {"popc", bits},
      {"clz", bits},
      {"prmt", permute},
      {"setp", compare},
      {"selp", select},
      {"cvt", convert},
      {"mov", move},
      {"bra",
       [](const Statement&, Instruction& i) {
         i.step = [](Frame& f, const Instruction& at) { f.next = static_cast<std::size_t>(at.number); };
       }},
      {"ret", [](const Statement&,
                 Instruction& i) { i.step = [](Frame& f, const Instruction&) { f.next = ~std::size_t{0}; }; }},
      {"trap", [](const Statement&, Instruction& i) { i.step = [](Frame&, const Instruction&) { fail("trap"); }; }},
  };
  return all;
}

}  // namespace

bool decode_arithmetic(const Statement& s, Instruction& i) {
  const auto at = table().find(s.words[0]);
  if (at == table().end()) return false;
  Slot* const slots[] = {&i.d, &i.a, &i.b, &i.c};
  for (std::size_t k = 0; k < std::min<std::size_t>(4, s.operands.size()); ++k) *slots[k] = s.operands[k].slot;
  at->second(s, i);
  return true;
}

}  // namespace cuda_shim::ptx
