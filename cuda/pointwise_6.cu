// Elementwise kernels, part 6: see cuda/pointwise_tiles.cuh.
#include "cuda/pointwise_tiles.cuh"

namespace mantissa::cuda_backend {
const PointwiseEntry* const pointwise_6 = entries_of<6>.data();
}
