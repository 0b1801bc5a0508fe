"""What listens to the loop: files, alarms, exporters."""

from aetta.recorders.alarm import Alarm
from aetta.recorders.jsonl import Jsonl
from aetta.recorders.mlflow import Mlflow
from aetta.recorders.opentelemetry import OpenTelemetry
from aetta.recorders.prometheus import Prometheus
from aetta.recorders.tensorboard import TensorBoard
from aetta.recorders.webhook import Webhook

__all__ = ["Alarm", "Jsonl", "Mlflow", "OpenTelemetry", "Prometheus", "TensorBoard", "Webhook"]
