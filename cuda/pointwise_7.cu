// Elementwise kernels, part 7: see cuda/pointwise_tiles.cuh.
#include "cuda/pointwise_tiles.cuh"

namespace mantissa::cuda_backend {
const PointwiseEntry* const pointwise_7 = entries_of<7>.data();
}
