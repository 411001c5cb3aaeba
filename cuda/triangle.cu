// tril and triu: keeps one side of a diagonal, zeros on the other, which is not read. Mirrors core/cpu/triangle.cpp.
#include "core/kernel.h"
#include "core/visit_word.h"
#include "cuda/launch.cuh"
#include "cuda/vec.cuh"

namespace mantissa {
MANTISSA_KERNEL(triangle, const View& y, const View& x, std::int64_t diagonal, bool upper)
}

namespace mantissa::cuda_backend {

void copy(const View& y, const View& x);  // cuda/copy.cu

namespace {

struct Matrices {
  std::int64_t count, rows, columns;  // contiguous
};

// A thread for each part of a row that consists of `each` elements, in the rows of blockIdx.y, of matrix blockIdx.z.
template <class Word, int each>
__global__ void triangle_kernel(Word* y, const Word* x, Matrices m, std::int64_t diagonal, bool upper) {
  wait_for_previous_kernel();
  using Part = Neighbours<Word, each>;
  const std::int64_t column = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * each;
  if (column >= m.columns) return;
  for (std::int64_t matrix = blockIdx.z; matrix < m.count; matrix += gridDim.z) {
    for (std::int64_t row = std::int64_t{blockIdx.y} * blockDim.y + threadIdx.y; row < m.rows;
         row += std::int64_t{gridDim.y} * blockDim.y) {
      const std::int64_t at = (matrix * m.rows + row) * m.columns + column;
      const std::int64_t on = row + diagonal - column;  // where the diagonal is in this part
      Part part{};
      if (upper ? on < each : on >= 0) part = *reinterpret_cast<const Part*>(x + at);
#pragma unroll
      for (int k = 0; k < each; ++k)
        if (upper ? k < on : k > on) part.v[k] = 0;
      *reinterpret_cast<Part*>(y + at) = part;
    }
  }
}

template <class Word, int each>
void run(const View& y, const Word* x, const Matrices& m, std::int64_t diagonal, bool upper) {
  const std::int64_t parts = m.columns / each;
  unsigned across = 1;
  while (across < block_size && across < parts) across *= 2;
  const unsigned down = block_size / across;
  const auto at_most = [](std::int64_t n) { return static_cast<unsigned>(std::min<std::int64_t>(n, 65535)); };
  Grid grid = grid_for(parts, 1, static_cast<int>(across));
  grid.threads = dim3(across, down);
  grid.blocks.y = at_most((m.rows + down - 1) / down);
  grid.blocks.z = at_most(m.count);
  launch("triangle", &triangle_kernel<Word, each>, grid, y.as<Word>(), x, m, diagonal, upper);
}

}  // namespace

void triangle(const View& y, const View& x, std::int64_t diagonal, bool upper) {
  if (y.numel() == 0) return;
  const bool in_place = !x.is_contiguous();
  if (in_place) copy(y, x);
  const std::int64_t rows = y.size(y.dim() - 2), columns = y.size(y.dim() - 1);
  const Matrices m{y.numel() / (rows * columns), rows, columns};
  diagonal = std::clamp(diagonal, -rows, columns);
  visit_word(y.dtype, [&]<class Word>() {
    constexpr int each = 16 / sizeof(Word);
    const Word* from = in_place ? y.as<Word>() : x.as<const Word>();
    const bool aligned = columns % each == 0 && reinterpret_cast<std::uintptr_t>(from) % 16 == 0 &&
                         reinterpret_cast<std::uintptr_t>(y.data) % 16 == 0;
    if (aligned) run<Word, each>(y, from, m, diagonal, upper);
    else run<Word, 1>(y, from, m, diagonal, upper);
  });
}

}  // namespace mantissa::cuda_backend
