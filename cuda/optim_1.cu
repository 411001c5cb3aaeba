// Optimizer updates, part 1: see cuda/optim.cuh.
#include "cuda/optim.cuh"

namespace mantissa::cuda_backend {
const UpdateLaunch* const optim_1 = updates_of<1>.data();
}
