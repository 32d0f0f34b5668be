"""A broker for the tests of a `unittest.TestCase`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from odradek.testing.broker import Broker

if TYPE_CHECKING:
    from unittest import TestCase
else:
    TestCase = object


class KafkaTestCase(TestCase):
    """A mixin: `class OrdersTest(KafkaTestCase, unittest.TestCase)`.

    The tests of a class share `self.kafka`; a failed one prints the broker's log of its time.
    """

    kafka: ClassVar[Broker]
    kafka_settings: ClassVar[Mapping[str, str]] = {}
    """The settings of the broker, as in server.properties."""

    @classmethod
    def setUpClass(cls) -> None:
        """Start the broker."""
        super().setUpClass()
        cls.kafka = Broker(cls.kafka_settings).start()
        cls.addClassCleanup(cls.kafka.close)

    def run(self, result: Any = None) -> Any:
        """Run one test."""
        if not hasattr(self, "kafka"):
            return super().run(result)  # The class is skipped, or could not be set up.
        failed_before = _failures(result)
        position = self.kafka.log_bytes()
        done = super().run(result)
        self.kafka.heal()
        if _failures(result) > failed_before:
            self.kafka.keep_log()
            print(
                f"broker log of {self.id()}, kept in {self.kafka.log_path}:\n"
                f"{self.kafka.log(position)}",
                file=sys.stderr,
            )
        return done


def _failures(result: Any) -> int:
    return len(getattr(result, "failures", ())) + len(getattr(result, "errors", ()))
