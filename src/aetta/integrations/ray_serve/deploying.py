"""What `serve.run` is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aetta.errors import BadOption, MissingExtra
from aetta.monitor import Monitor
from aetta.serving.settings import Settings

__all__ = ["application"]

ONGOING = 64  # requests a replica may have at once: its own queue makes batches of them
GRACE = 90.0  # seconds to digest what was answered, and write a checkpoint, when a replica is stopped
CHECK = 2.0  # seconds between two looks at whether a replica is alive


def application(
    build: Callable[[], Monitor],
    settings: Settings,
    *,
    replicas: int = 2,
    newcomers: str = "healthy",
    **deployment: Any,
) -> Any:
    """A Ray Serve application of so many replicas of a model that adapts.

    build: Makes a replica's monitor; it is called on the node where the replica runs.
    settings: As for `aetta serve`. Replica N keeps its state in `replica-N` of the state folder, on its node or on a
        disk the nodes share.
    newcomers: Where a replica starts that finds no checkpoint in its folder: from the snapshot of the "healthy" one
        with the highest estimate, if there is one, or from the "source".
    deployment: Options of `ray.serve.deployment`, such as `ray_actor_options` and `autoscaling_config`.
    """
    if replicas < 1 or newcomers not in ("healthy", "source"):
        raise BadOption(f"replicas is {replicas} (1 or more), newcomers {newcomers!r} (healthy or source)")
    try:
        from ray import serve
    except ImportError as absent:
        raise MissingExtra.of("ray[serve]", "ray-serve") from absent
    from aetta.integrations.ray_serve.replica import Replica

    options = {
        "name": settings.name,
        "max_ongoing_requests": ONGOING,
        "graceful_shutdown_timeout_s": GRACE,
        "health_check_period_s": CHECK,
        **({} if "autoscaling_config" in deployment else {"num_replicas": replicas}),
        **deployment,
    }
    made = serve.deployment(**options)(serve.ingress()(Replica))
    return made.bind(build, settings, newcomers)
