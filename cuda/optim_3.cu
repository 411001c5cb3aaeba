// Optimizer updates, part 3: see cuda/optim.cuh.
#include "cuda/optim.cuh"

namespace mantissa::cuda_backend {
const UpdateLaunch* const optim_3 = updates_of<3>.data();
}
