"""The runtime that torch devices share: loader, models, paged KV, row table, sampler, executor. Knows no device."""
