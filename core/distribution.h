// Four random numbers from the four words of one Philox counter: used by CPU and device to fill tensors.
#pragma once

#include <cmath>

#include "core/random.h"

namespace mantissa {

enum class Distribution : std::uint8_t {
  uniform,   // [0, 1); `low`: how many of the 32 bits are dropped
  normal,    // mean 0, standard deviation 1
  integers,  // low, low + 1, ... below low + range
};

MANTISSA_HD inline void draw_four(Distribution distribution, const Philox::Words& w, double low, double range,
                                  double* v) {
  if (distribution == Distribution::uniform) {
    const int dropped = static_cast<int>(low);
    for (int i = 0; i < 4; ++i) v[i] = std::ldexp(static_cast<double>(w.v[i] >> dropped), dropped - 32);
  } else if (distribution == Distribution::normal) {
    for (int i = 0; i < 4; i += 2) {  // Box-Muller transform; u > 0
      const double u = (static_cast<double>(w.v[i]) + 0.5) * 0x1p-32,
                   angle = static_cast<double>(w.v[i + 1]) * (6.283185307179586 * 0x1p-32);
      const double r = std::sqrt(-2 * std::log(u));
      v[i] = r * std::cos(angle);
      v[i + 1] = r * std::sin(angle);
    }
  } else {
    for (int i = 0; i < 4; ++i) v[i] = low + std::floor(static_cast<double>(w.v[i]) * 0x1p-32 * range);
  }
}

}  // namespace mantissa
