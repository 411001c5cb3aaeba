// Observer: called before and after every operator that runs in its thread; base of amp/explain.h and amp/doctor.h.
// Only the innermost live observer is called, and not for operators that run inside an operator.
#pragma once

#include "amp/modules.h"
#include "amp/policy.h"
#include "core/tensor.h"

namespace mantissa::amp {

enum class Decider : std::uint8_t { operator_itself, region, module };  // whose policy applies

struct OperatorCall {
  const char* op;
  CastPolicy policy;
  Decider decider;
  const PolicyModule* module;              // the operator's module; null if unknown (amp/modules.h)
  std::span<const Tensor* const> inputs;   // before casts
};

class Observer {
 public:
  // `everywhere`: also observe operators outside regions.
  explicit Observer(bool everywhere);
  virtual ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  virtual void begin(const OperatorCall& call) = 0;  // before the casts
  virtual void end(const Tensor& result) = 0;        // not called when the operator throws
  static Observer* current();

 private:
  Observer* outer_;
  bool observed_before_;
};

}  // namespace mantissa::amp
