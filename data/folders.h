// Where datasets are searched for on this machine.
#pragma once

#include <string>
#include <vector>

namespace mantissa::data {

bool path_exists(const std::string& path);
bool is_folder(const std::string& path);

// Folders that may contain dataset `name` if the user gave none, in search order:
//   $MANTISSA_DATA/<name>, $MANTISSA_DATA
//   $XDG_DATA_HOME/mantissa/datasets/<name>, and without <name>   (default ~/.local/share)
//   /usr/share/datasets/<name>, and without <name>                Debian's packages dataset-*
std::vector<std::string> usual_folders(const std::string& name);

}  // namespace mantissa::data
