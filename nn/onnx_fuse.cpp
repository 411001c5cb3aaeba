// Replaces node patterns by single operators that take fewer passes: x * sigmoid(x), a product with bias, attention. A
// pattern is fused only if nothing else uses its inner values; results stay the same.
#include <algorithm>

#include "nn/onnx_program.h"

namespace mantissa::nn::onnx {
namespace {

class Fuser {
 public:
  Fuser(Program& program, const std::map<int, Tensor>& state) : p_(program), state_(state) {
    for (std::size_t i = 0; i < p_.steps.size(); ++i) {
      for (const int id : p_.steps[i].inputs) ++uses_[id];
      for (const int id : p_.steps[i].outputs) makers_[id] = i;
    }
    for (const int id : p_.outputs) ++uses_[id];
  }
  void run() {
    for (std::size_t i = 0; i < p_.steps.size(); ++i) {
      Program::Step& s = p_.steps[i];
      if (s.type == "Mul") silu_at(s);
      else if (s.type == "Add") linear_at(s);
      else if (s.type == "MatMul") attention_at(s);
    }
    std::erase_if(p_.steps, [](const Program::Step& s) { return !s.run; });
  }

 private:
  using Step = Program::Step;
  // The step of this type whose result `id` has no other user, or null.
  Step* maker(int id, std::string_view type) {
    const auto at = makers_.find(id);
    if (at == makers_.end() || uses_[id] != 1) return nullptr;
    Step& s = p_.steps[at->second];
    return s.type == type && s.outputs.size() == 1 ? &s : nullptr;
  }
  const Tensor* state(int id) const {
    const auto at = state_.find(id);
    return at == state_.end() ? nullptr : &at->second;
  }
  static void replace(Step& s, std::vector<int> inputs, Run run, std::initializer_list<Step*> parts) {
    for (Step* part : parts) *part = Step{};
    s.inputs = std::move(inputs);
    s.run = std::move(run);
    s.type.clear();
  }

  void silu_at(Step& s) {
    for (const std::size_t i : {0u, 1u}) {
      Step* sigmoid = maker(s.inputs[i], "Sigmoid");
      if (!sigmoid || sigmoid->inputs[0] != s.inputs[1 - i]) continue;
      return replace(s, sigmoid->inputs, [](const Inputs& x) -> Tensors { return {silu(x[0])}; }, {sigmoid});
    }
  }
  void linear_at(Step& s) {
    for (const std::size_t i : {0u, 1u}) {
      Step* product = maker(s.inputs[i], "MatMul");
      const Tensor *weight = product ? state(product->inputs[1]) : nullptr, *bias = state(s.inputs[1 - i]);
      if (!weight || !bias || weight->dim() != 2 || bias->dim() != 1 || bias->size(0) != weight->size(1)) continue;
      const auto linear_of = [](const Inputs& x) -> Tensors { return {linear(x[0], transpose(x[1]), x[2])}; };
      return replace(s, {product->inputs[0], product->inputs[1], s.inputs[1 - i]}, linear_of, {product});
    }
  }
  // softmax(q @ k + mask) @ v, with or without a mask.
  void attention_at(Step& s) {
    Step* soft = maker(s.inputs[0], "Softmax");
    if (!soft) return;
    Step *scores = maker(soft->inputs[0], "MatMul"), *sum = nullptr;
    int mask = -1;
    for (const std::size_t i : {0u, 1u}) {
      if (scores) break;
      sum = maker(soft->inputs[0], "Add");
      if (!sum) return;
      scores = maker(sum->inputs[i], "MatMul");
      mask = sum->inputs[1 - i];
    }
    if (!scores) return;
    const auto attend = [](const Inputs& x) -> Tensors {
      const Tensor q = x[0], k = x[1], v = x[2], m = x.has(3) ? x[3] : Tensor();
      const auto fits = [&](const Tensor& t) {
        return t.dim() == q.dim() && std::equal(t.sizes().begin(), t.sizes().end() - 2, q.sizes().begin());
      };
      if (q.dim() >= 3 && fits(k) && fits(v) && q.is_floating() && (!m.defined() || m.dim() <= q.dim()))
        return {scaled_dot_product_attention(q, transpose(k), v, m, {.scale = 1})};
      const Tensor all = matmul(q, k);
      return {matmul(softmax(m.defined() ? all + m : all, -1), v)};
    };
    const std::vector<int> inputs{scores->inputs[0], scores->inputs[1], s.inputs[1], mask};
    if (sum) replace(s, inputs, attend, {soft, scores, sum});
    else replace(s, inputs, attend, {soft, scores});
  }

  Program& p_;
  const std::map<int, Tensor>& state_;
  std::map<int, int> uses_;
  std::map<int, std::size_t> makers_;
};

}  // namespace

void fuse(Program& program, const std::map<int, Tensor>& state) { Fuser(program, state).run(); }

}  // namespace mantissa::nn::onnx
