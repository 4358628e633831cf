"""The Job webhooks: the same as for Pods, on the template of a Job with a queue label.

Kueue reserves what the template asks for, and the Job's Pods carry no queue label of their own. While a Job is
suspended the resources of its containers may still change, so it is judged again whenever its containers do.
"""

from __future__ import annotations

from gpustack_op.api.meta import PartialObject, Resource
from gpustack_op.operator.webhooks.pod import PodWebhook

JOBS = Resource("batch", "v1", "jobs", "Job", PartialObject, namespaced=True)


class JobWebhook(PodWebhook):
    template = ("spec", "template")
