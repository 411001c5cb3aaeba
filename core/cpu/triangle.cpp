// tril and triu: keeps one side of a diagonal, zeros on the other.
#include <algorithm>

#include "core/cpu/runs.h"
#include "core/kernel.h"
#include "core/parallel.h"
#include "core/visit_word.h"

namespace mantissa {
MANTISSA_KERNEL(copy, const View& y, const View& x)
// y = x where column <= row + diagonal, or with `upper` where column >= row + diagonal; else 0. y is contiguous, x of
// its dtype and sizes.
MANTISSA_KERNEL(triangle, const View& y, const View& x, std::int64_t diagonal, bool upper)
}  // namespace mantissa

namespace mantissa::cpu_backend::MANTISSA_ISA {

void triangle(const View& y, const View& x, std::int64_t diagonal, bool upper) {
  if (y.numel() == 0) return;
  const bool in_place = !x.is_contiguous();
  if (in_place) copy(y, x);
  const std::int64_t rows = y.size(y.dim() - 2), columns = y.size(y.dim() - 1);
  diagonal = std::clamp(diagonal, -rows, columns);
  visit_word(y.dtype, [&]<class Word> {
    parallel_for(y.numel() / columns, std::max<std::int64_t>(1, grain_size / columns),
                 [&](std::int64_t first, std::int64_t last) {
                   for (std::int64_t i = first; i < last; ++i) {
                     const std::int64_t at = i % rows + diagonal;
                     const std::int64_t begin = upper ? std::clamp<std::int64_t>(at, 0, columns) : 0;
                     const std::int64_t end = upper ? columns : std::clamp<std::int64_t>(at + 1, 0, columns);
                     Word* out = y.as<Word>() + i * columns;
                     fill_run(out, Word(0), begin);
                     if (!in_place) copy_run(out + begin, x.as<const Word>() + i * columns + begin, end - begin);
                     fill_run(out + end, Word(0), columns - end);
                   }
                 });
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
