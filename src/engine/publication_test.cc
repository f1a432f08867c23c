#include "engine/publication.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/random.h"

namespace stoker {
namespace {

// What becomes of one replica.
enum class Fate { kCommits, kNotPrepared, kRefusesCommit, kInDoubt };

PublicationOutcome play(const std::vector<Fate>& fates) {
  Publication publication(3, static_cast<int>(fates.size()));
  for (size_t i = 0; i < fates.size(); ++i) {
    EXPECT_FALSE(publication.over());
    if (fates[i] == Fate::kNotPrepared) {
      publication.not_prepared(static_cast<int>(i));
    } else {
      publication.prepared(static_cast<int>(i));
    }
  }
  EXPECT_TRUE(publication.preparation_over());
  publication.start_commit();
  for (size_t i = 0; i < fates.size(); ++i) {
    const int replica = static_cast<int>(i);
    if (fates[i] == Fate::kCommits) publication.committed(replica);
    if (fates[i] == Fate::kRefusesCommit) publication.not_committed(replica);
    if (fates[i] == Fate::kInDoubt) publication.in_doubt(replica);
  }
  EXPECT_TRUE(publication.over());
  return publication.outcome();
}

TEST(Publication, HasAnOutcomeForEveryFateOfThreeReplicas) {
  constexpr Fate kFates[] = {Fate::kCommits, Fate::kNotPrepared, Fate::kRefusesCommit, Fate::kInDoubt};
  for (int i = 0; i < 64; ++i) {
    const std::vector<Fate> fates = {kFates[i % 4], kFates[i / 4 % 4], kFates[i / 16]};
    int serve = 0, doubtful = 0;
    for (const Fate fate : fates) {
      serve += fate == Fate::kCommits;
      doubtful += fate == Fate::kInDoubt;
    }
    const PublicationOutcome expected = doubtful > 0 ? PublicationOutcome::kUnknown
                                        : serve == 3 ? PublicationOutcome::kCommitted
                                        : serve == 0 ? PublicationOutcome::kAborted
                                                     : PublicationOutcome::kPartlyCommitted;
    EXPECT_EQ(play(fates), expected) << i;
  }
}

TEST(Publication, TellsNobodyToCommitBeforeAllAnswersAreIn) {
  Publication publication(1, 2);
  publication.prepared(0);
  EXPECT_THROW(publication.start_commit(), Error);
  EXPECT_THROW(publication.committed(0), Error);
  publication.not_prepared(1);
  EXPECT_TRUE(publication.start_commit());
  EXPECT_EQ(publication.phase(0), ReplicaPhase::kCommitting);
  EXPECT_EQ(publication.phase(1), ReplicaPhase::kLeftOut);
  EXPECT_THROW(publication.start_commit(), Error);
  EXPECT_THROW(publication.outcome(), Error);
  EXPECT_THROW(publication.committed(1), Error) << "it was never told";
  publication.committed(0);
  EXPECT_THROW(publication.in_doubt(0), Error) << "an answer is final";
}

TEST(Publication, IsOverWhereNobodyIsPrepared) {
  Publication publication(1, 1);
  publication.not_prepared(0);
  EXPECT_FALSE(publication.start_commit());
  EXPECT_EQ(publication.outcome(), PublicationOutcome::kAborted);
  EXPECT_THROW(Publication(1, 0), Error);
}

}  // namespace
}  // namespace stoker
