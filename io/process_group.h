// The processes of a training run and their collective operations: torch.distributed's process group. Every process
// ("rank") runs the same program on a part of the data:
//
//   mantissa_run -n 4 ./train
//
//   distributed::ProcessGroup& world = distributed::world();   // a single process if not launched as above
//   if (world.rank() == 0) ...
//   world.all_reduce(loss, ReduceOp::mean);                    // in place
//
// All ranks must make the same calls in the same order, with the same shapes and dtypes. If they do not, or if a rank
// exits or does not respond within the timeout, every rank gets an Error that names the rank, in this call or its next,
// and the group becomes unusable. Calls from several threads are serialised.
//
// Results have the same bits on every rank and in every run: each element is summed in rank order; f16 and bf16 are
// summed in f32 and rounded once at the end. So results do not depend on how tensors are grouped into calls either.
//
// GPU tensors go directly from GPU to GPU by NCCL 2.14 or newer, if every rank has it, in the same version, and a GPU
// of its own, the same in all calls; otherwise, or with the variable MANTISSA_NCCL=off, through host memory. Sums have
// the same bits either way. Calls wait for the GPU. Unless NCCL is off, the tensors of a call are on GPUs on all ranks,
// or on none. Messages between two ranks use NCCL after the first call of all ranks.
//
// Not recorded for differentiation. For training: nn/data_parallel.h; for each rank's part of the data:
// data::Pipeline::shard.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace mantissa::distributed {

// mean: floating tensors only. A NaN on any rank makes maximum and minimum NaN.
enum class ReduceOp : std::uint8_t { sum, mean, max, min };
const char* name_of(ReduceOp op);

// An operation of a group in the background.
class Work {
 public:
  struct State {
    virtual ~State() = default;
    virtual void wait() = 0;
  };
  Work() = default;
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}
  void wait() const { if (state_) state_->wait(); }  // throws the operation's error

 private:
  std::shared_ptr<State> state_;
};

class ProcessGroup {
 public:
  virtual ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_first() const { return rank_ == 0; }  // the rank that prints and saves

  // Whether tensors on this device are exchanged without passing through host memory. The first question about a GPU is
  // a call like all others, made by all ranks; so is, before it, the first call with a tensor on one.
  bool reaches(Device device);

  void barrier();  // returns when all ranks have called it
  // In place; several tensors, all of one dtype, are sent as one.
  void broadcast(const Tensor& x, int root = 0) { broadcast(std::span(&x, 1), root); }
  void broadcast(std::span<const Tensor> xs, int root = 0);
  void broadcast(std::string& text, int root = 0);  // any length; every rank gets rank `root`'s text
  // In place; several tensors, all of one dtype, as one. For bool: max (logical or) and min (logical and).
  void all_reduce(const Tensor& x, ReduceOp op = ReduceOp::sum) { all_reduce(std::span(&x, 1), op); }
  void all_reduce(std::span<const Tensor> xs, ReduceOp op = ReduceOp::sum);
  double all_reduce(double x, ReduceOp op);  // in f64
  // x of every rank, stacked: [size, ...]. Shapes must be equal.
  Tensor all_gather(const Tensor& x);
  std::vector<std::string> all_gather(const std::string& text);  // bytes; lengths may differ between ranks
  // Reduces x [size * n, ...]; returns this rank's part, [n, ...].
  Tensor reduce_scatter(const Tensor& x, ReduceOp op = ReduceOp::sum);
  // In place on rank `root`; elsewhere x is unchanged. Same arguments as all_reduce.
  void reduce(const Tensor& x, ReduceOp op = ReduceOp::sum, int root = 0);
  // x of every rank, [size, ...], on rank `root`; undefined elsewhere. Shapes must be equal.
  Tensor gather(const Tensor& x, int root = 0);
  // Writes to x on every rank its part of `parts` [size, ...], given on rank `root` and undefined elsewhere.
  void scatter(const Tensor& x, const Tensor& parts = {}, int root = 0);
  // Part r of x [size, ...] is sent to rank r; part r of the result was sent by rank r.
  Tensor all_to_all(const Tensor& x);

  // Point-to-point messages; other ranks do not take part. Two ranks must make their common calls in the same order,
  // with the same shapes and dtypes. send() returns when the system has accepted all bytes, which for a large tensor
  // requires the other rank to receive: two ranks that both send first deadlock until the timeout. exchange() does all
  // transfers at once.
  struct Message {
    Tensor x;  // written in place when receiving
    int rank;  // destination, or source
  };
  void send(const Tensor& x, int to);
  void receive(const Tensor& x, int from);
  void exchange(std::span<const Message> sends, std::span<const Message> receives);

  // Starts an all_reduce, complete when wait() returns. Until then the tensors, which must be contiguous and on a
  // device that the group reaches(), must not be written to. Like any call it must come at the same place in the order
  // on all ranks.
  virtual Work start_all_reduce(std::vector<Tensor> xs, ReduceOp op = ReduceOp::sum);

  // Subgroups: of all ranks with the same color, in rank order; a negative color: no group, and the result is null. As
  // MPI_Comm_split. For 2 x 4 ranks, for instance, rows are split(rank() / 4) and columns split(rank() % 4); PyTorch's
  // new_group({0, 2}) is split(rank() == 0 || rank() == 2 ? 0 : -1). Ranks in several groups must order the calls of
  // all of them without cyclic waits. A failure in one fails the run.
  std::unique_ptr<ProcessGroup> split(int color);

  // Propagates this rank's fatal error to all: their calls throw it from now on.
  virtual void give_up(const std::string& why) noexcept { (void)why; }

 protected:
  ProcessGroup(int rank, int size);
  // To be implemented by a kind of group. Tensors are defined, contiguous, on the CPU or, if run_link() said so, on
  // that GPU, and of one dtype that the operation supports; `out` does not overlap. Calls are serialised.
  virtual bool run_link(Device gpu) = 0;  // connects the GPUs of all ranks, if they can be
  virtual void run_barrier() = 0;
  virtual void run_broadcast(std::span<const Tensor> xs, int root) = 0;
  virtual void run_all_reduce(std::span<const Tensor> xs, ReduceOp op) = 0;
  virtual void run_all_gather(const Tensor& out, const Tensor& x) = 0;
  virtual void run_reduce_scatter(const Tensor& out, const Tensor& x, ReduceOp op) = 0;
  virtual void run_gather(const Tensor& out, const Tensor& x, int root) = 0;       // out: [size, ...] on the root
  virtual void run_scatter(const Tensor& x, const Tensor& parts, int root) = 0;    // parts: the same
  virtual void run_all_to_all(const Tensor& out, const Tensor& x) = 0;
  virtual void run_exchange(std::span<const Message> sends, std::span<const Message> receives) = 0;
  // The group of `members`: two or more, ascending, including this rank. `number`: counts the splits.
  virtual std::unique_ptr<ProcessGroup> run_split(std::span<const int> members, int number) = 0;
  void stop();  // derived destructors must call it: ends the background thread

 private:
  class Queue;
  Device exchange_device(const Tensor& x);  // x's, if the group reaches it, else the CPU
  void run(Device device, const std::function<void()>& f);
  static void check_all(const char* what, std::span<const Tensor> xs);
  void check_rank(const char* what, int rank) const;
  void check_parts(const char* what, const Tensor& parts) const;

  int rank_, size_, splits_ = 0;
  std::unique_ptr<Queue> queue_;
  std::mutex asking_;
  std::optional<Device> gpu_;  // that run_link() was asked about
  bool linked_ = false;
};

struct GroupOptions {
  int rank = 0, size = 1;
  std::string address = "127.0.0.1";  // of rank 0, which listens on this interface only
  int port = 0;
  std::string token = "";  // 32 hexadecimal digits, equal on all ranks
  int store_socket = -1;   // on rank 0: a socket already listening there, inherited from the launcher
  bool nccl = true;        // false, the same on all ranks: tensors on GPUs always go through host memory
  std::chrono::milliseconds timeout = std::chrono::minutes(30);            // per call
  std::chrono::milliseconds rendezvous_timeout = std::chrono::minutes(5);  // for all ranks to connect
};
// From RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT as set by torchrun, MANTISSA_JOB_TOKEN, MANTISSA_STORE_SOCKET,
// MANTISSA_NCCL (on or off), and in seconds MANTISSA_GROUP_TIMEOUT and MANTISSA_RENDEZVOUS_TIMEOUT. Without WORLD_SIZE:
// a single process. Error for an invalid variable.
GroupOptions options_from_environment();

// Connects to the other ranks, over TCP. With a single process there are no sockets, and every call returns
// its own input.
std::unique_ptr<ProcessGroup> make_group(const GroupOptions& options);

// The group of the whole run, made from the environment on first use, and kept until the program ends.
ProcessGroup& world();
// This process's index on its machine, LOCAL_RANK, which selects its GPU; 0 if unset.
int local_rank();

}  // namespace mantissa::distributed
