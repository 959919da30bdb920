"""The OpenAI-compatible HTTP front-end: ``app.create_app`` makes the application, ``server`` serves it.

It turns JSON into ``SamplingParams`` and token ids, and ``Delta`` objects into JSON. It knows the engine's asynchronous
interface and its results; it must not know processes, schedulers, devices or which plugins exist.
"""
