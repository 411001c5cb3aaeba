#include "autograd/anomaly.h"

#include <vector>

#include "autograd/grad_mode.h"
#include "autograd/node.h"
#include "core/ops.h"

namespace mantissa::autograd {

bool has_nan(const Tensor& x) {
  if (!x.defined() || !x.is_floating() || x.numel() == 0) return false;
  const NoGrad no_grad;
  const AnomalyMode off(false);
  return amax(ne(x.detach(), x.detach())).item() != 0;
}

namespace {
constexpr std::size_t longest_chain = 12;

// names[0] is printed last.
std::string join(const std::vector<const char*>& names, bool cut) {
  std::string text = cut ? "... -> " : "";
  for (std::size_t i = names.size(); i-- > 0;) text += concat(names[i], i > 0 ? " -> " : "");
  return text;
}
const Node* first_input(const Node& node) {
  for (const NodeRef& e : node.edges()) {
    if (e) return e.get();
  }
  return nullptr;
}
}  // namespace

std::string forward_chain(const Node& node) {
  std::vector<const char*> names;
  const Node* at = &node;
  for (; at && names.size() < longest_chain; at = first_input(*at)) names.push_back(at->name());
  return join(names, at != nullptr);
}

void fail_nan_gradient(std::size_t input, std::span<const Node* const> path) {
  std::vector<const char*> names;
  for (std::size_t i = 0; i < path.size() && i < longest_chain; ++i) names.push_back(path[i]->name());
  fail("backward of \"", path[0]->name(), "\" gave NaN for its input ", input,
       "; backward came by ", join(names, path.size() > names.size()), ", forward by ", forward_chain(*path[0]));
}

void check_result(const Tensor& y, std::span<const Tensor* const> inputs) {
  if (!has_nan(y)) return;
  const char* origin = "";
  for (const Tensor* x : inputs) {
    if (has_nan(*x)) origin = " (an input already does)";
  }
  const Node* node = y.impl()->node.get();
  fail("the result contains NaN", origin, node ? "; computed by " + forward_chain(*node) : std::string());
}

}  // namespace mantissa::autograd
