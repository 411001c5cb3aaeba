// A recurrent layer over a whole sequence as one operator, for nn::RNN, nn::LSTM and nn::GRU (nn/rnn.h).
#pragma once

#include "core/recurrence.h"

namespace mantissa {

struct RecurrentResult {
  Tensor output;  // [T, N, H]: h at every step
  Tensor h, c;    // [N, H]: at the last step; c for the LSTM only
};

// x [T, N, I] with T >= 1; weight_ih [G * H, I], weight_hh [G * H, H], G gates in PyTorch's order (core/recurrence.h);
// bias_ih and bias_hh [G * H], or both undefined; h0 [N, H], c0 [N, H] for the LSTM. reverse: from the last step to the
// first. All floating, of one dtype, under autocast the lower one. State and sums are kept in f32 (f64 for f64).
RecurrentResult recurrent_layer(Cell cell, const Tensor& x, const Tensor& weight_ih, const Tensor& bias_ih,
                                const Tensor& weight_hh, const Tensor& bias_hh, const Tensor& h0, const Tensor& c0,
                                bool reverse = false);

}  // namespace mantissa
