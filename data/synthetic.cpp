// A digit is a few line segments in the unit square (x to the right, y down). Each image applies its own random affine
// map and shades every pixel by its distance to the nearest segment.
#include "data/synthetic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "core/parallel.h"
#include "data/draws.h"

namespace mantissa::data {
namespace {

constexpr int side = 28;
constexpr int classes = 10;

struct Point { float x, y; };
struct Segment { Point a, b; };
using Glyph = std::vector<Segment>;

void line(Glyph& g, Point a, Point b) { g.push_back({a, b}); }
// Part of an ellipse, angles in degrees: 0 is right, 90 is down.
void arc(Glyph& g, Point centre, float rx, float ry, float from, float to) {
  const int pieces = static_cast<int>(std::abs(to - from) / 30) + 1;
  const auto at = [&](int i) {
    const float angle =
        (from + (to - from) * static_cast<float>(i) / static_cast<float>(pieces)) * 0.017453293f;
    return Point{centre.x + rx * std::cos(angle), centre.y + ry * std::sin(angle)};
  };
  for (int i = 0; i < pieces; ++i) line(g, at(i), at(i + 1));
}

std::array<Glyph, classes> draw_glyphs() {
  std::array<Glyph, classes> g;
  arc(g[0], {.5f, .5f}, .28f, .42f, 0, 360);
  line(g[1], {.36f, .25f}, {.55f, .08f});
  line(g[1], {.55f, .08f}, {.55f, .92f});
  arc(g[2], {.5f, .32f}, .27f, .24f, 190, 390);
  line(g[2], {.73f, .44f}, {.22f, .9f});
  line(g[2], {.22f, .9f}, {.8f, .9f});
  arc(g[3], {.47f, .29f}, .25f, .2f, 200, 450);
  arc(g[3], {.47f, .7f}, .28f, .21f, 270, 520);
  line(g[4], {.62f, .08f}, {.2f, .62f});
  line(g[4], {.2f, .62f}, {.82f, .62f});
  line(g[4], {.62f, .08f}, {.62f, .92f});
  line(g[5], {.75f, .1f}, {.3f, .1f});
  line(g[5], {.3f, .1f}, {.28f, .47f});
  arc(g[5], {.47f, .66f}, .28f, .25f, 225, 500);
  arc(g[6], {.5f, .67f}, .26f, .24f, 0, 360);
  arc(g[6], {.72f, .62f}, .48f, .52f, 180, 265);
  line(g[7], {.2f, .1f}, {.8f, .1f});
  line(g[7], {.8f, .1f}, {.42f, .92f});
  arc(g[8], {.5f, .28f}, .21f, .19f, 0, 360);
  arc(g[8], {.5f, .7f}, .27f, .22f, 0, 360);
  arc(g[9], {.5f, .33f}, .26f, .24f, 0, 360);
  arc(g[9], {.28f, .38f}, .48f, .54f, 0, 85);
  return g;
}

float squared_distance(Point p, const Segment& s) {
  const float dx = s.b.x - s.a.x, dy = s.b.y - s.a.y, length = dx * dx + dy * dy;
  const float along =
      length > 0 ? std::clamp(((p.x - s.a.x) * dx + (p.y - s.a.y) * dy) / length, 0.0f, 1.0f) : 0;
  const float x = p.x - s.a.x - along * dx, y = p.y - s.a.y - along * dy;
  return x * x + y * y;
}

// The glyph in pixel coordinates, with this image's random distortion.
Glyph place(const Glyph& glyph, Draws& draws) {
  const float angle = draws.uniform(-0.22f, 0.22f), shear = draws.uniform(-0.2f, 0.2f);
  const float wide = draws.uniform(16, 21), high = draws.uniform(18, 22);
  const float x0 = side / 2 + draws.uniform(-2, 2), y0 = side / 2 + draws.uniform(-2, 2);
  const float c = std::cos(angle), s = std::sin(angle);
  const auto move = [&](Point p) {
    const float y = (p.y - 0.5f) * high, x = (p.x - 0.5f) * wide - shear * y;
    return Point{x0 + c * x - s * y, y0 + s * x + c * y};
  };
  Glyph result;
  for (const Segment& segment : glyph) result.push_back({move(segment.a), move(segment.b)});
  return result;
}

void render(const Glyph& glyph, Draws& draws, std::uint8_t* picture) {
  const float radius = draws.uniform(0.7f, 1.5f), ink = draws.uniform(200, 255), noise = draws.uniform(0, 24);
  const float reach = radius + 1;  // maximum distance at which a segment affects a pixel
  float nearest[side * side];
  std::fill_n(nearest, side * side, reach * reach);
  const auto pixel = [](float at) { return std::clamp(static_cast<int>(at), 0, side - 1); };
  for (const Segment& s : glyph) {
    const int top = pixel(std::min(s.a.y, s.b.y) - reach), bottom = pixel(std::max(s.a.y, s.b.y) + reach);
    const int left = pixel(std::min(s.a.x, s.b.x) - reach), right = pixel(std::max(s.a.x, s.b.x) + reach);
    for (int y = top; y <= bottom; ++y)
      for (int x = left; x <= right; ++x) {
        const Point centre{static_cast<float>(x) + 0.5f, static_cast<float>(y) + 0.5f};
        nearest[y * side + x] = std::min(nearest[y * side + x], squared_distance(centre, s));
      }
  }
  for (int i = 0; i < side * side; ++i) {
    const float covered = std::clamp(radius + 0.5f - std::sqrt(nearest[i]), 0.0f, 1.0f);
    picture[i] = static_cast<std::uint8_t>(std::min(ink * covered + noise * draws.uniform(), 255.0f));
  }
}

}  // namespace

Dataset synthetic_digits(std::int64_t count, std::uint64_t seed, std::uint64_t part) {
  check(count >= 1, "synthetic_digits: needs at least 1 picture, got ", count);
  static const std::array<Glyph, classes> glyphs = draw_glyphs();
  Dataset set;
  set.images = Tensor::allocate({count, 1, side, side}, u8);
  set.labels = Tensor::allocate({count}, i64);
  auto* picture = set.images.data<std::uint8_t>();
  auto* label = set.labels.data<std::int64_t>();
  parallel_for(count, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      Draws draws(seed, Purpose::synthetic, part, static_cast<std::uint64_t>(i));
      label[i] = draws.below(classes);
      render(place(glyphs[label[i]], draws), draws, picture + i * side * side);
    }
  });
  set.classes = classes;
  set.name = "synthetic";
  set.source = concat("synthetic digits: ", count, " pictures drawn by a generator with seed ", seed);
  set.mean = {0.12f};
  set.std = {0.256f};
  return set;
}

Dataset synthetic_color_digits(std::int64_t count, std::uint64_t seed, std::uint64_t part) {
  constexpr int wide = 32, margin = (wide - side) / 2;
  Dataset set = synthetic_digits(count, seed, part);
  const Tensor gray = std::exchange(set.images, Tensor::allocate({count, 3, wide, wide}, u8));
  parallel_for(count, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      Draws draws(seed, Purpose::color, part, static_cast<std::uint64_t>(i));
      const std::uint8_t* from = gray.data<std::uint8_t>() + i * side * side;
      for (int channel = 0; channel < 3; ++channel) {
        const float back = draws.uniform(0, 120), front = draws.uniform(135, 255);
        std::uint8_t* to = set.images.data<std::uint8_t>() + (i * 3 + channel) * wide * wide;
        for (int y = 0; y < wide; ++y)
          for (int x = 0; x < wide; ++x) {
            const int sy = y - margin, sx = x - margin;
            const bool inside = sy >= 0 && sy < side && sx >= 0 && sx < side;
            const float ink = inside ? static_cast<float>(from[sy * side + sx]) / 255.0f : 0.0f;
            to[y * wide + x] = static_cast<std::uint8_t>(back + (front - back) * ink);
          }
      }
    }
  });
  set.name = "synthetic-color";
  set.source = concat("synthetic digits in colour: ", count, " pictures drawn by a generator with seed ", seed);
  set.mean = {0.281f};
  set.std = {0.179f};
  return set;
}

}  // namespace mantissa::data
