// Data-parallel training: every process trains the same net on its own part of each batch, and backward() leaves the
// gradients averaged over all processes. The counterpart of torch.nn.parallel.DistributedDataParallel, after Li et al.,
// "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", 2020.
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
// The net is not wrapped: it is called, saved and loaded as before, and parameter names do not change. All ranks start
// with the parameters and buffers of rank 0 and stay bitwise equal, because they apply the same updates with the same
// gradients.
//
// How: gradients are grouped into buckets in the order in which backward produces them (parameters in reverse). A
// bucket is reduced in the background as soon as it is complete and all earlier ones have been started, while backward
// continues; backward() returns when all are done. Gradients are reduced in place.
//
// Loss scaling: an overflow on any rank makes the reduced gradient inf or NaN on all of them, so amp::GradScaler skips
// the step on all ranks and its scale stays the same on all. (Not with GradScalerOptions::check_loss, which checks only
// this rank's loss.) Clipping after backward sees the reduced gradients.
//
// To shard the optimizer's state across ranks: optim::MemoryOptions::shard.
//
// On GPUs gradients go from GPU to GPU by NCCL, or without it through host memory (io/process_group.h); a step cannot
// be captured (jit/capture.h).
//
// Buffers (running statistics of batch norms) are broadcast from rank 0 at the end of each backward. Batch norms use
// this rank's batch statistics, unless synchronised: nn/sync_batch_norm.h.
#pragma once

#include <memory>
#include <optional>

#include "io/process_group.h"
#include "nn/functions.h"

namespace mantissa::nn {

struct DataParallelOptions {
  double bucket_mb = 25, first_bucket_mb = 1;  // MiB per bucket; a smaller first one starts communication early
  // Parameters that a backward pass does not reach contribute zeros on this rank; those that no rank reaches keep their
  // current gradient. Without it, an unreached parameter is an error on every rank. Costs a small exchange per pass.
  bool find_unused = false;
  // f16 or bf16: wider gradients are sent in this dtype, which halves the traffic of f32. They are summed in f32.
  std::optional<Dtype> compress = {};
  bool broadcast_buffers = true;
  bool overlap = true;  // false: reduce at the end of backward
};

class DataParallel {
 public:
  // Error, on all ranks: parameters differ in name, shape or dtype between ranks, or there are none. The net and the
  // group must outlive this object. If frozen parameters start to require a gradient (requires_grad_()), destroy it and
  // make a new one; backward() throws when it detects such parameters.
  explicit DataParallel(ModuleRef net, const DataParallelOptions& options = {},
                        distributed::ProcessGroup& group = distributed::world());
  ~DataParallel();  // afterwards gradients are local to this process
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  // While it exists, backward() only accumulates local gradients; the first backward() after it reduces the sum:
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
