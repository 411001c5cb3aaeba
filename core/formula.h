// What every formula of an elementwise operator begins with (core/pointwise.h has the rules).
#pragma once

#include <cstdint>

#include "core/formula_functions.h"

namespace mantissa::pointwise {

enum class Result : std::uint8_t { promoted, boolean, floating };  // floating: integers give f32
enum class Saves : std::uint8_t { nothing, input, output };

struct Formula {  // defaults of the fields below
  static constexpr Result result = Result::promoted;
  static constexpr Saves saves = Saves::nothing;
  static constexpr bool integers = false;  // also computes in i64
  static constexpr bool floats = true;     // computes in f32 and f64
  static constexpr bool flat = false;      // a step function: the derivative is 0 and there is no df
};
struct Floating : Formula { static constexpr Result result = Result::floating; };
// Of integers, too, as they are.
struct Comparison : Formula {
  static constexpr Result result = Result::boolean;
  static constexpr bool integers = true;
};
struct Bitwise : Formula { static constexpr bool integers = true, floats = false; };
struct Step : Formula { static constexpr bool integers = true, flat = true; };

// What begins a function of a formula; until the end of core/pointwise.h.
#define MANTISSA_F template <class T> MANTISSA_HD T

}  // namespace mantissa::pointwise
