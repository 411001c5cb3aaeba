// Handwriting-like digits drawn by a seeded program: 28x28 pictures of ten classes that a network can
// learn, for tests and for a first run on a machine without any data.
#pragma once

#include <cstdint>

#include "data/dataset.h"

namespace mantissa::data {

// `count` pictures, u8 [count, 1, 28, 28]; the label of picture i is drawn too. Strokes are turned,
// scaled, sheared, shifted, and differ in width and noise. The same (seed, part) gives the same
// pictures on any number of threads; use another `part` for the test set.
Dataset synthetic_digits(std::int64_t count, std::uint64_t seed = 0, std::uint64_t part = 0);

// The same digits in a colour of their own on a background of another one: u8 [count, 3, 32, 32], the
// shape of CIFAR's pictures.
Dataset synthetic_color_digits(std::int64_t count, std::uint64_t seed = 0, std::uint64_t part = 0);

}  // namespace mantissa::data
