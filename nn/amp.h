// Mixed precision by module: what amp offers for a whole net. Paths are those of nn::named_parameters without the
// last name ("blocks.0.attn").
//
//   const amp::Policies p = amp::policies_for(net, {{"blocks.*.norm", CastPolicy::f32},
//                                                   {"head", amp::Policies().set("linear", CastPolicy::f32)}});
//   amp::Autocast region({.dtype = f16, .policies = p});
//
// The rules name modules by address and parameter: the net must stay where it is while regions use them.
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

// amp/module_rules.h says what patterns and policies mean.
inline Policies policies_for(nn::ModuleRef net, const ModulePolicies& rules) {
  return policies_for(nn::module_list(net), rules);
}
// The same from {"exp": "keep", "modules": {"blocks.*.norm": "f32", "head": {"linear": "f32"}}}.
inline Policies policies_from_json(nn::ModuleRef net, std::string_view text, std::string_view where = "policies") {
  return policies_from_json(nn::module_list(net), text, where);
}

// Runs `step`, which gives the loss and enters no region, in f32 and in half precision, and says where they part
// (amp/doctor.h).
Diagnosis doctor(nn::ModuleRef net, const std::function<Tensor()>& step, const DoctorOptions& options = {});

// Bytes per dtype (numbered as Dtype), of what a net in training keeps: its parameters, their gradients, the shadows
// of its parameters, its buffers. An optimizer's state is in its state_dict; activations are in Explain::result_bytes.
struct MemoryByDtype {
  std::array<std::int64_t, dtype_count> parameters{}, gradients{}, shadows{}, buffers{};
  std::string table() const;
};
MemoryByDtype memory_by_dtype(nn::ModuleRef net);

}  // namespace mantissa::amp
