// Data-parallel training: every process trains the same net on its own part of each batch, and backward() leaves in
// every process the mean of all processes' gradients. What torch.nn.parallel.DistributedDataParallel is to PyTorch, by
// the method of Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", 2020.
//
//   Net net;
//   nn::DataParallel parallel(net);   // the one line; in a run of one process it does nothing
//   optim::Adam opt(nn::parameters(net), {.lr = 1e-3});
//   distributed::ProcessGroup& world = distributed::world();
//   for (auto [image, label] : data::mnist().shuffle().shard(world.rank(), world.size()).batch(128)) {
//     backward(cross_entropy(net(image), label));
//     opt.step();
//     opt.zero_grad();
//   }
//
//   mantissa_run -n 4 ./train
//
// Nothing wraps the net: it is called, saved and loaded as before, and names of parameters stay what they are. All
// ranks begin with the parameters and buffers of rank 0 and stay bitwise equal, because they make the same updates of
// the same gradients.
//
// How: gradients are put into buckets in the order in which backward makes them (that of the parameters, last first).
// A bucket is reduced in the background as soon as it is complete and those before it are on their way, while backward
// goes on; backward() comes back when all are done. Gradients are reduced in place, where they lie.
//
// Loss scaling: an overflow on any rank makes the reduced gradient inf or NaN on all of them, so amp::GradScaler skips
// the step everywhere and its scale stays the same everywhere. (Not so GradScalerOptions::check_loss, which looks at
// this rank's loss alone.) Clipping after backward sees the reduced gradients.
//
// The state of the optimizer need not be held by every rank: optim::MemoryOptions::shard.
//
// On GPUs gradients go through host memory (io/process_group.h), and a step cannot be captured (jit/capture.h).
//
// The buffers of rank 0 (running statistics of batch norms) are given to all at the end of each backward. Batch norms
// look at this rank's batch, unless they were told otherwise: nn/sync_batch_norm.h.
#pragma once

#include <memory>
#include <optional>

#include "io/process_group.h"
#include "nn/functions.h"

namespace mantissa::nn {

struct DataParallelOptions {
  double bucket_mb = 25, first_bucket_mb = 1;  // MiB of gradients; the first one is small, to begin early
  // Parameters that a backward pass does not reach count as zeros on this rank; those that no rank reaches keep the
  // gradient they have. Without it they are an error on every rank. Costs a small exchange more per pass.
  bool find_unused = false;
  // f16 or bf16: gradients that are wider are sent so, which halves what is sent of f32. They are summed in f32.
  std::optional<Dtype> compress = {};
  bool broadcast_buffers = true;
  bool overlap = true;  // false: reduce at the end of backward
};

class DataParallel {
 public:
  // Error, on all ranks: the parameters differ in name, shape or dtype between ranks, or there are none.
  // The net and the group must outlive it. When frozen parameters begin to require a gradient (requires_grad_()),
  // destroy it and make a new one; backward() throws if it notices that there are such.
  explicit DataParallel(ModuleRef net, const DataParallelOptions& options = {},
                        distributed::ProcessGroup& group = distributed::world());
  ~DataParallel();  // from then on gradients are this process's own
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  // While it lives backward() only adds to this process's gradients; the first one after it reduces the sum:
  //   { auto local = parallel.no_sync(); backward(loss(first_half)); }
  //   backward(loss(second_half));
  class NoSync {
   public:
    explicit NoSync(int& depth) : depth_(depth) { ++depth_; }
    ~NoSync() { --depth_; }
    NoSync(const NoSync&) = delete;

   private:
    int& depth_;
  };
  [[nodiscard]] NoSync no_sync();

  int buckets() const;

 private:
  class Reducer;
  std::shared_ptr<Reducer> reducer_;
};

}  // namespace mantissa::nn
