// A batch of images from a data set in device memory: gathered, augmented as planned and normalized, in one pass. Rows
// of a plan (data/resident.h): indices, labels, then the six fields of each step (core/pixel_step.h). Or the classes of
// their pixels, as i64: moved alike, but not filled.
#include "core/kernel.h"
#include "core/pixel_step.h"
#include "cuda/launch.cuh"
#include "cuda/vec.cuh"

namespace mantissa {
MANTISSA_CUDA_KERNEL(gather_images, const View& y, const View& images, const View& plan, const View& table)
}

namespace mantissa::cuda_backend {
namespace {

struct Pictures {
  std::int64_t count, channels, height, width;
  MANTISSA_HD std::int64_t total() const { return count * channels * height * width; }
};

// One thread per pixel of the batch.
__global__ void gather_images_kernel(void* y, Dtype dtype, const std::uint8_t* images, const std::int64_t* plan,
                                     int steps, const float* table, Pictures p) {
  wait_for_previous_kernel();
  const std::int64_t pixels = p.height * p.width, i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= p.total()) return;
  const std::int64_t picture = i / (p.channels * pixels), channel = i / pixels % p.channels;
  std::int64_t row = i % pixels / p.width, column = i % p.width;
  int value = -1;  // read from the image
  for (int s = steps - 1; s >= 0 && value < 0; --s) {
    const std::int64_t* f = plan + (2 + 6 * s) * p.count + picture;
    const std::int64_t n = p.count;
    const PixelStep step{f[0], f[n], f[2 * n], f[3 * n], f[4 * n], f[5 * n]};
    if (dtype == i64 && step.kind == PixelStep::fill) continue;
    if (!step.trace(p.height, p.width, &row, &column)) value = static_cast<int>(step.value);
  }
  if (value < 0) value = images[((plan[picture] * p.channels + channel) * p.height + row) * p.width + column];
  if (dtype == i64) static_cast<std::int64_t*>(y)[i] = value;
  else if (table) store_element<float>(y, dtype, i, table[channel * 256 + value]);
  else static_cast<std::uint8_t*>(y)[i] = static_cast<std::uint8_t>(value);
}

}  // namespace

void gather_images(const View& y, const View& images, const View& plan, const View& table) {
  const Pictures p{y.sizes[0], y.sizes[1], y.sizes[2], y.sizes[3]};
  const int steps = static_cast<int>((plan.sizes[0] - 2) / 6);
  launch("gather_images", &gather_images_kernel, grid_for(p.total()), y.data, y.dtype, images.as<std::uint8_t>(),
         plan.as<std::int64_t>(), steps, table.as<float>(), p);
}

}  // namespace mantissa::cuda_backend
