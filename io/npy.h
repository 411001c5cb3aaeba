// NumPy's files: .npy holds one array, .npz several under names (a zip archive of .npy files).
// Format: numpy.lib.format, versions 1 to 3. Arrays of Python objects, which NumPy pickles, and structured ones are
// refused; a header is a fixed grammar here and never a Python expression.
#pragma once

#include <string>

#include "io/safetensors.h"

namespace mantissa::io {

// On the CPU, contiguous. bool, u8, i32, i64, f16, f32 and f64 come as they are, i1, i2 and u2 widen to i32, u4 and u8
// (64 bits) to i64; either byte order; Fortran's order of elements is turned into ours. At most 8 dimensions.
// Throws FormatError with path and reason, or Error when the file cannot be opened.
Tensor load_npy(const std::string& path);
// In the order of the file, under the names of np.savez: "x" of the entry "x.npy". Also of np.savez_compressed.
NamedTensors load_npz(const std::string& path);

// As np.save and np.savez; the file appears when it is complete (io/file.h). Any layout and device. NumPy has no bf16:
// an error that says so.
void save_npy(const std::string& path, const Tensor& tensor);
void save_npz(const std::string& path, const NamedTensors& tensors);

}  // namespace mantissa::io
