// Constant padding: each row of the result is written once, with its border and its part of x.
#include "core/cpu/row_walk.h"
#include "core/cpu/runs.h"
#include "core/cpu/simd.h"
#include "core/kernel.h"
#include "core/pad.h"
#include "core/parallel.h"
#include "core/visit_word.h"

namespace mantissa {
MANTISSA_KERNEL(fill, const View& y, double value)
MANTISSA_KERNEL(copy, const View& y, const View& x)
MANTISSA_KERNEL(constant_pad, const View& y, const View& x, const Dims& before, double value)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

// The interior of y: the part of the given sizes that begins at `before`.
View inside_border(const View& y, const Dims& sizes, const Dims& before) {
  View part = y;
  std::int64_t offset = 0;
  for (int d = 0; d < sizes.rank(); ++d) offset += before[d] * y.strides[d];
  part.sizes = sizes;
  part.data = y.as<char>() + offset * static_cast<std::int64_t>(size_of(y.dtype));
  return part;
}

bool has_rows(const PadPlan& p) { return !p.out.empty() && p.to.back() == 1 && p.from.back() == 1; }

// One plane of rows at a time: the innermost two dimensions, or separate rows.
template <class Word> void pad_rows(const PadPlan& p, Word* y, const Word* x, Word value) {
  const int inner = p.out.rank() - 1, outer = std::max(inner - 1, 0);
  const std::int64_t row = p.out[inner], run = p.in[inner], left = p.before[inner], right = row - left - run;
  const std::int64_t height = inner > 0 ? p.out[outer] : 1, inside = inner > 0 ? p.in[outer] : 1,
                     top = inner > 0 ? p.before[outer] : 0, y_row = inner > 0 ? p.to[outer] : 0,
                     x_row = inner > 0 ? p.from[outer] : 0;
  std::int64_t planes = 1;
  for (int d = 0; d < outer; ++d) planes *= p.out[d];
  constexpr std::int64_t few_bytes = 256, block_bytes = 8192;
  const bool short_rows = row * static_cast<std::int64_t>(sizeof(Word)) <= few_bytes && (inner == 0 || y_row == row);
  const std::int64_t block = std::max<std::int64_t>(1, block_bytes / (row * static_cast<std::int64_t>(sizeof(Word))));
  // Split by rows, so that a few large planes are also shared among threads.
  const std::int64_t grain = std::max<std::int64_t>(1, grain_size / row);
  parallel_for(planes * height, grain, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first, end; r < last; r = end) {
      end = std::min(last, (r / height + 1) * height);
      std::int64_t to = 0, from = 0, rest = r / height;
      bool has_x = true;
      for (int d = outer - 1; d >= 0; rest /= p.out[d--]) {
        const std::int64_t at = rest % p.out[d], i = at - p.before[d];
        has_x = has_x && i >= 0 && i < p.in[d];
        to += at * p.to[d];
        from += i * p.from[d];
      }
      const std::int64_t begin = r % height, stop = begin + (end - r);
      const std::int64_t x_begin = has_x ? std::clamp(top, begin, stop) : stop,
                         x_stop = has_x ? std::clamp(top + inside, x_begin, stop) : stop;
      if (short_rows) {
        // All in one run, then the part of x: the second write hits the cache, and costs less than the borders' pieces.
        for (std::int64_t i = begin; i < stop; i += block) {
          const std::int64_t last_row = std::min(stop, i + block), from_row = std::clamp(x_begin, i, last_row),
                             to_row = std::clamp(x_stop, from_row, last_row);
          std::fill_n(y + to + i * row, (last_row - i) * row, value);
          if (to_row > from_row)
            copy_rows(y + to + from_row * row + left, row, x + from + (from_row - top) * x_row, x_row, run,
                      to_row - from_row);
        }
        continue;
      }
      for (std::int64_t i = begin; i < x_begin; ++i) fill_run(y + to + i * y_row, value, row);
      for (std::int64_t i = x_begin; i < x_stop; ++i) {
        Word* out = y + to + i * y_row;
        fill_run(out, value, left);
        copy_run(out + left, x + from + (i - top) * x_row, run);
        fill_run(out + left + run, value, right);
      }
      for (std::int64_t i = x_stop; i < stop; ++i) fill_run(y + to + i * y_row, value, row);
    }
  });
}

}  // namespace

// y is dense in some dimension order, and x is placed at `before` in it; both have one dtype.
void constant_pad(const View& y, const View& x, const Dims& before, double value) {
  if (y.numel() == 0) return;
  const PadPlan p(y, x, before);
  if (x.numel() == 0 || !has_rows(p)) {
    fill(y, value);
    if (x.numel() > 0) copy(inside_border(y, x.sizes, before), x);
    return;
  }
  alignas(8) unsigned char element[8];
  store_run(element, y.dtype, 0, 1, &value, 1);
  visit_word(y.dtype, [&]<class Word> {
    Word word;
    std::memcpy(&word, element, sizeof word);
    pad_rows(p, y.as<Word>(), x.as<const Word>(), word);
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
