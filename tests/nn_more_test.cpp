// Layers, losses and functions beyond those of nn_layers_test.cpp and nn_sequence_test.cpp: numbers from PyTorch 2 on
// inputs made by a formula, parameter names, and errors.
#include <cmath>

#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "nn/activation.h"
#include "nn/adaptive_softmax.h"
#include "nn/conv_other.h"
#include "nn/dropout.h"
#include "nn/embedding.h"
#include "nn/embedding_bag.h"
#include "nn/group_norm.h"
#include "nn/functions.h"
#include "nn/loss.h"
#include "nn/norm.h"
#include "nn/shape.h"
#include "nn/stochastic_depth.h"
#include "tests/catch_compat.h"
#include "tests/formula_inputs.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

#define CHECK_REFUSED(expression, text) CHECK_THROWS_WITH(expression, Catch::Matchers::Contains(text))

TEST_CASE("convolution of volumes, and padding by name") {
  check_golden(filled(nn::Conv3d(2, 2, {2, 1, 2}, {.stride = {1, 2, 1}, .padding = {1, 0, 1}, .groups = 2}))(
                   ramp({1, 2, 2, 3, 2})),
               {-0.272010555445, -0.212636359366, 0.110563145172, -0.325410542563, -0.683751536929, -0.707984243181,
                -0.291726114124, 0.001347233982, 0.026687556392, -0.628810357737, -0.993361843463, -0.726654816278,
                -0.389570572665, 0.00440702467, -0.272010555445, -0.500899545413, -0.692741927397, -0.272010555445,
                -0.676255711456, -0.287009652465, -0.558695694236, -0.594569413663, -0.775585413049, -0.365680423695,
                -0.489422983645, -0.34425703021, -0.679925841837, -0.364863959515, -0.206839568819, -0.017977544947,
                -0.139925152829, -0.287681039407, -0.556708826407, -0.495751235605, -0.090915113157, -0.179784246545});
  const auto up = filled(nn::ConvTranspose3d(2, 1, 2, {.stride = 2, .padding = {0, 1, 0}}));
  check_golden(up(ramp({1, 2, 1, 2, 2}), {.output_size = {2, 3, 5}}),
               {-0.066152288334, 0.106386986356, 0.371400669753, 0.266821082378, -0.272010555445, -0.410231569133,
                0.052986999237, 0.052986999237, -0.077258198422, -0.272010555445, 0.217404314636, -0.068144144465,
                -0.386557814981, -0.590543209384, -0.272010555445, -0.646857614775, -0.518080285494, -0.864529292683,
                -0.307381373052, -0.272010555445, -0.541126441642, -0.766684834141, -0.501671150744, -0.20165019992,
                -0.272010555445, -0.537441976114, -0.064162694023, 0.033681764518, -0.012038380245, -0.272010555445});
  check_golden(filled(nn::Conv1d(1, 1, 4, {.padding = "same", .padding_mode = "reflect"}))(ramp({1, 1, 6})),
               {0.174723175274, 0.505394487245, 0.121323188155, -0.62437734085, -1.079797900815, -1.009585884785});
  check_golden(filled(nn::Conv2d(1, 1, {2, 3}, {.padding = "same", .dilation = {2, 1}}))(ramp({1, 1, 3, 4})),
               {0.474132335277, 0.171416751345, -0.548941281817, -0.540330662771, -0.461406459494, 0.670137556361,
                0.889117966107, 0.127375050658, -1.026397913697, -0.802499929087, -0.090872460828, 0.00440702467});
  CHECK(nn::Conv3d(4, 8, 3).weight.sizes() == Dims{8, 4, 3, 3, 3});
  CHECK(same_bits(nn::clone(up).weight, up.weight));
  CHECK_REFUSED(nn::Conv2d(3, 8, 3, {.stride = 2, .padding = "same"}), "padding \"same\" needs stride 1");
  CHECK_REFUSED(nn::Conv2d(3, 8, 3, {.padding = "half"}), "padding must be numbers, \"same\" or \"valid\"");
  CHECK_REFUSED(nn::Conv2d(3, 8, 3, {.padding_mode = "mirror"}), "padding_mode must be zeros");
  CHECK_REFUSED(nn::Conv3d(3, 8, 3, {.groups = 2}), "Conv3d: groups 2 must divide the channels, 3 in and 8 out");
  CHECK_REFUSED(up(ramp({1, 2, 1, 2, 2}), {.output_size = {2, 3, 7}}), "must lie between 4 and 5 in dimension 4");
}

TEST_CASE("pooling of volumes, with indices, and back") {
  const Tensor x = ramp({1, 1, 3, 4, 4});
  const auto most = nn::MaxPool3d(2, {.stride = {{1, 2, 1}}, .padding = 1, .dilation = {1, 2, 1}}).with_indices(x);
  check_golden(most.values,
               {-0.756802495308, -0.756802495308, -0.279415498199, 0.656986598719, 0.656986598719, -0.536572918,
                0.420167036827, 0.990607355695, 0.990607355695, 0.656986598719, 0.912945250728, 0.912945250728,
                0.836655638536, 0.656986598719, 0.656986598719, 0.912945250728, 0.912945250728, 0.990607355695,
                0.990607355695, 0.656986598719, 0.912945250728, 0.912945250728, 0.836655638536, 0.963795386284,
                0.963795386284, 0.912945250728, 0.912945250728, 0.901788347649, 0.963795386284, 0.963795386284,
                -0.991778853443, -0.643538133357, 0.296368578709, 0.963795386284, 0.963795386284, 0.017701925105,
                0.850903524534, 0.901788347649, 0.963795386284, 0.963795386284});
  check_golden(most.indices,
               {4, 4, 6, 7, 7, 12, 13, 14, 14, 7, 20, 20, 21, 7, 7, 20, 20, 14, 14, 7, 20, 20, 21, 39, 39, 20, 20,
                46, 39, 39, 36, 37, 38, 39, 39, 44, 45, 46, 39, 39});
  check_golden(
      nn::AvgPool3d(2, {.stride = {{1, 2, 2}}, .padding = {1, 0, 1}, .ceil_mode = true, .count_include_pad = false})(x),
      {-0.378401247654, 0.128107159693, 0.399053303389, 0.226392664311, 0.319717941718, -0.174851183197,
       -0.032940140311, -0.046518971329, 0.025440853067, -0.045471811269, 0.032176619869, 0.050658979172,
       0.046172440465, 0.037155572772, -0.040182619431, 0.032035627972, -0.042988894058, -0.0389658342,
       -0.220176086101, 0.295456247895, 0.267806358394, 0.381407542792, 0.169386913866, -0.354100809942});
  check_golden(nn::AvgPool2d(2, {.stride = 1, .divisor_override = 3})(ramp({1, 1, 3, 3})),
               {0.07526283252, 0.011680547221, -0.079370462243, -0.02312730821});
  const auto wide = nn::AdaptiveMaxPool2d{{2, 3}}.with_indices(ramp({1, 1, 3, 5}));
  check_golden(wide.values,
               {0.841470984808, 0.989358246623, 0.989358246623, -0.279415498199, 0.989358246623, 0.990607355695});
  check_golden(wide.indices, {1, 8, 8, 6, 8, 14});
  check_golden(nn::AdaptiveAvgPool3d{{2, 1, 3}}(x),
               {-0.03247144136, -0.00717117573, 0.024722235794, 0.027547460536, -0.002916660643, -0.030699217477});
  check_golden(nn::LPPool2d{2, 2, 1}(ramp({1, 1, 3, 4})),
               {1.483360778677, 1.591384307412, 1.164663504467, 1.625102202165, 1.209714594499, 1.343742458145});
  const auto pooled = nn::MaxPool2d(2).with_indices(ramp({1, 1, 5, 4}));
  check_golden(nn::MaxUnpool2d(2)(pooled.values, pooled.indices, {5, 4}),
               {0, 0.841470984808, 0.909297426826, 0, 0, 0, 0, 0, 0.989358246623, 0, 0, 0, 0, 0, 0.990607355695, 0,
                0, 0, 0, 0});
}

TEST_CASE("the adaptive softmax, and bilinear layers") {
  const auto adaptive = filled(nn::AdaptiveLogSoftmaxWithLoss(4, 6, {2, 4}, {.div_value = 2}));
  const auto [chosen, loss] = adaptive(ramp({3, 4}), tensor({1, 5, 2}));
  check_golden(chosen, {-2.210053283603, -2.398527137356, -0.806568711277});
  check_golden(loss, {1.805049710745});
  check_golden(adaptive.log_prob(ramp({1, 4})),
               {-0.948515844323, -2.210053283603, -2.68499847158, -2.455308066821, -1.71243392219, -1.780786281888});
  CHECK(names_of(adaptive) == Names
               {"head.weight", "tail.0.0.weight", "tail.0.1.weight", "tail.1.0.weight", "tail.1.1.weight"});
  CHECK_REFUSED(adaptive(ramp({3, 4}), tensor({1, 6, 2})), "holds classes outside [0, 6)");
  CHECK_REFUSED(nn::AdaptiveLogSoftmaxWithLoss(4, 6, {3, 2}), "cutoffs must rise");
  check_golden(filled(nn::Bilinear(2, 3, 2))(ramp({2, 2}), ramp({2, 3}, 5)),
               {-0.505039726489, -0.878725480901, -0.314595385754, -0.695950733876});
}

TEST_CASE("embeddings with padding, limits and bags") {
  const Tensor indices = tensor({1, 2, 0, 3, 3, 2}), offsets = tensor({0, 2, 2});
  struct Case { nn::BagMode mode; std::vector<double> y, gradient; };
  for (const Case& c :
       {Case{nn::BagMode::sum,
             {0.454648713413, 0.07056000403, 0, 0, -0.279415498199, 1.077722091123},
             {-0.756802495308, -0.958924274663, 0, 0.841470984808, 0, 0, -1.513604990616, -1.917848549326}},
        Case{nn::BagMode::mean,
             {0.454648713413, 0.07056000403, 0, 0, -0.0931384994, 0.359240697041},
             {-0.252267498436, -0.319641424888, 0, 0.841470984808, 0, 0, -0.504534996872, -0.639282849775}},
        Case{nn::BagMode::max,
             {0.454648713413, 0.07056000403, 0, 0, 0, 0.420735492404},
             {-0.756802495308, -0.958924274663, 0, 0.841470984808, 0, 0, 0, 0}}}) {
    const auto bag = filled(nn::EmbeddingBag(4, 2, {.mode = c.mode, .padding_idx = 2}));
    const Tensor y = bag(indices, offsets);
    check_golden(y, c.y);
    sum(y * ramp({3, 2})).backward();
    check_golden(bag.weight.grad(), c.gradient);
  }
  const auto last = filled(nn::EmbeddingBag(4, 2, {.mode = nn::BagMode::sum, .include_last_offset = true}));
  check_golden(last(indices, tensor({0, 2, 6}), ramp({6})),
               {-0.318413670516, -0.403453476878, 0.448873756392, 0.640094011292});
  for (const nn::BagMode mode : {nn::BagMode::sum, nn::BagMode::mean}) {  // without a gradient as with one
    for (const std::int64_t columns : {1, 16, 70, 150}) {
      for (const Dtype dtype : {f32, f64, bf16}) {
        nn::EmbeddingBag many(40, columns, {.mode = mode});
        nn::to(many, dtype);
        const Tensor named = remainder(arange(60) * 7 + 3, Tensor(40)), starts = tensor({0, 1, 1, 30, 55});
        for (const auto& call : {std::function([&] { return many(named, starts); }),
                                 std::function([&] { return many(reshape(named, {12, 5})); })}) {
          const Tensor recorded = call().detach();
          const NoGrad no_grad;
          INFO(concat(columns, " columns of ", dtype));
          CHECK(allclose(cast(call(), f64), cast(recorded, f64), dtype == bf16 ? 1.6e-2 : 0, dtype == bf16 ? 1e-2 : 0));
        }
        const NoGrad no_grad;
        CHECK_REFUSED(many(tensor({{1, 40}})), "index 40 is out of range for a dimension of size 40");
      }
    }
  }
  const auto rows = filled(nn::Embedding(4, 2, {.padding_idx = 1, .max_norm = 0.3, .scale_grad_by_freq = true}));
  const Tensor y = rows(tensor({{0, 1}, {3, 3}}));
  check_golden(y,
               {0, 0.299999928696, 0.296451013192, 0.04600823464, -0.117411984365, 0.276069512085, -0.117411984365,
                0.276069512085});
  sum(y * ramp({2, 2, 2})).backward();
  check_golden(rows.weight.grad(), {0, 0.841470984808, 0, 0, 0, 0, -0.518108996753, -0.150968837972});
  check_golden(rows.weight,
               {0, 0.299999928696, 0.296451013192, 0.04600823464, -0.378401247654, -0.479462137332, -0.117411984365,
                0.276069512085});
  CHECK(sum(abs(nn::Embedding(5, 3, {.padding_idx = -1}).weight.slice(0, 4))).item() == 0);
  CHECK_FALSE(nn::Embedding::from_pretrained(ramp({3, 2})).weight.requires_grad());
  CHECK_REFUSED(nn::Embedding(4, 2, {.padding_idx = 4}), "padding_idx 4 is out of range for 4 rows");
  for (const nn::BagMode mode : {nn::BagMode::mean, nn::BagMode::max})
    CHECK_REFUSED(nn::EmbeddingBag(4, 2, {.mode = mode})(indices, tensor({0, 7})),
                  "not exceed the number of indices, where the last bag ends, 6; bag 1 is from 7 to 6");
}

TEST_CASE("margin losses and a distance of one's own") {
  const Tensor x = ramp({3, 4});
  check_golden(nn::SoftMarginLoss{}(x, sign(ramp({3, 4}, 1))), {0.51108592302});
  check_golden(multi_margin_loss(x, tensor({1, 0, 3}), {.p = 2, .margin = 0.5}, ramp({4}, 0.5) + 2.0),
               {2.532757505709});
  check_golden(nn::MultiMarginLoss{{.reduction = Reduction::none}}(x, tensor({1, 0, 3})),
               {0.381501120115, 1.172263577945, 1.714356560157});
  check_golden(multilabel_margin_loss(x, tensor({{3, 0, -1, 1}, {1, -1, 0, 2}, {-1, 0, 0, 0}}), Reduction::none),
               {1.804824201787, 1.3743853573, 0});
  check_golden(multilabel_soft_margin_loss(x, cast(ramp({3, 4}, 2) > 0.0, f64), {}, Reduction::none),
               {0.766385244939, 0.732085117154, 0.999179945633});
  const auto city_block = [](const Tensor& a, const Tensor& b) { return sum(abs(a - b), {1}); };
  const nn::TripletMarginWithDistanceLoss triplet{city_block,
                                                  {.margin = 2, .swap = true, .reduction = Reduction::none}};
  check_golden(triplet(x, ramp({3, 4}, 1), ramp({3, 4}, 2.5)), {1.902405558278, 0.552934681927, 0.55549477896});
}

TEST_CASE("interpolation by areas, exact neighbours and with a filter") {
  const Tensor image = ramp({1, 1, 7, 6});
  check_golden(interpolate(image, {.size = {3, 4}, .mode = "bilinear", .antialias = true}),
               {0.10534168004, 0.79865710125, 0.121942728305, -0.822583238544, -0.39782914077, 0.625984647918,
                0.54239069441, -0.512454920279, -0.7690715255, 0.245722636289, 0.782970599769, -0.032385868001});
  check_golden(interpolate(image, {.size = {3, 8}, .mode = "bicubic", .antialias = true}),
               {-0.25187536918, 0.348404332678, 0.891461643718, 0.93416471869, 0.438886134837, -0.275441165932,
                -0.812137095216, -1.009423526185, -0.785795332649, -0.236219875275, 0.475590734138, 0.934265032087,
                0.8750935662, 0.336179598577, -0.374871009706, -0.876300426935, -1.016466258229, -0.72968364115,
                -0.123817066746, 0.573819844204, 0.973590564597, 0.818064112958, 0.207062864351, -0.405001150851});
  check_golden(interpolate(image, {.size = {3, 4}, .mode = "area"}),
               {0.183772700692, 0.80131460825, -0.064200098234, -0.751506482659, -0.292574338398, 0.517300592216,
                0.402911761575, -0.416183436319, -0.677552728053, 0.071737696942, 0.744197468284, 0.049110402066});
  check_golden(interpolate(ramp({1, 1, 2, 3, 2}), {.size = {3, 2, 4}, .mode = "trilinear", .align_corners = true}),
               {0, 0.280490328269, 0.560980656539, 0.841470984808, -0.756802495308, -0.82417642176, -0.891550348211,
                -0.958924274663, -0.139707749099, 0.156604431188, 0.452916611476, 0.749228791763, -0.650411803099,
                -0.760093615601, -0.869775428104, -0.979457240607, -0.279415498199, 0.032718534107, 0.344852566413,
                0.656986598719, -0.544021110889, -0.696010809443, -0.848000507997, -0.999990206551});
  // 18.5 / 3.7 is 5, and less in f64: PyTorch rounds it to f32.
  const Tensor line = arange(0, 8, 1, {.dtype = f64}).reshape({1, 1, 8});
  CHECK(interpolate(line, {.scale_factor = {3.7}, .mode = "nearest-exact"}).select(2, 18).item() == 5);
  check_golden(interpolate(ramp({1, 1, 5}), {.size = {7}, .mode = "nearest-exact"}),
               {0, 0.841470984808, 0.841470984808, 0.909297426826, 0.14112000806, 0.14112000806, -0.756802495308});
}

TEST_CASE("pictures read at points, and unit vectors") {
  const Tensor image = ramp({1, 2, 4, 5}),
               theta = tensor({{0.9, 0.3, 0.4}, {-0.2, 1.1, -0.3}}, {.dtype = f64}).unsqueeze(0);
  const Tensor grid = affine_grid(theta, {1, 2, 3, 3});
  check_golden(grid,
               {-0.4, -0.9, 0.2, -1.033333333333, 0.8, -1.166666666667, -0.2, -0.166666666667, 0.4, -0.3, 1,
                -0.433333333333, 0, 0.566666666667, 0.6, 0.433333333333, 1.2, 0.3});
  check_golden(grid_sample(image, grid),
               {0.589029689366, 0.227590444225, -0.126133749218, 0.029274364837, 0.904534422767, -0.008242937147,
                -0.805628481457, 0.336541717495, 0, 0.585658946975, -0.185265537918, -0.150929727001, 0.728505077528,
                0.15919316906, -0.376173429702, -0.205384368004, 0.715211666554, 0});
  check_golden(grid_sample(image, grid * 1.5, {.padding_mode = "border", .align_corners = true}),
               {0.673176787846, 0.448390975566, -0.756802495308, -0.018575738394, 0.714244706629, -0.143118980519,
                -0.865811962757, 0.445782179487, 0.843479580139, 0.851913560974, -0.511272766221, -0.905578362007,
                0.732343272106, -0.080867869867, -0.778557511165, -0.374671050072, 0.721602735247, 0.605157408649});
  check_golden(grid_sample(image, grid * 2.0, {.padding_mode = "reflection"}),
               {-0.917433958286, 0.628870480419, 0.224974656227, -0.092601084364, -0.406126201143, 0.909297426826,
                -0.96139749188, 0.149877209663, -0.501529383631, -0.217919737497, 0.732609633781, 0.882654646541,
                0.774907981822, -0.832995018669, -0.00885130929, -0.643538133357, 0.963795386284, -0.815456491007});
  check_golden(grid_sample(image, grid, {.mode = "bicubic"}),
               {0.730278314798, 0.233905618088, -0.128908939961, -0.012504063968, 0.955333637111, -0.137183447047,
                -0.994474916597, 0.478342231477, 0, 0.611397930368, -0.310515702694, -0.134167689879, 0.938901918674,
                0.129302333934, -0.532947476999, -0.320730533841, 1.021115240506, 0});
  check_golden(grid_sample(image, grid * 1.5, {.mode = "bicubic", .padding_mode = "reflection", .align_corners = true}),
               {0.195883177961, 1.000192655706, 0.722507854646, -0.044620690848, 0.757243798083, 0.569621533678,
                -0.954177510774, 0.520910361425, -0.400094056685, 0.887002256381, 0.416227305618, -0.297535004025,
                0.921149181866, -0.228041762491, -0.427074309062, -0.536354365523, 0.892963677815, 0.673650240564});
  check_golden(grid_sample(image, grid, {.mode = "nearest"}),
               {0.841470984808, 0, 0, 0.656986598719, 0.989358246623, 0.412118485242, -0.96139749188, 0.990607355695,
                0, 0.836655638536, 0, 0, 0.956375928405, 0.270905788308, -0.663633884213, -0.643538133357,
                0.52908268612, 0});
  Tensor leaf = grid.clone().requires_grad_();
  sum(grid_sample(image, leaf, {.mode = "bicubic"}) * ramp({1, 2, 3, 3})).backward();
  check_golden(leaf.grad(),
               {-0.684844809025, 0.731220305725, -0.342325610505, 1.937197807019, -0.273500881093, 0.10884626141,
                -0.186148977446, 0.178565657157, -0.629214620351, 0.508983553268, 2.239214365932, -1.228637345398,
                1.858876579571, -1.495184367342, 1.578519108437, -1.813454589519, -0.616472442843, 0});
  const Tensor volume_grid = affine_grid(ramp({1, 3, 4}), {1, 1, 2, 2, 2}, true);
  check_golden(grid_sample(ramp({1, 1, 2, 3, 2}), volume_grid, {.align_corners = true}),
               {0, -0.38179014076, -0.494916575774, 0.327589959531, 0, -0.320584103362, -0.012630051998,
                0.279562456888});
  check_golden(normalize(ramp({2, 3})),
               {0, 0.679203284496, 0.733950201533, 0.114758241339, -0.615428843838, -0.779793488186});
  check_golden(pdist(ramp({4, 3})),
               {2.462650056307, 0.34426333556, 2.394746178634, 2.443655969478, 0.346990638133, 2.424488819718});
}

TEST_CASE("order, running sums, products and pieces") {
  const Tensor x = ramp({3, 5});
  check_golden(quantile(x, tensor({0.0, 0.3, 0.8}, {.dtype = f64}), 1),
               {-0.756802495308, -0.958924274663, -0.999990206551, 0.028224001612, -0.141108701511, -0.542531472312,
                0.855036273211, 0.7234609283, 0.5342551006});
  check_golden(quantile(x, 0.35, {}, false, "midpoint"), {-0.4079942081});
  check_golden(logcumsumexp(x * 5.0, 1),
               {0, 4.222130909592, 5.090549825142, 5.102936308912, 5.10307448, -4.794621373316, -1.36416960477,
                3.294457675831, 5.122090081361, 5.16784471552, -2.720105554447, -2.622706636607, -1.959186128522,
                2.117936766396, 5.010090470754});
  check_golden(cummax(tensor({1.0, 3, 3, 2, 5}), 0).indices, {0, 1, 2, 2, 4});
  check_golden(median(x, 1).values, {0.14112000806, 0.412118485242, -0.536572918});
  check_golden(median(x, 1).indices, {3, 4, 2});
  check_golden(mode(tensor({{1, 2, 2, 3, 1}, {4, 4, 0, 0, 5}}), 1).values, {1, 0});
  check_golden(cdist(x, ramp({2, 5}, 3)),
               {2.870591404962, 2.150800239381, 2.391424455889, 3.251763552024, 1.143528669097, 2.948641190674});
  check_golden(cdist(x, ramp({2, 5}, 3), 1),
               {5.44193978995, 4.233369075823, 4.706984011513, 6.778864070752, 2.383883478856, 5.900273759267});
  const Tensor far = ramp({4, 3}, 9) + 4.0;  // of near points the formula for many has fewer digits
  CHECK(all_close(cdist(ramp({30, 3}), far), norm(unsqueeze(ramp({30, 3}), 1) - far, 2, {2})));
  check_golden(kron(ramp({2, 2}), ramp({1, 3})),
               {0, 0, 0, 0, 0.708073418274, 0.765147401234, 0, 0.765147401234, 0.826821810432, 0, 0.118748392158,
                0.128320060202});
  check_golden(cross(ramp({2, 3}), ramp({2, 3}, 4)),
               {0.636827341032, -0.688158561599, 0.636827341032, 0.636827341032, -0.688158561599, 0.636827341032});
  const Tensor index = tensor({0, 1, 1, 3, 0}), source = ramp({5}, 2);
  check_golden(scatter_reduce(ramp({4}), 0, index, source, "mean"),
               {0.209960642876, 0.07526283252, 0.909297426826, -0.408902133302});
  check_golden(scatter_reduce(ramp({4}), 0, index, source, "prod", false),
               {-0.254071793527, -0.106799974238, 0.909297426826, -0.958924274663});
  check_golden(scatter_reduce(ramp({4}), 0, index, source, "amax"),
               {0.909297426826, 0.841470984808, 0.909297426826, 0.14112000806});
  check_golden(rot90(ramp({2, 3})),
               {0.909297426826, -0.958924274663, 0.841470984808, -0.756802495308, 0, 0.14112000806});
  check_golden(rot90(ramp({2, 3}), 3),
               {0.14112000806, 0, -0.756802495308, 0.841470984808, -0.958924274663, 0.909297426826});
  check_golden(unfold(ramp({7}), 0, 3, 2),
               {0, 0.841470984808, 0.909297426826, 0.909297426826, 0.14112000806, -0.756802495308, -0.756802495308,
                -0.958924274663, -0.279415498199});
  check_golden(diff(x, 2),
               {-0.77364454279, -0.836003860784, -0.129745084602, 0.256893320454, -0.604030449013, -0.909611409286,
                0.919386384212, 0.493322666277, -0.386299635959});
  check_golden(tensordot(ramp({2, 3}), ramp({3, 2}, 1), 1),
               {-0.753198983314, -0.890899134559, 0.931484182459, 0.969008381047});
  check_golden(diag_embed(ramp({2}), -1), {0, 0, 0, 0, 0, 0, 0, 0.841470984808, 0});
  check_golden(logaddexp2(x, flip(x, {0})),
               {0.753481831914, 1.196531267878, 1.360385225952, 1.287379714374, 1.366715468077, 0.041075725337,
                0.720584501801, 1.656986598719, 1.989358246623, 1.412118485242, 0.753481831914, 1.196531267878,
                1.360385225952, 1.287379714374, 1.366715468077});
  check_golden(sinc(x),
               {1, 0.180702951463, 0.098405740835, 0.967561809594, 0.290984715955, 0.042716428674, 0.876433109232,
                0.42676102718, 0.010754214804, 0.743124245032, 0.579519338135, 0.000009793545, 0.589316237996,
                0.733877402722, 0.00948032665});
  check_golden(xlogy(x, abs(x) + 0.1),
               {0, -0.05075058717, 0.00841506739, -0.200737638732, 0.116962196629, -0.0549018262, 0.270788090106,
                -0.182911460805, 0.084677943828, -0.275789387098, 0.23938222155, -0.095300343301, 0.242346542401,
                -0.274623399769, 0.08592007948});
  check_golden(floor_divide(x * 7.0, ramp({5}, 0.7)), {0, 5, 14, -2, 5, -11, -2, 10, -14, -3, -6, -8, -9, -6, -7});
  check_golden(nn::ChannelShuffle{2}(ramp({1, 4, 1})), {0, 0.909297426826, 0.841470984808, 0.14112000806});
  check_golden(nn::Softmin{1}(x),
               {0.206880080053, 0.089181027178, 0.083332770498, 0.179651577398, 0.440954544873, 0.475751818575,
                0.241142381163, 0.094536448196, 0.067803499416, 0.120765852651, 0.23997449869, 0.378608147228,
                0.238193762202, 0.091500507116, 0.051723084763});
  check_golden(nn::Softmax2d{}(ramp({1, 2, 1, 2})), {0.287143626962, 0.668265583637, 0.712856373038, 0.331734416363});
}

TEST_CASE("distinct values, equality, and what is filled by a rule") {
  const UniqueResult u = unique(tensor({{3, 1, 3}, {2, 1, 1}}));
  CHECK(u.values.to_vector<int>() == std::vector<int>{1, 2, 3});
  CHECK(u.inverse.to_vector<int>() == std::vector<int>{2, 0, 2, 1, 0, 0});
  CHECK(u.counts.to_vector<int>() == std::vector<int>{3, 1, 2});
  CHECK(unique_consecutive(tensor({1, 1, 2, 1})).values.to_vector<int>() == std::vector<int>{1, 2, 1});
  CHECK(isin(tensor({1, 5, 2}), tensor({2, 1})).to_vector<int>() == std::vector<int>{1, 0, 1});
  CHECK(allclose(tensor({1.0, INFINITY}), tensor({1.000001, INFINITY})));
  CHECK_FALSE(allclose(tensor({NAN}), tensor({NAN})));
  CHECK(allclose(tensor({NAN}), tensor({NAN}), 0, 0, true));
  CHECK(equal(tensor({1, 2}), tensor({1, 2})));
  CHECK_FALSE(equal(tensor({1, 2}), tensor({1, 2, 3})));
  CHECK(triu_indices(2, 3, 1).to_vector<int>() == std::vector<int>{0, 0, 1, 1, 2, 2});
  CHECK(nan_to_num(tensor({NAN, INFINITY, -INFINITY}), 1, 2).to_vector<float>() ==
        std::vector<float>{1, 2, -3.4028234663852886e38f});
  CHECK(std::isnan(median(tensor({1.0, NAN, 0})).item()));
  CHECK(nansum(tensor({1.0, NAN, 2})).item() == 3);
  const Tensor endless = tensor({1.0, NAN, HUGE_VAL}).requires_grad_();
  backward(nansum(endless));
  CHECK(endless.grad().to_vector<float>() == std::vector<float>{1, 0, 1});  // an infinite element is a part of the sum
  CHECK(nanmean(tensor({1.0, NAN, 2})).item() == 1.5);
}

TEST_CASE("batch norm with a plain average, and dropout of channels") {
  MANTISSA_PRINT_SEED();
  manual_seed(seed());
  nn::BatchNorm3d norm(2, {.momentum = std::nullopt});
  nn::to(norm, f64);
  norm(ramp({2, 2, 1, 2, 2}));
  norm(ramp({2, 2, 1, 2, 2}, 1));
  check_golden(norm.running_mean, {0.075998375519, 0.147968602108});
  check_golden(norm.running_var, {0.53304149079, 0.524519246277});
  CHECK_REFUSED(norm(ramp({2, 2, 2, 2})), "BatchNorm3d: needs [N, C, D, H, W]");

  nn::Dropout2d channels{.p = 0.5};
  const Tensor y = channels(ones({40, 50, 2, 3})), first = select(select(y, -1, 0), -1, 0);
  CHECK(equal(y, expand(unsqueeze(unsqueeze(first, -1), -1), y.sizes())));  // whole channels, 0 or 2
  const double kept = mean(first).item<double>() / 2;
  CHECK(std::abs(kept - 0.5) < 0.06);
  nn::eval(channels);
  CHECK(equal(channels(ones({4, 4, 2, 2})), ones({4, 4, 2, 2})));
  const Tensor z = nn::AlphaDropout{.p = 0.3}(randn({200, 200}));
  CHECK(std::abs(mean(z).item<double>()) < 0.03);
  CHECK(std::abs(mantissa::std(z).item<double>() - 1) < 0.03);
}

TEST_CASE("StochasticDepth drops whole examples, or the whole batch, and keeps the mean") {
  manual_seed(5);
  nn::StochasticDepth drop{.p = 0.2};
  const Tensor rows = drop(ones({4000, 3, 2})), first = rows[{all, slice(0, 1), slice(0, 1)}];
  CHECK(equal(rows, first.expand(rows.sizes())));
  CHECK(bool(all(logical_or(first == 0.0, isclose(first, full_like(first, 1.25))))));
  CHECK(std::abs(first.mean().item() - 1) < 6 * 0.5 / std::sqrt(4000.0));  // 0.5: the deviation of one
  int left_out = 0;
  for (int i = 0; i < 200; ++i) {
    const Tensor y = nn::stochastic_depth(ones({3, 2}), 0.5, "batch");
    CHECK((equal(y, zeros({3, 2})) || equal(y, full({3, 2}, 2))));
    left_out += y[0][0].item() == 0;
  }
  CHECK(std::abs(left_out - 100) < 6 * std::sqrt(50.0));
  CHECK(equal(nn::stochastic_depth(ones({3, 2}), 1), zeros({3, 2})));
  const Tensor x = ones({5, 2}).requires_grad_();
  const Tensor y = drop(x);
  y.sum().backward();
  CHECK(equal(x.grad(), y.detach()));
  CHECK(nn::eval(drop)(x).is_same(x));
  CHECK_THROWS_WITH(nn::stochastic_depth(x, 1.5), Contains("p must lie in [0, 1]"));
  CHECK_THROWS_WITH(nn::stochastic_depth(x, 0.5, "rows"), Contains("got \"rows\""));
}

TEST_CASE("BatchNormAct2d is BatchNorm2d, an addition and relu, in training and in evaluation") {
  manual_seed(3);
  const Tensor x = channels_last(randn({4, 6, 5, 3})), z = randn({4, 6, 5, 3});
  nn::BatchNormAct2d fused(6);
  nn::BatchNorm2d plain(6);
  const auto gradients = [&](const Tensor& from, const Tensor& residual, auto&& f) {
    Tensor a = from.detach(), b = residual.detach();
    a.requires_grad_();
    b.requires_grad_();
    const Tensor y = f(a, b);
    (y * y).sum().backward();
    return std::vector<Tensor>{y, a.grad(), b.grad()};
  };
  for (const bool training : {true, false}) {
    if (!training) nn::eval(fused), nn::eval(plain);
    const auto got = gradients(x, z, [&](const Tensor& a, const Tensor& b) { return fused(a, b) + fused(a); });
    const auto expected =
        gradients(x, z, [&](const Tensor& a, const Tensor& b) { return relu(plain(a) + b) + relu(plain(a)); });
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(difference(got[i], expected[i], {1e-5, 1e-5}) == "");
    CHECK(difference(fused.running_var, plain.running_var, {1e-6, 1e-6}) == "");
    CHECK(difference(fused.weight.grad(), plain.weight.grad(), {1e-4, 1e-4}) == "");
  }
  CHECK(is_channels_last(fused(x).sizes(), fused(x).strides()));
  CHECK(nn::count(nn::clone(fused)) == 12);
}
