// NumPy files: .npy holds one array, .npz several named ones (a zip archive of .npy files). Format: numpy.lib.format,
// versions 1 to 3. Arrays of Python objects, which NumPy pickles, and structured arrays are rejected; the header is
// parsed by a fixed grammar, never evaluated as Python.
#pragma once

#include <string>

#include "io/safetensors.h"

namespace mantissa::io {

// On the CPU, contiguous. bool, u8, i32, i64, f16, f32 and f64 are kept; i1, i2 and u2 widen to i32, u4 and u8 (64
// bits) to i64; either byte order; Fortran order is converted to row-major. At most 8 dimensions. Throws FormatError
// with path and reason, or Error if the file cannot be opened.
Tensor load_npy(const std::string& path);
// In file order, under np.savez's names: "x" for the entry "x.npy". Also reads np.savez_compressed.
NamedTensors load_npz(const std::string& path);

// As np.save and np.savez; the file appears when complete (io/file.h). Any layout and device. bf16, which NumPy lacks,
// is an Error.
void save_npy(const std::string& path, const Tensor& tensor);
void save_npz(const std::string& path, const NamedTensors& tensors);

}  // namespace mantissa::io
