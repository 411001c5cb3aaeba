// The collective operations on tensors that lie on a GPU, one for each rank, over a direct connection between them
// (core/device_link.h), with the bits that io/tcp_group.h gives: each element is summed in rank order, f16 and bf16 in
// f32 and rounded once. So all_reduce is not the library's: a rank receives its segment from all others, sums it and
// sends the result to all, which is the traffic of a ring. The calling thread waits for its GPU.
#pragma once

#include <optional>
#include <string>

#include "core/device_link.h"
#include "io/process_group.h"

namespace mantissa::distributed {

// Before ranks connect their GPUs: what each says of its own, a tensor of bytes; and of all of these, stacked, the name
// for make_link, or nothing if they cannot be connected.
Tensor link_offer(Device gpu, bool is_first);
std::optional<std::string> link_name_of(const Tensor& offers);

// Arguments as those of the functions that a kind of group implements (ProcessGroup::run_...), on this rank's GPU.
class DeviceCollectives {
 public:
  DeviceCollectives(DeviceLink& link, int rank, int size) : link_(link), rank_(rank), size_(size) {}
  void broadcast(std::span<const Tensor> xs, int root);
  void all_reduce(std::span<const Tensor> xs, ReduceOp op);
  void all_gather(const Tensor& out, const Tensor& x);
  void reduce_scatter(const Tensor& out, const Tensor& x, ReduceOp op);
  void gather(const Tensor& out, const Tensor& x, int root);
  void scatter(const Tensor& x, const Tensor& parts, int root);
  void all_to_all(const Tensor& out, const Tensor& x);
  void exchange(std::span<const ProcessGroup::Message> sends, std::span<const ProcessGroup::Message> receives);

 private:
  Tensor reduce_own_segment(const Tensor& line, ReduceOp op);
  void share_segments(const Tensor& line, int all_but = -1);
  template <class F> void each_other(F&& f) const {  // starting with the next rank, to spread the load
    for (int i = 1; i < size_; ++i) f((rank_ + i) % size_);
  }

  DeviceLink& link_;
  int rank_, size_;
};

}  // namespace mantissa::distributed
