// Layers for sequences, attention and images, and the operators behind them: golden numbers from PyTorch 2 on inputs
// made by a formula, and properties that need no golden numbers.
#include <cmath>

#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "core/random.h"
#include "nn/clone.h"
#include "nn/containers.h"
#include "nn/conv_other.h"
#include "nn/embedding_bag.h"
#include "nn/group_norm.h"
#include "nn/rnn.h"
#include "nn/shape.h"
#include "nn/transformer.h"
#include "tests/catch_compat.h"
#include "tests/formula_inputs.h"

using namespace mantissa;

// A single number applies to all dimensions; several apply to one each.
static_assert(Conv2dOptions{.padding = 1}.padding == PerDim<2>{1, 1});
static_assert(Conv2dOptions{.stride = {2, 1}}.stride == PerDim<2>{2, 1} && Conv2dOptions{}.stride == PerDim<2>{1, 1});
static_assert(Pool3dOptions{.stride = {2}}.stride == PerDim<3>{2, 2, 2});
static_assert(!std::is_aggregate_v<nn::MaxPool2d> && !std::is_aggregate_v<nn::Unfold>);  // ({3, 5}) is a kernel
static_assert(UnfoldOptions{.dilation = 2, .padding = 1}.padding == PerDim<2>{1, 1});
using namespace mantissa::test;

namespace {

template <class M> void check_clone(const M& module) {
  const M copy = module.clone();
  const auto a = nn::state_dict(module), b = nn::state_dict(copy);
  REQUIRE(names_of(copy) == names_of(module));
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(same_bits(a[i].second, b[i].second));
    CHECK_FALSE(a[i].second.storage() == b[i].second.storage());
  }
}

}  // namespace

TEST_CASE("recurrent layers give PyTorch's numbers under PyTorch's names") {
  nn::LSTM lstm = filled(nn::LSTM(2, 2, {.num_layers = 2, .bidirectional = true}));
  const auto [y, h, c] = lstm(ramp({3, 1, 2}));
  check_golden(y,
               {0.042199082941, -0.021567324292, -0.083693007021, -0.159159037417, 0.063998808155, -0.040127368042,
                -0.070660255530, -0.138311508452, 0.058093102781, -0.017722227732, -0.062249674890, -0.095403071179});
  check_golden(c, {-0.186024662225, -0.162744480605, -0.283010175035, 0.209932772516, 0.131893050445, -0.041986955521,
                   -0.165364922942, -0.270430934931});
  CHECK(h.sizes() == Dims{4, 1, 2});
  const Names names = names_of(lstm);
  REQUIRE(names.size() == 16);
  CHECK(names[0] == "weight_ih_l0");
  CHECK(names[7] == "bias_hh_l0_reverse");
  CHECK(names[9] == "weight_hh_l1");

  nn::GRU gru = filled(nn::GRU(2, 2, {.batch_first = true}));
  check_golden(gru(ramp({1, 3, 2})).output,
               {-0.066996661417, -0.224099703497, 0.066710796749, -0.372838548231, -0.159425158413, 0.026692333665});
  nn::RNN rnn = filled(nn::RNN(2, 2, {.nonlinearity = nn::Nonlinearity::relu}));
  check_golden(rnn(ramp({3, 2})).output, {0.316493522454, 0.275683192686, 0, 0.612682898811, 0, 0});
}

TEST_CASE("a sequence in pieces ends where the whole one does, and a cell is one step") {
  MANTISSA_PRINT_SEED();
  manual_seed(seed());
  nn::LSTM lstm(3, 4, {.num_layers = 2});
  nn::to(lstm, f64);
  const Tensor x = random_tensor({6, 2, 3}, 1);
  const nn::LSTMResult whole = lstm(x), first = lstm(x.slice(0, 0, 2)), rest = lstm(x.slice(0, 2), {first.h, first.c});
  CHECK(all_close(cat({first.output, rest.output}), whole.output));
  CHECK(all_close(rest.h, whole.h));
  CHECK(all_close(rest.c, whole.c));

  nn::GRU gru(3, 4);
  nn::GRUCell cell(3, 4);
  nn::to(gru, f64);
  nn::to(cell, f64);
  NamedTensors state;
  for (const auto& [name, t] : nn::state_dict(gru)) state.emplace_back(name.substr(0, name.size() - 3), t);
  nn::load_state_dict(cell, state);
  const Tensor h = random_tensor({2, 4}, 2);
  CHECK(all_close(cell(x[0], h), gru(x.slice(0, 0, 1), h.unsqueeze(0)).output[0]));
}

TEST_CASE("recurrent layers refuse what does not fit") {
  nn::LSTM lstm(3, 4);
  CHECK_THROWS_WITH(lstm(zeros({5, 2, 2})), Catch::Matchers::Contains("LSTM: needs input of size 3"));
  CHECK_THROWS_WITH(lstm(zeros({5})), Catch::Matchers::Contains("LSTM: needs [T, N, input]"));
  CHECK_THROWS_WITH(lstm(zeros({0, 2, 3})), Catch::Matchers::Contains("the sequence is empty"));
  CHECK_THROWS_WITH(lstm(zeros({5, 2, 3}), {zeros({1, 1, 4}), {}}),
                    Catch::Matchers::Contains("the initial h must be [1, 2, 4]"));
  CHECK_THROWS_WITH(nn::GRU(0, 4), Catch::Matchers::Contains("GRU: input_size and hidden_size must be positive"));
  CHECK_THROWS_WITH(nn::RNN(1, 4, {.num_layers = 0}), Catch::Matchers::Contains("num_layers must be at least 1"));
  nn::LSTMCell cell(3, 4);
  CHECK_THROWS_WITH(cell(zeros({2, 2})), Catch::Matchers::Contains("LSTMCell: needs [N, 3] or [3]"));
}

TEST_CASE("options may follow the tensors that are needed, as keyword arguments do") {
  const Tensor x = ramp({1, 2, 5}), w = ramp({3, 2, 3});
  CHECK(equal(conv1d(x, w, {.padding = 1}), conv1d(x, w, {}, {.padding = 1})));
  const Tensor image = ramp({1, 2, 5, 4}), filter = ramp({2, 2, 3, 3}), volume = ramp({1, 2, 3, 3, 3});
  const Tensor cube = ramp({2, 2, 2, 2, 2});
  CHECK(equal(conv2d(image, filter, {.stride = 2}), conv2d(image, filter, {}, {.stride = 2})));
  CHECK(equal(conv3d(volume, cube, {.padding = 1}), conv3d(volume, cube, {}, {.padding = 1})));
  const Tensor v = ramp({2, 3, 3});
  CHECK(equal(conv_transpose1d(x, v, {.stride = 2}), conv_transpose1d(x, v, {}, {.stride = 2})));
  CHECK(equal(conv_transpose2d(image, filter, {.stride = 2}), conv_transpose2d(image, filter, {}, {.stride = 2})));
  CHECK(equal(conv_transpose3d(volume, cube, {.stride = 2}), conv_transpose3d(volume, cube, {}, {.stride = 2})));
  const Tensor q = ramp({1, 3, 2}), y = ramp({3, 2}).sigmoid(), target = zeros({3, 2});
  CHECK(equal(scaled_dot_product_attention(q, q, q, {.is_causal = true}),
              scaled_dot_product_attention(q, q, q, {}, {.is_causal = true})));
  CHECK(binary_cross_entropy(y, target, Reduction::none).sizes() == y.sizes());
  CHECK(equal(binary_cross_entropy_with_logits(y, target, Reduction::sum),
              binary_cross_entropy_with_logits(y, target, {}, Reduction::sum)));
  CHECK(multilabel_soft_margin_loss(y, target, Reduction::none).sizes() == Dims{3});
}

TEST_CASE("attention gives PyTorch's numbers under PyTorch's names") {
  check_golden(scaled_dot_product_attention(ramp({2, 2}), ramp({3, 2}, 4), ramp({3, 2}, 7)),
               {-0.089510981556, -0.280222222062, -0.360826814892, -0.289218301282});
  nn::MultiheadAttention attention = filled(nn::MultiheadAttention(4, 2));
  const auto [y, w] = attention(ramp({2, 1, 4}), ramp({3, 1, 4}, 5), ramp({3, 1, 4}, 9));
  check_golden(y, {-1.060810479216, 0.468564458820, -0.034136960606, 0.234435994211, -0.893237930186, 0.525522019785,
                   -0.276169402406, 0.493884356495});
  check_golden(w, {0.361363389836, 0.464152582541, 0.174484027622, 0.147697484409, 0.423671647862, 0.428630867729});
  CHECK(names_of(attention) == Names{"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"});
}

TEST_CASE("transformer layers give PyTorch's numbers under PyTorch's names") {
  const auto encoder = filled(nn::TransformerEncoderLayer(4, 2, {.dim_feedforward = 3, .dropout = 0}));
  check_golden(encoder(ramp({2, 1, 4}), {.is_causal = true}),
               {-0.404966520180, -0.391570042564, -0.690306004472, -0.422092908231, -0.310820122835, -0.262374580834,
                -1.122059539914, -0.213946138167});
  const auto decoder =
      filled(nn::TransformerDecoderLayer(4, 2, {.dim_feedforward = 3, .dropout = 0, .norm_first = true}));
  check_golden(decoder(ramp({2, 1, 4}), ramp({2, 1, 4}, 3)),
               {-0.372392334172, 1.884417756438, -0.561075943425, 1.036162202387, -1.060567973128, -0.041904684245,
                -1.574543953337, 1.363591948690});
  const nn::TransformerEncoder stack(encoder, 2);
  CHECK(names_of(stack)[0] == "layers.0.self_attn.in_proj_weight");
  CHECK(names_of(stack).back() == "layers.1.norm2.bias");
  CHECK(all_close(stack(ramp({2, 1, 4})), encoder(encoder(ramp({2, 1, 4})))));
}

TEST_CASE("causal attention does not look ahead, and a query without keys gives zeros") {
  MANTISSA_PRINT_SEED();
  const Tensor q = random_tensor({2, 4, 3}, 1), k = random_tensor({2, 4, 3}, 2), v = random_tensor({2, 4, 3}, 3);
  const Tensor whole = scaled_dot_product_attention(q, k, v, {}, {.is_causal = true});
  const Tensor early =
      scaled_dot_product_attention(q.slice(1, 0, 2), k.slice(1, 0, 2), v.slice(1, 0, 2), {}, {.is_causal = true});
  CHECK(all_close(whole.slice(1, 0, 2), early));

  Tensor leaf = v.clone();
  leaf.requires_grad_();
  const Tensor blind = scaled_dot_product_attention(q, k, leaf, zeros({4, 4}, {.dtype = boolean}));
  CHECK(amax(abs(blind)).item<double>() == 0);
  blind.sum().backward();
  CHECK(amax(abs(leaf.grad())).item<double>() == 0);

  nn::MultiheadAttention attention(4, 2);
  const Tensor x = ones({3, 1, 4});
  CHECK_THROWS_WITH(nn::MultiheadAttention(4, 3),
                    Catch::Matchers::Contains("embed_dim 4 does not divide into 3 heads"));
  CHECK_THROWS_WITH(attention(x, x, x, {.attn_mask = zeros({2, 2})}),
                    Catch::Matchers::Contains("attn_mask must be [3, 3] or [2, 3, 3]"));
  CHECK_THROWS_WITH(attention(ones({3, 1, 5}), x, x), Catch::Matchers::Contains("must end in embed_dim 4"));
}

TEST_CASE("rotary embedding turns: lengths stay, and products depend on the distance only") {
  MANTISSA_PRINT_SEED();
  const Tensor x = random_tensor({5, 6}, 1), y = random_tensor({5, 6}, 2);
  for (bool interleaved : {false, true}) {
    const auto turned = [=](const Tensor& t, std::int64_t start) {
      return rotary_embedding(t, start, 10000, interleaved);
    };
    CHECK(all_close(sum(square(turned(x, 3)), {-1}), sum(square(x), {-1}), {1e-12, 1e-13}));
    CHECK(all_close(sum(turned(x, 2) * turned(y, 5), {-1}), sum(turned(x, 10) * turned(y, 13), {-1}), {1e-10, 1e-12}));
    CHECK(same_bits(turned(x.slice(0, 0, 1), 0), x.slice(0, 0, 1)));
  }
}

TEST_CASE("normalisations and image operators give PyTorch's numbers") {
  check_golden(filled(nn::GroupNorm(2, 4))(ramp({1, 4, 2})),
               {-0.272010555445, -0.272010555445, -0.048071988788, -0.843710275500, -0.576259764891, -0.723675066214,
                0.216322996015, 0.322315331010});
  check_golden(rms_norm(ramp({2, 3}), {3}, {}, 1e-6),
               {0, 1.176413447747, 1.271237796944, 0.198766907424, -1.065952968618, -1.350640601207});
  check_golden(filled(nn::ConvTranspose2d(2, 1, 2, {.stride = 2}))(ramp({1, 2, 2, 1})),
               {-0.616089836244, -0.707984243181, -0.399046452208, 0.026687556392, -0.325410542563, 0.014364453007,
                0.090847586494, -0.166279382312});
  check_golden(interpolate(ramp({1, 1, 3, 2}), {.scale_factor = {1.5}, .mode = "bicubic"}),
               {-0.164105454475, 0.411666636064, 0.987438726603, 0.612271009340, 0.602635114526, 0.592999219712,
                0.820872363008, 0.335781114638, -0.149310133732, -0.474876752756, -0.657553154573, -0.840229556389});
  check_golden(interpolate(ramp({1, 1, 2, 2}), {.size = {3, 3}, .mode = "bilinear", .align_corners = true}),
               {0, 0.420735492404, 0.841470984808, 0.454648713413, 0.472972104923, 0.491295496434, 0.909297426826,
                0.525208717443, 0.141120008060});
  check_golden(filled(nn::EmbeddingBag(4, 2))(tensor({1, 3, 0, 2}), tensor({0, 1, 1})),
               {0.454648713413, 0.070560004030, 0, 0, -0.172702998918, 0.089922218144});
}

TEST_CASE("operators that undo each other do") {
  MANTISSA_PRINT_SEED();
  const Tensor x = random_tensor({2, 8, 4, 6}, 1);
  CHECK(same_bits(pixel_unshuffle(pixel_shuffle(x, 2), 2), x));
  CHECK(same_bits(flip(flip(x, {1, 3}), {1, 3}), x));
  CHECK(same_bits(roll(roll(x, {3, -9}, {0, 2}), {-3, 9}, {0, 2}), x));
  CHECK(same_bits(pad(pad(x, {1, 2, 3, 0}, "reflect"), {-1, -2, -3, 0}), x));
  CHECK(same_bits(stack(unbind(x, 2), 2), x));
  CHECK(same_bits(cat(chunk(x, 3, 3), 3), x));
  // Every pixel is in 9 windows, except at the border.
  const Tensor counted = fold(unfold(ones_like(x), {3, 3}, {.padding = {1, 1}}), {4, 6}, {3, 3}, {.padding = {1, 1}});
  CHECK(counted[{0, 0, 1, 1}].item<double>() == 9);
  CHECK(counted[{1, 7, 0, 0}].item<double>() == 4);
  // <conv(x), y> = <x, conv_transpose(y)>.
  const Tensor w = random_tensor({4, 8, 3, 3}, 2), y = random_tensor({2, 4, 2, 3}, 3);
  const Tensor there = conv2d(x, w, {}, {.stride = {2, 2}, .padding = {1, 1}});
  const Tensor back = conv_transpose2d(y, w, {}, {.stride = {2, 2}, .padding = {1, 1}, .output_padding = {1, 1}});
  CHECK(all_close(sum(there * y), sum(x * back), {1e-10, 1e-10}));
}

TEST_CASE("sorting and searching agree") {
  MANTISSA_PRINT_SEED();
  const Tensor x = random_tensor({4, 50}, 1);
  const auto [values, order] = sort(x);
  CHECK(same_bits(gather(x, 1, order), values));
  CHECK(amin(values.slice(1, 1) - values.slice(1, 0, -1)).item<double>() >= 0);
  const auto [largest, at] = topk(x, 7);
  CHECK(same_bits(largest, flip(values, {1}).slice(1, 0, 7)));
  CHECK(same_bits(searchsorted(values, values), expand(arange(50), {4, 50}).contiguous()));
  const Tensor classes = randint(0, 5, {30});
  CHECK(same_bits(sum(one_hot(classes, 5), {0}), bincount(classes, {}, 5)));
  Tensor special = tensor({2.0, NAN, -INFINITY, 1.0});
  CHECK(argsort(special).to_vector<int>() == std::vector<int>{2, 3, 0, 1});
  CHECK(argsort(special, 0, true).to_vector<int>() == std::vector<int>{1, 0, 3, 2});
}

TEST_CASE("instance norm keeps running statistics and uses them after eval") {
  MANTISSA_PRINT_SEED();
  nn::InstanceNorm2d norm(3, {.momentum = 1, .track_running_stats = true});
  const Tensor x = cast(random_tensor({4, 3, 5, 5}, 1), f32);
  const Tensor y = norm(x);
  CHECK(all_close(norm.running_mean, mean(x, {0, 2, 3}), {1e-5, 1e-6}));
  CHECK(all_close(norm.running_var, mean(var(x, {2, 3}), {0}), {1e-5, 1e-6}));
  CHECK(all_close(mean(y, {2, 3}), zeros({4, 3}), {0, 1e-6}));
  nn::eval(norm);
  CHECK(all_close(norm(x), batch_norm(x, {}, {}, norm.running_mean, norm.running_var, false)));
}

TEST_CASE("module_list: modules that can only be moved, in a list") {
  const nn::ModuleList<nn::Linear> list = nn::module_list(nn::Linear(2, 3), nn::Linear(3, 4, {.bias = false}));
  REQUIRE(list.size() == 2);
  CHECK(nn::named_parameters(list)[2].first == "1.weight");
  CHECK(list[1](list[0](ones({5, 2}))).sizes() == Dims{5, 4});
}

TEST_CASE("containers name their modules and copies are independent") {
  nn::ModuleDict<nn::Linear> heads;
  heads.insert("digits", nn::Linear(2, 3));
  heads.insert("letters", nn::Linear(2, 4, {.bias = false}));
  CHECK(names_of(heads) == Names{"digits.weight", "digits.bias", "letters.weight"});
  CHECK(heads["letters"](ones({1, 2})).sizes() == Dims{1, 4});
  CHECK_THROWS_WITH(heads["words"], Catch::Matchers::Contains("there is no module \"words\""));
  CHECK_THROWS_WITH(heads.insert("digits", nn::Linear(1, 1)), Catch::Matchers::Contains("exists already"));
  CHECK_THROWS_WITH(heads.insert("a.b", nn::Linear(1, 1)), Catch::Matchers::Contains("is no key"));
  check_clone(heads);
  check_clone(nn::LSTM(2, 3, {.num_layers = 2, .bidirectional = true}));
  check_clone(nn::GRUCell(2, 3));
  check_clone(nn::TransformerDecoderLayer(4, 2, {.dim_feedforward = 3}));
  check_clone(nn::TransformerEncoder(nn::TransformerEncoderLayer(4, 2, {.dim_feedforward = 3}), 2));
  check_clone(nn::InstanceNorm1d(3, {.affine = true, .track_running_stats = true}));
  check_clone(nn::ConvTranspose1d(2, 4, 3));
  check_clone(nn::EmbeddingBag(3, 2));
  check_clone(nn::RMSNorm(3));
}

TEST_CASE("fractional pooling: the size, or its share, and random numbers drawn in every call") {
  manual_seed(3);
  const Tensor x = randn({2, 3, 9, 7}), samples = mantissa::rand({2, 3, 2});
  const nn::FractionalMaxPool2d by_size{2, {.output_size = PerDim<2>{6, 4}}},
      by_share{2, {.output_ratio = std::array{0.7, 0.6}}};
  CHECK(test::same_bits(by_size(x, samples), fractional_max_pool2d(x, {2, 2}, {6, 4}, samples)));
  CHECK(test::same_bits(by_share(x, samples), by_size(x, samples)));
  CHECK(by_size(x).sizes() == Dims{2, 3, 6, 4});
  CHECK_FALSE(test::same_bits(by_size(x), by_size(x)));
  const nn::FractionalMaxPool3d volumes{{1, 2, 2}, {.output_ratio = std::array{0.5, 0.7, 0.6}}};
  CHECK(volumes(randn({3, 4, 9, 7})).sizes() == Dims{3, 2, 6, 4});
  CHECK_THAT(test::message_of([] {
               nn::FractionalMaxPool2d{2, {}};
             }),
             Catch::Matchers::Contains("give either output_size or output_ratio"));
  CHECK_THAT(test::message_of([] { nn::FractionalMaxPool2d{2, {.output_ratio = std::array{0.5, 1.5}}}; }),
             Catch::Matchers::Contains("output_ratio 1.5 must lie between 0 and 1"));
}

TEST_CASE("layers of shapes do what their operators do") {
  const Tensor x = ramp({1, 4, 4, 4});
  CHECK(same_bits(nn::ZeroPad2d{{1, 2, 0, 3}}(x), pad(x, {1, 2, 0, 3})));
  CHECK(same_bits(nn::ReflectionPad2d{1}(x), pad(x, {1, 1, 1, 1}, "reflect")));
  CHECK(same_bits(nn::Upsample{{.scale_factor = {2}}}(x), interpolate(x, {.scale_factor = {2}})));
  CHECK(same_bits(nn::PixelShuffle{2}(x), pixel_shuffle(x, 2)));
  CHECK(nn::Unflatten{1, {2, -1}}(x).sizes() == Dims{1, 2, 2, 4, 4});
  CHECK(same_bits(nn::MaxPool1d{2}(x[0]), max_pool1d(x[0], 2)));
  CHECK(same_bits(nn::Fold{4, 2, {.stride = {2, 2}}}(nn::Unfold{2, {.stride = {2, 2}}}(x)), x));
}
