// Answers "why is this f32?" While an Explain exists, it records autocast's decision for each operator that runs in a
// region in this thread: policy, reason, dtypes, bytes cast, shadows reused. Operators outside any region are not
// recorded; backward runs outside. Module names are known in a region with policies_for(net, ...).
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

struct Decision {  // all calls of an operator with the same outcome
  std::string op, policy, reason;
  std::string inputs, output;  // dtypes before casts, and of the result: "f32 f32 none"
  std::int64_t calls = 0;
  std::int64_t bytes_cast = 0;   // written by casts, over all calls
  std::int64_t shadow_hits = 0;  // parameter casts served from an up-to-date shadow
  std::string module = {};       // the module's path, if known

  bool operator==(const Decision&) const = default;
};

class Explain : public Observer {
 public:
  Explain() : Observer(false) {}

  const std::vector<Decision>& decisions() const { return decisions_; }  // in order of the first call
  std::string table() const;
  // Operators in regions for which neither the operator nor the region defines a policy: they run in their inputs'
  // dtypes.
  std::vector<std::string> without_policy() const;
  // Bytes of operator results in regions, per dtype (indexed by Dtype): the memory of activations.
  const std::array<std::int64_t, dtype_count>& result_bytes() const { return result_bytes_; }

 private:
  void begin(const OperatorCall& call) override;
  void end(const Tensor& result) override;

  std::vector<Decision> decisions_;
  std::array<std::int64_t, dtype_count> result_bytes_{};
  Decision open_;  // of the running operator
};

}  // namespace mantissa::amp
