#include "nn/rnn.h"

#include <algorithm>
#include <cmath>

#include "nn/copy_fields.h"
#include "nn/init.h"
#include "ops/recurrence.h"

namespace mantissa::nn {
namespace detail {
namespace {

std::int64_t gates_of(RNNKind kind) { return kind == RNNKind::lstm ? 4 : kind == RNNKind::gru ? 3 : 1; }
const char* name_of(RNNKind kind) { return kind == RNNKind::lstm ? "LSTM" : kind == RNNKind::gru ? "GRU" : "RNN"; }

Cell cell_of(RNNKind kind, Nonlinearity f) {
  if (kind == RNNKind::rnn) return f == Nonlinearity::relu ? Cell::rnn_relu : Cell::rnn_tanh;
  return kind == RNNKind::lstm ? Cell::lstm : Cell::gru;
}

// The next state from W_ih x + b_ih and W_hh h + b_hh, both [N, gates * hidden].
LSTMState next_state(RNNKind kind, Nonlinearity f, const Tensor& from_x, const Tensor& from_h, const Tensor& h,
                     const Tensor& c) {
  if (kind == RNNKind::rnn) {
    const Tensor sum = from_x + from_h;
    return {f == Nonlinearity::relu ? relu(sum) : tanh(sum), {}};
  }
  const std::int64_t n = from_x.size(-1) / gates_of(kind);
  const auto gate = [n](const Tensor& all, std::int64_t k) { return slice(all, -1, k * n, (k + 1) * n); };
  if (kind == RNNKind::gru) {
    const Tensor reset = sigmoid(gate(from_x, 0) + gate(from_h, 0)),
                 update = sigmoid(gate(from_x, 1) + gate(from_h, 1));
    const Tensor fresh = tanh(gate(from_x, 2) + reset * gate(from_h, 2));
    return {fresh + update * (h - fresh), {}};
  }
  const Tensor sum = from_x + from_h;
  const Tensor cell = sigmoid(gate(sum, 1)) * c + sigmoid(gate(sum, 0)) * tanh(gate(sum, 2));
  return {sigmoid(gate(sum, 3)) * tanh(cell), cell};
}

void initialise(const std::vector<Param*>& parameters, std::int64_t hidden) {
  const double bound = hidden > 0 ? 1 / std::sqrt(static_cast<double>(hidden)) : 0;
  for (const Param* p : parameters) if (p->defined()) init::uniform_(*p, -bound, bound);
}
void check_sizes(RNNKind kind, std::int64_t input, std::int64_t hidden) {
  check(input >= 1 && hidden >= 1, name_of(kind), ": input_size and hidden_size must be positive, got ", input, " and ",
        hidden);
}

}  // namespace

RNNBase::RNNBase(RNNKind kind, std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& o)
    : input_size(input_size), hidden_size(hidden_size), options(o), kind_(kind) {
  check_sizes(kind, input_size, hidden_size);
  check(o.num_layers >= 1, name_of(kind), ": num_layers must be at least 1, got ", o.num_layers);
  check(o.dropout >= 0 && o.dropout <= 1, name_of(kind), ": dropout must be a probability, got ", o.dropout);
  check(o.proj_size >= 0 && o.proj_size < hidden_size, name_of(kind),
        ": proj_size must be between 0 and hidden_size, got ", o.proj_size);
  check(o.proj_size == 0 || kind == RNNKind::lstm, name_of(kind), ": proj_size is for LSTM only");
  const int directions = o.bidirectional ? 2 : 1;
  const std::int64_t rows = gates_of(kind) * hidden_size;
  for (int set = 0; set < o.num_layers * directions; ++set) {
    weights.emplace_back(empty({rows, set < directions ? input_size : output_size() * directions}));
    weights.emplace_back(empty({rows, output_size()}));
    for (int i = 0; i < 2; ++i) weights.push_back(o.bias ? Param(empty({rows})) : Param());
    if (o.proj_size > 0) weights.emplace_back(empty({o.proj_size, hidden_size}));
  }
  std::vector<Param*> all;
  for (Param& p : weights) all.push_back(&p);
  initialise(all, hidden_size);
}

void RNNBase::fields(Fields& visitor) {
  constexpr const char* names[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"};
  const std::size_t directions = options.bidirectional ? 2 : 1;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::size_t set = i / weights_per_set();
    const char* suffix = set % directions == 1 ? "_reverse" : "";
    visitor.visit(names[i % weights_per_set()] + ("_l" + std::to_string(set / directions)) + suffix, weights[i]);
  }
  visitor.visit("mode", mode);
}
void RNNBase::copy_to(RNNBase& c) const {
  c.input_size = input_size;
  c.hidden_size = hidden_size;
  c.options = options;
  c.weights.resize(weights.size());
  copy_fields(ModuleRef(*this), ModuleRef(c));
}

// One layer in one direction over x [T, N, in], step by step where h is projected.
LSTMResult RNNBase::run_direction(const Tensor& x, int set, Tensor h, Tensor c) const {
  const Param* w = &weights[static_cast<std::size_t>(set) * weights_per_set()];
  const bool reverse = options.bidirectional && set % 2 == 1;
  if (options.proj_size == 0) {
    const RecurrentResult r =
        recurrent_layer(cell_of(kind_, options.nonlinearity), x, w[0], w[2], w[1], w[3], h, c, reverse);
    return {r.output, r.h, r.c};
  }
  const std::int64_t length = x.size(0);
  const Tensor from_x = linear(x, w[0], w[2]);
  std::vector<Tensor> outputs(static_cast<std::size_t>(length));
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int64_t t = reverse ? length - 1 - i : i;
    const LSTMState next = next_state(kind_, options.nonlinearity, select(from_x, 0, t), linear(h, w[1], w[3]), h, c);
    h = outputs[static_cast<std::size_t>(t)] = linear(next.h, w[4]);
    c = next.c;
  }
  return {stack(outputs), h, c};
}

// The same for sequences of different lengths, sorted longest first: one stretch of steps after another, each with the
// sequences that are still active. Outputs are padded with 0.
LSTMResult RNNBase::run_packed(const Tensor& x, int set, Tensor h, Tensor c,
                               const std::vector<Stretch>& stretches) const {
  const std::int64_t length = x.size(0), batch = x.size(1);
  const auto rows = [](const Tensor& t, std::int64_t from, std::int64_t to) {
    return t.defined() ? slice(t, 0, from, to) : t;
  };
  const auto join = [](const Tensor& first, const Tensor& then) {
    return !first.defined() || then.size(0) == 0 ? first : first.size(0) == 0 ? then : cat({first, then});
  };
  const bool reverse = options.bidirectional && set % 2 == 1;
  const std::size_t count = stretches.size();
  std::vector<Tensor> outputs(count);
  // state of active sequences, and of ended ones
  LSTMResult state{{}, rows(h, 0, 0), rows(c, 0, 0)}, ended = state;
  std::int64_t running = 0;
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t i = reverse ? count - 1 - k : k;
    const Stretch& s = stretches[i];
    if (s.sequences > running) {  // sequences that start here
      state.h = join(state.h, rows(h, running, s.sequences));
      state.c = join(state.c, rows(c, running, s.sequences));
    } else if (s.sequences < running) {
      ended.h = join(rows(state.h, s.sequences, running), ended.h);
      ended.c = join(rows(state.c, s.sequences, running), ended.c);
      state.h = rows(state.h, 0, s.sequences);
      state.c = rows(state.c, 0, s.sequences);
    }
    running = s.sequences;
    state = run_direction(slice(slice(x, 0, s.begin, s.end), 1, 0, running), set, state.h, state.c);
    outputs[i] = running == batch ? state.output : pad(state.output, {0, 0, 0, batch - running});
  }
  const Tensor y = outputs.size() == 1 ? outputs[0] : cat(outputs);
  return {y.size(0) == length ? y : pad(y, {0, 0, 0, 0, 0, length - y.size(0)}), join(state.h, ended.h),
          join(state.c, ended.c)};
}

LSTMResult RNNBase::run(const Tensor& given, const Tensor& h0, const Tensor& c0, const Tensor& lengths) const {
  const amp::InModule here(*this);
  const bool batched = given.dim() == 3;
  const char* name = name_of(kind_);
  check(batched || given.dim() == 2, name, ": needs [T, N, input], or [T, input] without a batch, got ", given);
  check(given.size(-1) == input_size, name, ": needs input of size ", input_size, ", got ", given);
  Tensor x = !batched ? unsqueeze(given, 1) : options.batch_first ? transpose(given, 0, 1) : given;
  check(x.size(0) > 0, name, ": the sequence is empty, got ", given);
  const int directions = options.bidirectional ? 2 : 1, sets = options.num_layers * directions;
  const auto start = [&](const Tensor& t, const char* what, std::int64_t size) {
    const Dims state{sets, x.size(1), size};
    if (!t.defined()) return zeros(state, {.dtype = x.dtype(), .device = x.device()});
    const Tensor full = batched ? t : unsqueeze(t, 1);
    check(full.sizes() == state, name, ": the initial ", what, " must be ", state, batched ? "" : " without the batch",
          ", got ", t);
    return full;
  };
  Tensor h_start = start(h0, "h", output_size()),
         c_start = kind_ == RNNKind::lstm ? start(c0, "c", hidden_size) : Tensor();
  std::vector<Stretch> stretches;  // empty: all sequences are as long as x
  Tensor order;
  if (lengths.defined()) {
    check(batched && lengths.sizes() == Dims{x.size(1)} && !lengths.is_floating(), name, ": lengths must be integers [",
          x.size(1), "], one for each sequence of ", given, ", got ", lengths);
    const ValuesIndices sorted = sort(lengths.to(cpu).to(i64), 0, true);
    const std::vector<std::int64_t> longest = sorted.values.to_vector<std::int64_t>();
    check(!longest.empty(), name, ": lengths are given for ", given, ", which holds no sequence");
    check(longest.back() >= 1 && longest[0] <= x.size(0), name, ": lengths must be between 1 and the ", x.size(0),
          " steps of ", given, ", found ", longest.back() < 1 ? longest.back() : longest[0]);
    std::int64_t begin = 0;
    for (std::size_t n = longest.size(); n-- > 0;) {
      if (longest[n] == begin) continue;
      stretches.push_back({begin, longest[n], static_cast<std::int64_t>(n) + 1});
      begin = longest[n];
    }
    order = sorted.indices.to(x.device());
    x = index_select(x, 1, order);
    h_start = index_select(h_start, 1, order);
    if (c_start.defined()) c_start = index_select(c_start, 1, order);
  }
  std::vector<Tensor> h, c;
  for (int layer = 0; layer < options.num_layers; ++layer) {
    if (layer > 0) x = dropout(x, options.dropout, mode.training);
    std::vector<Tensor> both;
    for (int d = 0; d < directions; ++d) {
      const int set = layer * directions + d;
      const Tensor cell = c_start.defined() ? select(c_start, 0, set) : Tensor();
      const Tensor from = select(h_start, 0, set);
      const LSTMResult one =
          stretches.empty() ? run_direction(x, set, from, cell) : run_packed(x, set, from, cell, stretches);
      both.push_back(one.output);
      h.push_back(one.h);
      if (one.c.defined()) c.push_back(one.c);
    }
    x = directions == 1 ? both[0] : cat(both, -1);
  }
  LSTMResult result{x, stack(h), c.empty() ? Tensor() : stack(c)};
  if (order.defined()) {
    const Tensor back = argsort(order);
    for (Tensor* t : {&result.output, &result.h, &result.c}) if (t->defined()) *t = index_select(*t, 1, back);
  }
  if (batched && options.batch_first) result.output = transpose(result.output, 0, 1);
  if (batched) return result;
  for (Tensor* t : {&result.output, &result.h, &result.c}) if (t->defined()) *t = squeeze(*t, 1);
  return result;
}

RNNCellBase::RNNCellBase(RNNKind kind, std::int64_t input_size, std::int64_t hidden_size, bool bias)
    : input_size(input_size), hidden_size(hidden_size), kind_(kind) {
  check_sizes(kind, input_size, hidden_size);
  const std::int64_t rows = gates_of(kind) * hidden_size;
  weight_ih = Param(empty({rows, input_size}));
  weight_hh = Param(empty({rows, hidden_size}));
  if (bias) {
    bias_ih = Param(empty({rows}));
    bias_hh = Param(empty({rows}));
  }
  initialise({&weight_ih, &weight_hh, &bias_ih, &bias_hh}, hidden_size);
}
LSTMState RNNCellBase::step(const Tensor& x, const Tensor& h, const Tensor& c) const {
  check((x.dim() == 1 || x.dim() == 2) && x.size(-1) == input_size, name_of(kind_), "Cell: needs [N, ", input_size,
        "] or [", input_size, "], got ", x);
  Dims state = x.sizes();
  state.back() = hidden_size;
  const auto start = [&](const Tensor& t, const char* what) {
    if (!t.defined()) return zeros(state, {.dtype = x.dtype(), .device = x.device()});
    check(t.sizes() == state, name_of(kind_), "Cell: ", what, " must be ", state, ", got ", t);
    return t;
  };
  const Tensor from = start(h, "h"), cell = kind_ == RNNKind::lstm ? start(c, "c") : Tensor();
  return next_state(kind_, nonlinearity, linear(x, weight_ih, bias_ih), linear(from, weight_hh, bias_hh), from, cell);
}
void RNNCellBase::copy_to(RNNCellBase& c) const {
  c.input_size = input_size;
  c.hidden_size = hidden_size;
  c.nonlinearity = nonlinearity;
  copy_fields(ModuleRef(*this), ModuleRef(c));
}

}  // namespace detail

Tensor pad_sequence(const std::vector<Tensor>& sequences, bool batch_first, double padding_value) {
  check(!sequences.empty(), "pad_sequence: needs at least one sequence");
  std::int64_t longest = 0;
  for (const Tensor& s : sequences) {
    check(s.defined() && s.dim() >= 1, "pad_sequence: needs sequences [length, ...], got ", s);
    longest = std::max(longest, s.size(0));
  }
  std::vector<Tensor> padded;
  for (const Tensor& s : sequences) {
    Dims borders = Dims::filled(2 * s.dim(), 0);
    borders.back() = longest - s.size(0);
    padded.push_back(borders.back() == 0 ? s : pad(s, borders, "constant", padding_value));
  }
  return stack(padded, batch_first ? 0 : 1);
}

RNNResult RNN::operator()(const Tensor& x, const Tensor& h0, const Tensor& lengths) const {
  LSTMResult r = run(x, h0, {}, lengths);
  return {r.output, r.h};
}
RNNResult GRU::operator()(const Tensor& x, const Tensor& h0, const Tensor& lengths) const {
  LSTMResult r = run(x, h0, {}, lengths);
  return {r.output, r.h};
}
RNN RNN::clone() const {
  RNN c;
  copy_to(c);
  return c;
}
LSTM LSTM::clone() const {
  LSTM c;
  copy_to(c);
  return c;
}
GRU GRU::clone() const {
  GRU c;
  copy_to(c);
  return c;
}
RNNCell RNNCell::clone() const {
  RNNCell c;
  copy_to(c);
  return c;
}
LSTMCell LSTMCell::clone() const {
  LSTMCell c;
  copy_to(c);
  return c;
}
GRUCell GRUCell::clone() const {
  GRUCell c;
  copy_to(c);
  return c;
}

}  // namespace mantissa::nn
