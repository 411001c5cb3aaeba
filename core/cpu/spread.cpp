// Spreads elements along one dimension with zeros between them, in one pass: the gradient of a strided slice.
#include <algorithm>

#include "core/kernel.h"
#include "core/parallel.h"
#include "core/visit_word.h"

namespace mantissa {
MANTISSA_KERNEL(copy, const View& y, const View& x)
// y, contiguous, is 0 except for elements begin, begin + step, ... along dim, which are those of x.
MANTISSA_KERNEL(spread, const View& y, const View& x, int dim, std::int64_t begin, std::int64_t step)
}  // namespace mantissa

namespace mantissa::cpu_backend::MANTISSA_ISA {

void copy(const View& y, const View& x);  // core/cpu/copy.cpp

namespace {

// Writes n runs of `inner` elements, `step` apart, to the start of an area of `room` runs; the rest of it is 0.
template <class Word>
void spread_runs(Word* __restrict out, const Word* __restrict in, std::int64_t n, std::int64_t step, std::int64_t inner,
                 std::int64_t room) {
  const std::int64_t pairs = step == 2 && inner == 1 ? std::min(n, room / 2) : 0;  // processed as vectors
  for (std::int64_t i = 0; i < pairs; ++i) out[2 * i] = in[i], out[2 * i + 1] = 0;
  for (std::int64_t i = pairs; i < n; ++i) {
    Word* const to = out + i * step * inner;
    std::copy_n(in + i * inner, inner, to);
    std::fill(to + inner, out + std::min(room, (i + 1) * step) * inner, Word(0));
  }
  if (n * step < room) std::fill(out + n * step * inner, out + room * inner, Word(0));
}

}  // namespace

void spread(const View& y, const View& given, int dim, std::int64_t begin, std::int64_t step) {
  View x = given;
  Tensor dense;
  if (y.numel() == 0) return;
  if (!x.is_contiguous()) {
    dense = Tensor::allocate(x.sizes, x.dtype);
    copy(dense.view(), x);
    x = dense.view();
  }
  std::int64_t lines = 1, inner = 1, size = y.sizes[dim], count = x.sizes[dim];
  for (int d = 0; d < y.dim(); ++d) (d < dim ? lines : inner) *= d == dim ? 1 : y.sizes[d];
  if (count == 1) step = size;  // it may be huge
  if (count * step == size) size *= lines, count *= lines, lines = 1;  // lines continue with the same spacing
  visit_word(y.dtype, [&]<class Word> {
    if (count == 0) return static_cast<void>(std::fill_n(y.as<Word>(), y.numel(), Word(0)));
    const std::int64_t grain = std::max<std::int64_t>(1, grain_size / (step * inner));
    parallel_for(lines * count, grain, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t n = 0; first < last; first += n) {
        const std::int64_t at = first % count, place = begin + at * step;
        n = std::min(count - at, last - first);
        Word* const line = y.as<Word>() + first / count * size * inner;
        if (at == 0) std::fill_n(line, begin * inner, Word(0));
        spread_runs(line + place * inner, x.as<const Word>() + first * inner, n, step, inner,
                    at + n == count ? size - place : n * step);
      }
    });
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
