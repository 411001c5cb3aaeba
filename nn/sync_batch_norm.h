// Batch norms whose batch is that of all processes: torch.nn.SyncBatchNorm, for training with few images in each
// process, where the statistics of one process's are too rough.
//
//   Net net;
//   nn::sync_batch_norm(net);         // before or after the next line; in a run of one process it does nothing
//   nn::DataParallel parallel(net);
//
// In training the mean and variance of each channel are those of the values of all ranks, and so are the running
// statistics; gradients are those of the sum of all ranks' losses (which DataParallel makes a mean of, as of any other
// parameter). In eval mode nothing changes, nor do names and files. Ranks may have batches of different sizes, an empty
// one too; all ranks call the same norms in the same order. Two exchanges of 2 * channels numbers each in a training
// step, one forward and one backward, in f64: every rank gets the same bits.
//
// On a GPU each exchange waits for it (io/process_group.h), so a step cannot be captured (jit/capture.h).
//
// Errors: those of the group, on all ranks. In training, a channel of fewer than two values on all ranks together;
// differentiating a second time.
#pragma once

#include "io/process_group.h"
#include "nn/functions.h"

namespace mantissa::nn {

// From now on the batch norms inside `net` (BatchNorm1d, 2d, 3d, BatchNormAct2d) do so; a clone of the net too. The
// group must outlive them.
void sync_batch_norm(ModuleRef net, distributed::ProcessGroup& group = distributed::world());

}  // namespace mantissa::nn
