// Optimizer updates, part 0: see cuda/optim.cuh.
#include "cuda/optim.cuh"

namespace mantissa::cuda_backend {
const UpdateLaunch* const optim_0 = updates_of<0>.data();
}
