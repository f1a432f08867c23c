#include "text/sentencepiece_file.h"

#include <fmt/format.h>

#include <protozero/pbf_reader.hpp>

#include "base/error.h"
#include "text/piece_vocabulary.h"

namespace stoker {
namespace {

using protozero::pbf_reader;

// A field's number with the form it must have; one of another form is skipped, as protobuf does.
constexpr uint32_t bytes_field(uint32_t tag) {
  return protozero::tag_and_type(tag, protozero::pbf_wire_type::length_delimited);
}
constexpr uint32_t number_field(uint32_t tag) {
  return protozero::tag_and_type(tag, protozero::pbf_wire_type::varint);
}
constexpr uint32_t float_field(uint32_t tag) {
  return protozero::tag_and_type(tag, protozero::pbf_wire_type::fixed32);
}

std::string_view view_of(const protozero::data_view& data) { return {data.data(), data.size()}; }

// Reads one ModelProto; the numbers are the fields' of sentencepiece_model.proto.
class ModelProtoReader {
 public:
  ModelProtoReader(std::string_view bytes, const std::string& what) : bytes_(bytes), what_(what) {}

  PieceVocabulary read() {
    try {
      for (pbf_reader model(bytes_.data(), bytes_.size()); model.next();) {
        switch (model.tag_and_type()) {
          case bytes_field(1):
            read_piece(model.get_message());
            break;
          case bytes_field(2):
            read_trainer(model.get_message());
            break;
          case bytes_field(3):
            read_normalizer(model.get_message());
            break;
          default:
            model.skip();
        }
      }
    } catch (const protozero::exception& error) {
      throw bad(
          fmt::format("is cut off or damaged behind piece {} ({})", vocabulary_.pieces.size(), error.what()));
    }
    if (vocabulary_.pieces.empty()) throw bad("holds no pieces");
    return std::move(vocabulary_);
  }

  int64_t bos() const { return bos_; }
  int64_t eos() const { return eos_; }

 private:
  Error bad(std::string_view sentence) const {
    return input_error(
        fmt::format("{}: the SentencePiece file {}; use the file of the model's makers.", what_, sentence));
  }

  void read_piece(pbf_reader piece) {
    PieceVocabulary::Piece result;
    while (piece.next()) {
      switch (piece.tag_and_type()) {
        case bytes_field(1):
          result.text = view_of(piece.get_view());
          break;
        case float_field(2):
          result.score = piece.get_float();
          break;
        case number_field(3):
          result.type = piece_type(piece.get_int32());
          break;
        default:
          piece.skip();
      }
    }
    vocabulary_.pieces.push_back(result);
  }

  PieceVocabulary::Type piece_type(int32_t type) const {
    if (type < 1 || type > 6) {
      throw bad(fmt::format("gives piece {} the unknown type {}", vocabulary_.pieces.size(), type));
    }
    return static_cast<PieceVocabulary::Type>(type);
  }

  void read_trainer(pbf_reader trainer) {
    vocabulary_.kind = PieceVocabulary::Kind::kUnigram;
    while (trainer.next()) {
      switch (trainer.tag_and_type()) {
        case number_field(3):
          read_kind(trainer.get_int32());
          break;
        case number_field(24):
          if (trainer.get_uint64() != 0)
            throw bad("writes blanks as suffixes, which Stoker does not support");
          break;
        case number_field(35):
          vocabulary_.byte_fallback = trainer.get_uint64() != 0;
          break;
        case number_field(41):
          bos_ = trainer.get_int32();
          break;
        case number_field(42):
          eos_ = trainer.get_int32();
          break;
        default:
          trainer.skip();
      }
    }
  }

  void read_kind(int32_t kind) {
    if (kind != 1 && kind != 2) {
      throw bad(fmt::format("holds a model of kind {}; Stoker supports 1 (unigram) and 2 (BPE)", kind));
    }
    vocabulary_.kind = kind == 1 ? PieceVocabulary::Kind::kUnigram : PieceVocabulary::Kind::kBpe;
  }

  void read_normalizer(pbf_reader normalizer) {
    vocabulary_.remove_extra_whitespaces = true;
    while (normalizer.next()) {
      switch (normalizer.tag_and_type()) {
        case bytes_field(2):
          vocabulary_.charsmap = std::string(view_of(normalizer.get_view()));
          break;
        case number_field(3):
          vocabulary_.add_dummy_prefix = normalizer.get_uint64() != 0;
          break;
        case number_field(4):
          vocabulary_.remove_extra_whitespaces = normalizer.get_uint64() != 0;
          break;
        case number_field(5):
          vocabulary_.escape_whitespaces = normalizer.get_uint64() != 0;
          break;
        default:
          normalizer.skip();
      }
    }
  }

  std::string_view bytes_;
  const std::string& what_;
  PieceVocabulary vocabulary_;
  int64_t bos_ = 1;  // the defaults of the format
  int64_t eos_ = 2;
};

bool config_flag(const Json& config, const char* key, bool absent) {
  const Json* value = config.find(key);
  return value != nullptr && value->is_bool() ? value->as_bool() : absent;
}

}  // namespace

bool looks_like_sentencepiece(std::string_view bytes) {
  // Field 1, a message, whose first field is a string: a piece and its text.
  if (bytes.size() < 4 || bytes[0] != '\x0A') return false;
  size_t at = 1;
  while (at < bytes.size() && at < 5 && (bytes[at] & 0x80) != 0) ++at;
  return at + 1 < bytes.size() && bytes[at + 1] == '\x0A';
}

Json sentencepiece_json(std::string_view bytes, const Json& config, const std::string& what) {
  ModelProtoReader reader(bytes, what);
  PieceVocabulary vocabulary = reader.read();
  auto is_control = [&](int64_t id) {
    return id >= 0 && id < static_cast<int64_t>(vocabulary.pieces.size()) &&
           vocabulary.pieces[id].type == PieceVocabulary::Type::kControl;
  };
  if (is_control(reader.bos()) && config_flag(config, "add_bos_token", true)) {
    vocabulary.before.push_back(static_cast<int32_t>(reader.bos()));
  }
  if (is_control(reader.eos()) && config_flag(config, "add_eos_token", false)) {
    vocabulary.after.push_back(static_cast<int32_t>(reader.eos()));
  }
  return piece_vocabulary_json(vocabulary, what);
}

}  // namespace stoker
