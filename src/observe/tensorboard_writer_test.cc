#include "observe/tensorboard_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/testing/test_folder.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

// A reader that shares nothing with the writer: bitwise CRC, hand-written varints and fields.
uint32_t slow_masked_crc(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (unsigned char byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) ? (crc >> 1) ^ 0x82F63B78u : crc >> 1;
  }
  crc = ~crc;
  return std::rotr(crc, 15) + 0xA282EAD8u;
}

struct Reader {
  std::string_view rest;

  template <typename T>
  T fixed() {
    T value;
    if (rest.size() < sizeof(T)) throw std::runtime_error("cut");
    std::memcpy(&value, rest.data(), sizeof(T));
    rest.remove_prefix(sizeof(T));
    return value;
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      auto byte = fixed<uint8_t>();
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
  }
  std::string_view bytes(size_t size) {
    if (rest.size() < size) throw std::runtime_error("cut");
    std::string_view part = rest.substr(0, size);
    rest.remove_prefix(size);
    return part;
  }
};

struct Event {
  double wall_time = 0;
  int64_t step = 0;
  std::string file_version;
  std::map<std::string, float> values;
  int64_t session_status = 0;
};

void read_value(std::string_view message, Event& event) {
  Reader reader{message};
  std::string tag;
  float value = 0;
  while (!reader.rest.empty()) {
    uint64_t key = reader.varint();
    if (key == ((1 << 3) | 2)) {
      tag = reader.bytes(reader.varint());
    } else if (key == ((2 << 3) | 5)) {
      value = reader.fixed<float>();
    } else {
      throw std::runtime_error("unknown field of Value");
    }
  }
  event.values[tag] = value;
}

Event read_event(std::string_view message) {
  Event event;
  Reader reader{message};
  while (!reader.rest.empty()) {
    switch (reader.varint()) {
      case (1 << 3) | 1:
        event.wall_time = reader.fixed<double>();
        break;
      case (2 << 3) | 0:
        event.step = static_cast<int64_t>(reader.varint());
        break;
      case (3 << 3) | 2:
        event.file_version = reader.bytes(reader.varint());
        break;
      case (5 << 3) | 2: {
        Reader summary{reader.bytes(reader.varint())};
        while (!summary.rest.empty()) {
          EXPECT_EQ(summary.varint(), uint64_t{(1 << 3) | 2});
          read_value(summary.bytes(summary.varint()), event);
        }
        break;
      }
      case (7 << 3) | 2: {
        Reader session{reader.bytes(reader.varint())};
        EXPECT_EQ(session.varint(), uint64_t{(1 << 3) | 0});
        event.session_status = static_cast<int64_t>(session.varint());
        break;
      }
      default:
        throw std::runtime_error("unknown field of Event");
    }
  }
  return event;
}

std::vector<Event> read_events(const fs::path& path) {
  std::string content = read_file(path);
  Reader reader{content};
  std::vector<Event> events;
  while (!reader.rest.empty()) {
    std::string_view length_bytes = reader.rest.substr(0, 8);
    auto length = reader.fixed<uint64_t>();
    EXPECT_EQ(reader.fixed<uint32_t>(), slow_masked_crc(length_bytes));
    std::string_view data = reader.bytes(length);
    EXPECT_EQ(reader.fixed<uint32_t>(), slow_masked_crc(data));
    events.push_back(read_event(data));
  }
  return events;
}

class TensorBoard : public testing::Test {
 protected:
  const TestFolder test_folder_;
  const fs::path& folder_ = test_folder_.path();
};

TEST_F(TensorBoard, AnIndependentReaderGetsBackWhatWasWritten) {
  TensorBoardWriter writer(folder_ / "tensorboard", 1700000000.25);
  writer.write(1, 1700000001.5, {{"reward", 0.1}, {"reward_std", std::nan("")}, {"timing/train", 3}});
  writer.write(300, 1700000002.5, {{"reward", -2e30}});
  EXPECT_THAT(writer.path().filename().string(), testing::StartsWith("events.out.tfevents.1700000000."));
  std::vector<Event> events = read_events(writer.path());
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_EQ(events[0].wall_time, 1700000000.25);
  EXPECT_EQ(events[1].step, 1);
  EXPECT_EQ(events[1].wall_time, 1700000001.5);
  EXPECT_EQ(events[1].values, (std::map<std::string, float>{{"reward", 0.1f}, {"timing/train", 3.0f}}));
  EXPECT_EQ(events[2].step, 300);
  EXPECT_EQ(events[2].values, (std::map<std::string, float>{{"reward", -2e30f}}));
}

TEST_F(TensorBoard, AResumedRunForgetsLaterStepsAndKeepsTheEarlierFile) {
  TensorBoardWriter first(folder_, 1700000000);
  first.write(1, 1700000000, {{"reward", 1}});
  TensorBoardWriter second(folder_, 1700000000, 7);
  second.write(8, 1700000000, {{"reward", 2}});
  EXPECT_NE(first.path(), second.path());
  EXPECT_EQ(read_events(first.path()).size(), 2u);
  std::vector<Event> events = read_events(second.path());
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[1].session_status, 1);  // START: TensorBoard purges steps from here on
  EXPECT_EQ(events[1].step, 8);
}

TEST_F(TensorBoard, MovesAndRefusesAFolderThatCannotBe) {
  TensorBoardWriter first(folder_, 5);
  TensorBoardWriter second(std::move(first));
  second.write(1, 6, {{"a", 1}});
  EXPECT_EQ(read_events(second.path()).size(), 2u);
  write_file_atomic(folder_ / "file", "");
  EXPECT_THROW(TensorBoardWriter(folder_ / "file", 5), Error);
}

}  // namespace
}  // namespace stoker
