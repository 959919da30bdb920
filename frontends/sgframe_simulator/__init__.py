"""The trace simulator: the scheduler and cache that serve, driven by a recorded trace, a virtual clock and a cost model.

It knows core's contracts and the scheduler; it must not know which plugins exist, and no model, device or channel.
"""
