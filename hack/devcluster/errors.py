"""What can go wrong with a development cluster, as one family: its messages are for the person at the keyboard."""


class ClusterError(Exception):
    """Base of all. The message says what happened and what to do about it."""


class BuildError(ClusterError):
    """The binaries are not there and could not be built."""


class PortsError(ClusterError):
    """No port is left."""


class AlreadyUpError(ClusterError):
    """A cluster of this name runs already."""


class KubectlError(ClusterError):
    """kubectl failed; the message is its own."""


class NotUpError(ClusterError):
    """No cluster of this name runs."""


class PartError(ClusterError):
    """A part did not become ready. The message ends with what it logged last."""

    def __init__(self, part: str, what: str, tail: str) -> None:
        super().__init__(f"{part} {what}; its last lines:\n{tail or '(it logged nothing)'}")
        self.part = part


class UnknownPartError(ClusterError):
    """There is no part, or no machine, of this name."""
