"""Gymnasium environments of words: one that speaks, and one whose actions are numbers.

python3 -m stoker_env try gymnasium:gym_lake:EchoEnv gym_lake:lake
"""

from types import SimpleNamespace

from stoker_env.adapters import gymnasium


class EchoEnv:
    """Repeat the words. (Where Gymnasium is installed, a subclass of gymnasium.Env.)"""

    def reset(self, *, seed=None, options=None):
        self.words = (options or {}).get("words", "hello")
        return "Say: %s" % self.words, {}

    def step(self, action):
        return "", 1.0 if action == self.words else 0.0, True, False, {}

    def close(self):
        pass


class LakeEnv:
    """Cross a row of four fields to the right: actions 0 left, 1 right; six steps at most."""

    action_space = SimpleNamespace(n=2)

    def reset(self, *, seed=None, options=None):
        self.place, self.steps = 0, 0
        return self.place, {}

    def step(self, action):
        self.place = max(0, self.place + (1 if action == 1 else -1))
        self.steps += 1
        return self.place, float(self.place == 3), self.place == 3, self.steps >= 6, {}

    def close(self):
        pass


lake = gymnasium.environment(
    LakeEnv,
    name="lake",
    instructions="You want to be on field 3. Answer 0 to go left, 1 to go right.",
    observe=lambda place: "You are on field %d." % place,
)
