// Handwriting-like digits from a seeded generator: 28x28 images of ten classes that a network can learn, for tests and
// for a first run on a machine without data.
#pragma once

#include <cstdint>

#include "data/dataset.h"

namespace mantissa::data {

// `count` images, u8 [count, 1, 28, 28]; labels are random too. Strokes are rotated, scaled, sheared, shifted, and vary
// in width and noise. The same (seed, part) gives the same images on any number of threads; use another `part` for the
// test set.
Dataset synthetic_digits(std::int64_t count, std::uint64_t seed = 0, std::uint64_t part = 0);

// The same digits in a random colour on a background of another: u8 [count, 3, 32, 32], the shape of CIFAR's images.
Dataset synthetic_color_digits(std::int64_t count, std::uint64_t seed = 0, std::uint64_t part = 0);

}  // namespace mantissa::data
