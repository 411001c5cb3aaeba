// RNN, LSTM (Hochreiter and Schmidhuber, 1997) and GRU (Cho et al., 2014) over sequences, and their cells, with
// torch.nn's names (weight_ih_l0, bias_hh_l1_reverse, ...), defaults and results.
//
//   nn::LSTM lstm{28, 64, {.num_layers = 2, .batch_first = true}};
//   auto [y, h, c] = lstm(x);
//
// x [T, N, input], or [N, T, input] with batch_first, or [T, input] without a batch; y has the same layout, with last
// dimension hidden (doubled when bidirectional). States [layers * directions, N, hidden]; absent means 0. With
// proj_size, y and h of an LSTM have that size instead of hidden.
//
// Sequences of different lengths are padded at the end (pad_sequence), with the lengths as the last argument:
//
//   auto [y, h, c] = lstm(x, {}, lengths);   // i64 [N], each from 1 to T
//
// Results are those of PyTorch's pack_padded_sequence (enforce_sorted = False): h and c are from each sequence's last
// step, the reverse direction starts there, and y is 0 after it. y is as long as x. Copies the lengths to the host.
#pragma once

#include <string>
#include <vector>

#include "core/ops.h"
#include "nn/fields.h"

namespace mantissa::nn {

enum class Nonlinearity { tanh, relu };
struct RNNOptions {
  int num_layers = 1;
  Nonlinearity nonlinearity = Nonlinearity::tanh;  // RNN only
  bool bias = true;
  bool batch_first = false;
  double dropout = 0;  // between layers, in training
  bool bidirectional = false;
  std::int64_t proj_size = 0;  // LSTM only: h is projected to this size (Sak et al., 2014); 0: no projection
};
struct RNNResult { Tensor output, h; };
struct LSTMResult { Tensor output, h, c; };
struct LSTMState { Tensor h, c; };

namespace detail {
enum class RNNKind { rnn, lstm, gru };

// Common base of the three; the kind selects the step function.
class RNNBase {
 public:
  // Per layer and direction: weight_ih [gates * hidden, in], weight_hh [gates * hidden, out], bias_ih, bias_hh, and
  // with a projection weight_hr [out, hidden]; out is proj_size or hidden.
  std::vector<Param> weights;
  Mode mode;
  std::int64_t input_size = 0, hidden_size = 0;
  RNNOptions options;
  void fields(Fields& visitor);

 protected:
  explicit RNNBase(RNNKind kind) : kind_(kind) {}
  RNNBase(RNNKind kind, std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& o);
  LSTMResult run(const Tensor& x, const Tensor& h0, const Tensor& c0, const Tensor& lengths) const;
  void copy_to(RNNBase& c) const;

 private:
  std::int64_t output_size() const { return options.proj_size > 0 ? options.proj_size : hidden_size; }
  std::size_t weights_per_set() const { return options.proj_size > 0 ? 5 : 4; }
  LSTMResult run_direction(const Tensor& x, int set, Tensor h, Tensor c) const;
  struct Stretch { std::int64_t begin, end, sequences; };  // steps with equal active sequences, longest first
  LSTMResult run_packed(const Tensor& x, int set, Tensor h, Tensor c, const std::vector<Stretch>& stretches) const;
  RNNKind kind_;
};

// One step of a recurrent cell.
class RNNCellBase {
 public:
  Param weight_ih, weight_hh, bias_ih, bias_hh;
  std::int64_t input_size = 0, hidden_size = 0;
  Nonlinearity nonlinearity = Nonlinearity::tanh;
  MANTISSA_FIELDS(weight_ih, weight_hh, bias_ih, bias_hh)

 protected:
  explicit RNNCellBase(RNNKind kind) : kind_(kind) {}
  RNNCellBase(RNNKind kind, std::int64_t input_size, std::int64_t hidden_size, bool bias);
  LSTMState step(const Tensor& x, const Tensor& h, const Tensor& c) const;
  void copy_to(RNNCellBase& c) const;

 private:
  RNNKind kind_;
};
}  // namespace detail

class RNN : public detail::RNNBase {  // h' = nonlinearity(W_ih x + b_ih + W_hh h + b_hh)
 public:
  RNN(std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& o = {})
      : RNNBase(detail::RNNKind::rnn, input_size, hidden_size, o) {}
  RNNResult operator()(const Tensor& x, const Tensor& h0 = {}, const Tensor& lengths = {}) const;
  RNN clone() const;

 private:
  RNN() : RNNBase(detail::RNNKind::rnn) {}
};
class LSTM : public detail::RNNBase {  // gates in the order input, forget, cell, output
 public:
  LSTM(std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& o = {})
      : RNNBase(detail::RNNKind::lstm, input_size, hidden_size, o) {}
  LSTMResult operator()(const Tensor& x, const LSTMState& state = {}, const Tensor& lengths = {}) const {
    return run(x, state.h, state.c, lengths);
  }
  LSTM clone() const;

 private:
  LSTM() : RNNBase(detail::RNNKind::lstm) {}
};
class GRU : public detail::RNNBase {  // gates in the order reset, update, new
 public:
  GRU(std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& o = {})
      : RNNBase(detail::RNNKind::gru, input_size, hidden_size, o) {}
  RNNResult operator()(const Tensor& x, const Tensor& h0 = {}, const Tensor& lengths = {}) const;
  GRU clone() const;

 private:
  GRU() : RNNBase(detail::RNNKind::gru) {}
};

struct RNNCellOptions {
  bool bias = true;
  Nonlinearity nonlinearity = Nonlinearity::tanh;  // RNNCell only
};
// x [N, input] or [input]; h alike, with hidden; absent means 0.
class RNNCell : public detail::RNNCellBase {
 public:
  RNNCell(std::int64_t input_size, std::int64_t hidden_size, const RNNCellOptions& o = {})
      : RNNCellBase(detail::RNNKind::rnn, input_size, hidden_size, o.bias) { nonlinearity = o.nonlinearity; }
  Tensor operator()(const Tensor& x, const Tensor& h = {}) const { return step(x, h, {}).h; }
  RNNCell clone() const;

 private:
  RNNCell() : RNNCellBase(detail::RNNKind::rnn) {}
};
class LSTMCell : public detail::RNNCellBase {
 public:
  LSTMCell(std::int64_t input_size, std::int64_t hidden_size, const RNNCellOptions& o = {})
      : RNNCellBase(detail::RNNKind::lstm, input_size, hidden_size, o.bias) {}
  LSTMState operator()(const Tensor& x, const LSTMState& state = {}) const { return step(x, state.h, state.c); }
  LSTMCell clone() const;

 private:
  LSTMCell() : RNNCellBase(detail::RNNKind::lstm) {}
};
class GRUCell : public detail::RNNCellBase {
 public:
  GRUCell(std::int64_t input_size, std::int64_t hidden_size, const RNNCellOptions& o = {})
      : RNNCellBase(detail::RNNKind::gru, input_size, hidden_size, o.bias) {}
  Tensor operator()(const Tensor& x, const Tensor& h = {}) const { return step(x, h, {}).h; }
  GRUCell clone() const;

 private:
  GRUCell() : RNNCellBase(detail::RNNKind::gru) {}
};

// Sequences [t_i, *] of different lengths as one tensor [longest, N, *], or [N, longest, *] with batch_first, padded at
// the end, as torch.nn.utils.rnn.pad_sequence. At least one; trailing sizes and dtypes must match.
Tensor pad_sequence(const std::vector<Tensor>& sequences, bool batch_first = false, double padding_value = 0);

}  // namespace mantissa::nn
