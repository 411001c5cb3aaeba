// Elementwise kernels, part 4: see cuda/pointwise_tiles.cuh.
#include "cuda/pointwise_tiles.cuh"

namespace mantissa::cuda_backend {
const PointwiseEntry* const pointwise_4 = entries_of<4>.data();
}
