// Synchronised batch norm: statistics over the batches of all processes, as torch.nn.SyncBatchNorm, for training with
// few images per process, where per-process statistics are too noisy.
//
//   Net net;
//   nn::sync_batch_norm(net);         // before or after the next line; a no-op in a run of one process
//   nn::DataParallel parallel(net);
//
// In training the mean and variance of each channel are taken over the values of all ranks, and so are the running
// statistics; gradients are those of the sum of all ranks' losses (averaged by DataParallel like any others).
// Evaluation mode, parameter names and files are unaffected. Batch sizes may differ between ranks and be 0; all ranks
// must call the same norms in the same order. Two exchanges of 2 * channels numbers per training step, one forward and
// one backward, in f64: every rank gets the same bits.
//
// On a GPU each exchange is synchronous (io/process_group.h), so a step cannot be captured (jit/capture.h).
//
// Errors: those of the group, on all ranks; in training, a channel with fewer than two values over all ranks;
// differentiating a second time.
#pragma once

#include "io/process_group.h"
#include "nn/functions.h"

namespace mantissa::nn {

namespace detail {  // of one batch norm in training: nn/norm.cpp
Tensor sync_batch_norm(distributed::ProcessGroup& group, const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& running_mean, const Tensor& running_var, double momentum, double eps);
}

// Synchronises the batch norms inside `net` (BatchNorm1d, 2d, 3d, BatchNormAct2d) from now on, also in clones of it.
// The group must outlive them.
void sync_batch_norm(ModuleRef net, distributed::ProcessGroup& group = distributed::world());

}  // namespace mantissa::nn
