// What ranks tell each other of a call before its data (io/tcp_group.cpp), so that calls that differ are an error on
// all of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "io/process_group.h"

namespace mantissa::distributed {

inline constexpr std::uint32_t group_magic = 0x4d4e4732;  // identifies the protocol version and byte order

enum class Kind : std::uint8_t {
  barrier, broadcast, all_reduce, all_gather, reduce_scatter, gather, scatter, all_to_all, message, link
};

struct Header {
  std::uint32_t magic = group_magic;
  Kind kind = Kind::barrier;
  Dtype dtype = f32;
  ReduceOp op = ReduceOp::sum;
  std::uint8_t dims = 0;
  std::int32_t root = 0;
  std::uint32_t tensors = 0;
  std::uint64_t number = 0;                 // of the call
  std::uint64_t on_gpu = 0;                 // 1: the tensors go from GPU to GPU
  std::int64_t elements = 0;                // of all tensors
  std::int64_t sizes[Dims::max_rank] = {};  // of a single tensor, or a hash of the sizes of all

  friend bool operator==(const Header&, const Header&) = default;
};

std::string describe(const Header& h);  // in an error; h may be any bytes
// Of a call with these tensors, all on one device.
Header header_of(Kind kind, std::span<const Tensor> xs);

}  // namespace mantissa::distributed
