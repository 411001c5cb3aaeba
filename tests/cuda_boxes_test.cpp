// Boxes on a GPU: non-maximum suppression keeps the boxes that the CPU keeps.
#include <vector>

#include "core/operators.h"
#include "core/random.h"
#include "nn/boxes.h"
#include "tests/devices.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

// Boxes of many sizes that overlap each other, some without an area.
Tensor some_boxes(std::int64_t n, Dtype dtype) {
  const Tensor corner = rand({n, 2}, {.dtype = dtype}) * 20.0, size = rand({n, 2}, {.dtype = dtype}) * 12.0;
  return cat({corner, corner + clamp_min(size - 2.0, 0)}, 1);
}

}  // namespace

TEST_CASE("nms on a GPU keeps the boxes that the CPU keeps, in their order") {
  if (!cuda_is_available()) {
    WARN("no GPU and no shim: skipped");
    return;
  }
  manual_seed(3);
  for (const Dtype dtype : {f32, f64, f16}) {
    for (const std::int64_t n : {0, 1, 2, 63, 64, 65, 200, 500}) {
      INFO(n << " boxes");
      const Tensor boxes = some_boxes(n, f32).to(dtype), classes = randint(0, 3, {n});
      const Tensor scores = floor(rand({n}) * 50.0) / 50.0;  // some are equal
      if (n > 2) scores[1].fill_(NAN);
      for (const double threshold : {0.0, 0.3, 0.7}) {
        const Tensor all = nn::nms(boxes.to(cuda), scores.to(cuda), threshold);
        CHECK(all.device() == cuda);
        CHECK(same_bits(all, nn::nms(boxes, scores, threshold)));
        CHECK(same_bits(nn::batched_nms(boxes.to(cuda), scores.to(cuda), classes.to(cuda), threshold),
                        nn::batched_nms(boxes, scores, classes, threshold)));
      }
    }
  }
  // More boxes than are compared at once.
  const std::int64_t n = 4200;
  const Tensor boxes = some_boxes(n, f32) * 10.0, scores = rand({n});
  CHECK(same_bits(nn::nms(boxes.to(cuda), scores.to(cuda), 0.5), nn::nms(boxes, scores, 0.5)));
}
