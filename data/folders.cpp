#include "data/folders.h"

#include <sys/stat.h>

#include <cstdlib>

namespace mantissa::data {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

bool path_exists(const std::string& path) {
  struct stat st;
  return ::stat(path.c_str(), &st) == 0;
}

bool is_folder(const std::string& path) {
  struct stat st;
  return ::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

std::vector<std::string> usual_folders(const std::string& name) {
  std::vector<std::string> roots;
  if (const std::string data = environment("MANTISSA_DATA"); !data.empty()) roots.push_back(data);
  std::string share = environment("XDG_DATA_HOME");
  if (const std::string home = environment("HOME"); share.empty() && !home.empty()) share = home + "/.local/share";
  if (!share.empty()) roots.push_back(share + "/mantissa/datasets");
  roots.push_back("/usr/share/datasets");
  std::vector<std::string> folders;
  for (const std::string& root : roots) {
    folders.push_back(root + "/" + name);
    folders.push_back(root);
  }
  return folders;
}

}  // namespace mantissa::data
