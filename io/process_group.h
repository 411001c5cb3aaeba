// The processes of a training run, and what they compute together: torch.distributed's process group. Every process
// ("rank") runs the same program on a part of the data:
//
//   mantissa_run -n 4 ./train
//
//   distributed::ProcessGroup& world = distributed::world();   // of one process where nothing of that is set
//   if (world.rank() == 0) ...
//   world.all_reduce(loss, ReduceOp::mean);                    // in place
//
// All ranks make the same calls in the same order, with the same shapes and dtypes. Where they do not, where a rank
// ends or does not come within the timeout, every rank gets an Error that names the rank, in this call or in its next
// one, and the group is of no further use. Calls from several threads are made one after another.
//
// The result has the same bits on every rank and in every run: each element is summed in the order of the ranks,
// halves in f32 with one rounding at the end. So it does not depend either on how tensors are grouped into calls.
//
// Tensors on a GPU are exchanged through host memory: what is asked for waits for the GPU. There is no NCCL yet.
//
// Nothing is recorded for differentiation. Training with it: nn/data_parallel.h; each rank's part of the data:
// data::Pipeline::shard.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace mantissa::distributed {

// mean: of floating tensors only. A NaN on any rank makes the maximum and the minimum NaN.
enum class ReduceOp : std::uint8_t { sum, mean, max, min };
const char* name_of(ReduceOp op);

// Something that a group does in the background.
class Work {
 public:
  struct State {
    virtual ~State() = default;
    virtual void wait() = 0;
  };
  Work() = default;
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}
  void wait() const { if (state_) state_->wait(); }  // throws what went wrong

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
  bool is_first() const { return rank_ == 0; }  // who prints and saves

  void barrier();  // back when all ranks have called it
  // In place; of several tensors, all of one dtype, as of one.
  void broadcast(const Tensor& x, int root = 0) { broadcast(std::span(&x, 1), root); }
  void broadcast(std::span<const Tensor> xs, int root = 0);
  void broadcast(std::string& text, int root = 0);  // bytes of any number; what rank `root` has, all have then
  // In place; of several tensors, all of one dtype, as of one. Of booleans: max (any rank's) and min (all ranks').
  void all_reduce(const Tensor& x, ReduceOp op = ReduceOp::sum) { all_reduce(std::span(&x, 1), op); }
  void all_reduce(std::span<const Tensor> xs, ReduceOp op = ReduceOp::sum);
  double all_reduce(double x, ReduceOp op);  // in f64
  // x of every rank, [size, ...]: all have the same shape.
  Tensor all_gather(const Tensor& x);
  std::vector<std::string> all_gather(const std::string& text);  // bytes; of each rank another number, if it likes
  // x [size * n, ...] is reduced, and this rank gets its part of it, [n, ...].
  Tensor reduce_scatter(const Tensor& x, ReduceOp op = ReduceOp::sum);
  // In place at rank `root`; elsewhere x stays as it is. It takes what all_reduce takes.
  void reduce(const Tensor& x, ReduceOp op = ReduceOp::sum, int root = 0);
  // x of every rank, [size, ...], at rank `root`; undefined elsewhere. All have the same shape.
  Tensor gather(const Tensor& x, int root = 0);
  // Into x of every rank its part of `parts` [size, ...], which rank `root` gives and the others leave undefined.
  void scatter(const Tensor& x, const Tensor& parts = {}, int root = 0);
  // Part r of x [size, ...] goes to rank r, and part r of the result is what rank r had for this one.
  Tensor all_to_all(const Tensor& x);

  // Messages between two ranks; the others do not take part. Two ranks that have calls in common make them in the same
  // order, with the same shapes and dtypes. send() is back when the system has taken all bytes, which of a large tensor
  // is while the other rank receives: two ranks that both send first wait until the timeout. exchange() does all at
  // once.
  struct Message {
    Tensor x;  // on receiving, written in place
    int rank;  // where it goes to, or comes from
  };
  void send(const Tensor& x, int to);
  void receive(const Tensor& x, int from);
  void exchange(std::span<const Message> sends, std::span<const Message> receives);

  // Begins an all_reduce; it is done when wait() comes back. Until then nobody may write to the tensors, which are
  // contiguous and on the CPU. Like a call it has its place in the order that is the same on all ranks.
  virtual Work start_all_reduce(std::vector<Tensor> xs, ReduceOp op = ReduceOp::sum);

  // Smaller groups: of all ranks that give the same color, in the order of their ranks here; a negative color: none,
  // and the result is empty. As MPI_Comm_split. Of 2 x 4 ranks, for instance, rows are split(rank() / 4) and columns
  // split(rank() % 4); PyTorch's new_group({0, 2}) is split(rank() == 0 || rank() == 2 ? 0 : -1). Ranks that are in
  // several groups make the calls of all of them in an order that all can follow. A failure in one is one of the run.
  std::unique_ptr<ProcessGroup> split(int color);

  // Makes the error of this rank, which is about to give up, that of all: what they call from now on throws it.
  virtual void give_up(const std::string& why) noexcept { (void)why; }

 protected:
  ProcessGroup(int rank, int size);
  // What a kind of group does. Tensors are defined, contiguous, on the CPU and of one dtype that the operation has;
  // `out` does not overlap. Called one at a time.
  virtual void run_barrier() = 0;
  virtual void run_broadcast(std::span<const Tensor> xs, int root) = 0;
  virtual void run_all_reduce(std::span<const Tensor> xs, ReduceOp op) = 0;
  virtual void run_all_gather(const Tensor& out, const Tensor& x) = 0;
  virtual void run_reduce_scatter(const Tensor& out, const Tensor& x, ReduceOp op) = 0;
  virtual void run_gather(const Tensor& out, const Tensor& x, int root) = 0;       // out: [size, ...] at the root
  virtual void run_scatter(const Tensor& x, const Tensor& parts, int root) = 0;    // parts: the same
  virtual void run_all_to_all(const Tensor& out, const Tensor& x) = 0;
  virtual void run_exchange(std::span<const Message> sends, std::span<const Message> receives) = 0;
  // The group of `members`, two or more in ascending order, of which this rank is one. `number`: of the split.
  virtual std::unique_ptr<ProcessGroup> run_split(std::span<const int> members, int number) = 0;
  void stop();  // to be called by the destructors of those who define them: ends the background thread

 private:
  class Queue;
  static void check_all(const char* what, std::span<const Tensor> xs);
  void check_rank(const char* what, int rank) const;
  void check_parts(const char* what, const Tensor& parts) const;

  int rank_, size_, splits_ = 0;
  std::unique_ptr<Queue> queue_;
};

struct GroupOptions {
  int rank = 0, size = 1;
  std::string address = "127.0.0.1";  // of rank 0, which listens on this interface alone
  int port = 0;
  std::string token = "";  // 32 hexadecimal digits, the same for all ranks
  int store_socket = -1;   // of rank 0: a socket that already listens there, handed down by who started it
  std::chrono::milliseconds timeout = std::chrono::minutes(30);            // of a call
  std::chrono::milliseconds rendezvous_timeout = std::chrono::minutes(5);  // until all ranks are there
};
// RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT as torchrun sets them, MANTISSA_JOB_TOKEN, MANTISSA_STORE_SOCKET, and in
// seconds MANTISSA_GROUP_TIMEOUT and MANTISSA_RENDEZVOUS_TIMEOUT. Without WORLD_SIZE: one process. Error for a
// variable that makes no sense.
GroupOptions options_from_environment();

// Meets the other ranks, over TCP on the CPU. Of one process there are no sockets, and every call gives back what it
// got.
std::unique_ptr<ProcessGroup> make_group(const GroupOptions& options);

// The group of the whole run, made from the environment when it is first asked for, and kept to the end of the program.
ProcessGroup& world();
// This process's number on its machine, LOCAL_RANK, which says what GPU it uses; 0 without it.
int local_rank();

}  // namespace mantissa::distributed
