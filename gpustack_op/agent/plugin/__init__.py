"""The device plugin: what the kubelet is offered, how a card is given out, and what the node's books say of it."""
