"""The development cluster: a real control plane, Kueue and NFD as plain processes on loopback, with simulated nodes.

Nothing here needs a container engine or privileges, and nothing of it is part of the product. The layers, lowest first:

    paths, versions            where files live; which parts there are and what they are built from
    go, build                  the binaries, cached by the hash of everything that goes into them
    ports, certificates, kubeconfig, process, supervisor
                               what every process needs, and who notices when one ends
    control_plane, kueue, nfd, programs, node
                               one file a part: its command line and what it needs around it
    cluster                    all of it, as one `async with`
    daemon, cli                the same behind `hack/dev`, in a process of its own
    settle, demo               waiting until our programs are done; the tour for a newcomer behind `hack/demo`
"""
