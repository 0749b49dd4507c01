"""The function of a time selector as an expression, which Rust calls for each record."""

from dataclasses import dataclass

from engine.expression.lift import Lifted, Refusal, lift
from engine.network import TimeFunction
from operators.event_time.selector import TimeSelector


@dataclass(frozen=True)
class LiftedTime:
    """The function for Rust, as long as it is what it was."""

    function: TimeFunction
    lifted: Lifted

    @classmethod
    def of(cls, selector: TimeSelector) -> "LiftedTime | None":
        """None if the selector has no function, or that is not understood."""
        if not callable(selector.item):
            return None
        lifted = lift(selector.item, 1)
        if isinstance(lifted, Refusal):
            return None
        try:
            function = TimeFunction(lifted.expression.to_data(), selector.unit)
        except ValueError:
            return None
        return cls(function, lifted)

    def holds(self) -> bool:
        """Whether the user's function still computes that, and nobody watches how it runs."""
        return self.lifted.holds()
