"""Why the kubelet gets no devices; it makes the sentence the Pod's last word."""

from __future__ import annotations

import grpc

Code = grpc.StatusCode


class RefusalError(Exception):
    """`code` says what kind of failure it is, the sentence what was asked and why it cannot be."""

    def __init__(self, code: Code, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence
