"""From "module:name" on the command line to definitions."""

import importlib
import os
import sys
from typing import Any, Callable, Dict, List, Optional, Sequence

from .adapters import gymnasium, trl, tunix, verl
from .definitions import (
    Definition,
    DefinitionError,
    Environment,
    Reward,
    Tool,
    definition_of,
    environment_of,
    reward_of,
)

KINDS: Dict[str, Callable[[Any, Optional[str]], Definition]] = {
    "tool": Tool,
    "reward": reward_of,
    "environment": environment_of,
    "trl": trl.definition,
    "verl": verl.definition,
    "tunix": tunix.definition,
    "gymnasium": gymnasium.definition,
}


class Catalogue:
    """What a process serves, by name."""

    def __init__(self, definitions: Sequence[Definition] = ()) -> None:
        self.environments: Dict[str, Environment] = {}
        self.tools: Dict[str, Tool] = {}
        self.rewards: Dict[str, Reward] = {}
        for each in definitions:
            self.add(each)

    def add(self, definition: Definition) -> None:
        group: Any = self.rewards
        if isinstance(definition, Environment):
            group = self.environments
        elif isinstance(definition, Tool):
            group = self.tools
        # An environment's own score is a reward of its name.
        others = self.environments if isinstance(definition, Reward) else self.rewards
        if definition.name in group or (not isinstance(definition, Tool) and definition.name in others):
            raise DefinitionError("two things of the name '%s' are served" % definition.name)
        group[definition.name] = definition


def load(names: Sequence[str]) -> Catalogue:
    """Imports what is named, the working folder first on the path; DefinitionError or what the import raised."""
    folder = os.getcwd()
    if folder not in sys.path and "" not in sys.path:
        sys.path.insert(0, folder)
    catalogue = Catalogue()
    for name in names:
        for definition in _load_one(name):
            catalogue.add(definition)
    return catalogue


def _load_one(name: str) -> List[Definition]:
    path, _, alias = name.partition("=")
    parts = path.split(":")
    kind = parts.pop(0) if len(parts) == 3 else None
    if len(parts) != 2 or not all(parts):
        raise DefinitionError(
            "'%s' names nothing: write MODULE:NAME, or KIND:MODULE:NAME, and =ALIAS behind it for another name" % name
        )
    if kind is not None and kind not in KINDS:
        raise DefinitionError("'%s' is no kind; they are: %s" % (kind, ", ".join(KINDS)))
    thing: Any = importlib.import_module(parts[0])
    for attribute in parts[1].split("."):
        if not hasattr(thing, attribute):
            raise DefinitionError("there is no '%s' in '%s'" % (parts[1], parts[0]))
        thing = getattr(thing, attribute)
    if isinstance(thing, (list, tuple)):  # several at once, as trainers take them
        things = list(thing)
    else:
        things = [thing]
    try:
        if alias and len(things) > 1:
            raise DefinitionError("several things cannot have one alias")
        return [_definition(kind, each, alias or None) for each in things]
    except TypeError as error:
        raise DefinitionError("'%s' cannot be served: %s" % (name, error)) from error


def _definition(kind: Optional[str], thing: Any, alias: Optional[str]) -> Definition:
    if isinstance(thing, (Tool, Reward, Environment)):
        if alias is not None:
            raise DefinitionError("it has its name already, and no alias")
        return thing
    return definition_of(thing, alias) if kind is None else KINDS[kind](thing, alias)
