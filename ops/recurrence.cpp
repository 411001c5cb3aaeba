// recurrent_layer: forward and backward are one kernel each (core/recurrence.h) between products over all steps at
// once. The gates and states that the kernel computes are saved, so backward recomputes nothing.
#include "ops/recurrence.h"

#include "core/context.h"
#include "core/gemm.h"
#include "core/gemm_half.h"
#include "core/ops.h"
#include "ops/compose.h"
#include "ops/parameter_gradient.h"

namespace mantissa {
namespace {

View flat(const View& v) {  // [T, N, n] as [T * N, n]
  View rows = v;
  rows.sizes = {v.size(0) * v.size(1), v.size(2)};
  rows.strides = {v.size(2), 1};
  return rows;
}

// The same composed of operators, step by step, for second derivatives.
struct Steps {
  struct State {
    Tensor gate[4], kept, h_before, c_before;
  };
  Cell cell;
  std::vector<State> states;
  Tensor h, c;

  static std::vector<Tensor> parts(const Tensor& all, std::int64_t n) {
    std::vector<Tensor> p;
    for (std::int64_t k = 0; k < all.size(-1) / n; ++k) p.push_back(slice(all, -1, k * n, (k + 1) * n));
    return p;
  }
  Steps(Cell cell, const Tensor& h0, const Tensor& c0) : cell(cell), h(h0), c(c0) {}

  void forward(const Tensor& from_x, const Tensor& from_h) {
    const std::vector<Tensor> x = parts(from_x, h.size(-1)), p = parts(from_h, h.size(-1));
    State s{{}, {}, h, c};
    if (cell == Cell::rnn_tanh || cell == Cell::rnn_relu) {
      h = s.gate[0] = cell == Cell::rnn_relu ? relu(x[0] + p[0]) : tanh(x[0] + p[0]);
    } else if (cell == Cell::lstm) {
      for (std::size_t k = 0; k < 4; ++k) s.gate[k] = k == 2 ? tanh(x[k] + p[k]) : sigmoid(x[k] + p[k]);
      c = s.kept = s.gate[1] * c + s.gate[0] * s.gate[2];
      h = s.gate[3] * tanh(c);
    } else {
      for (std::size_t k = 0; k < 2; ++k) s.gate[k] = sigmoid(x[k] + p[k]);
      s.kept = p[2];
      s.gate[2] = tanh(x[2] + s.gate[0] * p[2]);
      h = s.gate[2] + s.gate[1] * (h - s.gate[2]);
    }
    states.push_back(s);
  }

  struct Gradients {
    Tensor x, h, past;
  };  // of from_x, of from_h, and of the h before past the product
  Gradients backward(const State& s, const Tensor& dh, Tensor& dc) const {
    const auto of_sigmoid = [](const Tensor& g, const Tensor& y) { return g * (y * (1.0 - y)); };
    const auto of_tanh = [](const Tensor& g, const Tensor& y) { return g * (1.0 - y * y); };
    const Tensor* gate = s.gate;
    if (cell == Cell::rnn_tanh || cell == Cell::rnn_relu) {
      const Tensor d = cell == Cell::rnn_relu ? where(gate[0] > 0.0, dh, Tensor(0.0)) : of_tanh(dh, gate[0]);
      return {d, d, {}};
    }
    if (cell == Cell::lstm) {
      const Tensor squashed = tanh(s.kept), d_cell = dc + of_tanh(dh * gate[3], squashed);
      dc = d_cell * gate[1];
      const Tensor d = cat({of_sigmoid(d_cell * gate[2], gate[0]), of_sigmoid(d_cell * s.c_before, gate[1]),
                            of_tanh(d_cell * gate[0], gate[2]), of_sigmoid(dh * squashed, gate[3])},
                           -1);
      return {d, d, {}};
    }
    const Tensor past = dh * gate[1], fresh = of_tanh(dh - past, gate[2]);
    const Tensor reset = of_sigmoid(fresh * s.kept, gate[0]);
    const Tensor update = of_sigmoid(dh * (s.h_before - gate[2]), gate[1]);
    return {cat({reset, update, fresh}, -1), cat({reset, update, fresh * gate[0]}, -1), past};
  }
};

// Inputs: x, weight_ih, bias_ih, weight_hh, bias_hh, h0, c0, contiguous. Results: y (for the LSTM followed by the last
// c), activated gates, saved states.
struct Recurrence {
  static constexpr auto name = "recurrent_layer";
  static constexpr const char* args[] = {"x", "weight_ih", "bias_ih", "weight_hh", "bias_hh", "h0", "c0"};
  Cell cell;
  bool reverse;
  mutable KeptWeight kept_ih = {};  // set by infer for run

  std::array<Spec, 3> infer(const Tensor& x, const Tensor& w_ih, const Tensor& b_ih, const Tensor& w_hh,
                            const Tensor& b_hh, const Tensor& h0, const Tensor& c0) const {
    check(x.dim() == 3 && x.size(0) >= 1, "needs x [T, N, input] of at least one step");
    check(x.is_floating(), "needs a floating dtype");
    check(w_hh.dim() == 2 && w_hh.size(0) == gates_of(cell) * w_hh.size(1), "weight_hh must be [", gates_of(cell),
          " * H, H]");
    const Dims rows{w_hh.size(0)}, state{x.size(1), w_hh.size(1)};
    check_sizes(w_ih, "weight_ih", {rows[0], x.size(2)});
    check(b_ih.defined() == b_hh.defined(), "needs both biases or none");
    for (const Tensor* b : {&b_ih, &b_hh})
      if (b->defined()) check_sizes(*b, "bias", rows);
    check_sizes(h0, "first h", state);
    check(c0.defined() == (cell == Cell::lstm), "an LSTM, and nothing else, has a first c");
    if (c0.defined()) check_sizes(c0, "first c", state);
    kept_ih = KeptWeight(w_ih);
    const std::int64_t steps = x.size(0), n = state[0], hidden = state[1];
    const Dtype wide = compute_dtype(x.dtype());
    const bool keeps = context().grad_enabled || !x.device().is_cpu();  // for backward
    return {like(x, Dims{steps + (cell == Cell::lstm), n, hidden}), Spec{{steps, n, rows[0]}, wide, x.device()},
            Spec{{keeps ? steps : 1, n, hidden}, wide, x.device()}};
  }
  void run(const std::array<View, 3>& y, const View& x, const View& w_ih, const View& b_ih, const View& w_hh,
           const View& b_hh, const View& h0, const View& c0) const {
    View turned = w_ih;
    turned.sizes = {w_ih.size(1), w_ih.size(0)};
    turned.strides = {w_ih.strides[1], w_ih.strides[0]};
    kernels::gemm(x.device, flat(y[1]), flat(x), turned, {}, kept_ih);
    View kept = y[2];
    if (kept.size(0) < x.size(0)) kept.sizes[0] = x.size(0), kept.strides[0] = 0;
    const CountedFlops counted(2.0 * static_cast<double>(y[1].numel()) * static_cast<double>(w_hh.size(1)));
    kernels::recurrence(x.device, y[0], y[1], kept, h0, c0, w_hh, b_ih, b_hh, cell, reverse);
  }
  // ONNX orders the gates differently: LSTM input, output, forget, cell; GRU update, reset, new.
  void onnx(OnnxCall& c) const {
    static constexpr std::int64_t lstm[] = {0, 3, 1, 2}, gru[] = {1, 0, 2};
    const std::int64_t hidden = c.x(3).size(1), gates = gates_of(cell);
    std::vector<std::int64_t> order;
    for (std::int64_t g = 0; g < gates; ++g) {
      const std::int64_t from = cell == Cell::lstm ? lstm[g] : cell == Cell::gru ? gru[g] : g;
      for (std::int64_t i = 0; i < hidden; ++i) order.push_back(from * hidden + i);
    }
    const auto in_order = [&](int i) {
      return gates == 1 ? c.in(i) : c.node("Gather", {c.in(i), c.ints(order)}, {{"axis", 0}});
    };
    const auto one_direction = [&](OnnxId v) { return c.node("Unsqueeze", {v, c.ints({0})}); };
    const OnnxId bias = c.has(2) ? one_direction(c.node("Concat", {in_order(2), in_order(4)}, {{"axis", 0}})) : -1;
    std::vector<OnnxId> inputs{c.in(0), one_direction(in_order(1)), one_direction(in_order(3)), bias,
                               -1,      one_direction(c.in(5))};
    if (c.has(6)) inputs.push_back(one_direction(c.in(6)));
    std::vector<OnnxAttribute> attributes{{"hidden_size", hidden}, {"direction", reverse ? "reverse" : "forward"}};
    if (cell == Cell::gru) attributes.emplace_back("linear_before_reset", 1);
    if (cell == Cell::rnn_relu) attributes.emplace_back("activations", std::vector<std::string>{"Relu"});
    const bool is_lstm = cell == Cell::lstm;
    const auto y = c.nodes(is_lstm             ? "LSTM"
                           : cell == Cell::gru ? "GRU"
                                               : "RNN",
                           inputs, std::move(attributes), is_lstm ? 3 : 1);
    const OnnxId steps = c.node("Squeeze", {y[0], c.ints({1})});  // [T, 1, N, H]
    c.result(is_lstm ? c.node("Concat", {steps, y[2]}, {{"axis", 0}}) : steps);
  }
  static constexpr auto vjp();
};

// Results: the gradients of W_ih x + b_ih and, where they differ, of W_hh h + b_hh; of h0 and c0.
struct RecurrenceBackward {
  static constexpr auto name = "recurrent_layer_backward";
  static constexpr const char* args[] = {"gradient", "x",  "weight_ih", "bias_ih", "weight_hh", "bias_hh",
                                         "h0",       "c0", "y",         "gates",   "kept"};
  Recurrence of;

  std::array<Spec, 4> infer(const Tensor& g, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                            const Tensor& h0, const Tensor& c0, const Tensor& y, const Tensor& gates,
                            const Tensor&) const {
    check_sizes(g, "gradient", y.sizes());
    const Dims none{0};
    return {like(g, gates.sizes()), like(g, of.cell == Cell::gru ? gates.sizes() : none), like(h0),
            c0.defined() ? like(c0) : like(h0, none)};
  }
  void run(const std::array<View, 4>& d, const View& g, const View&, const View&, const View&, const View& w_hh,
           const View&, const View& h0, const View& c0, const View& y, const View& gates, const View& kept) const {
    const CountedFlops counted(2.0 * static_cast<double>(gates.numel()) * static_cast<double>(w_hh.size(1)));
    kernels::recurrence_backward(g.device, d[0], of.cell == Cell::gru ? d[1] : View{}, d[2], c0 ? d[3] : View{}, g, y,
                                 gates, kept, h0, c0, w_hh, of.cell, of.reverse);
  }
  static std::array<Tensor, 4> reference(const RecurrenceBackward& op, const Tensor& given, const Tensor& x,
                                         const Tensor& w_ih, const Tensor& b_ih, const Tensor& w_hh, const Tensor& b_hh,
                                         const Tensor& h0, const Tensor& c0, const Tensor&, const Tensor&,
                                         const Tensor&) {
    const auto wide = [](const Tensor& t) { return t.defined() ? cast(t, compute_dtype(t.dtype())) : t; };
    const auto rounded = [&](const Tensor& t) { return cast(t, x.dtype()); };
    const std::int64_t steps = x.size(0);
    const auto time = [&](std::int64_t i) { return op.of.reverse ? steps - 1 - i : i; };
    const Tensor g = wide(given), weight = wide(w_hh), from_x = linear(wide(x), wide(w_ih), wide(b_ih));
    Steps run(op.of.cell, wide(h0), wide(c0));
    for (std::int64_t i = 0; i < steps; ++i) run.forward(select(from_x, 0, time(i)), linear(run.h, weight, wide(b_hh)));
    Tensor dh = zeros_like(run.h), dc = c0.defined() ? select(g, 0, steps) : Tensor();
    std::vector<Tensor> d_x(static_cast<std::size_t>(steps)), d_h = d_x;
    for (std::int64_t i = steps - 1; i >= 0; --i) {
      const auto t = static_cast<std::size_t>(time(i));
      const auto d = run.backward(run.states[static_cast<std::size_t>(i)], dh + select(g, 0, time(i)), dc);
      d_x[t] = d.x;
      d_h[t] = d.h;
      dh = matmul(d.h, weight);
      if (d.past.defined()) dh = dh + d.past;
    }
    const Tensor none = empty({0}, {.dtype = x.dtype(), .device = x.device()});
    return {rounded(stack(d_x)), op.of.cell == Cell::gru ? rounded(stack(d_h)) : none, rounded(dh),
            dc.defined() ? rounded(dc) : none};
  }
};

constexpr auto Recurrence::vjp() {
  return joint([](const Recurrence& op, Needs needs, Grad g, In<0> x, In<1> w_ih, In<2> b_ih, In<3> w_hh, In<4> b_hh,
                  In<5> h0, In<6> c0, Out<0> y, Out<1> gates, Out<2> kept, Into<1> to_w_ih, Into<2> to_b_ih,
                  Into<3> to_w_hh, Into<4> to_b_hh) {
    const auto [d_x, other, d_h0, d_c0] =
        apply(RecurrenceBackward{op}, contiguous(g), x, w_ih, b_ih, w_hh, b_hh, h0, c0, y, gates, kept);
    const Tensor d_h = op.cell == Cell::gru ? other : d_x;
    const auto rows = [](const Tensor& t) { return flatten(t, 0, 1); };
    std::array<Tensor, 7> d;
    if (needs[0]) d[0] = matmul(d_x, w_ih);
    if (needs[1]) d[1] = product_into(to_w_ih, transpose(rows(d_x)), rows(x));
    if (needs[2]) d[2] = sum_into({to_b_ih.dtype}, d_x, -1);  // returned, because the other bias may share it
    if (needs[3]) {  // each step with the previous h
      const std::int64_t steps = x.size(0), r = op.reverse;
      const Tensor first = unsqueeze(h0, 0), others = slice(y, 0, r, steps - 1 + r);
      const Tensor before = steps == 1 ? first : r ? cat({others, first}, 0) : cat({first, others}, 0);
      d[3] = product_into(to_w_hh, transpose(rows(d_h)), rows(before));
    }
    if (needs[4]) d[4] = op.cell == Cell::gru || !needs[2] ? sum_into({to_b_hh.dtype}, d_h, -1) : d[2];
    if (needs[5]) d[5] = d_h0;
    if (needs[6]) d[6] = d_c0;
    return d;
  });
}

// Whether the device has instructions for products of this dtype (f16 or bf16). Otherwise each product would convert
// its operands; converting once and running the whole layer in f32 is faster.
bool multiplies_as_it_is(Dtype half, Device device) {
  if (!device.is_cpu()) return true;
  HalfProduct pair{};
  pair.dtype = half;
  pair.k = 2;
  std::int64_t units = 0;
  kernels::gemm_half_units(device, pair, &units);
  return units != 2 * half_panel;  // not one unit per element
}

}  // namespace

RecurrentResult recurrent_layer(Cell cell, const Tensor& x, const Tensor& weight_ih, const Tensor& bias_ih,
                                const Tensor& weight_hh, const Tensor& bias_hh, const Tensor& h0, const Tensor& c0,
                                bool reverse) {
  const Composite in("recurrent_layer", CastPolicy::lower, {&x, &weight_ih, &bias_ih, &weight_hh, &bias_hh, &h0, &c0});
  const Dtype dtype = in[0].dtype();
  for (std::size_t i = 1; i < 7; ++i) {
    if (!in[i].defined()) continue;
    check(in[i].dtype() == dtype, "recurrent_layer: needs one dtype, got ", dtype, " for x and ", in[i].dtype(),
          " for ", Recurrence::args[i]);
  }
  const bool widen = is_half(dtype) && !multiplies_as_it_is(dtype, in[0].device());
  const auto ready = [&](std::size_t i) {
    return !in[i].defined() ? in[i] : contiguous(widen ? cast(in[i], f32) : in[i]);
  };
  Tensor y = apply(Recurrence{cell, reverse}, ready(0), ready(1), ready(2), ready(3), ready(4), ready(5), ready(6))[0];
  if (widen) y = cast(y, dtype);
  if (cell != Cell::lstm) return {in.result(y), select(y, 0, reverse ? 0 : -1), {}};
  const std::int64_t steps = y.size(0) - 1;
  const Tensor output = slice(y, 0, 0, steps);
  return {in.result(output), select(output, 0, reverse ? 0 : -1), select(y, 0, steps)};
}

namespace {

// Three steps with biases, the same in reverse without, and a single step.
void recurrent_layer_samples(Samples& s) {
  const std::int64_t n = 2, in = 3, hidden = 5;
  for (const Cell cell : {Cell::rnn_tanh, Cell::rnn_relu, Cell::lstm, Cell::gru}) {
    const std::int64_t rows = gates_of(cell) * hidden;
    for (const int number : {0, 1, 2}) {
      const bool reverse = number == 1;
      Tensors x{s.randn({number < 2 ? 3 : 1, n, in}), s.randn({rows, in}), s.randn({rows, hidden}) * 0.5,
                s.randn({n, hidden})};
      if (cell == Cell::lstm) x.push_back(s.randn({n, hidden}));
      if (!reverse) x.push_back(s.randn({rows})), x.push_back(s.randn({rows}));
      s.call(x, [cell, reverse](const Tensors& x) {
        const Tensor none, c0 = cell == Cell::lstm ? x[4] : none;
        const std::size_t b = cell == Cell::lstm ? 5 : 4;
        const RecurrentResult r = recurrent_layer(cell, x[0], x[1], reverse ? none : x[b], x[2],
                                                  reverse ? none : x[b + 1], x[3], c0, reverse);
        return cell == Cell::lstm ? Tensors{cat({flatten(r.output), flatten(r.c)}, 0)} : Tensors{r.output};
      });
    }
  }
  const auto lstm = [](const Tensors& x) {
    return recurrent_layer(Cell::lstm, x[0], x[1], {}, x[2], {}, x[3], x[4]).output;
  };
  s.error_call({s.randn({2, 3, 4}), s.randn({8, 4}), s.randn({8, 3}), s.randn({3, 2}), s.randn({3, 2})}, lstm,
               "weight_hh must be [4 * H, H]");
  s.error_call({s.randn({2, 3, 4}), s.randn({8, 5}), s.randn({8, 2}), s.randn({3, 2}), s.randn({3, 2})}, lstm,
               "the weight_ih has shape");
  s.error_call({s.randn({2, 3, 4}), s.randn({8, 4}), s.randn({8, 2}), s.randn({2, 2}), s.randn({3, 2})}, lstm,
               "the first h has shape");
}
MANTISSA_COMPOSITE(recurrent_layer, recurrent_layer_samples, .autocast = CastPolicy::lower, .has_policy = true)

}  // namespace
}  // namespace mantissa
