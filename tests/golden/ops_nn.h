// Golden cases of convolution, pooling, images, normalisation and attention. tests/golden/case.h explains a line.
// clang-format off
#pragma once

#include "core/ops_special.h"
#include "tests/golden/case.h"

namespace mantissa::test {

inline constexpr Case nn_cases[] = {
  // --- convolution ---
  GOLDEN("conv2d", "randn(2, 3, 5, 6), randn(4, 3, 3, 2), randn(4)", "F.conv2d(x, y, z), F.conv2d(x, y)", conv2d(x, y, z), conv2d(x, y))
  GOLDEN("conv2d.stride", "randn(1, 2, 7, 6), randn(3, 2, 3, 2), randn(3)", "F.conv2d(x, y, z, stride=2), F.conv2d(x, y, z, stride=(1, 3))", conv2d(x, y, z, {.stride = {2, 2}}), conv2d(x, y, z, {.stride = {1, 3}}))
  GOLDEN("conv2d.padding", "randn(1, 2, 4, 5), randn(3, 2, 3, 3)", "F.conv2d(x, y, padding=1), F.conv2d(x, y, padding=(2, 0), stride=2), F.conv2d(x, y, padding='same')", conv2d(x, y, {}, {.padding = {1, 1}}), conv2d(x, y, {}, {.stride = {2, 2}, .padding = {2, 0}}), conv2d(x, y, {}, {.padding = {1, 1}}))
  GOLDEN("conv2d.dilation", "randn(1, 2, 7, 7), randn(3, 2, 3, 2), randn(3)", "F.conv2d(x, y, z, dilation=(2, 3), padding=1)", conv2d(x, y, z, {.padding = {1, 1}, .dilation = {2, 3}}))
  GOLDEN("conv2d.groups", "randn(2, 4, 4, 4), randn(6, 2, 3, 3), randn(6), randn(4, 1, 2, 2)", "F.conv2d(x, y, z, groups=2), F.conv2d(x, u, groups=4, stride=2, padding=1)", conv2d(x, y, z, {.groups = 2}), conv2d(x, u, {}, {.stride = {2, 2}, .padding = {1, 1}, .groups = 4}))
  GOLDEN("conv2d.one", "randn(2, 3, 2, 3), randn(4, 3, 1, 1)", "F.conv2d(x, y), F.conv2d(x, y, stride=2)", conv2d(x, y), conv2d(x, y, {}, {.stride = {2, 2}}))
  GOLDEN("conv2d_input_grad", "randn(1, 3, 3, 2), randn(3, 2, 2, 3)", "F.conv_transpose2d(x, y), F.conv_transpose2d(x, y, stride=2, padding=1, output_padding=1)", conv2d_input_grad(x, y, {1, 2, 4, 4}), conv2d_input_grad(x, y, {1, 2, 5, 4}, {.stride = {2, 2}, .padding = {1, 1}}))
  GOLDEN("conv1d", "randn(2, 4, 7), randn(6, 4, 3), randn(6), randn(6, 2, 2)", "F.conv1d(x, y, z), F.conv1d(x, y, stride=2, padding=1, dilation=2), F.conv1d(x, u, z, groups=2)", conv1d(x, y, z), conv1d(x, y, {}, {.stride = 2, .padding = 1, .dilation = 2}), conv1d(x, u, z, {.groups = 2}))
  GOLDEN("conv_transpose2d", "randn(2, 4, 3, 2), randn(4, 3, 3, 2), randn(3)", "F.conv_transpose2d(x, y, z), F.conv_transpose2d(x, y)", conv_transpose2d(x, y, z), conv_transpose2d(x, y))
  GOLDEN("conv_transpose2d.options", "randn(1, 4, 3, 3), randn(4, 2, 3, 3), randn(4)", "F.conv_transpose2d(x, y, z, stride=2, padding=1, output_padding=1, groups=2), F.conv_transpose2d(x, y, dilation=2, stride=(1, 2), padding=(2, 0))", conv_transpose2d(x, y, z, {.stride = {2, 2}, .padding = {1, 1}, .output_padding = {1, 1}, .groups = 2}), conv_transpose2d(x, y, {}, {.stride = {1, 2}, .padding = {2, 0}, .dilation = {2, 2}}))
  GOLDEN("conv_transpose1d", "randn(1, 4, 5), randn(4, 2, 3), randn(4)", "F.conv_transpose1d(x, y), F.conv_transpose1d(x, y, z, stride=2, padding=1, output_padding=1, groups=2), F.conv_transpose1d(x, y, dilation=2)", conv_transpose1d(x, y), conv_transpose1d(x, y, z, {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2}), conv_transpose1d(x, y, {}, {.dilation = 2}))

  // --- pooling ---
  GOLDEN("max_pool2d", "distinct(2, 2, 5, 6)", "F.max_pool2d(x, 2), F.max_pool2d(x, (3, 2))", max_pool2d(x, 2), max_pool2d(x, {3, 2}))
  GOLDEN("max_pool2d.options", "distinct(1, 2, 5, 6)", "F.max_pool2d(x, 3, stride=2, padding=1), F.max_pool2d(x, 2, ceil_mode=True), F.max_pool2d(x, 3, stride=2, padding=1, ceil_mode=True)", max_pool2d(x, {3, 3}, {.stride = {2, 2}, .padding = {1, 1}}), max_pool2d(x, {2, 2}, {.ceil_mode = true}), max_pool2d(x, {3, 3}, {.stride = {2, 2}, .padding = {1, 1}, .ceil_mode = true}))
  GOLDEN("avg_pool2d", "randn(2, 2, 5, 6)", "F.avg_pool2d(x, 2), F.avg_pool2d(x, (3, 2))", avg_pool2d(x, 2), avg_pool2d(x, {3, 2}))
  GOLDEN("avg_pool2d.options", "randn(1, 2, 5, 6)", "F.avg_pool2d(x, 3, stride=2, padding=1), F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), F.avg_pool2d(x, 2, ceil_mode=True), F.avg_pool2d(x, 3, 2, 1, ceil_mode=True)", avg_pool2d(x, {3, 3}, {.stride = {2, 2}, .padding = {1, 1}}), avg_pool2d(x, {3, 3}, {.stride = {2, 2}, .padding = {1, 1}, .count_include_pad = false}), avg_pool2d(x, {2, 2}, {.ceil_mode = true}), avg_pool2d(x, {3, 3}, {.stride = {2, 2}, .padding = {1, 1}, .ceil_mode = true}))
  GOLDEN("adaptive_avg_pool2d", "randn(2, 2, 5, 7)", "F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (2, 3)), F.adaptive_avg_pool2d(x, (7, 7))", adaptive_avg_pool2d(x, {1, 1}), adaptive_avg_pool2d(x, {2, 3}), adaptive_avg_pool2d(x, {7, 7}))
  GOLDEN("max_pool1d", "distinct(2, 2, 7)", "F.max_pool1d(x, 2), F.max_pool1d(x, 3, stride=2, padding=1), F.max_pool1d(x, 2, ceil_mode=True)", max_pool1d(x, 2), max_pool1d(x, 3, {.stride = 2, .padding = 1}), max_pool1d(x, 2, {.ceil_mode = true}))
  GOLDEN("avg_pool1d", "randn(2, 2, 7)", "F.avg_pool1d(x, 2), F.avg_pool1d(x, 3, stride=2, padding=1), F.avg_pool1d(x, 3, 2, 1, count_include_pad=False), F.avg_pool1d(x, 2, ceil_mode=True)", avg_pool1d(x, 2), avg_pool1d(x, 3, {.stride = 2, .padding = 1}), avg_pool1d(x, 3, {.stride = 2, .padding = 1, .count_include_pad = false}), avg_pool1d(x, 2, {.ceil_mode = true}))
  GOLDEN("adaptive_avg_pool1d", "randn(2, 2, 7)", "F.adaptive_avg_pool1d(x, 3), F.adaptive_avg_pool1d(x, 1)", adaptive_avg_pool1d(x, 3), adaptive_avg_pool1d(x, 1))

  // --- images ---
  GOLDEN("pixel_shuffle", "randn(2, 8, 2, 3)", "F.pixel_shuffle(x, 2)", pixel_shuffle(x, 2))
  GOLDEN("pixel_unshuffle", "randn(2, 2, 4, 6)", "F.pixel_unshuffle(x, 2)", pixel_unshuffle(x, 2))
  GOLDEN("interpolate", "randn(1, 2, 3, 4), randn(1, 2, 5)", "F.interpolate(x, scale_factor=2), F.interpolate(x, size=(5, 3)), F.interpolate(y, size=8), F.interpolate(x, size=(5, 3), mode='nearest-exact')", interpolate(x, {.scale_factor = {2}}), interpolate(x, {.size = {5, 3}}), interpolate(y, {.size = {8}}), interpolate(x, {.size = {5, 3}, .mode = "nearest-exact"}))
  GOLDEN("interpolate.bilinear", "randn(1, 2, 3, 4)", "F.interpolate(x, size=(5, 6), mode='bilinear'), F.interpolate(x, size=(5, 6), mode='bilinear', align_corners=True), F.interpolate(x, scale_factor=(1.5, 0.75), mode='bilinear'), F.interpolate(x, scale_factor=1.7, mode='bilinear', recompute_scale_factor=True)", interpolate(x, {.size = {5, 6}, .mode = "bilinear"}), interpolate(x, {.size = {5, 6}, .mode = "bilinear", .align_corners = true}), interpolate(x, {.scale_factor = {1.5, 0.75}, .mode = "bilinear"}), interpolate(x, {.scale_factor = {1.7}, .mode = "bilinear", .recompute_scale_factor = true}))
  GOLDEN("interpolate.bicubic", "randn(1, 2, 3, 4)", "F.interpolate(x, size=(5, 6), mode='bicubic'), F.interpolate(x, size=(2, 7), mode='bicubic', align_corners=True)", interpolate(x, {.size = {5, 6}, .mode = "bicubic"}), interpolate(x, {.size = {2, 7}, .mode = "bicubic", .align_corners = true}))
  GOLDEN("interpolate.linear", "randn(1, 2, 4), randn(1, 1, 2, 3, 2)", "F.interpolate(x, size=7, mode='linear'), F.interpolate(x, size=7, mode='linear', align_corners=True), F.interpolate(y, size=(3, 2, 4), mode='trilinear'), F.interpolate(y, scale_factor=2)", interpolate(x, {.size = {7}, .mode = "linear"}), interpolate(x, {.size = {7}, .mode = "linear", .align_corners = true}), interpolate(y, {.size = {3, 2, 4}, .mode = "trilinear"}), interpolate(y, {.scale_factor = {2}}))
  GOLDEN("unfold", "randn(2, 3, 4, 5)", "F.unfold(x, 2), F.unfold(x, (3, 2), dilation=(1, 2), padding=1, stride=2)", unfold(x, {2, 2}), unfold(x, {3, 2}, {.dilation = {1, 2}, .padding = {1, 1}, .stride = {2, 2}}))
  GOLDEN("fold", "randn(2, 12, 12), randn(1, 12, 4)", "F.fold(x, (4, 5), 2), F.fold(y, (3, 4), (3, 2), padding=1, stride=(2, 3), dilation=(1, 1))", fold(x, {4, 5}, {2, 2}), fold(y, {3, 4}, {3, 2}, {.padding = {1, 1}, .stride = {2, 3}}))

  // --- normalisation; running statistics are inputs that batch_norm writes ---
  GOLDEN("batch_norm", "randn(4, 3, 2, 2), randn(3), randn(3), const(randn(3)), const(uniform(0.5, 2, 3))", "F.batch_norm(x, u, v, y, z, training=True), u, v", batch_norm(x, y, z, u, v, true), u, v)
  GOLDEN("batch_norm.eval", "randn(4, 3), randn(3), randn(3), const(randn(3)), const(uniform(0.5, 2, 3))", "F.batch_norm(x, u, v, y, z, eps=0.1)", batch_norm(x, y, z, u, v, false, 0.1, 0.1))
  GOLDEN("batch_norm.plain", "randn(4, 3, 5)", "F.batch_norm(x, None, None, training=True)", batch_norm(x, {}, {}, {}, {}, true))
  GOLDEN("batch_norm.momentum", "randn(4, 3, 5), const(randn(3)), const(uniform(0.5, 2, 3))", "F.batch_norm(x, y, z, training=True, momentum=0.3), y, z", batch_norm(x, {}, {}, y, z, true, 0.3), y, z)
  GOLDEN("layer_norm", "randn(2, 3, 4), randn(4), randn(4), randn(3, 4)", "F.layer_norm(x, (4,), y, z), F.layer_norm(x, (3, 4), u, eps=0.1), F.layer_norm(x, (4,))", layer_norm(x, {4}, y, z), layer_norm(x, {3, 4}, u, {}, 0.1), layer_norm(x, {4}))
  GOLDEN("group_norm", "randn(2, 4, 3, 2), randn(4), randn(4)", "F.group_norm(x, 2, y, z), F.group_norm(x, 4), F.group_norm(x, 1, y, eps=0.1)", group_norm(x, 2, y, z), group_norm(x, 4), group_norm(x, 1, y, {}, 0.1))
  GOLDEN("instance_norm", "randn(2, 3, 4, 2), randn(3), randn(3)", "F.instance_norm(x, weight=y, bias=z), F.instance_norm(x, eps=0.1)", instance_norm(x, {}, {}, y, z), instance_norm(x, {}, {}, {}, {}, true, 0.1, 0.1))
  GOLDEN("instance_norm.running", "randn(2, 3, 4, 2), randn(3), randn(3), const(randn(3)), const(uniform(0.5, 2, 3))", "F.instance_norm(x, u, v, y, z), u, v", instance_norm(x, u, v, y, z), u, v)
  GOLDEN("instance_norm.eval", "randn(2, 3, 5), const(randn(3)), const(uniform(0.5, 2, 3))", "F.instance_norm(x, y, z, use_input_stats=False)", instance_norm(x, y, z, {}, {}, false))
  GOLDEN("rms_norm", "randn(2, 3, 4), randn(4), randn(3, 4)", "F.rms_norm(x, (4,), y), F.rms_norm(x, (3, 4), z, eps=0.1), F.rms_norm(x, (4,), eps=1e-6)", rms_norm(x, {4}, y), rms_norm(x, {3, 4}, z, 0.1), rms_norm(x, {4}, {}, 1e-6))
  GOLDEN("add_layer_norm", "randn(2, 3, 4), randn(2, 3, 4), randn(4), randn(4), randn(3, 4)", "x + y, F.layer_norm(x + y, (4,), z, u), x + y, F.layer_norm(x + y, (3, 4), v, eps=0.1)", add_layer_norm(x, y, {4}, z, u), add_layer_norm(x, y, {3, 4}, v, {}, 0.1))
  GOLDEN("add_rms_norm", "randn(2, 3, 4), randn(2, 3, 4), randn(4)", "x + y, F.rms_norm(x + y, (4,), z), x + y, F.rms_norm(x + y, (4,), eps=1e-6)", add_rms_norm(x, y, {4}, z), add_rms_norm(x, y, {4}, {}, 1e-6))
  GOLDEN("local_response_norm", "randn(2, 6, 3), randn(1, 5, 2, 2)", "F.local_response_norm(x, 3), F.local_response_norm(y, 4, alpha=0.1, beta=0.5, k=2.)", local_response_norm(x, 3), local_response_norm(y, 4, 0.1, 0.5, 2))

  // --- attention ---
  GOLDEN("scaled_dot_product_attention", "randn(2, 2, 3, 4), randn(2, 2, 5, 4), randn(2, 2, 5, 6)", "F.scaled_dot_product_attention(x, y, z), F.scaled_dot_product_attention(x, y, z, scale=0.3)", scaled_dot_product_attention(x, y, z), scaled_dot_product_attention(x, y, z, {}, {.scale = 0.3}))
  GOLDEN("scaled_dot_product_attention.causal", "randn(2, 4, 4), randn(2, 4, 4), randn(2, 4, 4)", "F.scaled_dot_product_attention(x, y, z, is_causal=True)", scaled_dot_product_attention(x, y, z, {}, {.is_causal = true}))
  GOLDEN("scaled_dot_product_attention.causal_rectangle", "randn(1, 2, 4), randn(1, 5, 4), randn(1, 5, 4)", "F.scaled_dot_product_attention(x, y, z, is_causal=True), F.scaled_dot_product_attention(y, x, x, is_causal=True)", scaled_dot_product_attention(x, y, z, {}, {.is_causal = true}), scaled_dot_product_attention(y, x, x, {}, {.is_causal = true}))
  GOLDEN("scaled_dot_product_attention.mask", "randn(2, 2, 3, 4), randn(2, 2, 3, 4), randn(2, 2, 3, 4), randn(3, 3), of([True, False, True], [True, True, False], [False, True, True])", "F.scaled_dot_product_attention(x, y, z, attn_mask=u), F.scaled_dot_product_attention(x, y, z, attn_mask=v)", scaled_dot_product_attention(x, y, z, u), scaled_dot_product_attention(x, y, z, v))
  GOLDEN("scaled_dot_product_attention.grouped", "randn(2, 4, 3, 4), randn(2, 2, 3, 4), randn(2, 2, 3, 4)", "F.scaled_dot_product_attention(x, y, z, is_causal=True, enable_gqa=True)", scaled_dot_product_attention(x, y, z, {}, {.is_causal = true, .enable_gqa = true}))
  GOLDEN("rotary_embedding", "randn(2, 3, 4)", "rotary(x), rotary(x, 5, 100.), rotary(x, interleaved=True)", rotary_embedding(x), rotary_embedding(x, 5, 100), rotary_embedding(x, 0, 10000, true))
  GOLDEN("conv3d", "randn(2, 4, 3, 4, 3), randn(2, 4, 2, 3, 2), randn(2)", "F.conv3d(x, y, z, stride=(1, 2, 1), padding=(1, 0, 1), dilation=(1, 1, 2)), F.conv3d(x, y)", conv3d(x, y, z, {.stride = {1, 2, 1}, .padding = {1, 0, 1}, .dilation = {1, 1, 2}}), conv3d(x, y))
  GOLDEN("conv3d.groups", "randn(1, 4, 2, 3, 3), randn(6, 2, 2, 2, 2)", "F.conv3d(x, y, groups=2)", conv3d(x, y, {}, {.groups = 2}))
  GOLDEN("conv3d_input_grad", "randn(1, 2, 2, 2, 2), randn(2, 3, 2, 2, 2)", "torch.nn.grad.conv3d_input((1, 3, 3, 3, 3), y, x)", conv3d_input_grad(x, y, {1, 3, 3, 3, 3}))
  GOLDEN("conv_transpose3d", "randn(1, 2, 2, 3, 2), randn(2, 2, 2, 2, 3), randn(2)", "F.conv_transpose3d(x, y, z, stride=(2, 1, 2), padding=(1, 0, 1), output_padding=(1, 0, 0), dilation=(1, 2, 1))", conv_transpose3d(x, y, z, {.stride = {2, 1, 2}, .padding = {1, 0, 1}, .output_padding = {1, 0, 0}, .dilation = {1, 2, 1}}))
  GOLDEN("max_pool3d", "distinct(2, 2, 4, 5, 4)", "F.max_pool3d(x, 2), F.max_pool3d(x, (1, 3, 2), (1, 2, 1), (0, 1, 0), (1, 1, 2), True)", max_pool3d(x, {2, 2, 2}), max_pool3d(x, {1, 3, 2}, {.stride = {1, 2, 1}, .padding = {0, 1, 0}, .ceil_mode = true, .dilation = {1, 1, 2}}))
  GOLDEN("max_pool3d.indices", "distinct(2, 2, 4, 5, 4)", "*F.max_pool3d(x, 2, return_indices=True)", max_pool3d_with_indices(x, {2, 2, 2}))
  GOLDEN("max_pool2d.indices", "distinct(2, 2, 5, 6)", "*F.max_pool2d(x, (2, 3), (2, 1), return_indices=True), *F.max_pool2d(x, (2, 3), (1, 2), (0, 1), (2, 1), return_indices=True)", max_pool2d_with_indices(x, {2, 3}, {.stride = {2, 1}}), max_pool2d_with_indices(x, {2, 3}, {.stride = {1, 2}, .padding = {0, 1}, .dilation = {2, 1}}))
  GOLDEN("max_pool1d.indices", "distinct(2, 3, 9)", "*F.max_pool1d(x, 3, 2, 1, 2, True, return_indices=True)", max_pool1d_with_indices(x, 3, {.stride = 2, .padding = 1, .ceil_mode = true, .dilation = 2}))
  GOLDEN("avg_pool3d", "randn(2, 1, 4, 5, 4)", "F.avg_pool3d(x, 2), F.avg_pool3d(x, (3, 2, 3), 2, (1, 1, 0), True, False), F.avg_pool3d(x, 2, divisor_override=3)", avg_pool3d(x, {2, 2, 2}), avg_pool3d(x, {3, 2, 3}, {.stride = {2, 2, 2}, .padding = {1, 1, 0}, .ceil_mode = true, .count_include_pad = false}), avg_pool3d(x, {2, 2, 2}, {.divisor_override = 3}))
  GOLDEN("avg_pool2d.divisor", "randn(1, 2, 4, 5)", "F.avg_pool2d(x, 2, divisor_override=3)", avg_pool2d(x, {2, 2}, {.divisor_override = 3}))
  GOLDEN("adaptive_avg_pool3d", "randn(1, 2, 4, 5, 3)", "F.adaptive_avg_pool3d(x, (2, 3, 1))", adaptive_avg_pool3d(x, {2, 3, 1}))
  GOLDEN("adaptive_max_pool3d", "distinct(1, 2, 4, 5, 3)", "*F.adaptive_max_pool3d(x, (2, 3, 1), True)", adaptive_max_pool3d_with_indices(x, {2, 3, 1}))
  GOLDEN("adaptive_max_pool2d", "distinct(2, 2, 4, 5)", "*F.adaptive_max_pool2d(x, (3, 2), True)", adaptive_max_pool2d_with_indices(x, {3, 2}))
  GOLDEN("adaptive_max_pool1d", "distinct(2, 3, 7)", "*F.adaptive_max_pool1d(x, 4, True)", adaptive_max_pool1d_with_indices(x, 4))
  GOLDEN("fractional_max_pool2d", "distinct(2, 2, 7, 9), uniform(0, 1, 2, 2, 2)", "*F.fractional_max_pool2d(x, (2, 3), (4, 5), return_indices=True, _random_samples=y.detach()), F.fractional_max_pool2d(x, 3, (1, 7), _random_samples=y.detach())", fractional_max_pool2d_with_indices(x, {2, 3}, {4, 5}, y.detach()), fractional_max_pool2d(x, {3, 3}, {1, 7}, y.detach()))
  GOLDEN("fractional_max_pool3d", "distinct(2, 2, 4, 5, 7), uniform(0, 1, 2, 2, 3)", "*F.fractional_max_pool3d(x, (2, 2, 3), (2, 3, 4), return_indices=True, _random_samples=y.detach())", fractional_max_pool3d_with_indices(x, {2, 2, 3}, {2, 3, 4}, y.detach()))
  GOLDEN("max_unpool1d", "randn(1, 2, 3), of([[0, 3, 4], [1, 2, 5]])", "F.max_unpool1d(x, y, 2)", max_unpool1d(x, y, 2))
  GOLDEN("max_unpool2d", "randn(1, 1, 2, 2), of([[[1, 3], [16, 10]]])", "F.max_unpool2d(x, y, 2, output_size=(5, 4))", max_unpool2d(x, y, {2, 2}, {}, {5, 4}))
  GOLDEN("max_unpool3d", "randn(1, 1, 2, 1, 2), of([[[[1, 3]], [[12, 15]]]])", "F.max_unpool3d(x, y, (1, 2, 2))", max_unpool3d(x, y, {1, 2, 2}))
  GOLDEN("lp_pool1d", "uniform(0.2, 2, 2, 3, 7)", "F.lp_pool1d(x, 3, 2), F.lp_pool1d(x, 2, 3, 2, True)", lp_pool1d(x, 3, 2), lp_pool1d(x, 2, 3, 2, true))
  GOLDEN("lp_pool2d", "uniform(0.2, 2, 2, 2, 4, 5)", "F.lp_pool2d(x, 2, 2), F.lp_pool2d(x, 3, (2, 3), 1)", lp_pool2d(x, 2, {2, 2}), lp_pool2d(x, 3, {2, 3}, {1, 1}))
  GOLDEN("lp_pool3d", "uniform(0.2, 2, 1, 2, 3, 4, 3)", "F.lp_pool3d(x, 2, 2, 1)", lp_pool3d(x, 2, {2, 2, 2}, {1, 1, 1}))
  GOLDEN("grid_sample", "randn(2, 2, 3, 4), uniform(-1.3, 1.3, 2, 2, 3, 2)", "*[F.grid_sample(x, y, padding_mode=p, align_corners=False) for p in ('zeros', 'border', 'reflection')], F.grid_sample(x, y, align_corners=True)", grid_sample(x, y), grid_sample(x, y, {.padding_mode = "border"}), grid_sample(x, y, {.padding_mode = "reflection"}), grid_sample(x, y, {.align_corners = true}))
  GOLDEN("grid_sample.bicubic", "randn(1, 2, 4, 5), uniform(-1.3, 1.3, 1, 2, 3, 2)", "*[F.grid_sample(x, y, 'bicubic', p, False) for p in ('zeros', 'border', 'reflection')]", grid_sample(x, y, {.mode = "bicubic"}), grid_sample(x, y, {.mode = "bicubic", .padding_mode = "border"}), grid_sample(x, y, {.mode = "bicubic", .padding_mode = "reflection"}))
  GOLDEN("grid_sample.nearest", "randn(1, 2, 4, 5), const(uniform(-1.3, 1.3, 1, 2, 3, 2))", "F.grid_sample(x, y, 'nearest', align_corners=False)", grid_sample(x, y, {.mode = "nearest"}))
  GOLDEN("grid_sample.volume", "randn(1, 2, 2, 3, 4), uniform(-1.2, 1.2, 1, 2, 2, 2, 3)", "F.grid_sample(x, y, align_corners=False)", grid_sample(x, y))
  GOLDEN("affine_grid", "randn(2, 2, 3), randn(1, 3, 4)", "F.affine_grid(x, (2, 1, 3, 4), False), F.affine_grid(y, (1, 1, 2, 3, 2), True)", affine_grid(x, {2, 1, 3, 4}), affine_grid(y, {1, 1, 2, 3, 2}, true))
  GOLDEN("interpolate.area", "randn(1, 2, 5, 6)", "F.interpolate(x, size=(3, 4), mode='area')", interpolate(x, {.size = {3, 4}, .mode = "area"}))
  GOLDEN("interpolate.antialias", "randn(1, 2, 7, 6)", "F.interpolate(x, size=(3, 4), mode='bilinear', antialias=True), F.interpolate(x, size=(3, 8), mode='bicubic', antialias=True)", interpolate(x, {.size = {3, 4}, .mode = "bilinear", .antialias = true}), interpolate(x, {.size = {3, 8}, .mode = "bicubic", .antialias = true}))
  GOLDEN("embedding.padding", "randn(5, 3), ints(0, 5, 2, 4)", "F.embedding(y, x, padding_idx=2)", embedding(x, y, 2))
  GOLDEN("conv3d.options", "randn(1, 4, 4, 5, 4), randn(2, 2, 2, 3, 2), randn(2)", "F.conv3d(x, y, z, stride=(1, 2, 1), padding=(1, 0, 2), dilation=(2, 1, 1), groups=2)", conv3d(x, y, z, {.stride = {1, 2, 1}, .padding = {1, 0, 2}, .dilation = {2, 1, 1}, .groups = 2}))
  GOLDEN("max_pool2d.dilation", "distinct(1, 2, 6, 6)", "F.max_pool2d(x, 2, stride=1, dilation=(2, 3))", max_pool2d(x, {2, 2}, {.stride = {1, 1}, .dilation = {2, 3}}))
  GOLDEN("max_pool1d.dilation", "distinct(1, 2, 7)", "F.max_pool1d(x, 3, stride=1, padding=1, dilation=2)", max_pool1d(x, 3, {.stride = 1, .padding = 1, .dilation = 2}))
  GOLDEN("grid_sample.modes", "randn(1, 2, 4, 5), uniform(-1.3, 1.3, 1, 3, 4, 2)", "F.grid_sample(x, y, mode='nearest', align_corners=False), F.grid_sample(x, y, mode='bicubic', align_corners=False), F.grid_sample(x, y, mode='bicubic', padding_mode='reflection', align_corners=True)", grid_sample(x, y, {.mode = "nearest"}), grid_sample(x, y, {.mode = "bicubic"}), grid_sample(x, y, {.mode = "bicubic", .padding_mode = "reflection", .align_corners = true}))
};

}  // namespace mantissa::test
