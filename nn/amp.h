// Mixed precision by module: amp's tools for a whole net. Module paths are those of nn::named_parameters without the
// parameter's own name ("blocks.0.attn").
//
//   const amp::Policies p = amp::policies_for(net, {{"blocks.*.norm", CastPolicy::f32},
//                                                   {"head", amp::Policies().set("linear", CastPolicy::f32)}});
//   amp::Autocast region({.dtype = f16, .policies = p});
//
// The rules identify modules by their address and parameters: the net must not be moved while regions use them.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>

#include "amp/doctor.h"
#include "amp/module_rules.h"
#include "nn/functions.h"

namespace mantissa::nn {
amp::ModuleList module_list(ModuleRef net);
}

namespace mantissa::amp {

// For the meaning of patterns and policies see amp/module_rules.h.
inline Policies policies_for(nn::ModuleRef net, const ModulePolicies& rules) {
  return policies_for(nn::module_list(net), rules);
}
// The same from JSON: {"exp": "keep", "modules": {"blocks.*.norm": "f32", "head": {"linear": "f32"}}}.
inline Policies policies_from_json(nn::ModuleRef net, std::string_view text, std::string_view where = "policies") {
  return policies_from_json(nn::module_list(net), text, where);
}

// Runs `step`, which returns the loss and enters no autocast region, in f32 and in half precision, and reports where
// the two diverge (amp/doctor.h).
Diagnosis doctor(nn::ModuleRef net, const std::function<Tensor()>& step, const DoctorOptions& options = {});

// Bytes per dtype (indexed by Dtype) held by a net in training: parameters, gradients, shadows (low-precision copies)
// of the parameters, buffers. Optimizer state is in the optimizer's state_dict; activations are in
// Explain::result_bytes.
struct MemoryByDtype {
  std::array<std::int64_t, dtype_count> parameters{}, gradients{}, shadows{}, buffers{};
  std::string table() const;
};
MemoryByDtype memory_by_dtype(nn::ModuleRef net);

}  // namespace mantissa::amp
