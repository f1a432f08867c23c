#include "observe/tensorboard_writer.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <protozero/pbf_writer.hpp>
#include <string>

#include "base/hash.h"

namespace stoker {
namespace {

// Field numbers of tensorflow/core/util/event.proto and framework/summary.proto.
enum class EventField : protozero::pbf_tag_type {
  kWallTime = 1,
  kStep = 2,
  kFileVersion = 3,
  kSummary = 5,
  kSessionLog = 7,
};
enum class SummaryField : protozero::pbf_tag_type { kValue = 1 };
enum class ValueField : protozero::pbf_tag_type { kTag = 1, kSimpleValue = 2 };
enum class SessionLogField : protozero::pbf_tag_type { kStatus = 1 };
constexpr int32_t kSessionStart = 1;

template <typename Field>
constexpr protozero::pbf_tag_type tag(Field field) {
  return static_cast<protozero::pbf_tag_type>(field);
}

void append_little_endian(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

// TFRecord's mask, so that a checksum of data that holds checksums stays good.
uint32_t masked_crc(std::string_view bytes) {
  uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

}  // namespace

TensorBoardWriter::TensorBoardWriter(const std::filesystem::path& folder, double start_time,
                                     std::optional<int64_t> resume_step) {
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  // A run resumed within the same second must not overwrite the earlier file.
  for (int attempt = 0; descriptor_.get() < 0; ++attempt) {
    path_ = folder / fmt::format("events.out.tfevents.{:010.0f}.stoker.{}", std::floor(start_time), attempt);
    descriptor_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (descriptor_.get() < 0 && errno != EEXIST) throw file_error("write", path_, errno);
  }
  write_header(start_time, resume_step);
}

void TensorBoardWriter::write_header(double start_time, std::optional<int64_t> resume_step) {
  std::string event;
  protozero::pbf_writer writer(event);
  writer.add_double(tag(EventField::kWallTime), start_time);
  writer.add_string(tag(EventField::kFileVersion), "brain.Event:2");
  write_record(event);
  if (resume_step) {
    event.clear();
    writer.add_double(tag(EventField::kWallTime), start_time);
    writer.add_int64(tag(EventField::kStep), *resume_step + 1);
    {
      protozero::pbf_writer session(writer, tag(EventField::kSessionLog));
      session.add_enum(tag(SessionLogField::kStatus), kSessionStart);
    }
    write_record(event);
  }
}

void TensorBoardWriter::write(int64_t step, double time, const MetricMap& metrics) {
  std::string event;
  protozero::pbf_writer writer(event);
  writer.add_double(tag(EventField::kWallTime), time);
  writer.add_int64(tag(EventField::kStep), step);
  {
    protozero::pbf_writer summary(writer, tag(EventField::kSummary));
    for (const auto& [name, value] : metrics) {
      if (!std::isfinite(value)) continue;
      protozero::pbf_writer entry(summary, tag(SummaryField::kValue));
      entry.add_string(tag(ValueField::kTag), name);
      entry.add_float(tag(ValueField::kSimpleValue), static_cast<float>(value));
    }
  }
  write_record(event);
}

void TensorBoardWriter::write_record(std::string_view event) {
  std::string record;
  append_little_endian(record, event.size(), 8);
  append_little_endian(record, masked_crc(record), 4);
  record.append(event);
  append_little_endian(record, masked_crc(event), 4);
  int code = write_all(descriptor_.get(), record);
  if (code != 0) throw file_error("write", path_, code);
}

}  // namespace stoker
