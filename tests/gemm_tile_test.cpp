// The tile of core/cpu/gemm_tile.h, compiled here for this file's instruction set, compared with sums in f64: all
// numbers of rows and columns, the strides that its callers use, tails that must not be written.
#ifndef MANTISSA_ISA
#define MANTISSA_ISA tile_test
#endif
#include "core/cpu/gemm_tile.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tests/catch_compat.h"

namespace tile = mantissa::cpu_backend::MANTISSA_ISA::gemm_tile;

namespace {

struct Case {
  std::int64_t rows, columns, depth;
  bool packed_a, packed_b, add;
};

// The largest error in units of the promised tolerance; 1e30 if anything outside of c was written.
double error_of(const Case& t) {
  const std::int64_t panels = (t.columns + tile::max_columns - 1) / tile::max_columns,
                     whole = panels * tile::max_columns;
  const std::int64_t a_row = t.packed_a ? 1 : t.depth + 3, a_col = t.packed_a ? t.rows + 1 : 1;
  const std::int64_t b_row = t.packed_b ? tile::max_columns : whole;
  const std::int64_t b_panel = t.packed_b ? tile::max_columns * t.depth : tile::max_columns;
  const std::int64_t c_row = t.columns + 5;
  std::mt19937 random(7);
  std::uniform_real_distribution<float> number(-1, 1);
  std::vector<float> a(static_cast<std::size_t>((t.rows + 1) * (t.depth + 3))),
      b(static_cast<std::size_t>(whole * t.depth + 1));
  std::vector<float> c(static_cast<std::size_t>(t.rows * c_row));
  for (auto* v : {&a, &b, &c}) std::generate(v->begin(), v->end(), [&] { return number(random); });
  const std::vector<float> before = c;
  tile::multiply_block(t.rows, t.columns, {a.data(), a_row, a_col, b.data(), b_row, c.data(), c_row, t.depth},
                       b_panel, t.add);
  double worst = 0;
  for (std::int64_t i = 0; i < t.rows; ++i) {
    for (std::int64_t j = 0; j < c_row; ++j) {
      const auto at = static_cast<std::size_t>(i * c_row + j);
      if (j >= t.columns) {
        if (c[at] != before[at]) return 1e30;
        continue;
      }
      double sum = t.add ? before[at] : 0.0;
      for (std::int64_t k = 0; k < t.depth; ++k) {
        const float* right =
            &b[static_cast<std::size_t>(j / tile::max_columns * b_panel)] + k * b_row + j % tile::max_columns;
        sum += static_cast<double>(a[static_cast<std::size_t>(i * a_row + k * a_col)]) * *right;
      }
      const double root = std::sqrt(static_cast<double>(t.depth + 1));
      worst = std::max(worst, std::abs(c[at] - sum) / (2e-6 * root * std::abs(sum) + 1e-6 * root));
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("a tile of a product is right for all its sizes and strides") {
  for (std::int64_t rows = 1; rows <= 2 * tile::max_rows + 1; ++rows) {
    for (std::int64_t columns = 1; columns <= 2 * tile::max_columns + 1; columns += columns % 5 ? 1 : 3) {
      for (int flags = 0; flags < 8; ++flags) {
        const Case t{rows, columns, (rows + columns) % 9, (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0};
        INFO("rows " << rows << " columns " << columns << " depth " << t.depth << " flags " << flags);
        REQUIRE(error_of(t) <= 1);
      }
    }
  }
  REQUIRE(error_of({20, 70, 300, false, true, false}) <= 1);
}

TEST_CASE("an element of a product does not depend on the tile around it") {
  const std::int64_t depth = 37, rows = 3 * tile::max_rows + 2, columns = tile::max_columns;
  std::mt19937 random(3);
  std::uniform_real_distribution<float> number(-1, 1);
  std::vector<float> a(static_cast<std::size_t>(rows * depth)), b(static_cast<std::size_t>(columns * depth));
  for (auto* v : {&a, &b}) std::generate(v->begin(), v->end(), [&] { return number(random); });
  std::vector<float> all(static_cast<std::size_t>(rows * columns)), one(static_cast<std::size_t>(columns));
  tile::multiply_block(rows, columns, {a.data(), depth, 1, b.data(), columns, all.data(), columns, depth}, 0, false);
  for (std::int64_t i = 0; i < rows; ++i) {
    tile::multiply_block(1, columns, {a.data() + i * depth, depth, 1, b.data(), columns, one.data(), columns, depth},
                         0, false);
    REQUIRE(std::equal(one.begin(), one.end(), all.begin() + i * columns));
  }
}
