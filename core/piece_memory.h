// Memory of which any run of pieces may be given back: part of what was taken, or the end of one taking and the
// beginning of its neighbour in memory. The allocator joins segments of such memory that touch (core/allocator.cpp).
#pragma once

#include "core/allocator.h"

namespace mantissa {

class PieceMemory : public RawMemory {
 public:
  virtual std::size_t piece() const = 0;  // bytes; what is taken in multiples of it begins at one
};

}  // namespace mantissa
