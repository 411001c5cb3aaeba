// Uses nlohmann's SAX interface: files have hundreds of megabytes, most of them outlines, of which nothing is kept.
#include "data/coco_file.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "io/file.h"

namespace mantissa::data {
namespace {

using Json = nlohmann::json;
using io::fail_format;
using io::quote;

constexpr std::int64_t most_bytes = std::int64_t{4} << 30;

// Depths of what is open: the object of the file, a list in it, a record of the list, a list in the record.
enum Depth { nothing, file, list, record, inside };

class Parser final : public nlohmann::json_sax<Json> {
 public:
  explicit Parser(const std::string& path) : path_(path) {}
  CocoFile result;

  bool start_object(std::size_t) override {
    if (depth_ == list) fields_ = {};
    ++depth_;
    return true;
  }
  bool end_object() override {
    if (--depth_ == list) finish();
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ == nothing) fail_format(path_, "must be a JSON object");
    if (depth_ == record && field_ == "bbox") fields_.box.clear();
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool key(std::string& name) override {
    if (depth_ == file) section_ = std::move(name);
    else if (depth_ == record) field_ = std::move(name);
    return true;
  }
  bool number_integer(std::int64_t value) override {
    if (depth_ == record) {
      if (field_ == "id") fields_.id = value;
      else if (field_ == "image_id") fields_.image = value;
      else if (field_ == "category_id") fields_.category = value;
      else if (field_ == "iscrowd") fields_.crowd = value != 0;
    }
    return number(static_cast<double>(value));
  }
  bool number_unsigned(std::uint64_t value) override {
    if (value > INT64_MAX) return number(static_cast<double>(value));
    return number_integer(static_cast<std::int64_t>(value));
  }
  bool number_float(double value, const std::string&) override { return number(value); }
  bool string(std::string& value) override {
    if (depth_ == record && (field_ == "file_name" || field_ == "name")) fields_.text = std::move(value);
    return true;
  }
  bool boolean(bool value) override {
    if (depth_ == record && field_ == "iscrowd") fields_.crowd = value;
    return true;
  }
  bool null() override { return true; }
  bool binary(Json::binary_t&) override { return true; }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception&) override {
    fail_format(path_, "is not valid JSON at byte ", at);
  }

 private:
  struct Fields {
    std::optional<std::int64_t> id, image, category;
    std::optional<std::string> text;
    std::vector<double> box;
    bool crowd = false;
  };

  bool number(double value) {
    if (depth_ == inside && field_ == "bbox" && fields_.box.size() <= 4) fields_.box.push_back(value);
    return true;
  }
  template <class T> T needed(const std::optional<T>& field, const char* name) const {
    if (!field) fail_format(path_, section_, "[", count_of_section(), "] has no ", name);
    return *field;
  }
  std::size_t count_of_section() const {
    if (section_ == "images") return result.images.size();
    return section_ == "categories" ? result.categories.size() : result.annotations.size();
  }
  void finish() {
    if (section_ == "images") {
      result.images.push_back({needed(fields_.id, "id"), needed(fields_.text, "file_name")});
    } else if (section_ == "categories") {
      result.categories.push_back({needed(fields_.id, "id"), needed(fields_.text, "name")});
    } else if (section_ == "annotations") {
      CocoFile::Annotation a{
          needed(fields_.image, "image_id"), needed(fields_.category, "category_id"), {}, fields_.crowd};
      if (fields_.box.size() != 4)
        fail_format(path_, "annotations[", count_of_section(), "] has no bbox of four numbers");
      for (std::size_t i = 0; i < 4; ++i) a.box[i] = fields_.box[i];
      result.annotations.push_back(a);
    }
  }

  const std::string& path_;
  int depth_ = nothing;
  std::string section_, field_;
  Fields fields_;
};

}  // namespace

CocoFile read_coco(const std::string& path) {
  const std::string text = io::read_file(path, most_bytes);
  if (const char* what = io::recognise(text.substr(0, 64))) fail_format(path, "is ", what);
  Parser parser(path);
  Json::sax_parse(text, &parser);
  return std::move(parser.result);
}

}  // namespace mantissa::data
