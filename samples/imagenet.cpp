// ImageNet, or other photographs in one folder per class: ResNet-18, -34, -50 and -101 with torchvision's parameter
// names, from scratch or from its weights.
//   imagenet --data imagenet --workers 8         imagenet/train/<class>/*.JPEG, imagenet/val/...; 90 epochs, bf16
//   imagenet --data photos --weights resnet50.pth --epochs 5 --lr 0.002    fine-tunes; other classes: a new last layer
//   imagenet --help
#include <array>

#include "common/trainer.h"

using namespace mantissa;

nn::Sequential shortcut(std::int64_t in, std::int64_t out, int stride) {
  if (stride == 1 && in == out) return {};  // identity
  return nn::Sequential{nn::Conv2d(in, out, 1, {.stride = stride, .bias = false}), nn::BatchNorm2d(out)};
}

struct BasicBlock {  // two 3x3 convolutions beside a shortcut: He et al., "Deep residual learning", 2015
  static constexpr std::int64_t expansion = 1;
  BasicBlock(std::int64_t in, std::int64_t width, int stride)
      : conv1(in, width, 3, {.stride = stride, .padding = 1, .bias = false}),
        conv2(width, width, 3, {.padding = 1, .bias = false}), bn1(width), bn2(width),
        downsample(shortcut(in, width, stride)) {}
  nn::Conv2d conv1, conv2;
  nn::BatchNormAct2d bn1, bn2;  // relu included
  nn::Sequential downsample;
  MANTISSA_FIELDS(conv1, bn1, conv2, bn2, downsample)

  Tensor operator()(const Tensor& x) const { return bn2(conv2(bn1(conv1(x))), downsample(x)); }
};

struct Bottleneck {  // 1x1, 3x3, 1x1; the 3x3 has the stride, as in torchvision
  static constexpr std::int64_t expansion = 4;
  Bottleneck(std::int64_t in, std::int64_t width, int stride)
      : conv1(in, width, 1, {.bias = false}), conv2(width, width, 3, {.stride = stride, .padding = 1, .bias = false}),
        conv3(width, 4 * width, 1, {.bias = false}), bn1(width), bn2(width), bn3(4 * width),
        downsample(shortcut(in, 4 * width, stride)) {}
  nn::Conv2d conv1, conv2, conv3;
  nn::BatchNormAct2d bn1, bn2, bn3;
  nn::Sequential downsample;
  MANTISSA_FIELDS(conv1, bn1, conv2, bn2, conv3, bn3, downsample)

  Tensor operator()(const Tensor& x) const { return bn3(conv3(bn2(conv2(bn1(conv1(x))))), downsample(x)); }
};

template <class Block> struct ResNet {
  ResNet(std::array<int, 4> depths, std::int64_t classes)
      : layer1(stage(64, 64, depths[0], 1)), layer2(stage(64 * Block::expansion, 128, depths[1], 2)),
        layer3(stage(128 * Block::expansion, 256, depths[2], 2)),
        layer4(stage(256 * Block::expansion, 512, depths[3], 2)), fc(512 * Block::expansion, classes) {
    nn::for_each<nn::Conv2d>(*this, [](nn::Conv2d& conv) {
      nn::init::kaiming_normal_(conv.weight, 0, nn::init::Fan::out, nn::init::Nonlinearity::relu);
    });
  }
  static nn::ModuleList<Block> stage(std::int64_t in, std::int64_t width, int depth, int stride) {
    nn::ModuleList<Block> blocks;
    for (int i = 0; i < depth; ++i)
      blocks.emplace_back(i == 0 ? in : width * Block::expansion, width, i == 0 ? stride : 1);
    return blocks;
  }
  nn::Conv2d conv1{3, 64, 7, {.stride = 2, .padding = 3, .bias = false}};
  nn::BatchNormAct2d bn1{64};
  nn::ModuleList<Block> layer1, layer2, layer3, layer4;
  nn::Linear fc;
  MANTISSA_FIELDS(conv1, bn1, layer1, layer2, layer3, layer4, fc)

  Tensor operator()(const Tensor& image) const {
    Tensor x = max_pool2d(bn1(conv1(image)), 3, {.stride = 2, .padding = 1});
    for (const auto* layer : {&layer1, &layer2, &layer3, &layer4})
      for (const Block& block : *layer) x = block(x);
    return fc(flatten(adaptive_avg_pool2d(x, 1), 1));
  }
};

// Loads weights from a file; the last layer only if its number of classes matches.
template <class Net> void load_weights(Net& net, const std::string& path) {
  NamedTensors state = io::is_torch_file(path) ? io::load_torch(path).tensors : io::load_safetensors(path).tensors;
  const std::int64_t classes = net.fc.weight.size(0);
  const auto of_other_classes = [&](const auto& entry) {
    return entry.first.starts_with("fc.") && (entry.second.dim() == 0 || entry.second.size(0) != classes);
  };
  const bool last_layer_is_new = std::erase_if(state, of_other_classes) > 0;
  const nn::LoadResult result = nn::load_state_dict(net, state, {.strict = !last_layer_is_new});
  for (const std::string& name : result.missing)
    check(name.starts_with("fc."), path, " has no ", name, "; --model says which network the weights are of");
}

template <class Block>
int train(std::array<int, 4> depths, const samples::Options& o, const samples::TrainOptions& more,
          const std::string& weights, const data::SourcePtr& train_set, const data::SourcePtr& val_set) {
  ResNet<Block> net(depths, train_set->info().classes);
  if (!weights.empty()) load_weights(net, weights);
  return samples::train(net, o, train_set, val_set, more);
}

data::SourcePtr first_of(data::SourcePtr set, std::int64_t limit) {
  if (limit == 0 || limit >= set->size()) return set;
  std::vector<std::int64_t> every;  // every n-th image: images are sorted by class
  for (std::int64_t i = 0; i < limit; ++i) every.push_back(i * set->size() / limit);
  return data::subset(std::move(set), std::move(every));
}

int run(int argc, char** argv) {
  samples::Options o{.dataset = "folder", .model = "resnet50", .optimizer = "sgd", .schedule = "cosine", .epochs = 90,
                     .batch = 64, .lr = 0.025, .weight_decay = 1e-4};  // 0.1 for batches of 256: Goyal et al., 2017
  std::int64_t size = 224;
  double smoothing = 0.1;
  std::string weights, augment = "flip";
  samples::configure(
      argc, argv,
      {.description = "Trains a ResNet on the pictures in --data FOLDER: train/<class>/..., val/<class>/...; without "
                      "a folder, on drawn digits.",
       .models = {"resnet18", "resnet34", "resnet50", "resnet101"},
       .datasets = {"folder", "synthetic-color"},
       .flags = {{"--size", &size, "Pixels along a picture: a random window, or the middle for the test"},
                 {"--weights", &weights, "Begin with these: .pth of torchvision, .safetensors"},
                 {"--augment", &augment, "Random changes of the windows", {"none", "flip", "trivial", "rand"}},
                 {"--label-smoothing", &smoothing, "Part of the target spread over all classes"}}},
      o);
  data::SourcePtr train_set, val_set;
  if (o.dataset == "folder" && !o.data.empty()) {
    train_set = data::image_folder(o.data + "/train", {.size = size, .random_crop = data::ResizedCropOptions{}});
    val_set = data::image_folder(o.data + "/val", {.size = size});
    check(train_set->info().class_names == val_set->info().class_names, o.data,
          ": the classes in train and in val differ");
  } else {
    train_set = data::as_source(data::load_dataset("synthetic-color", data::Split::train));
    val_set = data::as_source(data::load_dataset("synthetic-color", data::Split::test));
  }
  train_set = first_of(train_set, o.limit), val_set = first_of(val_set, o.limit);
  samples::TrainOptions more{.label_smoothing = smoothing};
  more.augment = [&](data::Pipeline p) {
    if (augment != "none") p = p.random_flip();
    if (augment == "trivial") p = p.trivial_augment_wide();
    if (augment == "rand") p = p.rand_augment();
    return p;
  };
  if (o.model == "resnet18") return train<BasicBlock>({2, 2, 2, 2}, o, more, weights, train_set, val_set);
  if (o.model == "resnet34") return train<BasicBlock>({3, 4, 6, 3}, o, more, weights, train_set, val_set);
  if (o.model == "resnet101") return train<Bottleneck>({3, 4, 23, 3}, o, more, weights, train_set, val_set);
  return train<Bottleneck>({3, 4, 6, 3}, o, more, weights, train_set, val_set);
}

int main(int argc, char** argv) { return samples::run_guarded(run, argc, argv); }
