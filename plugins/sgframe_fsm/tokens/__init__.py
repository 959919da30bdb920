"""From bytes to tokens: masks, matchers, and the tokens that are forced."""
