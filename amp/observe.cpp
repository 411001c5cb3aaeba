#include "amp/observe.h"

#include <utility>

#include "core/context.h"

namespace mantissa::amp {
namespace {
thread_local Observer* innermost = nullptr;
}

Observer::Observer(bool everywhere)
    : outer_(std::exchange(innermost, this)), observed_before_(std::exchange(context().autocast.observed, everywhere)) {
}
Observer::~Observer() {
  innermost = outer_;
  context().autocast.observed = observed_before_;
}
Observer* Observer::current() { return innermost; }

}  // namespace mantissa::amp
