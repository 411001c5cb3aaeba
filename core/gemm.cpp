#include "core/gemm.h"

#include <optional>

#include "core/gemm_ways.h"
#include "core/kernel.h"

namespace mantissa {

MANTISSA_CUDA_KERNEL(gemm, const View& y, const View& a, const View& b, const View& bias, bool add)

namespace {

using namespace gemm_ways;

struct Way {
  bool (*is_for)(const Product& p);
  void (*multiply)(const Product& p);
  bool turned = false;  // both functions are called with the transposed product, y^T = b^T @ a^T
};
// In the order in which they are tried: each is described for the products that those before it do not take.
constexpr Way ways[] = {
    {is_dot, multiply_dot},
    {is_minute, multiply_by_loops},
    {is_tiny_and_short, multiply_tiny},
    {is_tiny, multiply_tiny, true},
    {is_outer, multiply_outer},
    {is_batch_of_rows, multiply_rows},
    {is_batch_of_rows, multiply_rows, true},
    {is_small, multiply_small},
    {is_few_rows, multiply_by_rows},
    {is_row_across, multiply_across},
    {is_one_column, multiply_by_column},
    {is_few_columns, multiply_few_columns},
    {is_batch_of_columns, multiply_columns},
    {is_batch_of_columns, multiply_columns, true},
    {is_row_across, multiply_across, true},
    {is_of_halves, multiply_halves},
};

struct Turned {  // y^T = b^T @ a^T, for a product without a bias
  explicit Turned(const Product& p) : y(on_its_side(p.y)), a(on_its_side(p.b)), b(on_its_side(p.a)) {}
  View y, a, b, no_bias;
  KeptWeight nothing_kept;
  Product product{y, a, b, no_bias, false, nothing_kept};
};

}  // namespace

void kernels::gemm(Device device, const View& y, const View& a, const View& b, const View& bias, const KeptWeight& kept,
                   bool add) {
  if (y.numel() == 0) return;
  const CountedFlops counted(product_flops(y, a));
  if (!device.is_cpu()) return cuda_backend::prepare(&cuda_backend::gemm, device)(y, a, b, bias, add);
  const Product product{y, a, b, bias, add, kept};
  std::optional<Turned> turned;
  for (const Way& way : ways) {
    if (way.turned && !product.plain()) continue;
    if (way.turned && !turned) turned.emplace(product);
    const Product& p = way.turned ? turned->product : product;
    if (way.is_for(p)) return way.multiply(p);
  }
  multiply_in_pieces(product);
}

std::int64_t pieces_for(double flops) {
  std::int64_t pieces = flops >= 2 * small_piece ? 2 : 1;
  while (pieces > 1 && pieces < most_pieces && flops >= good_piece * 2 * static_cast<double>(pieces)) pieces *= 2;
  return pieces;
}

}  // namespace mantissa
