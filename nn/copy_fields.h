// copy_fields(from, to): copies all parameters, buffers and modes of a module into another of the same structure; no
// storage is shared. For clone() of modules that have a constructor (nn/clone.h).
#pragma once

#include <vector>

#include "nn/functions.h"

namespace mantissa::nn {

inline void copy_fields(ModuleRef from, ModuleRef to) {
  struct All final : Fields {
    std::vector<Param*> params;
    std::vector<Buffer*> buffers;
    std::vector<Mode*> modes;
    void param(const std::string&, Param& p) override { params.push_back(&p); }
    void buffer(const std::string&, Buffer& b) override { buffers.push_back(&b); }
    void mode(Mode& m) override { modes.push_back(&m); }
  } source, target;
  from.visit(source);
  to.visit(target);
  for (std::size_t i = 0; i < source.params.size(); ++i) *target.params[i] = nn::clone(*source.params[i]);
  for (std::size_t i = 0; i < source.buffers.size(); ++i) *target.buffers[i] = nn::clone(*source.buffers[i]);
  for (std::size_t i = 0; i < source.modes.size(); ++i) *target.modes[i] = *source.modes[i];
}

}  // namespace mantissa::nn
