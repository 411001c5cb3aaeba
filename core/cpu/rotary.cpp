// Rotary embedding (Su et al., 2021): rotates pairs of elements of each row by angles that depend on its position.
#include <algorithm>

#include "core/cpu/rows.h"
#include "core/kernel.h"
#include "core/parallel.h"
#include "core/scratch.h"

namespace mantissa {
// Pairs are (i, i + D / 2), or adjacent elements if interleaved. `position`: the dimension of x that counts positions,
// before the last. cosine, sine: [positions, D / 2], contiguous, in x's compute dtype. inverse: by the negative angles.
// y has dense rows, and any strides otherwise.
MANTISSA_KERNEL(rotary, const View& y, const View& x, const View& cosine, const View& sine, int position,
                bool interleaved, bool inverse)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

// Offsets of row `row` (over all dimensions but the last) in x and y, and its position.
struct RowPlace { std::int64_t x = 0, y = 0, position = 0; };
RowPlace place_of(const View& x, const View& y, std::int64_t row, int position) {
  RowPlace place;
  for (int d = x.dim() - 2; d >= 0; --d) {
    const std::int64_t i = row % x.sizes[d];
    place.x += i * x.strides[d];
    place.y += i * y.strides[d];
    if (d == position) place.position = i;
    row /= x.sizes[d];
  }
  return place;
}

template <class C> void turn(std::int64_t half, C* a, C* b, const C* cosine, const C* sine, bool inverse) {
  for (std::int64_t i = 0; i < half; ++i) {
    const C s = inverse ? -sine[i] : sine[i], c = cosine[i], p = a[i], q = b[i];
    a[i] = p * c - q * s;
    b[i] = q * c + p * s;
  }
}

}  // namespace

void rotary(const View& y, const View& x, const View& cosine, const View& sine, int position, bool interleaved,
            bool inverse) {
  const std::int64_t length = x.size(x.dim() - 1), half = length / 2, rows = length > 0 ? x.numel() / length : 0;
  visit_floating(x.dtype, [&]<class T> {
    using C = Compute<T>;
    const std::int64_t grain = std::max<std::int64_t>(1, grain_size / 4 / std::max<std::int64_t>(1, length));
    parallel_for(rows, grain, [&](std::int64_t first, std::int64_t last) {
      ScratchVector<C> line(static_cast<std::size_t>(2 * length));
      C *a = line.data(), *b = a + half, *woven = b + half;
      for (std::int64_t r = first; r < last; ++r) {
        const RowPlace at = place_of(x, y, r, position);
        const T* from = x.as<const T>() + at.x;
        T* to = y.as<T>() + at.y;
        const C *c = cosine.as<const C>() + at.position * half, *s = sine.as<const C>() + at.position * half;
        const std::int64_t step = x.strides[x.dim() - 1];
        convert_run(a, from, interleaved ? 2 * step : step, half);
        convert_run(b, from + (interleaved ? step : half * step), interleaved ? 2 * step : step, half);
        turn(half, a, b, c, s, inverse);
        if (interleaved) {
          for (std::int64_t i = 0; i < half; ++i) {
            woven[2 * i] = a[i];
            woven[2 * i + 1] = b[i];
          }
        }
        convert_run(to, interleaved ? static_cast<const C*>(woven) : a, 1, length);
      }
    });
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
