// Why is this f32? While an Explain lives, it notes what autocast decides for each operator that runs in a
// region in this thread: policy, reason, dtypes, bytes cast, shadows reused. Operators outside any region are
// not noted; backward runs outside. Modules are named in a region with policies_for(net, ...).
//
//   amp::Explain explain;
//   amp::autocast(bf16, [&] { return net(x); });
//   std::puts(explain.table().c_str());
#pragma once

#include <array>
#include <string>
#include <vector>

#include "amp/observe.h"

namespace mantissa::amp {

struct Decision {  // of all calls of an operator that went alike
  std::string op, policy, reason;
  std::string inputs, output;  // dtypes as they came in and went out: "f32 f32 none"
  std::int64_t calls = 0;
  std::int64_t bytes_cast = 0;   // written by casts, of all calls
  std::int64_t shadow_hits = 0;  // casts of parameters that were there already
  std::string module = {};       // its path, when known

  bool operator==(const Decision&) const = default;
};

class Explain : public Observer {
 public:
  Explain() : Observer(false) {}

  const std::vector<Decision>& decisions() const { return decisions_; }  // in order of the first call
  std::string table() const;
  // Operators in regions that have no policy, by the operator's field or the region's: they run in what comes in.
  std::vector<std::string> without_policy() const;
  // Bytes of the results of the operators in regions, per dtype (numbered as Dtype): where activations lie.
  const std::array<std::int64_t, dtype_count>& result_bytes() const { return result_bytes_; }

 private:
  void begin(const OperatorCall& call) override;
  void end(const Tensor& result) override;

  std::vector<Decision> decisions_;
  std::array<std::int64_t, dtype_count> result_bytes_{};
  Decision open_;  // of the operator that runs
};

}  // namespace mantissa::amp
