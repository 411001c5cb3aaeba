#include "autograd/place.h"

#include <utility>

#include "autograd/last_owner.h"
#include "core/memory_order.h"

namespace mantissa::autograd {

Place::Place(const Destination& to, const Dims& sizes, Device device, bool may_add) : to_(to) {
  if (to.leaf && may_add) {
    update_.emplace(*to.leaf);
    const Tensor& g = to.leaf->grad;
    if (g.defined() && !g.requires_grad() && is_only_handle(g) && lies_in(g, to.layout) &&
        g.dtype() == to.dtype && g.device() == device && g.sizes() == sizes) return;
    update_.reset();
  }
  own_ = Tensor::allocate(sizes, to.dtype, device, to.layout);
}

Tensor Place::done() {
  if (update_) {
    to_.leaf->grad.storage()->written_by("backward");
    update_.reset();
  } else if (to_.leaf) {
    to_.leaf->accumulate(std::move(own_), false);
  }
  return std::exchange(own_, Tensor());
}

}  // namespace mantissa::autograd
