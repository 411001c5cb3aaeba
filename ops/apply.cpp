#include "ops/apply.h"

namespace mantissa::detail {

void add_operator_context(Error& e, const char* name, std::span<const char* const> args, std::span<const Tensor* const> x) {
  if (e.has_context()) return;
  std::string text = concat(name, "(");
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i > 0) text += ", ";
    if (x.size() <= args.size()) text += concat(args[i], ": ");
    text += x[i]->defined() ? describe(*x[i]) : std::string("none");
  }
  e.add_context(text + ")");
}

void check_same_device(std::span<const Tensor* const> x) {
  const Tensor* first = nullptr;
  for (const Tensor* t : x) {
    if (!t->defined() || t->is_weak_scalar()) continue;
    if (!first) first = t;
    check(t->device() == first->device(), "inputs are on ", first->device(), " and ", t->device(), "; move one with to(device)");
  }
}

}  // namespace mantissa::detail
