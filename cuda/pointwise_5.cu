// Elementwise kernels, part 5: see cuda/pointwise_tiles.cuh.
#include "cuda/pointwise_tiles.cuh"

namespace mantissa::cuda_backend {
const PointwiseEntry* const pointwise_5 = entries_of<5>.data();
}
