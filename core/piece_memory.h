// Memory of which any range of pieces may be given back: part of an allocation, or the end of one together with the
// beginning of its neighbour in memory. The allocator merges adjacent segments of such memory (core/allocator.cpp).
#pragma once

#include "core/allocator.h"

namespace mantissa {

class PieceMemory : public RawMemory {
 public:
  virtual std::size_t piece() const = 0;  // bytes; allocations are multiples of it and aligned to it
};

}  // namespace mantissa
