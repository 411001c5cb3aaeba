#include "optim/plateau.h"

#include <algorithm>
#include <limits>

#include "io/checkpoint.h"

namespace mantissa::optim {

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, const PlateauOptions& o)
    : optimizer_(&optimizer), options_(o) {
  check(o.factor > 0 && o.factor < 1, "ReduceLROnPlateau: factor must be between 0 and 1, got ", o.factor);
  check(o.patience >= 0, "ReduceLROnPlateau: patience must not be negative, got ", o.patience);
  check(o.cooldown >= 0, "ReduceLROnPlateau: cooldown must not be negative, got ", o.cooldown);
  best_ = o.maximize ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
}

void ReduceLROnPlateau::step(double metric) {
  ++last_epoch_;
  const double sign = options_.maximize ? 1 : -1;
  const double wanted =
      options_.absolute_threshold ? best_ + sign * options_.threshold : best_ * (1 + sign * options_.threshold);
  if (options_.maximize ? metric > wanted : metric < wanted) {
    best_ = metric;
    bad_ = 0;
  } else {
    ++bad_;  // NaN counts as no improvement
  }
  if (cooldown_ > 0) {
    --cooldown_;
    bad_ = 0;
  }
  if (bad_ <= options_.patience) return;
  cooldown_ = options_.cooldown;
  bad_ = 0;
  for (int g = 0; g < optimizer_->groups(); ++g) {
    const double old = optimizer_->lr(g), next = std::max(old * options_.factor, options_.min_lr);
    if (old - next > options_.eps) optimizer_->set_lr(next, g);
  }
}

NamedTensors ReduceLROnPlateau::state_dict() const {
  const auto integer = [](std::int64_t x) { return from_data<std::int64_t>(std::vector<std::int64_t>{x}, {}); };
  return {{"best", scalar(best_, {.dtype = f64})},
          {"num_bad_epochs", integer(bad_)},
          {"cooldown_counter", integer(cooldown_)},
          {"last_epoch", integer(last_epoch_)}};
}
void ReduceLROnPlateau::load_state_dict(const NamedTensors& state) {
  const std::string mismatch = io::describe_mismatch(state_dict(), state);
  check(mismatch.empty(), "ReduceLROnPlateau load_state_dict: ", mismatch);
  for (const auto& [name, t] : state) {
    if (name == "best") best_ = t.item<double>();
    else
      (name == "num_bad_epochs" ? bad_ : name == "cooldown_counter" ? cooldown_ : last_epoch_) = t.item<std::int64_t>();
  }
}

}  // namespace mantissa::optim
