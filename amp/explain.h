// Why is this f32? While an Explain lives, it notes what autocast decides for each operator that runs in a
// region in this thread: policy, reason, dtypes, bytes cast, shadows reused. Operators outside any region are
// not noted; backward runs outside.
//
//   amp::Explain explain;
//   amp::autocast(bf16, [&] { return net(x); });
//   std::puts(explain.table().c_str());
#pragma once

#include <string>
#include <vector>

#include "amp/policy.h"
#include "core/tensor.h"

namespace mantissa::amp {

struct Decision {  // of all calls of an operator that went alike
  std::string op, policy, reason;
  std::string inputs, output;  // dtypes as they came in and went out: "f32 f32 none"
  std::int64_t calls = 0;
  std::int64_t bytes_cast = 0;   // written by casts, of all calls
  std::int64_t shadow_hits = 0;  // casts of parameters that were there already

  bool operator==(const Decision&) const = default;
};

class Explain {
 public:
  Explain();
  ~Explain();  // the one around it, if any, goes on
  Explain(const Explain&) = delete;
  Explain& operator=(const Explain&) = delete;

  const std::vector<Decision>& decisions() const { return decisions_; }  // in order of the first call
  std::string table() const;

 private:
  friend struct Explaining;
  Explain* outer_;
  std::vector<Decision> decisions_;
  Decision open_;  // of the operator that runs
};

// Of the machinery, called by cast_inputs and run_operator inside a region.
struct Explaining {
  static bool active();
  static void begin(const char* op, CastPolicy policy, bool own, std::span<const Tensor* const> x);
  static void end(const Tensor& result);
};

}  // namespace mantissa::amp
