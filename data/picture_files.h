// What data/image_folder.cpp and data/mask_folder.cpp share. Internal.
#pragma once

#include <string>
#include <vector>

#include "data/image_folder.h"

namespace mantissa::data {

// The .png, .jpg and .jpeg files under the folder, at any depth, sorted by bytes; hidden ones are skipped. Links to
// folders are not followed, so that cyclic ones terminate.
std::vector<std::string> pictures_under(const std::string& folder);

// The options with the default of `resize` filled in. Error if they are invalid, in the name of `who`.
ImageFolderOptions checked(ImageFolderOptions options, const char* who);
Dims sizes_of_images(const ImageFolderOptions& options);
void set_normalization(Info& info, const ImageFolderOptions& options);  // ImageNet's

// A picture's part, u8 [1, C, size, size]: the central window or, with draws, the random one of `options`. Only the
// pixels of the result are computed. pixels: u8 [H, W, C].
Tensor part_of(const Tensor& pixels, const ImageFolderOptions& options, Draws* draws,
               Interpolation interpolation = Interpolation::bilinear);

}  // namespace mantissa::data
