// Elementwise kernels, part 1: see cuda/pointwise_tiles.cuh.
#include "cuda/pointwise_tiles.cuh"

namespace mantissa::cuda_backend {
const PointwiseEntry* const pointwise_1 = entries_of<1>.data();
}
