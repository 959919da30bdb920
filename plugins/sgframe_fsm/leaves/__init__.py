"""The JSON values that hold no others: strings, numbers, and those known in full."""
