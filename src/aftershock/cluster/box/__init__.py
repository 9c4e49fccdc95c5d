"""The box: an embedded Kubernetes cluster of namespaces, control groups and loop devices.

`layout` names everything of a box, `pki` its certificates, `network` its wires, `cgroups` its
limits, `node` its machines and `daemons` what runs on them. `lifecycle` puts them together,
`ready` says when a box may be relied on, `snapshot` saves and restores, `sweep` cleans.
"""
