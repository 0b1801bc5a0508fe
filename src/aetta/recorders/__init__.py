"""What listens to the loop: files, alarms, exporters."""

from aetta.recorders.alarm import Alarm
from aetta.recorders.jsonl import Jsonl

__all__ = ["Alarm", "Jsonl"]
