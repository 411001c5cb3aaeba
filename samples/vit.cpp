// A small vision transformer (Dosovitskiy et al., 2021): an image is split into patches, processed as a sequence. For
// images of 28 or 32 pixels; trained from scratch, so mean pooling replaces the class token.
//   vit                                     CIFAR-10, 10 epochs, bf16
//   vit --dataset fashion --patch 7 --epochs 5 --amp f16
//   vit --help
#include <cmath>

#include "common/augment.h"
#include "common/trainer.h"

using namespace mantissa;

struct Config {
  std::int64_t side, channels, classes;  // of the images
  std::int64_t patch = 4, width = 128, layers = 4, heads = 4;
  double dropout = 0.1;
};

struct VisionTransformer {
  explicit VisionTransformer(const Config& c)
      : embed(c.channels, c.width, static_cast<int>(c.patch), {.stride = static_cast<int>(c.patch)}),
        position(zeros({1, (c.side / c.patch) * (c.side / c.patch), c.width})), drop{.p = c.dropout}, norm(c.width),
        head(c.width, c.classes) {
    for (std::int64_t i = 0; i < c.layers; ++i)
      blocks.emplace_back(c.width, c.heads,
                          nn::TransformerOptions{.dim_feedforward = 2 * c.width,
                                                 .dropout = c.dropout,
                                                 .activation = nn::FeedForward::gelu,
                                                 .batch_first = true,
                                                 .norm_first = true});
    nn::init::normal_(position, 0, 0.02);
  }
  nn::Conv2d embed;      // one patch per output: stride = kernel size
  nn::Param position;    // [1, patches, width]
  nn::Dropout drop;
  nn::ModuleList<nn::TransformerEncoderLayer> blocks;
  nn::LayerNorm norm;
  nn::Linear head;
  MANTISSA_FIELDS(embed, position, drop, blocks, norm, head)

  Tensor operator()(const Tensor& image) const {
    Tensor x = flatten(embed(image), 2).transpose(1, 2);  // [N, patches, width]
    x = drop(x + position);
    for (const auto& block : blocks) x = block(x);
    return head(norm(x).mean(1));
  }
};

int run(int argc, char** argv) {
  samples::Options o{
      .dataset = "cifar10", .model = "vit", .schedule = "cosine", .epochs = 10, .batch = 128, .lr = 1e-3};
  Config c{};
  std::string augment = "crop";
  double smoothing = 0.1;
  samples::configure(
      argc, argv,
      {.description = "Trains a vision transformer on small images.",
       .datasets = {"cifar10", "cifar100", "mnist", "fashion", "synthetic", "synthetic-color"},
       .flags = {{"--patch", &c.patch, "Pixels along a patch; divides the image's 28 or 32"},
                 {"--width", &c.width, "Embedding width"},
                 {"--layers", &c.layers, "Transformer layers"},
                 {"--heads", &c.heads, "Attention heads; divides the width"},
                 {"--dropout", &c.dropout, "Part of the activations dropped in training"},
                 {"--augment", &augment, "Random changes of the training images", samples::augmentations},
                 {"--label-smoothing", &smoothing, "Part of the target spread over all classes"}}},
      o);
  const bool color = o.dataset.starts_with("cifar") || o.dataset == "synthetic-color";
  const bool digits = o.dataset == "mnist" || o.dataset.starts_with("synthetic");  // mirroring would change digits
  c.side = color ? 32 : 28;
  c.channels = color ? 3 : 1;
  c.classes = o.dataset == "cifar100" ? 100 : 10;
  check(c.patch >= 1 && c.side % c.patch == 0, "--patch ", c.patch, " does not divide the ", c.side,
        " pixels of an image");
  check(c.heads >= 1 && c.width % c.heads == 0, "--heads ", c.heads, " does not divide the width ", c.width);
  samples::TrainOptions more{.label_smoothing = smoothing};
  more.augment = [&](data::Pipeline p) { return samples::augmented(std::move(p), augment, digits); };
  VisionTransformer net(c);
  return samples::train(net, o, more);
}

int main(int argc, char** argv) { return samples::run_guarded(run, argc, argv); }
