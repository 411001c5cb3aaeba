// Shared by the image classifiers: the mixed-precision training loop and evaluation. A sample adds its models and
// main(). A model is any nn module that maps images [N, C, H, W] to logits [N, classes].
#pragma once

#include <algorithm>
#include <functional>

#include "run.h"

namespace samples {

template <class Net> double accuracy(Net& net, data::Loader& loader, const Run& run) {
  const NoGrad no_grad;
  nn::eval(net);
  std::int64_t right = 0, seen = 0;
  for (auto [image, label] : loader) {
    const Tensor logits = amp::autocast(run.dtype, [&] { return net(image); });
    right += cast(argmax(logits, 1) == label, i64).sum().template item<std::int64_t>();
    seen += label.numel();
  }
  nn::train(net);
  const Tensor counts = from_data<std::int64_t>(std::vector{right, seen}, {2});  // over all processes
  run.world.all_reduce(counts);
  right = counts.data<std::int64_t>()[0], seen = counts.data<std::int64_t>()[1];
  return seen > 0 ? static_cast<double>(right) / static_cast<double>(seen) : 0;
}

struct TrainOptions {
  std::function<data::Pipeline(data::Pipeline)> augment = [](data::Pipeline p) { return p; };  // training only
  double label_smoothing = 0;
};

// Trains `net` according to the options; returns the exit code.
template <class Net>
int train(Net& net, const Options& o, const data::SourcePtr& train_set, const data::SourcePtr& test_set,
          const TrainOptions& more = {}) {
  const Device device = device_of(o);
  const distributed::ProcessGroup& world = distributed::world();
  data::Loader loader = more.augment(data::Pipeline(train_set).shuffle(o.seed))
                            .shard(world.rank(), world.size())
                            .batch(o.batch)
                            .drop_last(train_set->size() >= o.batch * world.size())
                            .threads(o.workers)
                            .to(device)
                            .loader();
  Dims image = train_set->image_sizes();
  const std::int64_t test_batch = std::clamp<std::int64_t>((1 << 22) / numel_of(image), 1, 1000);
  data::Loader test_loader = data::Pipeline(test_set)
                                 .shard(world.rank(), world.size(), data::Uneven::keep)
                                 .batch(test_batch).threads(o.workers).to(device).loader();

  Run run(o, {.steps_per_epoch = loader.batches(), .items_per_step = o.batch, .items = "images"});
  run.keep("loader", loader);
  run.keep("model", net);
  run.parallel(net);
  optim::Optimizer& optimizer = run.optimizer("optim", nn::named_parameters(net));
  run.evaluate([&] { return Values{{"test_accuracy", accuracy(net, test_loader, run)}}; });
  image.insert(0, 2);
  run.onnx(net, {reshape(linspace(0, 1, numel_of(image)), image)},
           {.input_names = {"image"}, .output_names = {"logits"}},
           [&](const Tensor& x) { return net(x); });
  run.start(train_set->info().source, nn::count(net));
  data::Batch batch;
  while (run.next()) {
    while (!loader.next(batch)) {}  // next() returns false once per epoch
    optimizer.zero_grad();
    const CrossEntropyOptions options{.label_smoothing = more.label_smoothing};
    const Tensor loss = amp::autocast(run.dtype, [&] { return cross_entropy(net(batch.image), batch.label, options); });
    backward(run.scaler.scale(loss));
    run.scaler.step(optimizer);
    run.scaler.update();
    run.done({{"loss", loss}});
  }
  return run.finish();
}

// With the dataset named in the options.
template <class Net> int train(Net& net, const Options& o, const TrainOptions& more = {}) {
  data::Dataset train_set = data::load_dataset(o.dataset, data::Split::train, o.data);
  data::Dataset test_set = data::load_dataset(o.dataset, data::Split::test, o.data);
  if (o.limit > 0) {
    train_set = train_set.first(std::min(o.limit, train_set.size()));
    test_set = test_set.first(std::min(o.limit, test_set.size()));
  }
  test_set.mean = train_set.mean;
  test_set.std = train_set.std;
  return train(net, o, data::as_source(std::move(train_set)), data::as_source(std::move(test_set)), more);
}

}  // namespace samples
