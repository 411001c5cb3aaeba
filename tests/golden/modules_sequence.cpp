// Golden cases of recurrent and attention modules. tests/golden/module_case.h explains a line.
// clang-format off
#include "tests/golden/module_case.h"
#include "tests/golden/modules.h"

namespace mantissa::test {
namespace {

constexpr ModuleCase cases[] = {
  MODULE("RNN", "randn(4, 2, 3)", "nn.RNN(3, 5)", "m(x)", (nn::RNN(3, 5)), m(x))
  MODULE("RNN.options", "randn(2, 4, 3), randn(4, 2, 5)", "nn.RNN(3, 5, num_layers=2, nonlinearity='relu', bias=False, batch_first=True, bidirectional=True)", "m(x, y)", (nn::RNN(3, 5, {.num_layers = 2, .nonlinearity = nn::Nonlinearity::relu, .bias = false, .batch_first = true, .bidirectional = true})), m(x, y))
  MODULE("RNN.unbatched", "randn(4, 3), randn(1, 5)", "nn.RNN(3, 5)", "m(x, y)", (nn::RNN(3, 5)), m(x, y))
  MODULE("LSTM", "randn(4, 2, 3)", "nn.LSTM(3, 5)", "m(x)", (nn::LSTM(3, 5)), m(x))
  MODULE("LSTM.state", "randn(4, 2, 3), randn(1, 2, 5), randn(1, 2, 5)", "nn.LSTM(3, 5)", "m(x, (y, z))", (nn::LSTM(3, 5)), m(x, {y, z}))
  MODULE("LSTM.options", "randn(2, 4, 3), randn(4, 2, 5), randn(4, 2, 5)", "nn.LSTM(3, 5, num_layers=2, batch_first=True, bidirectional=True)", "m(x, (y, z))", (nn::LSTM(3, 5, {.num_layers = 2, .batch_first = true, .bidirectional = true})), m(x, {y, z}))
  MODULE("LSTM.unbatched", "randn(4, 3)", "nn.LSTM(3, 5, num_layers=2, bias=False)", "m(x)", (nn::LSTM(3, 5, {.num_layers = 2, .bias = false})), m(x))
  MODULE("GRU", "randn(4, 2, 3), randn(1, 2, 5)", "nn.GRU(3, 5)", "m(x, y)", (nn::GRU(3, 5)), m(x, y))
  MODULE("GRU.options", "randn(2, 4, 3)", "nn.GRU(3, 5, num_layers=2, batch_first=True, bidirectional=True, dropout=0.5)", "m.eval()(x)", (nn::GRU(3, 5, {.num_layers = 2, .batch_first = true, .dropout = 0.5, .bidirectional = true})), nn::eval(m)(x))
  MODULE("RNNCell", "randn(2, 3), randn(2, 5)", "nn.RNNCell(3, 5)", "m(x, y)", (nn::RNNCell(3, 5)), m(x, y))
  MODULE("RNNCell.relu", "randn(3)", "nn.RNNCell(3, 5, bias=False, nonlinearity='relu')", "m(x)", (nn::RNNCell(3, 5, {.bias = false, .nonlinearity = nn::Nonlinearity::relu})), m(x))
  MODULE("LSTMCell", "randn(2, 3), randn(2, 5), randn(2, 5)", "nn.LSTMCell(3, 5)", "m(x, (y, z))", (nn::LSTMCell(3, 5)), m(x, {y, z}))
  MODULE("GRUCell", "randn(2, 3), randn(2, 5)", "nn.GRUCell(3, 5)", "m(x, y)", (nn::GRUCell(3, 5)), m(x, y))

  MODULE("MultiheadAttention", "randn(3, 2, 8)", "nn.MultiheadAttention(8, 2)", "m(x, x, x)", (nn::MultiheadAttention(8, 2)), m(x, x, x))
  MODULE("MultiheadAttention.cross", "randn(2, 3, 8), randn(2, 4, 6), randn(2, 4, 5)", "nn.MultiheadAttention(8, 4, kdim=6, vdim=5, batch_first=True)", "m(x, y, z, average_attn_weights=False)", (nn::MultiheadAttention(8, 4, {.kdim = 6, .vdim = 5, .batch_first = true})), m(x, y, z, {.average_attn_weights = false}))
  MODULE("MultiheadAttention.masks", "randn(2, 3, 8), of([False, True, True], [True, False, True], [True, True, False]), of([False, False, False], [False, False, True]), randn(3, 3)", "nn.MultiheadAttention(8, 2, bias=False, batch_first=True)", "m(x, x, x, attn_mask=~y & ~y.T), m(x, x, x, key_padding_mask=z, need_weights=False)[0], m(x, x, x, attn_mask=u)", (nn::MultiheadAttention(8, 2, {.bias = false, .batch_first = true})), m(x, x, x, {.attn_mask = logical_and(logical_not(y), logical_not(y.t()))}), m(x, x, x, {.key_padding_mask = z, .need_weights = false}), m(x, x, x, {.attn_mask = u}))
  MODULE("MultiheadAttention.causal", "randn(4, 8)", "nn.MultiheadAttention(8, 2)", "m(x, x, x, attn_mask=nn.Transformer.generate_square_subsequent_mask(4, dtype=torch.float64), is_causal=True, need_weights=False)[0]", (nn::MultiheadAttention(8, 2)), m(x, x, x, {.need_weights = false, .is_causal = true}))
  MODULE("TransformerEncoderLayer", "randn(3, 2, 8)", "nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, dropout=0.)", "m(x)", (nn::TransformerEncoderLayer(8, 2, {.dim_feedforward = 16, .dropout = 0})), m(x))
  MODULE("TransformerEncoderLayer.options", "randn(2, 3, 8), of([False, False, False], [False, False, True])", "nn.TransformerEncoderLayer(8, 4, dim_feedforward=12, activation='gelu', layer_norm_eps=0.01, batch_first=True, norm_first=True, bias=False)", "m.eval()(x, src_mask=torch.ones(3, 3, dtype=torch.bool).triu(1), src_key_padding_mask=y)", (nn::TransformerEncoderLayer(8, 4, {.dim_feedforward = 12, .activation = nn::FeedForward::gelu, .layer_norm_eps = 0.01, .batch_first = true, .norm_first = true, .bias = false})), nn::eval(m)(x, {.src_mask = triu(ones({3, 3}, {.device = x.device()}), 1).to(boolean), .src_key_padding_mask = y}))
  MODULE("TransformerDecoderLayer", "randn(3, 2, 8), randn(4, 2, 8)", "nn.TransformerDecoderLayer(8, 2, dim_feedforward=16, dropout=0.)", "m(x, y)", (nn::TransformerDecoderLayer(8, 2, {.dim_feedforward = 16, .dropout = 0})), m(x, y))
  MODULE("TransformerDecoderLayer.options", "randn(2, 3, 8), randn(2, 4, 8)", "nn.TransformerDecoderLayer(8, 2, dim_feedforward=16, dropout=0., activation='gelu', batch_first=True, norm_first=True)", "m(x, y, tgt_mask=nn.Transformer.generate_square_subsequent_mask(3, dtype=torch.float64), tgt_is_causal=True)", (nn::TransformerDecoderLayer(8, 2, {.dim_feedforward = 16, .dropout = 0, .activation = nn::FeedForward::gelu, .batch_first = true, .norm_first = true})), m(x, y, {.tgt_is_causal = true}))
  MODULE("TransformerEncoder", "randn(3, 2, 8)", "nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.), 2)", "m(x)", (nn::TransformerEncoder(nn::TransformerEncoderLayer(8, 2, {.dim_feedforward = 16, .dropout = 0}), 2)), m(x))
  MODULE("TransformerDecoder", "randn(3, 2, 8), randn(4, 2, 8)", "nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, 0.), 2)", "m(x, y)", (nn::TransformerDecoder(nn::TransformerDecoderLayer(8, 2, {.dim_feedforward = 16, .dropout = 0}), 2)), m(x, y))
  MODULE("MultiheadAttention.extra_keys", "randn(2, 1, 4), randn(3, 1, 3), randn(3, 1, 2), of([False, True, False])", "nn.MultiheadAttention(4, 2, add_bias_kv=True, add_zero_attn=True, kdim=3, vdim=2)", "m(x, y, z, key_padding_mask=u)", (nn::MultiheadAttention(4, 2, {.add_bias_kv = true, .add_zero_attn = true, .kdim = 3, .vdim = 2})), m(x, y, z, {.key_padding_mask = u}))
  MODULE("LSTM.projection", "randn(3, 2, 2)", "nn.LSTM(2, 3, num_layers=2, proj_size=2, bidirectional=True)", "m(x)", (nn::LSTM(2, 3, {.num_layers = 2, .bidirectional = true, .proj_size = 2})), m(x))
  MODULE("TransformerEncoder.norm", "randn(3, 1, 4)", "nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 3, 0, norm_first=True), 2, nn.LayerNorm(4))", "m(x, mask=nn.Transformer.generate_square_subsequent_mask(3, dtype=x.dtype))", (nn::TransformerEncoder(nn::TransformerEncoderLayer(4, 2, {.dim_feedforward = 3, .dropout = 0, .norm_first = true}), 2, nn::LayerNorm(4))), m(x, {.src_mask = nn::Transformer::generate_square_subsequent_mask(3, {.dtype = x.dtype(), .device = x.device()})}))
  MODULE("TransformerDecoder.norm", "randn(3, 1, 4), randn(2, 1, 4)", "nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 3, 0), 1, nn.LayerNorm(4))", "m(x, y)", (nn::TransformerDecoder(nn::TransformerDecoderLayer(4, 2, {.dim_feedforward = 3, .dropout = 0}), 1, nn::LayerNorm(4))), m(x, y))
  MODULE("Transformer", "randn(3, 1, 4), randn(2, 1, 4)", "nn.Transformer(4, 2, 1, 1, 3, 0)", "m(x, y)", (nn::Transformer(4, 2, {1, 1}, {.dim_feedforward = 3, .dropout = 0})), m(x, y))
  MODULE("MultiheadAttention.extra_rows", "randn(3, 2, 8)", "nn.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True)", "m(x, x, x)", (nn::MultiheadAttention(8, 2, {.add_bias_kv = true, .add_zero_attn = true})), m(x, x, x))
};

}  // namespace

std::span<const ModuleCase> sequence_cases() { return cases; }

}  // namespace mantissa::test
