// Base classes of the formulas of elementwise operators (core/pointwise.h has the rules).
#pragma once

#include <cstdint>

#include "core/formula_functions.h"

namespace mantissa::pointwise {

enum class Result : std::uint8_t { promoted, boolean, floating };  // floating: integers give f32
enum class Saves : std::uint8_t { nothing, input, output };

struct Formula {  // defaults
  static constexpr Result result = Result::promoted;
  static constexpr Saves saves = Saves::nothing;
  static constexpr bool integers = false;  // also computes in i64
  static constexpr bool floats = true;     // computes in f32 and f64
  static constexpr bool flat = false;      // step function: the derivative is 0 and there is no df
};
struct Floating : Formula { static constexpr Result result = Result::floating; };
// Also on integers, without conversion.
struct Comparison : Formula {
  static constexpr Result result = Result::boolean;
  static constexpr bool integers = true;
};
struct Bitwise : Formula { static constexpr bool integers = true, floats = false; };
struct Step : Formula { static constexpr bool integers = true, flat = true; };

// Prefix of a formula's member functions; defined until the end of core/pointwise.h.
#define MANTISSA_F template <class T> MANTISSA_HD T

}  // namespace mantissa::pointwise
