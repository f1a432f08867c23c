# Libraries from Debian 12; './dev setup' installs them.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(Boost 1.81 REQUIRED COMPONENTS json)
find_package(tomlplusplus REQUIRED)
find_package(mimalloc REQUIRED)
find_library(STOKER_PCRE2 pcre2-8 REQUIRED)
find_library(STOKER_UTF8PROC utf8proc REQUIRED)
find_package(ZLIB REQUIRED)
find_package(GTest REQUIRED)
