// Optimizer updates, part 2: see cuda/optim.cuh.
#include "cuda/optim.cuh"

namespace mantissa::cuda_backend {
const UpdateLaunch* const optim_2 = updates_of<2>.data();
}
