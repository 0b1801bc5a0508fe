"""Replicas on Ray Serve, each with a monitor of its own: pip install 'aetta[ray-serve]'

    from ray import serve
    from aetta.integrations.ray_serve import application

    serve.run(application(build_monitor, settings, replicas=3))

A model that adapts has one owner, so replicas share no weights: each learns from the requests it answers, keeps its own
checkpoints, and is watched by itself. A healthy one's snapshot heals another, and starts the one that replaces a dead
one where it has no checkpoint of its own.
"""

from aetta.integrations.ray_serve.deploying import application

__all__ = ["application"]
