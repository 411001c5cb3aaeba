// The part of a COCO file that describes boxes. Internal: data/coco.cpp reads it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace mantissa::data {

struct CocoFile {
  struct Image {
    std::int64_t id = 0;
    std::string file = {};
  };
  struct Category {
    std::int64_t id = 0;
    std::string name = {};
  };
  struct Annotation {
    std::int64_t image = 0, category = 0;
    std::array<double, 4> box{};  // x, y, width, height
    bool crowd = false;
  };
  std::vector<Image> images;
  std::vector<Category> categories;
  std::vector<Annotation> annotations;
};

// FormatError if the file is none, too. Only what is kept takes memory beside the text.
CocoFile read_coco(const std::string& path);

}  // namespace mantissa::data
