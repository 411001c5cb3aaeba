// libpng's simplified interface and TurboJPEG report errors by return values, so no longjmp crosses C++ frames.
#include "io/image.h"

#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include "core/ops.h"
#include "io/file.h"

namespace mantissa::io {
namespace {

constexpr std::int64_t most_pixels = std::int64_t{1} << 27;
constexpr std::int64_t most_file_bytes = std::int64_t{1} << 30;
constexpr std::int64_t deflate_limit = 1032;  // maximum expansion factor of deflate

using Pixels = std::vector<std::uint8_t>;  // interleaved, as the libraries expect
constexpr bool is_gray(Channels c) { return c == Channels::gray; }

void check_size(const std::string& name, std::int64_t width, std::int64_t height) {
  if (width < 1 || height < 1 || width > most_pixels / height)
    fail_format(name, "is a picture of ", width, " x ", height, " pixels; at most ", most_pixels, " are read");
}

constexpr std::string_view png_signature = "\x89PNG\r\n\x1a\n";

struct PngImage : png_image {
  PngImage() : png_image{} { version = PNG_IMAGE_VERSION; }
  ~PngImage() { png_image_free(this); }
};

// Gray is computed here: libpng would use linear light, unlike all common libraries.
Tensor rgb_to_gray(const Tensor& pixels) {  // of 3 or more channels
  const std::int64_t n = pixels.size(0) * pixels.size(1), step = pixels.size(2);
  const Tensor gray = Tensor::allocate({pixels.size(0), pixels.size(1), 1}, u8);
  const std::uint8_t* in = pixels.data<std::uint8_t>();
  for (std::int64_t i = 0; i < n; ++i, in += step) {
    const int sum = 19595 * in[0] + 38470 * in[1] + 7471 * in[2];  // of 65536
    gray.data<std::uint8_t>()[i] = static_cast<std::uint8_t>((sum + 32768) >> 16);
  }
  return gray;
}
// Keeps only the first n channels.
Tensor first_channels(const Tensor& pixels, std::int64_t n) { return pixels.slice(2, 0, n).contiguous(); }

// Without the chunks that would change stored values for display: other readers of training images (PIL, torchvision)
// return them as they are. Empty if there are no such chunks.
std::string without_color_space(std::string_view bytes) {
  constexpr std::size_t frame = 12;  // length, name and checksum
  std::string kept;
  std::size_t begin = 0, at = 8;
  while (bytes.size() - at >= frame) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) length = length << 8 | static_cast<unsigned char>(bytes[at + i]);
    const std::string_view chunk = bytes.substr(at + 4, 4);
    if (length > bytes.size() - at - frame || chunk == "IDAT") break;
    if (chunk == "gAMA" || chunk == "cHRM" || chunk == "iCCP") {
      kept += bytes.substr(begin, at - begin);
      begin = at + length + frame;
    }
    at += length + frame;
  }
  if (begin > 0) kept += bytes.substr(begin);
  return kept;
}

// Reads the header; `bytes` must live as long as the image.
void begin(PngImage& image, std::string_view bytes, const std::string& name) {
  if (!png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()))
    fail_format(name, "is not a readable PNG: ", image.message);
  const std::int64_t width = image.width, height = image.height;
  check_size(name, width, height);
  // A PNG pixel takes at least one bit before deflate.
  if (width * height / 8 > static_cast<std::int64_t>(bytes.size()) * deflate_limit)
    fail_format(name, "is cut: ", bytes.size(), " bytes cannot hold ", width, " x ", height, " pixels");
}
// u8 [H, W, C] in the image's format.
Tensor finish(PngImage& image, const std::string& name, void* colormap = nullptr) {
  const Tensor pixels = Tensor::allocate({image.height, image.width, PNG_IMAGE_PIXEL_CHANNELS(image.format)}, u8);
  if (!png_image_finish_read(&image, nullptr, pixels.raw_data(), 0, colormap) || image.warning_or_error > 1)
    fail_format(name, "is a damaged PNG: ", image.message);
  return pixels;
}

Tensor decode_png(std::string_view bytes, const std::string& name, Channels channels) {
  const std::string plain = without_color_space(bytes);
  if (!plain.empty()) bytes = plain;
  PngImage image;
  begin(image, bytes, name);
  const bool color = image.format & PNG_FORMAT_FLAG_COLOR, alpha = image.format & PNG_FORMAT_FLAG_ALPHA;
  image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // decode as sRGB, like every viewer
  image.format = color || channels == Channels::rgb ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  if (alpha) image.format |= PNG_FORMAT_FLAG_ALPHA;  // request alpha explicitly, so that it is not blended
  const Tensor pixels = finish(image, name);
  if (color && is_gray(channels)) return rgb_to_gray(pixels);
  return channels == Channels::as_stored ? pixels : first_channels(pixels, is_gray(channels) ? 1 : 3);
}

// Adobe's CMYK is stored inverted, which makes the product with K simple.
Tensor cmyk_to_rgb(const Tensor& pixels) {
  const std::int64_t n = pixels.size(0) * pixels.size(1);
  const Tensor rgb = Tensor::allocate({pixels.size(0), pixels.size(1), 3}, u8);
  const std::uint8_t* in = pixels.data<std::uint8_t>();
  std::uint8_t* out = rgb.data<std::uint8_t>();
  for (std::int64_t i = 0; i < n; ++i, in += 4, out += 3)
    for (int c = 0; c < 3; ++c) out[c] = static_cast<std::uint8_t>(in[c] * in[3] / 255);
  return rgb;
}

// Creating a decoder took 0.2 of the 0.75 ms for a 500 x 375 image, so each thread caches one. After an error it is
// discarded, because it would continue inside the bad file.
using Decoder = std::unique_ptr<void, int (*)(tjhandle)>;
thread_local Decoder kept_decoder(nullptr, ::tjDestroy);

// Warnings of libjpeg-turbo after which all pixels are there.
bool is_harmless(const std::string& warning) {
  for (const char* known : {"Adobe color transform", "progression sequence", "JFIF revision", "bad ICC marker"}) {
    if (warning.find(known) != std::string::npos) return true;
  }
  int bytes = 0;  // more of them are the remains of damaged data
  return std::sscanf(warning.c_str(), "Corrupt JPEG data: %d extraneous bytes", &bytes) == 1 && bytes <= 8;
}

Tensor decode_jpeg(std::string_view bytes, const std::string& name, Channels channels) {
  Decoder owner = kept_decoder ? std::move(kept_decoder) : Decoder(::tjInitDecompress(), ::tjDestroy);
  const tjhandle decoder = owner.get();
  check(decoder != nullptr, "libjpeg-turbo cannot start: ", ::tjGetErrorStr2(nullptr));
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  const auto size = bytes.size();
  int width = 0, height = 0, subsampling = 0, space = 0;
  if (::tjDecompressHeader3(decoder, data, size, &width, &height, &subsampling, &space) != 0 &&
      (::tjGetErrorCode(decoder) == TJERR_FATAL || width <= 0))
    fail_format(name, "is not a readable JPEG: ", ::tjGetErrorStr2(decoder));
  check_size(name, width, height);
  const bool cmyk = space == TJCS_CMYK || space == TJCS_YCCK;
  const bool gray = space == TJCS_GRAY ? channels != Channels::rgb : is_gray(channels);
  const int format = cmyk ? TJPF_CMYK : gray ? TJPF_GRAY : TJPF_RGB;
  // Coded data take at least one bit per block of 64 values.
  if (std::int64_t{width} * height / 512 > static_cast<std::int64_t>(bytes.size()))
    fail_format(name, "is cut: ", bytes.size(), " bytes cannot hold ", width, " x ", height, " pixels");
  const Tensor pixels = Tensor::allocate({height, width, tjPixelSize[format]}, u8);
  const int status = ::tjDecompress2(decoder, data, size, pixels.data<std::uint8_t>(), width, 0, height, format,
                                     TJFLAG_LIMITSCANS);
  const std::string message = status == 0 ? "" : ::tjGetErrorStr2(decoder);
  // Warnings include harmless oddities, such as a few superfluous bytes, and damage, which leaves a part of the picture
  // gray or undefined. Only the first one is known: after it, the end of the image must be there.
  const std::string_view end = bytes.substr(bytes.size() - std::min<std::size_t>(bytes.size(), 65536));
  if (status != 0 && (::tjGetErrorCode(decoder) != TJERR_WARNING || !is_harmless(message) ||
                      end.rfind("\xff\xd9") == std::string_view::npos))
    fail_format(name, "is a damaged JPEG: ", message);
  kept_decoder = std::move(owner);
  if (!cmyk) return pixels;
  return gray ? rgb_to_gray(cmyk_to_rgb(pixels)) : cmyk_to_rgb(pixels);
}

}  // namespace

Tensor decode_pixels(std::string_view bytes, const std::string& name, Channels channels) {
  if (bytes.empty()) fail_format(name, "is empty");
  if (bytes.starts_with(png_signature)) return decode_png(bytes, name, channels);
  if (bytes.starts_with("\xff\xd8\xff")) return decode_jpeg(bytes, name, channels);
  const char* foreign = recognise(bytes.substr(0, 64));
  fail_format(name, "is neither a PNG nor a JPEG", foreign ? "; it looks like " : "", foreign ? foreign : "");
}
Tensor decode_image(std::string_view bytes, const std::string& name, Channels channels) {
  return permute(decode_pixels(bytes, name, channels), {2, 0, 1}).contiguous();
}

Tensor decode_mask(std::string_view bytes, const std::string& name) {
  if (!bytes.starts_with(png_signature)) fail_format(name, "is not a PNG; a mask must be one");
  const std::string plain = without_color_space(bytes);
  if (!plain.empty()) bytes = plain;
  PngImage image;
  begin(image, bytes, name);
  const bool palette = image.format & PNG_FORMAT_FLAG_COLORMAP;
  if (!palette && (image.format & PNG_FORMAT_FLAG_COLOR))
    fail_format(name, "has colors: the classes of a mask are indices of a palette, or gray levels");
  const int bits = bytes[24];  // of the header, which libpng has read
  if (bits > 8) fail_format(name, "has ", bits, " bits per pixel; masks of at most 8 are read");
  if (palette) {
    image.format = PNG_FORMAT_RGBA_COLORMAP;
    Pixels colors(PNG_IMAGE_COLORMAP_SIZE(image));
    return finish(image, name, colors.data()).squeeze(2);
  }
  image.format = image.format & PNG_FORMAT_FLAG_ALPHA ? PNG_FORMAT_GA : PNG_FORMAT_GRAY;
  const Tensor levels = first_channels(finish(image, name), 1).squeeze(2);
  const int step = 255 / ((1 << bits) - 1);  // libpng spreads fewer bits over 0 ... 255
  for (std::int64_t i = 0; i < levels.numel(); ++i)
    levels.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(levels.data<std::uint8_t>()[i] / step);
  return levels;
}

Tensor read_mask(const std::string& path) { return decode_mask(read_file(path, most_file_bytes), path); }
Tensor read_pixels(const std::string& path, Channels channels) {
  return decode_pixels(read_file(path, most_file_bytes), path, channels);
}
Tensor read_image(const std::string& path, Channels channels) {
  return decode_image(read_file(path, most_file_bytes), path, channels);
}

namespace {

struct Interleaved {
  Pixels pixels;
  std::int64_t channels, height, width;
};
// For an image of at most `most` channels, and width and height of at most `longest`.
Interleaved interleave(const char* op, const Tensor& image, std::int64_t most, std::int64_t longest) {
  check(image.defined() && (image.dim() == 2 || (image.dim() == 3 && image.size(0) >= 1 && image.size(0) <= most)) &&
            image.numel() > 0 && (image.dtype() == u8 || image.is_floating()),
        op, ": expected u8 or floating [H, W] or [C, H, W] with 1 to ", most, " channels, got ", image);
  Interleaved p{{}, image.dim() == 2 ? 1 : image.size(0), image.size(-2), image.size(-1)};
  check(p.height <= longest && p.width <= longest, op, ": a picture of ", p.width, " x ", p.height,
        " pixels is too large");
  const std::vector<float> values = image.detach().to_vector<float>();
  const bool scaled = image.dtype() != u8;
  p.pixels.resize(values.size());
  const std::int64_t plane = p.height * p.width;
  for (std::int64_t c = 0; c < p.channels; ++c)
    for (std::int64_t i = 0; i < plane; ++i) {
      const float v = values[static_cast<std::size_t>(c * plane + i)] * (scaled ? 255.0f : 1.0f);
      const float cut = v > 0 ? std::min(v, 255.0f) : 0.0f;  // NaN is black
      p.pixels[static_cast<std::size_t>(i * p.channels + c)] = static_cast<std::uint8_t>(std::lround(cut));
    }
  return p;
}

}  // namespace

std::string encode_png(const Tensor& image) {
  const Interleaved p = interleave("encode_png", image, 4, INT32_MAX / 4);
  PngImage png;
  png.width = static_cast<png_uint_32>(p.width);
  png.height = static_cast<png_uint_32>(p.height);
  png.format =
      (p.channels > 2 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY) | (p.channels % 2 == 0 ? PNG_FORMAT_FLAG_ALPHA : 0u);
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png);
  std::string bytes(size, '\0');
  check(png_image_write_to_memory(&png, bytes.data(), &size, 0, p.pixels.data(), 0, nullptr), "encode_png: ",
        png.message);
  bytes.resize(size);
  return bytes;
}

std::string encode_jpeg(const Tensor& image, int quality) {
  check(quality >= 1 && quality <= 100, "encode_jpeg: the quality must be from 1 to 100, got ", quality);
  const Interleaved p = interleave("encode_jpeg", image, 3, 65500);  // the format's limit
  check(p.channels != 2, "encode_jpeg: needs 1 or 3 channels, got ", image);
  const std::unique_ptr<void, int (*)(tjhandle)> encoder(::tjInitCompress(), ::tjDestroy);
  check(encoder != nullptr, "libjpeg-turbo cannot start: ", ::tjGetErrorStr2(nullptr));
  unsigned char* data = nullptr;
  unsigned long size = 0;
  const bool gray = p.channels == 1;
  const int status =
      ::tjCompress2(encoder.get(), p.pixels.data(), static_cast<int>(p.width), 0, static_cast<int>(p.height),
                    gray ? TJPF_GRAY : TJPF_RGB, &data, &size, gray ? TJSAMP_GRAY : TJSAMP_420, quality,
                    TJFLAG_ACCURATEDCT);
  const std::unique_ptr<unsigned char, void (*)(unsigned char*)> owner(data, ::tjFree);
  check(status == 0, "encode_jpeg: ", ::tjGetErrorStr2(encoder.get()));
  return {reinterpret_cast<const char*>(data), size};
}

void write_png(const std::string& path, const Tensor& image) {
  AtomicFile file(path);
  file.write(encode_png(image));
  file.commit();
}

void write_jpeg(const std::string& path, const Tensor& image, int quality) {
  AtomicFile file(path);
  file.write(encode_jpeg(image, quality));
  file.commit();
}

Tensor make_grid(const Tensor& images, GridOptions o) {
  check(images.defined() && images.dim() == 4 && images.numel() > 0 && (images.size(1) == 1 || images.size(1) == 3) &&
            (images.dtype() == u8 || images.is_floating()),
        "make_grid: expected u8 or floating images [N, C, H, W] with 1 or 3 channels, got ", images);
  check(o.columns >= 1 && o.padding >= 0, "make_grid: needs at least one column and no negative padding, got ",
        o.columns, " and ", o.padding);
  const std::int64_t n = images.size(0), channels = images.size(1), h = images.size(2), w = images.size(3);
  const std::int64_t columns = std::min(n, o.columns), rows = (n + columns - 1) / columns;
  std::vector<float> values = images.detach().to_vector<float>();
  if (images.dtype() == u8) for (float& v : values) v /= 255.0f;
  if (o.normalize) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    const float shift = *low, scale = 1 / std::max(*high - *low, 1e-5f);
    for (float& v : values) v = (v - shift) * scale;
  }
  const std::int64_t height = rows * (h + o.padding) + o.padding, width = columns * (w + o.padding) + o.padding;
  Tensor grid = full({channels, height, width}, o.pad_value);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t y = 0; y < h; ++y) {
        const std::int64_t row = (i / columns) * (h + o.padding) + o.padding + y,
                           column = (i % columns) * (w + o.padding) + o.padding;
        std::copy_n(values.data() + ((i * channels + c) * h + y) * w, w,
                    grid.data<float>() + (c * height + row) * width + column);
      }
  return grid;
}

void save_image_grid(const std::string& path, const Tensor& images, GridOptions options) {
  write_png(path, make_grid(images, options));
}

}  // namespace mantissa::io
