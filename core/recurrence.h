// One step of each recurrent layer, as formulas over T (SIMD vectors in core/cpu/recurrence.cpp, scalars in
// cuda/recurrence.cu), and the kernels that run it over a whole sequence. Gates are in PyTorch's order.
//
// A cell has `gates` gates. Inputs: gate[k] = W_ih x + b_ih and p[k] = W_hh h + b_hh; for k < `apart`, where only their
// sum matters, gate[k] includes both biases. forward leaves the activated gates in gate[] and returns the new h. `kept`
// is what else backward needs: the LSTM's new c, the GRU's p[2]. backward takes the activated gates and dh, the whole
// gradient of the new h. It leaves the gradients of W_ih x + b_ih in gate[] and of W_hh h + b_hh in p[], replaces dc
// (of the new c) by that of the previous c, and returns the part of the previous h's gradient that does not pass
// through the product W_hh h.
#pragma once

#include "core/kernel.h"
#include "core/pointwise.h"

namespace mantissa {

enum class Cell : std::uint8_t { rnn_tanh, rnn_relu, lstm, gru };
constexpr std::int64_t gates_of(Cell cell) { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }

namespace recurrent {

using pointwise::Relu, pointwise::Sigmoid, pointwise::Tanh;

// The activation of a gate or cell; core/cpu/squash.h has faster ones for vectors.
template <class Activation, class T>
MANTISSA_HD T squash(const T& x) {
  return Activation{}.f(x);
}

template <class Activation>
struct Simple {  // h = activation(W_ih x + W_hh h + b)
  static constexpr int gates = 1, apart = 1;
  template <class T>
  MANTISSA_HD T forward(T (&gate)[1], const T (&p)[1], const T&, const T&, T& kept) const {
    gate[0] = kept = squash<Activation>(gate[0] + p[0]);
    return gate[0];
  }
  template <class T>
  MANTISSA_HD T backward(T (&gate)[1], T (&p)[1], const T& dh, T&, const T&, const T&, const T&) const {
    gate[0] = p[0] = Activation{}.df(dh, gate[0]);
    return T(0);
  }
};

// Hochreiter and Schmidhuber (1997), with the forget gate of Gers et al. (2000): input, forget, cell, output.
struct Lstm {
  static constexpr int gates = 4, apart = 4;
  template <class T>
  MANTISSA_HD T forward(T (&gate)[4], const T (&p)[4], const T&, const T& c_before, T& kept) const {
    for (int k = 0; k < 4; ++k) gate[k] = k == 2 ? squash<Tanh>(gate[k] + p[k]) : squash<Sigmoid>(gate[k] + p[k]);
    kept = gate[1] * c_before + gate[0] * gate[2];
    return gate[3] * squash<Tanh>(kept);
  }
  template <class T>
  MANTISSA_HD T backward(T (&gate)[4], T (&p)[4], const T& dh, T& dc, const T& kept, const T&,
                         const T& c_before) const {
    const T squashed = squash<Tanh>(kept), d_cell = dc + Tanh{}.df(dh * gate[3], squashed);
    p[0] = Sigmoid{}.df(d_cell * gate[2], gate[0]);
    p[1] = Sigmoid{}.df(d_cell * c_before, gate[1]);
    p[2] = Tanh{}.df(d_cell * gate[0], gate[2]);
    p[3] = Sigmoid{}.df(dh * squashed, gate[3]);
    dc = d_cell * gate[1];
    for (int k = 0; k < 4; ++k) gate[k] = p[k];
    return T(0);
  }
};

struct Gru {  // Cho et al. (2014), as cuDNN and PyTorch compute it: reset, update, new
  static constexpr int gates = 3, apart = 2;
  template <class T>
  MANTISSA_HD T forward(T (&gate)[3], const T (&p)[3], const T& h_before, const T&, T& kept) const {
    gate[0] = squash<Sigmoid>(gate[0] + p[0]);
    gate[1] = squash<Sigmoid>(gate[1] + p[1]);
    gate[2] = squash<Tanh>(gate[2] + gate[0] * p[2]);
    kept = p[2];
    return gate[2] + gate[1] * (h_before - gate[2]);
  }
  template <class T>
  MANTISSA_HD T backward(T (&gate)[3], T (&p)[3], const T& dh, T&, const T& kept, const T& h_before, const T&) const {
    const T past = dh * gate[1];
    const T fresh = Tanh{}.df(dh - past, gate[2]), reset = Sigmoid{}.df(fresh * kept, gate[0]);
    p[2] = fresh * gate[0];
    gate[1] = p[1] = Sigmoid{}.df(dh * (h_before - gate[2]), gate[1]);
    gate[0] = p[0] = reset;
    gate[2] = fresh;
    return past;
  }
};

// Calls f with the struct of `cell`.
template <class F>
void visit_cell(Cell cell, F&& f) {
  switch (cell) {
    case Cell::rnn_tanh:
      return f(Simple<Tanh>{});
    case Cell::rnn_relu:
      return f(Simple<Relu>{});
    case Cell::lstm:
      return f(Lstm{});
    default:
      return f(Gru{});
  }
}

}  // namespace recurrent

// T steps, N samples, H hidden units, G gates; all contiguous except weight_hh, and in one floating dtype except
// `gates` and `kept`, which are in the compute dtype: f32, or f64 for f64.
// gates [T, N, G * H]: W_ih x on entry, activated gates on return. y [T, N, H], for the LSTM [T + 1, N, H] with the
// last c at the end. kept [T, N, H]; on the CPU its stride between steps may be 0 if no backward follows: then gates
// are left as they were. h0, c0 [N, H], c0 for the LSTM only. weight_hh [G * H, H], both biases [G * H] or absent.
// reverse: from the last step to the first.
// State and sums are in the compute dtype, and y is rounded once: in f16 or bf16 products the state enters as the sum
// of two 16-bit values. The CPU supports f64, f32, and bf16 if there are instructions for bf16 products
// (multiplies_as_it_is in ops/recurrence.cpp); otherwise callers convert to f32.
MANTISSA_KERNEL(recurrence, const View& y, const View& gates, const View& kept, const View& h0, const View& c0,
                const View& weight_hh, const View& bias_ih, const View& bias_hh, Cell cell, bool reverse)
// g is the gradient of y. d_x, d_h [T, N, G * H]: the gradients of W_ih x + b_ih and of W_hh h + b_hh, which differ
// only for a GRU: for other cells d_h is absent. d_h0, d_c0 [N, H], d_c0 for the LSTM only. Products use d_h after
// rounding.
MANTISSA_KERNEL(recurrence_backward, const View& d_x, const View& d_h, const View& d_h0, const View& d_c0,
                const View& g, const View& y, const View& gates, const View& kept, const View& h0, const View& c0,
                const View& weight_hh, Cell cell, bool reverse)

}  // namespace mantissa
