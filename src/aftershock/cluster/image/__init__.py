"""Container images without a daemon: built from layers, kept in one store for all nodes of all boxes.

`spec` says what an image is, `layers` builds the layers, `build` the images out of them, and
`store` unpacks them once and gives each kind of box the list of exactly its own.
"""
