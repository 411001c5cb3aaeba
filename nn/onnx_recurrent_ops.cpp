// ONNX's LSTM, GRU and RNN (nn/onnx_program.h). Variants that PyTorch also has run as recurrent_layer; peepholes,
// clipping, lengths, other activations and GRUs with linear_before_reset = 0 run step by step.
#include <algorithm>
#include <cmath>

#include "nn/onnx_program.h"
#include "ops/recurrence.h"

namespace mantissa::nn::onnx {
namespace {

using Activation = std::function<Tensor(const Tensor&)>;

Activation activation(Node& n, const std::string& name, double alpha, double beta) {
  const auto otherwise = [](double v, double d) { return std::isnan(v) ? d : v; };
  if (name == "Sigmoid") return [](const Tensor& x) { return sigmoid(x); };
  if (name == "Tanh") return [](const Tensor& x) { return tanh(x); };
  if (name == "Relu") return [](const Tensor& x) { return relu(x); };
  if (name == "Softsign") return [](const Tensor& x) { return softsign(x); };
  if (name == "Softplus") return [](const Tensor& x) { return softplus(x); };
  if (name == "LeakyRelu") return [a = otherwise(alpha, 0.01)](const Tensor& x) { return leaky_relu(x, a); };
  if (name == "ThresholdedRelu") return [a = otherwise(alpha, 1)](const Tensor& x) { return threshold(x, a, 0); };
  if (name == "Elu") return [a = otherwise(alpha, 1)](const Tensor& x) { return elu(x, a); };
  if (name == "HardSigmoid")
    return [a = otherwise(alpha, 0.2), b = otherwise(beta, 0.5)](const Tensor& x) { return clamp(x * a + b, 0, 1); };
  if (name == "Affine") return [a = alpha, b = beta](const Tensor& x) { return x * a + b; };
  if (name == "ScaledTanh") return [a = alpha, b = beta](const Tensor& x) { return tanh(x * b) * a; };
  n.refuse("the activation ", name);
}

struct Layer {
  int gates = 1;  // 4: LSTM, 3: GRU, 1: RNN
  std::int64_t hidden = 0;
  bool reset_after = false, couple = false, batch_first = false, plain = true;
  double clip = HUGE_VAL;
  Cell cell = Cell::rnn_tanh;
  std::vector<Activation> activations;  // 3, 2 or 1 per direction
  std::vector<bool> reverse;            // per direction
};

// Reorders the weights' rows to PyTorch's gates. LSTM there: input, output, forget, cell; GRU: update, reset, new.
Tensor in_our_order(const Tensor& w, const Layer& l) {
  if (l.gates == 1) return w;
  const Tensors p = split(w, w.size(0) / l.gates, 0);
  return l.gates == 4 ? cat({p[0], p[2], p[3], p[1]}) : cat({p[1], p[0], p[2]});
}
struct State {
  Tensor y, h, c;
};
// One direction: w, r, b, p are the file's, x [T, N, I].
State fast(const Layer& l, const Tensor& x, const Tensor& w, const Tensor& r, const Tensor& b, const State& s,
           bool reverse) {
  const std::int64_t rows = l.gates * l.hidden;
  const auto bias = [&](std::int64_t half) {
    return b.defined() ? in_our_order(slice(b, 0, half * rows, (half + 1) * rows), l) : Tensor();
  };
  const RecurrentResult y =
      recurrent_layer(l.cell, x, in_our_order(w, l), bias(0), in_our_order(r, l), bias(1), s.h, s.c, reverse);
  return {y.output, y.h, y.c};
}
State stepwise(const Layer& l, const Activation* f, const Tensor& x, const Tensor& w, const Tensor& r, const Tensor& b,
               const Tensor& peep, const Tensor& lengths, State s, bool reverse) {
  const std::int64_t steps = x.size(0), n = l.hidden, rows = l.gates * n;
  const Tensor bw = b.defined() ? slice(b, 0, 0, rows) : Tensor(), br = b.defined() ? slice(b, 0, rows) : Tensor();
  const Tensor from_x = linear(x, w, bw);
  const auto part = [n](const Tensor& t, std::int64_t k) { return slice(t, -1, k * n, (k + 1) * n); };
  const auto clipped = [&](const Tensor& t) { return std::isinf(l.clip) ? t : clamp(t, -l.clip, l.clip); };
  const auto peeped = [&](const Tensor& t, std::int64_t k, const Tensor& c) {
    return peep.defined() ? t + part(peep, k) * c : t;
  };
  Tensors y(static_cast<std::size_t>(steps));
  for (std::int64_t i = 0; i < steps; ++i) {
    const std::int64_t t = reverse ? steps - 1 - i : i;
    const Tensor a = select(from_x, 0, t);
    Tensor h, c;
    if (l.gates == 4) {
      const Tensor sum = a + linear(s.h, r, br);
      const Tensor in = f[0](clipped(peeped(part(sum, 0), 0, s.c)));
      const Tensor forget = l.couple ? 1.0 - in : f[0](clipped(peeped(part(sum, 2), 2, s.c)));
      c = forget * s.c + in * f[1](clipped(part(sum, 3)));
      h = f[0](clipped(peeped(part(sum, 1), 1, c))) * f[2](c);
    } else if (l.gates == 3) {
      const Tensor turned = linear(s.h, slice(r, 0, 0, 2 * n), br.defined() ? slice(br, 0, 0, 2 * n) : br);
      const Tensor update = f[0](clipped(part(a, 0) + part(turned, 0)));
      const Tensor reset = f[0](clipped(part(a, 1) + part(turned, 1)));
      const Tensor last = slice(r, 0, 2 * n), bias = br.defined() ? slice(br, 0, 2 * n) : br;
      const Tensor past = l.reset_after ? reset * linear(s.h, last, bias) : linear(reset * s.h, last, bias);
      h = (1.0 - update) * f[1](clipped(part(a, 2) + past)) + update * s.h;
    } else {
      h = f[0](clipped(a + linear(s.h, r, br)));
    }
    y[static_cast<std::size_t>(t)] = h;
    if (lengths.defined()) {  // steps beyond a sequence's end keep the state, and output 0
      const Tensor on = unsqueeze(lengths > static_cast<double>(t), 1);
      y[static_cast<std::size_t>(t)] = where(on, h, zeros_like(h));
      h = where(on, h, s.h);
      if (c.defined()) c = where(on, c, s.c);
    }
    s.h = h;
    s.c = c;
  }
  s.y = stack(y);
  return s;
}

Run recurrent(Node& n, int gates) {
  Layer l;
  l.gates = gates;
  l.hidden = n.i("hidden_size");
  l.batch_first = n.i("layout", 0) != 0;
  l.couple = gates == 4 && n.i("input_forget", 0) != 0;
  l.reset_after = gates == 3 && n.i("linear_before_reset", 0) != 0;
  l.clip = n.f("clip", HUGE_VAL);
  const std::string direction = n.s("direction", "forward");
  if (direction == "bidirectional") l.reverse = {false, true};
  else if (direction == "forward" || direction == "reverse") l.reverse = {direction == "reverse"};
  else n.refuse("the direction ", direction);
  const std::size_t each = gates == 4 ? 3 : gates == 3 ? 2 : 1, all = each * l.reverse.size();
  std::vector<std::string> names = n.texts("activations");
  const std::vector<std::string> usual = gates == 4   ? std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"}
                                         : gates == 3 ? std::vector<std::string>{"Sigmoid", "Tanh"}
                                                      : std::vector<std::string>{"Tanh"};
  if (names.empty())
    for (std::size_t i = 0; i < all; ++i) names.push_back(usual[i % each]);
  if (names.size() != all) n.refuse("has ", names.size(), " activations instead of ", all);
  const auto alphas = n.numbers("activation_alpha"), betas = n.numbers("activation_beta");
  for (std::size_t i = 0; i < all; ++i) {
    const auto at = [&](const auto& v) { return v && i < v->size() ? (*v)[i] : std::nan(""); };
    l.activations.push_back(activation(n, names[i], at(alphas), at(betas)));
    const bool relu = gates == 1 && names[i] == "Relu" && names[i] == names[0];
    l.plain = l.plain && (relu || names[i] == usual[i % each]) && (i == 0 || gates > 1 || names[i] == names[0]);
  }
  l.cell = gates == 4 ? Cell::lstm : gates == 3 ? Cell::gru : names[0] == "Relu" ? Cell::rnn_relu : Cell::rnn_tanh;
  l.plain = l.plain && std::isinf(l.clip) && !l.couple && (gates != 3 || l.reset_after);
  return [=](const Inputs& in) -> Tensors {
    const auto optional = [&](int i) { return in.has(i) ? in[i] : Tensor(); };
    const Tensor x = l.batch_first ? transpose(in[0], 0, 1) : in[0], lengths = optional(4), peep = optional(7);
    const auto count = static_cast<std::int64_t>(l.reverse.size());
    check(x.dim() == 3 && x.size(0) >= 1, "needs x [T, N, input] of at least one step, got ", x);
    check(in[1].dim() == 3 && in[1].size(0) == count && in[1].size(1) == l.gates * l.hidden, "W is ", in[1]);
    check(in[2].dim() == 3 && in[2].size(0) == count && in[2].size(1) == l.gates * l.hidden, "R is ", in[2]);
    check(!in.has(3) || (in[3].dim() == 2 && in[3].size(0) == count && in[3].size(1) == 2 * l.gates * l.hidden),
          "B is ", in.has(3) ? in[3] : x);
    const auto first = [&](int i, std::int64_t d) {
      if (!in.has(i)) return zeros({x.size(1), l.hidden}, {.dtype = x.dtype(), .device = x.device()});
      return select(in[i], l.batch_first ? 1 : 0, d);
    };
    Tensors y, h, c;
    for (std::int64_t d = 0; d < count; ++d) {
      const auto of = [&](const Tensor& t) { return t.defined() ? select(t, 0, d) : t; };
      const State s{{}, first(5, d), l.gates == 4 ? first(6, d) : Tensor()};
      const bool reverse = l.reverse[static_cast<std::size_t>(d)];
      const Activation* f =
          l.activations.data() + static_cast<std::size_t>(d) * l.activations.size() / l.reverse.size();
      const State r = l.plain && !lengths.defined() && !peep.defined()
                          ? fast(l, x, of(in[1]), of(in[2]), of(optional(3)), s, reverse)
                          : stepwise(l, f, x, of(in[1]), of(in[2]), of(optional(3)), of(peep), lengths, s, reverse);
      y.push_back(r.y), h.push_back(r.h), c.push_back(r.c);
    }
    // [T, directions, N, H] and [directions, N, H]; batch first [N, T, directions, H] and [N, directions, H]
    const int at = l.batch_first ? 1 : 0;
    const Tensor out = stack(y, 1);
    return {l.batch_first ? permute(out, {2, 0, 1, 3}) : out, stack(h, at), l.gates == 4 ? stack(c, at) : Tensor()};
  };
}
template <int gates> Run recurrent(Node& n) { return recurrent(n, gates); }

constexpr Operator operators[] = {
    {"GRU", 3, 6, recurrent<3>, 2},
    {"LSTM", 3, 8, recurrent<4>, 3},
    {"RNN", 3, 6, recurrent<1>, 2},
};

}  // namespace

std::span<const Operator> recurrent_operators() { return operators; }

}  // namespace mantissa::nn::onnx
